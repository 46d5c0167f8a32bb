"""Questions over HTTP: charged once, free again, in the form that is accepted."""

import pytest
from tests.serving import BY_REGION, COUNT


def test_an_answer_is_charged_and_the_same_again_is_free(house):
    before = house.charges()
    first, again = house.ask(BY_REGION, "0.25"), house.ask(BY_REGION, "0.25")
    assert first.status == again.status == 200
    assert (first.json["receipt"]["free"], again.json["receipt"]["free"]) == (False, True)
    assert first.json["rows"] == again.json["rows"]
    assert house.charges() == before + 1


@pytest.mark.parametrize("epsilon", ["NaN", "Infinity", "-1", "0", "many"])
def test_an_epsilon_that_is_none_is_refused_and_nothing_is_charged(house, epsilon):
    before = house.charges()
    reply = house.ask(COUNT, epsilon)
    assert reply.status == 422
    assert reply.code == "invalid-parameter"
    assert house.charges() == before
