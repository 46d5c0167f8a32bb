"""Golden plans: each statement with its printed plan, so that a change of privacy or cost is a change of text.

A file holds terms (`-- epsilon: 1`), the statement, a line `---`, and the plan. After a change that is meant, write the
plans anew with DISCREET_GOLDEN=write and read the difference.
"""

import os
from pathlib import Path

import pytest

from discreet.curator.policy import parse_policy
from discreet.privacy.unit import Neighbors
from discreet.sql.plan.explain import explanation
from discreet.sql.plan.planner import Terms, plan

HERE = Path(__file__).parent
FILES = sorted((HERE / "plans").glob("*.sql"))


def catalog(neighbors: str):
    text = (HERE / "hospital.toml").read_text(encoding="utf-8")
    return parse_policy(text.replace("NEIGHBORS", neighbors)).catalog


def printed(text: str) -> str:
    """The plan of the statement in a golden file."""
    lines = text.splitlines()
    settings = dict(line[3:].split(": ", 1) for line in lines if line.startswith("-- "))
    statement = "\n".join(line for line in lines if not line.startswith("-- ")).strip()
    neighbors = settings.pop("neighbors", str(Neighbors.ADD_OR_REMOVE_ONE))
    whole = {name: int(value) for name, value in settings.items() if name in ("groups", "rows")}
    made = plan([statement], catalog(neighbors), Terms(**{**settings, **whole}))
    told = explanation(
        [statement], made.releases, made.neighbors,
        loss=made.loss, epsilon=made.epsilon, delta=made.delta, confidence=made.confidence,
    )  # fmt: skip
    private = [f"private SQL: {release['sql']}" for release in told.releases]
    return "\n".join([str(told), f"loss: {made.loss}", *private, f"after it: {made.post_queries[0].sql}"]) + "\n"


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_plan_is_the_golden_one(file):
    text = file.read_text(encoding="utf-8")
    question = text.partition("\n---\n")[0].rstrip("\n")
    found = printed(question)
    if os.environ.get("DISCREET_GOLDEN") == "write":
        file.write_text(f"{question}\n---\n{found}", encoding="utf-8")
    assert file.read_text(encoding="utf-8") == f"{question}\n---\n{found}"


def test_there_are_golden_plans():
    assert len(FILES) >= 20
