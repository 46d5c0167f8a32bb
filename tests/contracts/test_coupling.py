"""With noisy counts and choices held fixed, what comes out is byte for byte the same for any private table.

Every mechanism is replaced by one that answers from a script and never looks at what it is given. Whatever still
depends on the table then went around the mechanisms: it was never noisy, and nothing was paid for it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import pytest
from tests.contracts.releases import (
    ADD,
    CASES,
    EMPTY,
    FAR,
    FEW,
    GATED,
    MANY,
    NEAR,
    PUBLIC,
    TOTALS,
    opened,
    public_map,
    public_values,
    synthesis,
)

from discreet.errors import NotAccepted
from discreet.local.collection.memoized import Device, Memoized
from discreet.local.collection.survey import PLACES, RANDOMIZERS, Survey
from discreet.local.places.areas import Area
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.mechanism import add
from discreet.mechanisms.partitions import OptimalSelection
from discreet.mechanisms.quantile import Quantile
from discreet.mechanisms.selection import Exponential
from discreet.noise import DeterministicEntropy
from discreet.synthetic import plan as synthesis_plan
from discreet.synthetic.commuting import evaluation
from discreet.synthetic.commuting import synthesis as commuting
from discreet.synthetic.measure import noisy_marginals


class Overruling(int):
    """Noise that takes the place of whatever it is added to."""

    def __radd__(self, other: Any) -> int:
        return int(self)

    __add__ = __radd__


@dataclass
class Script:
    """Answers by the number of the call and the place in it. `calls` has each mechanism and the shape it was given."""

    calls: list[tuple[Any, tuple[int, ...]]] = field(default_factory=list)

    def numbers(self, mechanism: Any, shape: tuple[int, ...]) -> list[int]:
        """Numbers of an answer: from 3 to 40, none like its neighbor."""
        self.calls.append((mechanism, shape))
        return [3 + (11 * len(self.calls) + 17 * place) % 38 for place in range(prod(shape))]

    def counts(self, mechanism: Any, value: Any, *, entropy: Any = None) -> Any:
        shape = np.shape(value)
        answer = np.array(self.numbers(mechanism, shape), np.int64).reshape(shape)
        return answer if shape else int(answer)

    def noise(self, sigma: Fraction, shape: Any, *, entropy: Any = None) -> Any:
        wanted = (shape,) if isinstance(shape, int) else tuple(shape)
        found = np.empty(prod(wanted), object)
        found[:] = [Overruling(number) for number in self.numbers(sigma, wanted)]
        return found.reshape(wanted)

    def choice(self, mechanism: Any, scores: Any, *, entropy: Any = None) -> int:
        return self.numbers(mechanism, (len(scores),))[0] % len(scores)

    def quantile(self, mechanism: Any, values: Any, *, entropy: Any = None) -> float:
        return float(self.numbers(mechanism, ())[0])  # of how many values is private, and is not told

    def no_value(self, mechanism: Any, units: Any, *, entropy: Any = None) -> Any:
        self.calls.append((mechanism, ()))  # how many values there are is private, and is not told
        return np.zeros(len(units), np.bool_)

    def urn(self, counts: Any, prior: Fraction, draws: int, *, entropy: Any = None) -> Any:
        shares = np.array(self.numbers(("urn", prior, draws), (len(counts),)), np.float64)
        return commuting.whole(shares / shares.sum() * draws, draws)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Script]]:
    """Starts a new script each time it is called."""

    def forget() -> None:
        """Bounds of counts depend on the public scheme alone, and are computed once: here, in every release."""
        evaluation.total_bound.cache_clear()
        evaluation._noise.cache_clear()

    def start() -> Script:
        forget()
        script = Script()
        for kind, answer in (
            (Geometric, script.counts),
            (RoundedGaussian, script.counts),
            (Exponential, script.choice),
            (OptimalSelection, script.no_value),
            (Quantile, script.quantile),
        ):
            method = lambda self, value, *, entropy=None, answer=answer: answer(self, value, entropy=entropy)  # noqa: E731
            monkeypatch.setattr(kind, "release", method)
        for module in (noisy_marginals, synthesis_plan, commuting):
            monkeypatch.setattr(module, "rounded_gaussian", script.noise)
        monkeypatch.setattr(noisy_marginals, "add", lambda steps, noise: add(steps, noise).astype(np.int64))
        monkeypatch.setattr(commuting, "draw", script.urn)
        return script

    yield start
    forget()


def released(rows: Any, name: str, neighbors: str) -> dict[str, Any]:
    with opened(rows, neighbors, DeterministicEntropy(5)) as data:
        return public_values(GATED[name][0](data))


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(("name", "neighbors"), CASES)
def test_a_release_is_its_noisy_counts_and_choices_and_nothing_else(name, neighbors, scripted):
    outcomes, scripts = [], []
    for rows in (FEW, MANY) if "found" in name else (FEW, MANY, EMPTY):  # without values there is nothing to choose
        scripts.append(scripted())
        outcomes.append(released(rows, name, neighbors))
    for outcome, script in zip(outcomes[1:], scripts[1:], strict=True):
        assert script.calls == scripts[0].calls  # which mechanisms run, on how many numbers, is public too
        assert set(outcome) == set(outcomes[0])
        assert [path for path, value in outcome.items() if value != outcomes[0][path]] == []


def test_found_values_are_those_that_were_chosen_and_nothing_else(scripted, monkeypatch):
    """Where all values are chosen, only which ones there are may show, and not how many people have each."""
    few = {**FEW, "people": [(n, "f", True, 30, 10, "Oslo" if n else "Rome", "cook") for n in range(3)]}
    many = {**MANY, "people": [(n, "mf"[n % 2], False, 9, 3, "Rome" if n else "Oslo", "cook") for n in range(99)]}
    outcomes = []
    for rows in (few, many):
        scripted()
        keep = lambda self, units, *, entropy=None: np.ones(len(units), np.bool_)  # noqa: E731
        monkeypatch.setattr(OptimalSelection, "release", keep)
        outcomes.append(released(rows, "synthesis of found values", ADD))
    assert outcomes[0] == outcomes[1]
    assert "Rome" in outcomes[0]["page()"]


@pytest.mark.slow
def test_a_graphical_model_is_fitted_to_the_noisy_counts_and_nothing_else(scripted):
    pytest.importorskip("mbi")
    outcomes = []
    for rows in (FEW, MANY):
        scripted()
        with opened(rows, ADD, DeterministicEntropy(5)) as data:
            made = synthesis(data, model="graphical")
            outcomes.append((public_values(made.measurements), made.table.to_pylist(), made.page().html()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_map_of_public_totals_is_its_noisy_counts_and_urns_and_nothing_else(name, scripted):
    outcomes = []
    for flows in (NEAR, FAR):
        scripted()
        try:
            outcomes.append(public_values(public_map(flows, name, DeterministicEntropy(5))))
        except NotAccepted as refused:
            outcomes.append({"refused": str(refused)})
    assert outcomes[0] == outcomes[1]
    assert "flows" not in outcomes[0]


def test_maps_are_accepted_and_refused_by_the_script_alone(scripted, monkeypatch):
    """Both answers of the noisy comparison occur, whatever the true distance is."""
    for verdict, expected in ((0, True), (10**6, False)):
        for flows in (NEAR, FAR):
            scripted()
            monkeypatch.setattr(
                Geometric, "release", lambda self, value, *, entropy=None, verdict=verdict: value * 0 + verdict
            )
            try:
                accepted = public_map(flows, "urns that are accepted", DeterministicEntropy(5)).total == 42
            except NotAccepted:
                accepted = False
            assert accepted is expected


# --- on devices -----------------------------------------------------------------------------------------------------


def same_report(monkeypatch: pytest.MonkeyPatch, kind: type, reports: Any) -> None:
    """The randomizer answers this to everything, and draws nothing."""
    monkeypatch.setattr(kind, "randomize", lambda self, values, *, entropy=None: reports)


@pytest.mark.parametrize("randomizer", RANDOMIZERS)
def test_what_leaves_a_device_is_the_randomized_answer_and_nothing_else(randomizer, monkeypatch):
    place = randomizer == PLACES
    domain = Area.plane(width=3, height=2, cell=1) if place else ["no", "yes", "perhaps"]
    terms = {"domain": domain, "epsilon": "1 per km" if place else 1, "times": 1}
    survey = Survey(name="s", version=1, question="?", randomizer=randomizer, **terms)
    drawn = survey.randomizes().randomize([0], entropy=DeterministicEntropy(1))
    same_report(monkeypatch, type(survey.randomizes()), drawn)
    answers = [(0.1, 0.1), (2.9, 1.9), (50, -3)] if place else domain
    outcomes = [survey.respond(answer, entropy=DeterministicEntropy(2)) for answer in answers]
    assert len({outcome.line for outcome in outcomes}) == 1
    assert public_values(outcomes[0]) == public_values(outcomes[-1])


def test_what_a_memory_sends_follows_from_its_permanent_response_alone(monkeypatch, tmp_path):
    memoized = Memoized(permanent=2, once=1, size=5)
    same_report(monkeypatch, type(memoized.first), np.array([[0b01101]]))
    sent = []
    for value in range(5):
        device = Device(memoized, tmp_path / f"{value}.json", survey="s", version=1)
        stream = DeterministicEntropy(3)
        sent.append(
            [(report.tolist(), loss) for report, loss in (device.respond(value, entropy=stream) for _ in range(3))]
        )
    assert all(each == sent[0] for each in sent)
    assert len({str(report) for report, _ in sent[0]}) > 1  # fresh coins for each report


# --- the script itself ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_tables_differ_in_everything_that_is_measured():
    """Without the script the same stream gives different counts: the contract above could fail."""
    for name in GATED:
        first, second = (released(rows, name, ADD) for rows in (FEW, MANY))
        assert {path for path in first if first[path] != second.get(path)} & {
            "measurements[0].counts", "measurements[0][0].counts", "flows.people", "cells.counts",
            "contributions.max_groups_per_unit", "columns.days[0]",
        }, name  # fmt: skip
    assert NEAR.total == FAR.total == sum(TOTALS.values())
    assert (
        [NEAR.to(end)[1].sum() for end in TOTALS] == [FAR.to(end)[1].sum() for end in TOTALS] == list(TOTALS.values())
    )


def test_every_mechanism_of_these_plans_is_scripted(scripted):
    kinds = set()
    for name, (release, _) in GATED.items():
        script = scripted()
        with opened(FEW, ADD, DeterministicEntropy(5)) as data:
            release(data)
        assert script.calls, name
        kinds |= {type(mechanism) for mechanism, _ in script.calls}
    assert kinds == {Geometric, RoundedGaussian, Exponential, OptimalSelection, Quantile, Fraction}


def test_what_overrules_hides_what_it_is_added_to():
    noise = Script().noise(Fraction(1), (2, 2))
    for exact in (np.zeros((2, 2), np.int64), np.full((2, 2), 10**6)):
        assert (exact + noise).astype(np.int64).tolist() == noise.astype(np.int64).tolist()
        assert add(exact, noise).astype(np.int64).tolist() == noise.astype(np.int64).tolist()


# --- what is said of the noise is what was drawn --------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", [ADD, "change one"])
@pytest.mark.parametrize(
    "name", ["synthesis", "synthesis without bins", "synthesis in rounds", "synthesis of several rows"]
)
def test_the_noise_that_is_stated_is_the_noise_that_was_drawn(name, neighbors, scripted):
    script = scripted()
    with opened(FEW, neighbors, DeterministicEntropy(5)) as data:
        made = GATED[name][0](data)
    drawn = [(float(sigma), shape) for sigma, shape in script.calls if isinstance(sigma, Fraction)]
    stated = []
    for levels in made.head["fine"].values():
        sigma = float(made.plan.sigma_of_fine(made.plan.schema({})))
        stated += [(sigma, (len(parts),)) for parts, _ in levels]
    stated += [(one.sigma, one.counts.shape) for one in made.measurements]
    left_out = [each for each in made.lost() if each.left_out]
    stated.append((left_out[0].sigma, (len(left_out),)))
    if name == "synthesis of several rows":
        stated.append((float(made.plan.sigma_of_rows), (3,)))
    assert drawn == stated
