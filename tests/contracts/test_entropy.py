"""Without a stream of its own, everything that is random draws from the operating system, and from nothing else.

`DRAWS` has every function of synthetic, fairness and local that takes `entropy=None`; one that is missing fails.
"""

import importlib
import inspect
import pkgutil
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.contracts.releases import CASES, FEW, GATED, NEAR, PUBLIC, opened, public_map, public_values

import discreet.fairness
import discreet.local
import discreet.synthetic
from discreet.fairness import bootstrap as fairness_bootstrap
from discreet.fairness.cells import Cells
from discreet.fairness.disparity_report import fairness_report, report_cells
from discreet.fairness.repair.reduction import Mixture
from discreet.fairness.repair.thresholds import Rule, Thresholds, draw_predictions
from discreet.local.collection.memoized import Device, Memoized
from discreet.local.collection.survey import PLACES, Survey
from discreet.local.collection.survey import RANDOMIZERS as SURVEY_RANDOMIZERS
from discreet.local.estimation import ibu
from discreet.local.estimation import inversion as local_bootstrap
from discreet.local.estimation.heavy_hitters import PrefixExtension, encode
from discreet.local.estimation.linear_maps import KRRModel
from discreet.local.oracles.attributes import Sample, SampleWithFakes, Split
from discreet.local.oracles.hashing import BinaryHashing, OptimizedHashing
from discreet.local.oracles.metric import ClampedGeometric, ClampedLaplace, ExponentialResponse, MetricResponse
from discreet.local.oracles.numeric import Hybrid, Piecewise, StochasticRounding
from discreet.local.oracles.responses import KRR, BinaryResponse, HadamardResponse
from discreet.local.oracles.sets import OptimizedUnary, SubsetSelection, SymmetricUnary
from discreet.local.places.areas import Area
from discreet.local.places.planar import PlanarReport
from discreet.noise import DeterministicEntropy, sampler
from discreet.noise.entropy import SystemEntropy
from discreet.synthetic.commuting import synthesis, urn
from discreet.synthetic.fit import row_sampling
from discreet.synthetic.fit.relaxed import RelaxedTable, fit
from discreet.synthetic.measure import adaptive, fine_counts, noisy_marginals

SIX = {"epsilon": 1, "size": 6}
PERSONS = [n % 6 for n in range(300)]
PAIRS = [[n % 2, n % 3] for n in range(300)]
BOUNDS = {"epsilon": 1, "lower": 0, "upper": 5}
TOWN = Area.plane(width=3, height=2, cell=1)
SOFT = RelaxedTable((2, 2), 200.0, np.full((8, 4), 0.5, np.float32), 1.0, 1, "misfit")
CODES = np.array([[n % 2, n % 3] for n in range(60)])
DESIGN = noisy_marginals.Design((2, 3), ((0,), (0, 1)), (20, 20), neighbors="change one")
TRIPLES = {"first": [(0,), (1,)], "candidates": [(0, 1)], "rounds": 1, "picks": 1}
RECIPE = adaptive.recipe_for((2, 3), epsilon=1, delta="1e-6", neighbors="change one", **TRIPLES)
GROUPS = {"yhat": [n % 2 for n in range(80)], "sex": ["f", "m", "m", "f"] * 20}
REPORTED = {"group": "sex", "prediction": "yhat", "limits": "bootstrap", "replicates": 200}
LOTTERY = Thresholds("parity", 0.0, {"f": Rule((0.5, 0.1), (0.5, 0.5)), "m": Rule((0.5, 0.1), (0.5, 0.5))}, 1.0, 0.0)
COIN = KRRModel(truth="3/4", other="1/4", size=2)


class Always:
    """A classifier that says one thing."""

    def __init__(self, said: int) -> None:
        self.said = said

    def predict(self, features: Any) -> Any:
        return np.full(len(features), self.said)


def survey(randomizer: str) -> Survey:
    place = randomizer == PLACES
    terms = {"domain": TOWN, "epsilon": "1 per km"} if place else {"domain": list("abcdef"), "epsilon": 1}
    return Survey(name="s", version=1, question="?", randomizer=randomizer, times=1, **terms)


def device() -> tuple[Any, Any]:
    """The first report of a new device: permanent coins and fresh ones."""
    with tempfile.TemporaryDirectory() as folder:
        phone = Device(Memoized(permanent=2, once=1, size=64), Path(folder) / "memory.json", survey="s", version=1)
        return phone.respond(3)


RANDOMIZERS: dict[str, list[tuple[Any, Any]]] = {
    "local.oracles.responses.BinaryResponse.randomize": [(BinaryResponse(epsilon=1), [0, 1] * 150)],
    "local.oracles.responses.KRR.randomize": [(KRR(**SIX), PERSONS)],
    "local.oracles.responses.HadamardResponse.randomize": [(HadamardResponse(**SIX, blocks=b), PERSONS) for b in (1, 2)],
    "local.oracles.hashing._HashingOracle.randomize": [(kind(**SIX), PERSONS) for kind in (BinaryHashing, OptimizedHashing)],
    "local.oracles.sets._UnaryOracle.randomize": [(kind(**SIX), PERSONS) for kind in (SymmetricUnary, OptimizedUnary)],
    "local.oracles.sets.SubsetSelection.randomize": [(SubsetSelection(**SIX), PERSONS)],
    "local.oracles.numeric._Numeric.randomize": [(kind(**BOUNDS), PERSONS) for kind in (StochasticRounding, Piecewise, Hybrid)],
    "local.oracles.metric.ClampedGeometric.randomize": [(ClampedGeometric(**SIX), PERSONS)],
    "local.oracles.metric.ClampedLaplace.randomize": [(ClampedLaplace(**BOUNDS, granularity=1), PERSONS)],
    "local.oracles.metric.ExponentialResponse.randomize": [(ExponentialResponse(epsilon=e, size=6), PERSONS) for e in ("0.2", 2)],
    "local.oracles.metric.MetricResponse.randomize": [(MetricResponse(range(6), "line", epsilon=1, unit="steps"), PERSONS)],
    "local.places.planar.PlanarReport.randomize": [
        (PlanarReport(TOWN, epsilon=1, noise=noise, outside=outside), PERSONS)
        for noise in ("laplace", "geometric") for outside in ("keep", "clamp", "remap")
    ],
    "local.oracles.attributes.Split.randomize": [(Split(epsilon=1, sizes=[2, 3], oracle=KRR), PAIRS)],
    "local.oracles.attributes.Sample.randomize": [(Sample(epsilon=1, sizes=[2, 3], oracle=KRR), PAIRS)],
    "local.oracles.attributes.SampleWithFakes.randomize": [(SampleWithFakes(epsilon=1, sizes=[2, 3], oracle=KRR), PAIRS)],
}  # fmt: skip

DRAWS: dict[str, list[Callable[[], Any]]] = {
    **{
        name: [lambda oracle=oracle, values=values: oracle.randomize(values) for oracle, values in each]
        for name, each in RANDOMIZERS.items()
    },
    "local.collection.memoized.Memoized.remember": [lambda: Memoized(permanent=2, once=1, size=64).remember(3)],
    "local.collection.memoized.Memoized.report": [lambda: Memoized(permanent=2, once=1, size=64).report([[5]])],
    "local.collection.memoized.Device.respond": [device],
    "local.collection.survey.Survey.respond": [lambda name=name: survey(name).respond((1, 1) if name == PLACES else "b").report for name in SURVEY_RANDOMIZERS],
    "local.estimation.heavy_hitters.PrefixExtension.find": [lambda: PrefixExtension(lambda size: KRR(epsilon=4, size=size), 1, 4, 4).find(encode(["a"] * 300, width=1), confidence="0.5")],
    "local.estimation.inversion.bootstrap": [lambda: local_bootstrap.bootstrap(COIN, [60, 40], confidence="0.9", method="inversion")],
    "local.estimation.inversion.resample": [lambda: local_bootstrap.resample([60, 40], 50)],
    "local.estimation.ibu.thin": [lambda: ibu.thin([600, 400], 5)],
    "local.estimation.ibu.binomial": [lambda: ibu.binomial(np.full(50, 100), 0.5)],
    "local.estimation.ibu.inverse_binomial": [lambda: ibu.inverse_binomial(np.full(50, 100), np.full(50, 0.5))],
    "fairness.bootstrap.resampled": [lambda: fairness_bootstrap.resampled([60, 40], 50)],
    "fairness.bootstrap.uniforms": [lambda: fairness_bootstrap.uniforms(9)],
    "fairness.bootstrap.Replicates.of": [lambda: fairness_bootstrap.Replicates.of(Cells.of(GROUPS, group="sex", prediction="yhat"), 200).tables],
    "fairness.disparity_report.fairness_report": [lambda: fairness_report(GROUPS, **REPORTED).as_dict()],
    "fairness.disparity_report.report_cells": [lambda: report_cells(Cells.of(GROUPS, group="sex", prediction="yhat"), limits="bootstrap", replicates=200).as_dict()],
    "fairness.repair.thresholds.draw_predictions": [lambda: draw_predictions(np.full(300, 0.5))],
    "fairness.repair.reduction.Mixture.predict": [lambda: Mixture((Always(0), Always(1)), (0.5, 0.5), "parity", 0.0, 0.0).predict(np.zeros((300, 1)))],
    "fairness.repair.thresholds.Thresholds.predict": [lambda: LOTTERY.predict([0.3] * 300, ["f", "m"] * 150)],
    "synthetic.fit.row_sampling.draw": [lambda: row_sampling.draw(SOFT)],
    "synthetic.fit.row_sampling.draw_given": [lambda: row_sampling.draw_given(SOFT, np.zeros((200, 1), np.int64))],
    "synthetic.measure.noisy_marginals.measure": [lambda: noisy_marginals.measure(CODES, DESIGN)],
    "synthetic.measure.noisy_marginals.count_left_out": [lambda: noisy_marginals.count_left_out(CODES[:, 0], 2, DESIGN)],
    "synthetic.measure.fine_counts.count": [lambda: fine_counts.count(np.full(100, 7), fine_counts.Cells.over(100), Fraction(20))],
    "synthetic.measure.adaptive.choose": [lambda: adaptive.choose(CODES, RECIPE, lambda known: fit((2, 3), known))],
    "synthetic.commuting.synthesis.synthesize": [lambda name=name: public_map(NEAR, name, None) for name in PUBLIC if "accepted" not in name],
    "synthetic.commuting.urn.draw": [lambda: urn.draw(np.array([5, 9, 2]), synthesis.pure_prior(50, epsilon=1), 50)],
}  # fmt: skip

GENERATED = {"fairness.tradeoff.generated_loans"}
"""Made-up people for examples, the same each time by intention: nobody's privacy rests on them."""
ELSEWHERE = {
    "synthetic.fit.graphical.GraphicalTable.draw",
    "local.estimation.ibu.ibu",
    "local.places.maps.smoothed",
}
"""What is done with released numbers: rows of a model fitted to them, and where a fit stops, by `thin`."""


def drawing_functions() -> Iterator[str]:
    """All functions and methods of the three packages that have `entropy=None`, but protocols."""
    for package in (discreet.synthetic, discreet.fairness, discreet.local):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            classes = [c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__]
            scopes = [module, *(c for c in classes if not getattr(c, "_is_protocol", False))]
            for scope in scopes:
                for function in map(inspect.unwrap, (getattr(f, "__func__", f) for f in vars(scope).values())):
                    if inspect.isfunction(function) and function.__module__ == module.__name__:
                        entropy = inspect.signature(function).parameters.get("entropy")
                        if entropy is not None and entropy.default is None:
                            yield f"{module.__name__}.{function.__qualname__}".removeprefix("discreet.")


def test_everything_that_draws_is_listed():
    found = set(drawing_functions())
    assert found == set(DRAWS) | GENERATED | ELSEWHERE


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[int]]:
    """Counts the words that are taken from the system; or puts a stream that always begins anew in its place."""
    original = SystemEntropy.words

    def watch(replaced: bool) -> list[int]:
        taken: list[int] = []
        sampler._POOLS._numbers.clear()  # numbers drawn from the system before, and not yet handed out
        stream = DeterministicEntropy(4)

        def words(self: SystemEntropy, count: int) -> Any:
            taken.append(count)
            return stream.words(count) if replaced else original(self, count)

        monkeypatch.setattr(SystemEntropy, "words", words)
        return taken

    return watch


def assert_draws_from_the_system(draw: Callable[[], Any], system: Callable[[bool], list[int]]) -> None:
    taken, outcomes = system(False), []
    while len(set(outcomes)) < 2 and len(outcomes) < 60:  # one short report may come out alike: 3 in 4 times at most
        outcomes.append(str(public_values([draw()])))
        assert taken
    assert len(set(outcomes)) == 2
    repeated = set()
    for _ in range(2):
        system(True)
        repeated.add(str(public_values([draw()])))
    assert len(repeated) == 1  # there is no other source


@pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name, each in DRAWS.items() for place in range(len(each))]
)
def test_without_a_stream_the_system_is_asked(name, place, system):
    assert_draws_from_the_system(DRAWS[name][place], system)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("name", "neighbors"), CASES)
def test_releases_draw_from_the_system(name, neighbors, system):
    def draw() -> Any:
        with opened(FEW, neighbors, None) as data:
            return GATED[name][0](data)

    assert_draws_from_the_system(draw, system)


def test_a_dataset_that_is_opened_has_no_stream_of_its_own(tmp_path):
    """The front door leaves the curator's stream to the system."""
    policy = tmp_path / "clinic.toml"
    policy.write_text(
        '[dataset]\nname = "clinic"\nneighbors = "change one"\n[budget]\neveryone = "all"\nepsilon = 1\n'
        '[tables.t]\nsource = "python"\nunit = "row"\ncolumns.x = {type = "boolean"}\n'
    )
    with discreet.open(policy, tables={"t": pa.table({"x": [True]})}) as data:
        assert data._curator.entropy is None
