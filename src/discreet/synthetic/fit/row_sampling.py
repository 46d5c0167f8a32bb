"""Rows of codes drawn from a relaxed table: post-processing of what was released.

Each soft row becomes the same number of rows. In each column the codes of these rows are a systematic sample of the
soft row's probabilities, in random order: the number of rows with a code is its expected number, rounded up or down
with the right probabilities. Then, where exchanging the codes of two rows in one column brings the counts of pairs
nearer to those that the relaxed table expects, and is as likely by their soft rows, they are exchanged. Both make the
drawn table nearer to the fitted one than independent draws are.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData
from discreet.exact import integer
from discreet.noise.entropy import SYSTEM, Entropy
from discreet.synthetic.fit.relaxed import RelaxedTable
from discreet.synthetic.measure.noisy_marginals import Allowed, groups

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_MOST_ROWS = 10**8
_SWEEPS = 320
_PAIRS = 2048  # of rows at most that exchange codes at once; many at once overshoot
_TRIES = 50
_TRADES, _PARTNERS, _AT_ONCE = 40, 32, 4096  # tries of rows that break a constraint, each with so many others
_MOVES = 320  # rounds in which rows get other codes, so that each column is as expected
_SHORTEST = 1 / 8  # of a column's codes: rows do not move less far than that
_BATCH, _BATCHES = 4096, 16  # of rows that are drawn to find one that is allowed
_UNLIKELY = 1e-6  # so much less likely exchanges are not made
_LEAST = 1e-9  # of a probability that is multiplied with others
_TOGETHER = 1 << 22  # numbers at a time


def draw(
    table: RelaxedTable,
    *,
    rows: int | None = None,
    allowed: Sequence[Allowed] = (),
    sweeps: int = _SWEEPS,
    entropy: Entropy | None = None,
) -> Codes:
    """Rows of codes, in random order; every row satisfies every constraint. By default as many as the noisy total says.

    >>> from discreet.noise import DeterministicEntropy
    >>> soft = np.array([[1, 0, 0, 1], [0, 1, 0.5, 0.5]], np.float32)
    >>> table = RelaxedTable((2, 2), 100.0, soft, 1.0, 1, "misfit")
    >>> codes = draw(table, entropy=DeterministicEntropy(1))
    >>> codes.shape, int(codes[:, 0].sum()), int((codes[:, 0] * codes[:, 1]).sum())
    ((100, 2), 50, 25)
    """
    count = integer(round(table.total) if rows is None else rows, "rows", at_least=1, at_most=_MOST_ROWS)
    source = SYSTEM if entropy is None else entropy
    starts = np.arange(len(table.weights) + 1) * count // len(table.weights)
    codes = _stratified(table, starts, source)
    for columns, together in groups(allowed):
        _repair(codes, table, starts, columns, together, source)
    if integer(sweeps, "sweeps", at_least=0, at_most=10**6):
        codes = _Exchange(codes, table, starts, allowed).swept(sweeps, source)
    return np.ascontiguousarray(codes[np.argsort(source.words(count), kind="stable")])


def draw_given(
    table: RelaxedTable,
    given: Codes,
    *,
    allowed: Sequence[Allowed] = (),
    sweeps: int = _SWEEPS,
    entropy: Entropy | None = None,
) -> Codes:
    """The other columns of rows whose first columns are given, in their order; constraints are on the others alone.

    Each row belongs to soft row k with probability ∝ Π_j w_k(its code in column j): what the relaxed table, a mixture,
    says of a row of which these columns are known.

    >>> from discreet.noise import DeterministicEntropy
    >>> soft = np.array([[1, 0, 0, 1], [0, 1, 1, 0]], np.float32)
    >>> table = RelaxedTable((2, 2), 100.0, soft, 1.0, 1, "misfit")
    >>> draw_given(table, np.array([[0], [1], [1]]), entropy=DeterministicEntropy(1)).ravel().tolist()
    [1, 0, 0]
    """
    source = SYSTEM if entropy is None else entropy
    first = given.shape[1]
    if not len(given):
        return np.empty((0, len(table.sizes) - first), np.int64)
    if not first:
        return draw(table, rows=len(given), allowed=allowed, sweeps=sweeps, entropy=source)
    member = _members(table, given, source)
    order = np.argsort(member, kind="stable")
    starts = np.searchsorted(member[order], np.arange(len(table.weights) + 1))
    codes = _stratified(table, starts, source)
    codes[:, :first] = given[order]
    for columns, together in groups(allowed):
        _repair(codes, table, starts, columns, together, source)
    codes = _Exchange(codes, table, starts, allowed).swept(sweeps, source, first=first)
    result = np.empty((len(given), len(table.sizes) - first), np.int64)
    result[order] = codes[:, first:]
    return result


def _members(table: RelaxedTable, given: Codes, entropy: Entropy) -> Codes:
    """A soft row for each row, by what is known of it."""
    logs = np.log(np.maximum(table.weights, np.float32(_LEAST)))
    offsets = np.cumsum((0, *table.sizes[:-1]))[: given.shape[1]]
    result = np.empty(len(given), np.int64)
    step = max(1, _TOGETHER // len(logs))
    for start in range(0, len(given), step):
        chosen = given[start : start + step] + offsets
        level = sum((logs[:, chosen[:, column]].T for column in range(given.shape[1])), np.float32(0))
        level = np.exp(level - level.max(axis=1, keepdims=True))
        result[start : start + step] = _independent(level, entropy)
    return result


def _stratified(table: RelaxedTable, starts: Codes, entropy: Entropy) -> Codes:
    """Soft row k fills rows starts[k] to starts[k+1]."""
    member = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    codes = np.empty((len(member), len(table.sizes)), np.int64)
    for column in range(len(table.sizes)):
        codes[:, column] = spread(table.column(column), member, entropy)
    return codes


def spread(shares: NDArray[Any], member: Codes, entropy: Entropy) -> Codes:
    """One code for each row: a systematic sample of the shares of the row's group, in random order.

    >>> from discreet.noise import DeterministicEntropy
    >>> spread(np.array([[0.5, 0.5], [0, 1]]), np.array([0, 1, 0, 1]), DeterministicEntropy(1))[[1, 3]].tolist()
    [1, 1]
    """
    numbers = _systematic(shares, np.bincount(member, minlength=len(shares)), entropy)
    codes = np.empty(len(member), np.int64)
    shuffled = np.lexsort((entropy.words(len(member)), member))  # by group, in random order
    codes[shuffled] = np.repeat(np.tile(np.arange(numbers.shape[1]), len(numbers)), numbers.ravel())
    return codes


def _systematic(shares: NDArray[Any], counts: Codes, entropy: Entropy) -> Codes:
    """How many of each group's `counts` rows get each code; the expectation is counts·share.

    Proof. With one uniform U in [0, 1) a group, code v gets ⌈c·F(v) − U⌉ − ⌈c·F(v−1) − U⌉, F being the sums of the
    shares: the points U, U + 1, … that fall between them.
    """
    ends = np.cumsum(shares, axis=1, dtype=np.float64)
    ends *= (counts / ends[:, -1])[:, None]
    ends[:, -1] = counts
    upto = np.ceil(ends - _uniform(len(counts), entropy)[:, None]).astype(np.int64)
    upto = np.clip(upto, 0, counts[:, None])
    upto[:, -1] = counts
    return np.diff(upto, axis=1, prepend=0)


def _repair(
    codes: Codes, table: RelaxedTable, starts: Codes, columns: list[int], allowed: list[Allowed], entropy: Entropy
) -> None:
    """Draw the columns that constraints tie together again in rows that break one: rejection, in place.

    Where one column is at most another, rows exchange codes first, and columns are restored in the end. A redrawn row
    keeps its soft row for half of the tries, then takes any. Rows that break a constraint to the end copy these columns
    from rows that do not.
    """
    member = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    if not any(each.is_order for each in allowed):
        _redraw(codes, table, member, columns, allowed, entropy)
        return
    _trade(codes, table, member, columns, allowed, entropy)
    _redraw(codes, table, member, columns, allowed, entropy)
    _restore(codes, table, member, columns, allowed, entropy)


def _redraw(
    codes: Codes, table: RelaxedTable, member: Codes, columns: list[int], allowed: list[Allowed], entropy: Entropy
) -> None:
    bad = np.flatnonzero(_broken(codes, allowed))
    for turn in range(_TRIES):
        if not len(bad):
            return
        soft = member[bad] if turn < _TRIES // 2 else _below(len(table.weights), len(bad), entropy)
        for column in columns:
            codes[bad, column] = _independent(table.column(column)[soft], entropy)
        bad = bad[_broken(codes[bad], allowed)]
    if not len(bad):
        return
    good = codes[~_broken(codes, allowed)]
    if not len(good):
        good = _proposed(table, columns, allowed, entropy)
    copied = _below(len(good), len(bad), entropy)
    for column in columns:
        codes[bad, column] = good[copied, column]


def _restore(
    codes: Codes, table: RelaxedTable, member: Codes, columns: list[int], allowed: list[Allowed], entropy: Entropy
) -> None:
    """Bring columns that an order ties together nearer to what the table expects of each alone, in place.

    Noise of their pair is all on the side that the order allows: of two columns one comes out too small and the other
    too large, although each alone is known well. So rows get other codes of their soft row where Σ|C| falls by it, C(v)
    being how many rows too many have a code beyond v, and where no constraint is broken. Rows that move furthest go
    first: noise is the likelier cause of a pair of codes that are far apart.
    """
    numbers = np.bincount(member, minlength=len(table.weights))
    orders = {column: order for column in columns if (order := _order(column, allowed)) is not None}
    whole = _MOVES * len(orders)
    for turn, column in enumerate([*orders] * _MOVES):
        order, share = orders[column], table.column(column)
        expected = numbers @ share.astype(np.float64)
        excess = (np.bincount(codes[:, column], minlength=len(order)) - expected)[order]
        beyond = np.cumsum(excess[::-1])[::-1][1:]
        down, up = (np.append(0, np.cumsum(np.where(too_many >= 1, 1, -1))) for too_many in (beyond, -beyond))
        rows = np.unique(_below(len(codes), min(_AT_ONCE, len(codes) // 8 + 1), entropy))
        moved, rank = codes[rows], np.argsort(order)
        moved[:, column] = _independent(share[member[rows]], entropy)
        here, there = rank[codes[rows, column]], rank[moved[:, column]]
        gain = np.where(there < here, down[here] - down[there], up[there] - up[here])
        helps = gain >= len(order) * max(_SHORTEST, 1 - turn / whole)
        lawful = helps & ~_broken(moved, allowed)
        codes[rows[lawful], column] = moved[lawful, column]


def _order(column: int, allowed: list[Allowed]) -> Codes | None:
    """The codes of a column, by how many codes of another an order allows beside them; None where none ties it."""
    for each in allowed:
        if each.is_order and column in each.attributes:
            axis = 1 - each.attributes.index(column)
            return np.argsort(each.table.sum(axis=axis), kind="stable")
    return None


def _trade(
    codes: Codes, table: RelaxedTable, member: Codes, columns: list[int], allowed: list[Allowed], entropy: Entropy
) -> None:
    """Exchange codes of rows that break a constraint with rows that break none, where then both break none, in place.

    No column changes as a whole. Drawing such rows again changes them: stays that may not end before they begin would
    all become longer.
    """
    for turn in range(_TRADES):
        broken = _broken(codes, allowed)
        bad, good = np.flatnonzero(broken), np.flatnonzero(~broken)
        if not len(bad) or not len(good):
            return
        column = columns[turn % len(columns)]
        for start in range(0, len(bad), _AT_ONCE):
            some = bad[start : start + _AT_ONCE]
            others = good[_below(len(good), len(some) * _PARTNERS, entropy)].reshape(len(some), _PARTNERS)
            chances = _chances_of_trade(codes, table, member, some, others, column, allowed)
            sums = np.cumsum(chances, axis=1)
            places = _uniform(len(some), entropy) * sums[:, -1]
            chosen = np.minimum((sums <= places[:, None]).sum(axis=1), _PARTNERS - 1)
            able = np.flatnonzero(sums[:, -1] > 0)
            theirs, first = np.unique(others[able, chosen[able]], return_index=True)
            ours = some[able[first]]
            codes[ours, column], codes[theirs, column] = codes[theirs, column], codes[ours, column]


def _chances_of_trade(
    codes: Codes, table: RelaxedTable, member: Codes, rows: Codes, others: Codes, column: int, allowed: list[Allowed]
) -> Floats:
    """In proportion to what, for each row, each of its partners is taken: as likely as the soft rows make both codes.

    0 where one of the two would break a constraint afterwards, or where the soft rows rule it out.
    """
    mine, yours = np.repeat(codes[rows], others.shape[1], axis=0), codes[others.ravel()]
    mine[:, column], yours[:, column] = yours[:, column].copy(), mine[:, column].copy()
    lawful = ~(_broken(mine, allowed) | _broken(yours, allowed)).reshape(others.shape)
    share, here, there = table.column(column), codes[rows, column, None], codes[others, column]
    a, b = member[rows, None], member[others]
    ratio = share[a, there] * share[b, here] / np.maximum(share[a, here] * share[b, there], np.float32(_LEAST))
    return np.where(lawful & (ratio > _UNLIKELY), np.minimum(ratio, 1), 0).astype(np.float64)


def _proposed(table: RelaxedTable, columns: list[int], allowed: list[Allowed], entropy: Entropy) -> Codes:
    """Rows that break no constraint, where none was drawn; other columns are 0.

    They are searched for at the table's probabilities, then at ever flatter ones: what has no chance at all gets none.
    """
    for turn in range(_BATCHES):
        soft = _below(len(table.weights), _BATCH, entropy)
        codes = np.zeros((_BATCH, len(table.sizes)), np.int64)
        for column in columns:
            codes[:, column] = _independent(table.column(column)[soft] ** np.float32(0.5**turn), entropy)
        good = codes[~_broken(codes, allowed)]
        if len(good):
            return good
    raise InvalidData(f"no row satisfies the constraints on columns {columns}: the table gives them no chance")


def possible(allowed: Sequence[Allowed], sizes: Sequence[int]) -> bool:
    """Whether a row can satisfy all constraints together.

    >>> same = Allowed((0, 1), np.eye(2, dtype=bool), (2, 2))
    >>> possible([same], (2, 2)), possible([same, Allowed((0, 1), ~np.eye(2, dtype=bool), (2, 2))], (2, 2))
    (True, False)
    """
    return all(
        _lawful({}, {column: np.ones(sizes[column], np.bool_) for column in columns}, together) is not None
        for columns, together in groups(allowed)
    )


def _lawful(
    chosen: dict[int, int], left: dict[int, NDArray[np.bool_]], allowed: Sequence[Allowed]
) -> dict[int, int] | None:
    """A code for each column that is left, by search: where fewest may be chosen first; what that rules out goes."""
    rest = dict(left)
    for rule in allowed:
        unknown = [column for column in rule.attributes if column not in chosen]
        if len(unknown) == 1:
            at = tuple(chosen.get(column, slice(None)) for column in rule.attributes)
            rest[unknown[0]] = rest[unknown[0]] & rule.table[at]
    if not rest:
        return chosen
    column = min(rest, key=lambda each: int(rest[each].sum()))
    others = {each: codes for each, codes in rest.items() if each != column}
    for code in np.flatnonzero(rest[column]).tolist():
        result = _lawful({**chosen, column: code}, others, allowed)
        if result is not None:
            return result
    return None


class _Exchange:
    """Exchanges codes between rows where that brings the counts of pairs nearer to the table's.

    A sweep tries one exchange for some pairs of rows in each column: at most one in 32 of the rows, as many at once
    would overshoot. Of those that help it makes each with probability min(1, r), r being how much likelier the soft
    rows of the two make their codes after it than before (Metropolis): what is known beyond pairs is kept. Codes are
    numbered through all columns here.
    """

    def __init__(self, codes: Codes, table: RelaxedTable, starts: Codes, allowed: Sequence[Allowed]) -> None:
        self._sizes, self._allowed = table.sizes, allowed
        self._offsets = np.cumsum((0, *table.sizes[:-1]))
        self._codes = codes + self._offsets
        self._member = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        self._logs = np.log(np.maximum(table.weights, np.float32(_LEAST)))
        self._excess = self._counted() - (table.weights.T @ table.weights) * np.float32(len(codes) / len(table.weights))

    def _counted(self) -> Singles:
        """How many rows have each pair of codes."""
        width, result = sum(self._sizes), []
        for column, size in enumerate(self._sizes):
            at = (self._codes[:, column, None] - self._offsets[column]) * width + self._codes
            result.append(np.bincount(at.ravel(), minlength=size * width).reshape(size, width))
        return np.concatenate(result).astype(np.float32)

    def swept(self, sweeps: int, entropy: Entropy, first: int = 0) -> Codes:
        """The codes after so many sweeps over all columns but the first so many."""
        for _ in range(sweeps if len(self._codes) > 1 else 0):
            for column in range(first, len(self._sizes)):
                self._sweep(column, entropy)
        return np.asarray(self._codes - self._offsets)

    def _sweep(self, column: int, entropy: Entropy) -> None:
        one, other = self._pairs(entropy)
        here, there = self._codes[one, column], self._codes[other, column]
        mine, yours, logs = self._member[one], self._member[other], self._logs
        likelier = logs[mine, there] + logs[yours, here] - logs[mine, here] - logs[yours, there]
        chosen = (here != there) & (_uniform(len(one), entropy) < np.exp(np.minimum(likelier, 0)))
        one, other = one[chosen], other[chosen]
        helps = self._gain(one, other, column) > 0
        one, other = one[helps], other[helps]
        if self._allowed:
            lawful = self._lawful(one, other, column)
            one, other = one[lawful], other[lawful]
        self._swap(one, other, column)

    def _pairs(self, entropy: Entropy) -> tuple[Codes, Codes]:
        """Pairs of rows, no row in two of them: even rows, each with the odd row a random way further on."""
        even = len(self._codes) // 2 * 2
        step = even // max(1, min(_PAIRS, even // 32)) // 2 * 2
        start, shift = (
            int(word % np.uint64(half)) * 2 for word, half in zip(entropy.words(2), (step // 2, even // 2), strict=True)
        )
        one = np.arange(start, even, step)
        return one, (one + shift + 1) % even

    def _gain(self, one: Codes, other: Codes, column: int) -> Floats:
        """Half of how much the sum of squared excesses falls.

        In each other column where the two rows differ, four counts move by one: two fall and two rise.
        """
        mine, yours = self._codes[one], self._codes[other]
        here, there = mine[:, column, None], yours[:, column, None]
        excess = self._excess
        falls = excess[here, mine] + excess[there, yours] - excess[there, mine] - excess[here, yours] - 2
        falls[mine == yours] = 0
        falls[:, column] = 0
        return np.asarray(falls.sum(axis=1, dtype=np.float64))

    def _lawful(self, one: Codes, other: Codes, column: int) -> NDArray[np.bool_]:
        """Which exchanges keep every constraint in both rows."""
        mine, yours = (self._codes[rows] - self._offsets for rows in (one, other))
        mine[:, column], yours[:, column] = yours[:, column].copy(), mine[:, column].copy()
        tied = [each for each in self._allowed if column in each.attributes]
        return ~(_broken(mine, tied) | _broken(yours, tied))

    def _swap(self, one: Codes, other: Codes, column: int) -> None:
        width, size = sum(self._sizes), self._sizes[column]
        mine, yours = (np.delete(self._codes[rows], column, axis=1) for rows in (one, other))
        here, there = ((self._codes[rows, column, None] - self._offsets[column]) * width for rows in (one, other))
        more = np.concatenate([here + yours, there + mine]).ravel()
        less = np.concatenate([here + mine, there + yours]).ravel()
        moved = np.bincount(more, minlength=size * width) - np.bincount(less, minlength=size * width)
        part = slice(self._offsets[column], self._offsets[column] + size)
        self._excess[part] += moved.reshape(size, width)
        self._excess[:, part] = self._excess[part].T
        self._codes[one, column], self._codes[other, column] = self._codes[other, column], self._codes[one, column]


def _broken(codes: Codes, allowed: Sequence[Allowed]) -> NDArray[np.bool_]:
    """Which rows break a constraint."""
    broken = np.zeros(len(codes), np.bool_)
    for each in allowed:
        broken |= ~each.holds(codes)
    return broken


def _independent(shares: NDArray[np.float32], entropy: Entropy) -> Codes:
    """One code a row, by the row's probabilities."""
    ends = np.cumsum(shares, axis=1, dtype=np.float64)
    places = _uniform(len(shares), entropy) * ends[:, -1]
    return np.asarray(np.minimum((ends <= places[:, None]).sum(axis=1), shares.shape[1] - 1))


def _below(bound: int, count: int, entropy: Entropy) -> Codes:
    return (_uniform(count, entropy) * bound).astype(np.int64)


def _uniform(count: int, entropy: Entropy) -> Floats:
    """Numbers in [0, 1). They decide nothing that is private: the table that is drawn from is public."""
    return np.asarray((entropy.words(count) >> np.uint64(11)) * 2.0**-53)
