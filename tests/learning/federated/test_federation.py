"""What a federation costs whom, against other accountants and by brute force."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.learning.federated import Federation, GaussianShare, Identity, Local, Secure
from discreet.learning.federated.noise_shares import shared_loss, slack
from discreet.learning.sgd.clipping import UNITS
from discreet.learning.sgd.recipe import Adaptive, Sgd
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import delta_for, guarantee
from discreet.privacy.loss import Approximate, Concentrated, Repeated, SampledGaussian, Together

SECURE = Secure(threshold="2/3", colluding="0.1")


def plan(**changes):
    settings_ = dict(
        clients=100, rounds=50, level="client", rate="0.1", multiplier=2, clip=1, optimizer=Sgd(1), secure=None
    )
    return Federation(**(settings_ | changes))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("rate", "multiplier", "rounds", "delta"),
    [("0.1", 2, 50, 1e-5), ("0.01", 1, 1000, 1e-6), ("0.5", 4, 30, 1e-5), (1, 5, 20, 1e-7), ("0.02", "0.7", 200, 1e-5)],
)
def test_partial_participation_against_dp_accounting(rate, multiplier, rounds, delta):
    """Between the other accountant's certain lower and upper ends (PLD), and never above its Rényi bound."""
    import dp_accounting as dpa

    event = dpa.PoissonSampledDpEvent(float(Fraction(rate)), dpa.GaussianDpEvent(float(Fraction(multiplier))))
    ours = guarantee(plan(rate=rate, multiplier=multiplier, rounds=rounds).loss, delta=delta).epsilon

    def theirs(pessimistic):
        one = dpa.pld.privacy_loss_distribution.from_gaussian_mechanism(
            float(Fraction(multiplier)),
            sampling_prob=float(Fraction(rate)),
            pessimistic_estimate=pessimistic,
            value_discretization_interval=1e-4,
        )
        return one.self_compose(rounds).get_epsilon_for_delta(delta)

    renyi = dpa.rdp.RdpAccountant().compose(event, rounds).get_epsilon(delta)
    assert theirs(False) <= ours <= theirs(True) * 1.0005
    assert ours <= renyi
    secure = guarantee(plan(rate=rate, multiplier=multiplier, rounds=rounds, secure=SECURE).loss, delta=delta).epsilon
    assert ours * (1 - 1e-6) <= secure <= ours * 1.005


def test_the_loss_is_of_a_sampled_gaussian_repeated():
    assert plan().loss == Repeated(SampledGaussian("0.1", 2), 50)
    assert plan(local=Local("0.1", epochs=3)).loss == plan().loss
    assert plan(level="example", examples=10_000).loss == plan().loss
    assert plan().after(7).loss == Repeated(SampledGaussian("0.1", 2), 7)


def test_nothing_protects_from_a_coordinator_that_is_trusted():
    with pytest.raises(NoGuarantee, match="use secure="):
        _ = plan().loss_to_coordinator
    with pytest.raises(NoGuarantee, match="use secure="):
        Federation.for_budget(
            epsilon=1,
            delta="1e-5",
            against="coordinator",
            clients=10,
            rounds=5,
            level="client",
            rate=1,
            clip=1,
            optimizer=Sgd(1),
            secure=None,
        )


@pytest.mark.parametrize("secure", [None, SECURE])
def test_without_noise_there_is_no_guarantee(secure):
    bare = plan(multiplier=0, secure=secure)
    with pytest.raises(NoGuarantee, match="without noise"):
        _ = bare.loss
    with pytest.raises(NoGuarantee, match="without noise"):
        _ = bare.loss_to_coordinator


def test_the_coordinator_knows_the_shares_of_those_who_work_with_it():
    secure = plan(secure=SECURE)
    assert (secure.threshold, secure.honest) == (67, 57)
    run, extra = secure.loss_to_coordinator.losses
    assert extra == Approximate(0, extra.delta)
    assert extra.delta <= Fraction(1, 10**9)
    counted = run.loss.multiplier
    assert counted**2 <= 4 * Fraction(57, 67) * (1 + Fraction(1, 10**9))
    assert counted**2 >= 4 * Fraction(57, 67) * (1 - Fraction(1, 10**9))
    models, coordinator = (guarantee(loss, delta="1e-5").epsilon for loss in (secure.loss, secure.loss_to_coordinator))
    alone = guarantee(plan(secure=Secure(threshold="2/3", colluding=0)).loss_to_coordinator, delta="1e-5").epsilon
    assert models < coordinator
    assert alone == pytest.approx(models)


def rounded(s, reach):
    from scipy.special import ndtr

    k = np.arange(-reach, reach + 1)
    return ndtr((k + 0.5) / s) - ndtr((k - 0.5) / s)


def discrete(s, reach):
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * s * s))
    return weights / weights.sum()


@pytest.mark.parametrize(("sigma", "count"), [(2, 1), (2, 4), (5, 3), (8, 9)])
def test_shares_are_as_close_to_a_rounded_gaussian_as_the_proof_says(sigma, count):
    """The total variation distance, by convolution; it is within the bound, and not far below it."""
    s, reach = sigma * math.sqrt(count), 60 * sigma
    share = discrete(sigma, reach)
    total = np.array([1.0])
    for _ in range(count):
        total = np.convolve(total, share)
    ideal = rounded(s, (len(total) - 1) // 2)
    distance = np.maximum(total - ideal, 0).sum()
    assert 1 / (120 * s * s) < distance <= 1 / (23 * s * s)


@pytest.mark.parametrize(("sigma", "count", "shift", "rate"), [(3, 4, 5, 0.3), (4, 2, 6, 1.0), (2, 9, 3, 0.05)])
def test_sampled_shares_cost_no_more_than_sampled_gaussian_noise_and_the_distance(sigma, count, shift, rate):
    """d'(ε) ≤ d(ε) + (1 + e^ε)β, both ways round: the step from one round to its loss, by brute force."""
    reach = 60 * sigma
    share = discrete(sigma, reach)
    noise = np.array([1.0])
    for _ in range(count):
        noise = np.convolve(noise, share)
    without = np.concatenate([noise, np.zeros(shift)])
    moved = np.concatenate([np.zeros(shift), noise])
    with_ = (1 - rate) * without + rate * moved
    s = sigma * math.sqrt(count)
    ideal = SampledGaussian(Fraction(rate).limit_denominator(1000), Fraction(s / shift).limit_denominator(10**9))
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        actual = max(
            np.maximum(with_ - math.exp(epsilon) * without, 0).sum(),
            np.maximum(without - math.exp(epsilon) * with_, 0).sum(),
        )
        allowed = float(delta_for(ideal, epsilon=epsilon).delta) + (1 + math.exp(epsilon)) / (23 * s * s)
        assert actual <= allowed + 1e-9


@given(
    st.fractions(Fraction(1, 1000), 1, max_denominator=1000),
    st.fractions(Fraction(1, 2), 10, max_denominator=100),
    st.integers(1, 300),
)
@settings(max_examples=15, deadline=None)
def test_slack_is_what_the_proof_asks_for(rate, multiplier, rounds):
    sensitivity = UNITS << 10
    extra = slack(rate, multiplier, sensitivity, rounds)
    if extra is None:
        return
    run = Repeated(SampledGaussian(rate, multiplier), rounds)
    beta = rounds * 2.0**27 / (23 * float(multiplier * sensitivity) ** 2)
    epsilon = guarantee(run, delta=extra / 2).epsilon
    left = 1 - float(delta_for(run, epsilon=0).delta)
    assert (1 + math.exp(epsilon)) * beta <= float(extra) * min(0.5, left) * (1 + 1e-9)


def test_where_sampling_cannot_be_counted_on_it_is_not():
    """A coarse grid: each sum has its own ρ."""
    share = GaussianShare(sigma=100, honest=10, sensitivity=100, dimension=1 << 27)
    loss = shared_loss(Fraction(1, 10), share, 100, 20)
    assert isinstance(loss, Repeated)
    assert isinstance(loss.loss, Concentrated)
    fine = shared_loss(Fraction(1, 10), share_of(100 << 30), 100 << 30, 20)
    assert isinstance(fine, Together)


def share_of(sensitivity):
    return GaussianShare(sigma=sensitivity, honest=10, sensitivity=sensitivity, dimension=1 << 27)


@pytest.mark.parametrize("against", ["models", "coordinator"])
@pytest.mark.parametrize("level", ["client", "example"])
def test_the_budget_is_kept_and_used(against, level):
    extra = {"examples": 5000} if level == "example" else {}
    found = Federation.for_budget(
        epsilon=2,
        delta="1e-5",
        against=against,
        clients=30,
        rounds=40,
        level=level,
        rate="0.1",
        clip=1,
        optimizer=Sgd(1),
        secure=SECURE,
        **extra,
    )
    loss = found.loss if against == "models" else found.loss_to_coordinator
    assert 1.999 <= guarantee(loss, delta="1e-5").epsilon <= 2


def test_the_budget_of_a_trusted_coordinator():
    found = Federation.for_budget(
        epsilon=2, delta="1e-5", against="models", clients=30, rounds=40, level="client", rate="0.1", clip=1,
        optimizer=Sgd(1), secure=None,
    )  # fmt: skip
    assert 1.999 <= guarantee(found.loss, delta="1e-5").epsilon <= 2


@given(st.integers(2, 1000), st.fractions(Fraction(1, 100), 1), st.fractions(0, Fraction(99, 100)))
@settings(max_examples=100, deadline=None)
def test_counts_are_what_the_protocol_asks_for(clients, threshold, colluding):
    found, few = Secure(threshold=threshold, colluding=colluding).counts(clients)
    assert few >= colluding * clients
    assert found >= threshold * clients
    assert 2 * found > clients + few


def test_terms_are_the_same_on_both_sides_and_other_in_every_round():
    keys = {name: Identity.new(entropy=DeterministicEntropy(k)).public for k, name in enumerate("abcde")}
    secure = plan(clients=5, secure=SECURE)
    one = secure.terms(keys, bytes(16), 0, 12)
    again = secure.terms(dict(reversed(keys.items())), bytes(16), 0, 12)
    assert one.digest == again.digest
    others = [secure.terms(keys, bytes(16), 1, 12), secure.terms(keys, b"x" * 16, 0, 12)]
    others.append(replace(secure, multiplier=Fraction(3)).terms(keys, bytes(16), 0, 12))
    others.append(replace(secure, rounds=51).terms(keys, bytes(16), 0, 12))
    assert len({terms.digest for terms in (one, *others)}) == 5
    assert one.noise.honest == secure.honest == one.threshold - one.colluding
    assert one.noise.sigma**2 * one.threshold >= (2 * UNITS * secure.grain) ** 2


def test_sums_of_a_thousand_secure_clients_fit():
    keys = {f"c{k}": Identity.new().public for k in range(1000)}
    for level, extra in (("client", {}), ("example", {"examples": 10**6})):
        for multiplier in ("0.01", 1, 1000):
            secure = plan(clients=1000, level=level, multiplier=multiplier, secure=SECURE, **extra)
            assert secure.terms(keys, bytes(16), 0, 1 << 27).bits <= 64


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"clients": 0}, "clients"),
        ({"clients": True}, "clients"),
        ({"rounds": 0}, "rounds"),
        ({"rate": 0}, "rate"),
        ({"rate": "1.1"}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"multiplier": -1}, "multiplier"),
        ({"multiplier": "1e-9"}, "multiplier"),
        ({"multiplier": 2**15, "secure": SECURE}, "multiplier"),
        ({"clip": 0}, "clip"),
        ({"clip": float("inf")}, "clip"),
        ({"level": "row"}, "level"),
        ({"level": "example"}, "examples"),
        ({"examples": 100}, "examples"),
        ({"level": "example", "examples": 100, "local": Local(1)}, "local"),
        ({"clients": 1, "secure": SECURE}, "clients"),
        ({"clients": 1001, "secure": SECURE}, "clients"),
        ({"secure": Secure(threshold=1, colluding="0.999")}, "secure"),
        ({"curve": "1/2"}, "curve"),
        ({"worst_loss": 0}, "worst_loss"),
        ({"worst_loss": Fraction(1, 10**400)}, "worst_loss"),
        ({"worst_loss": 10**400}, "worst_loss"),
        ({"level": "example", "examples": 10**400}, "examples"),
        ({"rounds": 1 << 31}, "rounds"),
        ({"secure": True}, "secure"),
        ({"local": 3}, "local"),
        ({"adaptive": "yes"}, "adaptive"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_settings_that_make_no_sense(wrong, said):
    with pytest.raises(InvalidParameter, match=f"^{said}: got"):
        plan(**wrong)


@pytest.mark.parametrize("make", [lambda: Local(0), lambda: Local(10**400), lambda: Local(Fraction(1, 10**400)), lambda: Local(1, epochs=0), lambda: Local(1, batch=0),
                                  lambda: Secure(threshold=0, colluding=0), lambda: Secure(threshold=1, colluding=1),
                                  lambda: Secure(threshold=2, colluding=0)])  # fmt: skip
def test_parts_that_make_no_sense(make):
    with pytest.raises(InvalidParameter):
        make()


def test_a_budget_for_more_rounds_than_there_can_be_is_refused_at_once():
    with pytest.raises(InvalidParameter, match="^rounds: got"):
        Federation.for_budget(
            epsilon=2, delta="1e-5", against="models", clients=30, rounds=10**15, level="client", rate="0.1", clip=1,
            optimizer=Sgd(1), secure=None,
        )  # fmt: skip


def test_whom_to_protect_from_has_two_answers():
    with pytest.raises(InvalidParameter, match="against"):
        Federation.for_budget(
            epsilon=2, delta="1e-5", against="nobody", clients=30, rounds=40, level="client", rate=1, clip=1,
            optimizer=Sgd(1), secure=None,
        )  # fmt: skip


def test_settings_in_words_and_digests():
    words = plan(secure=SECURE, local=Local("0.1")).words()
    assert words.startswith("50 rounds of FedAvg among 100 clients")
    assert words.endswith("the coordinator sees sums over at least 67, 10 of whom may work with it")
    different = [
        plan(),
        plan(clip=2),
        plan(rate="0.2"),
        plan(adaptive=Adaptive()),
        plan(optimizer=Sgd(2)),
        plan(seed=2),
    ]
    assert len({each.digest for each in different}) == len(different)
    assert plan().digest == plan().digest
