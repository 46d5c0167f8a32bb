"""What one person can move in every noisy count of a map, by enumeration: it is at most what the scheme pays for.

Noise is replaced by fixed values, the same for neighbors, so that whatever follows from them is the same too; the exact
counts that would have been released are written down.
"""

from itertools import product

import numpy as np
import pytest

from discreet.noise import DeterministicEntropy
from discreet.privacy.calibration import gaussian_multiplier
from discreet.synthetic.commuting import Acceptance, Flows, Places, Scheme, synthesis
from discreet.synthetic.commuting.synthesis import synthesize

PLACES = Places(["a", "b", "c", "d"], [[0, 0], [1, 0], [4, 0], [9, 0]])
OTHERS = [(0, 0), (1, 0), (3, 1), (2, 2)]
FORMS = {
    "plain": {},
    "capped": {"cap": 3},
    "bands": {"bands": [2, 5]},
    "groups": {"groups": {"a": "x", "b": "x", "c": "y", "d": "y"}},
    "hubs": {"hubs": 2},
    "bands, capped": {"bands": [2], "cap": 5},
    "approximate": {"delta": "1e-6", "promise": "approximate"},
    "approximate bands": {"delta": "1e-6", "promise": "approximate", "bands": [2]},
    "accepted": {"accept": Acceptance(apart="0.99", stop=1)},
    "accepted hubs": {"accept": Acceptance(apart="0.99", stop=1), "hubs": 2},
}


@pytest.fixture
def seen(monkeypatch):
    """Every release: the rate ε/sensitivity or None with σ, and the exact counts."""
    found = []

    class Watched:
        def __init__(self, *, epsilon, sensitivity):
            self.rate = float(epsilon / sensitivity)

        def release(self, value, *, entropy):
            found.append((self.rate, None, np.array(value, float)))
            return np.arange(np.size(value), dtype=np.int64) + 1 if np.ndim(value) else 0

    def gaussian(sigma, shape, *, entropy):
        found.append((None, float(sigma), None))
        return np.zeros(shape, np.int64)

    onto = synthesis.onto_simplex

    def projected(values, total):
        if found[-1][1] is not None:
            found[-1] = (None, found[-1][1], np.array(values))
        return onto(np.ones_like(values), total)

    monkeypatch.setattr(synthesis, "Geometric", Watched)
    monkeypatch.setattr(synthesis, "rounded_gaussian", gaussian)
    monkeypatch.setattr(synthesis, "onto_simplex", projected)
    return found


def released(seen, people, scheme):
    seen.clear()
    flows = Flows(PLACES, [o for o, _ in people], [d for _, d in people], [1] * len(people))
    synthesize(flows, scheme, entropy=DeterministicEntropy(1))  # what is drawn from noisy counts is the same
    return list(seen)


def cost(one, other, scheme):
    """ε of all geometric releases together, and the shift of all Gaussian ones in units of what δ allows."""
    assert [each[:2] for each in one] == [each[:2] for each in other]
    pure = sum(rate * np.abs(a - b).sum() for (rate, _, a), (_, _, b) in zip(one, other, strict=True) if rate)
    square = sum(((a - b) ** 2).sum() / s**2 for (_, s, a), (_, _, b) in zip(one, other, strict=True) if s)
    if not scheme.delta:
        return pure, 0.0
    allowed = float(gaussian_multiplier(epsilon=scheme.flows_epsilon, delta=scheme.delta, method="analytic"))
    return pure, float(np.sqrt(square)) * allowed


def worst(seen, pairs, scheme):
    costs = [cost(released(seen, a, scheme), released(seen, b, scheme), scheme) for a, b in pairs]
    return max(pure for pure, _ in costs), max(shift for _, shift in costs)


def assert_paid(found, scheme):
    paid = float(scheme.candidate_epsilon + scheme.score_epsilon)
    if scheme.delta:
        paid -= float(scheme.flows_epsilon)
        assert 0.6 < found[1] <= 1 + 1e-12
    assert found[0] <= paid + 1e-12
    assert paid == 0 or found[0] > 0.4 * paid  # the enumeration does find something


@pytest.mark.parametrize("form", list(FORMS))
def test_where_destinations_are_public_one_person_lives_elsewhere(form, seen):
    scheme = Scheme(epsilon=1, **FORMS[form])
    pairs = [
        ([*OTHERS, (home, work)], [*OTHERS, (other, work)])
        for home, other, work in product(range(4), range(4), range(3))
        if home < other
    ]
    assert_paid(worst(seen, pairs, scheme), scheme)


@pytest.mark.parametrize("form", [name for name in FORMS if "accept" not in FORMS[name]])
@pytest.mark.parametrize("neighbors", ["add or remove one", "change one"])
def test_where_destinations_are_secret_one_person_is_another_or_nobody(form, neighbors, seen):
    scheme = Scheme(epsilon=1, neighbors=neighbors, **FORMS[form])
    kinds = list(product(range(4), range(4)))
    if neighbors == "change one":
        pairs = [([*OTHERS, a], [*OTHERS, b]) for a, b in product(kinds[::3], kinds) if a != b]
    else:
        pairs = [(OTHERS, [*OTHERS, a]) for a in kinds]
    assert_paid(worst(seen, pairs, scheme), scheme)
