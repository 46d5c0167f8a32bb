"""Claims about anonymization and the attacks that break it."""

import math
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from discreet.anonymity import Hierarchy, Policy, anonymize
from discreet.anonymity.masking import coarsened, redacted
from discreet.anonymity.models import DistinctDiversity, KAnonymity, verify
from discreet.attacks.answers.accumulation import Accumulation, accumulation_charts
from discreet.attacks.answers.answerers import Raw
from discreet.attacks.answers.composition import two_tables
from discreet.attacks.answers.reconstruction import Reconstruction, against_budget, random_subsets
from discreet.attacks.generated import town
from discreet.attacks.records.graph import GraphMatching
from discreet.attacks.records.networks import overlapping, rewired, society
from discreet.attacks.records.ratings import catalog, planted
from discreet.attacks.records.sparse import SparseMatching
from discreet.attacks.tables.linkage import Linkage, fingerprint, uniqueness
from discreet.claims.claim import Evidence, Figure, Group, Run
from discreet.exact import exp_up
from discreet.gallery.harm import Heights, Smoking
from discreet.report import Bars, Chart, Line

GROUP = Group()

_INPATIENTS = {
    "zip": ["13053", "13068", "13068", "13053", "14853", "14853", "14850", "14850", "13053", "13053", "13068", "13068"],
    "age": [28, 29, 21, 23, 50, 55, 47, 49, 31, 37, 36, 35],
    "nationality": ["RU", "US", "JP", "US", "IN", "RU", "US", "US", "US", "IN", "JP", "US"],
    "condition": ["Heart", "Heart", "Viral", "Viral", "Cancer", "Heart", "Viral", "Viral", *["Cancer"] * 4],
}
_INPATIENT_POLICY = """
[anonymity]
k = 4
method = "local"
[columns]
zip = { quasi = "prefixes" }
age = { quasi = "ages.csv" }
nationality = { coarsen = "flat", level = 1 }
condition = "sensitive"
"""
_SURE = 1 - 1e-6


@GROUP.claim("A1", "Anonymization has two operations: columns are dropped, and values are made coarser.")
def two_operations(run: Run) -> Evidence:
    """Names go, ZIP codes and ages lose resolution."""
    table = redacted({"name": ["Ann", "Bo"], "zip": ["13053", "14850"], "age": [28, 41]}, ["name"])
    table = coarsened(table, Hierarchy.prefixes("zip", table.column("zip")), level=2)
    ages = Hierarchy.rows("age", [(age, "<30" if age < 30 else "≥30") for age in range(120)])
    rows = coarsened(table, ages, level=1).to_pydict()
    left = set(coarsened({"age": list(range(120))}, ages, level=1).to_pydict()["age"])
    return Evidence(
        [
            Figure.equal("columns that are left", "zip, age", ", ".join(rows)),
            Figure.equal("13053 with two digits less", "130**", rows["zip"][0]),
            Figure.equal("28 in steps of a threshold", "<30", rows["age"][0]),
        ],
        [Chart("Ages that can be told apart", [Bars(["as collected", "made coarser"], [120, len(left)])])],
    )


@GROUP.claim(
    "A2", "Twelve inpatients become 4-anonymous, and one class still reveals its secret; l-diversity detects it."
)
def homogeneity(run: Run) -> Evidence:
    """Local recoding, then both models are checked on what is released."""
    with TemporaryDirectory() as folder:
        labels = ("<30" if age < 30 else "3*" if age < 40 else "≥40" for age in range(18, 91))
        lines = "\n".join(f"{age};{label};*" for age, label in enumerate(labels, 18))
        (Path(folder) / "ages.csv").write_text(lines, encoding="utf-8")
        (Path(folder) / "policy.toml").write_text(_INPATIENT_POLICY, encoding="utf-8")
        policy = Policy.read(Path(folder) / "policy.toml")
        released = anonymize(_INPATIENTS, policy)
    verdict = verify(
        released.table, quasi=["zip", "age", "nationality"], models=[KAnonymity(4), DistinctDiversity(2, "condition")]
    )
    classes = dict.fromkeys(zip(*(released.table[name].to_pylist() for name in ("zip", "age")), strict=True))
    named = ", ".join(f"{place} {age}" for place, age in classes)
    return Evidence(
        [
            Figure.equal("classes", "130** <30, 1485* ≥40, 130** 3*", named),
            Figure.equal("people in the smallest class", 4, released.verdict.smallest),
            Figure.equal("4-anonymous", True, verdict.findings[0].holds),
            Figure.equal("2-diverse", False, verdict.findings[1].holds),
            Figure.equal("people whose condition is known", 4, verdict.findings[1].failing_people),
        ]
    )


@GROUP.claim(
    "A3", "A medical table without names, joined with a voter list on ZIP code, sex and date of birth, names people."
)
def linkage(run: Run) -> Evidence:
    """A generated town whose ZIP codes are as small as those of the famous figure."""
    quasi = ["zip", "sex", "born"]
    place = town(people=run.size(20_000, 50_000), seed=run.seed)
    report = Linkage(
        released=place.visits, known=place.voters, on=quasi, name="person", truth=place.patients, confidence=_SURE
    ).run()
    unique, outside = uniqueness(place.people, quasi), report.control or report.baseline
    return Evidence(
        [
            Figure.equal("share of people who are unique", 0.87, unique, within=0.08),
            Figure.attack("share of patients who are named", "falls", report),
            Figure.share("named among people outside the table", "hardly any", outside, holds=outside.high < 0.02),
        ],
        report.charts,
    )


@GROUP.claim("A4", "A handful of roughly known ratings with dates singles out one record among very many.")
def sparse_matching(run: Run) -> Evidence:
    """Ratings off by one, dates off by two weeks, one in ten wrong; and as many people who are not there."""
    everybody = catalog(people=run.size(6_000, 20_000), items=3000, mean=40, seed=run.seed)
    case = planted(everybody, targets=150, absent=150, known=8, seed=run.seed + 1)
    report = SparseMatching(released=case.released, auxiliary=case.auxiliary, truth=case.truth, confidence=_SURE).run()
    wrong = report.facts["named wrongly"]
    return Evidence(
        [
            Figure.attack("share of people who are named by eight ratings", "falls", report),
            Figure.at_least("at least, of those who are there", 0.8, report.success.low),
            Figure.share("named wrongly", "few", wrong, holds=wrong.value < 0.1),
        ],
        report.charts,
    )


@GROUP.claim(
    "A5", "Seeds and the structure of a network identify a third of the people in two networks, with few errors."
)
def graph_matching(run: Run) -> Evidence:
    """Half of the people and a third of the edges in common; the published run has 30.8 % right, 12.1 % wrong."""
    network = society(nodes=run.size(5_000, 8_000), mean=40, seed=run.seed, directed=False)
    pair = overlapping(network, node_overlap="0.5", edge_overlap="0.4", seed=run.seed)
    known: dict[str, Any] = {"auxiliary": pair.auxiliary, "truth": pair.truth, "seeds": pair.seeds(100, seed=run.seed)}
    report = GraphMatching(released=pair.released, **known).run()
    exchanged = GraphMatching(released=rewired(pair.released, share=1, seed=run.seed), **known).run()
    wrong = report.facts["named wrongly"]
    return Evidence(
        [
            Figure.share("named rightly", "≥ 30.8 %", report.success, holds=report.success.low > 0.308),
            Figure.share("named wrongly", "≤ 12.1 %", wrong, holds=wrong.high < 0.121),
            Figure.attack("named after all friends are exchanged", "holds", exchanged),
        ],
        report.charts,
    )


@GROUP.claim("A6", "k-anonymity does not compose: two 2-anonymous answers together single out one person.")
def composition(run: Run) -> Evidence:
    """The least age and the greatest weight of those who are ill."""
    attack = two_tables()
    alone = [
        len(attack.belief().after(question.channel, answer).candidates)
        for question, answer in zip(attack.questions, attack.observed or (), strict=True)
    ]
    beliefs = attack.beliefs()
    return Evidence(
        [
            Figure.equal("people who fit the least age, 40", 2, alone[0]),
            Figure.equal("people who fit the greatest weight, 100", 2, alone[1]),
            Figure.equal("people who fit both", 1, len(beliefs[-1].candidates)),
            Figure.equal("who it is", "Don", _names(beliefs[-1].candidates)),
        ],
        attack.run().charts,
    )


def _names(candidates: Any) -> str:
    """The people of one candidate set; several sets are told apart by "or"."""
    return " or ".join(", ".join(sorted(people)) for people in candidates)


@GROUP.claim("A7", "The same two answers with noise leave the posterior spread over everybody.")
def noisy_composition(run: Run) -> Evidence:
    """Bayes' rule in rationals; the posterior of Don is 112/285 by hand."""
    attack = two_tables(noisy=True)
    last = list(attack.by_person().values())[-1]
    first, second = (question.channel for question in attack.questions)
    worst = max(
        attack.belief().after(first, age).after(second, weight).largest
        for age in first.outputs
        for weight in second.outputs
    )
    return Evidence(
        [
            Figure.equal("posterior that it is Don", Fraction(112, 285), last["Don"]),
            Figure.equal("people who are ruled out", 0, sum(chance == 0 for chance in last.values())),
            Figure.at_most("surest conclusion from any two answers", Fraction(256, 489), worst),
        ],
        attack.run().charts,
    )


@GROUP.claim("A8", "Exact answers intersect to one person as they accumulate; noisy ones within a budget do not.")
def accumulation(run: Run) -> Evidence:
    """A thousand people, forty answers."""
    city = {"people": 1000, "answers": 40, "trials": 60, "seed": run.seed}
    exact, noisy = Accumulation(**city).curves(), Accumulation(**city, total=1).curves()
    return Evidence(
        [
            Figure.equal("people left after forty exact answers", 1, float(exact.candidates[:, -1].max())),
            Figure.equal("people left after forty noisy ones", 1000, float(noisy.candidates[:, -1].min())),
            Figure.at_most(
                "largest posterior at ε 1 in all, e/1000", math.e / 1000 * (1 + 1e-9), float(noisy.largest.max())
            ),
        ],
        accumulation_charts({"exact": exact, "ε 1 in all": noisy}),
    )


@GROUP.claim(
    "A9", "Overly accurate answers to too many questions reveal the data; behind a sensible budget they do not."
)
def reconstruction(run: Run) -> Evidence:
    """Random subsets of people, their secret bits by least squares (Dinur, Nissim 2003)."""
    rng = np.random.default_rng(run.seed)
    secret = rng.random(300) < 0.4
    subsets = random_subsets(1200, people=300, seed=run.seed)
    report = Reconstruction(subsets=subsets, truth=secret, answerer=Raw(secret)).run()
    curve = against_budget(people=1000, questions=2000, epsilons=["0.1", 1, 100, 10_000], seed=run.seed, rate=0.5)
    shares = [share.value for share in curve.shares]
    chart = Chart(
        "Secret bits recovered from 2,000 answers about 1,000 people",
        [
            Line([0.1, 1, 100, 10_000], shares, "recovered"),
            Line([0.1, 10_000], [curve.guessing] * 2, "guessing", dashed=True),
        ],
        x="ε in all", y="share", log_x=True,
    )  # fmt: skip
    return Evidence(
        [
            Figure.at_least("bits recovered from exact answers", 0.95, report.success.value),
            Figure.at_most("bits recovered at ε 1 beyond guessing", 0.05, shares[1] - curve.guessing),
            Figure.at_least("bits recovered at ε 10,000", 0.95, shares[3]),
        ],
        [chart],
    )


@GROUP.claim("A10", "Nobody can promise no harm at all, but only that your own row changes little.")
def no_harm(run: Run) -> Evidence:
    """A height relative to a published average, and a study of smoking: both harm people who took no part."""
    heights = Heights(people=4000, epsilon=1, seed=run.seed).run()
    study = Smoking(smokers=100, ill=60, others=100, others_ill=10, epsilon="0.5")
    control = heights.control or heights.baseline
    return Evidence(
        [
            Figure.share(
                "heights learned of people outside the study", "nearly all", control, holds=control.value > 0.99
            ),
            Figure.equal("illness of a smoker before the study", Fraction(7, 20), study.before),
            Figure.at_least("and after it, without the smoker's row", 0.55, study.without_you.inference),
            Figure.at_most("factor by which the row changes an outcome", exp_up(Fraction("0.5")), study.ratio),
        ]
    )


@GROUP.claim("A11", "Columns that are harmless alone become a fingerprint together.")
def fingerprints(run: Run) -> Evidence:
    """Browsers with fonts that are there or not, and a few settings."""
    rng, count = np.random.default_rng(run.seed), 5000
    table: dict[str, Any] = {f"font {i}": rng.random(count) < 0.2 + 0.05 * i % 0.6 for i in range(14)}
    few = {name: rng.zipf(1.8, count) % size for name, size in (("screen", 12), ("language", 20), ("time zone", 24))}
    columns = [*table, *few]
    table = {**table, **few}
    steps = fingerprint(table, columns)
    chart = Chart(
        "People who are unique by so many columns",
        [Line(range(1, len(steps) + 1), [share for _, share in steps], "unique")],
        x="columns", y="share",
    )  # fmt: skip
    return Evidence(
        [
            Figure.at_most("unique by any one column", 0.01, max(uniqueness(table, [name]) for name in columns)),
            Figure.at_least("unique by all seventeen", 0.8, steps[-1][1]),
        ],
        [chart],
    )
