"""Planar Laplace noise: proposal × acceptance is the true distribution on the grid, decided exactly."""

import itertools
import signal
import sys
from fractions import Fraction

import numpy as np
import pytest
from tests.conftest import Scripted, stable
from tests.noise.reference import CONTEXT, WORD, laplace_pmf, leading_words, real
from tests.noise.test_geometric import BAD_SCALES, BAD_SIZES

from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy, planar_laplace
from discreet.noise.geometric import _Spherical, _spherical

F = Fraction
SCALES = [F(1, 3), F(1), F(22, 7), F(12345678, 1000), F(10**12)]


def norm(point) -> "CONTEXT.mpf":
    return CONTEXT.sqrt(sum(x * x for x in point))


def acceptance(sampler: _Spherical, point) -> "CONTEXT.mpf":
    """exp(−(‖z‖₂/t − ‖z‖₁/t')) in high precision."""
    return CONTEXT.exp(sum(abs(x) for x in point) / real(sampler._wide) - norm(point) / real(sampler._scale))


def points(scale: Fraction, dimensions: int) -> list[list[int]]:
    far = int(20 * scale) + 1
    some = [0, 1, -1, 2, int(scale), -int(3 * scale), far]
    return [
        list(p) for p in itertools.islice(itertools.product(some, repeat=dimensions), 0, None, 5 ** (dimensions - 1))
    ]


@pytest.mark.parametrize("dimensions", range(1, 9))
def test_the_proposal_is_wider_than_the_target_by_root_d(dimensions):
    """‖z‖₁ ≤ √d·‖z‖₂, so the acceptance is a probability; and hardly wider, so little is rejected."""
    for scale in SCALES:
        wide = _spherical(scale, dimensions)._wide
        assert wide**2 >= scale**2 * dimensions
        assert wide**2 <= scale**2 * dimensions * F(1002, 1000) ** 2


@pytest.mark.parametrize("dimensions", [1, 2, 3, 8])
@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("bits", [64, 128, 512])
def test_the_acceptance_enclosure_holds_the_true_probability(dimensions, scale, bits):
    sampler = _spherical(scale, dimensions)
    for point in points(scale, dimensions):
        lo, hi = sampler._acceptance(point)(bits)
        true = acceptance(sampler, point) * CONTEXT.mpf(2) ** bits
        assert 0 <= lo <= true <= hi <= min(lo + 4, 1 << bits), point


def test_proposal_times_acceptance_is_proportional_to_the_target():
    """Exact enumeration on a window: P(z)/P(0) = exp(−‖z‖₂/t) for every grid point."""
    scale = F(3, 2)
    sampler = _spherical(scale, 2)
    origin = laplace_pmf(sampler._wide, 0) ** 2
    for x, y in itertools.product(range(-12, 13), repeat=2):
        lo, hi = sampler._acceptance([x, y])(192)
        found = laplace_pmf(sampler._wide, x) * laplace_pmf(sampler._wide, y) * real(F(lo + hi, 2 << 192)) / origin
        assert abs(found / CONTEXT.exp(-norm((x, y)) / real(scale)) - 1) < 2.0**-120


@pytest.mark.parametrize("dimensions", [1, 2, 3, 8])
@pytest.mark.parametrize("scale", [F(1), F(22, 7), F(10**12)], ids=str)
def test_words_near_the_acceptance_are_decided_by_it(dimensions, scale):
    sampler = _spherical(scale, dimensions)
    for point in points(scale, dimensions):
        p = acceptance(sampler, point)
        if p > 1 - CONTEXT.mpf(2) ** -600:
            assert sampler._accepted(np.array([point]), Scripted([WORD - 1])).all(), "the origin is always kept"
            continue
        first, second, third = leading_words(p, 3)
        for step, expected in [(-3, True), (3, False)]:
            if 0 <= third + step < WORD:
                got = sampler._accepted(np.array([point]), Scripted([first, second, third + step]))
                assert got.tolist() == [expected], (point, step)
        for far, expected in [(-(1 << 30), True), (1 << 30, False)]:
            if 0 <= first + far < WORD:
                got = sampler._accepted(np.array([point]), Scripted([first + far], then=DeterministicEntropy(0)))
                assert got.tolist() == [expected], (point, far)


@pytest.mark.parametrize("dimensions", [1, 2, 8])
def test_the_float_exponent_stays_within_the_margin_of_accept(dimensions):
    """2^−42 is what accept.py allows; beyond far = 64 the exponent is NaN and rationals decide."""
    for scale in (F(1), F(22, 7), F(12345678, 1000), F(2**42) / 8):
        sampler = _spherical(scale, dimensions)
        t, wide = sampler._floats
        rows = [
            [int(a * scale) + 1 if i % 2 else int(b * scale) for i in range(dimensions)]
            for a in range(0, 60, 7)
            for b in (0, 1, 20, 40)
        ]
        sizes = np.array(rows, np.float64)
        near, far = sizes.sum(axis=1) / wide, np.sqrt(np.square(sizes).sum(axis=1)) / t
        for row, n, f in zip(rows, near.tolist(), far.tolist(), strict=True):
            if f <= 64:
                true = norm(row) / real(scale) - sum(row) / real(sampler._wide)
                assert abs(real(F(max(f - n, 0.0))) - true) < 2.0**-42


def test_rejected_points_are_drawn_again_and_only_those(monkeypatch):
    sampler = _Spherical(F(5), 2)
    verdicts = iter([[True, False, True], [False], [True]])
    monkeypatch.setattr(sampler, "_accepted", lambda p, entropy: np.array(next(verdicts)))
    seen = []
    module = sys.modules["discreet.noise.geometric"]  # the package has a function of this name
    original = module.discrete_laplace
    monkeypatch.setattr(module, "discrete_laplace", lambda *a, **k: seen.append(original(*a, **k)) or seen[-1])
    out = np.empty((3, 2), np.int64)
    sampler.fill(DeterministicEntropy(1), out)
    assert [len(s) for s in seen] == [3, 1, 1]
    assert out.tolist() == [seen[0][0].tolist(), seen[2][0].tolist(), seen[0][2].tolist()]


@pytest.mark.parametrize(
    ("size", "dimensions", "shape"),
    [
        (None, 2, (2,)),
        (5, 2, (5, 2)),
        ((2, 3), 2, (2, 3, 2)),
        ((), 3, (3,)),
        (0, 2, (0, 2)),
        ((4, 0), 8, (4, 0, 8)),
        (3, 1, (3, 1)),
        (20_000, 2, (20_000, 2)),
    ],
)
def test_shapes_end_with_the_coordinates(size, dimensions, shape):
    got = planar_laplace("2.5", size, dimensions=dimensions)
    assert (type(got), got.dtype, got.shape) == (np.ndarray, np.int64, shape)


@pytest.mark.parametrize("scale", ["1e-6", "1e-400", "5e-324", F(1, 10**1000)], ids=str)
def test_tiny_scales_return_the_origin_and_return_at_all(scale):
    def late(*_):
        raise TimeoutError(f"planar_laplace({scale}) did not return")

    previous = signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    try:
        assert not planar_laplace(scale).any()
        assert not planar_laplace(scale, 100).any()
        with np.errstate(all="raise"):
            assert not planar_laplace(scale, 10, dimensions=8).any()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("bad", BAD_SCALES, ids=lambda x: stable(x)[:20])
def test_bad_scales_are_refused(bad):
    for size in (None, 3):
        with pytest.raises(InvalidParameter, match=r"^scale: got .*expected a number > 0"):
            planar_laplace(bad, size)


@pytest.mark.parametrize("bad", BAD_SIZES, ids=lambda x: stable(x)[:20])
def test_bad_sizes_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"^size: got .*expected "):
        planar_laplace(1, bad)


@pytest.mark.parametrize("bad", [0, -1, 9, 2.0, True, None, "2", [2]], ids=stable)
def test_bad_dimensions_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"^dimensions: got .*expected a whole number ≥ 1 and ≤ 8"):
        planar_laplace(1, dimensions=bad)


def test_the_largest_scale_is_accepted_and_the_next_refused():
    assert np.abs(planar_laplace(2**42, 1000)).max() > 2**40
    for scale in (2**42 + 1, "4398046511104.0001", 10**5000):
        with pytest.raises(InvalidParameter, match=r"^scale: got .*expected "):
            planar_laplace(scale)
