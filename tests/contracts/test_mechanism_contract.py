"""What every mechanism promises, whatever it releases: one suite that all of them run.

A mechanism is a frozen value with `release`, `loss` and `interval`. To add one, add a `Case`.
"""

import copy
import inspect
import os
import pickle
import random
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest
from tests.conftest import stable
from tests.statistical.power import Stream

import discreet.mechanisms
from discreet.errors import DiscreetError, InvalidData, InvalidParameter
from discreet.mechanisms import (
    KRR,
    AboveThreshold,
    Channel,
    DiscreteGaussian,
    Exponential,
    Extreme,
    Gaussian,
    GaussianThreshold,
    Geometric,
    Histogram,
    Laplace,
    LaplaceThreshold,
    Mean,
    Mechanism,
    OptimalSelection,
    PermuteAndFlip,
    PlanarLaplace,
    Quantile,
    RandomizedResponse,
    Range,
    ReportNoisyMax,
    RoundedGaussian,
    Staircase,
    Sum,
)
from discreet.noise import DeterministicEntropy, sampler
from discreet.noise.entropy import SystemEntropy
from discreet.privacy.loss import Loss, from_json, to_json
from discreet.privacy.unit import Neighbors

F = Fraction
SECRET = 987654321
NOT_A_NUMBER = float("nan")


def whole(x: Any) -> bool:
    return all(isinstance(v, bool | int | np.integer | np.bool_) for v in np.asarray(x).ravel().tolist())


def inside(low: float, high: float) -> Callable[[Any], bool]:
    return lambda x: bool((np.asarray(x) >= low).all() and (np.asarray(x) <= high).all())


def multiple_of(step: Fraction) -> Callable[[Any], bool]:
    return lambda x: all(F(v) % step == 0 for v in np.asarray(x, np.float64).ravel().tolist())


@dataclass(frozen=True)
class Case:
    """How to make a mechanism and feed it; `others` names a different value for each setting."""

    kind: type
    settings: dict[str, Any]
    others: dict[str, Any]
    value: Any
    bad: tuple[Any, ...]
    valid: Callable[[Any], bool]
    asked: dict[str, int] = field(default_factory=dict)
    besides: dict[str, dict[str, Any]] = field(default_factory=dict)

    def make(self) -> Any:
        return self.kind(**self.settings)

    def make_other(self, name: str) -> Any:
        """With another value for one setting; `besides` says which others have to change with it."""
        return self.kind(**{**self.settings, name: self.others[name], **self.besides.get(name, {})})

    def run(self, mechanism: Any, entropy: Any = None) -> Any:
        """One release as plain Python values, so that two of them can be compared."""
        released = mechanism.release(self.value, entropy=entropy)
        if isinstance(released, tuple):
            return [part.tolist() for part in released]
        if hasattr(released, "tolist"):
            return released.tolist()
        return list(released) if hasattr(released, "__next__") else released

    def width(self, confidence: Any) -> Any:
        return self.make().interval(confidence, **self.asked)


AGES = Range(lower=0, upper=100, granularity="1/4")
SHIFTED = Range(lower=-100, upper=0, granularity="1/4")
SCORES = [3, 5, 4, 5]
BAD_SCORES = ([SECRET + 0.5, 1.0], [SECRET, None], [[SECRET]], str(SECRET))
BAD_REALS = ([SECRET, NOT_A_NUMBER], str(SECRET), [SECRET, 1, 2], [str(SECRET)])
BAD_COUNTS = ([-SECRET], [SECRET + 0.5], [[SECRET]], str(SECRET))
BAD_DATA = ([SECRET, NOT_A_NUMBER], [[SECRET]], str(SECRET))

CASES = [
    Case(
        Geometric, {"epsilon": "1/10", "sensitivity": 1}, {"epsilon": 2, "sensitivity": 2}, np.arange(20),
        ([SECRET + 0.5], SECRET * 2.0**60, str(SECRET)), whole,
    ),
    Case(
        DiscreteGaussian, {"sigma": 10, "squared_sensitivity": 3}, {"sigma": 2, "squared_sensitivity": 2}, np.arange(20),
        ([SECRET + 0.5], SECRET * 2.0**60, str(SECRET)), whole,
    ),
    Case(
        RoundedGaussian, {"sigma": 10, "squared_sensitivity": 3}, {"sigma": 2, "squared_sensitivity": 2}, np.arange(20),
        ([SECRET + 0.5], SECRET * 2.0**60, str(SECRET)), whole,
    ),
    Case(
        Sum,
        {"epsilon": "1/10", "rho": None, "within": AGES, "neighbors": Neighbors.CHANGE_ONE, "dimension": 1},
        {"epsilon": 2, "rho": "1/2", "within": Range(lower=0, upper=9, granularity=1),
         "neighbors": Neighbors.ADD_OR_REMOVE_ONE, "dimension": 3},
        np.array([30.2, 41.0, 57.5, 60.0]), BAD_DATA, multiple_of(F(1, 4)), {}, {"rho": {"epsilon": None}, "neighbors": {"within": SHIFTED}},
    ),
    Case(
        Mean,
        {"epsilon": "1/10", "rho": None, "within": AGES, "neighbors": Neighbors.CHANGE_ONE, "size": 4, "dimension": 1},
        {"epsilon": 2, "rho": "1/2", "within": Range(lower=0, upper=9, granularity=1),
         "neighbors": Neighbors.ADD_OR_REMOVE_ONE, "size": 5, "dimension": 3},
        np.array([30.2, 41.0, 57.5, 60.0]), (*BAD_DATA, [SECRET, SECRET]), inside(0, 100), {},
        {"rho": {"epsilon": None}, "neighbors": {"size": None}},
    ),
    Case(
        Mean,
        {"epsilon": None, "rho": "1/10", "within": AGES, "neighbors": Neighbors.ADD_OR_REMOVE_ONE, "size": None, "dimension": 2},
        {"epsilon": 2, "rho": "1/2", "within": Range(lower=0, upper=9, granularity=1),
         "neighbors": Neighbors.CHANGE_ONE, "size": 5, "dimension": 3},
        np.array([[30.2, 41.0], [57.5, 60.0], [20.0, 30.0]]), ([[SECRET, NOT_A_NUMBER]], [SECRET], str(SECRET)), inside(0, 100), {"records": 100},
        {"epsilon": {"rho": None}, "neighbors": {"size": 3}, "size": {"neighbors": Neighbors.CHANGE_ONE}},
    ),
    Case(
        Histogram,
        {"epsilon": "1/10", "rho": None, "categories": ("a", "b", 3), "neighbors": Neighbors.CHANGE_ONE},
        {"epsilon": 2, "rho": "1/2", "categories": ("a", "b"), "neighbors": Neighbors.ADD_OR_REMOVE_ONE},
        np.array(["a", "b", 3, "a"], object), ([SECRET], ["a", str(SECRET)], [[SECRET]], str(SECRET), SECRET), whole, {},
        {"rho": {"epsilon": None}},
    ),
    Case(
        Laplace, {"epsilon": 1, "sensitivity": 1, "granularity": "1/8", "dimension": 20},
        {"epsilon": 2, "sensitivity": 2, "granularity": "1/4", "dimension": 3}, np.linspace(0, 1, 20),
        BAD_REALS, multiple_of(F(1, 8)),
    ),
    Case(
        Gaussian, {"sigma": 3, "sensitivity": 1, "granularity": "1/8", "dimension": 20},
        {"sigma": 2, "sensitivity": 2, "granularity": "1/4", "dimension": 3}, np.linspace(0, 1, 20),
        BAD_REALS, multiple_of(F(1, 8)),
    ),
    Case(
        Staircase, {"epsilon": 1, "sensitivity": 100, "granularity": "1/8"},
        {"epsilon": 2, "sensitivity": 2, "granularity": "1/4"}, 0.3, BAD_REALS, multiple_of(F(1, 8)),
    ),
    Case(
        RandomizedResponse, {"truth": "3/4", "epsilon": 2}, {"truth": "2/3", "epsilon": 3}, np.arange(20) % 2,
        (SECRET, [SECRET], SECRET + 0.5, str(SECRET)), whole, {"reports": 10},
    ),
    Case(
        KRR, {"epsilon": "1/2", "size": 5}, {"epsilon": 2, "size": 4}, np.arange(20) % 5,
        (SECRET, [SECRET], SECRET + 0.5, str(SECRET)), whole, {"reports": 10},
    ),
    *(
        Case(
            kind, {"epsilon": "1/10", "sensitivity": 1, "monotone": False},
            {"epsilon": 2, "sensitivity": 2, "monotone": True}, SCORES, BAD_SCORES, whole, {"candidates": 4},
        )
        for kind in (Exponential, PermuteAndFlip, ReportNoisyMax)
    ),
    Case(
        AboveThreshold, {"epsilon": "1/10", "sensitivity": 1, "threshold": 3, "positives": 3, "monotone": False},
        {"epsilon": 2, "sensitivity": 2, "threshold": 4, "positives": 1, "monotone": True}, [1, 5, 3, 2, 7, 3, 3, 1],
        ([SECRET + 0.5], [str(SECRET)], [[SECRET]]), whole, {"answers": 8},
    ),
    Case(
        PlanarLaplace, {"epsilon": 1, "unit": "km", "granularity": "1/8", "dimensions": 2},
        {"epsilon": 2, "unit": "m", "granularity": "1/4", "dimensions": 3}, np.linspace(0, 1, 20).reshape(10, 2),
        BAD_REALS, multiple_of(F(1, 8)),
    ),
    Case(
        Quantile,
        {"epsilon": "1/10", "probability": "1/2", "within": AGES, "neighbors": Neighbors.CHANGE_ONE},
        {"epsilon": 2, "probability": "1/3", "within": Range(lower=0, upper=9, granularity=1),
         "neighbors": Neighbors.ADD_OR_REMOVE_ONE},
        np.array([30.2, 41.0, 57.5, 60.0]), BAD_DATA, multiple_of(F(1, 4)),
    ),
    Case(
        Extreme, {"epsilon": "1/10", "side": "max", "within": AGES, "rank": 2},
        {"epsilon": 2, "side": "min", "within": Range(lower=0, upper=9, granularity=1), "rank": 3},
        np.array([30.2, 41.0, 57.5, 60.0]), BAD_DATA, multiple_of(F(1, 4)),
    ),
    Case(
        OptimalSelection, {"epsilon": "1/2", "delta": "1/10", "keys": 2}, {"epsilon": 2, "delta": "1/9", "keys": 1},
        np.arange(20), BAD_COUNTS, whole,
    ),
    Case(
        LaplaceThreshold, {"epsilon": "1/2", "delta": "1/10", "keys": 2}, {"epsilon": 2, "delta": "1/9", "keys": 1},
        np.arange(20), BAD_COUNTS, whole,
    ),
    Case(
        GaussianThreshold, {"sigma": 3, "delta": "1/10", "keys": 2}, {"sigma": 2, "delta": "1/9", "keys": 1},
        np.arange(20), BAD_COUNTS, whole,
    ),
]  # fmt: skip

every = pytest.mark.parametrize("case", CASES, ids=[case.kind.__name__ for case in CASES])

MAY_BE_LEFT_OUT = {
    "granularity": (Laplace, Gaussian, Staircase),  # the grid of 1024 steps; it costs no privacy
    "dimension": (Laplace, Gaussian, Sum, Mean),
    "dimensions": (PlanarLaplace,),
    "monotone": (Exponential, PermuteAndFlip, ReportNoisyMax, AboveThreshold),  # False is the safe promise
    "rank": (Extreme,),
    "epsilon": (RandomizedResponse, Sum, Mean, Histogram),  # follows from the truth; or rho is stated
    "rho": (Sum, Mean, Histogram),
    "size": (Mean,),  # private under one of the relations
}


def test_every_exported_mechanism_has_a_case():
    exported = {getattr(discreet.mechanisms, name) for name in discreet.mechanisms.__all__}
    assert {case.kind for case in CASES} == exported - {Channel, Mechanism, Range}


# --- a frozen value ----------------------------------------------------------------------------------------------


@every
def test_it_is_frozen(case):
    mechanism = case.make()
    for f in fields(mechanism):
        with pytest.raises(FrozenInstanceError):
            setattr(mechanism, f.name, getattr(mechanism, f.name))
        with pytest.raises(FrozenInstanceError):
            delattr(mechanism, f.name)
    with pytest.raises((AttributeError, TypeError)):
        mechanism.something_else = 1
    assert set(vars(mechanism)) == {f.name for f in fields(mechanism)}  # nothing beside what is compared and printed


@every
def test_it_is_equal_by_value_and_hashable(case):
    assert case.make() == case.make()
    assert hash(case.make()) == hash(case.make())
    assert len({case.make(), case.make()}) == 1
    assert case.make() != "something else"


@every
def test_every_setting_counts(case):
    assert set(case.others) == set(case.settings) == {f.name for f in fields(case.kind)}
    for name in case.others:
        assert case.make_other(name) != case.make()


@every
def test_numbers_mean_the_same_however_they_are_written(case):
    for spell in (F, lambda text: float(F(text)), lambda text: str(F(text))):
        spelled = {name: spell(v) if isinstance(v, str) and "/" in v else v for name, v in case.settings.items()}
        assert case.kind(**spelled) == case.make()


@every
def test_it_survives_pickling_and_copying(case):
    mechanism = case.make()
    twins = [pickle.loads(pickle.dumps(mechanism)), copy.copy(mechanism), copy.deepcopy(mechanism), replace(mechanism)]
    for twin in twins:
        assert twin == mechanism
        assert hash(twin) == hash(mechanism)
        assert case.run(twin, DeterministicEntropy(1)) == case.run(mechanism, DeterministicEntropy(1))


@every
def test_its_settings_are_exact(case):
    for f in fields(case.kind):
        assert not isinstance(getattr(case.make(), f.name), float)


# --- its signatures -------------------------------------------------------------------------------------------------


@every
def test_settings_are_keyword_only_and_privacy_has_no_default(case):
    for name, parameter in inspect.signature(case.kind).parameters.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, name
        if parameter.default is not inspect.Parameter.empty:
            assert case.kind in MAY_BE_LEFT_OUT.get(name, ()), f"{name} has a default"
    with pytest.raises(TypeError):
        case.kind(*case.settings.values())
    with pytest.raises(TypeError):
        case.kind()


@every
def test_other_ways_to_make_it_are_keyword_only_too(case):
    makers = [m for n, m in inspect.getmembers(case.kind, inspect.ismethod) if not n.startswith("_")]
    for maker in makers:
        for name, parameter in inspect.signature(maker).parameters.items():
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, f"{maker.__name__}: {name}"
            if name in ("epsilon", "delta", "rho", "sensitivity", "heads", "keep", "gain"):
                assert parameter.default is inspect.Parameter.empty, f"{maker.__name__}: {name} has a default"


@every
def test_release_takes_one_value_and_an_entropy(case):
    value, entropy = list(inspect.signature(case.kind.release).parameters.values())[1:]
    assert value.kind is inspect.Parameter.POSITIONAL_ONLY
    assert entropy.name == "entropy"
    assert entropy.kind is inspect.Parameter.KEYWORD_ONLY
    assert entropy.default is None


@every
def test_its_guarantee_is_a_sentence(case):
    assert "Guarantee: " in inspect.getdoc(case.kind)


@pytest.mark.parametrize("kind", [Sum, Mean, Histogram])
@pytest.mark.parametrize(
    "cost", [{}, {"epsilon": None}, {"epsilon": 1, "rho": 1}, {"epsilon": 0}, {"rho": -1}], ids=str
)
def test_a_cost_is_stated_in_one_way(kind, cost):
    rest = {"categories": ["a"]} if kind is Histogram else {"within": AGES}
    with pytest.raises(InvalidParameter, match="epsilon|rho"):
        kind(**cost, **rest, neighbors=Neighbors.ADD_OR_REMOVE_ONE)


# --- its loss --------------------------------------------------------------------------------------------------------


@every
def test_the_loss_is_data_that_survives_the_ledger(case):
    for mechanism in (case.make(), *map(case.make_other, case.others)):
        loss = mechanism.loss
        assert isinstance(loss, Loss)
        assert from_json(to_json(loss)) == loss


@every
def test_the_loss_does_not_change_with_use(case):
    mechanism = case.make()
    before = mechanism.loss
    case.run(mechanism)
    assert mechanism.loss == before == case.make().loss


# --- its release -------------------------------------------------------------------------------------------------------


@every
def test_the_release_has_the_promised_form(case):
    for seed in range(20):
        assert case.valid(case.run(case.make(), DeterministicEntropy(seed)))


@every
def test_all_randomness_comes_from_the_entropy_given(case, monkeypatch):
    def refused(self, count):
        raise AssertionError("the system's entropy was asked")

    monkeypatch.setattr(SystemEntropy, "words", refused)
    state, numbers = random.getstate(), np.random.get_state()[1].tolist()
    first = [case.run(case.make(), DeterministicEntropy(seed)) for seed in range(10)]
    again = [case.run(case.make(), DeterministicEntropy(seed)) for seed in range(10)]
    assert first == again
    assert len({repr(r) for r in first}) > 1  # the stream decides
    assert random.getstate() == state
    assert np.random.get_state()[1].tolist() == numbers
    with pytest.raises(AssertionError, match="system"):
        [case.run(case.make()) for _ in range(500)]  # numbers drawn from the system before may be left in a pool


@pytest.fixture
def asked_of_the_system(monkeypatch) -> list[int]:
    """How many words each question to the system's stream was for; no other stream may be made or asked."""
    asked: list[int] = []
    ask = SystemEntropy.words

    def counted(self, count):
        asked.append(count)
        return ask(self, count)

    def refused(self, *_):
        raise AssertionError("a reproducible stream was used")

    monkeypatch.setattr(SystemEntropy, "words", counted)
    for name in ("__init__", "words"):
        monkeypatch.setattr(DeterministicEntropy, name, refused)
    monkeypatch.setattr(sampler, "_POOLS", sampler._Pools())  # none was drawn before
    return asked


@every
def test_without_an_entropy_the_system_is_asked(case, asked_of_the_system):
    case.run(case.make())
    assert sum(asked_of_the_system) > 0


@every
def test_without_an_entropy_releases_differ(case):
    assert len({repr(case.run(case.make())) for _ in range(40)}) > 1


@every
def test_the_value_is_left_alone(case):
    value = np.array(case.value)
    value.setflags(write=False)
    frozen = Case(case.kind, case.settings, case.others, value, case.bad, case.valid, case.asked)
    assert frozen.run(case.make(), DeterministicEntropy(3)) == case.run(case.make(), DeterministicEntropy(3))
    assert value.tolist() == np.asarray(case.value).tolist()


@every
def test_arrays_and_lists_are_the_same_value(case):
    as_list = Case(case.kind, case.settings, case.others, np.asarray(case.value).tolist(), case.bad, case.valid)
    assert as_list.run(case.make(), DeterministicEntropy(3)) == case.run(case.make(), DeterministicEntropy(3))


@every
def test_bad_values_are_refused_without_telling_them(case):
    for value in case.bad:
        with pytest.raises(InvalidData) as caught:
            Case(case.kind, case.settings, case.others, value, (), case.valid).run(case.make())
        text = f"{caught.value} {caught.value.args} {getattr(caught.value, '__notes__', '')}"
        assert str(SECRET) not in text
        assert caught.value.__cause__ is None


@every
def test_a_refused_value_draws_no_noise(case, counting):
    """Checks come first: what is refused must not depend on the noise, nor use it up (a stream refuses item by item)."""
    if case.kind is AboveThreshold:
        return
    for value in case.bad:
        with pytest.raises(DiscreetError):
            case.make().release(value, entropy=counting)
    assert counting.count == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_parent_and_child_never_share_noise():
    """Two leading libraries draw identical noise after a fork."""
    vectors = [
        (Geometric(epsilon="1/1000", sensitivity=1), np.zeros(20, np.int64)),
        (Laplace(epsilon="1/1000", sensitivity=1, dimension=20), np.zeros(20)),
        (Gaussian(sigma=1000, sensitivity=1, dimension=20), np.zeros(20)),
        (PlanarLaplace(epsilon="1/1000", unit="m", granularity=1), np.zeros((20, 2))),
        (KRR(epsilon="1/1000", size=1000), np.zeros(20, np.int64)),
    ]

    def draw() -> list[list[float]]:
        return [np.ravel(mechanism.release(value)).tolist() for mechanism, value in vectors]

    draw()  # buffers are filled before the fork
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(send, pickle.dumps(draw()))
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        theirs = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    for mine, other in zip(draw(), theirs, strict=True):
        assert mine != other


# --- its interval ---------------------------------------------------------------------------------------------------------


@every
def test_more_confidence_needs_a_wider_interval(case):
    widths = [case.width(c) for c in ("0.0001", "0.1", 0.5, F(9, 10), "0.99", "0.999999", "0.999999999999")]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]
    assert widths[0] >= 0
    assert case.width("0.9") == case.width(0.9)


IDS = np.array([1, 2, 3] * 400)
YOUNG = np.full(1000, 20.0)
NUMBERS = [
    (Geometric(epsilon="1/10", sensitivity=1), np.arange(20), np.arange(20), {}),
    (DiscreteGaussian(sigma=10, squared_sensitivity=3), np.arange(20), np.arange(20), {}),
    (RoundedGaussian(sigma=10, squared_sensitivity=3), np.arange(20), np.arange(20), {}),
    (Laplace(epsilon=10, sensitivity=1, dimension=20), np.arange(20) / 3, np.arange(20) / 3, {}),
    (Gaussian(sigma=10, sensitivity=1, dimension=20), np.arange(20) / 3, np.arange(20) / 3, {}),
    (Staircase(epsilon="1/2", sensitivity=1), 0.3, 0.3, {}),
    (LaplaceThreshold(epsilon=1, delta="1e-6", keys=10), np.full(20, 10**4), np.full(20, 10**4), {}),
    (GaussianThreshold(sigma=10, delta="1e-6", keys=1), np.full(20, 10**4), np.full(20, 10**4), {}),
    (Histogram(epsilon="1/9", categories=range(20), neighbors="change one"), IDS, np.bincount(IDS, minlength=20), {}),
    (Histogram(rho="1/90", categories=range(20), neighbors="change one"), IDS, np.bincount(IDS, minlength=20), {}),
    (Sum(epsilon=1, within=AGES, neighbors="add or remove one"), YOUNG, 20_000, {}),
    (
        Sum(rho=1, within=AGES, neighbors="change one", dimension=2),
        np.stack([YOUNG, YOUNG + 1], 1),
        [20_000, 21_000],
        {},
    ),
    (Mean(epsilon="1/20", within=AGES, neighbors="change one", size=1000), YOUNG, 20, {}),
    (Mean(epsilon="1/20", within=AGES, neighbors="add or remove one"), YOUNG, 20, {"records": 1000}),
    (Mean(rho="1/500", within=AGES, neighbors="add or remove one"), YOUNG, 20, {"records": 1000}),
]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("mechanism", "value", "truth", "asked"), NUMBERS, ids=lambda x: stable(x)[:40])
def test_an_interval_is_for_each_number_and_is_honest(mechanism, value, truth, asked):
    """It misses each number at most as often as stated; half as wide, or for all 20 together, would be noticed."""
    stream, runs = Stream(), 8000 // np.size(truth)
    released = [mechanism.release(value, entropy=stream) for _ in range(runs)]
    numbers = np.array([one[1] if isinstance(one, tuple) else one for one in released], float).reshape(runs, -1)
    far, wide = np.abs(numbers - np.asarray(truth, float)), float(mechanism.interval("0.9", **asked))
    spread = 5.5 * sqrt(0.1 * 0.9 / far.size)  # 4e-8
    assert (far > wide).mean() <= 0.1 + spread, stream
    if far.shape[1] == 20:  # an interval for all of them together would miss each in half a percent of cases
        assert (far > wide).mean() > 0.02, stream
    assert (far > wide / 2).mean() > 0.1 + spread, stream
    assert "for each" in inspect.getdoc(type(mechanism).interval)


@every
@pytest.mark.parametrize(
    "confidence", [0, 1, -0.1, 1.1, 95, NOT_A_NUMBER, float("inf"), None, True, "x", "95%", [0.5], 1j], ids=stable
)
def test_bad_confidences_are_refused(case, confidence):
    with pytest.raises(InvalidParameter, match="confidence"):
        case.width(confidence)


@every
def test_unknown_settings_are_refused(case):
    with pytest.raises(TypeError):
        case.kind(**case.settings, seed=1)
