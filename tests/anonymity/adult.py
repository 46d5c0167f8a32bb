"""The Adult table with its hierarchies, where the data folder is."""

import csv
from functools import cache

from tests.real_data import FOLDER, needs

from discreet.anonymity import Coded, Hierarchy

DATA = FOLDER / "adult"
QUASI = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation")
needs_adult = needs("adult/adult_arx.csv")


@cache
def read() -> tuple[dict[str, list[str]], Coded]:
    with (DATA / "adult_arx.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter=";")
    table = {name: list(values) for name, values in zip(header, zip(*rows, strict=True), strict=True)}
    hierarchies = [Hierarchy.read(name, DATA / f"adult_hierarchy_{name}.csv") for name in QUASI]
    return table, Coded.of(table, hierarchies)
