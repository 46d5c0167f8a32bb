"""Claims about mechanisms, composition and the budget in the trusted-curator model."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

import discreet
from discreet.attacks.audit.targets import Guessing
from discreet.claims.claim import Evidence, Figure, Group, Run
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded, NoGuarantee
from discreet.exact import exp_down
from discreet.mechanisms import KRR, Exponential, Gaussian, Geometric, Laplace, RandomizedResponse
from discreet.mechanisms.bayesian import guess_bound, prior_independence, spread_priors
from discreet.mechanisms.channel import Channel, constant, deterministic, identity
from discreet.mechanisms.neighbor_graph import sensitivity
from discreet.mechanisms.optimal import geometric_channel
from discreet.privacy.accounting import delta_for, guarantee
from discreet.privacy.calibration import gaussian_multiplier
from discreet.privacy.loss import GaussianNoise, Parallel, Together
from discreet.privacy.unit import Neighbors
from discreet.report import Chart, Line

GROUP = Group()

_ADD, _CHANGE = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.CHANGE_ONE


def band(draws: int) -> float:
    """How far an empirical distribution of so many draws strays from the true one, at odds of a million to one.

    Dvoretzky, Kiefer, Wolfowitz with Massart's constant: 2·exp(−2nb²) = 10⁻⁶.
    """
    return math.sqrt(math.log(2e6) / (2 * draws))


@GROUP.claim("B1", "ε-DP bounds the chance of every set of outputs by e^ε between neighbors; (ε, δ)-DP adds δ.")
def definition(run: Run) -> Evidence:
    """Every set of the outputs of k-RR, and δ of a Gaussian at several ε."""
    rows = np.asarray(KRR(epsilon=1, size=6).channel().as_float().matrix)
    sets = [list(s) for size in range(7) for s in itertools.combinations(range(6), size)]

    def excess(epsilon: float) -> float:
        pairs = itertools.permutations(range(6), 2)
        return float(max(rows[x, s].sum() - math.exp(epsilon) * rows[y, s].sum() for x, y in pairs for s in sets))

    deltas = [float(delta_for(GaussianNoise(1), epsilon=e).delta) for e in (0, 1, 2, 4)]
    drawn = np.asarray(KRR(epsilon=1, size=6).release(np.zeros(100_000, int), entropy=run.entropy()))
    truthful = float((drawn == 0).mean())
    return Evidence(
        [
            Figure.at_most("worst Pr[S] − e^ε·Pr'[S] over all sets at the stated ε", 1e-12, excess(1)),
            Figure.at_least("the same at an ε one percent smaller", 1e-6, excess(0.99)),
            Figure.equal("share of true answers, e^ε/(5 + e^ε)", math.e / (5 + math.e), truthful, within=band(100_000)),
            Figure.at_least(
                "δ of Gaussian noise falls as ε grows, and is above 0", 1e-12, min(-np.diff(deltas).max(), deltas[-1])
            ),
        ]
    )


@GROUP.claim("B2", "There are two neighbor relations; a histogram has sensitivity 1 under one and 2 under the other.")
def neighbors(run: Run) -> Evidence:
    """By exhaustive search over all histograms of three people."""

    def histogram(people: tuple[str, ...]) -> list[int]:
        return [people.count(cell) for cell in "abc"]

    results = {r: sensitivity(histogram, domain="abc", size=3, neighbors=r).value for r in (_ADD, _CHANGE)}
    noise = {r: Geometric(epsilon="0.8", sensitivity=int(results[r])).scale for r in results}
    return Evidence(
        [
            Figure.equal("one person is added or removed", 1, results[_ADD]),
            Figure.equal("one person is changed", 2, results[_CHANGE]),
            Figure.equal("noise that the second needs, relative to the first", 2, noise[_CHANGE] / noise[_ADD]),
        ]
    )


@GROUP.claim("B3", "Whether a finite mechanism is private can be decided: four ways to report an average height.")
def heights(run: Run) -> Evidence:
    """Heights from 50 to 250 cm; the tightest ε of each matrix."""
    line = range(50, 251)
    growth = exp_down(Fraction(1))
    nearly = Channel([[growth if x == z else 1 for z in line] for x in line], line, line, normalize=True)
    tall = deterministic(lambda x: 100 if x < 150 else 200, line)
    return Evidence(
        [
            Figure.equal("the truth", math.inf, identity(line).epsilon("all")),
            Figure.equal("always 150", 0, constant(line, 150).epsilon("all")),
            Figure.equal("100 if below 150, else 200", math.inf, tall.epsilon("all")),
            Figure.equal("the truth with e/(200 + e), each other with 1/(200 + e)", 1, nearly.epsilon("all")),
        ]
    )


@GROUP.claim(
    "B4", "Sensitivities on [0, 1]ⁿ: average 1/n, deviation below 1/√n, and 1 for max, product, median, count, sum."
)
def sensitivities(run: Run) -> Evidence:
    """By exhaustive search over five people on a grid of quarters."""
    grid = [Fraction(k, 4) for k in range(5)]

    def most_change(query: Callable[[Any], Any]) -> float:
        return float(sensitivity(query, domain=grid, size=5, neighbors=_CHANGE, ordered=False).value)

    queries: dict[str, Callable[[Any], Any]] = {
        "max": max,
        "product": math.prod,
        "median": statistics.median,
        "sum": sum,
    }
    return Evidence(
        [
            Figure.equal("average of 5", 1 / 5, most_change(lambda x: sum(x) / len(x))),
            Figure.at_most(
                "standard deviation of 5, 1/√5",
                1 / math.sqrt(5),
                most_change(lambda x: statistics.pstdev(map(float, x))),
            ),
            *(Figure.equal(name, 1, most_change(query)) for name, query in queries.items()),
            Figure.equal("count", 1, most_change(lambda x: sum(v > Fraction(1, 2) for v in x))),
        ]
    )


@GROUP.claim(
    "B5", "Laplace noise of scale Δ/ε has variance 2(Δ/ε)²; the ratio is e^ε outside two true answers, less between."
)
def laplace(run: Run) -> Evidence:
    """ε = 1, Δ = 10, true answers 10 and 20."""
    mechanism, n = Laplace(epsilon=1, sensitivity=10, granularity="1/64"), 100_000
    steps = int(1 / mechanism.granularity)

    def ratio(z: float) -> float:
        at = int(z * steps)
        return math.log(mechanism.probability(at - 10 * steps) / mechanism.probability(at - 20 * steps))

    noise = np.asarray(Laplace(epsilon=1, sensitivity=10, dimension=n).release(np.zeros(n), entropy=run.entropy()))
    beyond = float((np.abs(noise) > 10).mean())
    z = np.linspace(-20, 50, 141)
    chart = Chart(
        "ln of the ratio between true answers 10 and 20",
        [Line(z, [ratio(x) for x in z], "ln P(z|10)/P(z|20)")], x="released value", y="",
    )  # fmt: skip
    return Evidence(
        [
            Figure.equal("ln ratio at 5", 1, ratio(5), within=1e-9),
            Figure.equal("ln ratio at 15", 0, ratio(15), within=1e-9),
            Figure.equal("ln ratio at 40", -1, ratio(40), within=1e-9),
            Figure.equal("variance", 200, mechanism.variance, within=0.01),
            Figure.equal("share of noise beyond one scale, 1/e", 1 / math.e, beyond, within=band(n) + 0.002),
        ],
        [chart],
    )


@GROUP.claim("B6", "The average of n bits: a curator errs by O(1/(εn)), randomized response by O(1/(ε√n)).")
def slopes(run: Run) -> Evidence:
    """Root mean square errors over a range of n, and their slopes."""
    sizes, stream = [100, 1000, 10_000, 100_000], run.entropy()
    response = RandomizedResponse.for_epsilon(epsilon="0.5")

    def central(n: int) -> float:
        counts = np.full(400, 3 * n // 10)
        noisy = Geometric(epsilon="0.5", sensitivity=1).release(counts, entropy=stream)
        return float(np.sqrt(np.mean((noisy - counts) ** 2)) / n)

    def local(n: int) -> float:
        bits = np.zeros(n, np.int64)
        bits[: 3 * n // 10] = 1
        shares = np.array([np.mean(response.release(bits, entropy=stream)) for _ in range(60)])
        return float(np.sqrt(np.mean(((shares - float(1 - response.truth)) / float(response.keep) - 0.3) ** 2)))

    errors = {"curator": [central(n) for n in sizes], "randomized response": [local(n) for n in sizes]}
    slope = {name: float(np.polyfit(np.log(sizes), np.log(error), 1)[0]) for name, error in errors.items()}
    chart = Chart(
        "Error of an average of n bits at ε 0.5",
        [Line(sizes, error, name) for name, error in errors.items()], x="n", y="root mean square error",
        log_x=True, log_y=True,
    )  # fmt: skip
    return Evidence(
        [
            Figure.equal("slope of the curator's error", -1, slope["curator"], within=0.15),
            Figure.equal("slope of randomized response's error", -0.5, slope["randomized response"], within=0.15),
            Figure.equal(
                "the curator's error times εn, √2", math.sqrt(2), 0.5 * sizes[1] * errors["curator"][1], within=0.4
            ),
        ],
        [chart],
    )


@GROUP.claim(
    "B7", "Geometric noise is ε-DP; Gaussian noise is not for any ε, but (ε, δ)-DP, and its exact σ is never worse."
)
def gaussian(run: Run) -> Evidence:
    """At ε = 1, δ = 10⁻⁶ the classical formula gives 5.2988, the exact condition 4.2247."""
    try:
        pure = str(guarantee(GaussianNoise(10), delta=0).epsilon)
    except NoGuarantee:
        pure = "none"
    classical, exact = (
        float(gaussian_multiplier(epsilon=1, delta="1e-6", method=m)) for m in ("classical", "analytic")
    )
    gaps = [
        float(gaussian_multiplier(epsilon=e, delta=d, method="classical"))
        - float(gaussian_multiplier(epsilon=e, delta=d, method="analytic"))
        for e in ("0.1", "0.5", "1")
        for d in ("1e-3", "1e-6", "1e-9")
    ]
    mechanism = Gaussian(sigma=3, sensitivity=1, granularity=1, dimension=100_000)
    drawn = np.asarray(mechanism.release(np.zeros(100_000, int), entropy=run.entropy()))
    inside = sum(mechanism.probability(k) for k in range(-3, 4))
    return Evidence(
        [
            Figure.equal("ε of a geometric count", 1, geometric_channel(8, 1).epsilon("line")),
            Figure.equal("ε of Gaussian noise at δ = 0", "none", pure),
            Figure.equal("σ by the classical formula", 5.29880, classical, within=1e-5),
            Figure.equal("σ by the exact condition", 4.22468, exact, within=1e-5),
            Figure.at_least("least gain of the exact σ over nine settings", 0, min(gaps)),
            Figure.equal(
                "share of draws within one σ", inside, float((np.abs(drawn) <= 3).mean()), within=band(100_000)
            ),
        ]
    )


@GROUP.claim("B8", "The exponential mechanism chooses ∝ exp(εu/(2Δ)), is ε-DP, and loses O((Δ/ε)·log candidates).")
def exponential(run: Run) -> Evidence:
    """Every election of three ballots among three candidates; and a thousand candidates."""
    mechanism = Exponential(epsilon="0.6", sensitivity=1)
    ballots = list(itertools.product("abc", repeat=3))
    law = {people: np.log(mechanism.probabilities([people.count(c) for c in "abc"])) for people in ballots}
    changed = (
        (people, (*people[:i], other, *people[i + 1 :])) for people in ballots for i in range(3) for other in "abc"
    )
    worst = max(float(np.abs(law[x] - law[y]).max()) for x, y in changed)
    scores = np.random.default_rng(run.seed).integers(0, 200, 1000)
    many = Exponential(epsilon=1, sensitivity=1)
    bound = 2 * (math.log(1000) + 3)
    lost = float(many.probabilities(scores)[scores < scores.max() - bound].sum())
    p = Exponential(epsilon=1, sensitivity=3).probabilities([0, 6])
    return Evidence(
        [
            Figure.equal("ratio of the chances of scores 6 and 0 at Δ = 3, e", math.e, float(p[1] / p[0]), within=1e-9),
            Figure.at_most("worst ln ratio over all elections at ε 0.6", 0.6 + 1e-9, worst),
            Figure.at_most("chance of losing more than (2/ε)(ln 1000 + 3), e⁻³", math.exp(-3), lost),
        ]
    )


@GROUP.claim("B9", "Any function of a release is free, and no test between neighbors beats 2e^ε/(1 + e^ε).")
def post_processing(run: Run) -> Evidence:
    """All 81 functions of a release with four outputs; and the guessing game, played."""
    release = geometric_channel(3, 1)
    worst = max(
        release.then(deterministic(images.__getitem__, range(4))).ratio("line")
        for images in itertools.product("abc", repeat=4)
    )
    response = RandomizedResponse.for_epsilon(epsilon=1).channel()
    played = Guessing(
        mechanism=response, first=False, second=True, epsilon=1, trials=40_000, seed=run.seed, confidence=1 - 1e-6
    ).run()
    low, high = played.facts["at least, at most"]
    return Evidence(
        [
            Figure.at_most("worst ratio after any function", release.ratio("line"), worst),
            Figure.covered("chances of two right guesses at ε 1", guess_bound(1), (low + high) / 2, low, high),
        ],
        played.charts,
    )


@GROUP.claim("B10", "ε's add over releases on the same data; disjoint parts cost the maximum.")
def composing(run: Run) -> Evidence:
    """The joint law of two releases by enumeration, beside what the accountant says."""
    halves = [RandomizedResponse.for_epsilon(epsilon=e) for e in ("1/2", 1)]
    channels = [mechanism.channel() for mechanism in halves]
    joint = max(
        abs(
            math.log(
                math.prod(float(c.probability(True, out)) for c, out in zip(channels, outs, strict=True))
                / math.prod(float(c.probability(False, out)) for c, out in zip(channels, outs, strict=True))
            )
        )
        for outs in itertools.product(*(channel.outputs for channel in channels))
    )
    losses = [mechanism.loss for mechanism in halves]
    return Evidence(
        [
            Figure.equal("worst ln ratio of both releases", 1.5, joint, within=1e-9),
            Figure.equal("the accountant's ε for both", 1.5, guarantee(Together(*losses), delta=0).epsilon),
            Figure.equal("the accountant's ε for disjoint parts", 1, guarantee(Parallel(*losses), delta=0).epsilon),
        ]
    )


_COMPANY = """
[dataset]
name = "company"
neighbors = "add or remove one"
share_answers = true
time_floor = 0
[budget]
epsilon = "{epsilon}"
everyone = "all"
[tables.people]
source = "python"
unit = "row"
columns.age = {{type = "integer", lower = 18, upper = 80, nullable = false}}
columns.gender = {{type = "text", values = ["F", "M"], nullable = false}}
columns.job = {{type = "text", values = ["VP", "clerk", "coder"], nullable = false}}
"""


@contextmanager
def company(epsilon: int, seed: int) -> Iterator[tuple["discreet.Dataset", Ledger, dict[str, np.ndarray]]]:
    """A dataset of 4,000 generated employees with a budget, its ledger, and its columns."""
    draw, n = np.random.default_rng(seed), 4000
    columns = {
        "age": draw.integers(18, 70, n),
        "gender": draw.choice(["F", "M"], n),
        "job": draw.choice(["VP", "clerk", "coder"], n, p=[0.2, 0.5, 0.3]),
    }
    ledger = Ledger(MemoryStore())
    policy = parse_policy(_COMPANY.format(epsilon=epsilon))
    with discreet.open(policy, tables={"people": pa.table(columns)}, ledger=ledger, analyst="ann") as data:
        yield data, ledger, columns


@GROUP.claim(
    "B11", "The budget belongs to the database: colluding analysts exhaust it together; then every question is refused."
)
def budget(run: Run) -> Evidence:
    """Two analysts in turn at ε 0.3 each, of a budget of 2."""
    answered = {"ann": 0, "bob": 0}
    with company(2, run.seed) as (data, ledger, _):
        for i, who in enumerate(("ann", "bob") * 6):
            try:
                data.ask(f"SELECT COUNT(*) FROM people WHERE age < {30 + i}", epsilon="0.3", analyst=who)  # noqa: S608
            except BudgetExceeded:
                continue
            answered[who] += 1
        again = data.ask("SELECT COUNT(*) FROM people WHERE age < 30", epsilon="0.3", analyst="cleo").receipt.free
        spent = ledger.spent("company").epsilon or Fraction(0)
    return Evidence(
        [
            Figure.equal("questions answered, of twelve", 6, sum(answered.values())),
            Figure.equal("ε spent", Fraction("1.8"), spent),
            Figure.equal("the same question again is free", True, again),
        ]
    )


@GROUP.claim("B12", "The guarantee holds for every prior of an adversary.")
def priors(run: Run) -> Evidence:
    """The odds between neighboring counts before and after any output, over 300 priors."""
    channel = geometric_channel(4, 1)
    check = prior_independence(channel, "line", epsilon=1, priors=spread_priors(5, count=300))
    leaky = Channel([["99/100", "1/100"], ["1/2", "1/2"]])
    broken = prior_independence(leaky, "all", epsilon=1, priors=spread_priors(2, count=300))
    return Evidence(
        [
            Figure.equal("priors whose odds change by more than e^ε", 0, 0 if check.holds else 1),
            Figure.equal(
                "largest change of odds is the mechanism's own ratio", True, check.largest == channel.ratio("line")
            ),
            Figure.at_most("largest change of log-odds at ε 1", 1 + 1e-12, math.log(check.largest)),
            Figure.equal("a mechanism that is not private is told apart", True, not broken.holds),
        ]
    )


@GROUP.claim(
    "B16", "Counts, histograms, averages, groups and conditional questions are answered, with intervals that cover."
)
def questions(run: Run) -> Evidence:
    """Asked in SQL of 4,000 employees, at a confidence of one in a billion."""
    sure = "0.999999999"
    share = (
        "SELECT 1.0 * COUNT(*) FILTER (WHERE age < 25 AND gender = 'F' AND job = 'VP') / COUNT(*) AS share FROM people"
    )
    with company(4, run.seed) as (data, _, columns):
        count = data.ask("SELECT COUNT(*) AS n FROM people WHERE job = 'VP'", epsilon=1, confidence=sure)
        mean = data.ask("SELECT AVG(age) AS m FROM people", epsilon=1, confidence=sure)
        ages = data.ask("SELECT age, COUNT(*) AS n FROM people GROUP BY age", epsilon=1)
        fraction = data.ask(share, epsilon=1, confidence=sure)
    age, gender, job = (columns[name] for name in ("age", "gender", "job"))
    truths = {
        "how many vice presidents": (count, "n", float((job == "VP").sum())),
        "mean age": (mean, "m", float(age.mean())),
        "share of young women among them all": (
            fraction,
            "share",
            float(((age < 25) & (gender == "F") & (job == "VP")).mean()),
        ),
    }
    figures = [
        Figure.covered(what, truth, answer.column(name)[0], *(float(end[0].as_py()) for end in answer.intervals[name]))
        for what, (answer, name, truth) in truths.items()
    ]
    return Evidence([*figures, Figure.equal("ages in the histogram, those that nobody has too", 63, len(ages))])
