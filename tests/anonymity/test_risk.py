"""Prosecutor, journalist, marketer; and from a sample to its population."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.anonymity import Classes
from discreet.anonymity.risk import (
    _expanded_inverse,
    _summed_inverse,
    expected_inverse,
    fit_pitman,
    population_sizes,
    population_uniques,
    risk,
    stays,
)
from discreet.errors import InvalidData, InvalidParameter


def classes_of(sizes: list[int], suppressed: int = 0) -> Classes:
    return Classes.numbered(
        np.array([place for place, size in enumerate(sizes) for _ in range(size)] + [-1] * suppressed)
    )


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(0, 4), st.data())
def test_risks_equal_the_slow_reference(sizes: list[int], suppressed: int, data: st.DataObject) -> None:
    outside = [size + data.draw(st.integers(0, 5)) for size in sizes]
    found = risk(classes_of(sizes, suppressed), threshold="0.25", population=np.array(outside))
    rows = [(size, there) for size, there in zip(sizes, outside, strict=True) for _ in range(size)]
    assert found.rows == len(rows)
    assert found.suppressed == suppressed
    assert found.prosecutor.highest == pytest.approx(max(1 / size for size, _ in rows))
    assert found.prosecutor.mean == pytest.approx(sum(1 / size for size, _ in rows) / len(rows))
    assert found.prosecutor.at_risk == pytest.approx(sum(size < 4 for size, _ in rows) / len(rows))
    assert found.journalist is not None
    assert found.journalist.highest == pytest.approx(max(1 / there for _, there in rows))
    assert found.journalist.at_risk == pytest.approx(sum(there < 4 for _, there in rows) / len(rows))
    inward = sum(1 / there for _, there in rows) / len(rows)
    assert found.marketer == pytest.approx(inward)
    assert found.journalist.mean == pytest.approx(max(inward, len(sizes) / sum(outside)))
    assert found.sample_uniques == sizes.count(1)


def test_a_threshold_that_is_met_is_not_exceeded() -> None:
    assert risk(classes_of([5, 5]), threshold="0.2").prosecutor.at_risk == 0
    assert risk(classes_of([4, 5]), threshold="0.2").prosecutor.at_risk == pytest.approx(4 / 9)


def test_weighted_rows_count_as_people() -> None:
    light = Classes.numbered(np.array([0, 0, 1]), weights=np.array([2, 3, 1]))
    assert risk(light).as_dict() == risk(classes_of([5, 1])).as_dict()


def test_one_person_is_unique_and_two_are() -> None:
    visits = Classes.numbered(np.array([0, 0, 1, 2]))
    assert "3 people, 3 classes; 3 people (100.0%) are unique." in risk(visits, units=np.array([7, 7, 8, 9])).text()
    assert "2 rows, 1 class; 0 rows" in risk(Classes.numbered(np.array([0, 0]))).text()
    assert "3 rows, 2 classes; 1 row (33.3%) is unique." in risk(Classes.numbered(np.array([0, 0, 1]))).text()


def test_nothing_is_at_risk_where_all_is_suppressed() -> None:
    found = risk(Classes.numbered(np.array([-1, -1])))
    assert (found.rows, found.suppressed, found.prosecutor.highest, found.unique_share) == (0, 2, 0.0, 0.0)
    assert "2 suppressed" in found.text()


def inverse_step_by_step(size: int, people: int, more: int, theta: float, alpha: float) -> float:
    """E[1/F] of a class, person by person: each next one joins it or not."""
    if not more:
        return 1 / size
    joins = (size - alpha) / (theta + people)
    grown, same = (inverse_step_by_step(size + more_of_it, people + 1, more - 1, theta, alpha) for more_of_it in (1, 0))
    return joins * grown + (1 - joins) * same


@pytest.mark.parametrize("more", [1, 3, 9])
def test_the_expected_inverse_is_exact_given_the_fit(more: int) -> None:
    sizes = np.array([1, 1, 1, 2, 4, 7])
    theta, alpha = fit_pitman(sizes)
    found = expected_inverse(sizes, 16 + more)
    assert found.tolist() == pytest.approx([inverse_step_by_step(s, 16, more, theta, alpha) for s in sizes.tolist()])


def test_sums_and_expansions_of_the_expected_inverse_meet() -> None:
    for more in (50, 5000, 200_000):
        for size in (60, 100, 101):
            given = (size, size - 0.4, 4000.0, more)
            assert _expanded_inverse(*given) == pytest.approx(_summed_inverse(*given), rel=0.03, abs=5e-5)


def cells_of(columns: list[np.ndarray]) -> np.ndarray:
    return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].ravel()


def zipf(generator: np.random.Generator, values: int, power: float, people: int) -> np.ndarray:
    weights = np.arange(1.0, values + 1) ** -power
    return generator.choice(values, people, p=weights / weights.sum())


def drawn_population(kind: str, generator: np.random.Generator, people: int = 40_000) -> np.ndarray:
    """The cell of each person of a population."""
    if kind == "even":
        return generator.integers(0, 400_000, people)
    if kind == "zipf":
        return zipf(generator, 80_000, 1.0, people)
    values = [(60, 0.6), (20, 1.2)] if kind == "census" else [(200, 0.8), (20, 1.0), (10, 1.0)]
    columns = [generator.integers(0, 90, people), generator.integers(0, 2, people)]
    return cells_of(columns + [zipf(generator, count, power, people) for count, power in values])


@pytest.mark.quick_cases(9)
@pytest.mark.parametrize("kind", ["census", "rich", "zipf", "even"])
@pytest.mark.parametrize("rate", [0.02, 0.05, 0.2, 0.5])
def test_the_journalists_risk_is_that_of_the_population(kind: str, rate: float) -> None:
    """Populations of known cells: the mean risk of the sample's people, 1/F, is estimated within a quarter."""
    generator = np.random.default_rng(5)
    cell = drawn_population(kind, generator)
    sample = generator.permutation(cell)[: int(rate * len(cell))]
    truth = float((1 / np.bincount(cell)[sample]).mean())
    found = risk(Classes.numbered(np.unique(sample, return_inverse=True)[1]), population=len(cell))
    assert found.journalist is not None
    assert found.journalist.mean == pytest.approx(truth, rel=0.25)
    assert found.marketer == found.journalist.mean


@pytest.mark.parametrize(("rate", "least", "words"), [
    (0.05, 0.65, "within a factor of two of the truth"),
    (0.02, 0.35, "Rough estimates"),
])  # fmt: skip
def test_half_crowded_half_alone_is_the_hardest_and_the_report_says_how_hard(rate, least, words) -> None:  # type: ignore[no-untyped-def]
    """Half of the people are in 200 cells, half in 59,000: Pitman's model understates, by as much as the guide says."""
    generator = np.random.default_rng(7)
    crowded = generator.random(40_000) < 0.5
    cell = np.where(crowded, generator.integers(0, 200, 40_000), generator.integers(1000, 60_000, 40_000))
    sample = generator.permutation(cell)[: int(rate * len(cell))]
    truth = float((1 / np.bincount(cell)[sample]).mean())
    found = risk(Classes.numbered(np.unique(sample, return_inverse=True)[1]), population=len(cell))
    assert found.journalist is not None
    assert least * truth < found.journalist.mean < truth
    assert words in found.text()


def test_even_cells_are_never_understated() -> None:
    """Ten people in every cell, which Pitman's model cannot say: the estimate is above the truth, at most 2.5 times."""
    generator = np.random.default_rng(6)
    cell = generator.integers(0, 4000, 40_000)
    for rate in (0.01, 0.05, 0.2, 0.5):
        sample = generator.permutation(cell)[: int(rate * len(cell))]
        truth = float((1 / np.bincount(cell)[sample]).mean())
        found = risk(Classes.numbered(np.unique(sample, return_inverse=True)[1]), population=len(cell))
        assert found.journalist is not None
        assert 0.95 * truth < found.journalist.mean < 2.5 * truth


def test_a_larger_population_lowers_the_journalists_risk() -> None:
    sizes = classes_of([1, 2, 3])
    means = []
    for population in (6, 60, 6000):
        found = risk(sizes, population=population)
        assert found.journalist is not None
        means.append(found.journalist.mean)
    assert means[0] == pytest.approx(risk(sizes).prosecutor.mean)
    assert means == sorted(means, reverse=True)
    assert means[2] < 0.01


def test_population_sizes_are_joined_by_text_and_skip_suppressed_rows() -> None:
    table = {"zip": ["130**", "*", "148**", "130**"], "age": ["<30", "*", "3*", "<30"]}
    people = {"age": ["<30"] * 5 + ["3*"] * 2 + ["*"], "zip": ["130**"] * 5 + ["148**"] * 2 + ["*"]}
    sizes = population_sizes(table, people, ["zip", "age"])
    classes = Classes.of_table(table, ["zip", "age"])
    by_text = dict(zip(classes.of_row.tolist(), table["zip"], strict=True))
    assert {by_text[place]: int(size) for place, size in enumerate(sizes)} == {"130**": 5, "148**": 2}


# Pitman's model


def seated(theta: float, alpha: float, people: int, generator: np.random.Generator) -> list[int]:
    """Class sizes drawn from the model, one person after the other."""
    sizes: list[int] = []
    of_person: list[int] = []
    for present in range(people):
        place = len(sizes)
        if generator.random() * (theta + present) >= theta + alpha * len(sizes):
            while True:  # somebody's class, so by its size; then kept with chance (size − α)/size
                place = of_person[int(generator.random() * present)]
                if generator.random() * sizes[place] < sizes[place] - alpha:
                    break
        if place == len(sizes):
            sizes.append(0)
        sizes[place] += 1
        of_person.append(place)
    return sizes


def every_partition(people: int) -> list[tuple[tuple[int, ...], int]]:
    """All ways to put people, one after the other, in classes: the class sizes and whether person 0 is alone."""
    ways: list[list[int]] = [[]]
    for _ in range(people):
        ways = [[*way, place] for way in ways for place in range(max(way, default=-1) + 2)]
    return [(tuple(Counter(way).values()), way.count(way[0])) for way in ways]


def chance_of(sizes: tuple[int, ...], theta: float, alpha: float) -> float:
    up = math.prod(theta + i * alpha for i in range(1, len(sizes)))
    inside = math.prod(math.prod(i - alpha for i in range(1, size)) for size in sizes)
    return up * inside / math.prod(theta + i for i in range(1, sum(sizes)))


def test_stays_is_exact_on_every_partition() -> None:
    theta, alpha = 0.7, 0.4
    partitions = every_partition(7)
    assert sum(chance_of(sizes, theta, alpha) for sizes, _ in partitions) == pytest.approx(1)
    alone = sum(chance_of(sizes, theta, alpha) for sizes, with_first in partitions if with_first == 1)
    assert stays(theta, alpha, 1, 7) == pytest.approx(alone)


def test_the_fit_is_the_likeliest_point_nearby() -> None:
    sizes = np.array([1] * 40 + [2] * 12 + [3] * 6 + [5, 8, 20])
    theta, alpha = fit_pitman(sizes)
    best = math.log(chance_of(tuple(sizes.tolist()), theta, alpha))
    for other_theta, other_alpha in [
        (theta * 1.2, alpha),
        (theta * 0.8, alpha),
        (theta, alpha + 0.05),
        (theta, alpha - 0.05),
    ]:
        assert math.log(chance_of(tuple(sizes.tolist()), other_theta, other_alpha)) < best


def expected_uniques(sizes: list[int], more: int, theta: float, alpha: float) -> float:
    """The expected number of classes of one after more people have come, person by person."""
    if not more:
        return sizes.count(1)
    total = theta + sum(sizes)
    value = (theta + alpha * len(sizes)) / total * expected_uniques([*sizes, 1], more - 1, theta, alpha)
    for place, size in enumerate(sizes):
        grown = [*sizes[:place], size + 1, *sizes[place + 1 :]]
        value += (size - alpha) / total * expected_uniques(grown, more - 1, theta, alpha)
    return value


@pytest.mark.parametrize("more", [0, 1, 2, 4])
def test_population_uniques_are_exact_given_the_fit(more: int) -> None:
    sizes = [1, 1, 1, 2, 4]
    theta, alpha = fit_pitman(np.array(sizes))
    found = population_uniques(classes_of(sizes), population=9 + more)
    assert found.uniques == pytest.approx(expected_uniques(sizes, more, theta, alpha))


@pytest.mark.parametrize(("theta", "alpha"), [(50.0, 0.3), (5.0, 0.7)])
def test_uniques_of_a_population_that_follows_the_model(theta: float, alpha: float) -> None:
    generator = np.random.default_rng(11)
    population = seated(theta, alpha, 12_000, generator)
    of_person = generator.permutation([place for place, size in enumerate(population) for _ in range(size)])
    sample = Counter(of_person[:3000].tolist())
    truth = sum(1 for place, size in sample.items() if size == 1 and population[place] == 1)
    classes = classes_of(list(sample.values()))
    found = population_uniques(classes, population=12_000)
    assert found.still_unique == pytest.approx(truth, rel=0.25)
    assert found.uniques == pytest.approx(population.count(1), rel=0.25)
    assert 0 < found.share < 1


@given(st.lists(st.integers(1, 6), min_size=1, max_size=15), st.integers(0, 500))
@settings(max_examples=30)
def test_estimates_stay_within_reason(sizes: list[int], more: int) -> None:
    for method in ("pitman", "zayatz"):
        found = population_uniques(classes_of(sizes), population=sum(sizes) + more, method=method)  # type: ignore[arg-type]
        assert 0 <= found.still_unique <= found.sample_uniques + 1e-9
        assert found.still_unique <= found.uniques + 1e-9 <= found.population + 1e-6
        if more == 0:
            assert found.still_unique == pytest.approx(
                found.sample_uniques if method == "pitman" else found.still_unique
            )


def test_zayatz_by_hand() -> None:
    """Sizes 1, 1, 2 (n = 4) of N = 8: p₁ = 2/3, p₂ = 1/3; one drawn of a class of j with chance j·C(8 − j, 3)/C(8, 4)."""
    one, two = 1 * math.comb(7, 3) / math.comb(8, 4), 2 * math.comb(6, 3) / math.comb(8, 4)
    share = (2 / 3 * one) / (2 / 3 * one + 1 / 3 * two)
    found = population_uniques(classes_of([1, 1, 2]), population=8, method="zayatz")
    assert found.share == pytest.approx(share)
    assert found.uniques == pytest.approx(2 * share * 2)


def test_no_two_alike_means_nobody_alike() -> None:
    found = population_uniques(classes_of([1] * 10), population=1000)
    assert (found.still_unique, found.uniques) == (10, 1000)


def test_bad_input() -> None:
    with pytest.raises(InvalidParameter, match="at least the number of people in the table"):
        risk(classes_of([2, 2]), population=3)
    with pytest.raises(InvalidData, match="smaller than the table in 1 of 2 classes"):
        risk(classes_of([2, 2]), population=np.array([2, 1]))
    with pytest.raises(InvalidData, match="each of the 2 classes"):
        risk(classes_of([2, 2]), population=np.array([2]))
    with pytest.raises(InvalidParameter, match="population"):
        risk(classes_of([2, 2]), population="many")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="threshold: got 0"):
        risk(classes_of([2]), threshold=0)
    with pytest.raises(InvalidData, match="no rows"):
        risk(Classes.numbered(np.empty(0, np.int64)))
    with pytest.raises(InvalidData, match="every row is suppressed"):
        population_uniques(Classes.numbered(np.array([-1])), population=5)
    with pytest.raises(InvalidParameter, match="pitman or zayatz"):
        population_uniques(classes_of([1]), population=5, method="guess")  # type: ignore[arg-type]


def test_large_classes_have_small_finite_risks() -> None:
    found = expected_inverse(np.array([1, 1, 60, 5000, 10**6]), 10 * 1_005_062)
    assert np.isfinite(found).all()
    assert found[3:].tolist() == pytest.approx([0.1 / 5000, 0.1 / 10**6], rel=1e-2)
