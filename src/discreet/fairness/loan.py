"""A generated loan example: two groups of different income, a bank that lends by income alone.

Repayment depends on income and on nothing else. So lending by income treats equals equally (conditional parity given
income holds), and yet one group gets fewer loans (statistical parity fails): equal shares of loans would cost accuracy.

>>> from discreet.fairness.loan import Loans
>>> loans = Loans.generated(people=1000)
>>> sorted(loans.table), len(loans.table["income"])
(['granted', 'group', 'income', 'repays', 'score'], 1000)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.exact import integer
from discreet.fairness.bootstrap import uniforms
from discreet.noise import DeterministicEntropy, Entropy

INCOMES = ("under 20", "20 to 40", "40 to 60", "60 to 80", "over 80")
SHARES = {"square": (0.1, 0.2, 0.3, 0.25, 0.15), "round": (0.3, 0.3, 0.2, 0.15, 0.05)}
"""How the two groups are spread over incomes."""
REPAYS = (0.1, 0.3, 0.6, 0.8, 0.95)
"""The chance to repay, by income, the same in both groups."""
_ROUND = 0.4  # of the people


@dataclass(frozen=True, slots=True, eq=False)
class Loans:
    """People with group, income, score (the chance to repay), whether they repay and whether the bank lends."""

    table: dict[str, Any]

    @classmethod
    def generated(cls, people: int = 20_000, *, entropy: Entropy | None = None) -> "Loans":
        """Draw people; the bank lends where repayment is likelier than not. The same people each time, by default."""
        count = integer(people, "people", at_least=1, at_most=10_000_000)
        source = DeterministicEntropy(9) if entropy is None else entropy
        group = np.where(uniforms(count, source) < _ROUND, 1, 0)
        upto = np.cumsum([SHARES["square"], SHARES["round"]], axis=1)[group]
        income = np.minimum((uniforms(count, source)[:, None] >= upto).sum(axis=1), len(INCOMES) - 1)
        score = np.array(REPAYS)[income]
        repays = (uniforms(count, source) < score).astype(np.int64)
        return cls(
            {
                "group": np.array(list(SHARES))[group],
                "income": np.array(INCOMES)[income],
                "score": score,
                "repays": repays,
                "granted": (score > 0.5).astype(np.int64),
            }
        )


def expected_rates() -> dict[str, float]:
    """The share of each group that gets a loan, expected: what `generated` comes close to.

    >>> {name: round(share, 2) for name, share in expected_rates().items()}
    {'square': 0.7, 'round': 0.4}
    """
    lends = np.array(REPAYS) > 0.5
    return {name: float(np.array(shares)[lends].sum()) for name, shares in SHARES.items()}
