"""GROUP BY with several sets of keys: ROLLUP, CUBE and GROUPING SETS, written out."""

from itertools import combinations, product
from typing import Any

from sqlglot import exp

from discreet.sql.text.statement import Statement

MOST_SETS = 64


def has_sets(clause: exp.Group) -> bool:
    """Whether a GROUP BY names more than one set of keys."""
    return any(isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets) for part in clause.expressions)


def grouping_sets(statement: Statement, clause: exp.Group) -> list[list[Any]]:
    """The sets of keys that a GROUP BY asks for, in the order of the text: what stands side by side is combined."""
    factors = [_sets(part) for part in clause.expressions]
    count = 1
    for factor in factors:
        count *= len(factor)
    if count > MOST_SETS:
        statement.refuse(clause, f"GROUP BY of {count} sets of keys", f"ask for at most {MOST_SETS}")
    return [[key for some in chosen for key in some] for chosen in product(*factors)]


def _sets(part: Any) -> list[list[Any]]:
    match part:
        case exp.Rollup():
            keys = [_keys(key) for key in part.expressions]
            return [[key for some in keys[:end] for key in some] for end in range(len(keys), -1, -1)]
        case exp.Cube():
            keys = [_keys(key) for key in part.expressions]
            sizes = range(len(keys), -1, -1)
            return [[key for some in chosen for key in some] for size in sizes for chosen in combinations(keys, size)]
        case exp.GroupingSets():
            return [each for inner in part.expressions for each in _sets(inner)]
        case _:
            return [_keys(part)]


def _keys(part: Any) -> list[Any]:
    """One key, or several in parentheses."""
    match part:
        case exp.Tuple():
            return list(part.expressions)
        case exp.Paren():
            return [part.this]
        case _:
            return [part]
