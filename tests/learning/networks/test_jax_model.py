"""JAX functions as networks: the gradients are right, each example's are its own, and everything strange is refused."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from tests.conftest import LazyModule

from discreet.errors import InvalidData, InvalidParameter, MissingExtra
from discreet.learning.networks.images import Conv2D, MaxPool2D
from discreet.learning.networks.jax_model import JaxModel
from discreet.learning.networks.layers import Dense, Flatten, Relu
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.clipping import UNITS, is_batch_invariant
from discreet.learning.sgd.recipe import Adam, Adaptive, Recipe, Sgd
from discreet.learning.sgd.run_state import Checkpoint
from discreet.learning.sgd.training import RIDERS, State, contributions, finished, train
from discreet.noise import DeterministicEntropy

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="the extra 'jax' is not installed")
jax, jnp = LazyModule("jax"), LazyModule("jax.numpy")
DENSE = Network([Dense(20), Relu(), Dense(3)], Softmax(), (7,))
IMAGES = Network([Conv2D(4, 3, 2, "same"), Relu(), MaxPool2D(2, 1), Flatten(), Dense(3)], Softmax(), (9, 8, 2))


def affine(x, matrix):
    return x @ matrix[:-1] + matrix[-1]


def dense_output(p, x):
    return affine(jax.nn.relu(affine(x, p["first"])), p["second"])


def image_output(p, x):
    filters = p["first"][:-1].reshape(3, 3, 2, 4)
    y = jax.lax.conv_general_dilated(x[None], filters, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    y = jax.nn.relu(y + p["first"][-1])
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID")
    return affine(y.reshape(-1), p["second"])


def model_of(network, output):
    first, second = network.start(seed=3)

    def loss(p, x, y):
        return -jax.nn.log_softmax(output(p, x))[y]

    start = {"first": first, "second": second}
    return JaxModel(loss, start, example=np.zeros(network.inputs), target=0, predict=output)


@pytest.fixture(scope="module")
def models():
    return {"dense": (model_of(DENSE, dense_output), DENSE), "images": (model_of(IMAGES, image_output), IMAGES)}


def data(inputs, n, seed=1, classes=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, *inputs)).astype(np.float32), rng.integers(0, classes, n)


def recipe(**changes):
    settings = {"rate": "0.5", "lot": 100, "steps": 3, "multiplier": 1, "clip": 1, "optimizer": Sgd("0.5")}
    return Recipe(**(settings | changes))


def squared(p, x, y):
    return jnp.sum((x @ p - y) ** 2)


def line(loss=squared, start=None, **settings):
    return JaxModel(
        loss, np.zeros(3) if start is None else start, **({"example": np.zeros(3), "target": 0.0} | settings)
    )


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", ["dense", "images"])
@pytest.mark.parametrize("n", [1, 130])
def test_gradients_and_predictions_are_those_of_the_network(models, name, n):
    model, network = models[name]
    x, y = data(network.inputs, n)
    parameters = network.start(seed=3)
    losses, gradients = model.gradients(model.start(seed=9), x, y)
    expected_losses, expected = network.gradients(parameters, x, y)
    assert np.abs(losses - expected_losses).max() < 1e-5
    for ours, theirs in zip(gradients, expected, strict=True):
        formed = theirs.formed()
        assert np.abs(ours.values - formed).max() < 1e-5 * max(1, np.abs(formed).max())
        assert np.abs(formed).max() > 0.01
    assert np.abs(model.predict(parameters, x) - network.predict(parameters, x)).max() < 1e-4


@pytest.mark.parametrize("name", ["dense", "images"])
def test_an_example_gives_the_same_in_every_lot(models, name):
    """Bit for bit: alone, among many, in another place, in a part that is filled up."""
    model, network = models[name]
    x, y = data(network.inputs, 300)
    losses, gradients = model.gradients(model.start(seed=1), x, y)
    for index in ([5], [299, 5], list(range(1, 300)), list(range(299, -1, -2))):
        some, part = model.gradients(model.start(seed=1), x[index], y[index])
        assert (some == losses[index]).all()
        assert all((a.values[index] == b.values).all() for a, b in zip(gradients, part, strict=True))
    assert is_batch_invariant(model)


STRANGE = [
    lambda s: 1e30 * jnp.exp(s), lambda s: s / 0, lambda s: jnp.log(-jnp.abs(s)), lambda s: 1e-30 * s,
    lambda s: jnp.where(s > 0, jnp.inf, s), lambda s: jnp.sqrt(s - s) * s, lambda s: 1e5 * s,
]  # fmt: skip


@pytest.mark.parametrize("bend", STRANGE)
@pytest.mark.parametrize("copies", [1, 2])
def test_one_example_changes_the_sum_by_at_most_units(bend, copies):
    """Whatever the function returns, and the data are."""
    model = line(lambda p, x, y: bend(x @ p["a"] * p["b"] - y), {"a": np.ones(3), "b": np.float32(0.5)})
    x = np.array([[1, 2, 3], [np.nan, 0, 1], [np.inf, 1, 1], [3e38, -3e38, 3e38], [1e-38, 0, 0], [0, 0, 0]])
    x, y = model.examples(x), model.loss.targets(np.array([0, 1e300, np.nan, -np.inf, 1, 1]), model.outputs)
    run = recipe(copies=copies, adaptive=Adaptive())
    state = State.start(model, run)
    everyone = np.arange(len(x))
    whole = contributions(model, state, x, y, everyone, run)
    for left in everyone:
        fewer = contributions(model, state, x, y, np.delete(everyone, left), run)
        change = sum(v**2 for v in (whole - fewer).tolist())
        assert change <= UNITS**2


def test_an_ordinary_example_uses_its_norm():
    """The bound above is not kept by adding nothing."""
    model = line()
    run = recipe(curve=0)
    x, y = np.full((1, 3), 9, np.float32), np.full(1, 5, np.float32)
    total = contributions(model, State.start(model, run), x, y, np.arange(1), run)
    assert 0.99 * UNITS < np.linalg.norm(total) <= UNITS


def test_sums_do_not_depend_on_the_parts():
    model = line(start=np.zeros((3, 1 << 15)))
    x, y = data((3,), 40)[0], np.ones(40, np.float32)
    some, more = (
        contributions(model, State.start(model, run), x, y, np.arange(40), run)
        for run in (recipe(memory=1 << 20), recipe(memory=1 << 27))
    )
    assert (some == more).all()
    assert np.abs(some[:-RIDERS]).max() > 0


@pytest.mark.parametrize("optimizer", [Sgd("0.5", momentum="0.5"), Adam("0.05")])
def test_training_learns(models, optimizer):
    model, network = models["dense"]
    x, _ = data(network.inputs, 1200)
    y = x[:, :3].argmax(axis=1)
    run = recipe(rate="0.25", lot=300, steps=60, multiplier="0.7", optimizer=optimizer, average="0.9")
    state = train(model, x, y, run, entropy=DeterministicEntropy(1))
    right = (model.predict(finished(state, run), x).argmax(axis=1) == y).mean()
    assert right > 0.8
    assert np.mean(state.losses[-10:]) < np.mean(state.losses[:10])
    tree = model.tree(finished(state, run))
    assert set(tree) == {"first", "second"}
    assert np.abs(dense_output(tree, x) - model.predict(finished(state, run), x)).max() < 1e-4


def test_trees_of_every_form_and_numbers_without_an_axis():
    start = {"layers": [(np.ones(3), 0.5), ()], "nothing": None, "b": jnp.zeros((1, 2))}

    def loss(p, x, y):
        (slope, shift), _ = p["layers"]
        return (x @ slope + shift + p["b"].sum() - y) ** 2

    model = line(loss, start)
    x = data((3,), 50)[0]
    for optimizer in (Sgd("0.1", momentum="0.9"), Adam("0.1")):
        run = recipe(optimizer=optimizer, average="0.5", per_layer=True)
        state = train(model, x, np.ones(50), run, entropy=DeterministicEntropy(2))
        assert [p.shape for p in state.parameters] == [(1, 2), (3,), ()]
        assert all(p.dtype == np.float32 for p in state.parameters)
    assert jax.tree_util.tree_structure(model.tree(state.parameters)) == jax.tree_util.tree_structure(start)
    assert all(p.base is None and (p == q).all() for p, q in zip(model.start(seed=1), model.start(seed=2), strict=True))


def test_starting_values_are_not_changed_by_a_run():
    model, before = line(), np.zeros(3)
    train(model, np.ones((20, 3)), np.ones(20), recipe(lot=10), entropy=DeterministicEntropy(1))
    assert (model.start(seed=1)[0] == before).all()


def test_empty_lots_and_no_data():
    model = line()
    losses, gradients = model.gradients(model.start(seed=1), np.zeros((0, 3)), np.zeros(0))
    assert losses.shape == (0,)
    assert gradients[0].shape == (3,)
    state = train(model, np.zeros((0, 3)), np.zeros(0), recipe(), entropy=DeterministicEntropy(1))
    assert state.step == 3
    assert np.abs(state.parameters[0]).max() > 0  # noise alone


def test_whole_numbers_as_examples():
    """Words of a text, say."""

    def loss(p, words, target):
        return (p[words].mean() - target) ** 2

    model = JaxModel(loss, np.zeros(10), example=np.zeros(4, np.int64), target=0.0)
    words = np.array([[1, 2, 3, 4], [0, 0, 0, 0]])
    _, (gradient,) = model.gradients(model.start(seed=1), model.examples(words), np.ones(2))
    assert gradient.values.tolist() == [[0, -0.5, -0.5, -0.5, -0.5, 0, 0, 0, 0, 0], [-2, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
    train(model, words, np.ones(2), recipe(steps=1), entropy=DeterministicEntropy(1))
    for wrong in (words + 0.5, words + 2**31, words.astype("U3")):
        with pytest.raises(InvalidData, match="examples"):
            model.examples(wrong)


def test_targets_of_several_numbers():
    model = line(start=np.zeros((3, 2)), target=np.zeros(2))
    state = train(model, np.ones((20, 3)), np.ones((20, 2)), recipe(lot=10), entropy=DeterministicEntropy(1))
    assert state.step == 3


def test_the_function_runs_only_on_placeholders():
    """It sees one example, and no numbers: there is nothing that it could remember or mix."""
    seen = []

    def loss(p, x, y):
        seen.append(x)
        return squared(p, x, y)

    model = line(loss)
    before = len(seen)
    train(model, np.ones((300, 3)), np.ones(300), recipe(), entropy=DeterministicEntropy(1))
    assert len(seen) == before
    assert all(isinstance(x, jax.core.Tracer) and x.shape == (3,) for x in seen)


def test_rules_of_batching_that_mix_examples_are_not_followed():
    @jax.custom_batching.custom_vmap
    def total(x):
        return x.sum()

    @total.def_vmap
    def _(size, batched, x):
        return jnp.full(size, x.sum()), True

    frozen = jax.custom_vjp(total)
    frozen.defvjp(lambda x: (total(x), total(x)), lambda kept, g: (kept * g * jnp.ones(3),))
    assert jax.vmap(frozen)(jnp.ones((4, 3))).tolist() == [12] * 4  # with vmap they would mix
    model = line(lambda p, x, y: frozen(p * x))
    losses, gradients = model.gradients([np.ones(3, np.float32)], np.ones((4, 3)), np.zeros(4))
    assert losses.tolist() == [3] * 4
    assert gradients[0].values.tolist() == [[3, 3, 3]] * 4


def test_statistics_of_a_batch_have_no_batch():
    def loss(p, x, y):
        return squared(p, x - jax.lax.pmean(x, "batch"), y)

    with pytest.raises(InvalidParameter, match="unbound axis name"):
        line(loss)


def callback(p, x, y):
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    return squared(p, x, y) + jax.pure_callback(lambda v: np.float32(0), shape, jax.lax.stop_gradient(x))


def printing(p, x, y):
    jax.debug.print("{}", x)
    return squared(p, x, y)


def hidden(p, x, y):
    return jax.lax.cond(y > 0, lambda: jax.jit(callback)(p, x, y), lambda: jnp.float32(0))


@pytest.mark.parametrize("loss", [callback, printing, hidden])
def test_programs_that_call_outside_are_refused(loss):
    with pytest.raises(InvalidParameter, match="without callbacks"):
        line(loss)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda p, x, y: x * p, r"got \(3,\), expected one number"),
        (lambda p, x, y: (x @ p)[None], r"got \(1,\), expected one number"),
        (lambda p, x, y: (x @ p, x), "got 'tuple', expected one array"),
        (lambda p, x, y: None, "got 'NoneType', expected one array"),
        (lambda p, x, y: jnp.argmax(x @ p), "got 'int32', expected one array"),
        (lambda p, x, y: x @ p[:2], "failed with TypeError"),
        (lambda p, x, y: float(x @ p), "failed with ConcretizationTypeError"),
        (lambda p, x: x @ p, "failed with TypeError"),
        ("loss", "a function written in JAX"),
    ],
)
def test_functions_that_are_no_loss_are_refused(loss, words):
    with pytest.raises(InvalidParameter, match=words):
        line(loss)


@pytest.mark.parametrize(
    "start",
    [
        {}, [], {"a": "text"}, {"a": np.zeros(3, np.int64)}, {"a": True}, {"a": np.zeros(0)}, {"a": object()},
        {"a": np.array([1, np.nan])}, {"a": [np.float64(1e300)]}, {"a": np.zeros(3, complex)}, {"a": {1, 2}},
    ],
)  # fmt: skip
def test_bad_trees_are_refused(start):
    with pytest.raises(InvalidParameter, match="parameters: got"):
        line(start=start)


@pytest.mark.parametrize("sample", ["text", None, np.zeros((0, 3)), [[1], [1, 2]], 1j])
@pytest.mark.parametrize("name", ["example", "target"])
def test_samples_that_are_no_numbers_are_refused(name, sample):
    with pytest.raises(InvalidParameter, match=f"{name}: got"):
        line(**{name: sample})


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.ones((5, 4)), np.ones(5), r"examples of shape \(5, 4\), expected \(n, 3\)"),
        (np.ones((5, 1)), np.ones(5), r"examples of shape \(5, 1\)"),
        (np.float64(1), np.ones(5), r"examples of shape \(\)"),
        ([[1, 2, 3], [1]], np.ones(2), "examples that are no array"),
        (np.full((5, 3), "a"), np.ones(5), "examples of type <U1, expected numbers"),
        (np.ones((5, 3)), np.ones(4), "5 examples but 4 targets"),
        (np.ones((5, 3)), np.ones((5, 1)), r"targets of shape \(5, 1\), expected \(n\)"),
        (np.ones((5, 3)), np.full(5, None), "targets of type object, expected numbers"),
    ],
)
def test_data_of_the_wrong_form_are_refused(x, y, words):
    with pytest.raises(InvalidData, match=words):
        train(line(), x, y, recipe())


def test_classes_are_whole_numbers(models):
    model, network = models["dense"]
    with pytest.raises(InvalidData, match="targets of type float64, expected whole numbers"):
        train(model, np.ones((5, 7)), np.ones(5) / 2, recipe())


def test_parameters_of_the_wrong_form_are_refused():
    model = line()
    for wrong in ([], [np.zeros(2)], [np.zeros(3), np.zeros(3)]):
        with pytest.raises(InvalidData, match="parameters of shapes"):
            model.gradients(wrong, np.ones((1, 3)), np.ones(1))
    with pytest.raises(InvalidData, match="1 examples but 2 targets"):
        model.gradients(model.start(seed=1), np.ones((1, 3)), np.ones(2))
    with pytest.raises(InvalidParameter, match="give it to JaxModel"):
        model.predict(model.start(seed=1), np.ones((1, 3)))


def test_a_run_resumes_from_its_checkpoint_and_no_other_program_does(tmp_path):
    x, y, run = np.ones((20, 3)), np.ones(20), recipe(lot=10)
    path = tmp_path / "run.npz"
    kept = train(line(), x, y, run, checkpoint=Checkpoint(path, every=1), entropy=DeterministicEntropy(1))
    again = train(line(), x, y, run, checkpoint=Checkpoint(path, every=1), entropy=DeterministicEntropy(2))
    assert (again.parameters[0] == kept.parameters[0]).all()
    factor = jnp.float32(2)
    other = line(lambda p, x, y: factor * squared(p, x, y))
    with pytest.raises(InvalidData, match="another network"):
        train(other, x, y, run, checkpoint=Checkpoint(path, every=1))


def test_constants_of_the_function_are_part_of_what_it_is_known_by():
    def with_weights(weights):
        def loss(p, x, y):
            return squared(p, weights * x, y)

        return repr(line(loss))

    for kind in (np, jnp):
        assert with_weights(kind.ones(3)) == with_weights(kind.ones(3))
        assert with_weights(kind.ones(3)) != with_weights(kind.arange(3.0))


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtra, match=r"pip install 'discreet\[jax\]'"):
        line()


def test_importing_the_module_does_not_import_jax():
    code = "import sys, discreet.learning.networks.jax_model; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
