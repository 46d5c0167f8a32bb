"""Units and neighbors are values in plain words."""

import pickle
from dataclasses import FrozenInstanceError

import pytest
from tests.conftest import stable

from discreet.errors import InvalidParameter
from discreet.privacy.unit import Neighbors, Unit, relation


def test_the_two_neighbor_relations_and_their_words_never_change():
    assert {n.name: str(n) for n in Neighbors} == {
        "ADD_OR_REMOVE_ONE": "add or remove one",
        "CHANGE_ONE": "change one",
    }
    assert Neighbors("change one") is Neighbors.CHANGE_ONE
    with pytest.raises(ValueError, match="substitute"):
        Neighbors("substitute")


def test_units_read_as_sentences():
    assert str(Unit()) == "one row"
    assert str(Unit("patient_id")) == "one person, by patient_id"


def test_units_are_values():
    assert Unit("a") == Unit("a") != Unit("b")
    assert len({Unit(), Unit(None), Unit("a"), Unit("a")}) == 2
    assert pickle.loads(pickle.dumps(Unit("a"))) == Unit("a")
    with pytest.raises(FrozenInstanceError):
        Unit("a").key = "b"


@pytest.mark.parametrize("key", ["", 5, [], True, b"id"], ids=stable)
def test_a_key_is_the_name_of_a_column(key):
    with pytest.raises(InvalidParameter):
        Unit(key)


def test_relations_are_read_in_their_plain_words_only():
    for one in Neighbors:
        assert relation(one) is one is relation(str(one))


@pytest.mark.parametrize("bad", ["substitute", "CHANGE_ONE", "", None, 1, True, [], {}, float("nan")], ids=stable)
def test_unknown_relations_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"got .*expected 'add or remove one' or 'change one'"):
        relation(bad)
