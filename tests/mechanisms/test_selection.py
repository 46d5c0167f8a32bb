"""Mechanisms that choose: every neighboring pair of score vectors in a small box, by brute force."""

from contextlib import suppress
from fractions import Fraction
from itertools import islice, permutations, product
from math import floor, log

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import stable

from discreet.errors import InvalidData, InvalidParameter
from discreet.mechanisms import AboveThreshold, Exponential, PermuteAndFlip, ReportNoisyMax
from discreet.mechanisms.selection import laplace_cdf, laplace_pmf
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import BoundedRange, Pure

F = Fraction
CHOOSERS = [Exponential, PermuteAndFlip, ReportNoisyMax]
SLACK = 1e-9  # float channels

choosers = pytest.mark.parametrize("kind", CHOOSERS)
monotone_or_not = pytest.mark.parametrize("monotone", [False, True], ids=["any direction", "monotone"])
small_scores = st.lists(st.integers(-20, 20), min_size=1, max_size=5)


def neighbors(box, candidates: int, sensitivity: int, *, monotone: bool):
    """All pairs of score vectors in the box that one unit can turn into one another."""
    shifts = range(0 if monotone else -sensitivity, sensitivity + 1)
    for scores in product(box, repeat=candidates):
        for shift in product(shifts, repeat=candidates):
            moved = tuple(a + b for a, b in zip(scores, shift, strict=True))
            if set(moved) <= set(box):
                yield scores, moved


def log_ratios(mechanism, box, candidates: int, sensitivity: int = 1) -> np.ndarray:
    """ln p(o|x) − ln p(o|x') for every neighboring pair (rows) and every candidate (columns)."""
    rows = {s: np.log(mechanism.probabilities(list(s))) for s in product(box, repeat=candidates)}
    pairs = neighbors(box, candidates, sensitivity, monotone=mechanism.monotone)
    return np.array([rows[x] - rows[y] for x, y in pairs])


# --- privacy, by brute force -----------------------------------------------------------------------------------


@monotone_or_not
@pytest.mark.parametrize(("candidates", "box"), [(2, range(9)), (3, range(5))])
def test_exponential_has_exactly_the_bounded_range_it_states(monotone, candidates, box):
    mechanism = Exponential(epsilon="0.8", sensitivity=1, monotone=monotone)
    ratios = log_ratios(mechanism, box, candidates)
    assert (ratios.max(axis=1) - ratios.min(axis=1)).max() == pytest.approx(0.8, abs=SLACK)
    assert np.abs(ratios).max() <= 0.8 + SLACK
    assert mechanism.loss == BoundedRange("0.8")


@monotone_or_not
@pytest.mark.parametrize(("candidates", "box"), [(2, range(9)), (3, range(5))])
def test_permute_and_flip_has_exactly_the_epsilon_it_states(monotone, candidates, box):
    mechanism = PermuteAndFlip(epsilon="0.8", sensitivity=1, monotone=monotone)
    assert np.abs(log_ratios(mechanism, box, candidates)).max() == pytest.approx(0.8, abs=SLACK)
    assert mechanism.loss == Pure("0.8")


@monotone_or_not
@pytest.mark.parametrize(("candidates", "box"), [(2, range(9)), (3, range(5))])
def test_report_noisy_max_never_exceeds_its_epsilon(monotone, candidates, box):
    mechanism = ReportNoisyMax(epsilon="0.8", sensitivity=1, monotone=monotone)
    worst = np.abs(log_ratios(mechanism, box, candidates)).max()
    assert 0.8 * 0.75 < worst <= 0.8 + SLACK
    assert mechanism.loss == Pure("0.8")


@choosers
def test_a_promise_of_monotone_scores_that_is_broken_shows(kind):
    """Power: monotone noise under scores that move both ways exceeds ε in the same brute force."""
    mechanism = kind(epsilon="0.8", sensitivity=1, monotone=True)
    rows = {s: np.log(mechanism.probabilities(list(s))) for s in product(range(9), repeat=2)}
    worst = max(np.abs(rows[x] - rows[y]).max() for x, y in neighbors(range(9), 2, 1, monotone=False))
    assert worst > 0.8 * 1.2


@choosers
@monotone_or_not
def test_sensitivities_other_than_one(kind, monotone):
    for sensitivity, box in [(2, range(7)), (3, range(7))]:
        mechanism = kind(epsilon=1, sensitivity=sensitivity, monotone=monotone)
        ratios = log_ratios(mechanism, box, 2, sensitivity)
        assert 0.6 < np.abs(ratios).max() <= 1 + SLACK


@choosers
def test_report_noisy_max_and_others_approach_epsilon_far_from_a_tie(kind):
    mechanism = kind(epsilon=1, sensitivity=1)
    p, q = (mechanism.probabilities([0, gap])[0] for gap in (100, 102))
    assert 0.95 < log(p / q) <= 1 + SLACK


@choosers
def test_the_channel_agrees(kind):
    inputs = {s: s for s in product(range(3), repeat=2)}
    channel = kind(epsilon=1, sensitivity=1).channel(inputs)
    near = [(x, y) for x, y in neighbors(range(3), 2, 1, monotone=False) if x != y]
    assert 0.5 < channel.epsilon(near) <= 1 + SLACK
    assert channel.matrix == pytest.approx(
        np.array([kind(epsilon=1, sensitivity=1).probabilities(list(s)) for s in inputs])
    )


# --- the probabilities, by independent means ---------------------------------------------------------------------


@given(small_scores, st.fractions(F(1, 10), 5, max_denominator=100), st.booleans())
def test_exponential_probabilities_are_the_softmax(scores, epsilon, monotone):
    mechanism = Exponential(epsilon=epsilon, sensitivity=3, monotone=monotone)
    rate = mpmath.mpf(epsilon.numerator) / epsilon.denominator / (3 if monotone else 6)
    weights = [mpmath.exp(rate * s) for s in scores]
    expected = [float(w / sum(weights)) for w in weights]
    assert mechanism.probabilities(scores) == pytest.approx(expected, rel=1e-10)


@given(small_scores, st.fractions(F(1, 10), 5, max_denominator=100))
@settings(max_examples=40)
def test_permute_and_flip_probabilities_are_those_of_its_definition(scores, epsilon):
    """Enumerate every order: the first candidate whose coin exp(−ε(best − score)/2Δ) shows heads is taken."""
    coins = np.exp(-(max(scores) - np.array(scores)) * float(epsilon) / 2)
    expected = np.zeros(len(scores))
    orders = list(permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for candidate in order:
            expected[candidate] += left * coins[candidate] / len(orders)
            left *= 1 - coins[candidate]
    assert PermuteAndFlip(epsilon=epsilon, sensitivity=1).probabilities(scores) == pytest.approx(expected, abs=1e-12)


@given(st.integers(-15, 15), st.integers(-15, 15), st.sampled_from(["0.3", "1", "4"]))
def test_report_noisy_max_of_two_is_the_law_of_a_difference(a, b, epsilon):
    """P(first wins) = P(noise_2 − noise_1 ≤ a − b), by summing the two pmfs directly."""
    mechanism = ReportNoisyMax(epsilon=epsilon, sensitivity=1)
    k = np.arange(-400, 401)
    q = np.exp(-1 / float(mechanism.scale))
    pmf = (1 - q) / (1 + q) * q ** np.abs(k)
    difference = np.convolve(pmf, pmf)  # index i is a difference of i − 800
    first = difference[: 800 + (a - b) + 1].sum()
    assert mechanism.probabilities([a, b]) == pytest.approx([first, 1 - first], abs=1e-10)


def test_report_noisy_max_probabilities_agree_with_a_simulation():
    mechanism = ReportNoisyMax(epsilon=1, sensitivity=1)
    scores = np.array([3, 5, 4, 5, 0])
    generator = np.random.default_rng(5)  # an independent sampler, so that both cannot be wrong alike
    q = np.exp(-1 / float(mechanism.scale))
    noise = generator.geometric(1 - q, (200_000, 5)) - generator.geometric(1 - q, (200_000, 5))
    counts = np.bincount(np.argmax(scores + noise, axis=1), minlength=5) / 200_000
    assert counts == pytest.approx(mechanism.probabilities(scores), abs=0.006)  # 5 deviations: 5·√(1/4/200000)


def test_ties_go_to_the_first():
    assert ReportNoisyMax(epsilon=10**6, sensitivity=1).release([5, 7, 7, 7]) == 1
    p = ReportNoisyMax(epsilon=1, sensitivity=1).probabilities([0, 0])
    assert p[0] > p[1]


@pytest.mark.parametrize("base", [2**60, -(2**60), 10**15])
@choosers
def test_probabilities_do_not_lose_large_scores_to_rounding(kind, base):
    mechanism = kind(epsilon=1, sensitivity=1)
    assert mechanism.probabilities([base, base + 10]) == pytest.approx(mechanism.probabilities([0, 10]), rel=1e-9)


@choosers
def test_hundreds_of_candidates(kind):
    p = kind(epsilon=1, sensitivity=1).probabilities(list(range(400)))
    assert p.sum() == pytest.approx(1, abs=1e-9)


@choosers
def test_probabilities_add_up_and_follow_the_scores(kind):
    p = kind(epsilon=1, sensitivity=1).probabilities([1, 9, 4, 4])
    assert p.sum() == pytest.approx(1, abs=1e-9)
    assert p[1] > p[2] > p[0]


def test_rational_scores_are_taken_exactly_by_the_exponential_mechanism():
    mechanism = Exponential(epsilon=1, sensitivity="1/10")
    assert mechanism.probabilities(["1/3", "0.5", 1]) == pytest.approx(
        np.exp(5 * np.array([1 / 3, 0.5, 1])) / np.exp(5 * np.array([1 / 3, 0.5, 1])).sum()
    )
    assert mechanism.release(["1/3", "0.5", F(1000)]) == 2


def test_the_discrete_laplace_law_used_inside():
    k = np.arange(-300, 301)
    for scale in (0.2, 1.0, 7.0):
        pmf = laplace_pmf(k, scale)
        assert pmf.sum() == pytest.approx(1, abs=1e-12)
        assert laplace_cdf(k, scale) == pytest.approx(np.cumsum(pmf), abs=1e-12)


# --- intervals ---------------------------------------------------------------------------------------------------


@choosers
@pytest.mark.parametrize("candidates", [2, 10, 100])
@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.99", "0.999999"])
def test_the_chosen_score_is_seldom_further_from_the_best_than_the_interval(kind, candidates, confidence):
    """The worst case: all others just beyond the interval, before or after the best in the order of ties."""
    mechanism = kind(epsilon="1/5", sensitivity=1)
    gap = floor(mechanism.interval(confidence, candidates=candidates)) + 1
    for best in (0, candidates - 1):
        scores = [-gap] * candidates
        scores[best] = 0
        miss = np.delete(mechanism.probabilities(scores), best).sum()
        assert miss <= float(1 - F(confidence))


@given(st.lists(st.integers(0, 40), min_size=2, max_size=6), st.sampled_from(CHOOSERS), st.booleans())
def test_intervals_cover_for_any_scores(scores, kind, monotone):
    mechanism = kind(epsilon="1/2", sensitivity=1, monotone=monotone)
    width = mechanism.interval("0.9", candidates=len(scores))
    far = max(scores) - np.array(scores) > width
    assert mechanism.probabilities(scores)[far].sum() <= 0.1


@given(st.lists(st.integers(0, 30), min_size=2, max_size=6), st.integers(0, 30))
def test_permute_and_flip_is_never_worse_than_the_exponential_mechanism(scores, gap):
    far = max(scores) - np.array(scores) > gap
    flip, soft = (kind(epsilon=1, sensitivity=1).probabilities(scores)[far].sum() for kind in CHOOSERS[1::-1])
    assert flip <= soft + 1e-12


# --- above-threshold ---------------------------------------------------------------------------------------------


def outcomes(answers: int, positives: int):
    """Every list of booleans that a run can yield: it ends at the last answer or at the last positive."""
    runs = {}
    for flags in product((False, True), repeat=answers):
        ends = [i for i in range(answers) if sum(flags[: i + 1]) == positives]
        runs[flags[: ends[0] + 1] if ends else flags] = None
    return list(runs)


def threshold_ratios(mechanism: AboveThreshold, box, answers: int) -> float:
    runs = outcomes(answers, mechanism.positives)
    rows = {x: np.log([mechanism.probability(x, run) for run in runs]) for x in product(box, repeat=answers)}
    pairs = neighbors(box, answers, mechanism.sensitivity, monotone=mechanism.monotone)
    return max(float(np.abs(rows[x] - rows[y]).max()) for x, y in pairs)


@monotone_or_not
@pytest.mark.parametrize(
    ("positives", "answers", "box", "sensitivity"),
    [(1, 3, range(-2, 3), 1), (2, 3, range(-2, 3), 1), (3, 3, range(-2, 3), 1), (1, 2, range(-4, 5), 2), (2, 4, range(-1, 2), 1)],
)  # fmt: skip
def test_above_threshold_never_exceeds_its_epsilon(monotone, positives, answers, box, sensitivity):
    mechanism = AboveThreshold(epsilon=1, sensitivity=sensitivity, threshold=0, positives=positives, monotone=monotone)
    assert threshold_ratios(mechanism, box, answers) <= 1 + SLACK
    assert mechanism.loss == Pure(1)


def test_above_threshold_comes_close_to_its_epsilon():
    """No more noise than needed: many negatives far below and a positive far above nearly cost all of ε."""
    mechanism = AboveThreshold(epsilon=1, sensitivity=1, threshold=0, positives=1)
    low, high = [20] * 30 + [-20], [19] * 30 + [-19]
    run = [False] * 30 + [True]
    spent = log(mechanism.probability(high, run) / mechanism.probability(low, run))
    assert 0.9 < spent <= 1 + SLACK


@pytest.mark.parametrize("positives", [2, 3])
def test_the_brute_force_would_catch_noise_that_ignores_the_positives(positives):
    """Power: scales made for one positive, run until several (a published mistake), exceed ε."""
    one = AboveThreshold(epsilon=1, sensitivity=1, threshold=0, positives=1)
    low, high = [20] * 30 + [-20] * positives, [19] * 30 + [-19] * positives
    run = [False] * 30 + [True] * positives
    noise = np.arange(-400, 401)
    t, a = (float(s) for s in one.scales)

    def chance(answers):
        mass = laplace_pmf(noise, t)
        for answer, above in zip(answers, run, strict=True):
            below = laplace_cdf(noise - answer - 1, a)
            mass = mass * (1 - below if above else below)
        return mass.sum()

    assert log(chance(high) / chance(low)) > 1.2
    right = AboveThreshold(epsilon=1, sensitivity=1, threshold=0, positives=positives)
    assert log(right.probability(high, run) / right.probability(low, run)) <= 1 + SLACK


def test_the_threshold_is_subtracted():
    a = AboveThreshold(epsilon=1, sensitivity=1, threshold=10, positives=1)
    b = AboveThreshold(epsilon=1, sensitivity=1, threshold=0, positives=1)
    assert a.probability([12, 7], [False, True]) == pytest.approx(b.probability([2, -3], [False, True]))


@pytest.mark.parametrize(("positives", "answers"), [(1, 1), (1, 4), (2, 4), (4, 4), (5, 3)])
def test_outcomes_are_all_and_their_probabilities_add_up(positives, answers):
    mechanism = AboveThreshold(epsilon=1, sensitivity=1, threshold=0, positives=positives)
    row = list(range(answers))
    runs = outcomes(answers, positives)
    assert sum(mechanism.probability(row, run) for run in runs) == pytest.approx(1, abs=1e-9)
    channel = mechanism.channel({"x": row, "y": [r + 1 for r in row]})
    assert set(channel.outputs) == set(runs)
    assert channel.epsilon("all") <= 1 + SLACK


@pytest.mark.parametrize(
    ("answers", "run"),
    [([1], [True, False]), ([1, 1], [True, True]), ([1], []), ([1, 1], [False]), ([1, 1, 1], [True, False])],
)
def test_what_cannot_be_released_has_no_probability(answers, run):
    """Longer than the answers, on after the last positive, or stopped too soon."""
    mechanism = AboveThreshold(epsilon=1, sensitivity=1, threshold=0, positives=1)
    with suppress(InvalidData):  # refusing is as good
        assert mechanism.probability(answers, run) == 0


def test_rows_of_different_lengths_make_no_channel():
    mechanism = AboveThreshold(epsilon=1, sensitivity=1, threshold=0, positives=1)
    with pytest.raises(InvalidData):
        mechanism.channel({"x": [1, 2], "y": [1]})


def test_a_threshold_beyond_64_bits_is_never_reached():
    mechanism = AboveThreshold(epsilon=1, sensitivity=1, threshold=2**70, positives=1)
    assert list(mechanism.release([5])) == [False]
    assert mechanism.probability([5], [True]) == pytest.approx(0, abs=1e-12)


def test_the_run_stops_at_the_last_positive_and_reads_no_further():
    mechanism = AboveThreshold(epsilon=50, sensitivity=1, threshold=0, positives=2)
    read = []

    def answers():
        for answer in (-1000, 1000, -1000, 1000, 1000, 1000):
            read.append(answer)
            yield answer

    assert list(mechanism.release(answers())) == [False, True, False, True]
    assert len(read) == 4


def test_the_next_answer_may_depend_on_what_came_out():
    mechanism = AboveThreshold(epsilon=50, sensitivity=1, threshold=0, positives=1)
    seen: list[bool] = []

    def answers():
        yield -1000
        yield 1000 if not seen[-1] else -1000

    for above in mechanism.release(answers()):
        assert type(above) is bool
        seen.append(above)
    assert seen == [False, True]


def test_a_run_without_positives_ends_with_the_answers():
    mechanism = AboveThreshold(epsilon=50, sensitivity=1, threshold=0, positives=1)
    assert list(mechanism.release([-1000] * 5)) == [False] * 5
    assert list(mechanism.release([])) == []
    endless = mechanism.release(iter(lambda: -1000, None))
    assert list(islice(endless, 3)) == [False] * 3


@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.99"])
@pytest.mark.parametrize("answers", [1, 3, 10])
def test_answers_further_than_the_interval_are_told_right(confidence, answers):
    mechanism = AboveThreshold(epsilon=1, sensitivity=1, threshold=7, positives=1)
    width = mechanism.interval(confidence, answers=answers)
    row = [7 - width - 1] * (answers - 1) + [7 + width + 1]
    assert mechanism.probability(row, [False] * (answers - 1) + [True]) >= float(F(confidence))


@given(st.integers(1, 200), st.booleans(), st.fractions(F(1, 100), 10, max_denominator=100))
def test_the_shares_of_epsilon_add_up(positives, monotone, epsilon):
    mechanism = AboveThreshold(epsilon=epsilon, sensitivity=2, threshold=0, positives=positives, monotone=monotone)
    of_threshold, of_answer = mechanism.scales
    assert 2 / of_threshold + (1 if monotone else 2) * 2 * positives / of_answer == epsilon


# --- what is refused -----------------------------------------------------------------------------------------------

NOT_POSITIVE = [0, -1, float("nan"), float("inf"), "x", None, True, [1]]
BAD_SCORES = [
    [],
    [[1, 2]],
    3,
    "12",
    None,
    [1.5, 2.0],
    [float("nan"), 1],
    [True, False],
    [None],
    [1j],
    {"a": 1},
    object(),
]
THRESHOLD = {"epsilon": 1, "sensitivity": 1, "threshold": 0, "positives": 1}


@choosers
@pytest.mark.parametrize("bad", NOT_POSITIVE, ids=stable)
def test_bad_parameters_of_choosers_are_refused(kind, bad):
    with pytest.raises(InvalidParameter, match="epsilon"):
        kind(epsilon=bad, sensitivity=1)
    with pytest.raises(InvalidParameter, match="sensitivity"):
        kind(epsilon=1, sensitivity=bad)


@choosers
@pytest.mark.parametrize("bad", [0, 1, None, "True"], ids=stable)
def test_monotone_is_a_bool(kind, bad):
    with pytest.raises(InvalidParameter, match="monotone"):
        kind(epsilon=1, sensitivity=1, monotone=bad)


@choosers
@pytest.mark.parametrize("scores", BAD_SCORES, ids=stable)
def test_bad_scores_are_refused(kind, scores):
    with pytest.raises(InvalidData):
        kind(epsilon=1, sensitivity=1).release(scores)


@choosers
@pytest.mark.parametrize("scores", [[], [[1, 2]], [float("nan"), 1], [None]], ids=stable)
def test_bad_scores_have_no_probabilities(kind, scores):
    with pytest.raises((InvalidData, InvalidParameter)):
        kind(epsilon=1, sensitivity=1).probabilities(scores)


@choosers
@pytest.mark.parametrize("candidates", [0, -1, 1.5, None, True], ids=stable)
def test_bad_numbers_of_candidates_are_refused(kind, candidates):
    with pytest.raises(InvalidParameter, match="candidates"):
        kind(epsilon=1, sensitivity=1).interval("0.95", candidates=candidates)


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_scales_are_unlimited_where_no_noise_is_drawn(kind):
    assert kind(epsilon=1, sensitivity=10**16).release([0, 10**18 * 2]) == 1


@choosers
def test_one_candidate_is_always_chosen(kind):
    assert kind(epsilon=1, sensitivity=1).release([-5]) == 0
    assert kind(epsilon=1, sensitivity=1).probabilities([-5]) == pytest.approx([1])


@choosers
def test_scores_at_the_ends_of_the_range(kind):
    assert kind(epsilon=1, sensitivity=1).release([-(2**62) + 1, 2**62 - 1, 0]) == 1


@pytest.mark.parametrize(
    ("name", "bad"),
    [("epsilon", b) for b in NOT_POSITIVE]
    + [("sensitivity", b) for b in [0, -1, 1.5, "1", None, True]]
    + [("threshold", b) for b in [0.5, "1", None, True, float("nan")]]
    + [("positives", b) for b in [0, -1, 1.5, None, True]]
    + [("monotone", b) for b in [0, 1, None, "yes"]],
)
def test_bad_parameters_of_above_threshold_are_refused(name, bad):
    with pytest.raises(InvalidParameter, match=name):
        AboveThreshold(**{**THRESHOLD, name: bad})


@pytest.mark.parametrize("answers", [5, None, [1.5], [[1, 2]], [[1]], ["1"], [None], [True], [float("nan")], [2**62]], ids=stable)  # fmt: skip
def test_bad_answers_are_refused(answers):
    with pytest.raises(InvalidData):
        list(AboveThreshold(**THRESHOLD).release(answers))


@pytest.mark.parametrize("answers", [0, -1, 1.5, None, True], ids=stable)
def test_bad_numbers_of_answers_are_refused(answers):
    with pytest.raises(InvalidParameter, match="answers"):
        AboveThreshold(**THRESHOLD).interval("0.95", answers=answers)


@choosers
def test_the_choice_is_an_int_and_follows_the_stream(kind):
    mechanism = kind(epsilon="0.1", sensitivity=1)
    picks = [mechanism.release([0, 1, 2, 3], entropy=DeterministicEntropy(seed)) for seed in range(50)]
    assert {type(pick) for pick in picks} == {int}
    assert set(picks) == {0, 1, 2, 3}
    assert picks == [mechanism.release([0, 1, 2, 3], entropy=DeterministicEntropy(seed)) for seed in range(50)]
