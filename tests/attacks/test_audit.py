"""The audit: its bound holds as often as it says, comes near the truth, and bad input is refused."""

import json
from fractions import Fraction
from itertools import product
from math import exp, inf, log

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import discreet
from discreet.attacks.audit import Audit, ChannelAudit, audit_curator, audit_mechanism, neighbors, worst_pair
from discreet.attacks.audit.audit import _test as judged
from discreet.attacks.audit.finding import Counts, epsilon_at_least
from discreet.attacks.audit.outputs import Reader
from discreet.attacks.audit.scores import Event, Score
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import InvalidChannel, InvalidData, InvalidParameter
from discreet.intervals import lower_limit, upper_limit
from discreet.mechanisms import AboveThreshold, Geometric, PlanarLaplace, RandomizedResponse
from discreet.privacy.loss import Concentrated, Pure

F = Fraction
SURE = 1 - Fraction(1, 10**7)  # for draws from the system's entropy: no false alarm


def coin(bit, n, rng, *, lie=0.25):
    return bit ^ (rng.random(n) < lie)


def geometric(epsilon):
    stop = -np.expm1(-epsilon)
    return lambda value, n, rng: value + rng.geometric(stop, n) - rng.geometric(stop, n)


def auditing(**changed):
    return Audit(**{"mechanism": coin, "x": False, "neighbor": True, "samples": 4000, **changed})


# --- the theorem --------------------------------------------------------------------------------------------------


def true_epsilon(p, q, delta):
    """ε at δ between two coins: the largest over both directions and all events."""
    pairs = [(p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)]
    return max([0.0, *(log((a - delta) / b) if b > 0 else inf for a, b in pairs if a > delta)])


@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("failure_probability", [F(1, 4), F(1, 20)])
def test_the_bound_is_wrong_no_more_often_than_it_may_be(delta, failure_probability):
    """Every outcome of 12 draws on each side, weighted by its exact probability; two limits, so twice as often as one."""
    n = 12
    bounds = {}
    for k, m in product(range(n + 1), repeat=2):
        counts = Counts(hits=k, trials=n, other_hits=m, other_trials=n)
        both = [
            epsilon_at_least(one, delta=F(delta), failure_probability=failure_probability)
            for one in (counts, counts.complement)
        ]
        bounds[k, m] = max(both)
    worst = 0.0
    for p, q in product([0.0, 0.05, 0.3, 0.5, 0.8, 1.0], repeat=2):
        truth, chance = (
            true_epsilon(p, q, delta),
            np.outer(binom.pmf(range(n + 1), n, p), binom.pmf(range(n + 1), n, q)),
        )
        wrong = sum(chance[at] for at, bound in bounds.items() if bound > truth + 1e-9)
        assert wrong <= 2 * failure_probability
        worst = max(worst, wrong)
    assert worst > failure_probability / 20  # the check is not vacuous: some pair comes near


def test_the_complement_says_the_same_with_the_sides_exchanged():
    counts = Counts(hits=90, trials=100, other_hits=20, other_trials=80)
    low, high = counts.limits(F(1, 100))
    assert counts.complement.limits(F(1, 100)) == pytest.approx((1 - high, 1 - low))
    assert counts.complement.complement == counts


def test_whole_audits_are_wrong_no_more_often_than_they_may_be():
    """300 small audits at 80 % of a coin of ε = ln 3: P(more than 100 wrong) < 1e-6 if each is wrong with 1/5."""
    audits, truth = 300, log(3)
    wrong = sum(auditing(samples=400, confidence=0.8, seed=seed).find().epsilon > truth for seed in range(audits))
    assert binom.sf(100, audits, 0.2) < 1e-6
    assert wrong <= 100


def test_the_doubt_is_shared_among_all_limits():
    """Two limits for each event that is counted, and fresh draws for all of them."""
    found = auditing(confidence=0.9, samples=40_000, mechanism=geometric(1.0), x=0, neighbor=1).find()
    assert len(found.tested) == 2
    for one in found.tested:
        confidence = 1 - F(1, 10) / 4
        low = lower_limit(one.counts.hits, one.counts.trials, confidence=confidence)
        high = upper_limit(one.counts.other_hits, one.counts.other_trials, confidence=confidence)
        assert (one.low, one.high) == pytest.approx((float(low), float(high)), rel=1e-4)
        assert one.low <= low + 1e-15
        assert one.high >= high - 1e-15
        assert one.counts.trials == one.counts.other_trials == 20_000
        assert one.epsilon == pytest.approx(log(one.low / one.high))


def test_the_complement_is_used_where_it_says_more():
    """An event of probability 0.99 against ½ says ln 2; that it fails to happen says ln 50."""
    reader = Reader.learn([[0.0]])
    x, other = reader.read(np.repeat([1.0, 0.0], [9900, 100])), reader.read(np.repeat([1.0, 0.0], [5000, 5000]))
    score = Score(
        "the output", lambda some: some.numbers[:, 0], lambda t, above: f"the output {'≥' if above else '≤'} {t}"
    )
    for above in (True, False):
        sides = (x, other) if above else (reader.read(1 - x.numbers), reader.read(1 - other.numbers))[::-1]
        found = judged(Event(score, 1.0 if above else 0.0, above, 0.0), *sides, F(0), F(1, 1000))
        assert 3.4 < found.epsilon < log(50)
        assert found.outside
        assert found.favors_x is not above
        assert found.words == ("the output < 1.0" if above else "the output > 0.0")
        assert sorted(found.shares) == [0.01, 0.5]


def test_nothing_is_found_where_there_is_nothing():
    wrong = sum(auditing(neighbor=False, samples=400, confidence=0.8, seed=s).find().epsilon > 0 for s in range(300))
    assert wrong <= 100


# --- it comes near the truth ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_bound_comes_near(epsilon):
    found = Audit(mechanism=geometric(epsilon), x=0, neighbor=1, samples=100_000, seed=7).find()
    assert 0.85 * epsilon - 0.02 <= found.epsilon <= epsilon
    assert found.estimate == pytest.approx(epsilon, rel=0.25)


def test_at_a_delta():
    """The Gaussian has ε(δ) of Balle and Wang 2018; rounding to a fine grid takes nothing from the auditor."""
    from discreet.privacy.accounting import guarantee
    from discreet.privacy.loss import GaussianNoise

    truth = guarantee(GaussianNoise(1), delta="0.01").epsilon
    found = Audit(
        mechanism=lambda value, n, rng: np.rint(64 * rng.normal(value, 1, n)) / 64,
        x=0, neighbor=1, delta="0.01", samples=200_000,
    ).find()  # fmt: skip
    assert 0.75 * truth <= found.epsilon <= truth


def test_what_never_happens_on_one_side_gives_a_bound_that_grows_with_the_draws():
    bounds = [
        auditing(mechanism=lambda bit, n, rng: np.full(n, bit), samples=n).find().epsilon for n in (400, 4000, 40_000)
    ]
    assert bounds[0] + 2 < bounds[1] < bounds[2] - 2


def test_an_event_of_the_auditor_finds_what_nothing_else_does():
    """The secret is the parity of all bits of a random number."""

    def hidden(bit, n, rng):
        numbers = rng.integers(0, 2**40, n)
        return np.where(np.bitwise_count(numbers) % 2 == bit, numbers, numbers ^ 1)

    plain = Audit(mechanism=hidden, x=0, neighbor=1, samples=4000).find()
    helped = Audit(mechanism=hidden, x=0, neighbor=1, samples=4000, events=(lambda n: n.bit_count() % 2,)).find()
    assert plain.epsilon < 0.2
    assert helped.epsilon > 4
    assert "event 1 of the auditor" in helped.event


# --- ways to draw ---------------------------------------------------------------------------------------------------------


def test_one_at_a_time_many_at_once_and_with_a_generator():
    rng = np.random.default_rng(1)
    ways = [
        lambda bit: bool(coin(bit, 1, rng)[0]),
        lambda bit, n: coin(bit, n, rng),
        lambda bit, n: [bool(b) for b in coin(bit, n, rng)],
        coin,
    ]
    for way in ways:
        assert 0.8 < auditing(mechanism=way).find().epsilon < log(3)


def test_streams_are_outputs():
    found = audit_mechanism(
        AboveThreshold(epsilon=20, sensitivity=1, threshold=1, positives=1), x=[0, 2], neighbor=[1, 1],
        claimed=1, samples=1000,
    ).find()  # fmt: skip
    assert found.broken


def test_a_failure_is_an_output():
    def fails(values):
        return 1 / len(values)

    found = Audit(mechanism=fails, x=[1], neighbor=[], claimed=1, samples=400).find()
    assert found.broken
    with pytest.raises(InvalidParameter, match=r"ZeroDivisionError.*every single draw"):
        Audit(mechanism=fails, x=[], neighbor=[], samples=400).find()


def test_the_same_seed_gives_the_same_finding():
    one, other = (auditing(mechanism=geometric(1.0), x=0, neighbor=1, seed=3).find() for _ in range(2))
    assert (one.epsilon, one.event, one.tested[0].counts) == (other.epsilon, other.event, other.tested[0].counts)
    assert auditing(mechanism=geometric(1.0), x=0, neighbor=1, seed=4).find().tested[0].counts != one.tested[0].counts


def test_progress_and_time():
    seen = []
    found = auditing(progress=lambda done, total: seen.append((done, total))).find()
    assert seen[-1] == (8000, 8000)
    assert seen == sorted(seen)
    assert found.draws == 8000
    calls = []
    hurried = auditing(mechanism=lambda bit: calls.append(bit) or bit, samples=10**9, seconds=0.05).find()
    assert hurried.draws == len(calls) < 10**8  # a small part of what was asked for
    assert hurried.epsilon > 0


# --- claims and reports ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claimed", "delta", "expected"),
    [
        (None, None, (None, 0)), (None, "0.1", (None, F(1, 10))), (1, None, (1, 0)), ("0.5", "0.1", (F(1, 2), F(1, 10))),
        ((1, "1e-6"), None, (1, F(1, 10**6))), (Pure(2), None, (2, 0)),
    ],
)  # fmt: skip
def test_ways_to_claim(claimed, delta, expected):
    found = auditing(claimed=claimed, delta=delta, samples=400).find()
    assert (found.claimed, found.delta) == expected


def test_a_loss_is_claimed_at_a_delta():
    assert 0.9 < auditing(claimed=Concentrated("1/8"), delta="0.01", samples=400).find().claimed < 2


@pytest.mark.parametrize(("claimed", "broken"), [("1.1", False), ("0.8", True), (None, False)])
def test_the_report_falls_exactly_where_the_claim_is_broken(claimed, broken):
    audit = auditing(claimed=claimed, samples=40_000, name="a coin")
    report, found = audit.run(), audit.find()
    assert found.broken is broken
    if claimed is not None:
        assert (report.verdict == "falls") is broken
        assert report.baseline.value == pytest.approx(exp(float(claimed)) / (1 + exp(float(claimed))))
        assert report.facts["claim"] == ("broken" if broken else "not refuted")
    assert report.facts["ε is at least"] == pytest.approx(found.epsilon, abs=1e-6)
    assert report.success.low <= 0.75 <= report.success.high
    assert json.loads(report.json())["facts"]["draws"] == 80_000
    assert "a coin" in report.text()
    assert report.page().html().count("<svg") == 1 + len(report.charts)


@pytest.mark.parametrize(("claimed", "lie"), [(3, 0.0), (4, 0.0), (6, 0.0), (4, 0.01)])
def test_a_large_claim_that_is_broken_falls_too(claimed, lie):
    """Only 1.8 points are left to gain above what ε 4 allows: within any tolerance, and yet all there is."""
    report = auditing(mechanism=lambda bit, n, rng: bit ^ (rng.random(n) < lie), claimed=claimed, samples=20_000).run()
    assert (report.facts["claim"], report.verdict) == ("broken", "falls")
    assert report.success.value - report.baseline.value < 0.05


@pytest.mark.parametrize("samples", [1000, 20_000])
def test_an_audit_says_how_much_it_could_have_proved(samples):
    """A mechanism that hides nothing reaches just that bound, so no claim above it is ever refuted."""
    naked = auditing(mechanism=lambda bit, n, rng: np.full(n, bit), claimed=30, samples=samples).find()
    assert naked.epsilon == pytest.approx(naked.provable)
    assert (naked.broken, naked.verdict_on_claim) == (False, "not testable")
    report = naked.report()
    assert report.verdict == "undecided"
    assert report.facts["ε that could have been proved, at most"] == pytest.approx(naked.provable, abs=1e-6)
    assert "could not have refuted 30" in report.text()
    lower = auditing(mechanism=lambda bit, n, rng: np.full(n, bit), claimed=naked.provable - 0.01, samples=samples)
    assert lower.find().verdict_on_claim == "broken"


def test_100_000_draws_prove_at_most_8_7():
    found = auditing(samples=100_000, confidence=0.999, claimed=12).find()
    assert found.provable == pytest.approx(8.7, abs=0.15)
    assert found.verdict_on_claim == "not testable"


def released(people, n, rng):
    """The groups that hold somebody, more or less: who is alone in a group gives it away."""
    noise = rng.geometric(0.5, (n, len(people))) - rng.geometric(0.5, (n, len(people)))
    return [{key: c for key, c in zip(people, row + list(people.values()), strict=True) if c > 2} for row in noise]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("mechanism", "x", "neighbor", "words"),
    [
        (geometric(1.0), 102, 103, ("answers of at least 103", "answers above 102")),
        (geometric(1.0), 103, 102, ("answers of at least 103", "answers above 102")),
        (lambda v, n, rng: v + rng.laplace(0, 1, n), 102.0, 103.0, ("answers of at least 10", "answers of at most 10")),
        (lambda v, n, rng: [v if b else "none" for b in rng.random(n) < 0.7], "Ann", "Bo", ("the output is 'Ann'", "the output is 'Bo'")),
        (released, {"flu": 9, "rare": 2}, {"flu": 9}, ("group 'rare' appears",)),
        (lambda v, n, rng: [set(one) for one in released(v, n, rng)], {"flu": 9}, {"flu": 9, "rare": 2}, ("group 'rare' appears",)),
    ],
)  # fmt: skip
def test_what_gives_a_mechanism_away_is_said_in_words(mechanism, x, neighbor, words):
    found = auditing(mechanism=mechanism, x=x, neighbor=neighbor, claimed="0.4", samples=20_000, seed=3).find()
    assert found.broken
    assert found.event.startswith(words)
    report = found.report()
    assert report.remarks[0] == f"Seen: {found.seen}"
    assert "the claim allows 1.49 times" in found.seen
    drawn = " ".join(chart.svg() for chart in report.charts)
    assert all(word in drawn for word in found.event.replace("'", " ").split()[:3])


def test_a_plain_event_that_refutes_the_claim_is_shown_before_a_stronger_riddle():
    """Too little noise, in floats: their last bits prove an ε of 6, a threshold one of 3.6, which anybody can read."""

    def sums(people, n, rng):
        return sum(people) + rng.laplace(0, 10, n)

    found = auditing(mechanism=sums, x=[1, 2, 3, 40], neighbor=[1, 2, 3], claimed=1, samples=20_000, seed=3).find()
    assert found.event.startswith(("answers of at", "answers above", "answers below"))
    assert found.broken
    assert found.epsilon > 5  # the bound is that of the stronger event
    fair = auditing(mechanism=sums, x=[1, 2, 3, 4], neighbor=[1, 2, 3], claimed=1, samples=20_000, seed=3).find()
    assert fair.broken  # here nothing plain refutes the claim, so the riddle is what is seen
    assert "lowest bit of the output" in fair.event


def noisy_unless_empty(people, n, rng):
    """Geometric noise, but none where nobody is left: every other pair keeps ε 1."""
    noise = rng.geometric(1 - exp(-1), (2, n))
    return len(people) + (noise[0] - noise[1] if people else np.zeros(n, int))


def test_the_worst_pair_is_found_where_the_given_one_holds():
    given = auditing(mechanism=noisy_unless_empty, x=[7], neighbor=[7, 7], claimed=1, samples=8000)
    assert not given.find().broken
    worst = worst_pair(given, [([7], other) for other in neighbors([7])], pilot=1000)
    assert (worst.neighbor, worst.samples, worst.seed) == ([], given.samples, given.seed)
    assert worst.find().broken


def test_a_search_among_honest_pairs_accuses_no_more_often_than_one_audit():
    """The worst of ten pilots is luck; the audit itself has draws of its own. 60 searches at 90 % confidence."""
    accused = 0
    for seed in range(60):
        honest = auditing(mechanism=coin, claimed=np.log(3), samples=2000, seed=seed, confidence=0.9)
        accused += worst_pair(honest, [(False, True)] * 10, pilot=200).find().broken
    assert accused <= binom.isf(1e-6, 60, 0.1)


def test_neighbors_differ_by_one_person():
    for data in ([], [4], list(range(200)), (1.5, 2.5), ["a", "b"]):
        for other in neighbors(data):
            assert type(other) is type(data)
            assert abs(len(other) - len(data)) == 1
        assert len(neighbors(data)) <= 24
    assert neighbors({"a", "b"}) == [{"b"}, {"a"}]
    assert neighbors({"a": 1, "b": "x"}) == [{"b": "x"}, {"a": 1}, {"a": 2, "b": "x"}, {"a": 0, "b": "x"}]
    with pytest.raises(InvalidParameter, match="name its neighbor"):
        neighbors("text")
    with pytest.raises(InvalidParameter, match="pairs"):
        worst_pair(auditing(), [])


def test_charts_of_numbers_of_vectors_and_of_nothing():
    for mechanism, x, neighbor, charts in (
        (geometric(0.3), 0, 1, 3),
        (lambda v, n, rng: v + rng.normal(0, 1, (n, 3)), 0.0, 1.0, 3),
        (coin, True, False, 2),
        (lambda v, n, rng: ["yes" if b else "no" for b in coin(v, n, rng)], True, False, 2),
        (coin, True, True, 1),
        (lambda v, n, rng: np.full(n, v), 0.0, float("inf"), 2),
    ):
        report = Audit(mechanism=mechanism, x=x, neighbor=neighbor, claimed=1, samples=2000).run()
        assert len(report.charts) == charts
        assert all(chart.svg().startswith("<svg") for chart in report.charts)


def test_a_finding_without_events():
    found = auditing(neighbor=False, claimed=0, samples=400, confidence=0.999999).find()
    assert (found.epsilon, found.estimate, found.event, found.broken) == (0.0, 0.0, "none found", False)
    assert found.report().verdict == "undecided"


# --- exact ---------------------------------------------------------------------------------------------------------------


def test_channels_are_audited_exactly():
    coins = RandomizedResponse.for_epsilon(epsilon=1).channel()
    assert not ChannelAudit(channel=coins, claimed=1).broken
    assert ChannelAudit(channel=coins, claimed="0.999999999").broken
    assert ChannelAudit(channel=coins, claimed=1).run().verdict == "holds"
    assert ChannelAudit(channel=coins, claimed="0.9").run().verdict == "falls"
    assert ChannelAudit(channel=[[0.75, 0.25], [0.25, 0.75]], claimed=log(3)).broken is False


def test_channels_at_a_delta_and_of_some_neighbors():
    rows = [["3/4", "1/4", 0], ["1/4", "1/2", "1/4"], [0, "1/4", "3/4"]]
    assert ChannelAudit(channel=rows).epsilon == inf
    assert ChannelAudit(channel=rows).run().facts["ε"] == "∞"
    near = ChannelAudit(channel=rows, neighbors="line", claimed=("1.0986122886681098", "1/4"))
    assert not near.broken
    assert near.delta_at_claim == pytest.approx(0.25)
    assert ChannelAudit(channel=rows, neighbors="line", claimed=("1.0986122886681098", "0.249")).broken
    assert ChannelAudit(channel=rows, neighbors=[(0, 1)], claimed=1, delta="1/4").epsilon == pytest.approx(
        log(2), abs=1
    )


def test_channels_that_are_none():
    with pytest.raises(InvalidChannel):
        ChannelAudit(channel=[[1, 1], [0, 1]])
    with pytest.raises(InvalidParameter, match="two inputs"):
        ChannelAudit(channel=[[1]])


# --- mechanisms and curators -----------------------------------------------------------------------------------------------


def test_a_mechanism_is_held_to_its_own_loss():
    asked = {"samples": 4000, "confidence": SURE}
    found = audit_mechanism(Geometric(epsilon=1, sensitivity=1), x=0, neighbor=1, **asked).find()
    assert found.claimed == 1
    assert not found.broken
    assert found.epsilon > 0.3
    wrong = audit_mechanism(Geometric(epsilon=1, sensitivity=1), x=0, neighbor=3, **asked).find()
    assert wrong.broken  # they are no neighbors: three people apart
    with pytest.raises(InvalidParameter, match="release"):
        audit_mechanism(lambda data: data, x=0, neighbor=1)
    with pytest.raises(discreet.errors.DiscreetError):  # no ε without a distance
        audit_mechanism(PlanarLaplace(epsilon=1, unit="m", granularity=1), x=[0, 0], neighbor=[1, 0])


class Toy:
    """A curator of the simplest kind, which counts how it is used."""

    opened, closed = 0, 0

    def __init__(self, people, rng):
        self.people, self.rng, self.answers = people, rng, {}
        Toy.opened += 1

    def ask(self, question, *, epsilon):
        if question == "refuse":
            raise discreet.errors.BudgetExceeded("no")
        fresh = geometric(epsilon)(self.people, 1, self.rng)[0]
        return self.answers.setdefault(question, int(fresh))

    def close(self):
        Toy.closed += 1


def test_curators_are_opened_for_each_draw_and_closed():
    rng, before = np.random.default_rng(1), Toy.opened
    asked = {"question": "how many?", "asking": {"epsilon": 1}, "read": lambda answer: answer, "samples": 1000}
    found = audit_curator(x=lambda: Toy(5, rng), neighbor=lambda: Toy(4, rng), claimed=1, **asked).find()
    assert not found.broken
    assert found.epsilon > 0.4
    assert Toy.opened - before == 2000
    assert Toy.closed == Toy.opened
    assert audit_curator(x=lambda: Toy(5, rng), neighbor=lambda: Toy(4, rng), claimed="1/3", **asked).find().broken


def test_curators_asked_again_and_again_in_other_words():
    rng, before = np.random.default_rng(1), Toy.opened
    found = audit_curator(
        x=lambda: Toy(5, rng), neighbor=lambda: Toy(3, rng), question="how many? {}".format, asking={"epsilon": 1},
        read=int, claimed=1, samples=4000,
    ).find()  # fmt: skip
    assert found.broken
    assert Toy.opened - before == 4


def test_what_a_curator_refuses_is_an_output():
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidParameter, match="BudgetExceeded"):
        audit_curator(
            x=lambda: Toy(5, rng), neighbor=lambda: Toy(4, rng), question="refuse", asking={"epsilon": 1}, claimed=1,
            read=int, samples=400,
        ).find()  # fmt: skip
    with pytest.raises(InvalidParameter, match="opens a curator"):
        audit_curator(x=Toy(5, rng), neighbor=lambda: Toy(4, rng), question="q", claimed=1, read=int)


POLICY = """
[dataset]
name = "d"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 100000
[tables.t]
source = "python"
unit = "row"
columns.x = {type = "integer", lower = 0, upper = 6}
"""


def test_the_real_curator():
    """COUNT at ε = 5, a person more or less: the answers of the whole system keep the claim, and break a smaller one."""

    def opener(people):
        rows = pa.table({"x": pa.array([1] * people, pa.int64())})
        return lambda: discreet.open(
            parse_policy(POLICY), tables={"t": rows}, ledger=Ledger(MemoryStore()), analyst="auditor"
        )

    found = audit_curator(
        x=opener(5), neighbor=opener(4), question=lambda i: f"SELECT COUNT(*) AS n FROM t WHERE x > {-1 - i}",
        asking={"epsilon": 5}, read=lambda answer: answer.table.column("n").to_pylist()[0], claimed=5, samples=200,
        confidence=SURE,
    ).find()  # fmt: skip
    assert not found.broken
    assert found.epsilon > 0.3


# --- bad input --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"samples": 10}, "samples"), ({"samples": 1e5}, "samples"), ({"samples": True}, "samples"),
        ({"confidence": 0}, "confidence"), ({"confidence": 1}, "confidence"), ({"confidence": 1 - 1e-12}, "confidence"),
        ({"confidence": float("nan")}, "confidence"), ({"seed": -1}, "seed"), ({"seed": "x"}, "seed"),
        ({"claimed": -1}, "claimed"), ({"claimed": float("inf")}, "claimed"), ({"claimed": (1, 2, 3)}, "claimed"),
        ({"claimed": (1, 1)}, "claimed δ"), ({"claimed": (1, 0), "delta": 0}, "claimed"), ({"delta": 1}, "delta"),
        ({"claimed": [1]}, "claimed"), ({"mechanism": 3}, "mechanism"), ({"mechanism": lambda: 1}, "mechanism"),
        ({"mechanism": lambda a, b, c, d: 1}, "mechanism"), ({"mechanism": lambda a, *, rng: 1}, "mechanism"),
        ({"mechanism": dict}, "mechanism"), ({"events": (3,)}, "events"), ({"seconds": 0}, "seconds"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused_before_anything_is_drawn(changed, name):
    with pytest.raises(InvalidParameter, match=f"^{name}"):
        auditing(**changed)


@pytest.mark.parametrize(
    "given", [lambda x, n: 3, lambda x, n: [1] * (n + 1), lambda x, n: [], lambda x, n: iter([1] * n)]
)
def test_wrong_numbers_of_outputs_are_refused(given):
    with pytest.raises(InvalidData, match="were asked for"):
        auditing(mechanism=given).find()


def test_texts_are_not_lists_of_outputs():
    with pytest.raises(InvalidData, match="one entry for each draw"):
        auditing(mechanism=lambda x, n: "y" * n).find()


def test_errors_of_many_at_once_are_the_callers():
    with pytest.raises(ZeroDivisionError):
        auditing(mechanism=lambda x, n: 1 / 0).find()


def test_low_order_bits_are_told_in_words():
    """Laplace noise of floats near a power of two: many bit patterns give it away, and a list of them says nothing."""
    noise = lambda data, n, rng: data + rng.laplace(0, 3, n)  # noqa: E731
    finding = Audit(mechanism=noise, x=3, neighbor=4, claimed="1/3", samples=20_000).find()
    assert finding.broken
    assert "the lowest bit of the output, by where it lies" in finding.event
    assert "2^-" not in finding.event
