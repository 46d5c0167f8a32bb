"""Whatever label anonymity writes, attacks read: every released row still fits its own person, in memory and as CSV.

An attack that does not understand a label says that a release holds; there is no worse fault.
"""

import numpy as np
import pytest

from discreet.anonymity import Policy, anonymize
from discreet.attacks.tables.columns import columns
from discreet.attacks.tables.matching import Join
from discreet.tables import read_table, write

PEOPLE = 300


def folk():
    rng = np.random.default_rng(11)
    days = np.datetime64("1950-01-01") + rng.integers(0, 20_000, PEOPLE)
    points = zip(rng.uniform(-1, 1, PEOPLE), rng.uniform(-3, 3, PEOPLE), strict=True)
    return {
        "born": days.astype(str).tolist(),
        "age": [str(age) for age in rng.integers(-10, 110, PEOPLE)],
        "kg": [f"{kg:.1f}" for kg in rng.uniform(40, 99, PEOPLE)],
        "zip": [f"{code:05d}" for code in rng.integers(1000, 1400, PEOPLE)],
        "word": ["".join(rng.choice(list("ABC"), rng.integers(1, 5))) for _ in range(PEOPLE)],
        "home": [f"{latitude:.2f},{longitude:.2f}" for latitude, longitude in points],
        "seen": [f"{day} {rng.integers(0, 24):02d}:30:00" for day in days],
    }


FOLK = folk()
RULES = {
    "dates": ("born", {"quasi": "dates"}),
    "whole numbers": ("age", {"quasi": "intervals", "widths": [5, 10, 40]}),
    "numbers": ("kg", {"quasi": "intervals", "widths": [0.1, 0.5, 5]}),
    "ZIP codes": ("zip", {"quasi": "prefixes"}),
    "texts of several lengths": ("word", {"quasi": "prefixes"}),
    "numbers of several lengths": ("age", {"quasi": "prefixes"}),
    "places": ("home", {"quasi": "grid", "cells": [0.1, 0.5]}),
}
NUMBERS = ["born", "age", "kg"]


def fits(released, name, folder):
    """Whether each released row fits its own person, from tables and from files."""
    known = read_table({name: FOLK[name]})
    yield Join(columns(released, [name]), columns(known, [name]), {})
    paths = [write(table, folder / f"{place}.csv") for place, table in enumerate((released.select([name]), known))]
    yield Join(columns(paths[0], [name]), columns(paths[1], [name]), {})


@pytest.mark.parametrize("k", [2, 12])
@pytest.mark.parametrize("method", ["local", "optimal"])
@pytest.mark.parametrize("rule", RULES)
def test_labels_of_hierarchies(rule, method, k, tmp_path):
    name, role = RULES[rule]
    made = Policy.of({"anonymity": {"k": k, "method": method}, "columns": {name: role}})
    released = anonymize({name: FOLK[name]}, made).table
    for join in fits(released, name, tmp_path):
        assert join.fits(np.arange(PEOPLE), np.arange(PEOPLE)).all()


@pytest.mark.parametrize("k", [2, 12])
@pytest.mark.parametrize("name", NUMBERS)
def test_labels_of_mondrian(name, k, tmp_path):
    made = Policy.of({"anonymity": {"k": k, "method": "mondrian"}, "columns": {name: {"quasi": "number"}}})
    released = anonymize({name: FOLK[name]}, made).table
    for join in fits(released, name, tmp_path):
        assert join.fits(np.arange(PEOPLE), np.arange(PEOPLE)).all()


def test_labels_of_times():
    import pyarrow

    times = pyarrow.table({"seen": pyarrow.array(FOLK["seen"]).cast(pyarrow.timestamp("s"))})
    made = Policy.of({"anonymity": {"k": 3, "method": "mondrian"}, "columns": {"seen": {"quasi": "number"}}})
    join = Join(columns(anonymize(times, made).table), columns(times), {})
    assert join.fits(np.arange(PEOPLE), np.arange(PEOPLE)).all()
