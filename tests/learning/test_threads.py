"""Training uses one thread for matrix products unless told otherwise, and leaves the setting as it found it."""

import sys
import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from discreet.errors import InvalidParameter
from discreet.learning.classical import PCA, DecisionTreeClassifier, LinearRegression, LogisticRegression
from discreet.learning.classical.estimator import Estimator
from discreet.learning.estimators import DPClassifier
from discreet.learning.federated import Federation, InProcessClients, run
from discreet.learning.federated import member as member_module
from discreet.learning.networks.layers import Dense
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd import clipping
from discreet.learning.sgd.recipe import Recipe, Sgd
from discreet.learning.sgd.training import train
from discreet.threads import blas_threads, threads_in_force

NETWORK = Network([Dense(2)], Softmax(), inputs=(3,))
RECIPE = Recipe(rate="1/2", lot=10, steps=3, multiplier=1, clip=1, optimizer=Sgd("0.1"))
X, Y = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2


def blas():
    """How many threads the BLAS of NumPy uses; tests of other packages may have loaded others, with one thread."""
    own = [library for library in threadpool_info() if library["user_api"] == "blas" and "numpy" in library["filepath"]]
    return {library["num_threads"] for library in own}


@pytest.fixture(autouse=True)
def _two():
    """As on a machine with two cores."""
    with threadpool_limits(limits=2, user_api="blas"):
        if blas() != {2}:
            pytest.skip(f"NO THREADS: this BLAS has no two threads to choose from: {threadpool_info()}")
        yield
        assert blas() == {2}


@pytest.mark.parametrize(("settings", "expected"), [({}, 1), ({"threads": 2}, 2), ({"threads": None}, 2)], ids=str)
def test_training_uses_one_thread_unless_told_otherwise(settings, expected):
    seen = []
    train(NETWORK, X, Y, RECIPE, each=lambda _: seen.append(blas()), **settings)
    assert seen == [{expected}] * 3


@pytest.mark.parametrize(("settings", "expected"), [({}, 1), ({"threads": 2}, 2)], ids=str)
def test_estimators_do_as_well(monkeypatch, settings, expected):
    seen = []
    gradients = Network.gradients
    monkeypatch.setattr(Network, "gradients", lambda *args: seen.append(blas()) or gradients(*args))
    model = DPClassifier(
        hidden=(), epsilon=50, delta="1e-5", bounds="unit", classes=[0, 1], rows=20, steps=2, **settings
    )
    model.fit(X, Y)
    assert {frozenset(each) for each in seen} == {frozenset({expected})}


CLASSICAL = [
    LogisticRegression(epsilon=1, delta="1e-6", bounds=(-1, 1), classes=[0, 1]),
    LinearRegression(epsilon=1, delta=0, bounds=(-1, 1), target_bounds=(0, 1)),
    PCA(n_components=1, epsilon=1, delta=0, bounds=(-1, 1), norm=2),
    DecisionTreeClassifier(epsilon=1, bounds=(-1, 1), classes=[0, 1]),
]


@pytest.mark.filterwarnings("ignore")  # noise is all there is
@pytest.mark.parametrize("model", CLASSICAL, ids=lambda model: type(model).__name__)
def test_classical_models_do_as_well(monkeypatch, model):
    seen = []
    begin = Estimator._begin
    monkeypatch.setattr(Estimator, "_begin", lambda *args: seen.append(blas()) or begin(*args))
    model.fit(X, Y)
    with blas_threads(2):
        model.fit(X, Y)
    assert seen == [{1}, {2}]


def test_clients_of_a_federation_do_as_well(monkeypatch):
    seen = []
    update = member_module.update
    monkeypatch.setattr(
        member_module, "update", lambda *args, **settings: seen.append(blas()) or update(*args, **settings)
    )
    settings = {"clients": 2, "rounds": 1, "level": "client", "rate": 1, "multiplier": 1, "clip": 1, "secure": None}
    plan = Federation(**settings, optimizer=Sgd(1))
    run(plan, NETWORK, InProcessClients(plan, NETWORK, {"ann": (X, Y), "bob": (X, Y)}))
    assert seen == [{1}, {1}]


def test_a_failure_gives_the_setting_back():
    with pytest.raises(ZeroDivisionError):
        train(NETWORK, X, Y, RECIPE, each=lambda _: 1 / 0)


def test_a_training_under_way_does_not_see_the_setting_change():
    """Another one began before it and ends before it: BLAS has one setting for both."""
    first, second = blas_threads(1), blas_threads(2)
    first.__enter__()
    second.__enter__()
    assert (blas(), set(threads_in_force())) == ({1}, {1})
    first.__exit__(None, None, None)
    assert (blas(), set(threads_in_force())) == ({1}, {1})
    second.__exit__(None, None, None)
    assert (blas(), threads_in_force()) == ({2}, ())


def test_the_setting_in_force_is_the_true_one():
    """A thread that may not change it, because another one has, is told how it is."""
    seen = []

    def look():
        with blas_threads(1):
            seen.append((blas(), set(threads_in_force())))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    ((true, told),) = seen
    assert true == told


def test_libraries_are_looked_for_again_only_when_modules_were_imported(monkeypatch):
    """Looking reads the memory map of the process: for a federation's small updates, most of the time."""
    looks, look = [], ThreadpoolController.__init__
    with blas_threads(1):
        pass  # all is imported
    monkeypatch.setattr(ThreadpoolController, "__init__", lambda self: looks.append(self) or look(self))
    for _ in range(3):
        with blas_threads(1):
            assert set(threads_in_force()) == {1}
    assert not looks
    monkeypatch.setitem(sys.modules, "a_module_with_a_library", sys)
    for _ in range(3):
        with blas_threads(1):
            assert set(threads_in_force()) == {1}
    assert len(looks) == 1


def test_what_is_known_of_products_is_known_for_a_number_of_threads():
    """Else places that are alike with two threads would be taken for alike with one."""
    weights = np.ones((5, 3), np.float32)
    clipping._alike.cache_clear()
    clipping._tried.cache_clear()
    for count in (1, 2, 1, None):
        with blas_threads(count):
            clipping.product(np.ones((2, 5), np.float32), weights)
            clipping.require_batch_invariance(NETWORK)
    assert clipping._tried.cache_info().misses == 3
    assert clipping._alike.cache_info().misses >= 3


@pytest.mark.parametrize("count", [0, -1, 1.5, "two"])
def test_numbers_that_are_none(count):
    with pytest.raises(InvalidParameter, match="threads"):
        train(NETWORK, X, Y, RECIPE, threads=count)
