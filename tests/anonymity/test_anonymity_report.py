"""Reports: everything promised is in them, and no value of anybody."""

import json

import numpy as np
import pytest

from discreet.anonymity import Classes, Coded, Hierarchy, Recoding
from discreet.anonymity.anonymity_report import INSTEAD, LIMITS, homogeneous, release_page, risk_page
from discreet.anonymity.classes import Sensitive
from discreet.anonymity.information_loss import utility
from discreet.anonymity.models import DistinctDiversity, KAnonymity, Target
from discreet.errors import InvalidData
from discreet.report import Chart

ZIPS = ["13053", "13068", "13068", "13053", "14853", "14853", "14850", "14850", "13053", "13053", "13068", "13068"]
AGES = [28, 29, 21, 23, 50, 55, 47, 49, 31, 37, 36, 35]
LANDS = ["ru", "us", "jp", "us", "in", "ru", "us", "us", "us", "in", "jp", "us"]
ILLS = ["qheart", "qheart", "qviral", "qviral", "qcancer", "qheart", "qviral", "qviral"] + ["qcancer"] * 4
INPATIENTS = {"zip": ZIPS, "age": AGES, "land": LANDS, "ill": ILLS}


def recoded(suppress: int = 0) -> Recoding:
    ages = Hierarchy.rows(
        "age", [(age, "<30" if age < 30 else "3*" if age < 40 else "≥40") for age in sorted(set(AGES))]
    )
    hierarchies = [Hierarchy.prefixes("zip", ZIPS), ages, Hierarchy.flat("land", LANDS)]
    coded = Coded.of(INPATIENTS, hierarchies)
    hidden = np.zeros(12, bool)
    hidden[:suppress] = True
    return Recoding.full_domain(coded, [2, 1, 1], hidden)


@pytest.mark.claim("A2")
def test_a_release_page_tells_what_k_anonymity_does_not_promise() -> None:
    target = Target.of(KAnonymity(4), DistinctDiversity(2, "ill"))
    page = release_page(INPATIENTS, recoded(), target, done=["The column name was removed."])
    html = page.html()
    for words in (
        "The column name was removed.",
        "4-anonymity: reached k = 4.",
        "It fails in 1 class with 4 rows.",
        "prosecutor, highest",
        "Secrets that a class tells",
        "What this does not promise",
        "130** and age 3* has cancer",
        "only Don is in both pairs",
    ):
        assert words in html, words
    assert all(limit.name in html for limit in LIMITS)
    assert INSTEAD[:40] in html
    assert sum(isinstance(part, Chart) for part in page.parts) == 4


def test_no_value_of_anybody_is_named() -> None:
    """The words quote the textbook's example; this table's own illnesses, lands and ages never appear."""
    target = Target.of(KAnonymity(4), DistinctDiversity(2, "ill"))
    pages = [
        release_page(INPATIENTS, recoded(suppress=2), target, sensitive=["ill"], population=500),
        risk_page(INPATIENTS, ["zip", "age", "land"], models=[KAnonymity(2)], sensitive=["ill"], population=1000),
    ]
    for page in pages:
        html = page.html()
        for value in ("qheart", "qviral", "qcancer", "14853", ">jp<", ">28<", "≥40"):
            assert value not in html, value


def test_risk_is_shown_before_and_after() -> None:
    html = release_page(INPATIENTS, recoded(), KAnonymity(4)).html()
    assert '<td>unique rows</td><td class="number">12</td><td class="number">0</td>' in html
    assert "No row is suppressed." in html
    assert "2 of 12 rows are suppressed" in release_page(INPATIENTS, recoded(suppress=2), KAnonymity(2)).html()


def test_a_risk_page_of_a_raw_table() -> None:
    html = risk_page(INPATIENTS, ["zip", "age"], columns=["zip", "age", "land"], share=1).html()
    assert "all together single out 100.0%" in html
    assert "journalist, mean" not in html
    judged = risk_page(INPATIENTS, ["zip"], models=[KAnonymity(9), DistinctDiversity(2, "ill")]).html()
    assert "9-anonymity: reached k = 2. It fails in 4 classes with 12 rows." in judged
    assert "Secrets that a class tells" in judged
    assert "journalist, mean" in risk_page(INPATIENTS, ["zip"], population=100).html()
    assert "No set of up to 2 of them" in risk_page({"a": [1, 1], "b": [2, 2]}, ["a"]).html()


def test_everything_suppressed_still_makes_a_page() -> None:
    html = release_page(INPATIENTS, recoded(suppress=12), Target.of(KAnonymity(4), DistinctDiversity(2, "ill"))).html()
    assert "12 of 12 rows are suppressed" in html
    assert "reached no class" in html


def test_homogeneous_classes_are_counted() -> None:
    classes = Classes.numbered(np.array([0, 0, 1, 1, 2, 3, 3, 4, 4]))
    column = Sensitive.of({"s": ["a", "a", "a", "b", "a", None, "b", None, None]}, "s")
    assert homogeneous(classes, column) == (
        2,
        4,
    )  # one person alone tells nothing of others; a missing value hides nothing


def test_the_costs_can_be_written_as_json() -> None:
    found = json.loads(json.dumps(utility(recoded(), k=4).as_dict()))
    assert found["class_sizes"] == {"4": 3}
    assert "NCP" in utility(recoded(), k=4).text()


def test_bad_input() -> None:
    with pytest.raises(InvalidData, match="of 12 rows, the table has 1"):
        release_page({"zip": ["13053"]}, recoded(), KAnonymity(2))
