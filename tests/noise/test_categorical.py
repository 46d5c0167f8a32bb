"""Choosing one of many: covers cover, acceptance is the exact ratio, and every bad vector is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conftest import Scripted, stable
from tests.noise.reference import CONTEXT, WORD, exp, leading_words, real
from tests.noise.test_geometric import BAD_SCALES, BAD_SIZES

from discreet.errors import InvalidData, InvalidParameter
from discreet.noise import DeterministicEntropy, accept_each, categorical, softmax, softmax_each
from discreet.noise.categorical import _Softmax, _Stretches, whole_numbers

F = Fraction
INT64 = 2**63 - 1


# --- categorical -------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any))
@settings(max_examples=100)
def test_each_position_owns_as_many_places_as_its_weight(weights):
    """Enumerates all outcomes of the uniform integer below Σ weights."""
    total = sum(weights)
    got = [categorical(weights, entropy=Scripted([place])) for place in range(total)]
    assert np.bincount(got, minlength=len(weights)).tolist() == weights
    if total & (total - 1):  # words are reduced modulo the total; places are their own residues
        assert categorical(weights, total, entropy=Scripted(range(total))).tolist() == got


@pytest.mark.parametrize(
    "weights",
    [
        [2**62, 2**62], [2**63, 2**63], [10**30, 1, 10**30], [INT64], [INT64, 1], [1, INT64, 0], ["1/3", "2/3"],
        ["0.1", F(1, 7), 3], np.array([1, 2], np.uint64), np.array([2**64 - 1, 1], np.uint64), range(1, 5), (3, 1),
        np.array([F(1, 3), 2], object),
    ],
    ids=lambda w: stable(w)[:30],
)  # fmt: skip
def test_large_and_rational_weights_on_both_paths(weights):
    exact = [F(w) if isinstance(w, str) else F(int(w)) if isinstance(w, np.integer) else F(w) for w in weights]
    draws = categorical(weights, 4000, entropy=DeterministicEntropy(3))
    assert (draws.dtype, draws.shape) == (np.int64, (4000,))
    for i, w in enumerate(exact):
        assert abs(np.mean(draws == i) - float(w / sum(exact))) < 0.05
    one = categorical(weights, entropy=DeterministicEntropy(3))
    assert type(one) is int
    assert 0 <= one < len(exact)


def test_positions_of_weight_zero_are_never_chosen():
    weights = [0, 0, 3, 0, 1, 0]
    assert set(categorical(weights, 20_000).tolist()) == {2, 4}
    assert categorical([0, 5, 0]) == 1


@pytest.mark.parametrize("size", [0, 5, (2, 3), (), (2, 0)])
def test_shapes(size):
    shape = size if isinstance(size, tuple) else (size,)
    for got in (categorical([1, 2], size), softmax([1, 2], 1, size), categorical([2**63, 2**63], size)):
        assert isinstance(got, np.ndarray)
        assert (got.dtype, got.shape) == (np.int64, shape)
    assert type(softmax([1, 2], 1)) is int


# --- softmax: the proposal covers the truth ----------------------------------------------------------------

scores_ = st.one_of(
    st.lists(st.integers(-50, 50), min_size=1, max_size=8),
    st.lists(st.integers(-(2**63) + 1, INT64), min_size=1, max_size=8),
    st.lists(st.integers(-(10**40), 10**40), min_size=1, max_size=6),
    st.lists(st.fractions(-100, 100, max_denominator=10**6), min_size=1, max_size=6),
)
scales_ = st.one_of(
    st.sampled_from(
        [F(1), F(1, 3), F(10**6), F(1, 10**30), F(10**30), F(1, 10**1000), F(10**1000), F(10**18), F(10**19)]
    ),
    st.fractions(F(1, 100), 1000, max_denominator=1000),
)


def sampler_of(scores, scale, copies=None) -> tuple[_Softmax, list[Fraction], list[int]]:
    values, denominator = whole_numbers(scores, "scores")
    counts = None if copies is None else np.array(copies, np.int64)
    exact = [F(int(v), denominator) for v in values.tolist()]
    return _Softmax(values, F(scale) * denominator, counts), exact, [1] * len(exact) if copies is None else list(copies)


def true_weights(exact: list[Fraction], scale: Fraction, copies: list[int]):
    top = max(s for s, c in zip(exact, copies, strict=True) if c)
    gaps = [min((top - s) / F(scale), F(10**5)) if c else F(0) for s, c in zip(exact, copies, strict=True)]
    return [c * exp(-gap) for gap, c in zip(gaps, copies, strict=True)]


def check(scores, scale, copies=None) -> None:
    sampler, exact, counts = sampler_of(scores, scale, copies)
    true = true_weights(exact, F(scale), counts)
    covers = sampler._covers.tolist()
    unit = CONTEXT.mpf(2) ** sampler._exponent
    assert sampler._ends[-1] == sum(covers) < 2**63
    for i, (cover, weight) in enumerate(zip(covers, true, strict=True)):
        assert cover >= weight * unit, f"cover {i} is below the true weight"
        assert cover <= weight * unit * (1 + 2.0**-38) + 2
        assert (cover == 0) == (counts[i] == 0)
    assert 1 - CONTEXT.fsum(true) * unit / sum(covers) < 2.0**-16, "rejections are rare"


@given(scores_, scales_)
@settings(max_examples=150)
@example([0, 15 * 10**307], F(10**308))
@example([F(0), F(1), F(1, 10**305)], F(1))
@example([0, 1], F(1, 10**1000))
@example([0, INT64], F(1, 10**300))
@example([-(2**62), 2**62], F(2**62))
def test_covers_are_at_least_the_true_weights_and_barely_more(scores, scale):
    check(scores, scale)


@given(st.data())
@settings(max_examples=100)
def test_covers_hold_with_multiplicities_zero_and_huge(data):
    scores = data.draw(scores_)
    copies = data.draw(
        st.lists(
            st.sampled_from([0, 1, 2, 10**6, 2**53 + 1, INT64]), min_size=len(scores), max_size=len(scores)
        ).filter(any)
    )
    check(scores, data.draw(scales_), copies)


def test_covers_hold_for_the_extremes_of_64_bits():
    for scores in (
        np.array([-(2**63), INT64]),
        np.array([-(2**63), -(2**63) + 1]),
        np.array([INT64, INT64 - 1, 0], np.uint64),
        np.array([-(2**63)] * 3),
    ):
        for scale in (F(1), F(2**63), F(2**66), F(1, 7)):
            check(scores, scale)


def test_covers_hold_for_fractions_with_hundreds_of_denominators():
    """lcm(1 … 700) is above 10^300 and lcm(1 … 800) above every float; the scores are of size 1."""
    for most in (300, 695, 800):
        check([F(0), *(F(1, n) for n in range(1, most))], F(1))


def test_covers_hold_for_many_candidates():
    scores = (DeterministicEntropy(4).words(20_000) % np.uint64(4000)).astype(np.int64)
    sampler = _Softmax(scores, F(37), None)
    unit = CONTEXT.mpf(2) ** sampler._exponent
    for i in range(0, 20_000, 100):
        assert sampler._covers[i] >= exp(F(int(scores[i]) - int(scores.max())) / 37) * unit
    assert 0 < sampler._ends[-1] < 2**63


# --- softmax: the acceptance is exact ----------------------------------------------------------------------

CASES = [
    ([0, 3, 7], F(1), None), ([0, 3, 7], F(22, 7), None), ([0, 100], F(1), [INT64, 1]), ([5, 5], F(1), [3, INT64]),
    ([0, 10**30], F(10**30), None),
    ([F(1, 3), F(1, 7)], F(1, 10), None), ([-(2**62), 2**62], F(2**61), None), ([0, 50, 60], F(1), [1, 0, 1]),
    ([0, 400], F(1), None),
]  # fmt: skip


@pytest.mark.parametrize(("scores", "scale", "copies"), CASES)
@pytest.mark.parametrize("bits", [64, 128, 192, 512])
def test_the_acceptance_enclosure_holds_the_ratio_of_weight_and_cover(scores, scale, copies, bits):
    sampler, exact, counts = sampler_of(scores, scale, copies)
    for i, weight in enumerate(true_weights(exact, scale, counts)):
        if counts[i]:
            lo, hi = sampler._acceptance(i)(bits)
            ratio = weight * CONTEXT.mpf(2) ** sampler._exponent / int(sampler._covers[i]) * CONTEXT.mpf(2) ** bits
            assert lo <= ratio <= hi <= lo + 2


@pytest.mark.parametrize(("scores", "scale", "copies"), CASES)
def test_the_float_acceptance_is_within_its_margin(scores, scale, copies):
    sampler, exact, counts = sampler_of(scores, scale, copies)
    for i, weight in enumerate(true_weights(exact, scale, counts)):
        if counts[i]:
            p = real(F(float(sampler._weights[i] / sampler._covers[i])))
            true = weight * CONTEXT.mpf(2) ** sampler._exponent / int(sampler._covers[i])
            assert abs(p - true) < 2.0**-41


@pytest.mark.parametrize(("scores", "scale", "copies"), CASES)
def test_open_words_are_decided_by_the_exact_ratio(scores, scale, copies):
    sampler, exact, counts = sampler_of(scores, scale, copies)
    for i, weight in enumerate(true_weights(exact, scale, counts)):
        if not counts[i]:
            continue
        ratio = weight * CONTEXT.mpf(2) ** sampler._exponent / int(sampler._covers[i])
        first, second, third = leading_words(ratio, 3)
        chosen = np.array([i])
        for step, expected in [(-2, True), (2, False)]:
            if 0 <= third + step < WORD:
                assert sampler._accepted(chosen, Scripted([first, second, third + step])).tolist() == [expected]
        for far, expected in [(-(1 << 40), True), (1 << 40, False)]:
            if 0 <= first + far < WORD:
                assert sampler._accepted(chosen, Scripted([first + far])).tolist() == [expected]


def test_a_rejected_proposal_is_drawn_again_and_only_it():
    sampler, _, _ = sampler_of([0, 1], F(1))
    ends = sampler._ends.tolist()
    out = np.empty(3, np.int64)
    first = [0, ends[0], 0, 0, WORD - 1, 0]  # places of 0, 1, 0; the middle one rejected
    sampler.fill(Scripted([*first, 0, 0]), out)
    assert out.tolist() == [0, 0, 0]


def test_no_subnormal_number_tells_by_its_slowness_how_far_a_score_lies(monkeypatch):
    """exp of −708 … −745 is subnormal, and several times slower to compute with."""
    seen, true_exp = [], np.exp

    def spy(x, out=None):
        seen.append(true_exp(x))
        return true_exp(x, out=out)

    monkeypatch.setattr(np, "exp", spy)
    gaps = np.array([0, 700, 708, 709, 720, 740, 745, 746, 10**6])
    softmax(-gaps, 1, 10)
    softmax(-gaps, 1, 10, multiplicity=np.arange(1, 10))
    accept_each(gaps, 1)
    assert len(seen) >= 3
    for values in seen:
        assert not ((values > 0) & (values < 2.0**-1022)).any()


def test_one_candidate_and_certain_winners():
    assert softmax([5], 1) == 0
    assert softmax([-(2**63)], "1/7", 5).tolist() == [0] * 5
    assert softmax([0, 10**6], 1) == 1
    assert softmax([10**6, 0], 1, multiplicity=[0, 1]) == 1, "a candidate without copies does not exist"
    assert softmax([0, 0, 10**400], 1) == 2
    assert set(softmax([0, 1, 2], 10**1000, 1000).tolist()) == {0, 1, 2}


def test_scores_of_equal_value_are_equally_likely_however_written():
    written = [
        [1, 2, 3], np.array([1, 2, 3]), np.array([1, 2, 3], np.uint8), ["1", "2.0", F(3)], range(1, 4),
        np.array([1, 2, 3], object), np.array([0, 1, 0, 2, 0, 3])[1::2], np.array([1, 2, 3], ">i4"),
    ]  # fmt: skip
    draws = [softmax(scores, "1/2", 200, entropy=DeterministicEntropy(8)).tolist() for scores in written]
    assert all(d == draws[0] for d in draws)


def test_scores_are_not_written_to():
    scores = np.array([3, 1, 2])
    scores.flags.writeable = False
    softmax(scores, 1, 10)
    categorical(scores, 10)
    accept_each(scores, 1)
    assert scores.tolist() == [3, 1, 2]


# --- accept_each -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scale",
    [F(1), F(22, 7), F(1, 10**400), F(10**400), F(10**6)],
    ids=lambda s: f"{math.log10(s.numerator) - math.log10(s.denominator):.1f}",
)
def test_accept_each_compares_with_the_exact_exponential(scale):
    deficits = [0, 1, 5, 40, 10**9, INT64]
    for d in deficits:
        p = exp(-min(F(d) / scale, F(10**6)))
        for step, expected in [(-2, True), (2, False)]:
            words = leading_words(min(p, 1 - CONTEXT.mpf(2) ** -600), 4)
            if p == 1 and expected is False:
                continue
            if 0 <= words[3] + step < WORD:
                words[3] += step
                assert accept_each(
                    np.array([d]), scale, entropy=Scripted(words, then=DeterministicEntropy(0))
                ).tolist() == [expected], (d, step)
    assert accept_each(np.array([0, 0]), scale, entropy=Scripted([0, WORD - 1])).tolist() == [True, True]


def test_accept_each_reads_lists_and_large_integers():
    assert accept_each([0, 10**400], 1).tolist() == [True, False]
    assert accept_each([0, 10**400], 10**800).tolist() == [True, True]
    assert accept_each([], 1).tolist() == []
    assert accept_each(np.array([], np.int64), 1).dtype == np.bool_


# --- bad input ---------------------------------------------------------------------------------------------

NOT_VECTORS = [
    None, 5, 1.5, "123", b"123", {1: 2}, {1, 2}, object(), np.array(5), np.array([[1, 2]]), [[1, 2], [3, 4]],
    [[1], [1, 2]], [1, [2]], iter([1, 2]),
    [1.0, 2.0], [1, 2.5], np.array([1.0, 2.0]), np.array([1, np.nan]), [1, float("nan")], [1, float("inf")],
    np.array([1j]), [1j], [None], [True], np.array([True, False]),
    ["abc"], ["1/0"], [""], ["nan"], np.array(["1", "2"]), np.array([1.5], object), np.array([None], object),
    [np.float32(1)], np.array([1, 2], "timedelta64[s]"),
]  # fmt: skip


@pytest.mark.parametrize("bad", NOT_VECTORS, ids=lambda v: stable(v)[:30])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (categorical, "weights"),
        (lambda v: softmax(v, 1), "scores"),
        (lambda v: softmax([1, 2], 1, multiplicity=v), "multiplicity"),
        (lambda v: accept_each(v, 1), "deficits"),
    ],
    ids=["categorical", "softmax", "multiplicity", "accept_each"],
)
def test_vectors_that_are_not_whole_or_rational_are_refused(call, name, bad):
    if bad is None and name == "multiplicity":
        return
    with pytest.raises(InvalidData, match=rf"^{name}: .*"):
        call(bad)


@pytest.mark.parametrize("call", [categorical, lambda v: softmax(v, 1), lambda v: accept_each(v, 1)])
def test_floats_are_refused_with_advice_and_without_their_value(call):
    with pytest.raises(
        InvalidData, match="got an array of float64, expected whole numbers; multiply by a fixed factor"
    ):
        call(np.array([1.25, 98765.4321]))
    with pytest.raises(
        InvalidData, match="got a float at position 1, expected a whole number, Fraction or decimal string"
    ) as caught:
        call([1, 98765.4321])
    assert "98765" not in str(caught.value)
    with pytest.raises(InvalidData, match="position 1") as caught:
        call([1, "98765x"])
    assert "98765" not in str(caught.value)


@pytest.mark.parametrize(
    "weights",
    [[], [0], [0, 0, 0], [1, -1], [-1], ["-1/3", 1], [-(10**30), 10**31], np.array([], np.int64), ()],
    ids=str,
)
def test_weights_that_are_no_distribution_are_refused(weights):
    with pytest.raises(InvalidData, match=r"^weights: .*expected at least one, none negative, not all zero"):
        categorical(weights)


@pytest.mark.parametrize("copies", [[1], [1, 2, 3], [0, 0], [-1, 2], ["1/2", 1], [2**63, 1], []], ids=str)
def test_multiplicities_that_do_not_fit_are_refused(copies):
    with pytest.raises(InvalidData, match=r"^multiplicity: .*expected "):
        softmax([1, 2], 1, multiplicity=copies)


def test_no_candidates_and_bad_deficits_are_refused():
    for empty in ([], (), np.array([], np.int64)):
        with pytest.raises(InvalidData, match=r"^scores: got none, expected at least one"):
            softmax(empty, 1)
    for bad in ([-1], [0, "1/2"], np.array([3, -(2**63)]), [-(10**30)]):
        with pytest.raises(InvalidData, match=r"^deficits: expected whole numbers ≥ 0"):
            accept_each(bad, 1)


@pytest.mark.parametrize("bad", BAD_SCALES, ids=lambda x: stable(x)[:20])
@pytest.mark.parametrize(
    "call", [lambda s: softmax([1, 2], s), lambda s: softmax([1, 2], s, 3), lambda s: accept_each([1, 2], s)]
)
def test_bad_scales_are_refused(call, bad):
    with pytest.raises(InvalidParameter, match=r"^scale: got .*expected a number > 0"):
        call(bad)


@pytest.mark.parametrize("bad", BAD_SIZES, ids=lambda x: stable(x)[:20])
def test_bad_sizes_are_refused(bad):
    for call in (
        lambda: categorical([1, 2], bad),
        lambda: softmax([1, 2], 1, bad),
        lambda: categorical([2**63, 2**63], bad),
    ):
        with pytest.raises(InvalidParameter, match=r"^size: got .*expected "):
            call()


def test_no_warning_and_no_floating_point_error_tells_of_the_scores():
    """Whatever np.errstate the caller has set; warnings are errors in this suite."""
    with np.errstate(all="raise"):
        softmax([0, 1000], 1)
        softmax(np.array([-(2**63), INT64]), "1e-300", 3)
        softmax([0, 10**299], "1e-20", 3, multiplicity=[INT64, 1])
        softmax([0, 1], 10**1000, 3)
        accept_each([0, 1000, INT64], 1)
        accept_each([0, 1000, INT64], "1e-400")
        accept_each([0, 10**400], "1e-400")


# --- many stretches at once --------------------------------------------------------------------------------


def stretches(parts, scale):
    """The sampler of several lists of (score, copies)."""
    sizes = np.array([len(part) for part in parts])
    scores, copies = (np.array([pair[i] for part in parts for pair in part]) for i in (0, 1))
    return _Stretches(scores, np.cumsum(sizes) - sizes, sizes, F(scale), copies)


PAIRS = st.lists(st.tuples(st.integers(-(2**40), 2**40), st.integers(0, 2**40)), min_size=1, max_size=9)


@given(
    st.lists(PAIRS.filter(lambda part: any(c for _, c in part)), min_size=1, max_size=6),
    st.sampled_from(["1/3", "7", "1e9"]),
)
@settings(max_examples=60)
def test_stretches_have_the_covers_and_weights_of_each_alone(parts, scale):
    """So draws are those of `softmax`: proportional to covers, and accepted with the same exact ratios."""
    many = stretches(parts, scale)
    alone = [_Softmax(np.array([s for s, _ in part]), F(scale), np.array([c for _, c in part])) for part in parts]
    assert many._covers.tolist() == [int(c) for each in alone for c in each._covers]
    assert many._weights.tolist() == [float(w) for each in alone for w in each._weights]


def test_each_place_of_a_stretch_leads_to_the_position_that_owns_it():
    parts = [[(0, 3), (0, 0), (0, 2)], [(5, 1)], [(1, 0), (1, 4), (0, 1), (-3, 2), (-90, 1)]]
    many = stretches(parts, 1)
    for start, size in zip(many._starts, many._sizes, strict=True):
        covers = many._covers[start : start + size].astype(float)
        total = int(covers.sum())
        places = np.unique(np.linspace(0, total - 1, 2001).astype(np.uint64))
        before = np.full(places.size, many._ends[start] - np.uint64(many._covers[start]))
        low, high = np.full(places.size, start), np.full(places.size, start + size - 1)
        wanted = start + np.searchsorted(
            np.cumsum(many._covers[start : start + size]), places.astype(np.int64), side="right"
        )
        assert many._search(low, high, places, before).tolist() == wanted.tolist()


def test_many_stretches_are_drawn_with_the_stated_probabilities():
    """χ² over 50,000 stretches: false alarms below 1e-6, and a scale that is wrong by 30 % is refused."""
    from scipy.stats import chi2

    scores, copies, many = np.array([0, -1, -3, -4, 2]), np.array([2, 3, 0, 5, 1]), 50_000
    starts = np.arange(many) * 5
    drawn = softmax_each(
        np.tile(scores, many), starts, 2, multiplicity=np.tile(copies, many), entropy=DeterministicEntropy(5)
    )
    counts = np.bincount(drawn - starts, minlength=5)
    assert counts[2] == 0

    def refused(scale):
        p = copies * np.exp(scores / scale)
        wanted = many * p / p.sum()
        live = copies > 0
        return chi2.sf(((counts - wanted)[live] ** 2 / wanted[live]).sum(), live.sum() - 1) < 1e-6

    assert not refused(2)
    assert refused(2 * 1.3)
    assert refused(2 / 1.3)


def test_bad_stretches_are_refused():
    one = np.array([1, 2])
    for scores, starts, copies in [
        (one, np.array([0, 0]), one),
        (one, np.array([1]), one),
        (one, np.array([0]), np.array([0, 0])),
        (one, np.array([0]), np.array([1, -1])),
        (one, np.array([0]), np.array([1])),
        (np.array([2**61, 0]), np.array([0]), one),
    ]:
        with pytest.raises(InvalidData):
            softmax_each(scores, starts, 1, multiplicity=copies)
    assert softmax_each(np.zeros(0, np.int64), np.zeros(0, np.int64), 1, multiplicity=np.zeros(0, np.int64)).size == 0
