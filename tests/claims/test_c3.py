"""C3: ε-LDP for any finite channel; k-ary randomized response."""

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.statistical.power import Stream, assert_follows

from discreet import local, mechanisms
from discreet.mechanisms.channel import Channel
from discreet.privacy.accounting import guarantee

pytestmark = pytest.mark.claim("C3")


@pytest.mark.parametrize("k", [2, 3, 10, 50])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
@pytest.mark.parametrize("kind", [mechanisms.KRR, local.KRR])
def test_k_rr_has_exactly_its_epsilon(kind: type, k: int, epsilon: str) -> None:
    """p(y|x) = e^ε/(k−1+e^ε) if y = x, else 1/(k−1+e^ε): the shipped channel, its tightest ε, and what it states."""
    mechanism = kind(epsilon=epsilon, size=k)
    channel, growth = mechanism.channel(), math.exp(float(epsilon))
    matrix = np.asarray(channel.as_float().matrix)
    assert matrix == pytest.approx((np.ones((k, k)) + (growth - 1) * np.eye(k)) / (k - 1 + growth), rel=1e-12)
    assert channel.epsilon("all") == pytest.approx(float(epsilon), rel=1e-12)
    assert channel.epsilon("all") <= guarantee(mechanism.loss, delta=0).epsilon == float(epsilon)


@pytest.mark.parametrize("epsilon", ["1", "4"])
def test_devices_draw_from_that_channel(epsilon: str) -> None:
    stream, secret = Stream(), 3
    for released, mechanism in (
        (mechanisms.KRR(epsilon=epsilon, size=10).release, mechanisms.KRR(epsilon=epsilon, size=10)),
        (local.KRR(epsilon=epsilon, size=10).randomize, local.KRR(epsilon=epsilon, size=10)),
    ):
        ends = np.cumsum(np.asarray(mechanism.channel().as_float().matrix)[secret])
        draws = np.asarray(released(np.full(100_000, secret), entropy=stream)).astype(np.int64)
        assert_follows(
            draws, lambda x, ends=ends: np.where(x < 0, 0.0, ends[np.clip(x, 0, 9).astype(int)]), "k-RR", stream
        )


def test_the_coin_form_is_ln_3() -> None:
    coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]])
    assert coin.ratio("all") == 3
    assert coin.epsilon("all") == pytest.approx(math.log(3))


def test_any_finite_channel() -> None:
    """The local model compares every two inputs, also those that are far apart."""
    channel = Channel([["4/7", "2/7", "1/7"], ["2/7", "3/7", "2/7"], ["1/7", "2/7", "4/7"]])
    assert channel.ratio("all") == 4
    assert channel.ratio("line") == 2
    assert Channel([[1, 0, 0], ["1/3", "1/3", "1/3"]]).epsilon("all") == math.inf
    assert Channel([[Fraction(1, 2), Fraction(1, 2)]] * 2).epsilon("all") == 0
