"""Whole federated trainings: who drops out, who cheats, what is in the sum, and what is learned."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from tests.learning.federated.in_process import (
    DATA,
    EMPTY,
    NAMES,
    NETWORK,
    SECURE,
    kinds,
    plan,
    same,
    some_rows,
    trained,
)

from discreet.errors import InvalidParameter
from discreet.learning.federated import Arrival, Federation, InProcessClients, Local, Member, Secure, rounds, run
from discreet.learning.federated.crypto import random_key
from discreet.learning.federated.member import seeded_identity, seeded_secret, stream
from discreet.learning.federated.noise_shares import GaussianShare
from discreet.learning.networks.layers import Dense
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.recipe import Adam, Adaptive, Sgd
from discreet.learning.sgd.training import train_without_privacy
from discreet.noise import DeterministicEntropy, bernoulli
from discreet.privacy.accounting import guarantee

# Secure and plain


@pytest.mark.parametrize("kind", [{}, {"local": Local("0.3", epochs=2, batch=7)}, {"adaptive": Adaptive()},
                                  {"level": "example", "examples": 100, "rate": "1/2"}])  # fmt: skip
def test_secure_rounds_give_the_same_models_as_plain_ones_when_the_noise_is_fixed(kind, monkeypatch):
    """The noise is fixed to nothing. The coins of examples are the same, because clients toss them from one secret."""
    monkeypatch.setattr(rounds, "rounded_gaussian", lambda sigma, size, entropy: np.zeros(size, np.int64))
    monkeypatch.setattr(GaussianShare, "draw", lambda self, length, entropy=None: np.zeros(length, np.int64))
    plain, secure = trained(plan(**kind)), trained(plan(secure=SECURE, **kind))
    assert same(plain, secure)
    assert plain.curve == secure.curve
    assert [r.clip for r in plain.reports] == [r.clip for r in secure.reports]
    start = NETWORK.start(seed=1)
    assert not np.array_equal(plain.parameters[0], start[0])


def test_the_noise_is_there_when_it_is_not_fixed_to_nothing():
    exact = trained(plan(multiplier=0))
    for secure in (None, SECURE):
        noisy = trained(plan(secure=secure))
        assert not same(noisy, exact)
        assert not same(noisy, trained(plan(secure=secure), seed=8))


@pytest.mark.parametrize("secure", [None, SECURE])
def test_a_run_can_be_repeated_exactly(secure):
    kind = plan(secure=secure, rate="1/2", adaptive=Adaptive())
    assert same(trained(kind), trained(kind))
    fresh = run(kind, NETWORK, InProcessClients(kind, NETWORK, DATA))
    assert not same(fresh, trained(kind))


class Shuffled:
    """Everything comes in the reverse order."""

    def __init__(self, fleet):
        self._fleet, self.keys = fleet, dict(reversed(fleet.keys.items()))

    def ask(self, orders):
        return list(reversed(self._fleet.ask(orders)))


@pytest.mark.parametrize("secure", [None, SECURE])
def test_the_order_of_answers_does_not_matter(secure):
    kind = plan(secure=secure, rate="1/2")
    other = run(kind, NETWORK, Shuffled(InProcessClients(kind, NETWORK, DATA, seed=7)), entropy=DeterministicEntropy(7))
    assert same(other, trained(kind))


class Forgetful:
    """Every answer is given by a new process that knows what the one before saved."""

    def __init__(self, federation, data, seed):
        self._federation, self._data, self._seed = federation, data, seed
        self._people = {name: seeded_identity(seed, name) for name in data}
        self.keys = {name: person.public for name, person in self._people.items()}
        self.states = dict.fromkeys(data)

    def ask(self, orders):
        return [Arrival(name, self._answer(name, order)) for name, order in orders.items()]

    def _answer(self, name, order):
        secret = seeded_secret(self._seed, name)
        member = Member(
            self._federation, NETWORK, name, self._people[name], self.keys, *self._data[name], secret=secret,
            state=self.states[name],
        )  # fmt: skip
        answer = member.answer(order)
        self.states[name] = member.saved()
        return answer


@pytest.mark.parametrize("secure", [None, SECURE])
def test_members_go_on_in_another_process_between_any_two_phases(secure):
    kind = plan(secure=secure, level="example", examples=100, rate="1/2")
    fleet = Forgetful(kind, DATA, 7)
    outcome = run(kind, NETWORK, fleet, entropy=DeterministicEntropy(7))
    assert same(outcome, trained(kind))
    assert not any(report.dropped for report in outcome.reports)
    assert all(len(state) < 20_000 for state in fleet.states.values())


# Who takes part


def test_coins_choose_about_the_stated_share():
    """2000 coins of chance 1/4: six standard deviations are 116. A chance of 0.325 would be 150 away."""
    kind = plan(clients=100, rate="1/4", rounds=20)
    nobody = {f"c{k:02}": EMPTY["ann"] for k in range(100)}
    reports = trained(kind, nobody).reports
    assert abs(sum(len(report.asked) for report in reports) - 500) < 116
    assert len({name for report in reports for name in report.asked}) > 90
    assert all(report.asked == report.arrived for report in reports)


def test_secure_clients_toss_their_own_coins_and_nobody_sees_how_they_fell():
    """All answer in all rounds; in the sums are those whose own coin says so. 2000 more coins: as above."""
    kind = plan(rate="1/4", rounds=10, multiplier=0, curve="1/4", worst_loss="0.001", secure=SECURE)
    outcome = trained(kind)
    assert all(report.arrived == NAMES for report in outcome.reports)
    counts = [round(level * 5 * 0.25 / 0.001) for level in outcome.curve]  # each client's loss is beyond the worst: 1
    run_id = random_key(DeterministicEntropy(7))[:16]
    expected = [sum(coin(run_id, name, number) for name in NAMES) for number in range(10)]
    assert counts == expected
    assert len(set(counts)) > 1
    tossed = [coin(run_id, name, number) for name in NAMES for number in range(400)]
    assert abs(sum(tossed) - 500) < 116


def coin(run_id, name, number):
    return bool(bernoulli("1/4", entropy=stream(seeded_secret(7, name), run_id, name, number, "coin")))


def test_sums_are_divided_by_a_public_number(monkeypatch):
    """With two of five away the step is 3/5 of what it was, not the mean over three."""
    kind = plan(rounds=1, multiplier=0, clip=100, curve=0)
    same_rows = dict.fromkeys(NAMES, DATA["ann"])
    start = NETWORK.start(seed=1)[0]
    whole = trained(kind, same_rows).parameters[0] - start
    part = trained(kind, same_rows, wire=lambda name, sent: None if name in "bob eve" else sent)
    assert part.parameters[0] - start == pytest.approx(whole * 3 / 5, rel=1e-3)
    one = plan(rounds=1, multiplier=0, clip=100, curve=0, secure=SECURE)
    part = trained(one, same_rows, wire=lambda name, sent: None if name in "bob eve" else sent)
    assert part.parameters[0] - start == pytest.approx(whole * 3 / 5, rel=1e-3)


def test_a_round_in_which_nobody_came_still_has_its_noise():
    seen, models, sent = [], [], itertools.count()
    outcome = trained(
        plan(rounds=2),
        wire=lambda name, answer: None if next(sent) < len(NAMES) else answer,
        each=lambda report, model: (seen.append(report), models.append(model)),
    )
    assert [report.arrived for report in seen] == [(), NAMES]
    assert not any(report.abandoned for report in outcome.reports)
    assert not np.array_equal(models[0][0], NETWORK.start(seed=1)[0])


# Noise


WIDE = Network([Dense(10)], Softmax(), inputs=(99,))


def noises(secure, multiplier, gone=()):
    """The noise of two sums, in clipping norms: from models trained on nothing."""
    kind = plan(rounds=2, multiplier=multiplier, secure=secure, curve=0, clip=3)
    models = [WIDE.start(seed=1)[0].astype(np.float64)]
    nothing = {name: (np.zeros((0, 99)), np.zeros(0, int)) for name in NAMES}
    trained(
        kind, nothing, network=WIDE, each=lambda report, model: models.append(model[0].astype(np.float64)),
        wire=lambda name, sent: None if name in gone else sent,
    )  # fmt: skip
    return np.diff(models, axis=0).ravel() * 5 / 3


FALSE_ALARM = 1e-6


def plausible(noise, sigma):
    """Whether the noise has this standard deviation: a two-sided test of its sum of squares."""
    from scipy.stats import chi2

    return chi2.sf(np.sum((noise / sigma) ** 2), len(noise)), chi2.cdf(np.sum((noise / sigma) ** 2), len(noise))


@pytest.mark.parametrize(
    ("secure", "gone", "true"),
    [(None, (), 2.0), (None, ("bob",), 2.0), (SECURE, (), 2 * math.sqrt(5 / 3)), (SECURE, ("bob", "eve"), 2.0)],
    ids=["trusted", "trusted, one gone", "secure", "secure, two gone"],
)
def test_the_noise_in_a_sum_is_as_stated(secure, gone, true):
    """1000 numbers in each of two sums; 30 % more or less would be seen. Secure: five shares of √(4/3), or three."""
    noise = noises(secure, 2, gone)
    assert len(noise) == 2000
    assert min(plausible(noise, true)) > FALSE_ALARM / 2
    for wrong in (1.3, 0.7):
        assert min(plausible(noise, true * wrong)) < FALSE_ALARM / 2


# What is learned


def accuracy(outcome, network=NETWORK, rows=None):
    x, y = rows or some_rows(99, 2000)
    return float((network.predict(outcome.parameters, x).argmax(axis=1) == y).mean())


@pytest.mark.parametrize("kind", [{"optimizer": Sgd(2), "rounds": 60}, {"local": Local("0.5", epochs=5), "rounds": 15},
                                  {"level": "example", "examples": 500, "rate": "1/2", "optimizer": Sgd(2), "rounds": 60},
                                  {"optimizer": Adam("0.1"), "rounds": 60},
                                  {"local": Local("0.5", epochs=10), "rounds": 8, "secure": SECURE}])  # fmt: skip
def test_without_noise_the_federation_learns_what_one_place_would(kind):
    data = {name: some_rows(place, 100) for place, name in enumerate(NAMES)}
    x, y = (np.concatenate(parts) for parts in zip(*data.values(), strict=True))
    central = train_without_privacy(NETWORK, x, y, Sgd(1), lot=100, steps=100)
    tx, ty = some_rows(99, 2000)
    best = float((NETWORK.predict(central, tx).argmax(axis=1) == ty).mean())
    assert best > 0.95
    outcome = trained(plan(multiplier=0, clip=10, **kind), data)
    assert accuracy(outcome) > best - 0.02


def test_client_level_privacy_with_a_generous_budget_learns():
    """200 clients of 20 rows, a third of them in a round, ε = 8: the noisy model is nearly as good as the exact one."""
    count = 200
    data = {f"c{k}": some_rows(k) for k in range(count)}
    kind = Federation.for_budget(
        epsilon=8, delta="1e-4", against="models", clients=count, rounds=15, level="client", rate="1/3", clip="0.5",
        optimizer=Sgd(2), secure=None, adaptive=Adaptive(),
    )  # fmt: skip
    assert guarantee(kind.loss, delta="1e-4").epsilon <= 8
    outcome = trained(kind, data)
    assert accuracy(outcome) > 0.9
    curve = outcome.curve
    assert np.mean(curve[-5:]) < np.mean(curve[:3])


def test_example_level_privacy_learns_under_masks():
    data = {name: some_rows(place, 400) for place, name in enumerate(NAMES)}
    kind = Federation.for_budget(
        epsilon=4, delta="1e-5", against="coordinator", clients=5, rounds=12, level="example", rate="1/5",
        examples=2000, clip=1, optimizer=Sgd(2), secure=Secure(threshold="4/5", colluding="1/5"),
    )  # fmt: skip
    outcome = trained(kind, data)
    assert accuracy(outcome) > 0.9


def test_the_adaptive_norm_follows_the_quantile():
    """It starts ten thousand times too large, and comes down to where half of the clients are below it."""
    kind = plan(multiplier=0, rounds=60, clip=1000, adaptive=Adaptive(speed=1), optimizer=Sgd("1e-6"))
    outcome = trained(kind)
    norms = []
    for x, y in DATA.values():
        _, gradients = NETWORK.gradients(NETWORK.start(seed=1), x, y)
        norms.append(float(np.linalg.norm(gradients[0].summed() / len(x))))
    assert min(norms) * 0.6 < outcome.reports[-1].clip < max(norms) * 1.6


# Settings


def test_fleets_of_another_size_are_refused():
    with pytest.raises(InvalidParameter, match="data"):
        InProcessClients(plan(clients=6), NETWORK, DATA)
    fleet = InProcessClients(plan(), NETWORK, DATA)
    with pytest.raises(InvalidParameter, match="fleet"):
        run(plan(clients=6), NETWORK, fleet)


def test_clients_with_other_settings_do_not_take_part():
    """bob agreed to twice the noise: he declines, in every round, and says why."""
    fleet = InProcessClients(plan(), NETWORK, DATA, seed=7)
    other = InProcessClients(plan(multiplier=2), NETWORK, DATA, seed=7)
    fleet.members["bob"] = other.members["bob"]
    outcome = run(plan(), NETWORK, fleet, entropy=DeterministicEntropy(7))
    assert kinds(outcome) == [(0, "declined"), (1, "declined"), (2, "declined")]
    assert "other settings" in outcome.reports[0].dropped[0].reason


def test_reports_say_what_was_spent():
    outcome = trained(plan(rounds=4))
    assert [report.spent.count for report in outcome.reports] == [1, 2, 3, 4]
    assert outcome.loss == plan(rounds=4).loss
    assert outcome.reports[0].clip == 1.0
    assert isinstance(outcome.reports[0].noisy_loss, float)
    assert Fraction(outcome.loss.loss.multiplier) == 1
