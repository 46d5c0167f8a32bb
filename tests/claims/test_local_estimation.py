"""C6 and C7: the true distribution from noisy reports, by matrix inversion with its repairs, and by IBU."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest

from discreet.local.estimation.ibu import ibu
from discreet.local.estimation.inversion import clip, invert, project
from discreet.local.estimation.linear_maps import ConvolutionModel, DenseModel, KRRModel
from discreet.mechanisms import RandomizedResponse
from discreet.mechanisms.channel import Channel

F = Fraction
COIN = RandomizedResponse.from_coins(heads="1/2").channel()  # 3/4–1/4


@pytest.mark.claim("C6")
def test_the_worked_example_to_the_digit():
    assert COIN.matrix.tolist() == [[F(3, 4), F(1, 4)], [F(1, 4), F(3, 4)]]
    assert invert(COIN, [F(6, 10), F(4, 10)]).tolist() == [F(7, 10), F(3, 10)]
    assert invert(COIN, [60, 40]).tolist() == [F(7, 10), F(3, 10)]


@pytest.mark.claim("C6")
def test_the_example_that_must_be_repaired():
    found = invert(COIN, [F(4, 5), F(1, 5)])
    assert found.tolist() == [F(11, 10), F(-1, 10)]
    assert clip(found).tolist() == [1, 0]
    assert project(found).tolist() == [1, 0]


@pytest.mark.claim("C6")
def test_the_two_repairs_differ_where_three_values_can_be_told_apart():
    shares = [F(9, 10), F(3, 10), F(-2, 10)]
    assert clip(shares).tolist() == [F(3, 4), F(1, 4), 0]
    assert project(shares).tolist() == [F(4, 5), F(1, 5), 0]
    distance = {
        name: sum((a - b) ** 2 for a, b in zip(shares, r(shares), strict=True))
        for name, r in (("clip", clip), ("project", project))
    }
    assert distance["project"] < distance["clip"]


@pytest.mark.claim("C6")
@pytest.mark.parametrize(
    "channel", [COIN.as_float(), DenseModel(COIN), KRRModel(truth="3/4", other="1/4", size=2)], ids=range(3)
)
def test_floats_say_the_same(channel):
    assert invert(channel, [6, 4]) == pytest.approx([0.7, 0.3], abs=1e-12)
    assert invert(channel, [4, 1]) == pytest.approx([1.1, -0.1], abs=1e-12)


@pytest.mark.claim("C6")
def test_inversion_is_unbiased():
    """The expectation over all reports of three people, computed exactly, is the truth."""
    channel = Channel([["1/2", "1/3", "1/6"], ["1/4", "1/2", "1/4"], ["1/8", "1/8", "3/4"]])
    people = [0, 0, 2]
    mean = np.zeros(3, dtype=object)
    for y in np.ndindex(3, 3, 3):
        chance = F(1)
        for x, seen in zip(people, y, strict=True):
            chance *= channel.matrix[x, seen]
        mean += chance * invert(channel, np.bincount(y, minlength=3))
    assert mean.tolist() == [F(2, 3), 0, F(1, 3)]


# IBU


CHANNELS = {
    "randomized response": (DenseModel(COIN), [60, 40]),
    "k-RR": (KRRModel(truth="0.4", other="0.1", size=7), [30, 4, 8, 50, 3, 0, 12]),
    "asymmetric": (DenseModel([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.0, 0.3, 0.7]]), [50, 30, 40]),
    "singular": (DenseModel([[0.5, 0.5], [0.5, 0.5]]), [9, 4]),
    "fewer outputs than inputs": (DenseModel([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]), [7, 9]),
    "more outputs than inputs": (DenseModel([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]), [5, 9, 20]),
    "one input": (DenseModel([[0.5, 0.5]]), [5, 9]),
    "on a grid": (ConvolutionModel(np.full((3, 3), 1 / 9), shape=(4, 5), border="clamp"), list(range(20))),
}


@pytest.mark.claim("C7")
@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("name", CHANNELS)
def test_the_likelihood_is_monotone_for_any_channel(name, accelerate):
    model, counts = CHANNELS[name]
    result = ibu(model, counts, iterations=200, stop=None, accelerate=accelerate)
    assert (np.diff(result.likelihoods) >= 0).all()
    assert result.shares.sum() == pytest.approx(1)


@pytest.mark.claim("C7")
def test_a_plain_update_is_the_formula_of_the_claim():
    """p_x ← Σ_y q_y·p_x·C_xy / Σ_z p_z·C_zy, in rationals beside the floats."""
    q, p, C = [F(6, 10), F(4, 10)], [F(1, 5), F(4, 5)], COIN.matrix
    for k in range(1, 4):
        seen = [sum(p[z] * C[z, y] for z in range(2)) for y in range(2)]
        p = [sum(q[y] * p[x] * C[x, y] / seen[y] for y in range(2)) for x in range(2)]
        found = ibu(DenseModel(COIN), [6, 4], start=[0.2, 0.8], iterations=k, stop=None, accelerate=False)
        assert found.shares == pytest.approx([float(v) for v in p], abs=1e-12)


@pytest.mark.claim("C7")
@pytest.mark.parametrize("name", ["randomized response", "asymmetric", "k-RR"])
def test_invertible_channels_have_one_maximum(name):
    """From anywhere inside the simplex to the same point; and no point of a fine net is more likely."""
    model, counts = CHANNELS[name]
    rng = np.random.default_rng(0)
    ends = [
        ibu(model, counts, start=start, iterations=20_000, stop="gain", tolerance="1e-15").shares
        for start in (None, *rng.dirichlet(np.ones(model.size), 5))
    ]
    assert max(np.abs(end - ends[0]).max() for end in ends) < 1e-3
    best = (np.array(counts) * np.log(model.forward(ends[0]))).sum()
    net = [np.bincount(c, minlength=model.size) / 8 for c in combinations_with_replacement(range(model.size), 8)]
    with np.errstate(divide="ignore"):
        values = np.array(counts) * np.log(np.maximum(model.forward(np.array(net)), 1e-300))
    assert values.sum(axis=1).max() <= best + 1e-6


@pytest.mark.claim("C7")
def test_where_inversion_gives_a_distribution_ibu_gives_the_same():
    assert ibu(DenseModel(COIN), [60, 40], stop="gain", tolerance="1e-15").shares == pytest.approx([0.7, 0.3], abs=1e-5)
    assert ibu(DenseModel(COIN), [80, 20], stop="gain", tolerance="1e-15").shares == pytest.approx([1, 0], abs=1e-4)


@pytest.mark.claim("C7")
def test_where_the_channel_is_singular_every_start_is_a_maximum():
    model, counts = CHANNELS["singular"]
    for start in ([0.2, 0.8], [0.9, 0.1]):
        assert ibu(model, counts, start=start, iterations=50, stop=None).shares == pytest.approx(start)
