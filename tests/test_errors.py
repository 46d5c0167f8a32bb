"""The exception tree is the one drawn in errors.py, and its messages are safe to show."""

import inspect
import pickle
import re
import traceback
from fractions import Fraction

import numpy as np
import pytest

from discreet import errors

TREE = {
    "DiscreetError": (Exception,),
    "InvalidInput": (errors.DiscreetError, ValueError),
    "InvalidParameter": (errors.InvalidInput,),
    "InvalidData": (errors.InvalidInput,),
    "InvalidChannel": (errors.InvalidInput,),
    "InvalidQuery": (errors.InvalidInput,),
    "NoiseWarning": (errors.InvalidInput, RuntimeWarning),
    "UnknownLoss": (errors.DiscreetError,),
    "NoGuarantee": (errors.DiscreetError,),
    "BudgetExceeded": (errors.DiscreetError,),
    "ReleaseFailed": (errors.DiscreetError,),
    "EngineUnavailable": (errors.DiscreetError,),
    "NotAccepted": (errors.DiscreetError,),
    "LedgerError": (errors.DiscreetError,),
    "LedgerUnavailable": (errors.LedgerError,),
    "LedgerDamaged": (errors.LedgerError,),
    "LedgerTooNew": (errors.LedgerError,),
    "LedgerConflict": (errors.LedgerError,),
    "AccessDenied": (errors.DiscreetError,),
    "ServerUnavailable": (errors.DiscreetError,),
    "MissingExtra": (errors.DiscreetError, ImportError),
    "UnsupportedPlatform": (errors.DiscreetError,),
    "InternalError": (errors.DiscreetError,),
}


def classes() -> dict[str, type]:
    return {n: c for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, Exception)}


def test_the_tree_is_exactly_this():
    assert {name: cls.__bases__ for name, cls in classes().items()} == TREE


def test_the_drawing_shows_every_class_under_its_parent():
    lines = [m.groups() for m in re.finditer(r"^ {4}([│├└─ ]*)(\w+)", errors.__doc__ or "", re.MULTILINE)]
    depth = {name: len(lead) // 4 for lead, name in lines}
    assert list(depth) == list(TREE)
    for name, cls in classes().items():
        ancestors = [c for c in cls.__mro__[1:] if c.__module__ == errors.__name__]
        assert depth[name] == len(ancestors), name


@pytest.mark.parametrize(
    "cls", [c for c in classes().values() if c not in (errors.InvalidParameter, errors.MissingExtra)]
)
def test_plain_errors_carry_their_message_through_pickle(cls):
    copy = pickle.loads(pickle.dumps(cls("got 1, expected 2")))
    assert type(copy) is cls
    assert str(copy) == "got 1, expected 2"
    assert cls.__doc__


def test_invalid_parameter_says_got_expected_and_what_to_do():
    error = errors.InvalidParameter("epsilon", -1, "a number > 0", "state ε")
    assert str(error) == "epsilon: got -1, expected a number > 0; state ε"
    assert (error.name, error.got, error.expected, error.hint) == ("epsilon", "-1", "a number > 0", "state ε")
    assert str(errors.InvalidParameter("epsilon", -1, "a number > 0")) == "epsilon: got -1, expected a number > 0"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (errors.InvalidParameter, str(error), vars(error))


@pytest.mark.parametrize(
    "got", [lambda: 0, object(), open, type("Local", (), {})()], ids=["lambda", "object", "function", "local"]
)
def test_errors_can_be_sent_home_by_worker_processes(got):
    """An exception that cannot be pickled hangs or hides the failure of a pool."""
    error = errors.InvalidParameter("scale", got, "a number")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (errors.InvalidParameter, str(error))


def test_errors_do_not_keep_what_was_passed_alive():
    values = np.zeros(10)
    error = errors.InvalidParameter("scale", values, "a number")
    assert not any(value is values for value in vars(error).values())


def test_missing_extra_says_what_to_install():
    error = pickle.loads(pickle.dumps(errors.MissingExtra("matplotlib", "plot")))
    assert str(error) == "matplotlib is not installed; run: pip install 'discreet[plot]'"
    assert (error.package, error.extra) == ("matplotlib", "plot")
    with pytest.raises(ImportError):
        raise error


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no repr for you")


@pytest.mark.parametrize(
    "value",
    [10**6000, list(range(10**5)), np.arange(10**6), "x" * 10**6, Hostile(), b"\x00" * 10**5],
    ids=["huge int", "list", "array", "string", "hostile", "bytes"],
)
def test_messages_stay_short_whatever_was_passed(value):
    message = str(errors.InvalidParameter("scale", value, "a number"))
    assert message.startswith("scale: got ")
    assert len(message) < 130
    assert "no repr" not in message


def test_fractions_are_shown_as_people_write_them():
    assert str(errors.InvalidParameter("delta", Fraction(1, 3), "0")) == "delta: got 1/3, expected 0"


def test_messages_are_one_line_for_matrices():
    assert "\n" not in str(errors.InvalidParameter("scale", np.eye(2), "a number"))


def test_a_hostile_repr_is_not_mentioned_in_the_traceback():
    with pytest.raises(errors.InvalidParameter) as caught:
        raise errors.InvalidParameter("scale", Hostile(), "a number")
    assert "no repr" not in "".join(traceback.format_exception(caught.value))


def test_a_long_path_is_shown_with_its_end():
    path = "/a" * 100 + "/visits.csv"
    message = str(errors.InvalidParameter("source", path, "a file"))
    assert "/a/a" in message
    assert "…" in message
    assert "/visits.csv'" in message
    assert len(message) < 130
