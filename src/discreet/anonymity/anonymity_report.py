"""Reports on an anonymized table, or on a table that somebody thinks of releasing, as one HTML page.

They hold aggregate facts only: sizes, shares, distances. No value of a small class is named. Still, a report is about
private data and is for its owner; publish it only after reading it as an attacker would.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Cells, Classes, Ints, Sensitive, rows_of
from discreet.anonymity.information_loss import Utility, utility
from discreet.anonymity.models import Model, Target, Verdict, judge, verify
from discreet.anonymity.recoding import Recoding
from discreet.anonymity.risk import REGULATORS, Risk, risk
from discreet.anonymity.uniques import LARGEST, Fingerprints, unique_sets
from discreet.errors import InvalidData
from discreet.exact import Number
from discreet.report import Bars, Chart, Facts, Grid, Heading, Heat, Page, Part, Text
from discreet.report import Verdict as Sign

_BINS = (1, 2, 3, 5, 10, 20, 50, 100, 500)
_FEW = 12  # sets and pairs shown in a table


def release_page(
    original: Any,
    recoding: Recoding,
    target: "Target | Model",
    *,
    done: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    population: "int | NDArray[Any] | None" = None,
    threshold: Number = REGULATORS,
    share: Number = "0.5",
    units: Ints | None = None,
    verdict: Verdict | None = None,
    title: str = "Anonymized table",
) -> Page:
    """What was done, risk before and after, models reached, utility, and what none of it promises.

    `done`: sentences on what was done before (columns removed, …). `sensitive`: further columns in which classes are
    checked for a single value. `population`: people of whom the table is a sample, or the size of each class there.
    `units`: the person of each row as a number, where one may have several. `verdict`: that on the released table.

    >>> from discreet.anonymity import Coded, Hierarchy
    >>> from discreet.anonymity.models import KAnonymity
    >>> table = {"zip": ["13053", "13053", "13068", "13068"]}
    >>> coded = Coded.of(table, [Hierarchy.prefixes("zip", ["13053", "13068"])])
    >>> recoding = Recoding.full_domain(coded, [2], np.zeros(4, bool))
    >>> "does not promise" in release_page(table, recoding, KAnonymity(4)).html()
    True
    """
    arrow = rows_of(original)
    if arrow.num_rows != recoding.coded.rows:
        raise InvalidData(f"the recoding is of {recoding.coded.rows} rows, the table has {arrow.num_rows}")
    whole, names = Target.of(target), recoding.coded.names
    before, after = Classes.of(list(recoding.coded.codes)), recoding.classes
    counted = population if isinstance(population, int | np.integer) else None
    risks = (
        risk(before, threshold=threshold, population=counted, units=units),
        risk(after, threshold=threshold, population=population, units=units),
    )
    reached = verdict or judge(after, whole.bind(arrow, quasi=names, feasible=False, units=units).parts)
    costs = utility(recoding, k=_k(whole))
    secrets = tuple(dict.fromkeys([*_columns(whole), *sensitive]))
    parts: list[Part] = [
        *_done(done, recoding, costs),
        *_models(reached),
        *_homogeneity(arrow, after, secrets),
        *_risks(("before", risks[0]), ("after", risks[1])),
        _sizes(("before", before), ("after", after)),
        *_costs(costs),
        *_prints(unique_sets(arrow, names, share=share, units=units), "the quasi-identifiers of the original table"),
        *_limits(whole),
    ]
    return Page(title, parts, lead=f"{arrow.num_rows:,} rows; quasi-identifiers: {', '.join(names)}.")


def risk_page(
    table: Any,
    quasi: Sequence[str],
    *,
    models: "Sequence[Model] | Target" = (),
    sensitive: Sequence[str] = (),
    population: "int | NDArray[Any] | None" = None,
    threshold: Number = REGULATORS,
    columns: Sequence[str] | None = None,
    share: Number = "0.5",
    largest: int = LARGEST,
    units: Ints | None = None,
    title: str = "Risk of a table",
) -> Page:
    """The risks of a table as it is, the models that it satisfies, and the column sets that single people out.

    `columns`: those among which such sets are looked for; all of them unless named. `units`: the person of each row as
    a number, where one may have several; people are counted then.

    >>> page = risk_page({"sex": ["F", "F", "M"], "town": ["Pisa", "Rome", "Rome"]}, ["sex"])
    >>> "prosecutor" in page.html()
    True
    """
    arrow = rows_of(table)
    names = tuple(quasi)
    classes = Classes.of_table(arrow, names)
    result = risk(classes, threshold=threshold, population=population, units=units)
    whole = models if isinstance(models, Target) else Target.of(*models) if models else None
    secrets = tuple(dict.fromkeys([*(_columns(whole) if whole else ()), *sensitive]))
    prints = unique_sets(arrow, columns, share=share, largest=largest, units=units)
    parts: list[Part] = [
        *(_models(verify(arrow, quasi=names, models=whole, sensitive=sensitive, units=units)) if whole else ()),
        *_homogeneity(arrow, classes, secrets),
        *_risks(("this table", result)),
        _sizes(("this table", classes)),
        *_prints(prints, "all its columns" if columns is None else "the named columns"),
        *_limits(whole),
    ]
    return Page(title, parts, lead=f"{arrow.num_rows:,} rows; quasi-identifiers: {', '.join(names)}.")


def homogeneous(classes: Classes, column: Sensitive) -> tuple[int, int]:
    """How many classes of two or more rows hold a single known value of a column, and how many rows those hold.

    >>> table = {"zip": ["a", "a", "b", "b"], "ill": ["flu", "flu", "flu", "ulcer"]}
    >>> homogeneous(Classes.of_table(table, ["zip"]), Sensitive.of(table, "ill"))
    (1, 2)
    """
    cells = Cells.of(classes, column.codes, column.values)
    single = (cells.distinct == 1) & (classes.sizes > 1)
    return int(single.sum()), int(classes.sizes[single].sum())


# The parts of a page


def _done(done: Sequence[str], recoding: Recoding, costs: Utility) -> list[Part]:
    hidden = int(recoding.suppressed.sum())
    rows = []
    for place, hierarchy in enumerate(recoding.coded.hierarchies):
        levels = recoding.levels[place][~recoding.suppressed]
        used = f"{levels.min()} to {levels.max()}" if levels.size else "–"
        rows.append((hierarchy.name, hierarchy.leaves, hierarchy.height, used, costs.drifts[place].ncp))
    header = ("column", "values", "coarsest level", "levels used", "NCP")
    return [
        Heading("What was done"),
        *[Text(sentence) for sentence in done],
        Grid(header, rows, "Level 0 is the value itself; NCP is the share of its detail that was lost."),
        Text(f"{hidden:,} of {recoding.coded.rows:,} rows are suppressed: their quasi-identifiers are all *.")
        if hidden
        else Text("No row is suppressed."),
    ]


def _models(verdict: Verdict) -> list[Part]:
    signs: list[Part] = []
    for finding in verdict.findings:
        where = "1 class" if finding.failing_classes == 1 else f"{finding.failing_classes:,} classes"
        failing = f" It fails in {where} with {finding.failing_people:,} {verdict.counted}."
        sentence = f"{finding.name}: reached {finding.reached_words}." + ("" if finding.holds else failing)
        signs.append(Sign("holds" if finding.holds else "fails", sentence, finding.holds))
        signs.append(Text(f"{finding.words.promise} {finding.words.gap}"))
    if verdict.hidden is not None:
        word, sentence = verdict.hidden.text().split(maxsplit=1)
        signs.append(Sign(word, f"{sentence[0].upper()}{sentence[1:]}.", verdict.hidden.holds))
    counted = {"rows": "A row is taken for a person.", "people": "People are counted, each once in a class."}
    return [Heading("Models"), Text(counted[verdict.counted]), *signs]


def _homogeneity(table: Any, classes: Classes, names: Sequence[str]) -> list[Part]:
    rows = []
    for name in names:
        single, people = homogeneous(classes, Sensitive.of(table, name))
        rows.append((name, classes.count, single, people))
    if not rows:
        return []
    caption = "Classes of two or more rows that agree on a secret: to know the class is to know the secret."
    return [
        Heading("Secrets that a class tells"),
        Grid(("column", "classes", "of one value", "rows in them"), rows, caption),
    ]


def _risks(*named: tuple[str, Risk]) -> list[Part]:
    risks = [risk for _, risk in named]
    counted = risks[0].counted
    columns: dict[str, list[Any]] = {
        f"{counted} in classes": [risk.rows for risk in risks],
        "classes": [risk.classes for risk in risks],
        f"unique {counted}": [risk.sample_uniques for risk in risks],
        "share unique": [risk.unique_share for risk in risks],
        "prosecutor, highest": [risk.prosecutor.highest for risk in risks],
        "prosecutor, mean": [risk.prosecutor.mean for risk in risks],
        f"share of {counted} above {risks[0].threshold:.3g}": [risk.prosecutor.at_risk for risk in risks],
        "journalist, highest": [risk.journalist.highest for risk in risks if risk.journalist],
        "journalist, mean": [risk.journalist.mean for risk in risks if risk.journalist],
        "marketer": [risk.marketer for risk in risks],
        "unique in the population too (estimate)": [
            risk.population_uniques.still_unique for risk in risks if risk.population_uniques
        ],
    }
    rows = [(name, *values) for name, values in columns.items() if len(values) == len(risks)]
    caption = (
        "The prosecutor knows that somebody is in the table; the journalist wants to name anybody; the marketer as "
        f"many as possible (population: {named[-1][1].source})."
    )
    return [Heading("Risk of being singled out"), Grid(("", *[name for name, _ in named]), rows, caption)]


def _sizes(*named: tuple[str, Classes]) -> Chart:
    """The share of the rows in classes of each size; suppressed rows are in none."""
    labels = [_bin(low, high) for low, high in zip(_BINS, [*_BINS[1:], None], strict=True)]
    marks = []
    for name, classes in named:
        places = np.searchsorted(_BINS, classes.sizes, side="right") - 1
        people = np.bincount(places, classes.sizes, minlength=len(_BINS))
        rows = len(classes.of_row) if classes.weights is None else int(classes.weights.sum())
        marks.append(Bars(labels, people / rows, name if len(named) > 1 else ""))
    return Chart("How many rows look the same", marks, x="rows in the class", y="share of all rows")


def _bin(low: int, high: int | None) -> str:
    if high is None:
        return f"{low}+"
    return str(low) if high == low + 1 else f"{low}–{high - 1}"


def _costs(costs: Utility) -> list[Part]:
    names = [drift.name for drift in costs.drifts]
    facts: dict[str, Any] = {
        "normalized certainty penalty (0: nothing lost, 1: all)": costs.ncp,
        "rows suppressed": f"{costs.suppressed_share:.2%}",
        "mean class size": costs.mean_size,
        "median class size": costs.median_size,
        "discernibility": costs.discernibility,
    }
    if costs.average is not None:
        facts["mean class size over k (1 is best)"] = costs.average
    moved = [
        Bars(names, [drift.variation for drift in costs.drifts], "total variation"),
        Bars(names, [drift.moved for drift in costs.drifts], "earth mover's, in the hierarchy"),
    ]
    parts: list[Part] = [
        Heading("What it costs"),
        Facts(facts),
        Chart("How far each column's distribution moved", moved, y="distance"),
    ]
    return parts + _pairs(costs, names)


def _pairs(costs: Utility, names: list[str]) -> list[Part]:
    if not costs.pairs:
        return []
    matrix = np.zeros((len(names), len(names)))
    for pair in costs.pairs:
        row, column = names.index(pair.first), names.index(pair.second)
        matrix[row, column] = matrix[column, row] = pair.variation
    changed = sorted(costs.pairs, key=lambda pair: -abs(pair.before - pair.after))[:_FEW]
    rows = [(pair.first, pair.second, pair.before, pair.after, pair.variation) for pair in changed]
    left = f" {len(costs.left_out)} pairs are too large to compare." if costs.left_out else ""
    caption = "Cramér's V, 0 (independent) to 1; pairs whose tie changed most." + left
    parts: list[Part] = [Grid(("column", "column", "V before", "V after", "total variation"), rows, caption)]
    if len(names) > 2:
        parts.insert(0, Chart("How far pairs of columns moved (total variation)", [Heat(matrix, names, names)]))
    return parts


def _prints(prints: Fingerprints, among: str) -> list[Part]:
    shown = prints.columns[: 2 * _FEW]
    bars = [
        Bars([part.name for part in shown], [part.alone for part in shown], "alone"),
        Bars([part.name for part in shown], [prints.together - part.without for part in shown], "added to all others"),
    ]
    sets = [
        (", ".join(column_set.columns), len(column_set.columns), column_set.share) for column_set in prints.sets[:_FEW]
    ]
    more = f" {len(prints.sets) - _FEW} more are not shown." if len(prints.sets) > _FEW else ""
    reach = "" if prints.complete else f" Sets of more than {prints.largest} columns were not looked at."
    wanted = f"at least {prints.threshold:.0%} of the {prints.counted}"
    caption = f"The smallest sets that single out {wanted}: knowing these columns of a person identifies the row."
    parts: list[Part] = [
        Heading("Fingerprints"),
        Text(f"Among {among}, all together single out {prints.together:.1%} of the {prints.counted}.{more}{reach}"),
        Chart(f"Share of {prints.counted} that a column singles out", bars, y=f"share of {prints.counted}"),
    ]
    if sets:
        return [*parts, Grid(("columns", "how many", "share singled out"), sets, caption)]
    return [*parts, Text(f"No set of up to {prints.largest} of them singles out {wanted}.")]


def _limits(target: Target | None) -> list[Part]:
    head = target.name if target is not None else "k-anonymity"
    parts: list[Part] = [Heading("What this does not promise")]
    parts.append(Text(f"Whatever holds above ({head}) is about the rows of one table. It does not promise:"))
    for limit in LIMITS:
        parts += [Sign(limit.name, limit.what, None), Text(f"Example. {limit.example}")]
    return [*parts, Text(INSTEAD)]


def _columns(target: Target) -> tuple[str, ...]:
    """The sensitive columns of a target."""
    return tuple(str(model.column) for model in target.models if hasattr(model, "column"))


def _k(target: Target) -> int | None:
    return max((int(model.k) for model in target.models if hasattr(model, "k")), default=None)


# What anonymity does not promise: every report carries these, so that a reader need not know the literature


class Limit(NamedTuple):
    """A promise that is not made: its name, what can happen, and an example that happened or could."""

    name: str
    what: str
    example: str


HOMOGENEITY = Limit(
    "Homogeneity",
    "If all the rows that may be a person's agree on a secret, the secret is revealed, however many rows there are.",
    "In the published table of twelve inpatients, everybody with ZIP code 130** and age 3* has cancer. The table is "
    "4-anonymous. A neighbor of 31 from 13053 who was there has cancer: no row had to be singled out. "
    "l-diversity, t-closeness and β-likeness limit this.",
)

BACKGROUND = Limit(
    "Background knowledge",
    "Background knowledge can rule out rows until few remain, or one.",
    "In the same table the rows that may belong to a patient of 21 from 13068 say heart disease or viral infection. "
    "Somebody who knows that heart disease is most unlikely for her knows the rest. Every column that an outsider can "
    "come to know is a quasi-identifier, whether it was declared one or not.",
)

COMPOSITION = Limit(
    "Composition",
    "Two releases on the same people, each anonymous by itself, may together single people out.",
    "Six people, two answers. The least age of an ill person is 40, and two people are 40. The largest weight of an "
    "ill person is 100, and two people weigh 100. Both answers hide among two; only Don is in both pairs.",
)

LATER = Limit(
    "Later releases",
    "The promise is about this table as it is today. What somebody publishes next year can be linked with it, and a "
    "release cannot be called back.",
    "A hospital's table without names and a town's list of voters, each harmless by itself, were joined on ZIP code, "
    "sex and date of birth, and the governor's file was found (Sweeney 1998).",
)

LIMITS = (HOMOGENEITY, BACKGROUND, COMPOSITION, LATER)

INSTEAD = (
    "Differential privacy is the promise that survives all of these: it does not depend on what anybody knows or will "
    "know, and the losses of several releases add up. Where answers, statistics or synthetic rows will do, release "
    "those from behind the curator."
)
