"""What a hostile review tried: everything against enumeration (exact channels held), then what broke, and was mended."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidChannel
from discreet.exact import exp_bounds, log_bounds
from discreet.mechanisms import bayesian as inference
from discreet.mechanisms.channel import Channel, deterministic, identity
from discreet.mechanisms.channel_io import decoded, parse_csv, read_channel
from discreet.mechanisms.neighbor_graph import graph, sensitivity
from discreet.mechanisms.optimal import minimax, optimum
from discreet.privacy.unit import Neighbors

COIN = Channel([["3/4", "1/4"], ["1/4", "3/4"]])
LABELS = [0, "0", 1.5, "a", (1, 2), None, -3]


@st.composite
def channels(draw):
    """A small exact channel: zeros, equal rows, one row, one column, huge and tiny weights, labels of any type."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    weight = st.one_of(st.integers(0, 3), st.sampled_from([10**30, 10**60, 10**40 + 1, 10**40]))
    rows = [draw(st.lists(weight, min_size=m, max_size=m).filter(any)) for _ in range(n)]
    if n > 1 and draw(st.booleans()):
        rows[1] = rows[0]
    return Channel(rows, draw(st.permutations(LABELS))[:n], normalize=True)


@st.composite
def neighborhoods(draw, inputs):
    """(neighbors in one of their forms, the ordered pairs of positions that they mean)."""
    n = len(inputs)
    every = list(itertools.combinations(range(n), 2))
    form = draw(st.sampled_from(["all", "line", "pairs", "function", "graph"])) if n > 1 else "all"
    if form == "all":
        return form, [*every, *((j, i) for i, j in every)]
    if form == "line":
        return form, [(i, j) for i in range(n) for j in range(n) if abs(i - j) == 1]
    some = draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    named = [(inputs[i], inputs[j]) for i, j in some]
    given_as = {
        "pairs": named,
        "function": lambda a, b: (a, b) in named,
        "graph": graph(named, inputs),
    }[form]
    return given_as, [*some, *((j, i) for i, j in some)]


def enumerated_ratio(matrix, pairs):
    ratios = [Fraction(1)]
    for x, y in pairs:
        for p, q in zip(matrix[x], matrix[y], strict=True):
            ratios += [p / q if q else math.inf] if p else []
    return max(ratios)


def enumerated_delta(matrix, pairs, growth):
    """Over every set of outputs."""
    sets = list(itertools.product([0, 1], repeat=matrix.shape[1]))
    gaps = [
        sum(s * (p - growth * q) for s, p, q in zip(S, matrix[x], matrix[y], strict=True))
        for x, y in pairs
        for S in sets
    ]
    return max(gaps, default=0)


class TestAgainstEnumeration:
    @settings(max_examples=150)
    @given(st.data())
    def test_ratio_epsilon_delta(self, data):
        channel = data.draw(channels())
        neighbors, pairs = data.draw(neighborhoods(channel.inputs))
        ratio = enumerated_ratio(channel.matrix, pairs)
        assert channel.ratio(neighbors) == ratio
        epsilon = channel.epsilon(neighbors)
        assert (epsilon == math.inf) == (ratio == math.inf)
        if ratio != math.inf:
            exact = Fraction(repr(epsilon))
            assert exp_bounds(exact, 400)[1] >= ratio * 2**400, "never below the truth"
            assert exact == 0 or exp_bounds(exact * (1 - Fraction(1, 2**51)), 400)[0] < ratio * 2**400, "and no higher"
        for at in (Fraction(0), Fraction(1, 3), Fraction(4)):
            growth = Fraction(exp_bounds(at, 400)[1], 2**400)
            told = Fraction(repr(channel.delta(at, neighbors)))
            truth = enumerated_delta(channel.matrix, pairs, growth)
            assert truth <= told <= truth * (1 + Fraction(1, 2**50)) + Fraction(1, 10**50)

    @settings(max_examples=100)
    @given(st.data())
    def test_epsilon_at_a_delta(self, data):
        channel = data.draw(channels())
        neighbors, pairs = data.draw(neighborhoods(channel.inputs))
        delta = data.draw(st.sampled_from([Fraction(1, 7), Fraction(1, 10**20), Fraction(1, 2), Fraction(1)]))
        epsilon = channel.epsilon(neighbors, delta=delta)
        if epsilon == math.inf:
            assert enumerated_delta(channel.matrix, pairs, Fraction(10) ** 500) > delta
            return
        above = Fraction(exp_bounds(Fraction(repr(epsilon)), 400)[1], 2**400)
        assert enumerated_delta(channel.matrix, pairs, above) <= delta
        below = Fraction(exp_bounds(Fraction(repr(epsilon)) * (1 - Fraction(1, 2**50)), 400)[0], 2**400)
        assert epsilon == 0 or enumerated_delta(channel.matrix, pairs, below) > delta

    @settings(max_examples=60)
    @given(st.data())
    def test_optimal_channels_are_private_in_rationals(self, data):
        n = data.draw(st.integers(1, 4))
        inputs = tuple(LABELS[:n])
        neighbors, pairs = data.draw(neighborhoods(inputs))
        epsilon = data.draw(st.sampled_from(["0", "1e-30", "1e-9", "0.3", "3", "40", "100"]))
        losses = data.draw(st.lists(st.lists(st.integers(-3, 9), min_size=3, max_size=3), min_size=n, max_size=n))
        for found in (
            optimum(
                prior="uniform",
                loss=losses,
                epsilon=epsilon,
                neighbors=neighbors,
                inputs=inputs,
                outputs=["x", "y", "z"],
            ),
            minimax(loss=losses, epsilon=epsilon, neighbors=neighbors, inputs=inputs, outputs=["x", "y", "z"]),
        ):
            matrix = found.channel.matrix
            assert all(sum(row) == 1 and min(row) >= 0 for row in matrix)
            growth = Fraction(exp_bounds(Fraction(epsilon), 400)[1], 2**400)
            assert enumerated_ratio(matrix, pairs) <= growth


class TestFloats:
    """A float that becomes 0, or two that seem equal, must not make a channel seem more private."""

    CLOSE = Channel([[0.01, 0.99], [math.nextafter(0.01, 1), 0.99]])

    def test_close_rows_at_distance_zero_have_no_epsilon(self):
        assert self.CLOSE.d_privacy([[0, 0], [0, 0]]) == math.inf
        assert self.CLOSE.d_privacy([[0, 1e-17], [1e-17, 0]]) == pytest.approx(17.347, rel=1e-3)

    def test_close_ratios_are_told_apart(self):
        """Both quotients round to 1 + 2^−52; the second ratio is twice as far from 1."""
        p, q = np.array([0.5 - 2.0**-54, 0.5 + 2.0**-53]), np.array([0.5 - 2.0**-53, 0.5])
        assert (p / q == 1 + 2.0**-52).all()
        assert Channel([p, q]).epsilon("all") == pytest.approx(2.0**-52, rel=1e-9, abs=0)

    def test_subnormal_entries(self):
        channel = Channel([[5e-324, 1.0], [0.5, 0.5]])
        assert channel.epsilon("all") == channel.d_privacy("line") == pytest.approx(743.7469247)
        assert channel.delta(800, "all") == 0.5

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Channel([[0.5, "1e-400", 0.5], [0.5, "1e-399", 0.5]]),
            lambda: Channel([["1e-400", 1 - Fraction(1, 10**400)]]).as_float(),
            lambda: parse_csv("x,a,b,c\np,1e-400,0.5,0.4999999999\nq,1e-399,0.5,0.4999999999\n"),
            lambda: parse_csv("x,a" + "".join(f",c{k}" for k in range(10_000)) + "\np,1e-400" + ",0.0001" * 9_999 + ",0.00010000001\n"),
            lambda: TestFloats.TINY.compose(TestFloats.TINY),
            lambda: TestFloats.TINY.product(TestFloats.TINY),
            lambda: TestFloats.TINY.then(Channel([[1e-200, 1.0], [0.0, 1.0]])),
            lambda: TestFloats.TINY.mix(TestFloats.TINY, weight="1e-400"),
            lambda: Channel([[5e-324, 1e308], [1.0, 1.0]], normalize=True),
            lambda: inference.posterior(TestFloats.TINY, [1e-200, 1.0]),
        ],
    )  # fmt: skip
    def test_what_a_float_cannot_hold_is_refused(self, make):
        with pytest.raises(InvalidChannel, match="too small for a float"):
            make()

    TINY = Channel([[1e-200, 1 - 1e-200], [1e-199, 1 - 1e-199]])

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Channel([[1.0, 10**400]]),
            lambda: Channel([["0.5", 0.5], [10**400, 1]]),
            lambda: Channel([[1e308, 1e308], [1.0, 1.0]], normalize=True),
        ],
    )
    def test_what_is_too_large_is_refused(self, make):
        with pytest.raises(InvalidChannel, match="too large|cannot be normalized"):
            make()


def test_an_epsilon_close_to_zero_is_tight():
    small = Fraction(1, 10**300)
    channel = Channel([["1/2", "1/2"], [Fraction(1, 2) + small, Fraction(1, 2) - small]])
    assert 2e-300 <= channel.epsilon("all") <= 2.0000000000000009e-300


def test_a_curve_reads_its_neighbors_once_and_ends_where_delta_does():
    assert COIN.curve(pair for pair in [(0, 1)]) == COIN.curve("all")
    steep = Channel([[Fraction(1, 2**20_000), 1 - Fraction(1, 2**20_000)], ["1/2", "1/2"]])
    assert steep.curve("all")[-1][0] == 10_000


class TestMetrics:
    @pytest.mark.parametrize("apart", [2**53 + 15, 2**53 + 31, 0.025, 0.05, 0.058])
    def test_the_epsilon_is_never_below_the_truth(self, apart):
        """Floats rounded these integers up; the decimals were divided by the float, which is above them."""
        told = Fraction(repr(COIN.d_privacy([[0, apart], [apart, 0]])))
        assert told * Fraction(repr(apart)) >= Fraction(log_bounds(Fraction(3), 300)[0], 2**300)

    @pytest.mark.parametrize("apart", [10**400, 1e-310, "1e-400", Fraction(1, 10**301)])
    def test_distances_beyond_floats_are_refused(self, apart):
        with pytest.raises(InvalidChannel, match="between 1e-300 and 1e300"):
            COIN.d_privacy([[0, apart], [apart, 0]])

    def test_a_text_is_not_a_row_of_distances(self):
        with pytest.raises(InvalidChannel, match="another shape"):
            COIN.d_privacy(["00", "00"])


class TestLabels:
    def test_two_labels_that_read_as_one_are_refused(self):
        texts = Channel([["3/4", "1/4"], ["1/4", "3/4"]], inputs=["1", "2"])
        with pytest.raises(InvalidChannel, match="both read as"):
            inference.posterior(texts, {1: "1/2", "1": "1/2", "2": "1/2"})
        with pytest.raises(InvalidChannel, match="both read as"):
            Channel([["3/4", "1/4"], ["1/4", "3/4"]], inputs=["1", 1]).compose(texts)

    def test_pairs_in_an_array(self):
        assert COIN.epsilon(np.array([[0, 1]])) == COIN.epsilon("all")

    def test_a_graph_of_another_size_is_refused(self):
        with pytest.raises(InvalidChannel, match="expected 2"):
            COIN.epsilon(graph("line", (0, 1, 2)))

    def test_images_that_cannot_be_labels(self):
        with pytest.raises(InvalidChannel, match="label"):
            deterministic(lambda x: [x], [1, 2])


class TestPriorChecks:
    def test_nothing_to_tell_apart_is_a_fraction(self):
        assert isinstance(inference.prior_independence(COIN, "all", epsilon=1, priors=[[0, 1]]).largest, Fraction)

    def test_an_exact_violation_is_not_hidden_by_the_slack_of_a_float(self):
        short = Fraction(repr(COIN.epsilon("all"))) - Fraction(1, 10**11)
        assert inference.prior_independence(COIN, "all", epsilon=short, priors=[[0.3, 0.7]]).holds
        assert not inference.prior_independence(COIN, "all", epsilon=short, priors=[[0.3, 0.7], "uniform"]).holds

    def test_a_wrong_prior_is_not_told_to_normalize(self):
        with pytest.raises(InvalidChannel, match="sums to 5/6.*correct it$"):
            inference.posterior(COIN, ["1/2", "1/3"])


@pytest.mark.parametrize("loss", [5, None, [1, 2], np.zeros(2), lambda _y, _z: 10**400])
def test_losses_that_are_none_are_refused(loss):
    with pytest.raises(InvalidChannel):
        optimum(prior=["1/2", "1/2"], loss=loss, epsilon=1, neighbors="all")


@pytest.mark.parametrize("prior", [5, None])
def test_priors_that_are_none_are_refused(prior):
    with pytest.raises(InvalidChannel, match="prior"):
        optimum(prior=prior, loss=lambda y, z: int(y != z), epsilon=1, neighbors="all")


def test_a_missing_file_is_named_once(tmp_path):
    with pytest.raises(InvalidChannel, match=r"^cannot read .*gone\.csv: No such file or directory$"):
        read_channel(tmp_path / "gone.csv")
    with pytest.raises(InvalidChannel, match="^odd is not UTF-8 text"):
        decoded(b"\xff", "odd")


def test_the_sensitivity_of_a_float_query_is_never_too_small():
    """0.7 − 0.1 and 0.3 − 0.1 … are rounded by floats; the search must not round down."""
    domain = [k / 10 for k in range(11)]
    for norm in (1, 2, "inf"):
        found = sensitivity(
            lambda rows: [sum(rows), sum(rows) * 0.1],
            domain=domain,
            size=2,
            neighbors=Neighbors.CHANGE_ONE,
            norm=norm,
        )
        assert isinstance(found.value, float)
        a, b = ([Fraction(sum(rows)), Fraction(sum(rows) * 0.1)] for rows in found.witness)
        gaps = [abs(x - y) for x, y in zip(a, b, strict=True)]
        value = Fraction(found.value)
        assert {1: sum(gaps) <= value, 2: sum(g * g for g in gaps) <= value**2, "inf": max(gaps) <= value}[norm]


def test_identity_has_no_epsilon_in_floats_either():
    assert identity(range(40)).as_float().d_privacy("line") == math.inf
