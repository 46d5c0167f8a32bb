"""What a block groups by: keys, and the values they can take where that is public."""

from math import prod
from typing import Any

from sqlglot import exp

from discreet.curator.catalog import Table
from discreet.sql.algebra import Key
from discreet.sql.asked import has_aggregate
from discreet.sql.expression import Domain, Expression, Field
from discreet.sql.kinds import Nothing, Real
from discreet.sql.text import DIALECT, Statement
from discreet.sql.translate import Scope, translate

LARGEST_DOMAIN = 10_000_000
"""No more groups than these are answered."""


def keys_of(statement: Statement, select: exp.Select, columns: Scope, table: Table) -> tuple[Key, ...]:
    """What a block groups by."""
    clause = select.args.get("group")
    if clause is None:
        return ()
    if clause.args.get("all"):
        parts = [(part.alias_or_name, part.unalias()) for part in select.expressions if not has_aggregate(part)]
    else:
        parts = [_grouped_by(statement, part, select, columns) for part in clause.expressions]
    for name, value in clause.args.items():
        if value and name not in ("expressions", "all"):
            statement.refuse(clause, f"GROUP BY {name.upper()} is not supported", "list what to group by")
    keys: dict[Expression, Key] = {}
    for name, part in parts:
        value = translate(part, columns, statement)
        _check_key(statement, part, value, table)
        keys.setdefault(value, Key(name or part.sql(dialect=DIALECT), value, _domain(value)))
    total = prod(key.size or 1 for key in keys.values())
    if total > LARGEST_DOMAIN:
        statement.refuse(
            clause, f"this makes {total:,} groups", f"group by less: at most {LARGEST_DOMAIN:,} are answered"
        )
    return tuple(keys.values())


def _grouped_by(statement: Statement, part: Any, select: exp.Select, columns: Scope) -> tuple[str, Any]:
    """A part of GROUP BY: a number or an alias stands for a projection."""
    if isinstance(part, exp.Literal) and not part.is_string:
        if not part.name.isdecimal() or not 1 <= int(part.name) <= len(select.expressions):
            statement.refuse(part, f"GROUP BY {part.name}", f"a number from 1 to {len(select.expressions)}")
        chosen = select.expressions[int(part.name) - 1]
        return chosen.alias_or_name, chosen.unalias()
    if isinstance(part, exp.Column) and not part.table and part.name.casefold() not in columns:
        for projection in select.expressions:
            if projection.alias.casefold() == part.name.casefold():
                return projection.alias, projection.unalias()
    return part.alias_or_name, part


def _check_key(statement: Statement, part: Any, value: Expression, table: Table) -> None:
    if isinstance(value.kind, Real | Nothing):
        statement.refuse(part, f"GROUP BY of {value.kind}", "declare bounds and granularity, or group ranges: CASE …")
    unit = table.unit.key if table.unit else None
    if isinstance(value, Field) and unit is not None and value.column.name.casefold() == unit.casefold():
        statement.refuse(part, "GROUP BY of the unit would name people", "group by something that people share")


def _domain(value: Expression) -> Domain | None:
    domain = value.domain
    return None if domain is None or len(domain) > LARGEST_DOMAIN else domain
