"""What the demo's analysts ask, and how the owner checks the answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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


PEOPLE_WITH = """
SELECT COUNT(DISTINCT patient_id) AS people FROM visits WHERE diagnosis = '{diagnosis}' AND region = '{region}'"""
BOUNDED_VISITS = """
SELECT {keys} sum(least(n, {rows})) AS visits
FROM (SELECT {keys} count(*) AS n FROM visits {where} GROUP BY {keys} patient_id) {group}"""

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
        bounded=BOUNDED_VISITS.format(keys="", rows=20, where="", group=""),
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
        bounded=BOUNDED_VISITS.format(
            keys="", rows=10, where="WHERE age < 25 AND sex = 'female' AND department = 'psychiatry'", group=""
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
        "Sum and count are bounded together, so a mean is not bent by bounding. Small departments are less certain.",
        "SELECT department, AVG(cost) AS average_cost FROM visits\nGROUP BY department ORDER BY average_cost DESC",
        {"epsilon": "0.4", "groups": 3, "rows": 3},
        "average_cost",
        ("department",),
    ),
    Question(
        "How many days were spent in hospital, by region?",
        "A sum moves by as much as one patient can add: at most 5 visits of at most 60 days in each of 2 regions.",
        "SELECT region, SUM(length_of_stay) AS days FROM visits GROUP BY region ORDER BY region",
        {"epsilon": "0.2", "groups": 2, "rows": 5},
        "days",
        ("region",),
    ),
    Question(
        "How many people have each diagnosis?",
        "Diagnoses are not declared: which ones exist is itself private. Only those that enough people share are "
        "named, which spends δ; the rare ones stay hidden.",
        "SELECT diagnosis, COUNT(DISTINCT patient_id) AS people FROM visits\nGROUP BY diagnosis ORDER BY people DESC",
        {"epsilon": "0.4", "delta": "1e-7", "groups": 6},
        "people",
        ("diagnosis",),
    ),
    Question(
        "Which departments have the most emergencies?",
        "HAVING, ORDER BY, LIMIT and the ratio work on released counts: post-processing, free.",
        "SELECT department, 100.0 * COUNT(*) FILTER (WHERE emergency) / COUNT(*) AS percent\n"
        "FROM visits GROUP BY department HAVING COUNT(*) > 1000 ORDER BY percent DESC LIMIT 5",
        {"epsilon": "0.2", "groups": 4, "rows": 5},
        "percent",
        ("department",),
        truth="SELECT department, 100.0 * avg(emergency::int) AS percent FROM visits GROUP BY department",
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
        analyst="student",
    ),
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
