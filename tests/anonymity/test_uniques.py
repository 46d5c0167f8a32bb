"""Minimal unique column sets against all subsets."""

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.anonymity.uniques import unique_sets, uniqueness
from discreet.errors import InvalidData, InvalidParameter

Table = dict[str, list[Any]]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    rows, columns = draw(st.integers(1, 14)), draw(st.integers(1, 6))
    cell = st.one_of(st.integers(0, draw(st.integers(0, 6))), st.none())
    return {f"c{place}": draw(st.lists(cell, min_size=rows, max_size=rows)) for place in range(columns)}


def alone(table: Table, names: tuple[str, ...]) -> int:
    rows = list(zip(*(map(str, table[name]) for name in names), strict=True))
    times = Counter(rows)
    return sum(1 for row in rows if times[row] == 1)


def partition(values: list[Any]) -> list[int]:
    seen: dict[str, int] = {}
    return [seen.setdefault(str(value), len(seen)) for value in values]


@given(table=tables(), percent=st.sampled_from([10, 50, 80, 100]), largest=st.integers(1, 6))
@settings(max_examples=40)
def test_the_sets_are_all_the_minimal_ones(table: Table, percent: int, largest: int) -> None:
    rows = len(table["c0"])
    found = unique_sets(table, share=f"0.{percent}" if percent < 100 else 1, largest=largest)
    own = [
        n for i, n in enumerate(table) if partition(table[n]) not in [partition(v) for v in list(table.values())[:i]]
    ]
    reached = {
        names: count
        for size in range(1, len(own) + 1)
        for names in combinations(own, size)
        if 100 * (count := alone(table, names)) >= percent * rows
    }
    minimal = {n: c for n, c in reached.items() if not any(set(o) < set(n) for o in reached)}
    expected = {n: c / rows for n, c in minimal.items() if len(n) <= largest}
    assert {one.columns: one.share for one in found.sets} == pytest.approx(expected)
    assert len(found.sets) == len(expected)
    assert found.together == pytest.approx(alone(table, tuple(table)) / rows)
    if found.complete:
        assert all(len(names) <= largest for names in minimal)


def singled_out(table: Table, names: tuple[str, ...], units: list[int]) -> int:
    rows = list(zip(*(map(str, table[name]) for name in names), strict=True))
    whose = {row: {unit for other, unit in zip(rows, units, strict=True) if other == row} for row in set(rows)}
    return len({unit for row, unit in zip(rows, units, strict=True) if len(whose[row]) == 1})


@given(table=tables(), percent=st.sampled_from([10, 50, 80]), data=st.data())
@settings(max_examples=40)
def test_people_with_several_rows_are_counted(table: Table, percent: int, data: st.DataObject) -> None:
    """Somebody is singled out by any of their rows, and not by one that only they repeat."""
    rows = len(table["c0"])
    units = data.draw(st.lists(st.integers(3, 8), min_size=rows, max_size=rows))
    people = len(set(units))
    found = unique_sets(table, share=f"0.{percent}", units=np.array(units))
    own = [
        n for i, n in enumerate(table) if partition(table[n]) not in [partition(v) for v in list(table.values())[:i]]
    ]
    reached = {
        names: count
        for size in range(1, len(own) + 1)
        for names in combinations(own, size)
        if 100 * (count := singled_out(table, names, units)) >= percent * people
    }
    minimal = {n: c / people for n, c in reached.items() if not any(set(o) < set(n) for o in reached)}
    expected = {n: share for n, share in minimal.items() if len(n) <= found.largest}
    assert {one.columns: one.share for one in found.sets} == pytest.approx(expected)
    assert found.together == pytest.approx(singled_out(table, tuple(table), units) / people)
    assert (found.rows, found.counted) == (people, "people")
    for part in found.columns:
        assert part.alone == pytest.approx(singled_out(table, (part.name,), units) / people)


@given(table=tables())
@settings(max_examples=40)
def test_each_columns_part(table: Table) -> None:
    rows = len(table["c0"])
    found = unique_sets(table, share=1)
    assert {part.name for part in found.columns} == set(table)
    for part in found.columns:
        others = tuple(name for name in table if name != part.name)
        assert part.alone == pytest.approx(alone(table, (part.name,)) / rows)
        assert part.without == pytest.approx(alone(table, others) / rows if others else 0)
        assert part.distinct == len(set(map(str, table[part.name])))
        assert (part.twin is not None) == (
            partition(table[part.name]) in [partition(v) for n, v in table.items() if n < part.name]
        )
    assert [part.without for part in found.columns] == sorted(part.without for part in found.columns)


@given(table=tables())
@settings(max_examples=30)
def test_uniqueness_is_the_share_alone(table: Table) -> None:
    assert uniqueness(table, list(table)) == pytest.approx(alone(table, tuple(table)) / len(table["c0"]))


def test_the_sparse_path_of_many_values() -> None:
    generator = np.random.default_rng(3)
    table = {name: generator.integers(0, 900, 1200).tolist() for name in "abcd"}
    found = unique_sets(table, share="0.95", largest=4)
    for one in found.sets:
        assert one.share == pytest.approx(alone(table, one.columns) / 1200)
        assert one.share >= 0.95
        smaller = [alone(table, part) / 1200 for part in combinations(one.columns, len(one.columns) - 1) if part]
        assert all(share < 0.95 for share in smaller)
    assert found.sets


def test_a_long_search_ends_and_says_so() -> None:
    generator = np.random.default_rng(4)
    table = {f"c{place}": generator.integers(0, 2, 200).tolist() for place in range(14)}
    short = unique_sets(table, share="0.5", largest=14, most=150)
    assert (short.largest, short.complete) == (2, False)
    assert not short.sets
    whole = unique_sets(table, share="0.5", largest=14)
    assert whole.complete
    assert whole.sets
    assert min(len(one.columns) for one in whole.sets) > 2


def test_twins_stand_for_each_other() -> None:
    table = {"code": [1, 2, 3], "name": ["x", "y", "z"], "sex": ["F", "F", "M"]}
    found = unique_sets(table, share=1)
    assert [one.columns for one in found.sets] == [("code",)]
    assert {part.name: part.twin for part in found.columns} == {"code": None, "name": "code", "sex": None}


def test_a_column_of_one_value_singles_out_nobody() -> None:
    found = unique_sets({"town": ["Pisa"] * 3, "sex": ["F", "F", "M"]}, share="0.3")
    assert [one.columns for one in found.sets] == [("sex",)]
    assert "Pisa" not in found.text() + str(found.as_dict())


def test_bad_input() -> None:
    with pytest.raises(InvalidData, match="no rows"):
        unique_sets({"a": []}, share=1)
    with pytest.raises(InvalidParameter, match="got 'b'"):
        unique_sets({"a": [1]}, ["b"], share=1)
    with pytest.raises(InvalidParameter, match="each once"):
        unique_sets({"a": [1]}, ["a", "a"], share=1)
    with pytest.raises(InvalidParameter, match="several names"):
        uniqueness({"a": [1]}, "a")
    with pytest.raises(InvalidParameter, match="at least one name"):
        uniqueness({"a": [1]}, [])
    with pytest.raises(InvalidParameter, match="share: got 0"):
        unique_sets({"a": [1]}, share=0)
    with pytest.raises(InvalidParameter, match="largest: got 0"):
        unique_sets({"a": [1]}, share=1, largest=0)
