"""The MNIST example: its recipes stay within their budgets, and it runs from end to end on a few made-up images."""

import re
import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from discreet.learning.estimators import DPClassifier
from discreet.learning.sgd.recipe import Recipe, Sgd
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import Together

HERE = Path(__file__).parents[2] / "examples"
DIGITS = 300


@pytest.fixture(scope="module")
def mnist():
    """The script as a module, forgotten afterwards."""
    sys.path.insert(0, str(HERE))
    try:
        yield import_module("mnist")
    finally:
        sys.path.remove(str(HERE))
        sys.modules.pop("mnist", None)


@pytest.fixture
def run(mnist, monkeypatch, tmp_path, capsys):
    """Run the script with these options on made-up digits: ten bright squares, each at its place."""
    rng = np.random.default_rng(1)
    labels = np.arange(DIGITS) % 10
    images = rng.integers(0, 30, (DIGITS, 28, 28)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 4)
        image[2 + 8 * row : 8 + 8 * row, 1 + 6 * column : 6 + 6 * column] = 255
    np.savez(tmp_path / "mnist.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    monkeypatch.setattr(mnist, "DATA", tmp_path / "mnist.npz")
    monkeypatch.chdir(tmp_path)

    def main(*options):
        monkeypatch.setattr(sys, "argv", ["mnist.py", *options])
        mnist.main()
        return capsys.readouterr().out

    return main


@pytest.mark.parametrize("epsilon", ["0.5", "2", "4", "8"])
def test_every_recipe_has_the_architecture_of_d3_and_says_what_it_does(mnist, epsilon):
    model = DPClassifier(
        epsilon=epsilon, delta=mnist.DELTA, classes=range(10), rows=60_000, **mnist.NETWORK, **mnist.RECIPES[epsilon]
    )
    words = model.explain(196)
    lot, steps = mnist.RECIPES[epsilon]["lot"], mnist.RECIPES[epsilon]["steps"]
    assert "60 private components" in words
    assert f"{steps:,} steps on lots of about {lot}" in words
    assert "71,010 parameters" in words  # 61·1000 + 1001·10


def test_the_scattering_recipe_keeps_within_its_budget_with_the_standardizing_counted(mnist):
    recipe = Recipe.for_budget(
        epsilon=3, delta=mnist.DELTA, examples=60_000, beside=mnist.STANDARD.loss, optimizer=Sgd(8), **mnist.WAVES
    )
    both = guarantee(Together(mnist.STANDARD.loss, recipe.loss), delta=mnist.DELTA).epsilon
    assert 2.9 < both <= 3
    assert recipe.lot == 4096
    assert recipe.loss.loss.rate == Fraction(4096, 60_000)


@pytest.mark.slow
def test_the_network_runs_and_says_what_it_spent(run, tmp_path):
    words = run("--epsilon", "0.5", "--seeds", "2")
    spent = [float(found) for found in re.findall(r"\(spent ([0-9.]+)\)", words)]
    assert len(spent) == 2
    assert all(0.4 < one <= 0.5 for one in spent)
    assert re.search(r"ε = 0\.5: mean [0-9.]+%", words)
    assert "<svg" in (tmp_path / "mnist.svg").read_text()


@pytest.mark.slow
def test_the_scattering_runs_and_says_what_it_spent(run, tmp_path):
    words = run("--epsilon", "3", "--scattering")
    (spent,) = re.findall(r"ε = 3 \(spent ([0-9.]+)\)", words)
    assert 2.9 < float(spent) <= 3
    assert "<svg" in (tmp_path / "mnist.svg").read_text()


def test_without_the_data_it_says_so(mnist, monkeypatch, tmp_path):
    monkeypatch.setattr(mnist, "DATA", tmp_path / "nowhere.npz")
    monkeypatch.setattr(sys, "argv", ["mnist.py"])
    with pytest.raises(SystemExit, match="DISCREET_DATA"):
        mnist.main()
