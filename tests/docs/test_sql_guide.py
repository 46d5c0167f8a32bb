"""Every statement of the guide's SQL page is accepted, or refused in the words beside it."""

import re
from pathlib import Path

import pytest

from discreet.curator.policy import parse_policy
from discreet.errors import DiscreetError
from discreet.sql.plan.planner import Terms, plan

PAGE = (Path(__file__).parents[2] / "docs/guide/sql.md").read_text(encoding="utf-8")
CATALOG = parse_policy(re.search(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1]).catalog
ACCEPTED, _, REST = PAGE.partition("## Refused")
REFUSED = REST.partition("## Beside others")[0]
EXAMPLES = re.findall(r"^\|[^|]*\| `((?:SELECT|WITH|SHOW|DESCRIBE)(?:[^`])*)` \|$", ACCEPTED, re.MULTILINE)
REFUSALS = re.findall(r"^\| `([^`]*)` \| (.*?) \|$", REFUSED, re.MULTILINE)


def planned(text):
    terms = Terms() if "OPTIONS" in text or "FROM visits" not in text else Terms(epsilon=1)
    return plan([text.replace("\\|", "|")], CATALOG, terms)


def test_there_are_examples():
    rows = [line for line in ACCEPTED.splitlines() if line.startswith("|") and "`" in line.rpartition("| `")[1]]
    assert len(EXAMPLES) == len(rows) >= 30
    assert len(REFUSALS) >= 8


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_accepted_and_passes_the_gate(text):
    made = planned(text)
    assert made.verify(CATALOG) == made.loss
    assert made.private == ("FROM visits" in text and not text.startswith("SHOW"))


@pytest.mark.parametrize(("text", "said"), REFUSALS)
def test_a_refusal_is_in_the_words_of_the_page(text, said):
    with pytest.raises(DiscreetError) as refusal:
        planned(text)
    assert said in str(refusal.value)
