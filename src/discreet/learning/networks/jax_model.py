"""Models of another library: any JAX function of parameters, one example and its target, trained by `training.train`.

JAX computes the gradient of each example and nothing else; clipping, exact sums and noise are those of every other
network. It is an extra: pip install 'discreet[jax]'.

>>> import numpy as np
>>> from discreet.learning.networks.jax_model import JaxModel
>>> def loss(parameters, example, target):
...     return (example @ parameters["slope"] + parameters["start"] - target) ** 2
>>> zeros = {"slope": np.zeros(3), "start": np.zeros(())}
>>> model = JaxModel(loss, zeros, example=np.zeros(3), target=0.0)
>>> losses, gradients = model.gradients(model.start(seed=1), np.eye(2, 3), np.array([1.0, 2.0]))
>>> losses.tolist(), gradients[1].values.tolist(), gradients[0].shape
([1.0, 4.0], [-2.0, -4.0], (3,))

Whole networks are quicker in NumPy (`network`), where the gradients of dense layers are never formed: the measurements,
and why there is no adapter for PyTorch, are in docs/decisions/0010-foreign-models.md.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter, MissingExtra
from discreet.learning.sgd.gradients import Array, Augment, Gradient, Parameters, Rows

LossFunction = Callable[[Any, Any, Any], Any]
"""(parameters, one example, its target) → one number."""

_ROOM = 1 << 24  # bytes of gradients that JAX forms at a time: they are read again while still in the cache
_MOST = 128  # examples at a time
_OUTSIDE = ("callback", "ffi", "infeed", "outfeed", "print")  # parts of names of operations that leave the program


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class JaxModel:
    """A loss written in JAX, as a network that `train` takes. Parameters are a tree (pytree) of arrays of numbers.

    `parameters` are the values to start from, `example` and `target` any public values of the right shape and kind
    (whole numbers or numbers). `predict`, a function of parameters and one example, is needed for `predict` alone.

    Guarantee: the loss and the gradients of an example depend on it, its target, the parameters and the program alone,
    bit for bit: not on the other examples of its lot, how many they are, or its place among them. So, with
    `clipped_sum`, one example more or less changes what a lot adds up to by a vector of norm at most UNITS, whatever
    the function returns, NaN and infinities among it. The function and the parameters to start from must be public:
    nobody can look into them for private rows.

    Proof. The function is traced, with a placeholder for a single example: it never runs on data, and what it
    computes from other examples, statistics of a batch say, cannot be written down. The program that results is refused
    if it leaves itself (callbacks, effects, foreign calls), through which examples could meet; then it is compiled
    once, ahead of time. What is compiled is a loop over a fixed number of examples whose body is that program; rows
    that are missing are zeros, whose results are thrown away. So the same instructions see an example whatever the
    others. `vmap` instead would show the body all examples at once, rounding products by rows that are not the
    example's, and would follow rules of batching that the function may bring along. It computes on the processor: on
    other devices the order of sums may change from run to run. What is not promised by XLA is that the loop stays a
    loop and treats its turns alike; `batch_invariance` tries it on public numbers before a run.
    """

    inputs: tuple[int, ...]
    _name: str
    _tree: Any
    _begin: tuple[Array, ...]
    _examples: "_Kind"
    _targets: "_Kind"
    _gradients: "_Program"
    _predict: "_Program | None"

    def __init__(
        self,
        loss: LossFunction,
        parameters: Any,
        *,
        example: Any,
        target: Any,
        predict: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        put = object.__setattr__
        leaves, tree = _flattened(parameters)
        examples, targets = _Kind.of(example, "example"), _Kind.of(target, "target")
        put(self, "inputs", examples.shape)
        put(self, "_name", getattr(loss, "__qualname__", type(loss).__name__))
        put(self, "_tree", tree)
        put(self, "_begin", leaves)
        put(self, "_examples", examples)
        put(self, "_targets", targets)
        put(self, "_gradients", _gradients(loss, tree, leaves, examples, targets))
        put(self, "_predict", None if predict is None else _prediction(predict, tree, leaves, examples))

    def __repr__(self) -> str:
        """The same for the same program: a checkpoint knows its run by it."""
        return f"JaxModel({self._name}, inputs={self.inputs}, program={self._gradients.mark})"

    def start(self, *, seed: int) -> Parameters:
        """The parameters to start from, as they were given, whatever the seed."""
        return [leaf.copy() for leaf in self._begin]

    def tree(self, parameters: Sequence[Array]) -> Any:
        """Parameters in the form in which the function takes them.

        >>> model = JaxModel(lambda p, x, y: p["a"] * x - y, {"a": 1.0}, example=0.0, target=0.0)
        >>> model.tree([np.float32(3)])
        {'a': np.float32(3.0)}
        """
        return _jax().tree_util.tree_unflatten(self._tree, list(parameters))

    @property
    def loss(self) -> "_Kind":
        """What reads targets: the loss itself is within the function."""
        return self._targets

    @property
    def outputs(self) -> tuple[int, ...]:
        """One loss, and the shape of one target."""
        return (1, *self._targets.shape)

    @property
    def part(self) -> None:
        """All at once: the compiled program takes them some at a time."""
        return None

    def examples(self, x: Any) -> NDArray[Any]:
        """The examples as the function takes them: float32 or int32, of the declared shape."""
        return self._examples.read(x, "examples")

    def gradients(
        self, parameters: Sequence[Array], x: NDArray[Any], y: NDArray[Any]
    ) -> tuple[NDArray[np.float32], list[Gradient]]:
        """The loss of each example, and each parameter's gradients. See the class for the guarantee."""
        data = self._examples.shaped(x, "examples"), self._targets.shaped(y, "targets")
        if len(data[0]) != len(data[1]):
            raise InvalidData(f"{len(data[0])} examples but {len(data[1])} targets")
        losses, *rows = self._gradients.run(self._leaves(parameters), *data)
        return losses, [Rows(row) for row in rows]

    def mean_gradients(
        self, parameters: Sequence[Array], x: NDArray[Any], y: NDArray[Any], augment: Augment | None, copies: int
    ) -> tuple[NDArray[np.float32], list[Gradient]]:
        """Losses and gradients averaged over several changed copies of each example; see `Network.mean_gradients`."""
        losses, rows = np.zeros(len(x), np.float32), [np.zeros((len(x), *p.shape), np.float32) for p in self._begin]
        for copy in range(copies):
            cost, gradients = self.gradients(parameters, x if augment is None else augment(x, copy), y)
            if copies == 1:
                return cost, gradients
            losses += cost / np.float32(copies)
            for row, gradient in zip(rows, gradients, strict=True):
                np.add(row, gradient.formed() / np.float32(copies), out=row)
        return losses, [Rows(row) for row in rows]

    def predict(self, parameters: Sequence[Array], x: Any) -> Array:
        """What the function `predict` gives for each example.

        >>> model = JaxModel(
        ...     lambda p, x, y: (p * x - y) ** 2, 2.0, example=0.0, target=0.0, predict=lambda p, x: p * x
        ... )
        >>> model.predict(model.start(seed=1), [1, 2, 3]).tolist()
        [2.0, 4.0, 6.0]
        """
        if self._predict is None:
            raise InvalidParameter("predict", None, "a function of parameters and one example", "give it to JaxModel")
        (result,) = self._predict.run(self._leaves(parameters), self.examples(x))
        return result

    def _leaves(self, parameters: Sequence[Array]) -> list[Array]:
        got, expected = [np.shape(p) for p in parameters], [p.shape for p in self._begin]
        if got != expected:
            raise InvalidData(f"parameters of shapes {got}, expected {expected}")
        return [np.asarray(p, np.float32) for p in parameters]


@dataclass(frozen=True, slots=True)
class _Kind:
    """Values of one shape, whole numbers (int32) or numbers (float32)."""

    shape: tuple[int, ...]
    whole: bool

    @classmethod
    def of(cls, sample: Any, name: str) -> "_Kind":
        array = _array(sample)
        if array is None or array.dtype.kind not in "fiub" or not array.size:
            raise InvalidParameter(name, type(sample).__name__, "an array of numbers like those of the data, or one")
        return cls(array.shape, array.dtype.kind != "f")

    @property
    def dtype(self) -> type[np.generic]:
        return np.int32 if self.whole else np.float32

    def read(self, values: Any, name: str) -> NDArray[Any]:
        """Checked: one row for each example. Fractions are no whole numbers; NaN is a number."""
        array = self.shaped(values, name, cast=False)
        if array.dtype.kind not in ("iub" if self.whole else "fiub"):
            raise InvalidData(f"{name} of type {array.dtype}, expected {'whole ' if self.whole else ''}numbers")
        if self.whole and array.size and not -(1 << 31) <= int(array.min()) <= int(array.max()) < 1 << 31:
            raise InvalidData(f"{name} hold whole numbers that need more than 32 bits")
        return self.shaped(array, name)

    def targets(self, y: NDArray[Any], outputs: tuple[int, ...]) -> NDArray[Any]:
        """The targets, checked: what `train` asks of a loss."""
        return self.read(y, "targets")

    def shaped(self, values: Any, name: str, *, cast: bool = True) -> NDArray[Any]:
        """Of the right shape, and type."""
        array = _array(values)
        if array is None or not array.ndim or array.shape[1:] != self.shape:
            got = "that are no array" if array is None else f"of shape {array.shape}"
            raise InvalidData(f"{name} {got}, expected ({', '.join(map(str, ('n', *self.shape)))})")
        with np.errstate(all="ignore"):  # numbers beyond float32 become infinite, and count as nothing
            return np.ascontiguousarray(array, self.dtype) if cast else array

    def rows(self, count: int) -> Any:
        """A placeholder for so many."""
        return _jax().ShapeDtypeStruct((count, *self.shape), self.dtype)

    @property
    def placeholder(self) -> Any:
        """What stands for one of them while a function is traced."""
        return _jax().ShapeDtypeStruct(self.shape, self.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """A compiled program over `part` rows at a time; `shapes` are those of its results, for one row."""

    compiled: Any
    part: int
    shapes: tuple[tuple[int, ...], ...]
    mark: str

    def run(self, leaves: Sequence[Array], *data: NDArray[Any]) -> list[Array]:
        """The results for all rows."""
        count = len(data[0])
        if 0 < count <= self.part:
            return self._once(leaves, data)
        rooms = [np.empty((count, *shape), np.float32) for shape in self.shapes]
        for start in range(0, count, self.part):
            here = slice(start, start + self.part)
            for room, result in zip(rooms, self._once(leaves, [rows[here] for rows in data]), strict=True):
                room[here] = result
        return rooms

    def _once(self, leaves: Sequence[Array], data: Sequence[NDArray[Any]]) -> list[Array]:
        """The results for at most `part` rows; missing ones are zeros for the program, and dropped."""
        result = self.compiled(leaves, *(_filled(rows, self.part) for rows in data))
        with np.errstate(all="ignore"):
            return [np.asarray(values, np.float32)[: len(data[0])] for values in result]


def _filled(rows: NDArray[Any], part: int) -> NDArray[Any]:
    if len(rows) == part:
        return rows
    room = np.zeros((part, *rows.shape[1:]), rows.dtype)
    room[: len(rows)] = rows
    return room


def _gradients(loss: LossFunction, tree: Any, leaves: Sequence[Array], examples: _Kind, targets: _Kind) -> _Program:
    """Losses and gradients, one example after the other."""
    jax = _jax()

    def loss_of_example(values: Any, example: Any, target: Any) -> Any:
        return loss(jax.tree_util.tree_unflatten(tree, values), example, target)

    def each(values: Any, xs: Any, ys: Any) -> list[Any]:
        cost, gradients = jax.lax.map(lambda row: jax.value_and_grad(loss_of_example)(values, *row), (xs, ys))
        return [cost, *gradients]

    shape = _result(loss_of_example, "loss", loss, leaves, examples.placeholder, targets.placeholder).shape
    if shape:
        raise InvalidParameter("result of loss", shape, "one number, of shape ()", "add or average what it gives")
    part = max(1, min(_MOST, _ROOM // (4 * sum(leaf.size for leaf in leaves))))
    return _compiled(each, "loss", part, leaves, examples.rows(part), targets.rows(part))


def _prediction(predict: Callable[[Any, Any], Any], tree: Any, leaves: Sequence[Array], examples: _Kind) -> _Program:
    jax = _jax()

    def prediction(values: Any, example: Any) -> Any:
        return predict(jax.tree_util.tree_unflatten(tree, values), example)

    _result(prediction, "predict", predict, leaves, examples.placeholder)
    each = jax.vmap(prediction, in_axes=(None, 0))
    return _compiled(lambda values, xs: [each(values, xs)], "predict", _MOST, leaves, examples.rows(_MOST))


def _result(of_example: Callable[..., Any], name: str, function: Any, leaves: Sequence[Array], *data: Any) -> Any:
    """The placeholder of what a function gives for one example: one array of numbers."""
    if not callable(function):
        raise InvalidParameter(name, function, "a function written in JAX")
    try:
        result = _jax().eval_shape(of_example, list(leaves), *data)
    except Exception as error:
        shapes = " and ".join(f"{given.dtype} of shape {given.shape}" for given in data)
        why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        hint = f"it was given {shapes} and failed with {why}"
        raise InvalidParameter(name, function, "a function written in JAX", hint) from error
    if not hasattr(result, "dtype") or not np.issubdtype(result.dtype, np.floating):
        kind = str(getattr(result, "dtype", type(result).__name__))
        raise InvalidParameter(f"result of {name}", kind, "one array of floating-point numbers")
    return result


def _compiled(each: Callable[..., Any], name: str, part: int, leaves: Sequence[Array], *data: Any) -> _Program:
    """Traced, looked through, compiled: once."""
    jax = _jax()
    with jax.default_device(jax.devices("cpu")[0]):
        traced = jax.jit(each).trace(list(leaves), *data)
        _require_closed(traced.jaxpr, name)
        lowered = traced.lower()
        shapes = tuple(result.shape[1:] for result in lowered.out_info)
        return _Program(lowered.compile(), part, shapes, hashlib.sha256(lowered.as_text().encode()).hexdigest())


def _require_closed(program: Any, name: str) -> None:
    """Refuse programs that call something outside: examples could meet there, or be seen."""
    results = sorted({word for word in _operations(program.jaxpr) if any(part in word for part in _OUTSIDE)})
    if results or program.effects:
        words = ", ".join(results) or ", ".join(sorted(map(str, program.effects)))
        raise InvalidParameter(name, words, "a function without callbacks, printing or other effects")


def _operations(program: Any) -> Iterator[str]:
    """The names of all operations, of inner programs too."""
    for equation in program.eqns:
        yield str(equation.primitive)
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)  # noqa: PLW2901 (a closed program holds an open one)
                if hasattr(inner, "eqns"):
                    yield from _operations(inner)


def _flattened(parameters: Any) -> tuple[tuple[Array, ...], Any]:
    """The arrays of a tree, float32, and its form."""
    leaves, tree = _jax().tree_util.tree_flatten(parameters)
    arrays = []
    for place, leaf in enumerate(leaves):
        array = _array(leaf)
        if array is None or array.dtype.kind != "f" or not array.size:
            raise InvalidParameter(
                "parameters", type(leaf).__name__, f"arrays of floating-point numbers, leaf {place} too"
            )
        if not np.isfinite(array).all() or np.abs(array).max() > np.finfo(np.float32).max:
            raise InvalidParameter("parameters", f"leaf {place}", "finite numbers within float32")
        arrays.append(np.array(array, np.float32))
    if not arrays:
        raise InvalidParameter("parameters", parameters, "a tree with at least one array")
    return tuple(arrays), tree


def _array(values: Any) -> NDArray[Any] | None:
    try:
        return np.asarray(values)
    except (ValueError, TypeError):
        return None


def _jax() -> Any:
    try:
        import jax
    except ImportError:
        raise MissingExtra("jax", "jax") from None
    return jax
