"""Rows and labels from updates: exact where they must be, no better than guessing where nothing is to be had."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from discreet import attacks
from discreet.attacks import Share
from discreet.attacks.updates import UpdateLabels, UpdateRows, imprint, nearest, read_rows, visible
from discreet.errors import InvalidData, InvalidParameter

INPUTS, UNITS, CLASSES = 20, 64, 4


class Net:
    """Two dense layers with ReLU between them; gradients written out."""

    def __init__(self, first=None, second=None, *, seed=0, units=UNITS):
        rng = np.random.default_rng(seed)
        self.first = rng.normal(size=(INPUTS + 1, units)) * np.sqrt(2 / INPUTS) if first is None else first
        self.second = rng.normal(size=(units + 1, CLASSES)) * np.sqrt(2 / units) if second is None else second
        if first is None:
            self.first[-1] = 0

    def gradient(self, x, y):
        """Of the mean loss: the two matrices, the last row of each for the biases."""
        ones = np.ones((len(x), 1))
        before = np.hstack([x, ones]) @ self.first
        hidden = np.hstack([np.maximum(before, 0), ones])
        z = hidden @ self.second
        p = np.exp(z - z.max(axis=1, keepdims=True))
        slope = p / p.sum(axis=1, keepdims=True) - np.eye(CLASSES)[y]
        back = (slope @ self.second[:-1].T) * (before > 0)
        return np.hstack([x, ones]).T @ back / len(x), hidden.T @ slope / len(x)

    def trained(self, x, y, *, steps, rate):
        """Minus the change of some local steps."""
        new = Net(self.first.copy(), self.second.copy())
        for _ in range(steps):
            one, two = new.gradient(x, y)
            new.first, new.second = new.first - rate * one, new.second - rate * two
        return self.first - new.first, self.second - new.second


def people(count, rng):
    """Rows between 0 and 1 around one center for each class."""
    centers = np.random.default_rng(99).random((CLASSES, INPUTS))
    y = rng.integers(0, CLASSES, count)
    return centers[y] / 2 + rng.random((count, INPUTS)) / 2, y


def clients(count, batch, seed=1):
    rng = np.random.default_rng(seed)
    return [people(batch, rng) for _ in range(count)], people(400, rng)[0]


def attack(updates, held, outside, **settings):
    return UpdateRows(
        weights=[one[0][:-1] for one in updates],
        biases=[one[0][-1] for one in updates],
        rows=[x for x, _ in held],
        outside=outside,
        bounds=(0, 1),
        **settings,
    ).run()


# --- what is recovered ---------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(0, 1, width=32), min_size=2, max_size=6),
    st.lists(st.sampled_from([0.0, 1e-3, -2.5, 7.0]), min_size=1, max_size=5).filter(any),
    st.floats(-8, 8).filter(lambda power: abs(power) > 0.01),
)
def test_one_row_comes_back_whatever_the_slopes_and_the_scale(row, slopes, power):
    row, slopes = np.array(row), np.array(slopes) * np.sign(power) * 10**power
    claims = read_rows(np.outer(row, slopes), slopes, low=0, high=1)
    assert len(claims) == 1
    assert claims[0] == pytest.approx(row, abs=1e-9)


@pytest.mark.parametrize(("batch", "least"), [(1, 1.0), (2, 0.95), (4, 0.75), (16, 0.15)])
def test_rows_of_a_batch_come_back_unit_by_unit(batch, least):
    held, outside = clients(96 // batch, batch)
    report = attack([Net().gradient(x, y) for x, y in held], held, outside)
    assert report.verdict == "falls"
    assert report.success.value >= least
    assert report.control.hits == report.baseline.hits == 0
    assert report.facts["own rows nearer to the claims than rows outside"].value > 0.9


@pytest.mark.parametrize(("steps", "rate"), [(5, 0.1), (20, 0.5)])
def test_the_change_after_several_local_steps_gives_them_too(steps, rate):
    held, outside = clients(96, 1)
    assert attack([Net().trained(x, y, steps=steps, rate=rate) for x, y in held], held, outside).success.value == 1
    held, outside = clients(24, 4)
    report = attack([Net().trained(x, y, steps=steps, rate=rate) for x, y in held], held, outside)
    assert report.success.value > 0.5


def test_a_dishonest_coordinator_reads_a_large_batch():
    held, outside = clients(1, 100)
    passive = attack([Net(units=400).gradient(*held[0])], held, outside)
    made = imprint(people(5000, np.random.default_rng(5))[0], units=400, outputs=CLASSES, seed=1)
    active = attack([Net(*made).gradient(*held[0])], held, outside)
    assert active.success.value > 0.7
    assert active.success.low > passive.success.high
    assert active.control.hits == 0


def test_what_was_read_is_the_row_and_only_the_owner_sees_it():
    held, outside = clients(30, 1)
    report = attack([Net().gradient(x, y) for x, y in held], held, outside)
    assert len(report.worst) == 5
    true, read = report.worst[0].split(": true ")[1].split("; read ")
    assert true == read
    assert true not in report.text() + str(report.as_dict()) + report.page().html()
    assert true in report.text(owner=True)


# --- what is not ---------------------------------------------------------------------------------------------------


def test_noise_stops_it_and_a_hundredth_of_it_does_not():
    held, outside = clients(120, 1)
    rng = np.random.default_rng(3)
    verdicts = {}
    for noise in (0.0005, 0.1, 1.0):
        sent = []
        for x, y in held:
            first, second = Net().gradient(x, y)
            norm = np.sqrt(np.square(first).sum() + np.square(second).sum())
            sent.append((first / max(norm, 1) + noise * rng.normal(size=first.shape),))
        report = attack(sent, held, outside)
        verdicts[noise] = report.verdict
        assert report.facts["a share that would have been seen"] < 0.12
        nearer = report.facts["own rows nearer to the claims than rows outside"]
        assert (nearer.low > 0.5) == (noise < 0.1), nearer
    assert verdicts == {0.0005: "falls", 0.1: "holds", 1.0: "holds"}


def test_where_everybody_is_alike_nearness_is_no_success_but_digits_are():
    """Any claim is near anybody: no success. Yet the updates give the rows back to the digit, and so do not hold."""
    rng = np.random.default_rng(0)
    alike = 0.5 + 0.001 * rng.normal(size=(300, INPUTS))
    held = [(alike[i : i + 1], np.array([0])) for i in range(150)]
    updates = [Net().gradient(x, y) for x, y in held]
    report = attack(updates, held, alike[150:])
    assert report.success.value == report.control.value == 1
    assert report.verdict == "undecided"
    assert report.facts["read to the digit"] == 150
    assert "150 rows came back to the digit" in report.text()
    blurred = [(one * (1 + 1e-3 * rng.normal(size=one.shape)), two) for one, two in updates]
    assert attack(blurred, held, alike[150:]).verdict == "holds"


def test_a_few_rows_to_the_digit_are_not_held():
    """Three of 600 clients send their gradient as it is, the others noise: far too few to be a success."""
    held, outside = clients(600, 1)
    rng = np.random.default_rng(5)
    updates = [(rng.normal(size=(INPUTS + 1, UNITS)), None) for _ in held]
    assert attack(updates, held, outside).verdict == "holds"
    updates[:3] = [Net().gradient(x, y) for x, y in held[:3]]
    report = attack(updates, held, outside)
    assert report.success.value < 0.01
    assert report.facts["read to the digit"] == 3
    assert report.verdict == "undecided"
    assert "3 rows came back to the digit" in report.text()


def test_updates_without_biases_cannot_be_read_and_show_nothing():
    held, outside = clients(100, 1)
    updates = [(np.vstack([Net().gradient(x, y)[0][:-1], np.zeros(UNITS)]),) for x, y in held]
    report = attack(updates, held, outside)
    assert report.success.hits == 0
    assert report.verdict == "undecided"
    assert "100 updates" in report.unread[0]


def test_the_mean_of_many_rows_is_no_row():
    held, outside = clients(1, 100)
    slopes = np.ones(3)
    update = np.vstack([np.outer(held[0][0].sum(axis=0), slopes), 100 * slopes])
    report = attack([(update,)], held, outside)
    assert report.success.hits == 0
    assert report.verdict == "holds"


# --- formulas ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trials", "top"), [(50, 0.0), (100, 0.03), (400, 0.2)])
def test_the_stated_power_is_reached_and_just_so(trials, top):
    share = visible(trials, Share(value=0.0, low=0.0, high=top), 0.95)

    def seen(p):
        counts = np.arange(trials + 1)
        above = [Share.counted(int(k), trials, confidence=0.95).low > top for k in counts]
        return binom.pmf(counts, trials, p)[above].sum()

    assert seen(share) >= 0.95 > seen(share - 0.001)


def test_power_of_one_where_nothing_could_be_seen():
    assert visible(3, Share(value=0.9, low=0.8, high=1.0), 0.95) == 1.0


def test_distances_are_those_of_all_pairs():
    rng = np.random.default_rng(1)
    rows, claims, spans = rng.random((7, 3)), rng.random((5, 3)), np.array([1.0, 2.0, 0.5])
    slow = [min(np.sqrt((((row - one) / spans) ** 2).mean()) for one in claims) for row in rows]
    assert nearest(rows, claims, spans) == pytest.approx(slow)
    assert np.isinf(nearest(rows, claims[:0], spans)).all()


def test_claims_stay_within_the_public_range():
    claims = read_rows([[5.0, -5.0], [1.0, 2.0]], [1.0, 4.0], low=[0, 1], high=[1, 2])
    assert (claims >= [0, 1]).all()
    assert (claims <= [1, 2]).all()


# --- labels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
def test_labels_come_back_from_the_last_layer(batch):
    held, _ = clients(120, batch)
    slopes = [Net().gradient(x, y)[1][-1] for x, y in held]
    report = UpdateLabels(biases=slopes, labels=[y for _, y in held]).run()
    assert report.success.value == 1
    assert report.verdict == "falls"
    assert report.baseline.value < 0.75


def test_noisy_labels_are_guessed():
    held, _ = clients(400, 1)
    rng = np.random.default_rng(2)
    slopes = np.array([Net().gradient(x, y)[1][-1] for x, y in held]) + 20 * rng.normal(size=(400, CLASSES))
    assert UpdateLabels(biases=slopes, labels=[y for _, y in held]).run().verdict != "falls"


# --- bad input -----------------------------------------------------------------------------------------------------

GOOD = {
    "weights": [np.ones((2, 3))],
    "biases": [np.ones(3)],
    "rows": [[[0.5, 0.5]]],
    "outside": [[0.0, 0.0], [1.0, 1.0]],
}


def test_the_good_example_is_good():
    assert UpdateRows(**GOOD).run().people == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"weights": [np.ones((3, 3))]}, "weights of update 0"),
        ({"biases": [np.ones(2)]}, "one bias for each unit"),
        ({"biases": []}, "expected one of each"),
        ({"weights": [], "biases": [], "rows": []}, "expected one of each"),
        ({"weights": [np.full((2, 3), np.nan)]}, "not finite"),
        ({"weights": [[["a", "b"], ["c", "d"]]]}, "arrays of numbers"),
        ({"rows": [[[0.5, 0.5, 0.5]]]}, "rows of update 0: 3 columns"),
        ({"rows": [[[0.5, np.inf]]]}, "row 0"),
        ({"rows": [[]]}, "rows of update 0: got shape"),
        ({"outside": []}, "outside: got shape"),
        ({"outside": "people"}, "rows of numbers"),
        ({"bounds": (1, 0)}, "bounds"),
        ({"within": 0}, "within"),
        ({"within": 1}, "within"),
        ({"seed": -1}, "seed"),
        ({"confidence": 1}, "confidence"),
    ],
)
def test_bad_updates_are_refused(changed, words):
    with pytest.raises((InvalidData, InvalidParameter), match=words):
        UpdateRows(**GOOD | changed).run()


@pytest.mark.parametrize(
    ("biases", "labels", "words"),
    [
        ([[1.0, 2.0]], [], "for 0 updates"),
        ([[1.0]], [[0]], "updates × classes"),
        ([[1.0, 2.0], [1.0]], [[0], [0]], "one row of numbers"),
        ([[1.0, np.nan]], [[0]], "finite"),
        ([[1.0, 2.0]], [[2]], "outside 0 … 1"),
        ([[1.0, 2.0]], [[0.5]], "not classes"),
        ([[1.0, 2.0]], [[]], "not classes"),
    ],
)
def test_bad_labels_are_refused(biases, labels, words):
    with pytest.raises(InvalidData, match=words):
        UpdateLabels(biases=biases, labels=labels).run()


@pytest.mark.parametrize(
    ("known", "settings", "words"),
    [
        ([[1.0]], {}, "two rows"),
        ([[1.0], [np.nan]], {}, "finite"),
        ([[1.0], [2.0]], {"units": 1}, "units"),
        ([[1.0], [2.0]], {"outputs": 1}, "outputs"),
    ],
)
def test_bad_imprints_are_refused(known, settings, words):
    with pytest.raises((InvalidData, InvalidParameter), match=words):
        imprint(known, **{"units": 4, "outputs": 2, "seed": 0} | settings)


def test_every_attack_is_found_under_its_name():
    assert attacks.UpdateRows is UpdateRows
    assert attacks.UpdateLabels is UpdateLabels
    assert list(attacks._ROOMS) == sorted(attacks._ROOMS)
    for name in attacks.__all__:
        assert getattr(attacks, name).__name__ == name
