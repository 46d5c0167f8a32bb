"""B7, calibration: the Gaussian mechanism is not ε-DP for any ε, but (ε, δ)-DP; the exact σ is never above the classical."""

import math

import pytest

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.privacy.accounting import delta_for, guarantee
from discreet.privacy.calibration import gaussian_multiplier
from discreet.privacy.loss import GaussianNoise


@pytest.mark.claim("B7")
def test_gaussian_noise_is_not_pure_for_any_epsilon() -> None:
    for multiplier in (1, 10, 1000):
        with pytest.raises(NoGuarantee, match="not pure ε-DP for any ε"):
            guarantee(GaussianNoise(multiplier), delta=0)
    for epsilon in (1, 10, 30):  # whatever the ε, some δ > 0 remains: the tails
        assert delta_for(GaussianNoise(1), epsilon=epsilon).delta > 0
    assert 1e-195 < delta_for(GaussianNoise(1), epsilon=30).delta < 1e-190


@pytest.mark.claim("B7")
def test_it_is_approximately_private_at_every_delta() -> None:
    found = [guarantee(GaussianNoise(5), delta=10.0**-k).epsilon for k in range(2, 13)]
    assert found == sorted(found)
    assert all(0 < epsilon < 2 for epsilon in found)


@pytest.mark.claim("B7")
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-9"])
@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1"])
def test_the_analytic_sigma_is_never_worse_than_the_classical(epsilon: str, delta: str) -> None:
    classical = gaussian_multiplier(epsilon=epsilon, delta=delta, method="classical")
    analytic = gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")
    formula = math.sqrt(2 * math.log(1.25 / float(delta))) / float(epsilon)
    assert float(classical) == pytest.approx(formula, rel=1e-11)
    assert analytic < classical
    for multiplier in (classical, analytic):
        assert guarantee(GaussianNoise(multiplier), delta=delta).epsilon <= float(epsilon)


@pytest.mark.claim("B7")
def test_the_published_pair() -> None:
    """At ε = 1, δ = 1e-6: classical 5.29880, exact 4.22468; one fifth of the noise was never needed."""
    sizes = [float(gaussian_multiplier(epsilon=1, delta="1e-6", method=m)) for m in ("classical", "zcdp", "analytic")]
    assert sizes == pytest.approx([5.29880, 4.53088, 4.22468], abs=5.1e-6)
    with pytest.raises(InvalidParameter):
        gaussian_multiplier(epsilon=2, delta="1e-6", method="classical")
