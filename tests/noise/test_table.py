"""Lazy inversion decides every comparison as infinite precision would."""

from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Scripted

from discreet.errors import InternalError
from discreet.noise import uniform
from discreet.noise.entropy import DeterministicEntropy
from discreet.noise.gaussian import _gaussian
from discreet.noise.geometric import _geometric, _laplace
from discreet.noise.sampler import Table, below, ceiling

TOP = 1 << 64
F = Fraction


def rational_table(cumulative: list[Fraction]) -> Table:
    """A finite table whose F(i) are rationals, enclosed as tightly as integers can."""

    def enclose(i: int, bits: int) -> tuple[int, int]:
        scaled, rest = divmod(cumulative[i].numerator << bits, cumulative[i].denominator)
        return scaled, scaled + bool(rest)

    return Table([enclose(i, 64) for i in range(len(cumulative))], enclose, outcomes=len(cumulative) + 1)


TABLES = {
    "coin 1/3": lambda: uniform._coin(F(1, 3)),
    "coin 0": lambda: uniform._coin(F(0)),
    "coin 1": lambda: uniform._coin(F(1)),
    "coin 1e-30": lambda: uniform._coin(F(1, 10**30)),
    "coin 1 - 1e-30": lambda: uniform._coin(1 - F(1, 10**30)),
    "coin 2^-16": lambda: uniform._coin(F(1, 2**16)),
    "coin one above a cell's start": lambda: uniform._coin(F(5, 2**16) + F(1, 2**64)),
    "coin one below a cell's start": lambda: uniform._coin(F(5, 2**16) - F(1, 2**64)),
    "coin half below a cell's start": lambda: uniform._coin(F(5, 2**16) - F(1, 2**65)),
    "exp coin 1/1000": lambda: uniform._exp_coin(F(1, 1000)),
    "exp coin 1e-30": lambda: uniform._exp_coin(F(1, 10**30)),
    "exp coin 100": lambda: uniform._exp_coin(F(100)),
    "laplace 22/7": lambda: _laplace(F(22, 7)).digits[0][1],
    "laplace 1e12 low": lambda: _laplace(F(10**12)).digits[0][1],
    "laplace 1e12 high": lambda: _laplace(F(10**12)).digits[-1][1],
    "geometric 1/50": lambda: _geometric(F(1, 50)).digits[0][1],
    "gaussian 1/7": lambda: _gaussian(F(1, 7)).blocks,
    "gaussian 10": lambda: _gaussian(F(10)).blocks,
    "two close": lambda: rational_table([F(1, 3), F(1, 3) + F(1, 2**64), F(2, 3)]),
    "equal thresholds": lambda: rational_table([F(1, 7), F(1, 7) + F(1, 10**30), F(1, 7) + F(2, 10**30), F(1, 2)]),
}


@pytest.fixture(params=TABLES)
def table(request) -> Table:
    return TABLES[request.param]()


def words_of_interest(table: Table) -> list[int]:
    """Words at, beside and far from thresholds and the ends of guide cells."""
    thresholds = [int(t) for t in table.thresholds]
    chosen = (
        thresholds if len(thresholds) < 12 else [*thresholds[:6], thresholds[len(thresholds) // 2], *thresholds[-5:]]
    )
    near = {t + step for t in chosen for step in (-3, -2, -1, 0, 1, 2, 3, 1 << 47, -(1 << 47))}
    cells = {(t >> 48 << 48) + step for t in chosen for step in (-1, 0, 1, (1 << 48) - 1, 1 << 48)}
    return sorted(w for w in near | cells | {0, 1, TOP - 1, TOP - 2, TOP // 2} if 0 <= w < TOP)


def vector_script(table: Table, words: list[int]) -> list[int]:
    """What `picks` must be fed to see the U that `pick` sees in `words`: top 16 bits first, the other 48 where open."""
    guide = table.guide
    tops = [w >> 48 for w in words]
    packed = np.array(tops + [0] * (-len(tops) % 4), np.uint16).view(np.uint64).tolist()
    rest = [(w << 16) % TOP for w, top in zip(words, tops, strict=True) if guide[top] < 0]
    return packed + rest + [TOP // 7] * (ceiling(len(words), table.open_share) - len(rest))  # what is thrown away


class Same:
    """The same word for ever, so that the order of questions does not matter."""

    def words(self, count: int) -> np.ndarray:
        return np.full(count, TOP // 3, np.uint64)


EXTRA = [[0, 0, 0], [TOP - 1, 5, 5], [TOP // 3, 7, 7], [1, TOP - 1, 0]]


@pytest.mark.parametrize("extra", EXTRA, ids=["zeros", "ones", "third", "one"])
def test_one_and_many_decide_alike(table, scripted, extra):
    for word in words_of_interest(table):
        tail = DeterministicEntropy(word)
        one = table.pick(word, scripted(extra, then=tail))
        tail = DeterministicEntropy(word)
        many = table.picks(scripted(vector_script(table, [word]) + extra, then=tail), 1)
        assert many.tolist() == [one], hex(word)


@given(st.lists(st.integers(0, TOP - 1), min_size=1, max_size=50))
@settings(max_examples=60)
def test_one_and_many_decide_alike_on_random_words(words):
    for name in ("laplace 22/7", "gaussian 10", "coin 1/3"):
        table = TABLES[name]()
        ones = [table.pick(word, Scripted([], then=Same())) for word in words]
        assert table.picks(Scripted(vector_script(table, words), then=Same()), len(words)).tolist() == ones


def test_every_decided_cell_of_the_guide_is_certain_at_both_ends(table):
    thresholds = [int(t) for t in table.thresholds]
    guide = table._make_guide().tolist()
    assert len(guide) == 1 << 16
    for cell, outcome in enumerate(guide):
        start, end = cell << 48, (cell + 1 << 48) - 1
        certain, possible = bisect_right(thresholds, start - 2), bisect_right(thresholds, end)
        assert outcome == (certain if certain == possible else -1), cell
    assert guide.count(-1) <= 2 * len({t >> 48 for t in thresholds})


def test_a_word_is_decided_at_once_exactly_when_no_threshold_is_within_one_below(table, scripted, monkeypatch):
    asked, resolve = [], table._resolve
    monkeypatch.setattr(table, "_resolve", lambda word, entropy: asked.append(word) or resolve(word, entropy))
    for word in words_of_interest(table):
        table.pick(word, scripted([], then=DeterministicEntropy(1)))
        must_ask = any(int(t) in (word, word - 1) for t in table.thresholds)
        assert (word in asked) == must_ask, hex(word)


def test_thresholds_are_padded_so_that_every_search_takes_the_same_steps(table):
    class Probe(int):
        compared = 0

        def __lt__(self, other):
            Probe.compared += 1
            return int(self) < other

    length = len(table._list)
    assert length + 1 == 1 << length.bit_length()
    steps = set()
    for word in words_of_interest(table):
        Probe.compared = 0
        assert bisect_right(table._list, Probe(word)) == bisect_right(table._list, word)
        steps.add(Probe.compared)
    assert steps == {length.bit_length()}


@given(
    st.lists(st.fractions(0, 1, max_denominator=10**25), min_size=1, max_size=6),
    st.lists(st.integers(0, TOP - 1), min_size=3, max_size=3),
)
@settings(max_examples=200)
def test_any_rational_distribution_is_inverted_exactly(cuts, words):
    cumulative = sorted(cuts)
    u = F(words[0] * TOP * TOP + words[1] * TOP + words[2], TOP**3)
    if any(0 <= f - u <= F(1, TOP**3) for f in cumulative):
        return  # the script ends before U is distinguished from F
    expected = next((i for i, f in enumerate(cumulative) if u < f), len(cumulative))
    table = rational_table(cumulative)
    assert table.pick(words[0], Scripted(words[1:], then=DeterministicEntropy(0))) == expected


@pytest.mark.parametrize("agree", [1, 2, 5])
def test_a_u_that_agrees_with_f_for_long_is_still_decided_rightly(scripted, agree):
    p = F(1, 3)
    prefix = int(p * TOP**agree)
    words = [(prefix >> (64 * (agree - 1 - j))) % TOP for j in range(agree)]
    third = TOP // 3
    for last, expected in [(third - 1, True), (third + 1, False), (0, True), (TOP - 1, False)]:
        for coin in (uniform._coin(p),):
            assert (coin.pick(words[0], scripted([*words[1:], last])) == 0) is expected
        enclose = uniform.enclosing(p)
        assert below(words[0], enclose, scripted([*words[1:], last])) is expected


def test_a_dyadic_threshold_needs_no_more_bits(scripted):
    coin = uniform._coin(F(3, 8))
    t = 3 << 61
    assert [coin.pick(t + step, scripted([])) for step in (-2, -1, 0, 1, 2)] == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("bounds", "outcomes"),
    [
        ([(5, 8)], 2),
        ([(9, 10), (5, 6)], 3),
        ([(5, 6)], None),
        ([], None),
        ([(TOP - 3, TOP - 2)], None),
        ([(i, i) for i in range(2**15 - 1)], 2**15),
        ([(TOP, TOP + 2)], 2),
    ],
    ids=["wide", "disordered", "short tail", "empty", "short of the top", "long", "wide at the top"],
)
def test_tables_that_could_decide_wrongly_are_not_built(bounds, outcomes):
    with pytest.raises(InternalError):
        Table(bounds, lambda i, bits: (0, 1 << bits), outcomes)


def test_the_longest_table_still_fits_its_guide(scripted):
    n = 2**15 - 2
    table = rational_table([F(i + 1, n + 1) for i in range(n)])
    last = table.picks(scripted([TOP - 1, *[TOP - 1] * 4]), 4)
    assert last.tolist() == [n] * 4
