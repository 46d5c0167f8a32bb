"""One epoch of DP-SGD: against plain SGD in the same library, and against Opacus in its modes.

The network is 60 → 1000 → 10 on 60,000 rows in lots of 600; a wide one, 784 → 1000 → 10, and the small CNN of Opacus'
MNIST example see 6,000 images, scaled to 60,000. Rows are random numbers: time does not depend on what is learned.
For accuracy see examples/mnist.py.

Our own epochs of the network take less than a second, so five of them are timed and divided by five. The import of a
library is not timed.
"""

import math
from collections.abc import Callable
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

ROWS, LOT = 60_000, 600
IMAGES = 6_000
INPUTS = {"dense": 60, "wide": 784}
EPOCHS = 5  # of ours that take half a second each: a machine is not quiet for so short a time
DENSE = "60 → 1000 → 10, lot 600, one epoch"
WIDE = "784 → 1000 → 10, lot 600, one epoch"
CNN = "small CNN, lot 600, one epoch of 60,000 images"


def comparison(*, quick: bool) -> Comparison:
    """Issue 6: at most 1.6 × plain SGD, 2 × less CPU than Opacus' ghost mode, 40 × less than its hooks."""
    rows, images = (ROWS // 20, IMAGES // 5) if quick else (ROWS, IMAGES)
    wide = _of(WIDE, "wide", images, images / ROWS)
    parts = [*_of(DENSE, "dense", rows, rows / ROWS), *wide, *_of(CNN, "cnn", images, images / ROWS)]
    if quick:
        parts = [part for part in parts if not part.peer]
    there = {(part.case, part.who) for part in parts}
    bars = tuple(bar for bar in _BARS if {(bar.case, bar.of), (bar.case, bar.over)} <= there)
    return Comparison("learning", "DP-SGD: one epoch", tuple(parts), bars)


_BARS = (
    Bar("at most 1.6 × plain SGD", DENSE, "discreet", "discreet plain SGD", at_most=1.6),
    Bar("at least 2 × less CPU than Opacus ghost", DENSE, "Opacus ghost", "discreet", at_least=2),
    Bar("at least 40 × less CPU than Opacus hooks", DENSE, "Opacus hooks", "discreet", at_least=40),
    Bar("less CPU than Opacus ghost", WIDE, "Opacus ghost", "discreet", at_least=1),
    Bar("less CPU than Opacus ew", CNN, "Opacus ew", "discreet", at_least=1),
    Bar("less CPU than Opacus hooks", CNN, "Opacus hooks", "discreet", at_least=1),
    Bar("less CPU than Opacus ghost", CNN, "Opacus ghost", "discreet", at_least=1),
)


def _of(case: str, kind: str, rows: int, work: float) -> list[Contestant]:
    asked = {"kind": kind, "rows": rows}
    epochs = EPOCHS if kind == "dense" else 1
    mine, many = {**asked, "epochs": epochs}, work * epochs
    ours = [
        Contestant(case, "discreet", private, mine, many, remark="Poisson lots, exact noise"),
        Contestant(case, "discreet plain SGD", plain, mine, many, remark="no privacy"),
    ]
    modes = ("hooks", "ew", "ghost")
    peers = [
        Contestant(case, f"Opacus {mode}", opacus, {**asked, "mode": mode}, work, "opacus", packages=("torch",))
        for mode in modes
    ]
    return [*ours, *peers, Contestant(case, "torch SGD", torch_sgd, asked, work, "opacus", "no privacy", ("torch",))]


# Ours


def _network(kind: str) -> Any:
    from discreet.learning.networks.images import Conv2D, MaxPool2D
    from discreet.learning.networks.layers import Dense, Flatten, Layer, Relu
    from discreet.learning.networks.network import Network, Softmax

    if kind != "cnn":
        return Network([Dense(1000), Relu(), Dense(10)], Softmax(), (INPUTS[kind],))
    layers: list[Layer] = [
        Conv2D(16, 8, stride=2, padding="same"),
        Relu(),
        MaxPool2D(2, stride=1),
        Conv2D(32, 4, stride=2),
        Relu(),
        MaxPool2D(2, stride=1),
        Flatten(),
        Dense(32),
        Relu(),
        Dense(10),
    ]
    return Network(layers, Softmax(), (28, 28, 1))


def _rows(kind: str, rows: int, *, channels_last: bool) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(1)
    image = (28, 28, 1) if channels_last else (1, 28, 28)
    shape = (rows, *image) if kind == "cnn" else (rows, INPUTS[kind])
    return rng.normal(size=shape).astype(np.float32) / np.float32(math.prod(shape[1:]) ** 0.5), rng.integers(
        0, 10, rows
    )


def private(kind: str, rows: int, *, epochs: int) -> Timed:
    from discreet.learning.sgd.recipe import Recipe, Sgd
    from discreet.learning.sgd.training import train

    network = _network(kind)
    x, y = _rows(kind, rows, channels_last=True)

    def run(steps: int) -> Callable[[], object]:
        recipe = Recipe(
            rate=f"{LOT}/{rows}", lot=LOT, steps=steps, multiplier="1.1", clip=1, optimizer=Sgd("0.1"), curve=0
        )
        return lambda: train(network, x, y, recipe)

    run(1)()
    return run(epochs * rows // LOT)


def plain(kind: str, rows: int, *, epochs: int) -> Timed:
    from discreet.learning.sgd.recipe import Sgd
    from discreet.learning.sgd.training import train_without_privacy

    network = _network(kind)
    x, y = _rows(kind, rows, channels_last=True)
    train_without_privacy(network, x, y, Sgd("0.1"), lot=LOT, steps=1)
    return lambda: train_without_privacy(network, x, y, Sgd("0.1"), lot=LOT, steps=epochs * rows // LOT)


# Theirs


def _module(kind: str) -> Any:
    from torch import nn  # type: ignore[import-not-found]

    if kind != "cnn":
        return nn.Sequential(nn.Linear(INPUTS[kind], 1000), nn.ReLU(), nn.Linear(1000, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def _loader(kind: str, rows: int) -> Any:
    import torch
    from torch.utils.data import DataLoader, TensorDataset  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    x, y = _rows(kind, rows, channels_last=False)
    return DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=LOT)


def torch_sgd(kind: str, rows: int) -> Timed:
    import torch

    loader, module = _loader(kind, rows), _module(kind)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return _epoch(module, optimizer, torch.nn.CrossEntropyLoss(), loader)


def opacus(kind: str, rows: int, mode: str) -> Timed:
    import warnings

    import torch
    from opacus import PrivacyEngine  # type: ignore[import-not-found]

    warnings.simplefilter("ignore")
    loader, module = _loader(kind, rows), _module(kind)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    given = {"module": module, "optimizer": optimizer, "data_loader": loader}
    given |= {"noise_multiplier": 1.1, "max_grad_norm": 1.0, "grad_sample_mode": mode}
    if mode == "ghost":
        criterion = torch.nn.CrossEntropyLoss(reduction="mean")
        made = PrivacyEngine().make_private(criterion=criterion, **given)
        module, optimizer, criterion, loader = made
        return _epoch(module, optimizer, criterion, loader)
    module, optimizer, loader = PrivacyEngine().make_private(**given)
    return _epoch(module, optimizer, torch.nn.CrossEntropyLoss(), loader)


def _epoch(module: Any, optimizer: Any, criterion: Any, loader: Any) -> Timed:
    def run() -> None:
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(module(x), y)
            loss.backward()
            optimizer.step()

    return run
