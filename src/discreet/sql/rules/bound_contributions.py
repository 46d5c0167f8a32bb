"""What one unit can contribute is bounded, by the question or by the policy, or the question is refused."""

from dataclasses import replace

from discreet.errors import InvalidQuery
from discreet.sql.algebra import Bound, Count, Group, Sum
from discreet.sql.draft import Draft
from discreet.sql.kinds import MOST


def bound_contributions(draft: Draft) -> Draft:
    """Wrap the groups in a `Bound`: one row is one contribution; a person's are limited as stated."""
    group = Group(draft.rows, draft.keys)
    table = draft.table
    if table.unit is None or table.unit.key is None:
        return replace(draft, bound=Bound(group, 1, 1))
    most = group.size
    groups = 1 if most == 1 else draft.limits.groups or table.groups
    if groups is None:
        hint = "state a number of groups, or let the policy's table say `groups = …`"
        raise InvalidQuery(f"nobody said in how many groups a person of {table.name!r} may count", hint)
    weighs = any(isinstance(measure, Count | Sum) for measure in draft.measures)
    rows = draft.limits.rows or table.rows if weighs else 1
    if rows is None:
        hint = "state a number of rows, or let the policy's table say `rows = …`"
        raise InvalidQuery(f"nobody said how many rows of a person of {table.name!r} may count in a group", hint)
    for measure in draft.measures:
        if isinstance(measure, Sum) and measure.reach * rows >= MOST:
            raise InvalidQuery(
                f"{measure} over {rows} rows is too large for 64 bits", "use fewer rows or narrower bounds"
            )
    return replace(draft, bound=Bound(group, groups if most is None else min(groups, most), rows))
