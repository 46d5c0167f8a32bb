"""Synthetic tables by NIST's own measure, on its extracts and on generated censuses like them.

Each case is one release through the planner, at δ = 1e-5 and without declared bins, judged as SDNist does: triples with
the area, in twenty quantiles of the real table. The bars are the scores of Genetic SD on the national extract, 851 and
927. That extract is not at hand; generated censuses have its columns and about as many people and areas. The fit was
tuned on census 1 and Massachusetts; no setting was chosen on Texas. Census 2 was looked at while the rule of bins was
chosen, so it is another table, but not one that was held out.

Nobody is in the generated tables. Their columns are those of the extracts. They are in no way fitted to real
people: the numbers below were written down.
"""

import csv
import json
from itertools import combinations
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed
from bench.synthetic_tables import CPU, DATA, PAIRS, SCORE

BOUNDS = {"AGEP": (0, 99), "PINCP": (-9000, 1_500_000), "POVPIP": (0, 501), "DENSITY": (0, 60_000)}
"""Columns of numbers, for which no bins are declared."""

_CODES = {"SEX": 2, "MSP": 7, "HISP": 5, "RAC1P": 9, "NOC": 14, "NPF": 14, "HOUSING_TYPE": 3, "OWN_RENT": 3}
_CODES |= {"INDP_CAT": 20, "EDU": 13, "PINCP_DECILE": 11, "DVET": 7, "DREM": 3, "DPHY": 3, "DEYE": 2, "DEAR": 2}
"""Declared values of the generated columns; the extracts have their dictionary's."""

_TABLES = {"census 1": "census 1", "census 2": "census 2 (seen)", "ma": "Massachusetts", "tx": "Texas (not tuned on)"}
_GENETIC = {1: 851, 10: 927}
"""Genetic SD's k-marginal score of the national extract, by ε."""


def comparison(*, quick: bool) -> Comparison:
    """Above the published score of Genetic SD, on tables that the fit was tuned on and on others."""
    cases = [(table, epsilon) for table in _TABLES for epsilon in _GENETIC]
    if quick:
        cases = cases[:1]
    parts = [
        Contestant(_case(table, epsilon), "discreet", released, {"table": table, "epsilon": epsilon})
        for table, epsilon in cases
    ]
    bars = [
        Bar(
            f"k-marginal above {_GENETIC[epsilon]}, Genetic SD's",
            _case(table, epsilon),
            "discreet",
            measure=SCORE,
            at_least=_GENETIC[epsilon],
        )
        for table, epsilon in cases
    ]
    return Comparison("synthetic_census", "synthetic tables by NIST's measure", tuple(parts), tuple(bars), rounds=1)


def _case(table: str, epsilon: int) -> str:
    return f"{_TABLES[table]}, ε = {epsilon}"


def released(table: str, epsilon: int, people: int = 27_000) -> Timed:
    """One release through the planner, bins found privately, judged as SDNist does: in twenty quantiles, with areas."""
    import pyarrow

    from discreet.curator.catalog import Catalog, Column, Table
    from discreet.curator.engines.duckdb import DuckDBEngine
    from discreet.privacy.unit import Unit
    from discreet.requests import Synthesis
    from discreet.synthetic.planner import plan_synthesis

    seed = table.removeprefix("census ")
    values, declared = generated(int(seed), people) if table.startswith("census") else extract(table)
    columns = []
    for name, column in values.items():
        if name in BOUNDS:
            low, high = BOUNDS[name]
            columns.append(Column(name, "integer", lower=low, upper=high, nullable=None in column))
        else:
            columns.append(Column(name, "text", values=declared[name], nullable=False))
    catalog = Catalog("census", [Table("people", columns, unit=Unit())], neighbors="add or remove one")
    real = pyarrow.table(values)

    def run() -> dict[str, float]:
        import time

        before = time.process_time()
        plan = plan_synthesis(Synthesis(table="people", epsilon=epsilon, delta="1e-5"), catalog)
        with DuckDBEngine(catalog, {"people": real}) as engine:
            made = plan.finish(plan.run(engine, None), None, engine)  # type: ignore[arg-type]
        drawn = made.table.to_pydict()
        spent = time.process_time() - before
        score, pairs = _judged(values, drawn)
        return {SCORE: score, PAIRS: pairs, CPU: spent}

    return run


def extract(state: str) -> tuple[dict[str, list[Any]], dict[str, list[str]]]:
    """NIST's extract of a state: values, and the declared ones of columns of text."""
    known = json.loads((DATA / "nist" / "nist_acs_data_dictionary.json").read_text("utf-8"))
    with open(DATA / "nist" / f"nist_{state}2019.csv", encoding="utf-8") as source:
        people = list(csv.DictReader(source))
    values: dict[str, list[Any]] = {}
    declared: dict[str, list[str]] = {}
    for name in known:
        if name in ("INDP", "WGTP", "PWGTP"):
            continue
        given = [person[name] for person in people]
        if name in BOUNDS:
            values[name] = [None if value == "N" else round(float(value)) for value in given]
            continue
        values[name] = given
        area = {"ma": "25-", "tx": "48-"}[state] if name == "PUMA" else ""
        declared[name] = [value for value in known[name]["values"] if value.startswith(area)]
        if name in ("NOC", "NPF"):
            declared[name] = ["N", *map(str, range(20) if name == "NOC" else range(2, 21))]
    return values, declared


def _judged(real: dict[str, list[Any]], made: dict[str, list[Any]]) -> tuple[float, float]:
    """NIST's k-marginal score and the mean distance of pairs, in twenty quantiles of the real numbers."""
    import numpy as np

    names = list(real)
    coded = []
    for name in names:
        both = (real[name], made[name])
        if name in BOUNDS:
            first, second = (np.array([np.nan if x is None else x for x in column], float) for column in both)
            edges = np.unique(np.nanquantile(first, np.arange(1, 20) / 20))
            codes = [
                np.where(np.isnan(column), len(edges) + 1, np.searchsorted(edges, column)) for column in (first, second)
            ]
        else:
            book = {value: code for code, value in enumerate(dict.fromkeys([*both[0], *both[1]]))}
            codes = [np.array([book[value] for value in column]) for column in both]
        coded.append(codes)

    def distance(which: tuple[int, ...]) -> float:
        flat = [np.zeros(len(side[names[0]]), np.int64) for side in (real, made)]
        for column in which:
            flat = [64 * before + codes for before, codes in zip(flat, coded[column], strict=True)]
        _, place = np.unique(np.concatenate(flat), return_inverse=True)
        parts = place[: len(flat[0])], place[len(flat[0]) :]
        shares = [np.bincount(part, minlength=place.max() + 1) / len(part) for part in parts]
        return float(np.abs(shares[0] - shares[1]).sum() / 2)

    columns = range(1, len(names))
    triples = [distance((0, *pair)) for pair in combinations(columns, 2)]  # PUMA is the first
    pairs = [distance(pair) for pair in combinations(range(len(names)), 2)]
    return 1000 * (1 - float(np.mean(triples))), float(np.mean(pairs))


def generated(seed: int, people: int = 27_000, areas: int = 27) -> tuple[dict[str, list[Any]], dict[str, list[str]]]:
    """A generated census: values, and the declared ones of columns of text."""
    import numpy as np

    rng = np.random.default_rng(seed)
    area = rng.choice(areas, people, p=rng.dirichlet(np.full(areas, 8.0)))
    density = np.exp(rng.uniform(3, 10.5, areas))
    where = {"old": rng.normal(0, 0.5, areas)[area], "rich": rng.normal(0, 0.6, areas)[area]}
    where["city"] = ((np.log(density) - 6.7) / 2.2)[area]
    who = _persons(rng, area, areas, where)
    work = _work(rng, area, areas, where, who)
    home = _homes(rng, where, who, work)
    absent = {"PINCP": who["AGEP"] < 15, "POVPIP": home["HOUSING_TYPE"] > 0}
    values: dict[str, list[Any]] = {"PUMA": [str(code) for code in area]}
    for name, column in ({**who, "DENSITY": density[area], **work, **home} | _health(rng, where, who)).items():
        whole = np.rint(column).astype(int).tolist()
        gone = absent.get(name, np.zeros(people, bool))
        if name in BOUNDS:
            values[name] = [None if out else value for value, out in zip(whole, gone, strict=True)]
        else:
            values[name] = [str(value) for value in whole]
    return values, {name: [str(code) for code in range(_CODES.get(name, areas))] for name in values}


def _pick(rng: Any, *levels: Any) -> Any:
    """One code a row: the softmax of its levels."""
    import numpy as np

    share = np.exp(np.stack(np.broadcast_arrays(*levels), axis=1))
    ends = np.cumsum(share, axis=1)
    return (rng.random(len(ends))[:, None] * ends[:, -1:] > ends).sum(axis=1)


def _likely(rng: Any, level: Any) -> Any:
    import numpy as np

    return rng.random(len(level)) < 1 / (1 + np.exp(-level))


def _persons(rng: Any, area: Any, areas: int, where: dict[str, Any]) -> dict[str, Any]:
    """Age, sex, race and Hispanic origin by area; marriage by age and sex."""
    import numpy as np

    old, city, many = where["old"], where["city"], len(area)
    stage = _pick(rng, -0.2 - 0.3 * old, 0.2 + 0.25 * city, 0.6 + 0 * old, 0.3 + 0.2 * old, -0.2 + 0.7 * old)
    low, high = np.array([0, 15, 26, 46, 66])[stage], np.array([14, 25, 45, 65, 99])[stage]
    late = stage == 4
    age = low + (high - low + 1) * rng.beta(np.where(late, 1, 1.1), np.where(late, 2.2, 1))
    age = age.astype(int).clip(0, 99)
    sex = (rng.random(many) < 0.51 + 0.06 * (age > 75)).astype(int)
    mix = rng.dirichlet(np.array([5, 1.2, 0.05, 0.02, 0.05, 0.9, 0.02, 0.5, 0.4]), areas)
    race = _pick(rng, *np.log(mix[area] + 1e-12).T)
    other = race == 7
    by_area = [rng.normal(mean, spread, areas)[area] for mean, spread in ((0, 1), (-1, 1), (-2.5, 1), (-1, 0.7))]
    origin = _pick(
        rng, 2.5 - 1.5 * other, np.where(other, 1.5, -1) + by_area[0], *by_area[1:3], by_area[3] + 0.8 * other
    )
    married = _pick(
        rng,
        -0.8 + 0.09 * np.minimum(age - 15, 25) - 0.2 * city,
        -2 + 0.5 * (origin > 0),
        -6 + 0.085 * age + 0.7 * sex,
        -2.5 + 0.045 * np.minimum(age, 60),
        np.full(many, -2.6),
        2.4 - 0.075 * (age - 15) + 0.4 * city,
    )
    return {"AGEP": age, "SEX": sex, "MSP": np.where(age >= 15, 1 + married, 0), "HISP": origin, "RAC1P": race}


def _work(rng: Any, area: Any, areas: int, where: dict[str, Any], who: dict[str, Any]) -> dict[str, Any]:
    """Education, industry and income."""
    import numpy as np

    rich, city, age, sex, many = where["rich"], where["city"], who["AGEP"], who["SEX"], len(area)
    levels = [-2.5, -2 + 0.01 * age, -1.5 + 0.4 * (who["HISP"] > 0), -1.2 - 0.3 * rich, 0.9 - 0.5 * rich, 0.2, 0.3]
    levels += [-0.4 + 0.2 * rich, 0.5 + 0.9 * rich + 0.7 * (who["RAC1P"] == 5), -0.2 + 0.7 * rich + 0.2 * city]
    levels += [-1.6 + rich, -1.8 + rich + 0.01 * age]
    school = np.where(age < 18, np.clip((age - 3) // 4, 0, 3), 99)
    grade = np.where(age < 3, 0, 1 + np.minimum(school, _pick(rng, *levels)))
    retired, wife = age > 66, sex * (who["MSP"] == 1)
    works = (age >= 15) & _likely(rng, 1.3 + 0.15 * (grade - 6) - 2.6 * retired - 1.2 * (age < 19) - 0.35 * wife)
    pull = rng.normal(0, 0.9, (13, 19))[grade] + 0.8 * sex[:, None] * rng.normal(0, 1, 19)
    pull += 0.4 * rng.normal(0, 1, (areas, 19))[area]
    industry = np.where(works, 1 + _pick(rng, *pull.T), 0)
    prime = 0.5 * (1 - np.abs(age - 48) / 40)
    wage = np.exp(9.2 + 0.16 * grade + 0.25 * rich + prime - 0.25 * sex + rng.normal(0, 0.35, 20)[industry])
    wage *= np.exp(rng.normal(0, 0.75, many))
    wage = np.where(rng.random(many) < 0.6, np.round(wage, -3), np.round(wage, -1))
    pension = np.round(np.exp(rng.normal(9.8 + 0.2 * rich, 0.6, many)), -2)
    rest = np.where(rng.random(many) < 0.6, 0, np.round(np.exp(rng.normal(8.5, 1, many)), -2))
    income = np.where(works, wage, np.where((age > 62) & (rng.random(many) < 0.85), pension, rest)).clip(0, 1_400_000)
    tenths = np.quantile(income[age >= 15], np.arange(1, 10) / 10)
    tenth = np.where(age >= 15, 1 + np.searchsorted(tenths, income), 0)
    return {"EDU": grade, "INDP_CAT": industry, "PINCP": income, "PINCP_DECILE": tenth}


def _homes(rng: Any, where: dict[str, Any], who: dict[str, Any], work: dict[str, Any]) -> dict[str, Any]:
    """Housing, family and poverty."""
    import numpy as np

    age, married, many = who["AGEP"], who["MSP"] == 1, len(who["AGEP"])
    group = rng.random(many) < 0.015 + 0.05 * ((age >= 15) & (age < 26)) + 0.02 * (age > 84)
    kind = np.where(group, np.where(rng.random(many) < 0.4, 1, 2), 0)
    means = 0.14 * (np.log1p(work["PINCP"]) - 9) * (age >= 15)
    rent = 0.3 + 0.9 * where["city"] - means - 0.03 * (age - 40) - 0.6 * married + 0.3 * (who["RAC1P"] == 1)
    owned = np.where(group, 0, 1 + _likely(rng, rent - 0.4 * where["rich"]))
    alone = group | (~married & (age >= 18) & (rng.random(many) < 0.45))
    more = np.where(age < 18, 1.9, np.where(age > 60, 0.35, 1.1)) + 0.4 * (who["HISP"] > 0)
    family = np.where(alone, 0, 2 + np.minimum(rng.poisson(more), 10))
    parents = np.where((family > 2) & married & (age < 62), family - 3, 0)
    children = np.where(group, 0, 1 + np.minimum(parents + ((family > 1) & (rng.random(many) < 0.15)), 11))
    shared = (age < 18) * np.exp(rng.normal(10.7 + 0.4 * where["rich"], 0.7, many))
    means = (work["PINCP"] + 25_000 * married + shared) / (9000 + 4500 * np.maximum(family, 1))
    poverty = np.clip(np.round(100 * means), 0, 501)
    return {"HOUSING_TYPE": kind, "OWN_RENT": owned, "NPF": family, "NOC": children, "POVPIP": poverty}


def _health(rng: Any, where: dict[str, Any], who: dict[str, Any]) -> dict[str, Any]:
    """Disabilities by age, veterans by age and sex."""
    import numpy as np

    age, many = who["AGEP"], len(who["AGEP"])
    terms = {"DREM": (-3, 0.5), "DPHY": (-3.2, 1.1), "DEYE": (-4, 0.6), "DEAR": (-4.2, 1.1)}
    found = {
        name: _likely(rng, start + slope * (age - 40) / 20 - 0.2 * where["rich"])
        for name, (start, slope) in terms.items()
    }
    found["DPHY"] |= found["DREM"] & (rng.random(many) < 0.35)
    for name in ("DREM", "DPHY"):
        found[name] = np.where(age < 5, 0, 1 + found[name])
    served = (1 - who["SEX"]) * (rng.random(many) < 0.03 + 0.004 * np.maximum(age - 40, 0))
    rating = 1 + _pick(rng, np.zeros(many), 1.0, 0.5, 0.3, -0.5)
    return {**found, "DVET": np.where(age >= 17, 1 + served * rating, 0)}
