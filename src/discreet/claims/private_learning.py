"""Claims about learning: DP-SGD, membership inference, federated rounds, classical models."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.attacks.membership import LossThreshold, coins
from discreet.attacks.updates import UpdateRows
from discreet.claims.central_model import band
from discreet.claims.claim import Evidence, Figure, Group, Run
from discreet.gallery.models import canaries, log_confidences
from discreet.learning import classical
from discreet.learning.estimators import DPClassifier
from discreet.learning.federated import Federation, InProcessClients, Secure, crypto
from discreet.learning.federated.aggregation import SecureAggregation, TrustedAggregation, length
from discreet.learning.federated.exchange import Update, decode_answer, unpack_vector
from discreet.learning.federated.messages import Masked
from discreet.learning.networks.images import Conv2D, MaxPool2D
from discreet.learning.networks.layers import Dense, Flatten, Relu
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.clipping import UNITS, Clip, clipped_sum
from discreet.learning.sgd.recipe import Adam, Recipe, Sgd
from discreet.learning.sgd.run_state import cost_chart, costs
from discreet.learning.sgd.training import finished, train, train_without_privacy
from discreet.mechanisms import Exponential
from discreet.noise import poisson_sample
from discreet.privacy.accounting import guarantee, pld, rdp
from discreet.privacy.loss import Repeated, SampledGaussian
from discreet.report import Bars, Chart, Line

GROUP = Group()

_DELTA = "1e-5"


@GROUP.claim(
    "D1", "DP-SGD: Poisson lots, per-example clipping, Gaussian noise on the sum, and an accountant for all steps."
)
def dp_sgd(run: Run) -> Evidence:
    """Lots and norms as they are, and the published cost of 10,000 steps."""
    rng = np.random.default_rng(run.seed)
    network = Network([Dense(3)], Softmax(), inputs=(4,))
    x, y = (100 * rng.normal(size=(200, 4))).astype(np.float32), rng.integers(0, 3, 200)
    longest = 0.0
    for k in range(50):
        _, gradients = network.gradients(network.start(seed=1), x[k : k + 1], y[k : k + 1])
        total = clipped_sum(gradients, Clip("1/2"))
        longest = max(
            longest, math.sqrt(sum(float(np.square(part, dtype=np.float64).sum()) for part in total.units)) / UNITS
        )
    lots = [len(poisson_sample("1/10", 1000, entropy=run.entropy(i))) for i in range(200)]
    loss = Repeated(SampledGaussian("0.01", 4), 10_000)
    return Evidence(
        [
            Figure.at_most("longest clipped gradient, in clipping norms", 1, longest),
            Figure.equal("mean size of a lot of a tenth of 1,000", 100, float(np.mean(lots)), within=4),
            Figure.equal(
                "ε of 10,000 steps at σ 4, q 0.01, by PLD", 0.947, pld.epsilon(loss, delta=_DELTA), within=0.001
            ),
            Figure.at_most(
                "and by moments, below the published 1.26", 1.26, rdp.epsilon(rdp.curve(loss), delta=_DELTA)
            ),
        ]
    )


@GROUP.claim(
    "D2", "The cost of DP-SGD grows with the root of the steps; tight accounting is far below basic composition."
)
def cost_shape(run: Run) -> Evidence:
    """Slopes between 1,000 and 16,000 steps."""
    result = costs(rate="0.01", multiplier=4, delta=_DELTA, steps=[1000, 16_000])
    slope = {name: math.log(values[1] / values[0]) / math.log(16) for name, values in result.items()}
    return Evidence(
        [
            Figure.equal("slope of numerical accounting", 0.5, slope["numerical (PLD)"], within=0.15),
            Figure.at_least("slope of basic composition", 0.95, slope["basic"]),
            Figure.at_least(
                "basic over numerical at 16,000 steps", 100, result["basic"][1] / result["numerical (PLD)"][1]
            ),
        ],
        [cost_chart(rate="0.01", multiplier=4, delta=_DELTA, steps=10_000, points=6)],
    )


def _blobs(rows: int, classes: int, inputs: int, seed: int) -> tuple[Any, Any]:
    """Rows between 0 and 1 around a center for each class; centers do not depend on the seed."""
    centers = np.random.default_rng(2024).random((classes, inputs))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    return np.clip(centers[y] + rng.normal(0, 0.35, (rows, inputs)), 0, 1).astype(np.float32), y


@GROUP.claim(
    "D3", "A network behind private principal components loses little accuracy at moderate ε, and more at small ε."
)
def accuracy_by_budget(run: Run) -> Evidence:
    """Generated classes in place of digits: ten classes, 30 private components, one hidden layer."""
    (x, y), (test_x, test_y) = (
        _blobs(rows, 10, 100, run.seed + i) for i, rows in enumerate((run.size(6000, 20_000), 2000))
    )
    scores, stated = {}, []
    for epsilon in ("0.1", "2", "8"):
        model = DPClassifier(
            epsilon=epsilon, delta=_DELTA, bounds=(0, 1), classes=range(10), rows=len(x), hidden=(100,), project=30,
            project_share="1/16", lot=800, steps=60, learning_rate=6, momentum=0, per_layer=True, seed=run.seed,
            entropy=run.entropy(),
        )  # fmt: skip
        scores[epsilon] = float(model.fit(x, y).score(test_x, test_y))
        stated.append(guarantee(model.cost_, delta=_DELTA).epsilon / float(epsilon))
    chart = Chart("Accuracy by ε", [Line([0.1, 2, 8], list(scores.values()), "test accuracy")], x="ε", log_x=True)
    return Evidence(
        [
            Figure.at_most("cost over the stated ε, components included", 1, max(stated)),
            Figure.at_least("accuracy at ε 8 (guessing has 0.1)", 0.85, scores["8"]),
            Figure.at_least("accuracy at ε 2", 0.8, scores["2"]),
            Figure.at_least("accuracy that ε 0.1 loses against ε 8", 0.02, scores["8"] - scores["0.1"]),
        ],
        [chart],
    )


@GROUP.claim("D4", "A network of two convolutions and two dense layers trains privately on images.")
def convolutions(run: Run) -> Evidence:
    """Bars of light in color at ten angles, 16 × 16 pixels."""
    network = Network(
        [
            Conv2D(16, 3, stride=2, padding="same"), Relu(), Conv2D(16, 3, padding="same"), Relu(), MaxPool2D(2),
            Flatten(), Dense(32), Relu(), Dense(4),
        ],
        Softmax(), inputs=(16, 16, 3),
    )  # fmt: skip
    (x, y), (test_x, test_y) = (_bars(rows, run.seed + i) for i, rows in enumerate((1500, 600)))
    scores = []
    for epsilon in (Fraction(1, 10), 8):
        recipe = Recipe.for_budget(
            epsilon=epsilon,
            delta=_DELTA,
            examples=len(x),
            clip=1,
            rate="1/5",
            steps=30,
            optimizer=Sgd("0.5", "0.9"),
            seed=run.seed,
        )
        state = train(network, x, y, recipe, entropy=run.entropy())
        scores.append(float((network.predict(finished(state, recipe), test_x).argmax(axis=1) == test_y).mean()))
    return Evidence(
        [
            Figure.at_least("accuracy at ε 8 (guessing has 0.25)", 0.7, scores[1]),
            Figure.at_least("accuracy that ε 0.1 loses", 0.05, scores[1] - scores[0]),
        ]
    )


def _bars(rows: int, seed: int) -> tuple[Any, Any]:
    """Images of one bright bar: upright, lying, and the two diagonals; noise on all pixels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, rows)
    up, across = np.mgrid[0:16, 0:16]
    lines = [across - 8, up - 8, (up - across) / 1.4, (up + across - 16) / 1.4]
    shift = rng.uniform(-3, 3, rows)
    bright = np.stack([np.abs(lines[k] - s) < 1.5 for k, s in zip(y, shift, strict=True)])
    color = rng.uniform(0.5, 1, (rows, 1, 1, 3))
    return (2 * bright[..., None] * color - 1 + rng.normal(0, 0.3, (rows, 16, 16, 3))).astype(np.float32), y


@GROUP.claim(
    "D5", "Membership inference works on a model that memorized its data, not on a private one; no audit exceeds ε."
)
def membership(run: Run) -> Evidence:
    """Labels drawn by lot, so that what a model knows it knows by heart; and an audit by canaries."""
    targets = 400
    network = Network([Dense(32), Relu(), Dense(2)], Softmax(), (60,))
    rng = np.random.default_rng(run.seed)
    x, y = rng.normal(size=(targets, 60)).astype(np.float32), rng.integers(0, 2, targets)
    inside = coins(targets, seed=run.seed)
    members = np.flatnonzero(inside)
    plain = train_without_privacy(network, x[members], y[members], Adam("0.01"), lot=64, steps=300, seed=7)
    recipe = Recipe.for_budget(
        epsilon="1/2", delta=_DELTA, rate="1/2", examples=200, steps=60, clip=1, optimizer=Sgd(2)
    )
    private = train(network, x[members], y[members], recipe, entropy=run.entropy()).parameters
    results = [
        LossThreshold(
            losses=-log_confidences(network, model, x, y), members=inside, design="coins", claimed=("1/2", _DELTA)
        ).find()
        for model in (plain, private)
    ]
    whole = Recipe.for_budget(epsilon=4, delta=_DELTA, rate=1, steps=4, examples=512, clip="0.5", optimizer=Sgd(1))
    audit = canaries(whole, delta=_DELTA, count=1024, seed=run.seed, entropy=run.entropy(1), trainer=train).find()
    bound = audit.at(Fraction("0.999999")).bound
    proven = 0.0 if bound is None else bound.epsilon
    return Evidence(
        [
            Figure.at_least("AUC against the model without privacy", 0.6, results[0].auc().low),
            Figure.at_most("AUC against the private model", 0.65, results[1].auc().value),
            Figure.at_least("an audit of DP-SGD sees something (AUC)", 0.55, audit.auc().value),
            Figure.at_most("ε that it proves, at most the stated 4", 4, proven),
        ]
    )


@GROUP.claim(
    "D6", "Whoever sees each client's update recovers rows; masks that cancel in the sum prevent it at no cost."
)
def federated(run: Run) -> Evidence:
    """One round of thirty clients with four rows each; everything that arrives is attacked."""
    rng = np.random.default_rng(run.seed)
    centers = rng.random((4, 20))

    def people(count: int) -> tuple[Any, Any]:
        y = rng.integers(0, 4, count)
        return (centers[y] / 2 + rng.random((count, 20)) / 2).astype(np.float32), y

    data = {f"client {k:02}": people(4) for k in range(30)}
    outside = people(400)[0]
    network = Network([Dense(96), Relu(), Dense(4)], Softmax(), (20,))
    start = network.start(seed=1)

    def answers_with(secure: Secure | None) -> tuple[list[Any], Any, Federation]:
        federation = Federation(
            clients=30, rounds=1, level="client", rate=1, multiplier=0, clip=1, optimizer=Sgd(1), secure=secure
        )
        answers: dict[str, list[Any]] = {}

        def tap(name: str, sent: bytes) -> bytes:
            answers.setdefault(name, []).append(decode_answer(sent))
            return sent

        fleet = InProcessClients(federation, network, data, seed=1, wire=tap)
        kind = TrustedAggregation if secure is None else SecureAggregation
        made = kind(federation, network, fleet, dict(fleet.keys), bytes(16), run.entropy())
        total = made.gather(0, start, Fraction(1)).total
        bits = federation.terms(fleet.keys, bytes(16), 0, length(network)).bits if secure else 0
        return [_vector(answers[name], bits, length(network)) for name in data], total, federation

    def attack(vectors: list[Any]) -> Any:
        first = start[0].size
        layers = [vector[:first].reshape(21, -1) for vector in vectors]
        return UpdateRows(
            weights=[one[:-1] for one in layers], biases=[one[-1] for one in layers],
            rows=[x for x, _ in data.values()], outside=outside, bounds=(0, 1), against="each update",
        ).run()  # fmt: skip

    clear, _, _ = answers_with(None)
    masked, total, federation = answers_with(Secure(threshold="2/3", colluding="0.1"))
    return Evidence(
        [
            Figure.attack("rows recovered from updates in the clear", "falls", attack(clear)),
            Figure.attack("rows recovered from updates under masks", "holds", attack(masked)),
            Figure.equal(
                "the masks cancel: the sum is exact", True, bool((total == federation.grain * sum(clear)).all())
            ),
        ]
    )


def _vector(messages: list[Any], bits: int, count: int) -> Any:
    """What one client sent, as signed numbers."""
    sent = next(message for message in messages if isinstance(message, Update | Masked))
    if isinstance(sent, Update):
        return unpack_vector(sent.vector, count)
    words = crypto.parse(sent.vector, bits, count).astype(np.float64)
    return words - 2.0**bits * (words >= 2.0 ** (bits - 1))


@GROUP.claim(
    "D7", "Models are chosen by the exponential mechanism; linear, logistic and other classical models are private."
)
def classical_models(run: Run) -> Evidence:
    """A good model is chosen over a bad one, and both are paid for; a choice drawn many times."""
    rng = np.random.default_rng(run.seed)
    x = np.clip(rng.normal(0, 0.4, (6000, 2)), -1, 1)
    y = np.where(x @ [1.0, 1.0] > 0, "yes", "no")
    model = classical.LogisticRegression(
        epsilon=4, delta=0, bounds=(-1, 1), classes=["no", "yes"], entropy=run.entropy()
    ).fit(x[:4000], y[:4000])
    trees = classical.DecisionTreeClassifier(
        epsilon=4, bounds=(-1, 1), classes=["no", "yes"], entropy=run.entropy(1)
    ).fit(x[:4000], y[:4000])
    chances = Exponential(epsilon=1, sensitivity=1, monotone=True).probabilities([10, 12, 15])
    stream, drawn = run.entropy(2), np.zeros(3)
    for _ in range(4000):
        drawn[classical.choose("abc", [10, 12, 15], epsilon=1, sensitivity=1, monotone=True, entropy=stream).place] += 1
    scores = [float(each.score(x[4000:], y[4000:])) for each in (model, trees)]
    return Evidence(
        [
            Figure.equal(
                "chance of the best of three models", float(chances[2]), float(drawn[2] / 4000), within=band(4000)
            ),
            Figure.at_least("accuracy of logistic regression at ε 4", 0.95, scores[0]),
            Figure.at_least("accuracy of a tree at ε 4", 0.75, scores[1]),
            Figure.equal("ε of the regression", 4, guarantee(model.cost_, delta=0).epsilon, within=1e-9),
        ],
        [Chart("Accuracy at ε 4", [Bars(["logistic", "tree"], scores)])],
    )
