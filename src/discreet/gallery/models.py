"""Our own models and our own training, as the attacks on membership take them: what joins `learning` and `attacks`.

- `attacks_on` a saved model, from rows that it was trained on and rows that it was not;
- `canaries` in a training run, an audit of DP-SGD as it is built: is ε at most what the recipe says?

>>> from discreet.gallery.models import canaries
>>> from discreet.learning.sgd.recipe import Recipe, Sgd
>>> recipe = Recipe(rate=1, lot=100, steps=4, multiplier=4, clip=1, optimizer=Sgd(1))
>>> result = canaries(recipe, delta="1e-5", count=400, seed=1).find()
>>> result.broken, round(float(result.claimed), 2)
(False, 1.99)

Exhibits on learning: whose data a model was trained on, and what the updates of federated learning give away.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, isqrt, sqrt
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.attack_report import AttackReport
from discreet.attacks.membership import (
    CanaryGradients,
    GradientNorm,
    Lira,
    LossThreshold,
    MembershipAttack,
    MembershipReport,
    References,
    Rmia,
    coins,
)
from discreet.attacks.membership.black_box import Progress
from discreet.attacks.updates import UpdateRows, imprint
from discreet.curator.catalog import Column
from discreet.errors import InvalidData, InvalidInput, InvalidParameter
from discreet.exact import Number, integer
from discreet.gallery.exhibits import Exhibit, ExhibitResult
from discreet.learning.column_model import ColumnModel, Features, Shape, Target
from discreet.learning.federated import GaussianShare, Identity, RoundSettings, crypto, decode, simulate_round
from discreet.learning.federated.messages import Masked
from discreet.learning.networks.layers import Dense, Relu
from discreet.learning.networks.network import Network, Softmax, Squared
from discreet.learning.sgd.gradients import Array, Ints, Outer, Parameters
from discreet.learning.sgd.recipe import Adam, Recipe, Sgd
from discreet.learning.sgd.training import State, finished, train, train_without_privacy
from discreet.noise import DeterministicEntropy, Entropy
from discreet.privacy.accounting import guarantee
from discreet.privacy.calibration import gaussian_multiplier
from discreet.report import Chart, Line, Text
from discreet.tables import read_table

Floats = NDArray[np.float64]

_LOUD = 1024.0  # how far a canary's gradient exceeds the clipping norm, and its weight the bias
_STILL = 1e-4  # how far all steps together may move a canary's own output, in parts of what is asked of it
_LOT, _EPOCHS, _FEWEST, _RATE = 64, 30, 400, "0.01"  # of models that are trained to compare with


# --- a training run -----------------------------------------------------------------------------------------------


class Training(Protocol):
    """Anything that is called as `learning.training.train` is: that, or one with a planted leak."""

    def __call__(
        self,
        network: Network,
        x: Array,
        y: NDArray[Any],
        recipe: Recipe,
        *,
        entropy: Entropy | None,
        state: State | None,
        each: Callable[[State], None] | None,
    ) -> State:
        """Run the recipe to its end, from the state; `each` sees every step."""
        ...


def canaries(
    recipe: Recipe,
    *,
    delta: Number,
    count: int = 2048,
    confidence: Number = 0.95,
    seed: int = 0,
    entropy: Entropy | None = None,
    trainer: Training = train,
    against: str = "",
) -> CanaryGradients:
    """Train by the recipe on canaries, each put in by a fair coin; the attack that looks for them in every step.

    A canary is an example whose gradient is far longer than the clipping norm and lies in one weight of its own. So it
    adds one clipping norm to that weight in every lot that it is in, which is all that an example may do: the audit
    uses up what the recipe allows. Steps are kept so small that canaries stay as they are; optimizers are
    post-processing. A recipe without sampling is as private as one Gaussian release, and held to that.

    Guarantee: if the training is as private as the recipe says, the bound that the attack finds exceeds the claim with
    probability at most 1 − confidence. Proof. Each coin decides about one example, so leaving it out gives a neighbor;
    scores are made from parameters that the training shows; then `one_run`. With rate 1 the run is a composition of
    Gaussian releases, so within a Gaussian curve (Dong, Roth, Su 2022, corollary 3.3); what is rounded to the grid
    follows from it.
    """
    integer(count, "count", at_least=64)
    inside = coins(count, seed=seed)
    side = isqrt(count - 1) + 1
    network = Network([Dense(ceil(count / side))], Squared(), (side,))
    x, y = _loud(network, np.flatnonzero(inside), float(recipe.clip))
    seen = _watched(network, x, y, recipe, trainer, entropy)
    claimed = guarantee(recipe.loss, delta=delta).epsilon
    return CanaryGradients(
        directions=None,
        observed=seen[:, :count],
        members=inside,
        against=against or f"{recipe.steps:,} steps of DP-SGD",
        design="coins",
        curve="gaussian" if recipe.rate == 1 else "any",
        claimed=(claimed, delta),
        confidence=confidence,
        rate=recipe.rate,
        noise=float(recipe.multiplier) / sqrt(1 - sum(recipe.riders)),
        seed=seed,
    )


def _loud(network: Network, which: Ints, clip: float) -> tuple[Array, Array]:
    """Example k has the gradient −e_i ⊗ e_j, k = i·width + j, times `_LOUD` clipping norms."""
    (inputs,), (width,) = network.inputs, network.outputs
    x, y = np.zeros((len(which), inputs), np.float32), np.zeros((len(which), width), np.float32)
    x[np.arange(len(which)), which // width] = _LOUD
    y[np.arange(len(which)), which % width] = clip
    return x, y


def _watched(
    network: Network, x: Array, y: Array, recipe: Recipe, trainer: Training, entropy: Entropy | None
) -> Floats:
    """What each step added to each weight, in clipping norms (steps × weights), from zero parameters."""
    lot = float(recipe.lot)
    step = _STILL * lot / (_LOUD * recipe.steps * (1 + float(recipe.multiplier)))
    quiet = replace(recipe, optimizer=Sgd(step), average=Fraction(0))
    state = State.start(network, quiet)
    state.parameters[0][...] = 0
    seen, before = [], np.zeros(state.parameters[0][:-1].size)

    def each(now: State) -> None:
        nonlocal before
        here = now.parameters[0][:-1].ravel().astype(np.float64)
        seen.append((here - before) * lot / (step * now.clips[-1]))
        before = here

    trainer(network, x, y, quiet, entropy=entropy, state=state, each=each)
    return np.array(seen)


# --- a trained model ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Rows as a model reads them: first those that it was trained on, then the others, then a population."""

    x: Array
    y: NDArray[Any]
    members: NDArray[np.bool_]
    people: int

    @classmethod
    def of(cls, shape: Shape, members: Any, others: Any, population: Any = None) -> "Targets":
        """Encode tables; rows without a target are left out."""
        parts = [_encoded(shape, table) for table in (members, others)]
        inside = np.repeat([True, False], [len(part[1]) for part in parts])
        parts += [] if population is None else [_encoded(shape, population)]
        return cls(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), inside, len(inside))

    @property
    def shared(self) -> int:
        """How many of the others look exactly like a member: twins, or people who are on two sides by mistake."""
        rows = np.column_stack([self.x, self.y])[: self.people] + 0.0
        known = {row.tobytes() for row in rows[self.members]}
        return sum(row.tobytes() in known for row in rows[~self.members])


def attack_model_file(
    path: str, *, members: str, others: str, population: str | None, references: int, plain: bool, fair: bool,
    seed: int, claimed: Any, warn: Callable[[str], object], progress: Callable[[int, int], None] | None = None,
    target: str | None = None, trust_pickle: bool = False, **settings: Any,
) -> MembershipReport:  # fmt: skip
    """All membership attacks on the model of a file, as one report; `warn` is told of people on both sides.

    A pickle runs any code that its writer put into it, so it is read only if `trust_pickle` says so.
    """
    common: dict[str, Any] = {"design": "coins" if fair else "unknown", "seed": seed, **settings}
    name = Path(path).name
    if is_pickle(path):
        if references or plain:
            raise InvalidInput("references and plain train networks of discreet; leave them out for a pickled model")
        losses, inside = _pickled_losses(path, members, others, target, trusted=trust_pickle)
        attack = LossThreshold(losses=losses, members=inside, against=name, claimed=claimed, **common)
        return MembershipReport.of(after=[attack], title=f"Membership inference: {name}")
    try:
        model = ColumnModel.load(path)
    except InvalidData as error:
        raise InvalidInput(
            f"{error}; for other models give discreet.attacks.membership.LossThreshold the loss of each row"
        ) from None
    if not isinstance(model.shape, Shape):
        raise InvalidInput(
            f"this attack reads networks, not {model.shape.model} models; see discreet.attacks.membership"
        )
    if references and model.classes is None:
        raise InvalidInput("this model predicts a number; reference models are compared by classes: leave --references")
    tables = [None if table is None else read_table(table) for table in (members, others, population)]
    targets = Targets.of(model.shape, *tables)
    if targets.shared:
        words = "is one of the others and looks" if targets.shared == 1 else "are among the others and look"
        warn(f"{targets.shared:,} {words} exactly like a member: twins, or people in both files by mistake")
    known = None
    if references:
        known = reference_models(model.shape, targets, count=references, seed=seed, progress=progress)
    before = []
    if plain:
        chosen = targets.members.nonzero()[0]
        clear = without_privacy(model.shape, targets.x[chosen], targets.y[chosen], seed=seed)
        before = attacks_on(clear, targets, references=known, against="the same network without privacy", **common)
    after = attacks_on(model, targets, references=known, against=name, claimed=claimed, **common)
    return MembershipReport.of(before=before, after=after, title=f"Membership inference: {name}")


def is_pickle(path: str) -> bool:
    """Whether a file is a pickle (protocol 2 or later), plain or by its ending, as joblib writes them."""
    with Path(path).open("rb") as file:
        start = file.read(2)
    return (start[:1] == b"\x80" and start[1:] in (b"\x02", b"\x03", b"\x04", b"\x05")) or Path(path).suffix in (
        ".pkl",
        ".pickle",
        ".joblib",
    )


def _pickled_losses(
    path: str, members: str, others: str, target: str | None, *, trusted: bool
) -> tuple[Floats, NDArray[np.bool_]]:
    """Minus ln p(y | x) of every row, members first, by a pickled classifier with `predict_proba`."""
    if not trusted:
        raise InvalidInput(
            f"{Path(path).name} is a pickle, which can run any code when it is read: say --trust-pickle if you trust "
            "whoever wrote it; or give discreet.attacks.membership.LossThreshold the losses that you computed"
        )
    if target is None:
        raise InvalidInput("which column does the pickled model predict? --target COLUMN")
    import pickle

    with Path(path).open("rb") as file:
        model = pickle.load(file)  # noqa: S301 (trusted by whoever runs this)
    if not callable(getattr(model, "predict_proba", None)):
        raise InvalidInput(
            f"{Path(path).name}: got a {type(model).__name__}, expected a classifier with predict_proba; for other "
            "models give discreet.attacks.membership.LossThreshold the loss of each row"
        )
    frames = [read_table(table).to_pandas() for table in (members, others)]
    if any(target not in frame for frame in frames):
        raise InvalidInput(f"--target: there is no column {target!r} in both tables")
    losses = []
    for frame in frames:
        rows = frame.drop(columns=target)
        shares = model.predict_proba(rows if hasattr(model, "feature_names_in_") else rows.to_numpy())
        named = {str(label).casefold(): at for at, label in enumerate(model.classes_)}
        at = np.array([named.get(str(label).casefold(), -1) for label in frame[target]], np.int64)
        if (at < 0).any():
            raise InvalidData(f"{target}: {int((at < 0).sum())} rows hold a class that the model does not know")
        with np.errstate(divide="ignore"):
            losses.append(-np.log(shares[np.arange(len(at)), at]))
    return np.concatenate(losses), np.repeat([True, False], [len(part) for part in losses])


def attacks_on(
    model: ColumnModel,
    targets: Targets,
    *,
    references: References | None = None,
    **settings: Any,
) -> list[MembershipAttack]:
    """Every attack that these rows and references allow, on one model; settings are those of `MembershipAttack`.

    With references (of the same targets, population last) LiRA; with a population RMIA too.
    """
    said = log_confidences(model.shape.network, model.parameters, targets.x, targets.y)
    people = np.arange(targets.people)
    known: dict[str, Any] = {"members": targets.members, **settings}
    mine = said[people]
    slopes = gradient_norms(model.shape.network, model.parameters, targets.x[people], targets.y[people])
    result: list[MembershipAttack] = [LossThreshold(losses=-mine, **known), GradientNorm(gradients=slopes, **known)]
    if references is None:
        return result
    if model.classes is None:
        raise InvalidParameter("references", references.count, "0 for a model that predicts a number")
    of_people = references.of_targets(people)
    result.append(Lira(confidences=mine, references=of_people, **known))
    if len(said) > targets.people:
        others = np.arange(targets.people, len(said))
        world: dict[str, Any] = {"population": said[others], "population_references": references.of_targets(others)}
        result.append(Rmia(confidences=mine, references=of_people, **world, **known))
    return result


def reference_models(
    shape: Shape, targets: Targets, *, count: int, seed: int, progress: Progress | None = None
) -> References:
    """Models of the same shape, trained without privacy, each on an evenly drawn half: who was in plays no part."""

    def trainer(indices: Ints, seed: int, /) -> "_Answering":
        model = without_privacy(shape, targets.x[indices], targets.y[indices], seed=seed)
        return _Answering(shape.network, model.parameters)

    return References.train(trainer, targets.x, targets.y, count=count, seed=seed, progress=progress)


def without_privacy(shape: Shape, x: Array, y: NDArray[Any], *, seed: int) -> ColumnModel:
    """A model of this shape, trained on the rows as if nobody cared: to compare with."""
    steps = max(_FEWEST, ceil(_EPOCHS * len(x) / _LOT))
    parameters = train_without_privacy(shape.network, x, y, Adam(_RATE), lot=_LOT, steps=steps, seed=seed)
    return ColumnModel(shape, parameters)


def log_confidences(network: Network, parameters: Parameters, x: Array, y: NDArray[Any]) -> Floats:
    """ln p(y | x) of classes; minus the loss of numbers."""
    output = network.predict(parameters, x).astype(np.float64)
    if isinstance(network.loss, Squared):
        return np.asarray(-np.square(output[:, 0] - y) / 2)
    from scipy.special import log_softmax

    return np.asarray(log_softmax(output, axis=1)[np.arange(len(y)), y])


def gradient_norms(network: Network, parameters: Parameters, x: Array, y: NDArray[Any]) -> Floats:
    """The norm of each row's gradient, over all parameters."""
    _, gradients = network.gradients(parameters, network.examples(x), network.loss.targets(y, network.outputs))
    squares = np.zeros(len(x))
    for gradient in gradients:
        sides = [np.square(side.astype(np.float64)).sum(axis=1) for side in gradient.sides]
        if isinstance(gradient, Outer) and gradient.one:
            sides[0] += 1  # the input of the biases
        squares += np.prod(sides, axis=0)
    return np.asarray(np.sqrt(squares))


@dataclass(frozen=True, slots=True, eq=False)
class _Answering:
    network: Network
    parameters: Parameters

    def scores(self, x: Array, y: NDArray[Any], /) -> Floats:
        return log_confidences(self.network, self.parameters, x, y)


def _encoded(shape: Shape, table: Any) -> tuple[Array, NDArray[Any]]:
    x, (y, known) = shape.features.encode(table), shape.target.encode(table)
    if not known.any():
        raise InvalidData(f"no row has a known {shape.target.column.name!r}")
    return x[known], y[known]


_DELTA = "1e-6"


# --- a model --------------------------------------------------------------------------------------------------------

_PEOPLE, _COLUMNS = 12_000, 30


def _membership(seed: int) -> ExhibitResult:
    shape, table, inside = _clinic(), _patients(seed), coins(_PEOPLE, seed=seed)
    sides = [{name: values[chosen] for name, values in table.items()} for chosen in (inside, ~inside)]
    targets = Targets.of(shape, *sides)
    x, y = (part[: targets.people][targets.members] for part in (targets.x, targets.y))
    recipe = Recipe.for_budget(
        epsilon=1, delta=_DELTA, rate="1/8", examples=_PEOPLE // 2, epochs=3, clip=1, optimizer=Sgd(1)
    )
    state = train(shape.network, x, y, recipe, entropy=DeterministicEntropy(seed))
    private, plain = ColumnModel(shape, finished(state, recipe)), without_privacy(shape, x, y, seed=seed)
    known: dict[str, Any] = {"references": reference_models(shape, targets, count=4, seed=seed), "design": "coins"}
    before = attacks_on(plain, targets, against="a network trained without privacy", delta=_DELTA, **known)
    after = attacks_on(private, targets, against="the same by DP-SGD, ε 1", claimed=(1, _DELTA), **known)
    both = MembershipReport.of(before=before, after=after)
    right = [model.score(sides[1]) for model in (plain, private)]
    told = Text(f"Right about people outside: {right[0]:.1%} without privacy, {right[1]:.1%} by DP-SGD.")
    return ExhibitResult([attack.run() for attack in (*before, *after)], [*both.curves(), told, _audited(seed)])


def _audited(seed: int) -> Text:
    recipe = Recipe.for_budget(epsilon=4, delta="1e-5", rate=1, examples=2048, steps=4, clip=1, optimizer=Sgd(1))
    result = canaries(recipe, delta="1e-5", count=4096, seed=seed, entropy=DeterministicEntropy(seed)).find()
    proven = 0.0 if result.bound is None else result.bound.epsilon
    return Text(
        f"The training itself, audited with 4,096 canaries: ε is at least {proven:.2f}, with 95 % confidence; "
        f"the recipe says 4. The claim is {result.claim}."
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
            whole = np.concatenate([gradient.summed().ravel() / _ROWS for gradient in gradients]).astype(np.float64)
            sent.append(np.trunc(whole / max(1.0, float(np.sqrt(np.square(whole).sum()))) * _GRID))
        return np.array(sent).astype(np.int64)

    def attack(
        self, vectors: Sequence[NDArray[Any]] | NDArray[Any], units: int, against: str, *, rows: Any = None
    ) -> AttackReport:
        """Read rows off the first layer of each vector."""
        layers = [layer[: (_INPUTS + 1) * units].reshape(-1, units).astype(np.float64) for layer in vectors]
        weights, biases = [layer[:-1] for layer in layers], [layer[-1] for layer in layers]
        held = list(self.x) if rows is None else rows
        return UpdateRows(
            weights=weights, biases=biases, rows=held, outside=self.outside[:400], bounds=(0, 1), against=against
        ).run()


def _updates(seed: int) -> ExhibitResult:
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
        people.attack(_padded(clear, entropy), units, "each update under its masks"),
        people.attack([total], bins, "the sum, weights chosen by the coordinator", rows=everybody),
        people.attack([total + shares], bins, "the same sum with noise in shares, ε 8", rows=everybody),
    ]
    return ExhibitResult(reports, [_by_noise(people, clear, drawn, units)])


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
    terms = RoundSettings(
        round_id=bytes(16), clients={name: each.public for name, each in people.items()}, threshold=2 * len(names) // 3,
        colluding=0, length=vectors.shape[1], bound=_GRID, noise=None,
    )  # fmt: skip
    seen: dict[str, Floats] = {}

    def tap(name: str, sent: bytes) -> bytes:
        message = decode(sent)
        if isinstance(message, Masked):
            words = crypto.parse(message.vector, terms.bits, terms.length).astype(np.float64)
            seen[name] = words - 2.0**terms.bits * (words >= 2.0 ** (terms.bits - 1))
        return sent

    simulate_round(terms, people, dict(zip(names, vectors, strict=True)), wire=tap, entropy=entropy)
    return np.array([seen[name] for name in names])


def _by_noise(people: _Federation, clear: NDArray[np.int64], drawn: NDArray[Any], units: int) -> Chart:
    """How many rows come back, by the noise that each client adds."""
    scale = float(gaussian_multiplier(epsilon=8, delta=_DELTA, method="analytic"))
    levels = [10.0**power for power in range(-6, 1)]
    result = [people.attack(clear + level / scale * drawn, units, "").success for level in levels]
    line = Line(
        levels,
        [estimate.value for estimate in result],
        "",
        [estimate.low for estimate in result],
        [estimate.high for estimate in result],
    )
    title, x = "Rows that come back from single updates", "noise in each weight, in clipping norms"
    return Chart(title, [line], x=x, y="share of rows", log_x=True, y_range=(0, 1))


EXHIBITS = (
    Exhibit(
        name="membership",
        title="Whose data was it trained on?",
        claims=("D5",),
        words="A network fits its own rows better than others, in outputs and weights; DP-SGD prevents that",
        show=_membership,
    ),
    Exhibit(
        name="updates",
        title="Model updates that reveal rows",
        claims=("D6",),
        words="In federated learning, updates can reveal rows that never leave home; noise or masks prevent it",
        show=_updates,
    ),
)
