"""Released tables read again."""

import numpy as np
import pytest

from discreet.anonymity.models import Closeness, DistinctDiversity, EntropyDiversity, KAnonymity, Presence, verify
from discreet.errors import InvalidData, InvalidParameter

RELEASED = {
    "zip": ["130**"] * 4 + ["1485*"] * 4 + ["130**"] * 4 + ["*"],
    "age": ["<30"] * 4 + ["≥40"] * 4 + ["3*"] * 4 + ["*"],
    "condition": ["Heart", "Heart", "Viral", "Viral", "Cancer", "Heart", "Viral", "Viral"] + ["Cancer"] * 5,
}


@pytest.mark.claim("A2")
def test_the_inpatients_are_4_anonymous_but_not_2_diverse() -> None:
    models = [KAnonymity(4), KAnonymity(5), DistinctDiversity(2, "condition")]
    verdict = verify(RELEASED, quasi=("zip", "age"), models=models)
    assert [finding.holds for finding in verdict.findings] == [True, False, False]
    assert (verdict.rows, verdict.suppressed, verdict.classes) == (13, 1, 3)
    diversity = verdict.findings[2]
    assert (diversity.reached, diversity.failing_classes, diversity.failing_people) == (1.0, 1, 4)
    assert not verdict.holds
    assert "Cancer" not in verdict.text() + str(verdict.as_dict())


def test_a_suppressed_row_is_never_a_class() -> None:
    """A lone suppressed row breaks no k, and five of them do not make one."""
    assert verify(RELEASED, quasi=("zip", "age"), models=[KAnonymity(4)]).findings[0].reached == 4
    stars = {"zip": ["*"] * 5 + ["130**"], "age": ["*"] * 5 + ["<30"]}
    verdict = verify(stars, quasi=("zip", "age"), models=[KAnonymity(2)])
    assert (verdict.classes, verdict.suppressed, verdict.holds) == (1, 5, False)


def test_suppressed_rows_are_judged_as_one_class() -> None:
    released = {"zip": ["130**"] * 4 + ["*"] * 4, "ill": ["flu", "cold", "ulcer", "flu", "flu", "cold", "ulcer", "flu"]}
    models = [KAnonymity(4), DistinctDiversity(3, "ill")]
    assert verify(released, quasi=["zip"], models=models).holds
    same = released | {"ill": [*released["ill"][:4], *["cancer"] * 4]}
    verdict = verify(same, quasi=["zip"], models=models)
    assert all(finding.holds for finding in verdict.findings)
    assert not verdict.holds
    assert "fails    suppressed rows: as one class they fail distinct 3-diversity of 'ill'" in verdict.text()
    emptied = released | {"ill": [*released["ill"][:4], *[None] * 4]}
    assert verify(emptied, quasi=["zip"], models=models).holds
    few = {"zip": ["130**"] * 4 + ["*"], "ill": ["a"] * 5}
    assert verify(few, quasi=["zip"], models=[KAnonymity(4)]).holds  # no column is known to hold a secret
    assert not verify(few, quasi=["zip"], models=[KAnonymity(4)], sensitive=["ill"]).holds


def test_rows_may_be_named_as_suppressed() -> None:
    table = {"zip": ["a", "a", "b"]}
    hidden = np.array([False, False, True])
    assert verify(table, quasi=["zip"], models=[KAnonymity(2)], suppressed=hidden).holds
    assert not verify(table, quasi=["zip"], models=[KAnonymity(2)]).holds
    with pytest.raises(InvalidData, match="each of the 3 rows"):
        verify(table, quasi=["zip"], models=[KAnonymity(2)], suppressed=np.array([True]))


def test_all_rows_suppressed_leaves_no_class() -> None:
    verdict = verify({"zip": ["*", "*"], "s": ["a", "b"]}, quasi=["zip"], models=[KAnonymity(2), Closeness(0, "s")])
    assert verdict.classes == 0
    assert verdict.findings[0].reached_words == "no class"
    assert verdict.as_dict()["models"][0]["reached"] is None


def test_what_no_class_can_reach_fails_rather_than_raises() -> None:
    table = {"zip": ["a", "a"], "s": ["x", "x"]}
    verdict = verify(table, quasi=["zip"], models=[DistinctDiversity(3, "s"), EntropyDiversity(4, "s"), KAnonymity(9)])
    assert [finding.holds for finding in verdict.findings] == [False, False, False]


def test_presence_counts_the_people_whom_no_row_shows() -> None:
    table, everybody = {"zip": ["130**"] * 2}, {"zip": ["130**"] * 4 + ["148**"]}
    assert verify(table, quasi=["zip"], models=[Presence(0, "0.5", everybody)]).holds
    verdict = verify(table, quasi=["zip"], models=[Presence("0.1", "0.5", everybody)])
    assert not verdict.holds
    assert verdict.findings[0].reached_words == "shares from 0 to 0.5"


def test_bad_input() -> None:
    with pytest.raises(InvalidData, match="no rows"):
        verify({"zip": []}, quasi=["zip"], models=[KAnonymity(2)])
    with pytest.raises(InvalidParameter, match="got 'town'"):
        verify({"zip": ["a"]}, quasi=["town"], models=[KAnonymity(2)])
    with pytest.raises(InvalidParameter, match="at least one privacy model"):
        verify({"zip": ["a"]}, quasi=["zip"], models=[])
    with pytest.raises(InvalidData, match="name the quasi-identifiers"):
        verify({"zip": ["a"]}, quasi=[], models=[KAnonymity(2)])


def test_presence_fails_where_nobody_of_the_population_is_shown() -> None:
    verdict = verify({"zip": ["*"]}, quasi=["zip"], models=[Presence("0.1", 1, {"zip": ["*", "148**"]})])
    assert (verdict.classes, verdict.holds) == (0, False)
