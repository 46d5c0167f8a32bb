"""Gradients of a lot, in blocks of one fixed shape: so that an example's gradient does not depend on its company.

A matrix product of float32 numbers is rounded in an order that the linear algebra library chooses by the *shape* of
the product: in a lot of 600 and in a lot of 601 the same example has gradients that differ in the last bit. A last bit
can be a whole step of a rider (is the norm below the bound?) or open a ReLU, and then one example more changes what the
others contribute: the sensitivity would not be what it is said to be. So a lot is cut into blocks, the last is filled
up with zeros whose results are dropped, and all products have the same shape whoever is in the lot. That rows do not
depend on their place within such a block is checked here, for the network and the library at hand, before training.

>>> import numpy as np
>>> from discreet.learning.blocks import gradients_of, steady_size
>>> from discreet.learning.layers import Dense
>>> from discreet.learning.losses import Softmax
>>> from discreet.learning.network import Network
>>> network = Network([Dense(2)], Softmax(), inputs=(3,))
>>> parameters, x, y = network.start(seed=1), np.eye(3, dtype=np.float32), np.array([0, 1, 1])
>>> losses, gradients = gradients_of(network, parameters, x, y, size=steady_size(network))
>>> losses.shape, gradients[0].left.shape
((3,), (3, 4))
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.learning.gradients import Array, Gradient
from discreet.learning.network import Augment, Network
from discreet.learning.starting import normal

_SIZES = (128, 64, 32, 16, 8, 4, 2, 1)


def gradients_of(
    network: Network,
    parameters: Sequence[Array],
    x: Array,
    y: NDArray[Any],
    *,
    size: int,
    augment: Augment | None = None,
    copies: int = 1,
) -> tuple[NDArray[np.float32], list[Gradient]]:
    """Each example's loss and gradients, computed `size` at a time.

    Guarantee: what an example gets depends on the example and the parameters alone. Proof. All blocks have the same
    shape, and rows of a block do not depend on one another (each layer works example by example) nor on their place in
    it (`steady_size`); rows that fill up the last block are dropped.
    """
    blocks = [
        network.mean_gradients(parameters, own_x, own_y, augment, copies) for own_x, own_y in _blocks(x, y, size)
    ]
    losses = np.concatenate([losses for losses, _ in blocks])[: len(x)]
    kinds = zip(*(gradients for _, gradients in blocks), strict=True)
    return losses, [_joined(same, len(x)) for same in kinds]


def _blocks(x: Array, y: NDArray[Any], size: int) -> Iterator[tuple[Array, NDArray[Any]]]:
    for start in range(0, len(x), size):
        own_x, own_y = x[start : start + size], y[start : start + size]
        if len(own_x) < size:
            own_x, own_y = (_filled(part, size) for part in (own_x, own_y))
        yield own_x, own_y


def _filled(rows: NDArray[Any], size: int) -> NDArray[Any]:
    full = np.zeros((size, *rows.shape[1:]), rows.dtype)
    full[: len(rows)] = rows
    return full


def _joined(parts: Sequence[Gradient], count: int) -> Gradient:
    """Gradients of several blocks as those of one lot: every array of a gradient has one row for each example."""
    first = parts[0]
    if len(parts) == 1:
        return type(first)(*(getattr(first, field.name)[:count] for field in fields(first)))
    arrays = (np.concatenate([getattr(part, field.name) for part in parts])[:count] for field in fields(first))
    return type(first)(*arrays)


@lru_cache(maxsize=64)
def steady_size(network: Network, copies: int = 1) -> int:
    """The largest size of blocks, up to 128, in which rows do not depend on their place, by trial on public numbers."""
    return next(size for size in _SIZES if _steady(network, size, copies))


def _steady(network: Network, size: int, copies: int) -> bool:
    if size == 1:
        return True
    draw = normal(0)
    x = draw((size, *network.inputs)).astype(np.float32)
    y = network.loss.targets(np.zeros((size, *network.outputs), np.int64)[:, 0], network.outputs)
    parameters = network.start(seed=0)
    before = _rows(network, parameters, x, y, copies)
    for shift in (1, size // 2, size - 1):
        after = _rows(network, parameters, np.roll(x, shift, axis=0), y, copies)
        if not all(np.array_equal(np.roll(a, shift, axis=0), b) for a, b in zip(before, after, strict=True)):
            return False
    return True


def _rows(network: Network, parameters: Sequence[Array], x: Array, y: NDArray[Any], copies: int) -> list[NDArray[Any]]:
    losses, gradients = network.mean_gradients(parameters, x, y, None, copies)
    return [losses, *(side for gradient in gradients for side in gradient.sides)]
