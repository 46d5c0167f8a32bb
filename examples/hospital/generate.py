"""A hospital that never was: patients, visits and regions from a seed, and the owner's policy for them.

Nobody in it exists, so `numpy.random` may make it; nothing here releases anything. What makes it worth asking about:
diagnoses follow Zipf's law with a tail of a handful of people, costs and stays are skewed, a few patients come more
than a hundred times, some fields are empty, and diagnosis, age, sex and department go together.

    python examples/hospital/generate.py demo-out/hospital
"""

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

FIRST_DAY, DAYS = np.datetime64("2024-01-01"), 731
SEXES = ("female", "male")
COVERS = ("public", "private", "none")
REGULARS_IN = 5000  # one patient in so many comes more than a hundred times

REGIONS = {  # region: (population, latitude, longitude)
    "Ashvale": (412_000, 52.41, -1.92),
    "Brackmoor": (286_000, 53.74, -2.11),
    "Colwick": (197_000, 52.95, -1.09),
    "Dunmere": (351_000, 51.52, -2.58),
    "Eastmark": (164_000, 52.63, 1.29),
    "Fenholt": (98_000, 52.57, -0.24),
    "Glenrath": (143_000, 54.97, -1.61),
    "Harrowby": (229_000, 51.75, -0.34),
    "Kestrel Bay": (76_000, 50.37, -4.14),
    "Lowland": (308_000, 51.28, 0.52),
    "Marchwood": (121_000, 50.90, -1.40),
    "Northam": (54_000, 54.60, -3.14),
}

DEPARTMENTS = {  # department: (mean stay in days, cost of admission, cost of a day, emergencies among a hundred)
    "cardiology": (4.6, 900, 520, 55),
    "internal medicine": (2.9, 420, 330, 40),
    "maternity": (2.6, 1100, 410, 30),
    "neurology": (5.4, 800, 480, 45),
    "oncology": (6.1, 1900, 690, 12),
    "orthopaedics": (3.8, 2100, 430, 35),
    "paediatrics": (1.9, 380, 390, 50),
    "psychiatry": (9.0, 350, 290, 25),
    "respiratory": (4.2, 520, 360, 60),
    "surgery": (3.3, 2600, 560, 30),
}

DIAGNOSES = (  # from the most to the least common: (diagnosis, department, whom it meets)
    ("I10 high blood pressure", "cardiology", "adult"),
    ("J06 cold and sore throat", "respiratory", "all"),
    ("E11 diabetes, type 2", "internal medicine", "adult"),
    ("M54 back pain", "orthopaedics", "adult"),
    ("O80 birth", "maternity", "mother"),
    ("J45 asthma", "respiratory", "all"),
    ("I25 coronary heart disease", "cardiology", "old"),
    ("J21 bronchiolitis", "paediatrics", "child"),
    ("K21 reflux", "internal medicine", "adult"),
    ("M17 knee arthrosis", "orthopaedics", "old"),
    ("F32 depression", "psychiatry", "adult"),
    ("J18 pneumonia", "respiratory", "all"),
    ("I48 atrial fibrillation", "cardiology", "old"),
    ("S52 broken forearm", "orthopaedics", "all"),
    ("A09 stomach flu", "internal medicine", "all"),
    ("I63 stroke", "neurology", "old"),
    ("K80 gallstones", "surgery", "adult"),
    ("C50 breast cancer", "oncology", "woman"),
    ("N39 urinary infection", "internal medicine", "all"),
    ("H66 ear infection", "paediatrics", "child"),
    ("J44 COPD", "respiratory", "old"),
    ("O47 false labor", "maternity", "mother"),
    ("G43 migraine", "neurology", "adult"),
    ("K35 appendicitis", "surgery", "all"),
    ("I50 heart failure", "cardiology", "old"),
    ("F41 anxiety", "psychiatry", "adult"),
    ("C61 prostate cancer", "oncology", "old man"),
    ("K40 hernia", "surgery", "adult"),
    ("S72 broken hip", "orthopaedics", "old"),
    ("I21 heart attack", "cardiology", "adult"),
    ("R56 febrile seizure", "paediatrics", "child"),
    ("C34 lung cancer", "oncology", "old"),
    ("G40 epilepsy", "neurology", "all"),
    ("O24 diabetes in pregnancy", "maternity", "mother"),
    ("C18 bowel cancer", "oncology", "old"),
    ("F10 alcohol dependence", "psychiatry", "adult"),
    ("K57 diverticulitis", "surgery", "old"),
    ("N20 kidney stones", "internal medicine", "adult"),
    ("M05 rheumatoid arthritis", "orthopaedics", "adult"),
    ("J12 RSV infection", "paediatrics", "child"),
    ("G20 Parkinson's disease", "neurology", "old"),
    ("K50 Crohn's disease", "internal medicine", "adult"),
    ("F20 schizophrenia", "psychiatry", "adult"),
    ("D50 anaemia", "internal medicine", "all"),
    ("K25 stomach ulcer", "surgery", "adult"),
    ("G35 multiple sclerosis", "neurology", "adult"),
    ("C43 melanoma", "oncology", "adult"),
    ("B20 HIV", "internal medicine", "adult"),
    ("O14 pre-eclampsia", "maternity", "mother"),
    ("A15 tuberculosis", "respiratory", "adult"),
    ("C81 Hodgkin's disease", "oncology", "adult"),
    ("E84 cystic fibrosis", "paediatrics", "child"),
)
RARE = (  # (diagnosis, department, whom it meets, visits to expect in a million of theirs)
    ("G12 muscular atrophy", "neurology", "all", 60),
    ("E75 Tay-Sachs disease", "paediatrics", "child", 220),
    ("A39 meningitis", "neurology", "all", 18),
    ("D66 haemophilia", "internal medicine", "all", 14),
    ("A82 rabies", "internal medicine", "all", 3),
    ("A81 Creutzfeldt-Jakob disease", "neurology", "old", 6),
    ("E71 maple syrup urine disease", "paediatrics", "child", 60),
)
DIALYSIS = ("N18 kidney failure", "internal medicine", "nobody at random")  # brings a patient a hundred times and more
ALL = (*DIAGNOSES, *(entry[:3] for entry in RARE), DIALYSIS)
CODES = tuple(name for name, *_ in ALL)
LASTING = "I10 E11 M54 J45 I25 K21 M17 F32 I48 C50 J44 G43 I50 F41 C61 C34 G40 C18 F10 M05 G20 K50 F20"

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Columns = dict[str, NDArray[Any]]
"""Text columns hold positions in their lists of names until they are written."""


def generate(folder: str | Path, *, visits: int = 1_000_000, seed: int = 2026) -> dict[str, int]:
    """Write patients, visits and regions as Parquet and policy.toml into `folder`; returns the rows of each table.

    The same seed and number of visits give the same rows, in the same order.
    """
    if visits < 5000:
        raise ValueError(f"visits: got {visits}, expected at least 5000, so that the few who come often stay few")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    patients = _patients(rng, visits // 5)
    came = _visits(rng, patients, visits)
    tables = {
        "patients": _table(rng, patients, gaps={"smoker": 0.06}),
        "visits": _table(rng, came, gaps={"diagnosis": 0.008, "length_of_stay": 0.005, "cost": 0.015}),
        "regions": _regions(),
    }
    for name, table in tables.items():
        pq.write_table(table, place / f"{name}.parquet")
    (place / "policy.toml").write_text(policy(), encoding="utf-8")
    return {name: table.num_rows for name, table in tables.items()}


def _patients(rng: np.random.Generator, count: int) -> Columns:
    """One row a patient. Identifiers are numbers that say nothing; regions are as populous as they are."""
    population = np.array([people for people, *_ in REGIONS.values()], float)
    age = np.clip(rng.beta(1.25, 1.35, count) * 102, 0, 101).astype(np.int64)  # at the end of the last year
    return {
        "patient_id": 100_000 + rng.permutation(count * 4)[:count].astype(np.int64),
        "sex": rng.integers(0, 2, count),
        "birth_year": 2025 - age,
        "region": _choose(rng, population, count),
        "insured": _choose(rng, [0.71, 0.22, 0.07], count),
        "smoker": rng.random(count) < np.where((age > 17) & (age < 75), 0.21, 0.02),
    }


def _visits(rng: np.random.Generator, patients: Columns, count: int) -> Columns:
    """One row a visit, in the order of admission."""
    day = np.sort(_days(rng, count))
    who, regular = _who_comes(rng, patients, count)
    sex, year = patients["sex"][who], np.where(day < 366, 2024, 2025)
    age = year - patients["birth_year"][who]
    code = np.where(regular, CODES.index(DIALYSIS[0]), _diagnoses(rng, patients, who, age))
    department = np.array([list(DEPARTMENTS).index(house) for _, house, _ in ALL])[code]
    stay, cost, emergency = _course(rng, department, age, regular)
    away = rng.random(count) < 0.015  # treated far from home
    return {
        "visit_id": np.arange(1, count + 1),
        "patient_id": patients["patient_id"][who],
        "region": np.where(away, rng.integers(0, len(REGIONS), count), patients["region"][who]),
        "sex": sex,
        "age": age,
        "department": department,
        "diagnosis": code,
        "admitted": FIRST_DAY + day,
        "emergency": emergency,
        "length_of_stay": stay,
        "cost": cost,
    }


def _days(rng: np.random.Generator, count: int) -> Numbers:
    """Days since the first: more in winter, fewer at weekends."""
    day = np.arange(DAYS)
    weekend = (day % 7) >= 5  # 2024 began on a Monday
    return _choose(rng, (1 + 0.18 * np.cos(2 * np.pi * (day - 15) / 365.25)) * np.where(weekend, 0.62, 1), count)


def _who_comes(rng: np.random.Generator, patients: Columns, count: int) -> tuple[Numbers, Flags]:
    """The patient of each visit, and whether it is one of a regular: the frail come more often, the old too."""
    born = patients["birth_year"]
    grown = np.flatnonzero((born < 1996) & (born > 1940))
    regulars = rng.choice(grown, max(3, len(born) // REGULARS_IN), replace=False)
    often = np.repeat(regulars, rng.integers(110, 320, len(regulars)))
    frailty = rng.standard_gamma(2.2, len(born)) * (0.6 + (2025 - born) / 70) * (born < 2025)
    who = np.concatenate([often, _choose(rng, frailty, count - len(often))])
    order = rng.permutation(count)
    return who[order], order < len(often)


def _diagnoses(rng: np.random.Generator, patients: Columns, who: Numbers, age: Numbers) -> Numbers:
    """A diagnosis for each visit: what the patient has for long, or something new; never what cannot be."""
    male = patients["sex"] == 1
    possible = np.array([[[_meets(whom, life, man) for *_, whom in ALL] for man in (0, 1)] for life in range(3)])
    for_long = _draw(rng, possible, _life(2024 - patients["birth_year"]), male)[who]
    lasts = np.array([name[:3] in LASTING for name in CODES])[for_long]
    returns = lasts & possible[_life(age), male[who].astype(int), for_long] & (rng.random(len(who)) < 0.6)
    return np.where(returns, for_long, _draw(rng, possible, _life(age), male[who]))


def _draw(rng: np.random.Generator, possible: Flags, life: Numbers, male: Flags) -> Numbers:
    """Diagnoses by Zipf's law among those that are possible at this time of life and for this sex."""
    common = np.append(1 / (3 + np.arange(len(DIAGNOSES))) ** 1.4, np.zeros(len(RARE) + 1))
    rare = np.concatenate([np.zeros(len(DIAGNOSES)), [times * 1e-6 for *_, times in RARE], [0]])
    code = np.empty(len(life), np.int64)
    for stage, man in product(range(3), (0, 1)):
        here, can = np.flatnonzero((life == stage) & (male == man)), possible[stage, man]
        code[here] = _choose(rng, can * (common / (can @ common) + rare), len(here))
    return code


def _life(age: Numbers) -> Numbers:
    """0 for a child, 1 for an adult, 2 from fifty on."""
    return np.digitize(age, [16, 50])


def _meets(whom: str, life: int, man: int) -> bool:
    return {
        "all": True,
        "child": life == 0,
        "adult": life >= 1,
        "old": life == 2,
        "mother": life == 1 and not man,
        "woman": life >= 1 and not man,
        "old man": life == 2 and bool(man),
    }.get(whom, False)


def _course(
    rng: np.random.Generator, department: Numbers, age: Numbers, regular: Flags
) -> tuple[Numbers, NDArray[np.float64], Flags]:
    """How long, how much, and whether in a hurry. Dialysis takes hours and costs nearly the same each time."""
    mean, admission, daily, hurry = (np.array(facts)[department] for facts in zip(*DEPARTMENTS.values(), strict=True))
    count = len(department)
    emergency = (rng.random(count) * 100 < hurry) & ~regular
    frailty = 0.7 + age / 130 + 0.25 * emergency
    stay = np.floor(mean * frailty * np.exp(0.75 * rng.standard_normal(count) - 0.28))
    stay = np.where(regular, 0, np.minimum(stay, 365)).astype(np.int64)
    spread = np.exp(np.where(regular, 0.05, 0.42) * rng.standard_normal(count))
    cost = np.where(regular, 310.0, admission + daily * stay) * spread * (1 + 0.15 * emergency)
    return stay, np.round(cost, 2), emergency


def _regions() -> pa.Table:
    rows = [(name, *facts) for name, facts in REGIONS.items()]
    names = ("region", "population", "latitude", "longitude")
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})


def _choose(rng: np.random.Generator, weights: NDArray[np.float64] | Sequence[float], count: int) -> Numbers:
    """Positions with probabilities in proportion to the weights."""
    ends = np.cumsum(weights)
    return np.searchsorted(ends, rng.random(count) * ends[-1], side="right")


def _table(rng: np.random.Generator, columns: Columns, *, gaps: dict[str, float]) -> pa.Table:
    """An Arrow table with names for positions, and a share of some columns empty."""
    arrays = {}
    for name, values in columns.items():
        empty = rng.random(len(values)) < gaps[name] if name in gaps else None
        array = pa.array(values, mask=empty)
        arrays[name] = pa.array(NAMES[name]).take(array) if name in NAMES else array
    return pa.table(arrays)


NAMES = {
    "sex": SEXES,
    "region": tuple(REGIONS),
    "insured": COVERS,
    "department": tuple(DEPARTMENTS),
    "diagnosis": CODES,
}


def policy() -> str:
    """The owner's policy. Nothing in it was read off the rows."""
    listed = {name: "[" + ", ".join(f'"{value}"' for value in values) + "]" for name, values in NAMES.items()}
    return POLICY.format(**listed)


POLICY = """\
# What is private here, for whom, and how much may ever be learned. Read by `discreet check policy.toml`.

[dataset]
name = "hospital"
neighbors = "add or remove one"   # hidden: whether any one patient is in the data at all
witness = "witness"                # remembers how far the ledger had come; real data have it on another machine

[budget]                           # for everything that is ever released, to all analysts together
epsilon = "3"
delta = "1e-6"                     # well below one in the number of patients

[budget.analysts.student]          # no more than this for the student, whatever is left
epsilon = "0.25"

[budget.everyone]                  # each of the others may spend all of it; without this, they would be refused
epsilon = "3"
delta = "1e-6"

[tables.patients]
source = "patients.parquet"
unit = "patient_id"                # a person, however many rows
max_groups_per_unit = 1                         # a patient counts in one group of an answer
max_rows_per_group = 1                           # and has one row

[tables.patients.columns]
patient_id = {{type = "integer", nullable = false}}
sex = {{type = "text", nullable = false, values = {sex}}}
birth_year = {{type = "integer", lower = 1900, upper = 2025}}
region = {{type = "text", nullable = false, values = {region}}}
insured = {{type = "text", nullable = false, values = {insured}}}
smoker = {{type = "boolean", values = [true, false]}}

[tables.visits]
source = "visits.parquet"
unit = "patient_id"
max_groups_per_unit = 3                         # a patient counts in at most three groups of an answer ...
max_rows_per_group = 10                          # ... and with at most ten visits in each

[tables.visits.columns]            # visit_id is not declared: nobody can ask about it
patient_id = {{type = "integer", nullable = false}}
region = {{type = "text", nullable = false, values = {region}}}
sex = {{type = "text", nullable = false, values = {sex}}}
age = {{type = "integer", nullable = false, lower = 0, upper = 110}}
department = {{type = "text", nullable = false, values = {department}}}
diagnosis = {{type = "text"}}        # no list: groups are named only where enough people share them, which spends delta
admitted = {{type = "date", nullable = false}}
emergency = {{type = "boolean", nullable = false, values = [true, false]}}
length_of_stay = {{type = "integer", lower = 0, upper = 60}}             # longer stays count as 60 days
cost = {{type = "real", lower = 0, upper = 30000, granularity = "0.01"}}  # dearer visits count as 30 000

[tables.regions]
source = "regions.parquet"
unit = "public"                    # everybody may know these rows

[tables.regions.columns]
region = {{type = "text", nullable = false, values = {region}}}
population = {{type = "integer", nullable = false}}
latitude = {{type = "real", nullable = false}}
longitude = {{type = "real", nullable = false}}
"""


if __name__ == "__main__":
    print(generate(sys.argv[1] if len(sys.argv) > 1 else "demo-out/hospital"))
