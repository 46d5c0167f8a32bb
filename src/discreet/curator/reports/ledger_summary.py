"""The ledger of a dataset in sum: its policy, the rows of its account, and what follows from them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from discreet.curator.charges import own_totals, spent_epsilon
from discreet.curator.policy import Policy
from discreet.curator.reports.budget_report import number, settings_in
from discreet.curator.settings import analyst_name, settings_of
from discreet.curator.stores import Head, Row
from discreet.privacy import loss as losses
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Loss


@dataclass(frozen=True)
class LedgerSummary:
    """A policy and the rows of its account. `names`, `texts`: whether analysts, and what they asked, may be told."""

    policy: Policy
    rows: Sequence[Row]
    head: Head
    names: bool
    texts: bool

    @cached_property
    def budget(self) -> Budget:
        """The budget in force."""
        return settings_in(self.rows)[0]

    @cached_property
    def grants(self) -> list[Budget]:
        """Every budget that was in force, in order."""
        return [settings_of(row.settings).budget for row in self.rows if row.settings is not None]

    @cached_property
    def charges(self) -> list[Row]:
        """Every row that is a charge."""
        return [row for row in self.rows if row.kind == "charge"]

    @property
    def amendments(self) -> list[Row]:
        """Every row that changed the settings."""
        return [row for row in self.rows if row.kind == "amend"]

    @cached_property
    def total(self) -> Spent:
        """What was spent in all."""
        return Spent.from_json(self.rows[-1].total)

    def analysts(self) -> dict[str, str]:
        """Analysts in the order of their first charge, and what they are called here."""
        everybody = dict.fromkeys(analyst_name(row.who) for row in self.charges)
        return {who: who if self.names else f"analyst {place}" for place, who in enumerate(everybody, 1)}

    def by_analyst(self) -> list[dict[str, Any]]:
        """For each analyst, as called here: how many charges, and their ε taken alone."""
        own, counts = own_totals(self.charges), Counter(analyst_name(row.who) for row in self.charges)
        return [
            {
                "analyst": called,
                "charges": counts[who],
                "epsilon": number(spent_epsilon(self.budget, own[who])),
            }
            for who, called in self.analysts().items()
        ]

    def kinds(self) -> list[tuple[Loss, int]]:
        """One loss of each kind that occurs, and in how many charges, the most frequent first."""
        counts: Counter[type[Loss]] = Counter()
        examples: dict[type[Loss], Loss] = {}
        for text, count in Counter(row.loss or "" for row in self.charges).items():
            parts = {type(part): part for part in _parts(losses.from_json(text))}
            counts.update(dict.fromkeys(parts, count))
            examples |= parts
        return [(examples[kind], count) for kind, count in counts.most_common()]


def _parts(loss: Loss) -> Iterator[Loss]:
    """A loss and all losses inside it."""
    yield loss
    match loss:
        case losses.Repeated():
            yield from _parts(loss.loss)
        case losses.Together() | losses.Parallel():
            for part in loss.losses:
                yield from _parts(part)
