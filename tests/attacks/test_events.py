"""Outputs as arrays, what is told of them, and the events that are learned from them."""

from fractions import Fraction
from math import inf, isfinite, isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.attacks.audit.outputs import (
    ErrorOutput,
    Reader,
    decimals,
    joined,
    kind,
    labels,
    lowest_bit,
    numbers,
    residue,
)
from discreet.attacks.audit.scores import choose, learned
from discreet.errors import InvalidData

scalars = st.one_of(
    st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3), st.none(), st.builds(ErrorOutput, st.text(max_size=2))
)  # fmt: skip
things = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.tuples(inner, inner), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
numeric = st.one_of(st.floats(), st.integers(-(2**62), 2**62), st.booleans())
batches = st.one_of(
    st.lists(things, min_size=1, max_size=8),
    st.lists(numeric, min_size=1, max_size=8),
    st.lists(st.tuples(numeric, numeric), min_size=1, max_size=8),
)


def same(one, other):
    return (
        np.array_equal(one.numbers, other.numbers, equal_nan=True)
        and np.array_equal(one.whole, other.whole)
        and np.array_equal(one.form, other.form)
    )


# --- reading ----------------------------------------------------------------------------------------------------------


@given(batches, batches)
def test_what_an_output_becomes_depends_on_it_alone(learned, batch):
    """Else draws that were independent would not stay so: whatever was learned from, and whatever stands beside it."""
    reader = Reader.learn([learned])
    assert same(reader.read(batch), joined([reader.read([one]) for one in batch]))


@given(st.lists(st.one_of(st.floats(), st.integers(-(2**62), 2**62)), min_size=1, max_size=8))
def test_numbers_differ_in_their_label_exactly_if_they_differ(values):
    labels_ = Reader.learn([values]).read(values).whole
    for a, one in zip(labels_, values, strict=True):
        for b, other in zip(labels_, values, strict=True):
            same_bits = repr(float(one)) == repr(float(other)) and (one == other or one != one)
            if isinstance(one, float) == isinstance(other, float):
                assert (a == b) == same_bits


def test_ints_and_floats_that_are_equal_are_one_output():
    reader = Reader.learn([[1, 2.5]])
    assert reader.read([1]).whole == reader.read([1.0]).whole == reader.read(np.array([1])).whole
    assert reader.read([0.0]).whole != reader.read([-0.0]).whole


def test_arrays_of_any_shape():
    assert Reader.learn([np.zeros((3, 2, 2))]).read(np.zeros((3, 2, 2))).width == 4
    assert Reader.learn([[np.zeros(3), np.ones(3)]]).read([np.zeros(3)]).width == 3
    assert Reader.learn([np.array([True, False])]).read([True]).numbers.tolist() == [[1.0]]
    assert Reader.learn([np.array(["a", "b"])]).read(np.array(["a"])).width == 1
    assert Reader.learn([np.zeros((2, 200))]).width == 64  # the label still covers all of them
    reader = Reader.learn([np.zeros((2, 200))])
    last = np.zeros((1, 200))
    last[0, -1] = 1
    assert reader.read(np.zeros((1, 200))).whole != reader.read(last).whole


def test_an_output_of_another_shape_than_learned_is_another_output():
    reader = Reader.learn([np.zeros((4, 2))])
    read = reader.read([[0.0, 0.0], [0.0, 0.0, 0.0], "none", None])
    assert len(set(read.whole.tolist())) == 4
    assert len(read) == 4


def test_the_form_is_all_but_the_real_numbers():
    outputs = [{"a": 1.5}, {"a": 2.5}, {"b": 1.5}, {"a": 1.5, "b": 1.5}, {"a": nan}, {}]
    read = Reader.learn([outputs]).read(outputs)
    assert read.form[0] == read.form[1]
    assert len(set(read.form.tolist())) == 5
    assert len(set(read.whole.tolist())) == 6
    assert read.numbers[0, 0] == 1.5
    mixed = [{"b", "a"}, {"a", "b"}, frozenset("a")]
    assert len(set(Reader.learn([mixed]).read(mixed).whole.tolist())) == 2


def test_what_cannot_be_read_is_refused():
    for bad in (3, None, "text", b"bytes"):
        with pytest.raises(InvalidData, match="one entry for each draw"):
            Reader.learn([bad])


# --- features ---------------------------------------------------------------------------------------------------------


@given(st.floats())
def test_the_lowest_bit(value):
    (bit,) = lowest_bit(np.array([value])).tolist()
    if value == 0 or not isfinite(value):
        assert bit == 5000
    else:
        steps = Fraction(value) / Fraction(2) ** bit
        assert steps.denominator == 1
        assert steps.numerator % 2 == 1


@given(st.integers(-(10**6), 10**6), st.integers(0, 6))
def test_decimals(steps, places):
    (found,) = decimals(np.array([round(steps / 10**places, places)])).tolist()
    exact = Fraction(steps, 10**places)
    assert found == next(d for d in range(7) if (exact * 10**d).denominator == 1)


@given(st.floats())
def test_kinds_and_residues_of_any_float(value):
    expected = 3 if isnan(value) else 4 if value == inf else 5 if value == -inf else 0
    if value == 0:
        expected = 2 if str(value).startswith("-") else 1
    assert kind(np.array([value])).tolist() == [expected]
    fits = isfinite(value) and abs(value) < 2**53 and value == int(value)
    assert residue(np.array([value])).tolist() == [int(value) % 16 if fits else -1]
    assert decimals(np.array([value])).tolist()[0] in ([-1] if not isfinite(value) else range(10))


@given(batches)
def test_features_of_anything_are_arrays_of_that_length(batch):
    read = Reader.learn([batch]).read(batch)
    for feature in (*numbers(read), *labels(read)):
        assert feature.of(read).shape == (len(read),)


# --- events ---------------------------------------------------------------------------------------------------------------


def chosen(x, other, **settings):
    reader = Reader.learn([x, other])
    arguments = {"delta": 0.0, "deviations": 3.0, "trials": 2000, "most": 2, **settings}
    return reader, choose(reader.read(x), reader.read(other), **arguments)


def shares(events, reader, x, other):
    return [(float(e.holds(reader.read(x)).mean()), float(e.holds(reader.read(other)).mean())) for e in events]


RNG = np.random.default_rng(11)
NOISE = RNG.laplace(0, 1, (6, 4000))


@pytest.mark.parametrize(
    ("x", "other", "word"),
    [
        (np.rint(NOISE[0]), np.rint(NOISE[1]) + 3, "the output"),
        (np.abs(NOISE[0]), np.abs(NOISE[1]) * 5, "the output"),  # spread, not place
        (np.rint(NOISE[0]) * 2, np.rint(NOISE[1]), "modulo"),  # only even numbers
        (np.round(NOISE[0], 1), np.round(NOISE[1], 2), "decimals"),
        (np.where(NOISE[0] > 2, np.nan, NOISE[0]), NOISE[1], ""),
        (np.where(NOISE[0] > 2, -0.0, np.rint(NOISE[0])), np.rint(NOISE[1]), ""),
        (
            np.stack([NOISE[0], NOISE[0] + 1], 1),
            np.stack([NOISE[1], NOISE[1] + 2], 1),
            "",
        ),  # one noise for both numbers
        (NOISE[:3].T, NOISE[3:].T * [1, 1, 6], ""),
        ([(True,) * (k % 3) for k in range(4000)], [(True,) * (k % 2) for k in range(4000)], ""),
        ([{"a": z} for z in NOISE[0]], [{"a": z, "b": z} for z in NOISE[1]], "group 'b'"),
        (["yes"] * 3000 + ["no"] * 1000, ["yes"] * 1000 + ["no"] * 3000, "the output is"),
    ],
)
def test_what_tells_the_sides_apart_is_found(x, other, word):
    order = RNG.permutation(len(x))
    x, other = (side[order] if isinstance(side, np.ndarray) else [side[i] for i in order] for side in (x, other))
    reader, events = chosen(x, other)
    assert events
    assert any(word in event.words for event in events)
    p, q = shares(events, reader, x, other)[0]
    p, q = (p, q) if events[0].above else (q, p)
    assert p > q + 0.03
    assert max(p / max(q, 1e-9), (1 - q) / max(1 - p, 1e-9)) > 1.5


def test_the_same_draws_on_both_sides_promise_nothing():
    _, events = chosen(NOISE[0], NOISE[0])
    assert events == ()


def test_a_constant_is_no_event():
    reader = Reader.learn([[1.0] * 200])
    assert list(learned(reader.read([1.0] * 200), reader.read([1.0] * 200))) == []


def test_events_are_of_different_scores_and_no_more_than_asked_for():
    _, events = chosen(NOISE[0], NOISE[1] + 2, most=3)
    assert len({event.score.words for event in events}) == len(events) == 3
    assert [event.promise for event in events] == sorted((event.promise for event in events), reverse=True)


@settings(max_examples=15)
@given(batches, batches)
def test_learning_survives_anything(x, other):
    """Any outputs, however few and strange: scores are numbers, and events are told in words."""
    x, other = x * 3, other * 3
    reader, events = chosen(x, other)
    for score in learned(reader.read(x), reader.read(other)):
        assert not np.isnan(score.of(reader.read(x))).any()
    for event in events:
        assert event.words
        assert event.holds(reader.read(other)).dtype == np.bool_
