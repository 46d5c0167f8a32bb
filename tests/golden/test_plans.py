"""Golden plans: each statement with its printed plan and its document, so that a change of privacy is a change of text.

A file holds terms (`-- epsilon: 1`), the statement, a line `---`, and the plan; the JSON beside it, the document. After a change that is meant, write the
plans anew with DISCREET_GOLDEN=write and read the difference.
"""

import json
import os
from pathlib import Path

import pytest

from discreet.curator.policy import parse_policy
from discreet.privacy.unit import Neighbors
from discreet.sql.plan.explain import explanation
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.plan.query_plan import QueryPlan

HERE = Path(__file__).parent
FILES = sorted((HERE / "plans").glob("*.sql"))


def catalog(neighbors: str):
    text = (HERE / "hospital.toml").read_text(encoding="utf-8")
    return parse_policy(text.replace("NEIGHBORS", neighbors)).catalog


def made(text: str) -> tuple[str, QueryPlan]:
    """The statement in a golden file, and its plan."""
    lines = text.splitlines()
    settings = dict(line[3:].split(": ", 1) for line in lines if line.startswith("-- "))
    statement = "\n".join(line for line in lines if not line.startswith("-- ")).strip()
    neighbors = settings.pop("neighbors", str(Neighbors.ADD_OR_REMOVE_ONE))
    whole = {name: int(value) for name, value in settings.items() if name in ("groups", "rows")}
    return statement, plan([statement], catalog(neighbors), Terms(**{**settings, **whole}))


def printed(statement: str, one: QueryPlan) -> str:
    """A plan in words."""
    words = explanation(
        [statement], one.releases, one.neighbors,
        loss=one.loss, epsilon=one.epsilon, delta=one.delta, confidence=one.confidence,
    )  # fmt: skip
    private = [f"private SQL: {release['sql']}" for release in words.releases]
    return "\n".join([str(words), f"loss: {one.loss}", *private, f"after it: {one.post_queries[0].sql}"]) + "\n"


def folded(value: object, indent: str = "") -> str:
    """JSON in which what is short stands on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) <= 220 or not isinstance(value, dict | list):
        return line
    pairs = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    parts = value.values() if isinstance(value, dict) else value
    inner = [f"{indent} {name}{folded(part, indent + ' ')}" for name, part in zip(pairs, parts, strict=True)]
    return "\n".join(
        ["{" if isinstance(value, dict) else "[", ",\n".join(inner), indent + ("}" if isinstance(value, dict) else "]")]
    )


def document(one: QueryPlan) -> str:
    """A plan's document, to be compared line by line; its digest is the name of what was paid for."""
    return folded(one.document() | {"digest": one.digest}) + "\n"


def question_of(file: Path) -> str:
    return file.read_text(encoding="utf-8").partition("\n---\n")[0].rstrip("\n")


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_plan_is_the_golden_one(file):
    question, beside = question_of(file), file.with_suffix(".json")
    statement, one = made(question)
    text = f"{question}\n---\n{printed(statement, one)}"
    if os.environ.get("DISCREET_GOLDEN") == "write":
        file.write_text(text, encoding="utf-8")
        beside.write_text(document(one), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text
    assert beside.read_text(encoding="utf-8") == document(one), "answers that were paid for would not be found again"


def test_there_are_golden_plans():
    assert len(FILES) >= 20
