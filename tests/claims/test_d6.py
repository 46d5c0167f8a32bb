"""D6: who sees each update recovers rows; client-level clipping and noise, and secure aggregation, stop it, at a cost.

A coordinator is asked for one round of FedSGD (or FedAvg) by the clients of `learning.federated`; everything that
arrives at it is kept, and attacked.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from discreet.attacks.updates import UpdateLabels, UpdateRows, imprint
from discreet.learning.federated import Federation, GaussianShare, InProcessClients, Secure, crypto, run
from discreet.learning.federated.aggregation import SecureAggregation, TrustedAggregation, length
from discreet.learning.federated.exchange import Update, decode_answer, unpack_vector
from discreet.learning.federated.federation import Local
from discreet.learning.federated.messages import Masked
from discreet.learning.networks.layers import Dense, Relu
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.clipping import UNITS
from discreet.learning.sgd.recipe import Sgd
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee
from discreet.privacy.calibration import gaussian_multiplier

INPUTS, CLASSES, CLIENTS, ROWS = 20, 4, 30, 4
RNG = np.random.default_rng(61)
CENTERS = RNG.random((CLASSES, INPUTS))
DELTA = "1e-5"


def people(count):
    """Rows between 0 and 1, around a center for each class."""
    y = RNG.integers(0, CLASSES, count)
    return (CENTERS[y] / 2 + RNG.random((count, INPUTS)) / 2).astype(np.float32), y


DATA = {f"client {k:02}": people(ROWS) for k in range(CLIENTS)}
OUTSIDE = people(400)[0]
ALL_ROWS = np.concatenate([x for x, _ in DATA.values()])


def network(units):
    return Network([Dense(units), Relu(), Dense(CLASSES)], Softmax(), (INPUTS,))


def dishonest(units):
    """The weights of a coordinator that wants to know."""
    return [part.astype(np.float32) for part in imprint(people(3000)[0], units=units, outputs=CLASSES, seed=1)]


def plan(**settings):
    terms = {"clients": CLIENTS, "rounds": 1, "level": "client", "rate": 1, "multiplier": 0, "clip": 1, "optimizer": Sgd(1), "secure": None}  # fmt: skip
    return Federation(**terms | settings)


class Seen:
    """One round: what arrives of each client (as signed numbers), and the sum that comes out."""

    def __init__(self, federation, net, parameters):
        self.net, answers = net, {}

        def tap(name, sent):
            answers.setdefault(name, []).append(decode_answer(sent))
            return sent

        fleet = InProcessClients(federation, net, DATA, seed=1, wire=tap)
        kind = TrustedAggregation if federation.secure is None else SecureAggregation
        made = kind(federation, net, fleet, dict(fleet.keys), bytes(16), DeterministicEntropy(1))
        self.total = made.gather(0, parameters, Fraction(1)).total
        bits = federation.terms(fleet.keys, bytes(16), 0, length(net)).bits if federation.secure else 0
        self.vectors = [self._vector(answers[name], bits) for name in DATA]

    def _vector(self, messages, bits):
        (one,) = [message for message in messages if isinstance(message, Update | Masked)]
        if isinstance(one, Update):
            return unpack_vector(one.vector, length(self.net))
        words = crypto.parse(one.vector, bits, length(self.net)).astype(np.float64)
        return words - 2.0**bits * (words >= 2.0 ** (bits - 1))

    def layers(self, vector):
        first, last = (p.size for p in self.net.start(seed=0))
        return vector[:first].reshape(INPUTS + 1, -1), vector[first : first + last].reshape(-1, CLASSES)


def attack(net, vectors, rows, against):
    layers = [Seen.layers(net, vector)[0] for vector in vectors]
    return UpdateRows(
        weights=[one[:-1] for one in layers],
        biases=[one[-1] for one in layers],
        rows=rows,
        outside=OUTSIDE,
        bounds=(0, 1),
        against=against,
    ).run()


def each(seen, against="each client's update"):
    return attack(seen, seen.vectors, [x for x, _ in DATA.values()], against)


def whole(seen, against="the sum"):
    return attack(seen, [seen.total], [ALL_ROWS], against)


def assert_stopped(report):
    """No better than guessing, in a test that would have seen an eighth; and not even a hint, at a level of 1e-6."""
    assert report.verdict == "holds"
    assert report.facts["a share that would have been seen"] < 0.125
    hint = report.facts["own rows nearer to the claims than rows outside"]
    assert binom.sf(hint.hits - 1, hint.trials, 0.5) > 1e-6, hint


# --- unprotected ---------------------------------------------------------------------------------------------------


@pytest.mark.claim("D6")
@pytest.mark.parametrize("local", [None, Local("0.1", epochs=3)], ids=["FedSGD", "FedAvg"])
def test_who_sees_each_update_recovers_rows_and_labels(local):
    """Clipping is on, and the sum will get noise: neither hides anything from the one who sees the updates."""
    net = network(96)
    seen = Seen(plan(local=local, multiplier=5), net, net.start(seed=1))
    report = each(seen)
    assert report.verdict == "falls"
    assert report.success.low > 0.6
    assert report.control.hits == 0
    if local is None:
        slopes = [seen.layers(vector)[1][-1] for vector in seen.vectors]
        found = UpdateLabels(biases=slopes, labels=[y for _, y in DATA.values()]).run()
        assert found.success.value == 1


# --- clipping and noise of each client -----------------------------------------------------------------------------


@pytest.mark.claim("D6")
@pytest.mark.parametrize(("weights", "less"), [("honest", 1e4), ("dishonest", 1e7)])
def test_client_level_clipping_and_noise_stop_it(weights, less):
    """Each client's own release is (8, 1e-5)-DP for all of its rows. The test would see noise that is far too small."""
    net = network(96)
    seen = Seen(plan(), net, net.start(seed=1) if weights == "honest" else dishonest(96))
    assert each(seen).verdict == "falls"
    sigma = gaussian_multiplier(epsilon=8, delta=DELTA, method="analytic") * UNITS
    share = GaussianShare(sigma=sigma, honest=1, sensitivity=UNITS, dimension=length(net))
    assert guarantee(share.loss, delta=DELTA).epsilon < 9
    noise = share.draw(CLIENTS * length(net), entropy=DeterministicEntropy(2)).reshape(CLIENTS, -1)
    clean = seen.vectors
    seen.vectors = [vector + added for vector, added in zip(clean, noise, strict=True)]
    assert_stopped(each(seen))
    seen.vectors = [vector + added / less for vector, added in zip(clean, noise, strict=True)]
    assert each(seen).verdict == "falls"


# --- secure aggregation --------------------------------------------------------------------------------------------

SECURE = Secure(threshold="2/3", colluding="0.1")


@pytest.fixture(scope="module")
def secure():
    """A round under masks, without noise."""
    net = network(96)
    return Seen(plan(secure=SECURE), net, net.start(seed=1))


@pytest.mark.claim("D6")
def test_under_pads_no_update_tells_anything(secure):
    assert_stopped(each(secure, "each client's vector under its masks"))


@pytest.mark.claim("D6")
def test_the_pads_cancel_and_the_sum_is_exact(secure):
    """No cost in accuracy at all: the sum is that of the vectors in the clear, on a finer grid."""
    federation = plan(secure=SECURE)
    clear = Seen(plan(), secure.net, secure.net.start(seed=1))
    assert (secure.total == federation.grain * sum(clear.vectors)).all()


@pytest.mark.claim("D6")
def test_the_sum_over_all_clients_hides_nearly_all_rows_from_an_honest_coordinator(secure):
    """Nearly: a unit that happens to be active for one row of all tells it. Only noise says never."""
    report = whole(secure)
    assert report.people == CLIENTS * ROWS
    assert report.verdict != "falls"
    assert report.success.high < 0.1


@pytest.mark.claim("D6")
def test_pads_alone_do_not_stop_a_coordinator_that_chooses_the_weights_but_noise_does():
    """The sum is a batch of all rows, and a layer of many bins reads it: secure aggregation needs noise in shares."""
    net, weights = network(500), dishonest(500)
    without = whole(Seen(plan(), net, weights))  # the same sum as under masks
    assert without.verdict == "falls"
    assert without.success.low > 0.4
    budget = Federation.for_budget(
        epsilon=8, delta=DELTA, against="coordinator", clients=CLIENTS, rounds=1, level="client", rate=1, clip=1,
        optimizer=Sgd(1), secure=SECURE,
    )  # fmt: skip
    seen = Seen(budget, net, weights)
    assert_stopped(whole(seen))
    assert_stopped(each(seen))


# --- what it costs -------------------------------------------------------------------------------------------------


@pytest.mark.claim("D6")
def test_what_protection_costs_in_accuracy():
    """(8, 1e-5) for each client over all rounds: noise on the sum costs 5 points, noise at every client nearly all."""
    clients, rounds = 60, 15
    net = Network([Dense(CLASSES)], Softmax(), (INPUTS,))
    data = {f"client {k:02}": people(ROWS) for k in range(clients)}
    x, y = people(2000)
    settings = {"clients": clients, "rounds": rounds, "level": "client", "rate": 1, "clip": 1, "optimizer": Sgd(2, "0.8"), "secure": None}  # fmt: skip
    budget = Federation.for_budget(epsilon=8, delta=DELTA, against="models", **settings)
    everywhere = budget.multiplier * Fraction("7.75")  # √60: so much is in the sum if every client adds its own
    right = []
    for multiplier in (Fraction(0), budget.multiplier, everywhere):
        federation = Federation(multiplier=multiplier, **settings)
        fleet = InProcessClients(federation, net, data, seed=1)
        model = run(federation, net, fleet, entropy=DeterministicEntropy(3)).parameters
        right.append(float((net.predict(model, x).argmax(axis=1) == y).mean()))
    assert right[0] > 0.98
    assert right[1] > 0.88
    assert right[2] < 0.7
