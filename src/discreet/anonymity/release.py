"""From a table and a policy to a table that may leave the house, with what it reached and what it cost.

>>> from discreet.anonymity import Policy, anonymize
>>> policy = Policy.of({
...     "anonymity": {"k": 2, "method": "local"},
...     "columns": {"name": "identifier", "zip": {"quasi": "prefixes"}, "illness": "sensitive"},
... })
>>> people = {"name": [*"ABCD"], "zip": ["13053", "13068", "14850", "14853"], "illness": [*"abcd"]}
>>> anonymize(people, policy).table.to_pydict()
{'zip': ['130**', '130**', '1485*', '1485*'], 'illness': ['a', 'b', 'c', 'd']}
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.anonymity import lattice, recoding
from discreet.anonymity.classes import Classes
from discreet.anonymity.coded import Coded, Recoding
from discreet.anonymity.models import Target
from discreet.anonymity.mondrian import Partition, partition
from discreet.anonymity.operations import coarsened, padded, suppressed
from discreet.anonymity.policy import Policy
from discreet.anonymity.report import release_page, risk_page
from discreet.anonymity.verdict import Verdict, verify
from discreet.drawing import Facts, Page, Text
from discreet.errors import InternalError, InvalidParameter
from discreet.noise import Entropy
from discreet.tables import as_arrow, column, texts

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True, eq=False)
class Anonymized:
    """The released table, and how it came about. `original` is private; so is everything that names a small class."""

    table: "pyarrow.Table"
    policy: Policy
    original: "pyarrow.Table"
    recoding: Recoding | Partition
    verdict: Verdict
    dummies: int = 0

    @property
    def suppressed(self) -> int:
        """How many rows have `*` in every quasi-identifier."""
        return self.verdict.suppressed

    @property
    def done(self) -> list[str]:
        """What was done, in sentences."""
        policy = self.policy
        steps = [f"Removed: {', '.join(policy.identifiers)}."] if policy.identifiers else []
        steps += [f"Coarsened to level {level}: {rule.column}." for rule, level in policy.coarsen]
        steps += [f"Recoded ({policy.method}) to {policy.target.name}: {', '.join(policy.names)}."]
        steps += [f"Suppressed {self.suppressed:,} rows: * in every quasi-identifier."] if self.suppressed else []
        steps += (
            [f"Added {self.dummies:,} made-up rows; counts over the table are too high by them."]
            if self.dummies
            else []
        )
        return steps

    def text(self) -> str:
        """What was done and what was reached, as lines."""
        return "\n".join([*self.done, self.verdict.text(), f"information lost (NCP): {self.recoding.ncp:.4f} of 1"])

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        reached = self.verdict.as_dict()
        return {"done": self.done, "ncp": self.recoding.ncp, "dummies": self.dummies, "verdict": reached}

    def page(self, **settings: Any) -> Page:
        """The report: risk before and after, what was reached, what was lost, what none of it promises."""
        target, secrets = self.policy.target, tuple(self.policy.sensitive)
        if isinstance(self.recoding, Recoding):
            return release_page(self.original, self.recoding, target, done=self.done, sensitive=secrets, **settings)
        page = risk_page(self.table, self.policy.names, models=target.models, sensitive=secrets, **settings)
        lost = Facts({"information lost (NCP), of 1": self.recoding.ncp})
        return Page(page.title, [*map(Text, self.done), lost, *page.parts], lead=page.lead)

    def _repr_html_(self) -> str:
        return self.page().fragment()


def anonymize(table: Any, policy: Policy, *, entropy: Entropy | None = None) -> Anonymized:
    """Anonymise a table as a policy says.

    Guarantee: the target holds for every class of the released table, read again from its texts; a row whose
    quasi-identifiers are all `*` is in no class. It is no guarantee of privacy: see `Anonymized.page`.
    """
    prepared = policy.prepared(as_arrow(table))
    for rule, level in policy.coarsen:
        prepared = coarsened(prepared, rule.hierarchy(prepared), level=level)
    made = _recoded(prepared, policy)
    released, dummies = made.table(prepared), 0
    if policy.small == "dummies":
        released, dummies = padded(released, policy.names, k=policy.k, entropy=entropy)
    released, models = _members(released, policy)
    verdict = verify(released, quasi=policy.names, models=models)
    if not verdict.holds:
        raise InternalError("the released table, read again, does not satisfy the policy; nothing was released")
    return Anonymized(released, policy, prepared, made, verdict, dummies)


def _recoded(table: "pyarrow.Table", policy: Policy) -> Recoding | Partition:
    if policy.method == "mondrian":
        _only_with_optimal(policy)
        return partition(table, policy.names, policy.target.bind(table, quasi=policy.names))
    coded = Coded.of(table, [rule.hierarchy(table) for rule in policy.quasi])
    target = policy.target.bind(table, quasi=policy.names)
    if policy.method == "local":
        _only_with_optimal(policy)
        return recoding.local(coded, target)
    made = lattice.optimal(coded, target, suppression=policy.suppression)
    if policy.small == "suppress":
        return made
    if len(policy.target.models) > 1:
        raise InvalidParameter("anonymity.small", "dummies", "no model but k", "made-up rows cannot mend other models")
    return Recoding(made.coded, made.levels, np.zeros(made.coded.rows, np.bool_))


def _only_with_optimal(policy: Policy) -> None:
    if policy.suppression or policy.small != "suppress":
        raise InvalidParameter("anonymity.method", policy.method, "'optimal' where rows are suppressed or made up")


def _members(table: "pyarrow.Table", policy: Policy) -> "tuple[pyarrow.Table, Target]":
    """The rows of the members alone, where the table is a population; and what is checked again afterwards.

    Classes of the population shrink to their members: rows of those that then fail the rest are suppressed.
    """
    if policy.presence is None or policy.presence.member is None:
        return table, policy.target
    member = policy.presence.member
    inside = np.isin([text.lower() for text in texts(column(table, member)).to_pylist()], ["true", "1", "yes"])
    released = table.filter(inside).drop_columns([member])
    rest = Target.of(*(model for model in policy.target.models if model is not policy.presence))
    classes = Classes.of_table(released, policy.names)
    fits = rest.bind(released, quasi=policy.names, feasible=False).holds(classes)
    failing = np.append(~fits, True)[classes.of_row]  # suppressed rows stay so
    return suppressed(released, failing, policy.names), rest
