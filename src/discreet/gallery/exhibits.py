"""One exhibit: what is done, against what, and what came of it.

Exhibits on released tables: linkage, homogeneity, inference, fingerprints, two releases together.

Exhibits on records and networks without names.

Exhibits on answers: composition, differencing, averaging, reconstruction, and the budget that ends them.

Exhibits on promises: audits that catch broken mechanisms, and the bound on any guess.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np

from discreet.anonymity import Policy, anonymize
from discreet.anonymity.uniques import unique_sets
from discreet.attacks import AttackReport
from discreet.attacks.answers.accumulation import Accumulation, accumulation_charts
from discreet.attacks.answers.answerers import Noisy, Raw, Rounded, Suppressed
from discreet.attacks.answers.averages import Averaging, Differencing, pairs_about
from discreet.attacks.answers.composition import two_tables
from discreet.attacks.answers.intersection import Intersection, two_hospitals
from discreet.attacks.answers.reconstruction import Reconstruction, against_budget, against_noise, random_subsets
from discreet.attacks.audit import audit_mechanism
from discreet.attacks.audit.targets import Guessing
from discreet.attacks.audit.zoo import audit_zoo, bounds, table
from discreet.attacks.generated import Town, town
from discreet.attacks.records.graph import GraphMatching
from discreet.attacks.records.networks import overlapping, rewired, society
from discreet.attacks.records.ratings import catalog, coarse, common, planted
from discreet.attacks.records.sparse import SparseMatching
from discreet.attacks.tables.inference import Inference, Linkability
from discreet.attacks.tables.linkage import Linkage, LinkedSecret
from discreet.attacks.tables.singling_out import SinglingOut
from discreet.gallery.harm import Heights, Smoking
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.randomized_response import KRR
from discreet.noise import DeterministicEntropy
from discreet.report import Bars, Chart, Grid, Heading, Part, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A subject: its words, and the function that makes its pictures from a seed."""

    name: str
    title: str
    claims: tuple[str, ...]
    words: str
    show: Callable[[int], "ExhibitResult"] = field(repr=False)

    def run(self, *, seed: int) -> "ExhibitRun":
        """Attack, and keep the time."""
        start = monotonic()
        shown = self.show(seed)
        return ExhibitRun(self, shown, monotonic() - start)


@dataclass(frozen=True, slots=True, eq=False)
class ExhibitResult:
    """What an exhibit shows: reports, and what does not fit into one."""

    reports: Sequence[AttackReport] = ()
    more: Sequence[Part] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ExhibitRun:
    """An exhibit after its run."""

    exhibit: Exhibit
    shown: ExhibitResult
    seconds: float

    def parts(self) -> list[Part]:
        """Its part of the page."""
        claims = f" (claims {', '.join(self.exhibit.claims)})" if self.exhibit.claims else ""
        parts: list[Part] = [Heading(self.exhibit.title), Text(self.exhibit.words + claims + ".")]
        if len(self.shown.reports) > 1:
            parts.append(summary([self]))
        for report in self.shown.reports:
            parts += [Text(f"Against {report.against}:"), *report.parts()]
        return [*parts, *self.shown.more]


def summary(finished: Sequence[ExhibitRun]) -> Grid:
    """A line for each attack: what was tried, how often it succeeded, what guessing reaches, what follows."""
    rows = [
        [report.attack, report.against, repr(report.success), repr(report.reference), report.verdict]
        for result in finished
        for report in result.shown.reports
    ]
    return Grid(["attack", "against", "success", "guessing or control", "verdict"], rows)


_QUASI = ("zip", "sex", "born")
_CONDITION, _SCHOOLING = "condition", "schooling"
_EPSILON = 1


def _policy(k: int, models: list[dict[str, Any]]) -> Policy:
    columns = {
        "zip": {"quasi": "prefixes"},
        "sex": {"quasi": "flat"},
        "born": {"quasi": "dates"},
        "race": {"quasi": "flat"},
        "admitted": {"coarsen": "dates", "level": 2},
        "condition": {"sensitive": models},
    }
    return Policy.of({"anonymity": {"k": k, "method": "local"}, "columns": columns})


def _linkage(seed: int) -> ExhibitResult:
    place = town(people=40_000, seed=seed)  # enough for a verdict on the rarest secret, too
    coarse = anonymize(place.visits, _policy(5, [])).table
    settings: dict[str, Any] = {"known": place.voters, "on": list(_QUASI), "name": "person", "truth": place.patients}
    reports = [
        Linkage(released=place.visits, against="the table without names", **settings).run(),
        Linkage(released=coarse, against="the table made 5-anonymous", **settings).run(),
        _secrets(place, _independent(place.visits, seed), f"a table of independent columns, ε = {_EPSILON}"),
    ]
    return ExhibitResult(reports)


def _secrets(place: Town, released: Any, against: str) -> Any:
    """Learning the condition of voters through the row that is linked with them."""
    answers, members = _answers(place)
    return LinkedSecret(
        released=released, known=place.voters, on=list(_QUASI), answers=answers, members=members, against=against,
        repeated=True, secret=_CONDITION,
    ).run()  # fmt: skip


def _answers(place: Town) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.bool_]]]:
    """For each voter, the condition of their visit; and who had one."""
    condition = dict(zip(place.patients.tolist(), place.visits["condition"].to_pylist(), strict=True))
    names = place.voters["person"].to_pylist()
    inside = np.array([name in condition for name in names])
    common = place.visits["condition"].to_pylist()
    return [condition.get(name, common[i % len(common)]) for i, name in enumerate(names)], inside


def _independent(table: Any, seed: int) -> dict[str, list[Any]]:
    """A synthetic table: each column drawn by itself from its noisy histogram (one row of one person a visit)."""
    entropy, rng = DeterministicEntropy(seed), np.random.default_rng(seed)
    made: dict[str, list[Any]] = {}
    for name in table.column_names:
        values, counts = np.unique(table[name].to_pylist(), return_counts=True)
        noise = Geometric(epsilon=f"{_EPSILON}/{len(table.column_names)}", sensitivity=1)
        noisy = np.maximum(np.asarray(noise.release(counts, entropy=entropy)), 0).astype(float)
        made[name] = rng.choice(values, table.num_rows, p=noisy / noisy.sum()).tolist()
    return made


def _homogeneity(seed: int) -> ExhibitResult:
    visits = _clinics(4000, seed)
    reports = []
    for models, words in (
        ([], "5-anonymous"),
        ([{"model": "distinct", "l": 3}], "5-anonymous, 3 conditions in each class"),
    ):
        policy = Policy.of({
            "anonymity": {"k": 5, "method": "optimal"},
            "columns": {
                "zip": {"quasi": "prefixes"},
                "age": {"quasi": "intervals", "low": 0, "high": 99, "widths": [10, 20, 40]},
                _CONDITION: {"sensitive": models},
            },
        })  # fmt: skip
        released = anonymize(visits, policy).table
        attack = Intersection(
            releases=[released], known=visits, outside=_clinics(4000, seed + 1, in_clinic=False), on=list(policy.names),
            sensitive=_CONDITION, against=f"one table, {words}",
        )  # fmt: skip
        reports.append(attack.run())
    return ExhibitResult(reports)


def _clinics(people: int, seed: int, *, in_clinic: bool = True) -> dict[str, list[Any]]:
    """Visits in 60 ZIP codes; in a third of them the clinic treats one illness. Other people there have any."""
    rng = np.random.default_rng(seed)
    zips, ages, ills = rng.integers(0, 60, people), rng.integers(18, 90, people), rng.integers(0, 8, people)
    special = np.where((zips < 20) & in_clinic, zips // 10, ills)
    return {
        "zip": [f"{13000 + 100 * z}" for z in zips],
        "age": ages.tolist(),
        _CONDITION: [f"illness {ill}" for ill in special],
    }


def _numbers(table: Any, k: int, models: list[dict[str, Any]]) -> Policy:
    """All columns but the condition and the sex are numbers, to be cut by Mondrian."""
    columns: dict[str, Any] = {name: {"quasi": "number"} for name in table if name not in (_CONDITION, "sex")}
    columns |= {"sex": "other"} if "sex" in table else {}
    return Policy.of(
        {"anonymity": {"k": k, "method": "mondrian"}, "columns": columns | {_CONDITION: {"sensitive": models}}}
    )


def _fingerprints(seed: int) -> ExhibitResult:
    place = town(people=20_000, seed=seed)
    people = place.people.drop_columns(["person"])
    result = unique_sets(people, share="0.5", largest=4)
    rows = [[", ".join(unique.columns), unique.share] for unique in result.sets[:12]]
    bars = Bars([column.name for column in result.columns], [column.alone for column in result.columns])
    parts: list[Part] = [
        Text(f"All {len(result.columns)} columns together single out {result.together:.1%} of {result.rows:,} people."),
        Grid(["columns together", "share of people singled out"], rows, "the smallest sets that single out half"),
        Chart("Share of people that each column singles out alone", [bars], y="share", y_range=(0, 1)),
    ]
    return ExhibitResult(more=parts)


def _inference(seed: int) -> ExhibitResult:
    place = town(people=32_000, seed=seed)
    people = place.people.drop_columns(["person"])
    order = np.random.default_rng(seed).permutation(people.num_rows)
    inside, outside, other = (people.take(order[part::4]) for part in range(3))
    known = [name for name in people.column_names if name != _SCHOOLING]
    half = len(known) // 2
    common: dict[str, Any] = {"people": inside, "controls": outside, "seed": seed}
    reports = []
    for released, against in ((inside, "an exact copy"), (other, "a table of other people")):
        reports += [
            Inference(released=released, known=known, secret=_SCHOOLING, against=against, **common).run(),
            SinglingOut(released=released, width=3, against=against, tries=2000, **common).run(),
            Linkability(released=released, left=known[:half], right=known[half:], against=against, **common).run(),
        ]
    return ExhibitResult(reports)


def _intersection(seed: int) -> ExhibitResult:
    pair = two_hospitals(people=4000, shared=2000, conditions=60, seed=seed)
    reports = []
    for k in (2, 5, 10):
        policy = _numbers(pair.first, k, [])
        releases = [anonymize(hospital, policy).table for hospital in (pair.first, pair.second)]
        reports.append(
            Intersection(
                releases=releases, known=pair.both, outside=pair.neither, on=list(policy.names), sensitive=_CONDITION,
                against=f"two tables, each {k}-anonymous",
            ).run()
        )  # fmt: skip
    return ExhibitResult(reports)


_TABLES = (
    Exhibit(
        name="linkage",
        title="A table without names, and a list with them",
        claims=("A3",),
        words="An anonymous hospital table is joined with the voter list by ZIP code, sex and date of birth",
        show=_linkage,
    ),
    Exhibit(
        name="homogeneity",
        title="Everybody in the class has the same secret",
        claims=("A2",),
        words="Nobody is named, but where all rows of a class have the same condition, it is revealed anyway",
        show=_homogeneity,
    ),
    Exhibit(
        name="fingerprints",
        title="Harmless columns become a fingerprint",
        claims=("A11",),
        words="Which columns together single people out, among all sets of up to four",
        show=_fingerprints,
    ),
    Exhibit(
        name="inference",
        title="Inference, singling out and linkability",
        claims=(),
        words="The three risks that data protection authorities name, measured against a control group",
        show=_inference,
    ),
    Exhibit(
        name="intersection",
        title="Two k-anonymous tables of the same people",
        claims=("A6",),
        words="Two hospitals publish k-anonymous tables; whoever was in both is in the intersection of two classes",
        show=_intersection,
    ),
)


def _sparse(seed: int) -> ExhibitResult:
    films = catalog(people=20_000, items=4000, mean=60, seed=seed)
    case = planted(films, targets=300, absent=300, known=6, seed=seed)
    hidden = common(coarse(case.released, days=400), items=25)
    return ExhibitResult([
        SparseMatching(released=case.released, auxiliary=case.auxiliary, truth=case.truth, against="all ratings").run(),
        SparseMatching(
            released=hidden, auxiliary=case.auxiliary, truth=case.truth, against="the 25 best known films, no dates"
        ).run(),
    ])  # fmt: skip


def _graph(seed: int) -> ExhibitResult:
    people = society(nodes=20_000, mean=25, seed=seed)
    pair = overlapping(people, node_overlap="0.6", edge_overlap="0.6", seed=seed)
    seeds = pair.seeds(80, seed=seed)
    mixed = rewired(pair.released, share="0.8", seed=seed)
    return ExhibitResult([
        GraphMatching(released=pair.released, auxiliary=pair.auxiliary, seeds=seeds, truth=pair.truth).run(),
        GraphMatching(
            released=mixed, auxiliary=pair.auxiliary, seeds=seeds, truth=pair.truth, against="four of five ties rewired"
        ).run(),
    ])  # fmt: skip


_RECORDS = (
    Exhibit(
        name="sparse",
        title="A few ratings single out a record",
        claims=("A4",),
        words="Six films that somebody rated, with rough dates, single out the record among thousands",
        show=_sparse,
    ),
    Exhibit(
        name="graph",
        title="A network without names",
        claims=("A5",),
        words="Starting from a few known people, one network is matched with another, tie by tie",
        show=_graph,
    ),
)


_PEOPLE = 400
_CROWD = 3000


def _secret(seed: int, people: int = _PEOPLE) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.random.default_rng(seed).random(people) < 0.3


def _composition(seed: int) -> ExhibitResult:
    return ExhibitResult([two_tables().run(), two_tables(noisy=True).run()])


def _accumulation(seed: int) -> ExhibitResult:
    exact = Accumulation(people=200, answers=40, trials=200, seed=seed)
    budgeted = Accumulation(people=200, answers=40, trials=200, seed=seed, total=1)
    charts = accumulation_charts({"exact answers": exact.curves(), "randomized, ε 1 in all": budgeted.curves()})
    return ExhibitResult([exact.run(), budgeted.run()], charts)


def _differencing(seed: int) -> ExhibitResult:
    ill = _secret(seed)
    people = range(0, _PEOPLE, 2)
    one, many = (pairs_about(people, of=_PEOPLE, groups=groups, seed=seed) for groups in (1, 100))
    asked = ill[::2]
    crowd = _secret(seed, _CROWD)  # many, so that there is no doubt that it holds
    spread = pairs_about(range(_CROWD), of=_CROWD, groups=1, seed=seed)
    paid = Noisy(Raw(crowd), epsilon="0.05", seed=seed)
    return ExhibitResult([
        Differencing(pairs=one, truth=asked, answerer=Raw(ill)).run(),
        Differencing(pairs=many, truth=asked, answerer=Rounded(Raw(ill), base=5)).run(),
        Differencing(pairs=spread, truth=crowd, answerer=paid, epsilon="0.1").run(),
    ])  # fmt: skip


def _averaging(seed: int) -> ExhibitResult:
    ill = _secret(seed + 1, 100)
    again = [[[person]] * 200 for person in range(100)]
    crowd = _secret(seed + 1, _CROWD)
    once = [[[person]] for person in range(_CROWD)]
    loose = Noisy(Raw(ill), epsilon="0.5", seed=seed)
    paid = Noisy(Raw(crowd), epsilon="0.1", seed=seed)
    return ExhibitResult([
        Averaging(questions=again, truth=ill, answerer=loose, possible=(0, 1)).run(),
        Averaging(questions=once, truth=crowd, answerer=paid, epsilon="0.1", possible=(0, 1)).run(),
    ])  # fmt: skip


def _reconstruction(seed: int) -> ExhibitResult:
    ill, questions = _secret(seed + 2), 4 * _PEOPLE
    subsets = random_subsets(questions, people=_PEOPLE, seed=seed)
    raw, crowd = Raw(ill), _secret(seed + 2, 1500)  # few people would leave open what a budget holds
    budget = Noisy(Raw(crowd), epsilon="1/1500", seed=seed)
    among = random_subsets(1500, people=1500, seed=seed)
    reports = [
        Reconstruction(subsets=subsets, truth=ill, answerer=raw, against="exact answers").run(),
        Reconstruction(
            subsets=subsets, truth=ill, answerer=Rounded(raw, base=10), scale=5, against="rounded to tens"
        ).run(),
        Reconstruction(
            subsets=subsets, truth=ill, answerer=Suppressed(raw, below=5), missing=(0, 4), against="no counts below 5"
        ).run(),
        Reconstruction(subsets=among, truth=crowd, answerer=budget, scale=1500, against="ε 1 for all answers").run(),
    ]
    noise = against_noise(people=300, questions=1200, ratios=[0, 0.1, 0.2, 0.5, 1, 2, 5], seed=seed)
    paid = against_budget(people=300, questions=1200, epsilons=["0.1", 1, 10, 100, 1000, 10_000], seed=seed)
    return ExhibitResult(reports, [noise.chart(), paid.chart()])


def _harm(seed: int) -> ExhibitResult:
    smoking = Smoking(smokers=100, ill=60, others=100, others_ill=10, epsilon="0.5", seed=seed)
    return ExhibitResult([Heights(people=2000, epsilon=1, seed=seed).run(), smoking.run()])


_ANSWERS = (
    Exhibit(
        name="composition",
        title="Two harmless answers, one person",
        claims=("A6", "A7"),
        words="The least age and the greatest weight of those with the disease: each matches two people, both only one",
        show=_composition,
    ),
    Exhibit(
        name="accumulation",
        title="Answers add up",
        claims=("A8",),
        words="Exact answers leave fewer and fewer candidates; randomized ones within a budget do not",
        show=_accumulation,
    ),
    Exhibit(
        name="differencing",
        title="Subtracting one person",
        claims=("B11",),
        words="The difference of two counts is one person's secret; rounding does not help",
        show=_differencing,
    ),
    Exhibit(
        name="averaging",
        title="Repeating a question",
        claims=("B10", "B11"),
        words="Without a ledger, fresh noise averages away; a budget prevents it",
        show=_averaging,
    ),
    Exhibit(
        name="reconstruction",
        title="Too many answers reveal the database",
        claims=("A9",),
        words="Counts over random subsets are equations; solving them reveals every secret bit, unless there is noise",
        show=_reconstruction,
    ),
    Exhibit(
        name="harm",
        title="What no release can prevent",
        claims=("A10",),
        words="What is learned about everybody is learned about you; taking part hardly changes it",
        show=_harm,
    ),
)


def _audit(seed: int) -> ExhibitResult:
    right = audit_mechanism(Geometric(epsilon=1, sensitivity=1), x=0, neighbor=1, samples=100_000, seed=seed).run()
    result = audit_zoo(seed=seed)
    caught = sum(report.broken for _, report in result)
    words = Text(f"Of {len(result)} broken mechanisms the audit catches {caught}.")
    return ExhibitResult([right], [words, table(result), bounds(result)])


def _guessing(seed: int) -> ExhibitResult:
    response = KRR(epsilon=1, size=2).channel()
    return ExhibitResult([Guessing(mechanism=response, first=0, second=1, epsilon=1, trials=20_000, seed=seed).run()])


_PROMISES = (
    Exhibit(
        name="audit",
        title="Auditing privacy claims",
        claims=("B1",),
        words="A lower bound on ε from outputs alone; it catches mechanisms that were once believed private",
        show=_audit,
    ),
    Exhibit(
        name="guessing",
        title="The limit of guessing",
        claims=("B9",),
        words="Which of two neighbors was it? The best test compared with what ε allows",
        show=_guessing,
    ),
)

EXHIBITS = (*_TABLES, *_RECORDS, *_ANSWERS, *_PROMISES)
