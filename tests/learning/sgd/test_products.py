"""Rows of a product do not depend on one another, on any kernel that OpenBLAS may choose."""

import os
import subprocess
import sys

import numpy as np
import pytest

from discreet.learning.sgd import clipping
from discreet.learning.sgd.clipping import product

SHAPES = [(60, 1000), (1000, 10), (10, 1000), (5, 3), (64, 16), (1000, 1), (1, 1), (1, 40), (300, 7), (512, 32)]


def alike_in_parts(rng: np.random.Generator, inner: int, width: int, multiply) -> bool:
    """Whether every row is the same in other lots and at other places, for both orders of the weights in memory."""
    x = rng.normal(size=(140, inner)).astype(np.float32)
    for weights in (rng.normal(size=(inner, width)), rng.normal(size=(width, inner)).T):
        exact = weights.astype(np.float32)
        whole = multiply(x, exact)
        for index in ([7], range(1, 140), rng.permutation(140), rng.permutation(140)[:17], range(64, 128)):
            if not np.array_equal(multiply(np.ascontiguousarray(x[list(index)]), exact), whole[list(index)]):
                return False
    return True


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_do_not_depend_on_one_another(shape):
    assert alike_in_parts(np.random.default_rng(1), *shape, product)


SCRIPT = """
import numpy as np
from discreet.learning.sgd.clipping import product
from tests.learning.sgd.test_products import SHAPES, alike_in_parts
print(all(alike_in_parts(np.random.default_rng(1), *shape, product) for shape in SHAPES))
print(all(alike_in_parts(np.random.default_rng(1), *shape, np.matmul) for shape in SHAPES))
"""


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kernel", ["Haswell", "Sandybridge"])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_whatever_kernel_blas_has(kernel, threads):
    """Haswell's (also AMD's) treat rows differently by their place; BLAS takes what the processor can do."""
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    ours, plain = done.stdout.split()
    assert ours == "True"
    if kernel == "Haswell" and "avx2" in _flags():
        assert plain == "False", "plain products used to depend on the lot; if they no longer do, simplify"


def _flags() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return file.read() if "openblas" in str(np.show_config(mode="dicts")).lower() else ""
    except OSError:
        return ""


@pytest.mark.parametrize("places", [[0], [0, 1, 2, 3, 4, 5, 12, 13, 14], list(range(63)), list(range(64))], ids=len)
@pytest.mark.parametrize("n", [0, 1, 8, 9, 63, 64, 65, 130])
def test_products_are_products_whatever_places_are_alike(places, n, monkeypatch):
    monkeypatch.setattr(clipping, "_alike", lambda *_: np.array(places))
    rng = np.random.default_rng(n)
    for width in (1, 2, 30):
        x, weights = rng.normal(size=(n, 11)).astype(np.float32), rng.normal(size=(11, width)).astype(np.float32)
        found = product(x, weights)
        assert found.dtype == np.float32
        assert found.shape == (n, width)
        assert np.allclose(found, x.astype(np.float64) @ weights, atol=1e-5)


def test_places_that_differ_are_found(monkeypatch):
    """A BLAS that rounds every second group of six rows differently, as on AVX2."""
    true = np.matmul

    def uneven(a, b):
        y = true(a, b)
        y[:, np.arange(y.shape[1]) % 12 >= 6] *= np.float32(1 + 2.0**-22)
        return y

    clipping._alike.cache_clear()
    monkeypatch.setattr(clipping.np, "matmul", uneven)
    places = clipping._alike(30, 20, True, ())
    clipping._alike.cache_clear()
    assert set(places) <= {i for i in range(64) if i % 12 < 6}
    assert len(places) > 0
