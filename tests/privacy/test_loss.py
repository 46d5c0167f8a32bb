"""The ledger's contract: the JSON of a loss never changes, is read back exactly, and is refused if not understood."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import stable

from discreet.errors import InvalidParameter, UnknownLoss
from discreet.privacy.loss import (
    Approximate,
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Parallel,
    PerDistance,
    Pure,
    Repeated,
    SampledGaussian,
    Together,
    from_json,
    to_json,
)

GOLDEN = [
    (Pure("0.5"), '{"kind":"pure","epsilon":"0.5"}'),
    (BoundedRange(1), '{"kind":"bounded-range","epsilon":"1"}'),
    (Approximate("1/3", "1e-6"), '{"kind":"approximate","epsilon":"1/3","delta":"1e-06"}'),
    (Concentrated("1/50"), '{"kind":"concentrated","rho":"0.02"}'),
    (LaplaceNoise(10), '{"kind":"laplace-noise","multiplier":"10"}'),
    (GaussianNoise("2.5"), '{"kind":"gaussian-noise","multiplier":"2.5"}'),
    (DiscreteGaussianNoise(20, 3), '{"kind":"discrete-gaussian-noise","sigma":"20","sensitivity":3}'),
    (SampledGaussian("0.01", 4), '{"kind":"sampled-gaussian","rate":"0.01","multiplier":"4"}'),
    (
        PerDistance("0.7", "Straße·km", "0.1"),
        '{"kind":"per-distance","epsilon":"0.7","unit":"Straße·km","slack":"0.1"}',
    ),
    (Repeated(Pure(1), 3), '{"kind":"repeated","loss":{"kind":"pure","epsilon":"1"},"count":3}'),
    (Together(), '{"kind":"together","losses":[]}'),
    (
        Together(Pure(1), Parallel(Pure(0))),
        '{"kind":"together","losses":[{"kind":"pure","epsilon":"1"},{"kind":"parallel","losses":[{"kind":"pure","epsilon":"0"}]}]}',
    ),
    (Parallel(), '{"kind":"parallel","losses":[]}'),
]

rates = st.fractions(0, 1, max_denominator=10**20)
amounts = st.fractions(0, 10**20, max_denominator=10**20)
multipliers = amounts.filter(bool)
leaves = st.one_of(
    st.builds(Pure, amounts),
    st.builds(BoundedRange, amounts),
    st.builds(Approximate, amounts, rates),
    st.builds(Concentrated, amounts),
    st.builds(LaplaceNoise, multipliers),
    st.builds(GaussianNoise, multipliers),
    st.builds(DiscreteGaussianNoise, multipliers, st.integers(0, 10**18)),
    st.builds(SampledGaussian, rates, multipliers),
    st.builds(PerDistance, amounts, st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip), amounts),
)
losses = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Repeated, inner, st.integers(0, 10**18)),
        st.lists(inner, max_size=4).map(lambda parts: Together(*parts)),
        st.lists(inner, max_size=4).map(lambda parts: Parallel(*parts)),
    ),
    max_leaves=12,
)


def nested(depth: int) -> Loss:
    loss: Loss = Pure(1)
    for _ in range(depth):
        loss = Repeated(loss, 1)
    return loss


# --- what is written is read back --------------------------------------------------------------------------


def test_every_kind_has_a_golden_line():
    assert {type(loss) for loss, _ in GOLDEN} == set(get_args(Loss))


@pytest.mark.parametrize(("loss", "text"), GOLDEN, ids=[text[:40] for _, text in GOLDEN])
def test_the_json_of_a_loss_never_changes(loss, text):
    assert to_json(loss) == text
    assert from_json(text) == loss


@given(losses)
@settings(max_examples=120)
def test_any_loss_is_read_back_exactly(loss):
    text = to_json(loss)
    again = from_json(text)
    assert again == loss
    assert hash(again) == hash(loss)
    assert to_json(again) == text
    assert "\n" not in text.replace("\\n", "")
    assert text.encode()


@given(losses)
@settings(max_examples=40)
def test_the_order_of_fields_and_white_space_do_not_matter(loss):
    shuffled = json.dumps(json.loads(to_json(loss)), indent=1, sort_keys=True)
    assert from_json(shuffled) == loss


@pytest.mark.parametrize(
    "loss",
    [
        Pure(Fraction(1, 3**500)),
        Pure(Fraction((1 << 4096) - 1, (1 << 4095) + 1)),
        Approximate("1e300", Fraction(1, 7**400)),
        Repeated(Pure(1), 10**18),
        nested(64),
        Together(*[Pure(Fraction(1, n)) for n in range(1, 500)]),
    ],
    ids=["long", "longest", "wide", "many", "deepest", "broad"],
)
def test_every_loss_that_can_be_built_can_be_read_back(loss):
    assert from_json(to_json(loss)) == loss


@given(st.one_of(st.fractions(), st.integers(0, 2**5000), st.builds(Fraction, st.just(1), st.integers(1, 2**5000))))
@settings(max_examples=100)
def test_a_loss_is_refused_when_built_or_can_be_read_back(epsilon):
    try:
        loss = Pure(epsilon)
    except InvalidParameter:
        return
    assert from_json(to_json(loss)) == loss


@pytest.mark.parametrize(
    "build",
    [
        lambda: nested(65),
        lambda: nested(5000),
        lambda: Together(nested(64)),
        lambda: Repeated(Pure(1), 10**18 + 1),
        lambda: Pure(Fraction(1, 1 << 5000)),
    ],
)
def test_what_could_not_be_read_back_is_refused_when_built(build):
    with pytest.raises(InvalidParameter):
        build()


# --- what is not understood is refused ---------------------------------------------------------------------

PURE = '{"kind":"pure","epsilon":"1"}'
REFUSED = [
    "", " ", "null", "true", "1", '"pure"', "[]", "{}", "[" * 100_000, '{"kind":"pure","epsilon":"1"', PURE + "x",
    "\ufeff" + PURE, "{'kind':'pure'}",
    '{"epsilon":"1"}', '{"kind":null,"epsilon":"1"}', '{"kind":1,"epsilon":"1"}', '{"kind":"Pure","epsilon":"1"}',
    '{"kind":"renyi","alpha":"2"}',
    '{"kind":[]}', '{"kind":{}}', '{"kind":["pure"],"epsilon":"1"}',
    '{"kind":"pure"}', '{"kind":"pure","epsilon":"1","delta":"0"}', '{"kind":"pure","Epsilon":"1"}',
    '{"kind":"approximate","epsilon":"1"}',
    '{"kind":"pure","epsilon":"1","epsilon":"0"}', '{"kind":"pure","kind":"together","epsilon":"1"}',
    '{"kind":"pure","epsilon":null}', '{"kind":"pure","epsilon":true}', '{"kind":"pure","epsilon":[]}',
    '{"kind":"pure","epsilon":{}}',
    '{"kind":"pure","epsilon":NaN}', '{"kind":"pure","epsilon":Infinity}', '{"kind":"pure","epsilon":1e400}',
    '{"kind":"pure","epsilon":"nan"}',
    '{"kind":"pure","epsilon":1.00000000000000000001}', '{"kind":"pure","epsilon":"-1"}',
    '{"kind":"pure","epsilon":"1/0"}', '{"kind":"pure","epsilon":""}',
    '{"kind":"approximate","epsilon":"1","delta":"1.0001"}', '{"kind":"laplace-noise","multiplier":"0"}',
    '{"kind":"sampled-gaussian","rate":"2","multiplier":"1"}',
    '{"kind":"discrete-gaussian-noise","sigma":"1","sensitivity":"1"}',
    '{"kind":"discrete-gaussian-noise","sigma":"1","sensitivity":-1}',
    '{"kind":"per-distance","epsilon":"1","unit":"","slack":"0"}',
    '{"kind":"per-distance","epsilon":"1","unit":5,"slack":"0"}', '{"kind":"per-distance","epsilon":"1","unit":"km"}',
    '{"kind":"per-distance","epsilon":"1","unit":"km","slack":"-1"}',
    '{"kind":"repeated","loss":' + PURE + ',"count":-1}', '{"kind":"repeated","loss":' + PURE + ',"count":1.0}',
    '{"kind":"repeated","loss":' + PURE + ',"count":"1"}',
    '{"kind":"repeated","loss":' + PURE + ',"count":true}',
    '{"kind":"repeated","loss":' + PURE + ',"count":' + "9" * 5000 + "}",
    '{"kind":"repeated","loss":"pure","count":1}', '{"kind":"repeated","loss":null,"count":1}',
    '{"kind":"repeated","loss":[' + PURE + '],"count":1}',
    '{"kind":"together","losses":null}', '{"kind":"together","losses":{}}', '{"kind":"together","losses":"x"}',
    '{"kind":"together","losses":[1]}',
    '{"kind":"together","losses":[' + PURE + ',null]}', '{"kind":"parallel","losses":[{"kind":"renyi"}]}',
    '{"kind":"repeated","count":1,"loss":' * 66 + PURE + "}" * 66, '{"kind":"together","losses":[' * 70 + "]}" * 70,
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:60])
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(UnknownLoss) as caught:
        from_json(text)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("text", [None, 5, b"\xff", b"", [], {"kind": "pure", "epsilon": "1"}, object()])
def test_what_is_not_text_is_refused(text):
    with pytest.raises(UnknownLoss):
        from_json(text)


names = st.sampled_from(["kind", "epsilon", "losses", "loss", "count"])
values = st.sampled_from(["pure", "together", "repeated", "1"])
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner | values, max_size=4),
)


@given(documents)
@settings(max_examples=150)
def test_any_document_is_read_or_refused(document):
    try:
        loss = from_json(json.dumps(document))
    except UnknownLoss:
        return
    assert from_json(to_json(loss)) == loss


def test_the_refusal_names_the_field_and_the_kinds_known():
    with pytest.raises(UnknownLoss, match=r"loss 'pure' has the fields epsilon; got also 'discount'; a newer version"):
        from_json('{"kind":"pure","epsilon":"1","discount":"0.9"}')
    with pytest.raises(UnknownLoss, match=r"missing 'delta'"):
        from_json('{"kind":"approximate","epsilon":"1"}')
    with pytest.raises(UnknownLoss, match=r"unknown kind of loss 'renyi'; this version knows pure, bounded-range, "):
        from_json('{"kind":"renyi"}')
    with pytest.raises(UnknownLoss, match=r"epsilon: got '-1', expected a number ≥ 0"):
        from_json('{"kind":"pure","epsilon":"-1"}')


def test_the_limit_of_nesting_is_the_same_for_reading_and_building():
    text = to_json(nested(64))
    assert from_json(text) == nested(64)
    with pytest.raises(UnknownLoss):
        from_json('{"kind":"repeated","loss":' + text + ',"count":1}')


# --- losses are values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [loss for loss, _ in GOLDEN], ids=lambda loss: type(loss).__name__)
def test_losses_are_frozen_hashable_and_equal_by_value(loss):
    twin = from_json(to_json(loss))
    assert loss == twin
    assert len({loss, twin}) == 1
    for name in [field.name for field in fields(loss)]:
        with pytest.raises(FrozenInstanceError):
            setattr(loss, name, 0)
        with pytest.raises(FrozenInstanceError):
            delattr(loss, name)
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        loss.discount = 1
    assert not hasattr(loss, "__dict__")
    assert copy.deepcopy(loss) == loss == pickle.loads(pickle.dumps(loss))


def test_kinds_with_the_same_numbers_are_different():
    alike = [Pure(1), BoundedRange(1), Concentrated(1), LaplaceNoise(1), GaussianNoise(1), Together(), Parallel()]
    assert len(set(alike)) == len(alike)
    assert Together(Pure(1), Pure(2)) != Together(Pure(2), Pure(1))


def test_numbers_are_kept_as_fractions_however_they_were_written():
    from decimal import Decimal

    assert Pure(0.5) == Pure("0.5") == Pure("1/2") == Pure(Decimal("0.5")) == Pure(Fraction(1, 2))
    assert isinstance(Pure(1).epsilon, Fraction)
    assert PerDistance("0.7", "km", 0).within("1/7") == Pure("0.1")
    assert PerDistance("0.7", "km", "1/7").within(0) == Pure("0.1")


def test_a_subclass_is_refused_because_the_union_is_closed():
    class Discounted(Pure):
        pass

    with pytest.raises((InvalidParameter, TypeError)):
        to_json(Discounted(1))


NOT_AMOUNTS = [-1, "-1e-30", float("nan"), float("inf"), None, True, "", "abc", "1/0", 1j, [1], {}, Pure(1)]


@pytest.mark.parametrize("bad", NOT_AMOUNTS, ids=stable)
@pytest.mark.parametrize(
    "build",
    [
        Pure, BoundedRange, Concentrated, LaplaceNoise, GaussianNoise,
        lambda x: Approximate(x, 0), lambda x: Approximate(0, x), lambda x: DiscreteGaussianNoise(x, 1),
        lambda x: DiscreteGaussianNoise(1, x),
        lambda x: SampledGaussian(x, 1), lambda x: SampledGaussian("0.5", x), lambda x: PerDistance(x, "km", 0),
        lambda x: PerDistance(1, "km", x),
        lambda x: PerDistance(1, "km", 0).within(x),
        lambda x: Repeated(Pure(1), x),
    ],
)  # fmt: skip
def test_bad_numbers_are_refused_by_every_kind(build, bad):
    with pytest.raises(InvalidParameter, match=r"got .*expected "):
        build(bad)


@pytest.mark.parametrize(
    "build",
    [
        lambda: LaplaceNoise(0), lambda: GaussianNoise(0), lambda: DiscreteGaussianNoise(0, 1),
        lambda: SampledGaussian("0.5", 0),
        lambda: Approximate(1, "1.000001"), lambda: SampledGaussian("1.000001", 1), lambda: Repeated(Pure(1), 2.0),
        lambda: Repeated(Pure(1), Fraction(2)),
        lambda: PerDistance(1, "", 0), lambda: PerDistance(1, None, 0), lambda: PerDistance(1, 5, 0),
        lambda: Repeated("pure", 1), lambda: Repeated(None, 1), lambda: Together(1), lambda: Together([Pure(1)]),
        lambda: Parallel(Pure), lambda: to_json(Pure),
        lambda: to_json(None), lambda: to_json("{}"),
    ],
)  # fmt: skip
def test_what_no_kind_allows_is_refused(build):
    with pytest.raises(InvalidParameter, match=r"got .*expected "):
        build()


@pytest.mark.parametrize("unit", ["\ud800", " ", "\n"])
def test_units_that_no_ledger_could_store_are_refused(unit):
    with pytest.raises(InvalidParameter):
        PerDistance(1, unit, 0)
