"""Rounding keeps domination and mass; the convolution's floating-point error is far inside its margin."""

import math

import numpy as np
import pytest

from discreet.privacy.accounting import dominating_pairs as pairs
from discreet.privacy.accounting import loss_lattice as lattice
from discreet.privacy.accounting import profile
from discreet.privacy.accounting.itemization import Item, bill
from discreet.privacy.loss import (
    BoundedRange,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Parallel,
    Pure,
    SampledGaussian,
)

ATOMS: list[Loss] = [
    Pure("0.7"),
    BoundedRange("0.7"),
    LaplaceNoise("1.4"),
    GaussianNoise(2),
    DiscreteGaussianNoise("1.7", 1),
    DiscreteGaussianNoise(3000, 2000),
    SampledGaussian("0.1", 1),
    SampledGaussian("0.001", "0.6"),
]


def item(loss: Loss) -> Item:
    ((only, _),) = bill(loss).items
    return only


def stick(each: lattice.Lattice, epsilon: float) -> float:
    above = each.loss > epsilon
    return float((each.mass[above] * -np.expm1(epsilon - each.loss[above])).sum()) + each.infinite


@pytest.mark.parametrize("loss", ATOMS, ids=str)
@pytest.mark.parametrize("step", [0.3, 0.01, 0.0007])
def test_rounding_never_lowers_the_profile_and_hardly_raises_it(loss: Loss, step: float) -> None:
    worst = [lattice.rounded(of(item(loss)), step=step, tail=1e-40, count=1) for of in (pairs.removing, pairs.adding)]
    for each in worst:
        assert each.mass.sum() + each.infinite == pytest.approx(1, abs=1e-13)
        assert (each.mass > 0).all()
        q = (each.mass * np.exp(-each.loss)).sum()
        assert q <= 1 + 1e-12  # Q-mass; what is missing has loss −∞
    for epsilon in np.linspace(0, 2, 41):
        ours = max(stick(each, epsilon) for each in worst)
        exact = profile.of(item(loss), float(epsilon))
        assert ours >= exact * (1 - 1e-9) - 1e-15
        assert ours <= exact + step**2


@pytest.mark.parametrize("loss", ATOMS, ids=str)
def test_what_is_cut_off_is_counted(loss: Loss) -> None:
    """With short tails nothing is lost: below the lattice mass moves up to its first point, above it to infinity."""
    for of in (pairs.removing, pairs.adding):
        each = lattice.rounded(of(item(loss)), step=0.01, tail=0.05, count=1)
        assert each.mass.sum() + each.infinite == pytest.approx(1, abs=1e-13)
    worst = [lattice.rounded(of(item(loss)), step=0.01, tail=0.05, count=1) for of in (pairs.removing, pairs.adding)]
    for epsilon in np.linspace(0, 2, 21):
        assert (
            max(stick(each, epsilon) for each in worst) >= profile.of(item(loss), float(epsilon)) * (1 - 1e-9) - 1e-15
        )


@pytest.mark.parametrize("loss", ATOMS, ids=str)
def test_cells_are_the_masses_of_a_pair(loss: Loss) -> None:
    """P- and Q-masses each sum to 1, and in a cell (a, b] the ratio p/q lies between e^a and e^b."""
    edges = np.arange(-300, 301) * 0.0131
    for of in (pairs.removing, pairs.adding):
        p, q = of(item(loss)).cells(edges)
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert q.sum() == pytest.approx(1, abs=1e-12)
        inner, outer = p[1:-1], q[1:-1]
        some = inner > 1e-12
        ratio = np.log(inner[some] / outer[some])
        assert (ratio >= edges[:-1][some] - 1e-9).all()
        assert (ratio <= edges[1:][some] + 1e-9).all()


@pytest.mark.parametrize("loss", ATOMS, ids=str)
@pytest.mark.parametrize("tail", [1e-3, 1e-12, 1e-200])
def test_reach_leaves_at_most_the_tail(loss: Loss, tail: float) -> None:
    for of in (pairs.removing, pairs.adding):
        pair = of(item(loss))
        p, _ = pair.cells(np.array(pair.reach(tail)) * (1 + 1e-12))
        assert p[-1] <= tail * (1 + 1e-6)


def test_the_worst_of_several_has_their_greatest_profile() -> None:
    losses = [LaplaceNoise(2), GaussianNoise("2.5"), SampledGaussian("0.2", "0.8")]
    ((choice, _),) = bill(Parallel(*losses)).items
    each = lattice.rounded(pairs.removing(choice), step=0.001, tail=1e-30, count=1)
    assert each.mass.sum() + each.infinite == pytest.approx(1, abs=1e-12)
    for epsilon in np.linspace(0, 6, 61):
        exact = max(
            stick(lattice.rounded(pairs.removing(item(a)), step=0.001, tail=1e-30, count=1), epsilon) for a in losses
        )
        assert stick(each, epsilon) == pytest.approx(exact, rel=1e-5, abs=1e-30)
        assert stick(each, epsilon) >= exact * (1 - 1e-10)


CASES = [
    ([(pairs.Gaussian(0.1), 100)], 30.0),
    ([(pairs.Gaussian(1.0), 1), (pairs.Laplace(1.0), 1)], 5.0),
    ([(pairs.Sampled(0.01, 4.0, adding=False), 10_000)], 12.0),
    ([(pairs.Response(0.001), 10**6)], 5.0),
    ([(pairs.Response(0.5), 3), (pairs.Bounded(0.3), 4), (pairs.Gaussian(0.4), 1)], 20.0),
]


@pytest.mark.parametrize(("paired", "theta"), CASES)
def test_floating_point_error_is_a_hundredth_of_the_margin(paired: list[tuple[pairs.Pair, int]], theta: float) -> None:
    """The same convolution with 64-bit and with extended precision, from the same tilted masses."""
    import scipy.fft

    count = sum(n for _, n in paired)
    step = min(pair.scale for pair, _ in paired) / 20
    parts = [lattice.rounded(pair, step=step, tail=1e-20, count=n) for pair, n in paired]
    bottom, top = lattice.window(parts, theta, delta=1e-6, floor=0.0)
    length = lattice._fast_length(math.ceil((top - bottom) / step))
    results = []
    for real in (np.float64, np.longdouble):
        spectrum: object = 1.0
        for each in parts:
            _, weights = lattice.tilted(each, theta)
            center = round(float((weights * each.loss).sum()) / step)
            folded = np.zeros(length, dtype=real)
            np.add.at(folded, (each.index - center) % length, weights.astype(real))
            transform = scipy.fft.rfft(folded)
            spectrum = spectrum * transform**each.count
        results.append(scipy.fft.irfft(spectrum, length))
    error = float(np.abs(results[0] - results[1]).max() / results[1].max())
    assert np.finfo(np.longdouble).eps < 1e-18, "this platform has no extended precision to compare with"
    assert 0 < error < 64 * (count + 1000) * 2.0**-52 / 100


def test_fast_lengths() -> None:
    for least in (1, 2, 3, 1000, 32_769, 10**6 + 1):
        size = lattice._fast_length(least)
        assert least <= size <= max(4, 1.35 * least)
        assert size % 2 == 0


def test_graded_cells_keep_the_ends() -> None:
    index = lattice._graded(-4097, 10**6, keep=(-4096, 999_999))
    assert {-4097, -4096, 999_999, 10**6} <= set(index.tolist())
    assert (np.diff(index) > 0).all()
    assert len(index) < 20_000
    inner = index[np.abs(index) <= 1024]
    assert np.array_equal(inner, np.arange(-1024, 1025))


# --- what floating point may have taken is added ------------------------------------------------------------------


@pytest.mark.parametrize(("paired", "theta"), CASES)
def test_no_mass_is_below_that_of_extended_precision(paired: list[tuple[pairs.Pair, int]], theta: float) -> None:
    """Without the margin about half of the masses would be: rounding errors have both signs."""
    import scipy.fft

    step = min(pair.scale for pair, _ in paired) / 20
    parts = [lattice.rounded(pair, step=step, tail=1e-20, count=n) for pair, n in paired]
    bottom, top = lattice.window(parts, theta, delta=1e-6, floor=0.0)
    total = lattice.convolved(parts, theta, bottom=bottom, top=top)
    length, first = len(total.loss), round(total.loss[0] / step)
    spectrum, base, logarithm = np.ones(length // 2 + 1, dtype=np.clongdouble), 0, np.longdouble(0)
    for each in parts:
        exponents = np.longdouble(theta) * each.loss.astype(np.longdouble)
        weights = each.mass.astype(np.longdouble) * np.exp(exponents - exponents.max())
        center = round(float((weights * each.loss).sum() / weights.sum()) / step)
        folded = np.zeros(length, dtype=np.longdouble)
        np.add.at(folded, (each.index - center) % length, weights / weights.sum())
        spectrum = spectrum * scipy.fft.rfft(folded) ** each.count
        base += each.count * center
        logarithm += each.count * (exponents.max() + np.log(weights.sum()))
    sums = np.roll(scipy.fft.irfft(spectrum, length), (base - first) % length)
    exact = np.maximum(sums, 0) * np.exp(logarithm - np.longdouble(theta) * total.loss)
    heavy = sums > 1e-6 * sums.max()
    assert heavy.sum() > 50
    assert (total.mass[heavy] * (1 + total.error) >= exact[heavy]).all()
    assert (total.mass[heavy] > exact[heavy] * (1 - 1e-12)).all()
    assert (total.mass * np.exp(theta * total.loss - float(logarithm)) > 0).all()  # also where nothing else is left


def test_a_total_adds_its_errors() -> None:
    """δ grows with the error of the masses, the shift of the losses and the mass beyond, each by all of it."""
    loss, mass = np.array([0.0, 1.0, 2.0]), np.array([0.2, 0.3, 0.1])
    plain = lattice.Total(loss, mass, 0.0, 0.0, 0.0)
    expected = 0.3 * -math.expm1(-0.5) + 0.1 * -math.expm1(-1.5)
    assert plain.delta(0.5) == pytest.approx(expected, rel=1e-12)
    assert lattice.Total(loss, mass, 0.0, 0.25, 0.0).delta(0.5) == pytest.approx(1.25 * expected, rel=1e-12)
    assert lattice.Total(loss, mass, 0.125, 0.0, 0.0).delta(0.5) == pytest.approx(expected + 0.125, rel=1e-12)
    assert lattice.Total(loss, mass, 0.0, 0.0, 0.25).delta(0.5) == pytest.approx(plain.delta(0.25), rel=1e-12)
    assert plain.delta(-0.1) == 1


@pytest.mark.parametrize("reach", [0.2, 1.0, 3.0])
def test_what_lies_above_the_window_is_counted(reach: float) -> None:
    """A window that ends too early costs tightness, never soundness: ten Gaussians, whose profile is known."""
    mu, count = 0.3, 10
    parts = [lattice.rounded(pairs.Gaussian(mu), step=0.01, tail=1e-20, count=count)]
    middle = lattice.cumulants(parts, 0.5)
    total = lattice.convolved(parts, 0.5, bottom=-4.0, top=middle.mean + reach * math.sqrt(middle.variance))
    for epsilon in np.linspace(0, float(total.loss[-1]), 9):
        assert total.delta(float(epsilon)) >= profile.gaussian(mu * math.sqrt(count), float(epsilon)) * (1 - 1e-9)
