"""Plans as documents: read back as they were written, of one name for one release, refused when a part is changed."""

import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from discreet.curator.catalog import Catalog
from discreet.curator.plan import plan_parts
from discreet.curator.policy import parse_policy
from discreet.errors import DiscreetError, InternalError
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.privacy.loss import Pure
from discreet.privacy.unit import Neighbors
from discreet.sql.algebra.relations import sensitivity_of
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.plan.query_plan import QueryPlan
from discreet.sql.release.release import Release

POLICY = (Path(__file__).parents[1] / "golden" / "hospital.toml").read_text(encoding="utf-8")
STATEMENTS = 60

NUMBERS = ["COUNT(*)", "COUNT(stay)", "SUM(stay)", "SUM(cost)", "AVG(cost)", "AVG(ABS(stay - 30))", "SUM(LENGTH(department))",
           "SUM(stay * 2 + age)", "SUM(LEAST(GREATEST(code, 0), 9))", "AVG(CASE WHEN emergency THEN stay ELSE 0 END)",
           "SUM(FLOOR(cost / 7))", "SUM(MONTH(admitted) % 5)" , "COUNT(DISTINCT patient_id)", "COUNT(*) FILTER (WHERE age > 60)"]  # fmt: skip
CONDITIONS = ["age > 17", "region IN ('north', 'east')", "department LIKE 'a%'", "stay IS NOT NULL", "weight < 80.5",
              "admitted >= '2024-03-01'", "NOT emergency", "LOWER(department) || 'x' = 'bx'", "COALESCE(stay, 0) < 9"]  # fmt: skip
KEYS = ["region", "emergency", "department", "age // 10", "CASE WHEN age < 18 THEN 'child' ELSE 'adult' END", "stay",
        "DATE_TRUNC('month', admitted)", "COALESCE(department, 'none')", "UPPER(region)"]  # fmt: skip


@cache
def catalog(neighbors: Neighbors) -> Catalog:
    return parse_policy(POLICY.replace("NEIGHBORS", str(neighbors))).catalog


@cache
def plans() -> tuple[QueryPlan, ...]:
    """Plans of generated statements, under both neighbor relations, with noise of both kinds."""
    draw, found = random.Random(7), []
    for _ in range(STATEMENTS):
        numbers = ", ".join(draw.sample(NUMBERS, draw.randint(1, 3)))
        keys = draw.sample(KEYS, draw.choice([0, 0, 1, 1, 2]))
        sql = f"SELECT {numbers} FROM visits"
        sql += f" WHERE {' AND '.join(draw.sample(CONDITIONS, 2))}" if draw.random() < 0.5 else ""
        sql += f" GROUP BY {', '.join(keys)}" if keys else ""
        terms = Terms(
            epsilon=draw.choice([1, 2]), delta="1e-6", groups=draw.choice([None, 1, 2]), rows=draw.choice([1, 3])
        )
        found.append(plan([sql], catalog(draw.choice(list(Neighbors))), terms))
    return tuple(found)


def read(document: dict[str, Any]) -> dict[str, Any]:
    return plan_parts(document, "query", 1, ["neighbors", "releases"])


def bare(one: QueryPlan) -> tuple[Neighbors, tuple[Release, ...]]:
    """What is released and how: not what is computed from it."""
    return one.neighbors, tuple(replace(release, derived=()) for release in one.releases)


def test_all_kinds_of_releases_are_among_the_generated():
    releases = [release for one in plans() for release in one.releases]
    assert {type(noise).__name__ for release in releases for noise in release.noises} == {
        "Geometric",
        "RoundedGaussian",
    }
    assert {release.selection is None for release in releases} == {True, False}
    assert {one.neighbors for one in plans()} == set(Neighbors)


@pytest.mark.parametrize("number", range(STATEMENTS))
def test_a_document_is_read_back_as_it_was_written(number):
    one = plans()[number]
    parts = read(one.document())
    neighbors, releases = bare(one)
    assert parts["neighbors"] is neighbors
    assert repr(parts["releases"]) == repr(releases)
    again = replace(one, releases=parts["releases"])
    assert again.document() == one.document()
    assert again.digest == one.digest
    assert again.verify(catalog(neighbors)) == one.verify(catalog(neighbors)) == one.loss


def test_plans_share_a_name_exactly_where_they_release_the_same():
    for one, other in combinations(plans(), 2):
        assert (one.digest == other.digest) == (bare(one) == bare(other))


def test_what_is_computed_afterwards_changes_no_name():
    known, terms = catalog(Neighbors.ADD_OR_REMOVE_ONE), Terms(epsilon=1)
    texts = ["AVG(stay) AS a", "AVG(stay) * 2 AS b", "AVG(stay), SUM(stay)"]
    assert len({plan([f"SELECT {text} FROM visits"], known, terms).digest for text in texts}) == 1


def test_other_noise_is_another_name():
    """The same statement at another ε releases something else, under another name: each is paid for and cached alone."""
    known = catalog(Neighbors.ADD_OR_REMOVE_ONE)
    for text in ("COUNT(*) AS n", "AVG(stay) AS a", "SUM(stay) AS s"):
        names = {plan([f"SELECT {text} FROM visits"], known, Terms(epsilon=epsilon)).digest for epsilon in (1, 2, 3)}
        assert len(names) == 3


# One part of a document changed at a time

FREE = {"is", "name", "offset", "condition"}
"""What a statement may choose: which operation, about what a sum is taken, which rows count."""


def changes(value: Any) -> Iterator[Any]:
    """Other values of the same form."""
    match value:
        case bool():
            yield not value
        case int():
            yield from (value + 1, value - 1)
        case str():
            yield value + "x"
        case {"rational": str(text)}:
            yield {"rational": f"{text}1"} if "/" not in text else {"rational": text + "1"}
        case {"range": [start, stop, step]}:
            yield from ({"range": [start, stop + 1, step]}, {"range": [start + 1, stop, step]})
        case [*items] if items and not isinstance(items[0], dict | list):
            yield items[:-1]
            yield [*items, items[0]]


def paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the parts of a document stand that the guarantee depends on."""
    if any(True for _ in changes(node)):
        yield path
    if isinstance(node, dict) and node.get("is") == "constant":
        return
    if isinstance(node, dict) and "rational" not in node and "range" not in node:
        renames = node.get("is") == "operation" and node["name"] == "same"  # its step is what it renames
        for name, part in node.items():
            if name not in FREE or (name == "name" and node.get("is") in ("table", "column")):
                yield from (
                    (*path, *rest)
                    for rest in paths({**part, "step": None} if renames and name == "kind" else part, (name,))
                )
    elif isinstance(node, list) and not any(True for _ in changes(node)):
        for index, part in enumerate(node):
            yield from paths(part, (*path, index))


def changed(document: dict[str, Any], path: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    node = document
    for step in path[:-1]:
        node = node[step]
    for value in changes(node[path[-1]]):
        other = deepcopy(document)
        inner = other
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        yield other


def passes(one: QueryPlan, document: dict[str, Any]) -> bool:
    """Whether the gate would let a changed plan through."""
    try:
        parts = read(document)
        return replace(one, **parts).verify(catalog(one.neighbors)) == one.loss
    except (InternalError, DiscreetError):
        return False


def is_as_sensitive(one: QueryPlan, document: dict[str, Any], place: tuple[Any, ...]) -> bool:
    """Whether other bounds leave all ℓ2 sensitivities as they are: then the changed plan is as private as the first."""
    if place[-1] != "max_groups_per_unit" or one.neighbors is not Neighbors.CHANGE_ONE:
        return False
    before, after = one.releases[place[1]], read(document)["releases"][place[1]]
    sizes = [
        [
            sensitivity_of(measure, release.aggregate.source, one.neighbors).l2_squared
            for measure in release.aggregate.measures
        ]
        for release in (before, after)
    ]
    return sizes[0] == sizes[1] and all(isinstance(noise, RoundedGaussian) for noise in before.noises)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("number", range(0, STATEMENTS, 4))
def test_a_plan_with_one_part_changed_is_refused(number):
    one = plans()[number]
    document = one.document()
    assert passes(one, document)
    places = list(paths(document["releases"], ("releases",)))
    names = {place[-1] for place in places}
    assert {"max_groups_per_unit", "max_rows_per_group", "person", "lower", "upper"} <= names
    assert {"sensitivity", "squared_sensitivity"} & names
    for place in places:
        for other in changed(document, place):
            assert not passes(one, other) or is_as_sensitive(one, other, place), place


def test_another_loss_or_total_is_refused():
    for one in plans()[:10]:
        known = catalog(one.neighbors)
        assert replace(one, loss=Pure("0.001")).verify(known) != Pure("0.001")
        if all(type(noise).__name__ == "Geometric" for release in one.releases for noise in release.noises):
            with pytest.raises(InternalError):
                replace(one, epsilon=one.epsilon / 2).verify(known)
