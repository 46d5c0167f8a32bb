"""A2: the published 12-row inpatient table becomes 4-anonymous, and its third class gives its secret away."""

import pytest

from discreet.anonymity import Policy, anonymize
from discreet.anonymity.models import DistinctDiversity, KAnonymity, verify

INPATIENTS = {
    "zip": ["13053", "13068", "13068", "13053", "14853", "14853", "14850", "14850", "13053", "13053", "13068", "13068"],
    "age": [28, 29, 21, 23, 50, 55, 47, 49, 31, 37, 36, 35],
    "nationality": ["Russian", "American", "Japanese", "American", "Indian", "Russian", "American", "American", "American", "Indian", "Japanese", "American"],
    "condition": ["Heart", "Heart", "Viral", "Viral", "Cancer", "Heart", "Viral", "Viral", "Cancer", "Cancer", "Cancer", "Cancer"],
}  # fmt: skip
PUBLISHED = {
    "zip": ["130**"] * 4 + ["1485*"] * 4 + ["130**"] * 4,
    "age": ["<30"] * 4 + ["≥40"] * 4 + ["3*"] * 4,
    "nationality": ["*"] * 12,
}


@pytest.fixture
def policy(tmp_path):
    decade = [(age, "<30" if age < 30 else "3*" if age < 40 else "≥40") for age in range(18, 91)]
    (tmp_path / "ages.csv").write_text("\n".join(f"{age};{label};*" for age, label in decade), encoding="utf-8")
    (tmp_path / "policy.toml").write_text(
        """
        [anonymity]
        k = 4
        method = "local"
        [columns]
        zip = { quasi = "prefixes" }
        age = { quasi = "ages.csv" }
        nationality = { coarsen = "flat", level = 1 }
        condition = "sensitive"
        """,
        encoding="utf-8",
    )
    return Policy.read(tmp_path / "policy.toml")


@pytest.mark.claim("A2")
def test_the_inpatient_table_becomes_exactly_the_published_one(policy):
    released = anonymize(INPATIENTS, policy)
    table = released.table.to_pydict()
    assert {name: table[name] for name in PUBLISHED} == PUBLISHED
    assert table["condition"] == INPATIENTS["condition"]
    assert released.verdict.smallest == 4
    assert released.suppressed == 0


@pytest.mark.claim("A2")
def test_k_anonymity_holds_and_the_secret_leaks_anyway(policy):
    table = anonymize(INPATIENTS, policy).table
    verdict = verify(table, quasi=list(PUBLISHED), models=[KAnonymity(4), DistinctDiversity(2, "condition")])
    held = {finding.name: finding.holds for finding in verdict.findings}
    assert list(held.values()) == [True, False]
    assert verdict.findings[1].failing_people == 4  # the third class: all Cancer
    page = anonymize(INPATIENTS, policy).page().html()
    assert "does not promise" in page
