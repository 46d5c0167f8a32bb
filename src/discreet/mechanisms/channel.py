"""Any finite mechanism as a stochastic matrix, and the answer to "is it private?".

A `Channel` gives, for each input (row), the probability of each output (column). It is a frozen value. Its
entries are exact (Fractions) or float64, decided when it is made: exact channels give exact answers.

>>> from discreet.mechanisms.channel import Channel
>>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]], inputs=["yes", "no"], outputs=["yes", "no"])
>>> coin.ratio("all"), coin.epsilon("all")
(Fraction(3, 1), 1.0986122886681098)
>>> print(Channel([[1, 0], [0, 1]]).worst("all"))
output 0 has probability 1 for input 0 and 0 for its neighbor 1
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from discreet.errors import InvalidChannel, InvalidParameter
from discreet.exact import Number, exp_down, printed_up, rational
from discreet.mechanisms import divergence
from discreet.mechanisms.divergence import Witness
from discreet.mechanisms.neighbor_graph import Graph, Metric, Neighborhood, distances, graph
from discreet.mechanisms.stochastic import (
    Label,
    Matrix,
    Rows,
    alike,
    as_floats,
    check_rows,
    normalized,
    position,
    positions,
    product,
    read_labels,
    read_matrix,
    times,
)

_MOST_CELLS = 50_000_000
_MOST_EPSILON = 10_000


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Channel:
    """A stochastic matrix with labeled inputs (rows) and outputs (columns).

    If any entry is a float all are float64 and rows must sum to 1 within 1e-9; otherwise (ints, Fractions,
    "0.25", "1/3") all are exact and rows must sum to exactly 1. `normalize=True` divides each row by its sum.

    >>> Channel([[1, 2], [3, 1]], inputs="ab", normalize=True)
    Traceback (most recent call last):
    discreet.errors.InvalidChannel: inputs: got 'ab', expected a list of 2 labels
    >>> Channel([[1, 2], [3, 1]], inputs=["a", "b"], normalize=True).probability("a", 1)
    Fraction(2, 3)
    """

    matrix: Matrix
    inputs: tuple[Label, ...]
    outputs: tuple[Label, ...]

    def __init__(
        self,
        matrix: Rows,
        inputs: Iterable[Label] | None = None,
        outputs: Iterable[Label] | None = None,
        *,
        normalize: bool = False,
    ) -> None:
        entries, rows, columns = read_matrix(matrix, inputs, outputs)

        def name(i: int) -> str:
            return f"row {rows[i]!r}"

        if normalize:
            entries = normalized(entries, name)
        check_rows(entries, name, columns)
        self._set(entries, rows, columns)

    @classmethod
    def _of(cls, matrix: Matrix, inputs: tuple[Label, ...], outputs: tuple[Label, ...]) -> Self:
        """A channel from entries that are known to be stochastic."""
        channel = object.__new__(cls)
        channel._set(matrix, inputs, outputs)
        return channel

    def _set(self, matrix: Matrix, inputs: tuple[Label, ...], outputs: tuple[Label, ...]) -> None:
        matrix.setflags(write=False)
        for name, value in (("matrix", matrix), ("inputs", inputs), ("outputs", outputs)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "float"
        return f"Channel({len(self.inputs)} inputs × {len(self.outputs)} outputs, {kind})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Channel):
            return NotImplemented
        same = (self.inputs, self.outputs, self.exact) == (other.inputs, other.outputs, other.exact)
        return same and bool(np.array_equal(self.matrix, other.matrix))

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs))

    @property
    def exact(self) -> bool:
        """Whether the entries are Fractions."""
        return self.matrix.dtype == object

    def probability(self, given: Label, output: Label) -> Any:
        """p(output | given).

        >>> identity(["a", "b"]).probability("a", "b")
        Fraction(0, 1)
        """
        return self.matrix[position(given, self.inputs, "input"), position(output, self.outputs, "output")]

    # How private it is

    def worst(self, neighbors: Neighborhood) -> Witness | None:
        """The neighbors and the output with the largest likelihood ratio; None where nothing tells any apart.

        >>> constant(["a", "b"], "hello").worst("all") is None
        True
        """
        place = divergence.worst(self.matrix, graph(neighbors, self.inputs))
        return None if place is None else self._witness(place)

    def ratio(self, neighbors: Neighborhood) -> Fraction | float:
        """e^ε for the tightest ε: the largest p(z|x)/p(z|x') over neighbors; exact if the channel is, or inf.

        >>> identity(["a", "b"]).ratio("all"), uniform(["a", "b"], [0, 1, 2]).ratio("all")
        (inf, Fraction(1, 1))
        """
        result = self.worst(neighbors)
        if result is None:
            return Fraction(1) if self.exact else 1.0
        if not result.neighbor_probability:
            return math.inf
        ratio = Fraction(result.probability) / Fraction(result.neighbor_probability)
        return ratio if self.exact else printed_up(ratio)

    def epsilon(self, neighbors: Neighborhood, *, delta: Number = 0) -> float:
        """The tightest ε for which the channel is ε-DP, or (ε,δ)-DP for the δ given; `inf` where there is none.

        Guarantee: for an exact channel the true value is never above the decimal returned, and no float nearer has that
        property; for a float channel the answer is that of the entries given, to float precision.

        >>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]])
        >>> coin.epsilon("all"), coin.epsilon("all", delta="1/4"), coin.epsilon("all", delta="1/2")
        (1.0986122886681098, 0.6931471805599454, 0.0)
        """
        spare = rational(delta, "delta", at_least=0, at_most=1)
        if not spare:
            result = self.worst(neighbors)
            return divergence.rounded_up(result.log_ratio()) if result else 0.0
        growth = divergence.growth_for_delta(self.matrix, spare, graph(neighbors, self.inputs))
        return math.inf if growth == math.inf else printed_up(divergence.log_ratio_up(Fraction(growth)))

    def delta(self, epsilon: Number, neighbors: Neighborhood) -> float:
        """The least δ for which the channel is (ε,δ)-DP, rounded up; see `divergence.hockey_stick`.

        Guarantee: e^ε is rounded down, and the divergence falls as e^ε grows, so for an exact channel the true
        δ is never above the decimal returned.

        >>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]])
        >>> coin.delta(0, "all"), coin.delta(coin.epsilon("all"), "all")
        (0.5, 0.0)
        """
        return self._delta(epsilon, graph(neighbors, self.inputs))

    def curve(
        self, neighbors: Neighborhood, epsilons: Sequence[Number] | None = None
    ) -> tuple[tuple[float, float], ...]:
        """Points (ε, δ(ε)) at the ε given, else at 21 even steps up to the tightest ε (to 5 where it is inf).

        >>> Channel([["3/4", "1/4"], ["1/4", "3/4"]]).curve("all", [0, 1])
        ((0.0, 0.5), (1.0, 0.07042...))
        """
        near = graph(neighbors, self.inputs)
        if epsilons is None:
            most = self.epsilon(near)
            most = min(most, _MOST_EPSILON) if math.isfinite(most) else 5.0
            epsilons = [most * k / 20 for k in range(21)]
        return tuple((float(rational(e, "epsilon")), self._delta(e, near)) for e in epsilons)

    def d_privacy(self, metric: Metric) -> float:
        """The tightest ε with p(z|x) ≤ e^{ε·d(x,x')}·p(z|x') for all inputs and outputs (C4), rounded up.

        Different inputs at distance 0 must have equal rows, else there is no such ε (`inf`); an infinite
        distance is no constraint. The Hamming distance gives central, "discrete" gives local differential privacy
        (Chatzikokolakis, Andrés, Bordenabe, Palamidessi 2013).

        >>> Channel([["4/7", "2/7", "1/7"], ["2/7", "3/7", "2/7"], ["1/7", "2/7", "4/7"]]).d_privacy("line")
        0.6931471805599454
        """
        away = distances(metric, self.inputs)
        tightest: Fraction | float = Fraction(0)
        for place in divergence.worst_by_distance(self.matrix, away):
            apart = rational(away[place[0], place[1]], "distance")
            gap = self._witness(place).log_ratio()
            need = math.inf if gap == math.inf or not apart else gap / apart
            tightest = max(tightest, need)
        return divergence.rounded_up(tightest)

    def _delta(self, epsilon: Number, near: Graph) -> float:
        growth = exp_down(rational(epsilon, "epsilon", at_least=0, at_most=_MOST_EPSILON), divergence.BITS)
        if not self.exact:
            growth = min(growth, Fraction(10) ** 300)  # a float; less growth only means more δ
        excess = divergence.hockey_stick(self.matrix, growth, near)
        return printed_up(excess) if self.exact else float(excess)

    def _witness(self, place: divergence.Place) -> Witness:
        x, y, z = place
        p, q = self.matrix[x, z], self.matrix[y, z]
        if not self.exact:
            p, q = float(p), float(q)
        return Witness(self.inputs[x], self.inputs[y], self.outputs[z], p, q)

    # New channels from old

    def then(self, post: "Channel") -> "Channel":
        """Post-processing: give each output to another channel.

        Guarantee: ε and δ do not grow (Dwork, Roth 2014, Prop. 2.1): p(w|x) = Σ_z H(w|z)·p(z|x) is a mixture of
        the outcomes of randomized functions, each of which obeys the bound on the preimage.

        >>> identity(["a", "b"]).then(constant(["a", "b"], 0)).outputs
        (0,)
        """
        rows = positions(self.outputs, post.inputs, "input of the second channel")
        first, second = alike(self.matrix, post.matrix[rows])
        return Channel._of(product(first, second), self.inputs, post.outputs)

    def merge(self, function: Callable[[Any], Label]) -> "Channel":
        """Post-processing by a function: outputs with the same image become one.

        >>> uniform(["a"], [0, 1, 2, 3]).merge(lambda z: z % 2).matrix
        array([[Fraction(1, 2), Fraction(1, 2)]], dtype=object)
        """
        return self.then(deterministic(function, self.outputs))

    def compose(self, other: "Channel") -> "Channel":
        """Both releases of the same input, with independent coins; outputs are pairs.

        Guarantee: the ε's add (Dwork, Roth 2014, Thm 3.14): the likelihood ratio of a pair is the product.

        >>> fair = uniform(["a"], ["heads", "tails"])
        >>> fair.compose(fair).outputs[1]
        ('heads', 'tails')
        """
        a, b = alike(self.matrix, other.matrix[positions(self.inputs, other.inputs, "input of the second channel")])
        _check_size(a.shape[0], a.shape[1], b.shape[1])
        outputs = tuple((z, w) for z in self.outputs for w in other.outputs)
        return Channel._of(times(a[:, :, None], b[:, None, :]).reshape(len(a), -1), self.inputs, outputs)

    def product(self, other: "Channel") -> "Channel":
        """Two channels side by side, each on its own input; inputs and outputs are pairs.

        >>> identity([0, 1]).product(identity(["a"])).inputs
        ((0, 'a'), (1, 'a'))
        """
        a, b = alike(self.matrix, other.matrix)
        _check_size(*a.shape, *b.shape)
        entries = times(a[:, None, :, None], b[None, :, None, :]).reshape(len(a) * len(b), -1)
        inputs = tuple((x, y) for x in self.inputs for y in other.inputs)
        return Channel._of(entries, inputs, tuple((z, w) for z in self.outputs for w in other.outputs))

    def mix(self, other: "Channel", *, weight: Number) -> "Channel":
        """With probability `weight` the other channel (of the same outputs), else this one.

        >>> identity([0, 1]).mix(uniform([0, 1], [0, 1]), weight="1/2").probability(0, 0)
        Fraction(3, 4)
        """
        part = rational(weight, "weight", at_least=0, at_most=1)
        rows = positions(self.inputs, other.inputs, "input of the second channel")
        columns = positions(self.outputs, other.outputs, "output of the second channel")
        if len(columns) != len(other.outputs):
            raise InvalidChannel(f"mix: the outputs differ: {len(columns)} and {len(other.outputs)}; name them alike")
        a, b = alike(self.matrix, other.matrix[np.ix_(rows, columns)])
        shares = alike(a, np.array([1 - part, part]))[1]
        return Channel._of(times(a, shares[0]) + times(b, shares[1]), self.inputs, self.outputs)

    def restrict(self, inputs: Iterable[Label]) -> "Channel":
        """The same channel for some of its inputs, in the order given.

        >>> identity(["a", "b", "c"]).restrict(["c", "a"]).inputs
        ('c', 'a')
        """
        names = list(inputs)
        rows = positions(names, self.inputs, "input")
        kept = read_labels([self.inputs[i] for i in rows], len(rows), "input")
        if not kept:
            raise InvalidChannel("restrict: no inputs were given; name at least one")
        return Channel._of(self.matrix[rows], kept, self.outputs)

    def as_float(self) -> "Channel":
        """The same channel in float64: faster, and no longer exact. Refused where an entry is too small for a float.

        >>> uniform(["a"], [0, 1]).as_float()
        Channel(1 inputs × 2 outputs, float)
        """
        return Channel._of(as_floats(self.matrix), self.inputs, self.outputs)


def deterministic(
    function: Callable[[Any], Label], inputs: Iterable[Label], outputs: Iterable[Label] | None = None
) -> Channel:
    """The channel that answers function(input); outputs are the images in order of appearance, unless given.

    >>> deterministic(lambda x: x > 1, [0, 1, 2]).outputs
    (False, True)
    """
    names = list(inputs)
    rows = read_labels(names, len(names), "input")
    images = [function(x) for x in rows]
    try:
        listed = list(dict.fromkeys(images) if outputs is None else outputs)
    except TypeError:
        raise InvalidChannel(
            "the function gives what cannot be a label; let it give texts, numbers or tuples"
        ) from None
    columns = read_labels(listed, len(listed), "output")
    if not rows or not columns:
        raise InvalidChannel("a channel has at least one input and one output; none were given")
    entries = np.full((len(rows), len(columns)), Fraction(0), dtype=object)
    entries[np.arange(len(rows)), positions(images, columns, "output")] = Fraction(1)
    return Channel._of(entries, rows, columns)


def identity(labels: Iterable[Label]) -> Channel:
    """The channel that tells the truth.

    >>> identity(["a", "b"]).epsilon("all")
    inf
    """
    names = list(labels)
    return deterministic(lambda x: x, names, names)


def constant(inputs: Iterable[Label], output: Label) -> Channel:
    """The channel that always says the same.

    >>> constant(["a", "b"], 150).epsilon("all")
    0.0
    """
    return deterministic(lambda _: output, inputs, [output])


def uniform(inputs: Iterable[Label], outputs: Iterable[Label]) -> Channel:
    """The channel whose output is uniform, whatever the input.

    >>> uniform(["a"], ["x", "y"]).probability("a", "y")
    Fraction(1, 2)
    """
    rows, columns = list(inputs), list(outputs)
    if not columns:
        raise InvalidParameter("outputs", columns, "at least one label")
    return Channel([[Fraction(1, len(columns))] * len(columns) for _ in rows], rows, columns)


def _check_size(*lengths: int) -> None:
    if math.prod(lengths) > _MOST_CELLS:
        size = " × ".join(str(length) for length in lengths)
        raise InvalidChannel(f"the composed channel would have {size} entries; merge outputs first (`merge`)")
