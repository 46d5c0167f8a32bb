"""Rules that every synthetic row obeys, chains and missing values among them."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.curator.catalog import Column
from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy
from discreet.synthetic.columns.rules import AtMost, Never, allowed, enforce_order, read_rules, rules_in
from discreet.synthetic.columns.schema import Attribute, Schema
from discreet.synthetic.fit.relaxed import fit
from discreet.synthetic.fit.row_sampling import draw, possible
from discreet.synthetic.measure.noisy_marginals import design_for, measure


def numbers(name, bins, **more):
    return Attribute.of(Column(name, "integer", lower=0, upper=11, **more), bins=bins)


def obeying(schema, rules):
    """Every combination of codes that the rules allow."""
    every = np.array(list(product(*map(range, schema.sizes))), np.int64)
    for one in allowed(rules, schema):
        every = every[one.holds(every)]
    return every


def assert_kept(schema, rules, pairs, seed=1):
    codes = np.repeat(obeying(schema, rules), 3, axis=0)
    assert len(codes)
    drawn = schema.draw(codes, DeterministicEntropy(seed))
    table = schema.write(enforce_order(rules, schema, codes, drawn), codes)
    assert schema.encode(table)[0].tolist() == codes.tolist()  # nobody left their bin
    columns = {name: table.column(name).to_pylist() for name in schema.names}
    for first, second in pairs:
        together = [
            (a, b) for a, b in zip(columns[first], columns[second], strict=True) if a is not None and b is not None
        ]
        assert all(a <= b for a, b in together)
    return table


def test_bins_that_can_hold_the_rule_are_allowed_and_no_others():
    schema = Schema([numbers("a", 3), numbers("b", [0, 2, 6, 11])])
    table = AtMost("a", "b").allowed(schema).table
    ranges = [(0, 3), (4, 7), (8, 11)], [(0, 1), (2, 5), (6, 11)]
    for i, j in product(range(3), range(3)):
        possible = any(a <= b for a in range(ranges[0][i][0], ranges[0][i][1] + 1) for b in range(ranges[1][j][0], ranges[1][j][1] + 1))  # fmt: skip
        assert table[i, j] == possible
    assert table[3].all()  # a is missing
    assert table[:, 3].all()
    assert (AtMost("a", "b").allowed(Schema(schema.attributes[::-1])).table == table.T).all()


edges = st.lists(st.integers(1, 10), max_size=3, unique=True).map(lambda inner: [0, *sorted(inner), 11])


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(edges, edges, edges),
    st.lists(st.sampled_from(["a <= b", "b <= c", "a <= c", "c <= a", "b <= a"]), min_size=1, max_size=3, unique=True),
    st.integers(0, 99),
)
def test_rules_hold_in_every_row_and_nobody_leaves_their_bin(bins, words, seed):
    schema = Schema([numbers(name, each, nullable=name != "b") for name, each in zip("abc", bins, strict=True)])
    assert_kept(schema, read_rules(words, []), [word.split(" <= ") for word in words], seed)


def test_rules_among_dates_times_reals_and_declared_numbers():
    days = ["1960-01-01", "1969-12-01", "1970-02-01", "1980-01-01"]
    for kind in ("date", "timestamp"):
        schema = Schema([Attribute.of(Column("a", kind), bins=days), Attribute.of(Column("b", kind), bins=days[::3])])
        assert_kept(schema, read_rules(["a <= b"], []), [("a", "b")])
    free = {"lower": 0, "upper": 1}
    for more in ({}, {"granularity": "0.1"}):
        schema = Schema(
            [Attribute.of(Column(name, "real", **free, **more), bins=n) for name, n in (("a", 4), ("b", 3), ("c", 1))]
        )
        assert_kept(schema, read_rules(["a <= b", "b <= c"], []), [("a", "b"), ("b", "c"), ("a", "c")])
    declared = Attribute.of(Column("a", "integer", values=[9, 2, 5]))
    assert_kept(Schema([declared, numbers("b", 2)]), read_rules(["a <= b"], []), [("a", "b")])
    assert_kept(Schema([numbers("b", 2), declared]), read_rules(["b <= a"], []), [("b", "a")])


def test_a_chain_means_its_ends_too():
    found = read_rules(["a <= b", "B <= c", "c <= d"], [])
    assert {(one.first, one.second) for one in found} == {
        ("a", "b"), ("B", "c"), ("c", "d"), ("a", "c"), ("B", "d"), ("a", "d")
    }  # fmt: skip
    assert len(read_rules(["a <= b", "b <= a"], [])) == 2


def test_what_never_occurs():
    sex = Attribute.of(Column("sex", "text", values=["F", "M"]))
    pregnant = Attribute.of(Column("pregnant", "boolean"))
    age = Attribute.of(Column("age", "integer"), bins=[0, 1, 13, 120])
    schema = Schema([sex, pregnant, age])
    said = ["sex=M, pregnant=yes", {"age": "1 to 12", "pregnant": True}, {"age": 0, "pregnant": "true"}]
    rules = read_rules([], [*said, "age=missing, sex=missing"])
    for rule in rules:
        rule.check(schema, ())
    kept = {tuple(row) for row in obeying(schema, rules).tolist()}
    for row in product(*map(range, schema.sizes)):
        broken = row[:2] == (1, 1) or (row[2] in (0, 1) and row[1] == 1) or (row[0] == 2 and row[2] == 3)
        assert (row in kept) != broken


def test_values_that_were_not_found_never_occur():
    schema = Schema([Attribute.found(Column("town", "text"), ["Oslo"]), numbers("a", 2)])
    rules = read_rules([], ["town=Rome, a=0 to 5", "town=Oslo, a=0 to 5"])
    for rule in rules:
        rule.check(schema, {"town"})
    assert [one.table.tolist() for one in allowed(rules, schema)] == [[[False, True, True], [True, True, True]]]
    with pytest.raises(InvalidParameter, match="town=Rome"):
        rules[0].check(schema, ())


SCHEMA = Schema(
    [
        numbers("a", 2),
        numbers("b", 2),
        Attribute.of(Column("x", "real", lower=0, upper=1)),
        Attribute.of(Column("g", "real", lower=0, upper=1, granularity="0.5")),
        Attribute.of(Column("d", "date"), bins=["2000-01-01", "2001-01-01"]),
        Attribute.of(Column("t", "timestamp"), bins=["2000-01-01", "2001-01-01"]),
        Attribute.of(Column("w", "text", values=["u", "v"])),
    ]
)


@pytest.mark.parametrize(
    ("at_most", "never", "words"),
    [
        (["a"], [], "first <= second"),
        (["a <= "], [], "first <= second"),
        (["a <= b <= c"], [], "several rules"),
        ("a <= b", [], "a list of rules"),
        ([], "w=u, a=1", "a list of rules"),
        ([], {"w": "u"}, "a list of rules"),
        ([], ["w=u"], "two columns or more"),
        ([], [{"w": "u"}], "two columns or more"),
        ([], [7], "two columns or more"),
        ([], ["w=u, w=v"], "one of each"),
        ([], ["w=u, a=3"], "0 to 5, 6 to 11"),
        ([], ["w=z, a=0 to 5"], "w=z"),
        ([], ["w=u, nothing=1"], "one of the synthetic columns"),
        (["a <= nothing"], [], "one of the synthetic columns"),
        (["a <= A"], [], "two different columns"),
        (["a <= w"], [], "numbers, of dates or of times"),
        (["a <= d"], [], "numbers, of dates or of times"),
        (["d <= t"], [], "numbers, of dates or of times"),
        (["a <= x"], [], "same granularity"),
        (["x <= g"], [], "same granularity"),
    ],
)
def test_what_is_refused(at_most, never, words):
    def checked():
        for rule in read_rules(at_most, never):
            rule.check(SCHEMA, ())

    with pytest.raises(InvalidParameter, match=words):
        checked()


def test_a_rule_that_allows_nothing_is_refused():
    low, high = numbers("a", [0, 1], nullable=False), Attribute.of(Column("b", "integer", nullable=False), bins=[5, 9])
    with pytest.raises(InvalidParameter, match="nothing allowed"):
        AtMost("b", "a").allowed(Schema([low, high]))
    assert Never.of({"a": 1, "b": 2}) == Never((("a", 1), ("b", 2)))


def test_without_rules_nothing_moves():
    codes = np.zeros((5, 1), np.int64)
    drawn = [pa.array(range(5)).to_numpy()]
    assert enforce_order((), Schema([numbers("a", 2)]), codes, drawn)[0] is drawn[0]


# --- when … then …, and what decides what ---------------------------------------------------------------------------


def test_when_then_is_what_it_says_for_every_combination():
    schema = Schema([numbers("a", 3), Attribute.of(Column("b", "boolean")), numbers("c", 12, nullable=False)])
    (rule,) = read_rules([], [], ["when c=3|4, b=True then a=4 to 7|missing"])
    rule.check(schema, ())
    every = np.array(list(product(*map(range, schema.sizes))), np.int64)
    held = allowed([rule], schema)[0].holds(every)
    assert held.tolist() == [not (c in (3, 4) and b == 1) or a in (1, 3) for a, b, c in every.tolist()]
    assert 0 < (~held).sum() < len(every)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("when a=99 then b=True", "a value or bin of a"),
        ("when a=4 to 7 then a=missing", "each column once"),
        ("when a=4 to 7", "decides"),
        ("a decides a", "two different columns"),
        ("a decides nothing", "synthetic columns"),
        ("a before b", "decides"),
    ],
)
def test_rules_that_mean_nothing_are_refused(text, told):
    schema = Schema([numbers("a", 3), Attribute.of(Column("b", "boolean"))])
    with pytest.raises(InvalidParameter, match=told):
        read_rules([], [], [text])[0].check(schema, ())


def counties(rows, seed, many=40, states=6):
    """Each county lies in one state; other columns depend on neither, or weakly on the state."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, states, many)
    county = rng.choice(many, rows, p=rng.dirichlet(np.full(many, 2)))
    third = np.where(rng.random(rows) < 0.5, owner[county], rng.integers(0, states, rows))
    attributes = [
        Attribute.of(Column(name, "text", values=[f"{name[0]}{n}" for n in range(size)], nullable=False))
        for name, size in (("county", many), ("state", states), ("third", states))
    ]
    return Schema(attributes), np.column_stack([county, owner[county], third]), owner


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("text", "flipped"), [("county decides state", False), ("STATE decides third", True)])
def test_what_decides_what_is_read_off_noisy_counts_and_holds_in_every_row(seed, text, flipped):
    schema, codes, owner = counties(6000, seed)
    made = design_for(schema.sizes, epsilon=1, delta="1e-6", neighbors="add or remove one")
    measured = measure(codes, made, entropy=DeterministicEntropy(seed))
    rules = read_rules([], [], [text])
    known = allowed(rules, schema, measured)
    rows = draw(fit(schema.sizes, measured, allowed=known), allowed=known, entropy=DeterministicEntropy(seed))
    first, second = (1, 2) if flipped else (0, 1)
    assert all(len(set(rows[rows[:, first] == code, second].tolist())) <= 1 for code in range(schema.sizes[first]))
    if not flipped:
        without = draw(fit(schema.sizes, measured), entropy=DeterministicEntropy(seed))
        broken = np.mean(owner[rows[:, 0]] != rows[:, 1])
        assert broken < 0.05 < np.mean(owner[without[:, 0]] != without[:, 1])


def test_what_decides_what_never_contradicts_a_rule():
    schema, codes, owner = counties(4000, 5)
    made = design_for(schema.sizes, epsilon=1, delta="1e-6", neighbors="add or remove one")
    measured = measure(codes, made, entropy=DeterministicEntropy(5))
    never = [f"never county=c0, state=s{n}" for n in range(6) if n != (owner[0] + 1) % 6]  # not where c0 is
    known = allowed(read_rules([], [], ["county decides state", *never]), schema, measured)
    assert len(known) == 1  # one table for each set of columns, however many rules there are
    assert known[0].table[0].nonzero()[0].tolist() == [(owner[0] + 1) % 6]
    assert possible(known, schema.sizes)


def test_a_file_of_rules_has_one_a_line():
    text = "# of geography\ncounty decides state\n\n  when county=c1|c2 then third=t0  \nnever state=s0, third=t5\n"
    schema, _, _ = counties(10, 1)
    rules = read_rules([], [], rules_in(text))
    assert len(rules) == 3
    for rule in rules:
        rule.check(schema, ())
    assert len(allowed(rules, schema)) == 2  # what decides what is known with the noisy counts
