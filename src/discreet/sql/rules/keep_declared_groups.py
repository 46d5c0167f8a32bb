"""Rows whose key is not among the declared values are left out, before groups are chosen."""

from dataclasses import replace

from discreet.sql.algebra import Filter, Key
from discreet.sql.draft import Draft
from discreet.sql.expression import Constant, Expression, Field
from discreet.sql.operations import conditions


def keep_declared_groups(draft: Draft) -> Draft:
    """Filter rows to declared groups, so that none of a unit's places is wasted on a group that is not answered."""
    rows = draft.rows
    for key in draft.keys:
        condition = _declared(key)
        if condition is not None:
            rows = Filter(rows, condition)
    return replace(draft, rows=rows)


def _declared(key: Key) -> Expression | None:
    """The condition that a key is one of its values; None where it always is."""
    if key.domain is None:
        return None
    if isinstance(key.domain, range) or not isinstance(key.value, Field) or key.value.column.values is None:
        return None
    inside = conditions.among(key.value, [Constant(value, key.value.kind) for value in key.domain])
    return conditions.either(inside, conditions.is_null(key.value)) if key.value.nullable else inside
