"""Which groups are sums of others: what a batch releases once, and answers consistently.

Of several blocks over the same rows, one that groups by fewer keys needs no release of its own: its groups are sums of
finer ones that are released anyway (decision 37). Each release that is saved leaves more ε to the others. A sum of n
numbers has √n times the noise of one; with M measures in all, of which M′ remain, it is as exact as a release of its
own where √n·M′ ≤ M, and then every number of the batch is more exact, too. With Gaussian noise, n·M′ ≤ M.
"""

from collections.abc import Sequence
from math import prod

from discreet.sql.algebra.relations import declared_condition
from discreet.sql.algebra.rows import at_most_one_row, unit_of
from discreet.sql.algebra.rules import Draft
from discreet.sql.plan.price import shares_of
from discreet.sql.text.aggregates import NOT_ADDED


def summed(drafts: Sequence[Draft], priced: Sequence[Draft], *, gaussian: bool) -> dict[int, int]:
    """For each draft that needs no release of its own, the one whose groups are added up; `priced`: after the rules.

    Nothing here depends on ε, so that whatever ε the same statements are planned with, they release the same numbers.
    """
    finer = {i: [j for j in range(len(drafts)) if _adds_up(drafts, i, j)] for i in range(len(drafts))}
    results = {i for i, others in finer.items() if others}
    while results:
        rest = [draft for i, draft in enumerate(priced) if i not in results]
        targets = {
            i: min((j for j in finer[i] if j not in results), key=lambda j: _cells(drafts[j])) for i in sorted(results)
        }
        times = {i: _cells(drafts[j]) // _cells(drafts[i]) for i, j in targets.items()}
        worst = max(sorted(results), key=times.__getitem__)
        before, after = shares_of(priced), shares_of(rest)
        if times[worst] * after <= before if gaussian else times[worst] * after**2 <= before**2:
            return targets
        results.discard(worst)
    return {}


def _adds_up(drafts: Sequence[Draft], i: int, j: int) -> bool:
    """Whether all numbers of a draft are sums over groups of another, of which a person is in one at most.

    A person in several groups might lose more of them to the bound on finer groups, and a row whose finer key is not
    declared is in no finer group: either would change the number. Of two drafts that could each be made of the other,
    the first is released.
    """
    coarse, fine = drafts[i], drafts[j]
    if i == j or coarse.rows != fine.rows or not set(coarse.keys) <= set(fine.keys) or not coarse.calls:
        return False
    if set(coarse.keys) == set(fine.keys) and set(coarse.calls) == set(fine.calls) and i < j:
        return False
    known = all(key.size is not None for key in fine.keys)
    complete = all(declared_condition(key) is None for key in fine.keys if key not in coarse.keys)
    added = not any(call.function in NOT_ADDED for call in coarse.calls) and set(coarse.calls) <= set(fine.calls)
    single = unit_of(fine.rows).key is None or at_most_one_row(fine.rows)
    return known and complete and added and (single or (fine.limit("groups"), fine.limit("rows")) == (1, 1))


def _cells(draft: Draft) -> int:
    return prod(key.size or 1 for key in draft.keys)
