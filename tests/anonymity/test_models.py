"""The privacy models against slow references, against their own proofs, and on textbook tables."""

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.anonymity import Classes, Hierarchy
from discreet.anonymity.classes import Cells
from discreet.anonymity.models import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    Likeness,
    Model,
    Presence,
    RecursiveDiversity,
    Target,
)
from discreet.errors import InvalidData, InvalidParameter

TREE = Hierarchy.rows("s", [("a", "x", "p"), ("b", "x", "p"), ("c", "y", "p"), ("d", "z", "q"), ("e", "z", "q")])
VALUES = "abcde"

INPATIENTS = {
    "zip": ["130**"] * 4 + ["1485*"] * 4 + ["130**"] * 4,
    "age": ["<30"] * 4 + ["≥40"] * 4 + ["3*"] * 4,
    "nationality": ["*"] * 12,
    "condition": ["Heart", "Heart", "Viral", "Viral", "Cancer", "Heart", "Viral", "Viral"] + ["Cancer"] * 4,
}


@st.composite
def tables(draw: st.DrawFn, missing: bool = True) -> tuple[list[int], list[str | None], list[int]]:
    """The class of each row (−1: suppressed), its secret, and how many people it stands for."""
    size = draw(st.integers(1, 24))
    groups = draw(st.lists(st.integers(-1, 4), min_size=size, max_size=size))
    known = st.sampled_from(VALUES)
    secrets = draw(st.lists(st.one_of(known, st.none()) if missing else known, min_size=size, max_size=size))
    weights = draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
    if not any(secrets):
        secrets[0] = "a"
    return groups, secrets, weights


def classes_of(groups: list[int], weights: list[int] | None = None) -> Classes:
    found = np.unique([group for group in groups if group >= 0])
    of_row = np.array([np.searchsorted(found, group) if group >= 0 else -1 for group in groups], np.int64)
    return Classes.numbered(of_row, weights=None if weights is None else np.array(weights))


def expanded(groups: list[int], secrets: list[str | None], weights: list[int]) -> tuple[list[int], list[str | None]]:
    rows = [(g, s) for g, s, w in zip(groups, secrets, weights, strict=True) for _ in range(w)]
    return [g for g, _ in rows], [s for _, s in rows]


def per_class(groups: list[int], secrets: list[str | None]) -> list[list[str | None]]:
    return [
        [s for g, s in zip(groups, secrets, strict=True) if g == one] for one in sorted({g for g in groups if g >= 0})
    ]


def shares(secrets: list[str | None]) -> dict[str, Fraction]:
    known = [s for s in secrets if s is not None]
    return {value: Fraction(count, len(known)) for value, count in Counter(known).items()}


# Slow references: (class, whole table) → what is reached, or None where nothing is known


def slow_entropy(inside: dict[str, Fraction], table: dict[str, Fraction]) -> float:
    return math.exp(-sum(float(p) * math.log(p) for p in inside.values()))


def slow_variation(inside: dict[str, Fraction], table: dict[str, Fraction]) -> float:
    return float(sum(abs(inside.get(v, Fraction(0)) - table.get(v, Fraction(0))) for v in VALUES) / 2)


def slow_ordered(inside: dict[str, Fraction], table: dict[str, Fraction]) -> float:
    values = sorted(table)
    if len(values) == 1:
        return 0.0
    run, total = Fraction(0), Fraction(0)
    for value in values:
        run += inside.get(value, Fraction(0)) - table[value]
        total += abs(run)
    return float(total / (len(values) - 1))


def slow_hierarchical(inside: dict[str, Fraction], table: dict[str, Fraction]) -> float:
    """The recursion of the paper: cost(N) = height(N)/H · min(positive extra, negative extra) of its children."""
    extras = {(0, i): inside.get(v, Fraction(0)) - table.get(v, Fraction(0)) for i, v in enumerate(VALUES)}
    cost = Fraction(0)
    for level in range(1, TREE.height + 1):
        for node in range(len(TREE.labels[level])):
            below = {int(TREE.codes[level - 1][leaf]) for leaf in range(5) if TREE.codes[level][leaf] == node}
            parts = [extras[level - 1, child] for child in below]
            gain, loss = sum(p for p in parts if p > 0), -sum(p for p in parts if p < 0)
            cost += Fraction(level, TREE.height) * min(gain, loss)
            extras[level, node] = Fraction(gain - loss)
    return float(cost)


def slow_likeness(inside: dict[str, Fraction], table: dict[str, Fraction]) -> float:
    return float(max(0, *[(q - table[v]) / table[v] for v, q in inside.items()]))


SLOW: list[tuple[Model, Callable[[dict[str, Fraction], dict[str, Fraction]], float], float]] = [
    (DistinctDiversity(2, "s"), lambda inside, table: float(len(inside)), 0.0),
    (EntropyDiversity("2.5", "s"), slow_entropy, 0.0),
    (AlphaK("0.5", 2, "s"), lambda inside, table: float(max(inside.values())), math.inf),
    (Closeness("0.3", "s"), slow_variation, math.inf),
    (Closeness("0.3", "s", "ordered", order=None), slow_ordered, math.inf),
    (Closeness("0.3", "s", "hierarchical", hierarchy=TREE), slow_hierarchical, math.inf),
    (Likeness("0.8", "s"), slow_likeness, math.inf),
]


def table_of(model: Model, secrets: list[str | None]) -> dict[str, list[Any]]:
    """Ordered distances need an order: letters become numbers."""
    ordered = isinstance(model, Closeness) and model.distance == "ordered"
    return {"s": [None if s is None else VALUES.index(s) for s in secrets] if ordered else secrets}


@pytest.mark.parametrize(("model", "slow", "empty"), SLOW, ids=[model.name for model, _, _ in SLOW])
@given(drawn=tables())
@settings(max_examples=30)
def test_measures_equal_the_slow_reference(
    model: Model, slow: Callable[..., float], empty: float, drawn: tuple[list[int], list[str | None], list[int]]
) -> None:
    groups, secrets, _ = drawn
    measured = model.bind(table_of(model, secrets), feasible=False).measure(classes_of(groups))
    whole = shares(secrets)
    expected = [slow(shares(one), whole) if shares(one) else empty for one in per_class(groups, secrets)]
    assert measured.tolist() == pytest.approx(expected, abs=1e-9)


@given(drawn=tables())
@settings(max_examples=30)
def test_each_model_holds_where_its_definition_says(drawn: tuple[list[int], list[str | None], list[int]]) -> None:
    groups, secrets, _ = drawn
    table, classes, whole = {"s": secrets}, classes_of(groups), shares(secrets)
    parts = per_class(groups, secrets)

    def judged(model: Model) -> list[bool]:
        return model.bind(table, feasible=False).holds(classes).tolist()  # type: ignore[no-any-return]

    assert judged(KAnonymity(3)) == [len(one) >= 3 for one in parts]
    assert judged(DistinctDiversity(2, "s")) == [len(shares(one)) >= 2 for one in parts]
    assert judged(AlphaK("2/3", 2, "s")) == [
        len(one) >= 2 and bool(shares(one)) and max(shares(one).values()) <= Fraction(2, 3) for one in parts
    ]
    for c, length in ((1, 2), (Fraction(3, 2), 3)):
        counts = [sorted(Counter(s for s in one if s).values(), reverse=True) for one in parts]
        assert judged(RecursiveDiversity(c, length, "s")) == [
            bool(r) and r[0] < c * sum(r[length - 1 :]) for r in counts
        ]
    enhanced = [
        bool(shares(one))
        and all(
            float((q - whole[v]) / whole[v]) <= min(0.9, -math.log(whole[v])) + 1e-9 for v, q in shares(one).items()
        )
        for one in parts
    ]
    assert judged(Likeness("0.9", "s", enhanced=True)) == enhanced


@pytest.mark.parametrize(
    "model", [model for model, _, _ in SLOW] + [RecursiveDiversity(2, 2, "s")], ids=lambda m: m.name
)
@given(drawn=tables())
@settings(max_examples=30)
def test_a_row_of_weight_w_counts_as_w_rows(model: Model, drawn: tuple[list[int], list[str | None], list[int]]) -> None:
    groups, secrets, weights = drawn
    whole_groups, whole_secrets = expanded(groups, secrets, weights)
    bound = model.bind(table_of(model, whole_secrets), feasible=False)
    first = np.cumsum([0, *weights[:-1]])
    light = bound.take(first)
    assert light.measure(classes_of(groups, weights)).tolist() == pytest.approx(
        bound.measure(classes_of(whole_groups)).tolist()
    )
    assert light.holds(classes_of(groups, weights)).tolist() == bound.holds(classes_of(whole_groups)).tolist()


MONOTONE: list[Model] = [
    KAnonymity(3),
    DistinctDiversity(2, "s"),
    EntropyDiversity("1.7", "s"),
    RecursiveDiversity("1.5", 2, "s"),
    RecursiveDiversity(3, 3, "s"),
    AlphaK("0.6", 2, "s"),
    Closeness("0.4", "s"),
    Closeness("0.3", "s", "ordered"),
    Closeness("0.3", "s", "hierarchical", hierarchy=TREE),
    Likeness("1", "s"),
    Likeness("1", "s", enhanced=True),
]


@pytest.mark.parametrize("model", MONOTONE, ids=lambda m: m.name)
@given(drawn=tables())
@settings(max_examples=30)
def test_what_holds_for_two_classes_holds_for_their_union(
    model: Model, drawn: tuple[list[int], list[str | None], list[int]]
) -> None:
    groups, secrets, _ = drawn
    assert model.monotone
    bound = model.bind(table_of(model, secrets), feasible=False)
    fits = bound.holds(classes_of(groups))
    present = sorted({group for group in groups if group >= 0})
    good = [group for group, fit in zip(present, fits, strict=True) if fit]
    for one in good:
        for two in good:
            union = classes_of([0 if group in (one, two) else -1 for group in groups])
            assert bound.holds(union).all()


@pytest.mark.parametrize("distance", ["equal", "ordered", "hierarchical"])
@given(drawn=tables(missing=False))
@settings(max_examples=15)
def test_distances_are_the_cheapest_transport(
    distance: str, drawn: tuple[list[int], list[str | None], list[int]]
) -> None:
    """The earth mover's distance by linear programming, over the paper's ground distances."""
    from scipy.optimize import linprog

    groups, secrets, _ = drawn
    groups[0] = 0
    present = sorted({s for s in secrets if s})
    values = list(VALUES) if distance == "hierarchical" else present
    size = len(values)
    ground = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if distance == "equal":
                ground[i, j] = i != j
            elif distance == "ordered":
                ground[i, j] = abs(i - j) / max(size - 1, 1)
            else:
                together = [level for level in range(TREE.height + 1) if TREE.codes[level][i] == TREE.codes[level][j]]
                ground[i, j] = together[0] / TREE.height
    p = shares(per_class(groups, secrets)[0])
    q = shares(secrets)
    sums = [np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))]
    limits = [float(p.get(v, 0)) for v in values] + [float(q.get(v, 0)) for v in values]
    cheapest = linprog(ground.ravel(), A_eq=np.vstack(sums), b_eq=limits).fun
    model = Closeness(1, "s", distance, hierarchy=TREE if distance == "hierarchical" else None)  # type: ignore[arg-type]
    measured = model.bind(table_of(model, secrets)).measure(classes_of(groups))
    assert measured[0] == pytest.approx(cheapest, abs=1e-7)


def test_the_salaries_of_the_t_closeness_paper() -> None:
    """Li, Li, Venkatasubramanian 2007: 0.375 and 0.167 for the classes of their 3-diverse table; 0.167 for the last."""
    first = {"zip": list("aaabbbccc"), "salary": [3, 4, 5, 6, 11, 8, 7, 9, 10]}
    measured = Closeness(1, "salary", "ordered").bind(first).measure(Classes.of_table(first, ["zip"]))
    assert measured[:2].tolist() == pytest.approx([0.375, 1 / 6])
    last = {"zip": list("aaabbbccc"), "salary": [3, 5, 9, 6, 11, 8, 4, 7, 10]}
    bound = Closeness("1/6", "salary", "ordered").bind(last)
    assert bound.reached(Classes.of_table(last, ["zip"]))[0] == pytest.approx(1 / 6)
    assert bound.holds(Classes.of_table(last, ["zip"])).all()  # 1/6 is reached, to the last bit of rounding


@pytest.mark.claim("A2")
def test_the_inpatients_third_class_is_all_cancer() -> None:
    classes = Classes.of_table(INPATIENTS, ["zip", "age", "nationality"])
    assert classes.sizes.tolist() == [4, 4, 4]
    assert KAnonymity(4).bind(INPATIENTS).holds(classes).all()
    distinct = DistinctDiversity(2, "condition").bind(INPATIENTS).measure(classes)
    of_class = dict(zip(classes.of_row.tolist(), INPATIENTS["age"], strict=True))
    assert [of_class[place] for place in np.flatnonzero(distinct < 2)] == ["3*"]
    entropies = EntropyDiversity(1, "condition").bind(INPATIENTS).measure(classes)
    assert sorted(entropies.round(4).tolist()) == [1.0, 2.0, 2.8284]


def test_presence_of_a_marked_population() -> None:
    people = {"zip": list("aaaabbbb"), "in": ["yes", "no", "no", "no", "1", "true", "0", "False"]}
    bound = Presence("0.25", "0.5", member="in").bind(people)
    assert bound.measure(Classes.of_table(people, ["zip"])).tolist() == [0.25, 0.5]
    assert bound.holds(Classes.of_table(people, ["zip"])).all()
    assert Presence("0.3", "0.5", member="in").bind(people).holds(Classes.of_table(people, ["zip"])).tolist() == [
        False,
        True,
    ]


def test_presence_against_another_table() -> None:
    table = {"zip": ["a", "a", "b"]}
    everybody = {"zip": ["a"] * 4 + ["b"] * 2 + ["c"] * 3}
    classes = Classes.of_table(table, ["zip"])
    bound = Presence(0, "0.5", everybody).bind(table, quasi=["zip"])
    assert bound.measure(classes).tolist() == [0.5, 0.5]
    assert bound.holds(classes).all()
    # nobody from c is in the table: whoever is from c is surely not in it
    assert not Presence("0.1", "0.5", everybody).bind(table, quasi=["zip"]).holds(classes).any()


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=20), st.integers(1, 3))
def test_presence_weights_and_unions(people: list[tuple[int, bool]], weight: int) -> None:
    people = [*people, (0, True)]
    table = {"z": [z for z, _ in people], "in": [flag for _, flag in people]}
    bound = Presence("0.2", "0.8", member="in").bind(table)
    classes = classes_of([z for z, _ in people])
    heavy = classes_of([z for z, _ in people], [weight] * len(people))
    assert bound.measure(classes).tolist() == pytest.approx(bound.measure(heavy).tolist())
    if bound.holds(classes).all():
        assert bound.holds(classes_of([0] * len(people))).all()


@given(drawn=tables())
@settings(max_examples=30)
def test_a_target_is_the_conjunction(drawn: tuple[list[int], list[str | None], list[int]]) -> None:
    groups, secrets, _ = drawn
    models = (KAnonymity(2), EntropyDiversity("1.5", "s"), Closeness("0.6", "s"))
    target = Target.of(Target.of(*models[:2]), models[2])
    assert target.models == models
    bound = target.bind({"s": secrets}, feasible=False)
    classes = classes_of(groups)
    alone = [part.holds(classes) for part in bound.parts]
    assert bound.holds(classes).tolist() == np.logical_and.reduce(alone).tolist()
    rows = np.arange(len(secrets))[::-1]
    assert [codes.tolist() for codes in bound.take(rows).codes] == [codes[::-1].tolist() for codes in bound.codes]


@given(drawn=tables())
@settings(max_examples=30)
def test_no_class_below_least_holds(drawn: tuple[list[int], list[str | None], list[int]]) -> None:
    groups, secrets, _ = drawn
    classes = classes_of(groups)
    for model in [*MONOTONE, AlphaK("0.3", 1, "s"), EntropyDiversity(3, "s")]:
        fits = model.bind(table_of(model, secrets), feasible=False).holds(classes)
        assert not (fits & (classes.sizes < model.least)).any()


def test_many_values_and_classes_take_the_sparse_path() -> None:
    generator = np.random.default_rng(5)
    rows, values = 3000, 2500
    groups, codes = generator.integers(0, 400, rows), generator.integers(0, values, rows)
    weights = generator.integers(1, 4, rows)
    classes = Classes.numbered(np.unique(groups, return_inverse=True)[1], weights=weights)
    cells = Cells.of(classes, codes, values)
    dense = np.zeros((classes.count, values), np.int64)
    np.add.at(dense, (classes.of_row, codes), weights)
    other = Cells.of_counts(dense)
    assert (cells.of_class == other.of_class).all()
    assert (cells.value == other.value).all()
    assert (cells.people == other.people).all()
    assert (cells.known == classes.sizes).all()


def test_a_missing_secret_is_no_diversity() -> None:
    table = {"s": ["flu", None, "", float("nan")]}
    table["s"][3] = None
    assert DistinctDiversity(2, "s").bind(table, feasible=False).measure(classes_of([0] * 4)).tolist() == [1.0]
    numbers = {"s": np.array([1.0, np.nan, 1.0])}
    assert DistinctDiversity(2, "s").bind(numbers, feasible=False).measure(classes_of([0] * 3)).tolist() == [1.0]


def test_a_class_without_known_secrets_satisfies_nothing() -> None:
    table = {"s": ["a", "b", None, None]}
    for model in (
        DistinctDiversity(1, "s"),
        EntropyDiversity(1, "s"),
        AlphaK(1, 1, "s"),
        Closeness(1, "s"),
        Likeness(9, "s"),
    ):
        assert model.bind(table).holds(classes_of([0, 0, 1, 1])).tolist() == [True, False], model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KAnonymity(0), "k: got 0, expected a whole number ≥ 1"),
        (lambda: KAnonymity(True), "k: got True"),
        (lambda: DistinctDiversity(1.5, "s"), "l: got 1.5"),  # type: ignore[arg-type]
        (lambda: EntropyDiversity("nan", "s"), "l: got 'nan'"),
        (lambda: RecursiveDiversity(0, 2, "s"), "c: got 0, expected a number > 0"),
        (lambda: RecursiveDiversity("0.33333333", 2, "s"), "at most six decimals"),
        (lambda: RecursiveDiversity(1, 1, "s"), "l: got 1, expected a whole number ≥ 2"),
        (lambda: AlphaK("1.2", 2, "s"), "alpha: got '1.2', expected a number > 0 and ≤ 1"),
        (lambda: Closeness(-1, "s"), "t: got -1"),
        (lambda: Closeness(0, "s", "euclid"), "distance: got 'euclid'"),  # type: ignore[arg-type]
        (lambda: Closeness(0, "s", "hierarchical"), "hierarchy: got None"),
        (lambda: Closeness(0, "s", order=("a",)), "order"),
        (lambda: Likeness(0, "s"), "beta: got 0"),
        (lambda: Presence("0.5", "0.2", member="in"), "high: got '0.2'"),
        (lambda: Presence(0, 1), "one of them"),
        (Target.of, "at least one privacy model"),
        (lambda: Target.of(5), "privacy models"),  # type: ignore[arg-type]
    ],
)
def test_bad_parameters(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        make()
    assert message in str(caught.value)


SECRET = "hush-hush"


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        (lambda: KAnonymity(3).bind({"s": [1, 2]}), "k: got 3, expected at most the number of rows (2)"),
        (lambda: KAnonymity(1).bind({"s": []}), "the table has no rows"),
        (lambda: DistinctDiversity(2, "t").bind({"s": [SECRET]}), "expected one of the table's columns: s"),
        (lambda: DistinctDiversity(3, "s").bind({"s": [SECRET, "b"]}), "at most 2, the number of different values"),
        (lambda: EntropyDiversity("2.5", "s").bind({"s": [SECRET, "b"]}), "l: got 2.5, expected at most 2"),
        (lambda: RecursiveDiversity(1, 2, "s").bind({"s": [SECRET] * 3}), "at most 1"),
        (lambda: AlphaK("0.3", 1, "s").bind({"s": [SECRET, "b", "b"]}), "at least 1/2"),
        (lambda: AlphaK("1", 9, "s").bind({"s": [SECRET, "b", "b"]}), "k: got 9"),
        (lambda: Closeness(0, "s").bind({"s": [None, None]}), "every value is missing"),
        (lambda: Closeness(0, "s").bind({"s": ["", ""]}), "every value is missing"),
        (lambda: Closeness(0, "s", "ordered").bind({"s": [SECRET, "b"]}), "texts without an order"),
        (lambda: Closeness(0, "s", "ordered", order=("b", "c")).bind({"s": ["b", None, SECRET]}), "(rows 3)"),
        (lambda: Closeness(0, "s", "hierarchical", hierarchy=TREE).bind({"s": [None, "a", SECRET]}), "(rows 3)"),
        (lambda: Presence(0, 1, {"z": [1]}).bind({"z": [1]}), "quasi"),
        (lambda: Presence(0, 1, {"y": [1]}).bind({"z": [SECRET]}, quasi=["z"]), "one of the population's columns"),
        (
            lambda: Presence(0, 1, {"z": ["b"]}).bind({"z": [SECRET]}, quasi=["z"]),
            "population is smaller than the table",
        ),
        (lambda: Presence(0, 1, member="in").bind({"in": [SECRET, "1"]}), "1 values are neither true nor false"),
        (lambda: Presence(0, 1, member="in").bind({"in": [0, 0]}), "nobody of the population"),
    ],
)
def test_bad_tables_are_refused_without_their_values(bind: Callable[[], object], message: str) -> None:
    with pytest.raises((InvalidData, InvalidParameter)) as caught:
        bind()
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


def test_classes_of_another_table_are_refused() -> None:
    with pytest.raises(InvalidData, match="bound to 2 rows, the classes have 3"):
        DistinctDiversity(1, "s").bind({"s": ["a", "b"]}).holds(classes_of([0, 0, 0]))


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 2],
        ["30", "4", "5.5"],
        [np.datetime64("2020-01-03"), np.datetime64("2020-01-01"), np.datetime64("2020-01-02")],
        [True, False, False],
    ],
)
def test_orders_are_found(values: list[Any]) -> None:
    from discreet.anonymity.classes import Sensitive

    ranks = Sensitive.ordered({"s": np.array(values)}, "s").codes
    keys = [float(v) if isinstance(v, str) else v for v in values]
    assert ranks.tolist() == [sorted(set(keys)).index(key) for key in keys]


def test_every_model_speaks_plainly() -> None:
    for model in [*MONOTONE, Presence(0, "0.5", member="in")]:
        promise, gap = model.words
        assert promise.endswith(".")
        assert gap.endswith(".")
        assert promise != gap
        assert model.name


@pytest.mark.parametrize("length", range(1, 12))
def test_l_equally_frequent_values_are_entropy_l_diverse(length: int) -> None:
    """Rounding in logarithms must not refuse what holds with equality."""
    table = {"s": [f"v{place}" for place in range(length)] * 3}
    classes = classes_of([0] * (3 * length))
    assert EntropyDiversity(length, "s").bind(table).holds(classes).all()
    assert not EntropyDiversity(length + Fraction(1, 10**6), "s").bind(table, feasible=False).holds(classes).any()
