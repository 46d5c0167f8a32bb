"""Claims about fairness between groups, and about security beside privacy."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

import discreet
from discreet.claims.central_model import company
from discreet.claims.claim import Evidence, Figure, Group, Run
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded, InvalidQuery
from discreet.fairness import fairness_report
from discreet.fairness.tradeoff import generated_loans, tradeoff
from discreet.learning.federated.crypto import agree, public, random_key
from discreet.report import Bars, Chart

GROUP = Group()

_SQUARE = [(1, 1)] * 90 + [(1, 0)] * 10 + [(0, 1)] * 30 + [(0, 0)] * 70
_ROUND = [(1, 1)] * 30 + [(1, 0)] * 10 + [(0, 1)] * 30 + [(0, 0)] * 130


def _selected() -> Any:
    """400 people: of 200 square ones 120 are selected, of 200 round ones 60."""
    label, prediction = (np.array(side) for side in zip(*_SQUARE, *_ROUND, strict=True))
    table = {"y": label, "yhat": prediction, "a": np.array(["square"] * 200 + ["round"] * 200)}
    return fairness_report(table, label="y", prediction="yhat", group="a").views[0]


@GROUP.claim("F1", "Statistical parity compares how often groups are selected, with sizes, gap, ratio and interval.")
def statistical_parity(run: Run) -> Evidence:
    """Counts that one can check by hand."""
    result = _selected().gap("statistical parity")
    return Evidence(
        [
            Figure.covered("difference", 0.3, result.difference.value, result.difference.low, result.difference.high),
            Figure.equal("difference of 120/200 and 60/200", 0.3, result.difference.value, within=1e-12),
            Figure.equal("ratio", 0.5, result.ratio.value, within=1e-12),
        ]
    )


@GROUP.claim("F2", "Conditional parity given a legitimate attribute can hold where parity over all does not.")
def conditional_parity(run: Run) -> Evidence:
    """Two faculties that each admit both groups alike (Simpson's paradox)."""
    rows = [("arts", "square", 40, 160), ("arts", "round", 10, 40), ("law", "square", 12, 8), ("law", "round", 120, 80)]
    table: dict[str, list[Any]] = {"given": [], "a": [], "yhat": []}
    for faculty, group, admitted, refused in rows:
        for answer, count in ((1, admitted), (0, refused)):
            for name, value in zip(table, (faculty, group, answer), strict=True):
                table[name] += [value] * count
    view = fairness_report(table, prediction="yhat", group="a", given="given").views[0]
    return Evidence(
        [
            Figure.equal(
                "gap over all", 130 / 250 - 52 / 220, view.gap("statistical parity").difference.value, within=1e-12
            ),
            Figure.equal("gap within faculties", 0, view.gap("conditional parity").difference.value, within=1e-12),
        ]
    )


@GROUP.claim("F3", "Equalized odds compares groups among those with the same true label.")
def equalized_odds(run: Run) -> Evidence:
    """Rates of right and wrong selections, by group."""
    view = _selected()
    result = view.gap("equalized odds")
    return Evidence(
        [
            Figure.equal(
                "true positive rate, square", 0.9, view.rate("true positive rate", "square").value, within=1e-12
            ),
            Figure.equal(
                "true positive rate, round", 0.75, view.rate("true positive rate", "round").value, within=1e-12
            ),
            Figure.equal("gap", 0.15, result.difference.value, within=1e-12),
        ]
    )


@GROUP.claim(
    "F4", "In the recidivism case, those not arrested again were labeled high risk about twice as often if black."
)
def recidivism(run: Run) -> Evidence:
    """A table with the published counts of defendants by race, outcome and label."""
    counts = {"Black": (990, 805, 532, 1369), "White": (1139, 349, 461, 505)}
    table: dict[str, list[Any]] = {"race": [], "again": [], "high": []}
    for race, numbers in counts.items():
        for (again, high), count in zip(((0, 0), (0, 1), (1, 0), (1, 1)), numbers, strict=True):
            for name, value in zip(table, (race, again, high), strict=True):
                table[name] += [value] * count
    view = fairness_report(table, label="again", prediction="high", group="race").views[0]
    black, white = (view.rate("false positive rate", race) for race in counts)
    return Evidence(
        [
            Figure.equal("labeled high risk, black", 0.448, black.value, within=0.001),
            Figure.equal("labeled high risk, white", 0.235, white.value, within=0.001),
            Figure.equal("ratio", 1.912, black.value / white.value, within=0.001),
            Figure.at_least("distance of the two intervals", 0, black.low - white.high),
        ]
    )


@GROUP.claim("F5", "Parity can cost accuracy, and equalized odds keeps more of it.")
def cost_of_parity(run: Run) -> Evidence:
    """A bank that lends by income, to groups that differ in income."""
    loans = generated_loans(run.size(8_000, 20_000))
    curve = tradeoff(loans["score"], loans["repays"], loans["group"], ["statistical parity", "equalized odds"])
    costs = {name: curve.cost(name) for name in ("statistical parity", "equalized odds")}
    return Evidence(
        [
            Figure.at_least("accuracy that equalized odds costs", 0.005, costs["equalized odds"]),
            Figure.at_least(
                "accuracy that parity costs beyond it", 0, costs["statistical parity"] - costs["equalized odds"]
            ),
        ],
        [curve.chart()],
    )


_BANK = """
[dataset]
name = "bank"
neighbors = "add or remove one"
time_floor = 0
[budget]
epsilon = 1
everyone = "all"
[tables.people]
source = "python"
unit = "id"
max_groups_per_unit = 1
max_rows_per_group = 1
columns.id = {type = "integer", nullable = false}
columns.a = {type = "text", values = ["few", "many"]}
columns.y = {type = "integer", values = [0, 1]}
"""


@GROUP.claim("F6", "A fairness audit goes through the curator, so the sensitive attribute never leaves it.")
def private_audit(run: Run) -> Evidence:
    """A model that errs more on a minority; the audit's intervals cover the exact gap."""
    rng, n = np.random.default_rng(run.seed), 20_000
    group, label = np.where(rng.random(n) < 0.1, "few", "many"), rng.integers(0, 2, n)
    said = np.where(rng.random(n) < np.where(group == "few", 0.7, 0.9), label, 1 - label)
    table = pa.table({"id": np.arange(n), "a": group, "y": label})
    with discreet.open(
        parse_policy(_BANK), tables={"people": table}, ledger=Ledger(MemoryStore()), analyst="ann"
    ) as data:
        predictions = {"id": np.arange(n), "prediction": said}
        answer = data.audit_fairness("people", predictions, label="y", group="a", epsilon="0.5", confidence="0.999999")
    truth = fairness_report({"y": label, "p": said, "a": group}, label="y", prediction="p", group="a").views[0]
    exact, result = truth.gap("equal accuracy").difference.value, answer.gap("equal accuracy", "table").difference
    return Evidence(
        [
            Figure.covered("difference in accuracy", exact, result.value, result.low, result.high),
            Figure.at_most("width of the interval", 0.1, result.high - result.low),
            Figure.equal("ε left of 1", 0.5, answer.receipt.remaining),
        ]
    )


@GROUP.claim(
    "G1",
    "Security decides who may ask, privacy what an answer reveals; pads and key agreement are used where they belong.",
)
def security(run: Run) -> Evidence:
    """Refusals of rows and of spent budgets, a one-time pad, and two parties that agree on a key."""
    outcomes = {}
    with company(1, run.seed) as (data, ledger, _):
        for name, sql, epsilon in (
            ("rows", "SELECT age FROM people", 1),
            ("too much", "SELECT COUNT(*) FROM people", 2),
        ):
            try:
                data.ask(sql, epsilon=epsilon)
            except (InvalidQuery, BudgetExceeded) as error:
                outcomes[name] = type(error).__name__
        charged = len(ledger.charges("company"))
    seen = [Counter(secret ^ key for key in range(16)) for secret in range(16)]
    pad = all(counts == Counter(range(16)) for counts in seen)
    sent = [Bars([f"{word:x}" for word in range(16)], [seen[s][word] / 16 for word in range(16)], label=f"secret {s}")
            for s in (3, 12)]  # fmt: skip
    ann, bob = random_key(run.entropy()), random_key(run.entropy(1))
    return Evidence(
        [
            Figure.equal("private rows are refused", "InvalidQuery", outcomes.get("rows", "nothing")),
            Figure.equal("more than the budget is refused", "BudgetExceeded", outcomes.get("too much", "nothing")),
            Figure.equal("charges for what was refused", 0, charged),
            Figure.equal("under a one-time pad every secret looks the same", True, pad),
            Figure.equal(
                "two parties agree on one key",
                True,
                agree(ann, public(bob), b"claim") == agree(bob, public(ann), b"claim"),
            ),
        ],
        [Chart("Chance of what is sent, under a one-time pad", sent)],
    )
