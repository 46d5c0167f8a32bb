"""C9: nobody is asked without being able to see what was sent for them and what it cost, and to say no."""

import json

import pytest

from discreet.errors import BudgetExceeded
from discreet.local.collection.device_account import DeviceAccount
from discreet.local.collection.survey import Survey
from discreet.local.collection.survey_page import page

SURVEY = Survey(
    name="smoking",
    version=1,
    question="Do you smoke?",
    domain=["no", "sometimes", "daily"],
    randomizer="k-rr",
    epsilon=1,
    times=3,
)


@pytest.mark.claim("C9")
def test_a_respondent_sees_what_was_sent_and_what_it_cost(tmp_path):
    account = DeviceAccount(tmp_path / "mine.jsonl", epsilon=2)
    sent = []
    for _ in range(2):
        report = json.loads(SURVEY.respond("daily").line)
        account.charge(SURVEY.oracle().loss, survey=SURVEY.digest, sent=report["report"])
        sent.append(report["report"])
    assert [entry.sent for entry in account.entries()] == sent
    assert (account.spent, account.left) == (2, 0)
    told = account.words()
    assert "smoking" in told
    assert told.count("cost ε = 1") == 2
    with pytest.raises(BudgetExceeded):  # a third report would pass what the person allowed: nothing is sent
        account.charge(SURVEY.oracle().loss, survey=SURVEY.digest, sent=0)
    assert len(account.entries()) == 2


@pytest.mark.claim("C9")
def test_the_true_answer_is_not_in_what_is_sent():
    """A report says the same things whatever the answer: only how often each is sent differs, by at most e^ε."""
    fields = {answer: set(json.loads(SURVEY.respond(answer).line)) for answer in ("no", "daily")}
    assert fields["no"] == fields["daily"] == {"survey", "version", "report", "id"}
    assert {json.loads(SURVEY.respond("daily").line)["report"] for _ in range(400)} == {0, 1, 2}  # misses at 1e-40


@pytest.mark.claim("C9")
def test_the_page_says_the_cost_and_offers_to_say_no():
    text = page(SURVEY)
    assert "ε" in text
    assert "crypto.getRandomValues" in text
    assert "Math.random" not in text
    assert "rather not" in text.casefold()
