"""What the demo's analysts ask, and how the owner checks the answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generate import NAMES

from discreet.curator.catalog import ColumnType
from discreet.curator.contribution_draw import digest_sql, with_place


@dataclass(frozen=True, slots=True)
class Question:
    """What an analyst asks, and how the owner checks it.

    `truth` is for the plain DuckDB where the analyst's text would not do; `bounded` is what the question comes to once
    each patient's part in it is bounded, so that the noise can be told from the bounding.
    """

    title: str
    remark: str
    sql: str
    options: Mapping[str, Any]
    drawn: str
    keys: tuple[str, ...] = ()
    truth: str | None = None
    bounded: str | None = None
    analyst: str = "ann"

    @property
    def asks(self) -> str:
        """The options in words."""
        names = {"epsilon": "ε", "delta": "δ", "error": "an error of at most"}
        return ", ".join(f"{names.get(name, name)} {value}" for name, value in self.options.items())


PEOPLE_WITH = """SELECT COUNT(DISTINCT patient_id) AS people FROM visits
WHERE diagnosis = 'B20 HIV' AND region = '{region}'"""


def bounded(
    name: str, measure: str, *, key: str = "''", value: str = "1", where: str = "true", groups: int, rows: int
) -> str:
    """The owner's own SQL for a question about visits after bounding, as the engine does it.

    Each patient counts in `groups` groups that are drawn with the salt of the ledger, and in each of them with as many
    rows as are allowed; who has more counts with their average.
    """
    cells = CELLS.format(key=key, value=value, where=where)
    patient = ("patient_id", ColumnType.INTEGER, False)
    drawn = digest_sql([patient, ("k", ColumnType.TEXT, True)])
    if key in DECLARED:  # groups that the policy declares are drawn by their numbers
        listed = ", ".join(f"'{known}'" for known in NAMES[key])
        number = f"coalesce(list_position([{listed}], k)::BIGINT - 1, {len(NAMES[key])})"
        cells, drawn = with_place(f"SELECT *, {number} AS g FROM ({cells})", patient, "g"), "p"  # noqa: S608 (names of the demo)
    return BOUNDED.format(
        name=name, measure=MEASURES[measure], key=key, cells=cells, groups=groups, rows=rows, drawn=drawn
    )


DECLARED = ("sex", "region", "department")
"""Columns whose values the policy declares, in the order of `generate.NAMES`; diagnoses are found."""

CELLS = """
SELECT patient_id, {key} AS k, count(v) AS n, sum(v) AS s
FROM (SELECT *, {value} AS v FROM visits WHERE {where}) GROUP BY ALL"""
BOUNDED = """
WITH kept AS (
    SELECT k, n, least(n, {rows}) AS r, s FROM ({cells})
    QUALIFY row_number() OVER (PARTITION BY patient_id ORDER BY {drawn}) <= {groups}
)
SELECT k AS "{key}", {measure} AS {name} FROM kept GROUP BY k"""
MEASURES = {"count": "sum(r)", "people": "count(*)", "sum": "sum(s * r / n)", "mean": "sum(s * r / n) / sum(r)"}

PATIENTS = Question(
    "How many patients are there?",
    "A patient is one row here, so one person moves the count by one and little noise is enough.",
    "SELECT COUNT(*) AS patients FROM patients",
    {"epsilon": "0.05"},
    "patients",
)

QUESTIONS = (
    PATIENTS,
    Question(
        "How many visits were there?",
        "Some patients came more than a hundred times. Each counts with at most 20 visits, so that a count can hide "
        "them: the answer is low by what was left out, and says so.",
        "SELECT COUNT(*) AS visits FROM visits",
        {"epsilon": "0.1", "rows": 20},
        "visits",
        bounded=bounded("visits", "count", groups=1, rows=20),
    ),
    Question(
        "How many people came as an emergency?",
        "People, not visits: nothing need be left out.",
        "SELECT COUNT(DISTINCT patient_id) AS people FROM visits WHERE emergency",
        {"epsilon": "0.05"},
        "people",
    ),
    Question(
        "How many visits to psychiatry were by women under 25?",
        "Conditions are free: they say which rows count.",
        "SELECT COUNT(*) AS visits FROM visits\nWHERE age < 25 AND sex = 'female' AND department = 'psychiatry'",
        {"epsilon": "0.1"},
        "visits",
        bounded=bounded(
            "visits",
            "count",
            where="age < 25 AND sex = 'female' AND department = 'psychiatry'",
            groups=1,
            rows=10,
        ),
    ),
    Question(
        "Where do the patients live?",
        "The regions are declared, so all of them are answered, and each patient is in one: the noise is that of a "
        "single count. The share is computed from released counts and is free.",
        "SELECT region, COUNT(*) AS patients,\n       100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS percent\n"
        "FROM patients GROUP BY region ORDER BY patients DESC",
        {"epsilon": "0.1"},
        "patients",
        ("region",),
    ),
    Question(
        "What does a visit cost, by department?",
        "Sum and count are bounded together, so a mean moves little. Costs above 30 000 count as 30 000. Small "
        "departments are less certain.",
        "SELECT department, AVG(cost) AS average_cost FROM visits\nGROUP BY department ORDER BY average_cost DESC",
        {"epsilon": "0.4", "groups": 3, "rows": 4},
        "average_cost",
        ("department",),
        bounded=bounded(
            "average_cost", "mean", key="department", value="if(cost > 30000, 30000, cost)", groups=3, rows=4
        ),
    ),
    Question(
        "How many days were spent in hospital, by region?",
        "A sum moves by as much as one patient can add: at most 15 visits of at most 60 days in each of 2 regions. "
        "Allow more and the noise grows; allow less and more is left out.",
        "SELECT region, SUM(length_of_stay) AS days FROM visits GROUP BY region ORDER BY region",
        {"epsilon": "0.3", "groups": 2, "rows": 15},
        "days",
        ("region",),
        bounded=bounded(
            "days", "sum", key="region", value="if(length_of_stay > 60, 60, length_of_stay)", groups=2, rows=15
        ),
    ),
    Question(
        "How many people have each diagnosis?",
        "Diagnoses are not declared: which ones exist is itself private. Only those that enough people share are "
        "named, which spends δ; the rare ones stay hidden.",
        "SELECT diagnosis, COUNT(DISTINCT patient_id) AS people FROM visits\nGROUP BY diagnosis ORDER BY people DESC",
        {"epsilon": "0.4", "delta": "1e-7", "groups": 8},
        "people",
        ("diagnosis",),
        bounded=bounded("people", "people", key="diagnosis", groups=8, rows=10),
    ),
    Question(
        "Which departments have the most emergencies?",
        "HAVING, ORDER BY, LIMIT and the ratio work on released counts: post-processing, free.",
        "SELECT department, 100 * AVG(CASE WHEN emergency THEN 1 ELSE 0 END) AS percent\n"
        "FROM visits GROUP BY department HAVING COUNT(*) > 1000 ORDER BY percent DESC LIMIT 5",
        {"epsilon": "0.2", "groups": 4, "rows": 5},
        "percent",
        ("department",),
        truth="SELECT department, 100 * avg(emergency::INT) AS percent FROM visits GROUP BY department",
        bounded=bounded("percent", "mean", key="department", value="100 * emergency::INT", groups=4, rows=5),
    ),
    Question(
        "How many patients smoke? Within 100, please.",
        "Accuracy first: the analyst states the error, and the least ε that keeps it with 95 % is charged.",
        "SELECT COUNT(*) AS smokers FROM patients WHERE smoker",
        {"error": 100},
        "smokers",
    ),
    Question(
        "How many patients are there? (once more)",
        "The same question has the same answer, and is free: nothing new is learned.",
        PATIENTS.sql,
        PATIENTS.options,
        "patients",
    ),
    Question(
        "How old are the patients of each sex in December 2025?",
        "A student asks, who may spend ε 0.25 and no more, whatever the budget has left.",
        "SELECT sex, AVG(age) AS average_age FROM visits\n"
        "WHERE admitted >= DATE '2025-12-01' GROUP BY sex ORDER BY sex",
        {"epsilon": "0.2", "groups": 1, "rows": 2},
        "average_age",
        ("sex",),
        bounded=bounded(
            "average_age", "mean", key="sex", value="age", where="admitted >= DATE '2025-12-01'", groups=1, rows=2
        ),
        analyst="student",
    ),
)
ROWS = Question(
    "The rows themselves, please",
    "",
    "SELECT patient_id, diagnosis FROM visits WHERE region = 'Northam'",
    {"epsilon": "0.1"},
    "diagnosis",
)
BEYOND_THE_CAP = Question(
    "The student asks on",
    "",
    "SELECT sex, COUNT(*) AS visits FROM visits GROUP BY sex",
    {"epsilon": "0.1"},
    "visits",
    ("sex",),
    analyst="student",
)
