"""Claims about the local model: nobody but the person sees the true answer."""

import json
import math
from fractions import Fraction
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.claims.central_model import band
from discreet.claims.claim import Evidence, Figure, Group, Run
from discreet.errors import BudgetExceeded
from discreet.exact import log_down
from discreet.local import KRR, BinaryResponse
from discreet.local.collection.device_account import DeviceAccount
from discreet.local.collection.survey import Survey
from discreet.local.collection.survey_page import page
from discreet.local.estimation.ibu import ibu
from discreet.local.estimation.inversion import clip, invert, project
from discreet.local.estimation.linear_maps import DenseModel, KRRModel
from discreet.local.places.areas import Area
from discreet.local.places.maps import earth_mover
from discreet.local.places.planar import PlanarReport
from discreet.mechanisms import PlanarLaplace, RandomizedResponse
from discreet.mechanisms.bayesian import oblivious
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.neighbor_graph import hamming
from discreet.mechanisms.optimal import geometric_channel
from discreet.report import Bars, Chart, Heat, Line

GROUP = Group()

_COINS = RandomizedResponse.from_coins(heads="1/2")


@GROUP.claim("C1", "Randomized response has four textbook forms, which are one mechanism.")
def four_forms(run: Run) -> Evidence:
    """Two coins, a kept share, a gain, an ε: three truths in four answers at ln 3."""
    forms = {
        "two coins": _COINS,
        "a share that is kept": RandomizedResponse.from_keep(keep="1/2"),
        "a gain": RandomizedResponse.from_gain(gain="1/2"),
        "an ε": RandomizedResponse.for_epsilon(epsilon=log_down(Fraction(3))),
    }
    drawn = _COINS.release(np.ones(100_000, bool), entropy=run.entropy())
    return Evidence(
        [
            *(
                Figure.equal(f"ε of {name}, ln 3", log(3), float(form.epsilon), within=1e-12)
                for name, form in forms.items()
            ),
            Figure.equal("share of true answers", 0.75, float(np.mean(drawn)), within=band(100_000)),
        ]
    )


@GROUP.claim("C2", "A linear correction makes answers unbiased; the mean errs by O(1/(ε√n)), and its interval covers.")
def unbiasing(run: Run) -> Evidence:
    """E[z] = x exactly, the stated deviation, and intervals over many surveys."""
    oracle, n = BinaryResponse(epsilon=1), 2000
    z = np.array([(y - 1 / (1 + math.e)) * (math.e + 1) / (math.e - 1) for y in (0, 1)])
    bias = max(abs(float(oracle.channel().matrix[x].astype(float) @ z) - x) for x in (0, 1))
    answers, stream, covered = np.arange(n) % 4 == 0, run.entropy(), 0
    for _ in range(200):
        result = oracle.estimate(oracle.tally(oracle.randomize(answers, entropy=stream)), reports=n)
        low, high = result.interval("0.95", simultaneous=False)
        covered += bool(low[1] <= 0.25 <= high[1])
    deviation = math.sqrt(oracle.variance(0.25) / n)
    return Evidence(
        [
            Figure.at_most("bias of the unbiased answer", 1e-12, bias),
            Figure.equal("ε·√n times the stated deviation", 1, math.sqrt(n) * deviation, within=0.1),
            Figure.at_least("surveys whose interval covers, of 200", 170, covered),
        ]
    )


@GROUP.claim(
    "C3", "k-RR reports the truth with probability e^ε/(k − 1 + e^ε) and is ε-private between any two answers."
)
def k_rr(run: Run) -> Evidence:
    """The tightest ε of the shipped channel, and draws from it."""
    oracle = KRR(epsilon=1, size=10)
    drawn = np.asarray(oracle.randomize(np.full(100_000, 3), entropy=run.entropy()))
    truth = math.e / (9 + math.e)
    return Evidence(
        [
            Figure.equal("tightest ε of the channel", 1, oracle.channel().epsilon("all"), within=1e-12),
            Figure.equal("chance of the truth", truth, float(oracle.truth), within=1e-12),
            Figure.equal("share of true answers drawn", truth, float((drawn == 3).mean()), within=band(100_000)),
        ]
    )


@GROUP.claim("C4", "d-privacy contains differential privacy (Hamming distance) and local privacy (discrete distance).")
def metric_privacy(run: Run) -> Evidence:
    """The tightest ε for a metric, beside that for neighbors."""
    bits = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    count = oblivious(sum, bits, geometric_channel(3, "0.7"))
    some = Channel([[5, 1, 2], [1, 4, 3], [2, 2, 6]], normalize=True)
    return Evidence(
        [
            Figure.equal("Hamming distance", count.epsilon(lambda a, b: hamming(a, b) == 1), count.d_privacy(hamming)),
            Figure.equal("discrete distance", some.epsilon("all"), some.d_privacy("discrete")),
        ]
    )


@GROUP.claim("C5", "Planar Laplace has density ε²/2π·e^(−εd), so places differ by a factor of at most e^(εd).")
def planar_laplace(run: Run) -> Evidence:
    """On a grid with exact sampling: the tightest ε per km, the density, the mean distance 2/ε."""
    mechanism = PlanarLaplace(epsilon="0.7", unit="km", granularity="1/4")
    channel = mechanism.channel(5, 5)

    def kilometers(a: str, b: str) -> float:
        (x, y), (u, v) = (map(int, label.split(",")) for label in (a, b))
        return math.hypot(x - u, y - v) / 4

    far = PlanarLaplace(epsilon=log(2), unit="km", granularity="1/20")
    noise = np.asarray(far.release(np.zeros((20_000, 2)), entropy=run.entropy()))
    density = (
        float(PlanarLaplace(epsilon="0.7", unit="km", granularity="1/8").channel(9, 9).probability("4,4", "4,6")) * 64
    )
    return Evidence(
        [
            Figure.equal("tightest ε per km", 0.7, channel.d_privacy(kilometers), within=1e-9),
            Figure.equal("density at 250 m", 0.49 / (2 * math.pi) * exp(-0.7 / 4), density, within=0.001),
            Figure.equal("mean distance, 2/ε km", 2 / log(2), float(np.hypot(*noise.T).mean()), within=0.1),
        ]
    )


@GROUP.claim(
    "C6", "The true distribution is found by inverting the channel; impossible estimates are repaired in two ways."
)
def inversion(run: Run) -> Evidence:
    """The two worked examples, in rationals."""
    channel = _COINS.channel()
    first, second = (invert(channel, counts) for counts in ([6, 4], [4, 1]))
    return Evidence(
        [
            Figure.equal("from 6/10, 4/10", "7/10, 3/10", ", ".join(map(str, first))),
            Figure.equal("from 4/5, 1/5", "11/10, -1/10", ", ".join(map(str, second))),
            Figure.equal("clipped and renormalized", "1, 0", ", ".join(map(str, clip(second)))),
            Figure.equal("projected on the simplex", "1, 0", ", ".join(map(str, project(second)))),
        ],
        [
            Chart(
                "Shares of yes",
                [
                    Bars(["6 of 10 said yes", "4 of 5 said yes"], [0.6, 0.8], label="of the answers"),
                    Bars(
                        ["6 of 10 said yes", "4 of 5 said yes"],
                        [float(first[0]), float(second[0])],
                        label="by inversion",
                    ),
                    Bars(
                        ["6 of 10 said yes", "4 of 5 said yes"],
                        [float(project(shares)[0]) for shares in (first, second)],
                        label="repaired",
                    ),
                ],
            )
        ],
    )


@GROUP.claim("C7", "Iterative Bayesian Update reaches the one maximum of the likelihood if the channel is invertible.")
def iterative_bayesian_update(run: Run) -> Evidence:
    """An asymmetric channel, from several starts."""
    model, counts = DenseModel([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.0, 0.3, 0.7]]), [50, 30, 40]
    rng = np.random.default_rng(run.seed)
    results = [
        ibu(model, counts, start=start, iterations=20_000, stop="gain", tolerance="1e-15")
        for start in (None, *rng.dirichlet(np.ones(3), 4))
    ]
    apart = max(float(np.abs(one.shares - results[0].shares).max()) for one in results)
    climb = min(float(np.diff(one.likelihoods).min()) for one in results)
    plain = ibu(model, counts, iterations=60, stop=None, accelerate=False)
    chart = Chart(
        "Log-likelihood by iteration", [Line(range(len(plain.likelihoods)), plain.likelihoods, "IBU")], x="iteration"
    )
    return Evidence(
        [
            Figure.at_least("least step in likelihood", 0, climb),
            Figure.at_most("distance between the ends of five starts", 1e-3, apart),
        ],
        [chart],
    )


@GROUP.claim(
    "C8", "For maps of places, planar noise and Bayesian update are closer to the truth than k-RR at equal protection."
)
def maps(run: Run) -> Evidence:
    """Generated check-ins on 3 × 3 km: planar Laplace at ln 2 a km, k-RR at ln 8; earth mover's distance in km."""
    area = Area.around(37.7855, -122.4075, width=3, height=3, cell="0.1")
    people = _check_ins(run.seed)
    truth = area.counts(people) / len(people)
    planar = PlanarReport(area, epsilon="ln 2 at 1 km")
    seen = planar.tally(planar.randomize(people, entropy=run.entropy()))
    flat = KRR(epsilon=log_down(Fraction(8)), size=area.size)
    told = flat.tally(flat.randomize(people, entropy=run.entropy(1)))
    settings: dict[str, Any] = {"iterations": run.size(300, 500), "accelerate": False, "stop": None}
    near = ibu(planar.model(), seen, **settings).shares
    far = ibu(KRRModel(truth=flat.truth, other=flat.other, size=area.size), told, **settings).shares
    distance = {name: earth_mover(shares, truth, area) for name, shares in (("planar", near), ("k-RR", far))}
    titles = (
        "True, people in each cell",
        "What arrives, planar Laplace",
        "Estimated from planar Laplace",
        "Estimated from k-RR",
    )
    noisy = planar.inside(seen) / len(people)
    charts = [
        Chart(title, [Heat(np.asarray(shares).reshape(30, 30)[::-1] * len(people), aspect=1.0)])
        for title, shares in zip(titles, (truth, noisy, near, far), strict=True)
    ]
    return Evidence(
        [
            Figure.at_most(
                "planar Laplace, as a share of k-RR's distance", 0.85, distance["planar"] / distance["k-RR"]
            ),
            Figure.at_most("planar Laplace, km", earth_mover(np.ones(area.size), truth, area), distance["planar"]),
        ],
        charts,
    )


def _check_ins(seed: int, *, clusters: int = 6, count: int = 10_500) -> NDArray[np.int64]:
    """Cells of people around a few busy places, with one in ten anywhere."""
    rng = np.random.default_rng(seed)
    middles, widths = rng.uniform(0.3, 2.7, (clusters, 2)), rng.uniform(0.05, 0.3, clusters)
    which = rng.choice(clusters, count, p=rng.dirichlet(np.full(clusters, 3.0)))
    points = rng.normal(middles[which], widths[which, None])
    points = np.where(rng.random((count, 1)) < 0.1, rng.uniform(0, 3, (count, 2)), points)
    column, row = np.clip(points / 0.1, 0, 29).astype(int).T
    return np.asarray(row * 30 + column, np.int64)


@GROUP.claim("C9", "A respondent sees what is sent and what it costs, and may decline.")
def consent(run: Run) -> Evidence:
    """A device's own account, and the page of a survey."""
    survey = Survey(
        name="smoking", version=1, question="Do you smoke?", domain=["no", "sometimes", "daily"], randomizer="k-rr",
        epsilon=1, times=3,
    )  # fmt: skip
    refused = False
    with TemporaryDirectory() as folder:
        account = DeviceAccount(Path(folder) / "mine.jsonl", epsilon=2)
        for _ in range(3):
            report = json.loads(survey.respond("daily").line)["report"]
            try:
                account.charge(survey.oracle().loss, survey=survey.digest, sent=report)
            except BudgetExceeded:
                refused = True
        entries, spent = len(account.entries()), account.spent
    return Evidence(
        [
            Figure.equal("reports that the person can see again", 2, entries),
            Figure.equal("ε that they cost", 2, spent),
            Figure.equal("a report beyond what the person allows is not sent", True, refused),
            Figure.equal("the page offers to say no", True, "rather not" in page(survey).casefold()),
        ]
    )
