"""The Adult table with its hierarchies, where the data folder is."""

import csv
import os
from functools import cache
from pathlib import Path

import pytest

from discreet.anonymity import Coded, Hierarchy

DATA = Path(os.environ.get("DISCREET_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data") / "adult"
QUASI = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation")
needs_adult = pytest.mark.skipif(
    not (DATA / "adult_arx.csv").exists(), reason=f"{DATA / 'adult_arx.csv'} is not there; set DISCREET_DATA"
)


@cache
def read() -> tuple[dict[str, list[str]], Coded]:
    with (DATA / "adult_arx.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter=";")
    table = {name: list(values) for name, values in zip(header, zip(*rows, strict=True), strict=True)}
    hierarchies = [Hierarchy.read(name, DATA / f"adult_hierarchy_{name}.csv") for name in QUASI]
    return table, Coded.of(table, hierarchies)
