"""How many files a newcomer reads who follows one question from the command line to its answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import discreet

MOST = 56
"""Modules of the command line, the front door, the gate and SQL that one `discreet ask` loads: it only shrinks, to 40."""

MOST_OF_SQL = 31
"""Joins, steps over people, dates and further functions are loaded with every question, though few need them."""

POLICY = """
[dataset]
name = "people"
neighbors = "add or remove one"
time_floor = 0
[budget]
everyone = "all"
epsilon = 10
[tables.people]
source = "people.csv"
unit = "person"
max_groups_per_unit = 1
max_rows_per_group = 1
columns.person = { type = "integer" }
columns.age = { type = "integer", lower = 0, upper = 100 }
columns.region = { type = "text", values = ["north", "south"] }
"""

ASK = """
import json, sys
from discreet.cli import cli
sql = "SELECT region, AVG(age) AS mean FROM people GROUP BY region ORDER BY mean"
cli(["ask", "policy.toml", sql, "--epsilon", "1"], standalone_mode=False)
files = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "discreet"}
print(json.dumps(files))
"""


def has_code(path: str) -> bool:
    """Whether a module holds more than a docstring: a package's `__init__` often does not."""
    import ast

    return len(ast.parse(Path(path).read_text(encoding="utf-8")).body) > 1


def test_one_question_is_a_short_walk(tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "people.csv").write_text("person,age,region\n1,30,north\n2,50,south\n")
    env = {**os.environ, "PYTHONPATH": str(Path(discreet.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    files = json.loads(done.stdout.splitlines()[-1])
    story = [
        name
        for name, path in files.items()
        if name.split(".")[1:2] in (["cli"], ["dataset"], ["curator"], ["sql"]) and has_code(path)
    ]
    sql = [name for name in story if name.startswith("discreet.sql.")]
    assert "discreet.sql.after.sandbox" in sql
    assert len(sql) <= MOST_OF_SQL, sorted(sql)
    assert len(story) <= MOST, sorted(story)
