"""From a block to a bounded aggregate, by rules that run one after another: one rule, one file, one function."""

from collections.abc import Callable

from discreet.sql.draft import Draft
from discreet.sql.rules.bound_contributions import bound_contributions
from discreet.sql.rules.choose_measures import choose_measures
from discreet.sql.rules.keep_declared_groups import keep_declared_groups

Rule = Callable[[Draft], Draft]

RULES: tuple[Rule, ...] = (
    keep_declared_groups,
    choose_measures,
    bound_contributions,
)


def apply(draft: Draft) -> Draft:
    """The draft after all rules."""
    for rule in RULES:
        draft = rule(draft)
    return draft
