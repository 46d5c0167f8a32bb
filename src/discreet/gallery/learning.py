"""Exhibits on learning: whose data a model was trained on, and what the updates of federated learning give away."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.membership import MembershipReport, coins
from discreet.attacks.report import AttackReport
from discreet.attacks.updates import UpdateRows, imprint
from discreet.curator.catalog import Column
from discreet.gallery.exhibit import Exhibit, Shown
from discreet.gallery.models import Targets, attacks_on, canaries, reference_models, without_privacy
from discreet.learning.features import Features, Target
from discreet.learning.federated import GaussianShare, Identity, Terms, decode, pads, rehearse
from discreet.learning.federated.messages import Masked
from discreet.learning.layers import Dense, Relu
from discreet.learning.losses import Softmax
from discreet.learning.model import Model, Shape
from discreet.learning.network import Network, Parameters
from discreet.learning.recipe import Recipe, Sgd
from discreet.learning.training import finished, train
from discreet.noise import DeterministicEntropy
from discreet.privacy.calibration import gaussian_multiplier
from discreet.report import Chart, Line, Text

Floats = NDArray[np.float64]
_DELTA = "1e-6"


# --- a model --------------------------------------------------------------------------------------------------------

_PEOPLE, _COLUMNS = 12_000, 30


def _membership(seed: int) -> Shown:
    shape, table, inside = _clinic(), _patients(seed), coins(_PEOPLE, seed=seed)
    sides = [{name: values[chosen] for name, values in table.items()} for chosen in (inside, ~inside)]
    targets = Targets.of(shape, *sides)
    x, y = (part[: targets.people][targets.members] for part in (targets.x, targets.y))
    recipe = Recipe.for_budget(
        epsilon=1, delta=_DELTA, rate="1/8", examples=_PEOPLE // 2, epochs=3, clip=1, optimizer=Sgd(1)
    )
    state = train(shape.network, x, y, recipe, entropy=DeterministicEntropy(seed))
    private, plain = Model(shape, finished(state, recipe)), without_privacy(shape, x, y, seed=seed)
    known: dict[str, Any] = {"references": reference_models(shape, targets, count=4, seed=seed), "design": "coins"}
    before = attacks_on(plain, targets, against="a network trained without privacy", delta=_DELTA, **known)
    after = attacks_on(private, targets, against="the same by DP-SGD, ε 1", claimed=(1, _DELTA), **known)
    both = MembershipReport.of(before=before, after=after)
    right = [model.score(sides[1]) for model in (plain, private)]
    told = Text(f"Right about people outside: {right[0]:.1%} without privacy, {right[1]:.1%} by DP-SGD.")
    return Shown([one.run() for one in (*before, *after)], [*both.curves(), told, _audited(seed)])


def _audited(seed: int) -> Text:
    recipe = Recipe.for_budget(epsilon=4, delta="1e-5", rate=1, examples=2048, steps=4, clip=1, optimizer=Sgd(1))
    found = canaries(recipe, delta="1e-5", count=4096, seed=seed, entropy=DeterministicEntropy(seed)).find()
    proven = 0.0 if found.bound is None else found.bound.epsilon
    return Text(
        f"The training itself, audited with 4,096 canaries: ε is at least {proven:.2f}, with 95 % confidence; "
        f"the recipe says 4. The claim is {found.claim}."
    )


def _clinic() -> Shape:
    columns = tuple(Column(f"item{k}", "integer", lower=0, upper=99) for k in range(_COLUMNS))
    return Shape(Features(columns), Target(Column("ill", "boolean")), (64,), "relu")


def _patients(seed: int) -> dict[str, NDArray[Any]]:
    """Thirty measurements; three of them say something about the illness."""
    rng = np.random.default_rng([seed, 1])
    items = rng.integers(0, 100, (_PEOPLE, _COLUMNS))
    ill = items[:, :3].sum(axis=1) + rng.normal(0, 60, _PEOPLE) > 150
    return {f"item{k}": items[:, k] for k in range(_COLUMNS)} | {"ill": ill}


# --- updates --------------------------------------------------------------------------------------------------------

_CLIENTS, _ROWS, _INPUTS, _CLASSES = 20, 6, 20, 4
_GRID = 1 << 36  # steps to the clipping norm; coarser ones would hide what is small, and look safe


@dataclass(frozen=True, slots=True, eq=False)
class _Federation:
    """Clients with a few rows each, and rows of nobody."""

    x: NDArray[np.float32]  # clients × rows × inputs
    y: NDArray[np.int64]
    outside: Floats

    @classmethod
    def of(cls, seed: int) -> "_Federation":
        rng = np.random.default_rng([seed, 2])
        centers, count = rng.random((_CLASSES, _INPUTS)), _CLIENTS * _ROWS
        y = rng.integers(0, _CLASSES, count + 3000)
        x = (centers[y] + rng.random((len(y), _INPUTS))) / 2
        inside = x[:count].astype(np.float32).reshape(_CLIENTS, _ROWS, _INPUTS)
        return cls(inside, y[:count].reshape(_CLIENTS, _ROWS), x[count:])

    def updates(self, network: Network, parameters: Parameters) -> NDArray[np.int64]:
        """The gradient of each client, clipped to 1, on a grid: clients × weights."""
        sent = []
        for x, y in zip(self.x, self.y, strict=True):
            _, gradients = network.gradients(parameters, x, y)
            whole = np.concatenate([one.summed().ravel() / _ROWS for one in gradients]).astype(np.float64)
            sent.append(np.trunc(whole / max(1.0, float(np.sqrt(np.square(whole).sum()))) * _GRID))
        return np.array(sent).astype(np.int64)

    def attack(
        self, vectors: Sequence[NDArray[Any]] | NDArray[Any], units: int, against: str, *, rows: Any = None
    ) -> AttackReport:
        """Read rows off the first layer of each vector."""
        layers = [one[: (_INPUTS + 1) * units].reshape(-1, units).astype(np.float64) for one in vectors]
        weights, biases = [one[:-1] for one in layers], [one[-1] for one in layers]
        held = list(self.x) if rows is None else rows
        return UpdateRows(
            weights=weights, biases=biases, rows=held, outside=self.outside[:400], bounds=(0, 1), against=against
        ).run()


def _updates(seed: int) -> Shown:
    people, units, bins = _Federation.of(seed), 128, 500
    clear = people.updates(_network(units), _network(units).start(seed=1))
    bad = [part.astype(np.float32) for part in imprint(people.outside, units=bins, outputs=_CLASSES, seed=seed)]
    total, everybody = people.updates(_network(bins), bad).sum(axis=0), [people.x.reshape(-1, _INPUTS)]
    one, many = (_noise(honest, size) for honest, size in ((1, clear[0].size), (_CLIENTS, total.size)))
    entropy = DeterministicEntropy(seed)
    drawn = one.draw(clear.size, entropy=entropy).reshape(clear.shape)
    shares = many.draw(_CLIENTS * total.size, entropy=entropy).reshape(_CLIENTS, -1).sum(axis=0)
    reports = [
        people.attack(clear, units, "each client's update"),
        people.attack(clear + drawn, units, "each update, clipped and noised at ε 8"),
        people.attack(_padded(clear, entropy), units, "each update under its pads"),
        people.attack([total], bins, "the sum, weights chosen by the coordinator", rows=everybody),
        people.attack([total + shares], bins, "the same sum with noise in shares, ε 8", rows=everybody),
    ]
    return Shown(reports, [_by_noise(people, clear, drawn, units)])


def _network(units: int) -> Network:
    return Network([Dense(units), Relu(), Dense(_CLASSES)], Softmax(), (_INPUTS,))


def _noise(honest: int, length: int) -> GaussianShare:
    """The share of each client for (8, 1e-6)-DP of all of a client's rows."""
    whole = gaussian_multiplier(epsilon=8, delta=_DELTA, method="analytic") * _GRID
    return GaussianShare(sigma=float(whole) / np.sqrt(honest), honest=honest, sensitivity=_GRID, dimension=length)


def _padded(vectors: NDArray[np.int64], entropy: DeterministicEntropy) -> Floats:
    """What the coordinator of a secure sum sees of each client, as signed numbers."""
    names = [f"client {k:02}" for k in range(len(vectors))]
    people = {name: Identity.new(entropy=entropy) for name in names}
    terms = Terms(
        round_id=bytes(16), clients={name: one.public for name, one in people.items()}, threshold=2 * len(names) // 3,
        colluding=0, length=vectors.shape[1], bound=_GRID, noise=None,
    )  # fmt: skip
    seen: dict[str, Floats] = {}

    def tap(name: str, sent: bytes) -> bytes:
        message = decode(sent)
        if isinstance(message, Masked):
            words = pads.parse(message.vector, terms.bits, terms.length).astype(np.float64)
            seen[name] = words - 2.0**terms.bits * (words >= 2.0 ** (terms.bits - 1))
        return sent

    rehearse(terms, people, dict(zip(names, vectors, strict=True)), wire=tap, entropy=entropy)
    return np.array([seen[name] for name in names])


def _by_noise(people: _Federation, clear: NDArray[np.int64], drawn: NDArray[Any], units: int) -> Chart:
    """How many rows come back, by the noise that each client adds."""
    scale = float(gaussian_multiplier(epsilon=8, delta=_DELTA, method="analytic"))
    levels = [10.0**power for power in range(-6, 1)]
    found = [people.attack(clear + level / scale * drawn, units, "").success for level in levels]
    line = Line(levels, [one.value for one in found], "", [one.low for one in found], [one.high for one in found])
    title, x = "Rows that come back from single updates", "noise in each weight, in clipping norms"
    return Chart(title, [line], x=x, y="share of rows", log_x=True, y_range=(0, 1))


EXHIBITS = (
    Exhibit(
        name="membership",
        title="Whose data was it trained on?",
        claims=("D5",),
        words="A network knows its own rows better than others, in what it says and in its weights; DP-SGD ends that",
        show=_membership,
    ),
    Exhibit(
        name="updates",
        title="Updates that hold rows",
        claims=("D6",),
        words="In federated learning rows stay at home, and come back from updates; noise stops it, or pads with noise",
        show=_updates,
    ),
)
