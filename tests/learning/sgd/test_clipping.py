"""Whatever an example's gradient is, it changes the sum by whole numbers of norm at most UNITS; and sums are exact."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.sgd import clipping as module
from discreet.learning.sgd.clipping import MOST, UNITS, Clip, ClippedSum, Clipping, Total, clipped_sum
from discreet.learning.sgd.gradients import Outer, Rows

F = Fraction
TINY, SMALLEST, HUGE = np.float32(1e-40), np.float32(2.0**-126), np.float32(3.4e38)
WILD = np.array(
    [0, -0.0, 1, -1, TINY, -TINY, SMALLEST, HUGE, -HUGE, np.inf, -np.inf, np.nan, 2.0**-30, 2.0**30, 2.0**-31, 2.0**31,
     2.0**-60, 2.0**60, 1 / 3, 1 + 2.0**-23, 1 - 2.0**-24, 1e-9, 1e9, 65504, 2.0**-63, 2.0**63], np.float32,
)  # fmt: skip


def squared(total: ClippedSum) -> int:
    """The squared norm over all parameters, in Python's integers."""
    return sum(int(v) ** 2 for units in total.units for v in units.ravel().tolist())


def rows(*values) -> Rows:
    return Rows(np.array(values, np.float32))


def wild(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Floats of one size, of all sizes, or taken from the list above."""
    if kind == "plain":
        values = rng.normal(size=shape)
    elif kind == "equal":  # every rounding in the same direction
        values = np.full(shape, rng.choice([1 / 3, 0.1, 1.9999999, 7e-5]))
    elif kind == "scattered":
        values = rng.normal(size=shape) * 10.0 ** rng.integers(-12, 12, size=shape)
    elif kind == "scaled":
        values = rng.normal(size=shape) * 10.0 ** rng.integers(-12, 12)
    else:
        values = WILD[rng.integers(0, len(WILD), size=shape)]
    return values.astype(np.float32)


KINDS = ["plain", "equal", "scattered", "scaled", "wild"]


@pytest.mark.quick_cases(88)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 2, 3, 17, 1000, 1023, 1024, 1025, 2500, 5000])
@pytest.mark.parametrize("form", ["rows", "outer", "both"])
def test_one_example_is_a_vector_of_norm_at_most_units(kind, width, form):
    rng = np.random.default_rng(width)
    for norm in ("1e-6", "0.3", 1, 1000):
        wide, narrow = wild(rng, (1, width), kind), wild(rng, (1, 7), kind)
        lot = {
            "rows": [Rows(wide)],
            "outer": [Outer(wide, narrow)],
            "both": [Rows(narrow), Outer(narrow[:, :2], wide), Rows(wide.reshape(1, 1, -1))],
        }[form]
        for share in (1, "0.97", "1e-9"):
            total = clipped_sum(lot, Clip(norm), share=share)
            assert squared(total) <= UNITS**2 * F(share)
        shares = [F(1, len(lot))] * len(lot)
        total = clipped_sum(lot, Clip(norm, shares))
        for units in total.units:
            assert sum(int(v) ** 2 for v in units.ravel().tolist()) * len(lot) <= UNITS**2


@pytest.mark.parametrize("form", ["rows", "outer"])
def test_without_room_for_rounding_the_norm_would_be_exceeded(form, monkeypatch):
    """The test above has teeth."""
    monkeypatch.setattr(module, "_SHRINK", 1 + 2.0**-12)
    side = np.array([[3.0]], np.float32)
    lot = [Rows(side)] if form == "rows" else [Outer(side, side)]
    assert squared(clipped_sum(lot, Clip("1e-6"))) > UNITS**2


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=8),
    st.lists(st.floats(width=32), min_size=1, max_size=8),
    st.lists(st.floats(width=32), min_size=1, max_size=8),
    st.fractions(F(1, 10**6), 10**6),
    st.fractions(F(1, 10**6), 1),
)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_floats_are_clipped(a, b, c, norm, share):
    lot = [Outer(np.array([a], np.float32), np.array([b], np.float32)), rows(c)]
    assert squared(clipped_sum(lot, Clip(norm), share=share)) <= UNITS**2 * share


@pytest.mark.parametrize("width", [1, 10, 1000, 5000])
def test_hardly_anything_is_lost_to_the_grid(width):
    """Clipped gradients keep their direction and, up to the shrinking and the cut, their norm."""
    rng = np.random.default_rng(3)
    g = rng.normal(size=(1, width)).astype(np.float32)
    total = clipped_sum([Rows(g)], Clip(F(1, 100)))
    expected = g[0].astype(np.float64) / np.linalg.norm(g.astype(np.float64)) * UNITS
    assert np.abs(total.units[0] - expected).max() <= 2.0**-11 * np.abs(expected).max() + 1
    a, b = rng.normal(size=(1, 60)).astype(np.float32), rng.normal(size=(1, width)).astype(np.float32)
    outer = clipped_sum([Outer(a, b)], Clip(F(1, 100))).units[0].astype(np.float64)
    expected = np.outer(a, b).astype(np.float64)
    expected *= UNITS / np.linalg.norm(expected)
    assert np.linalg.norm(outer - expected) <= 0.012 * UNITS  # a wide side is rounded to a thirtieth of its spread
    assert 0.997 * UNITS <= np.linalg.norm(outer) <= UNITS
    along = float((outer * expected).sum()) / UNITS**2
    assert 0.996 <= along <= 1  # the rounding goes to the sides, and not always to the same


def test_what_is_within_the_norm_is_not_clipped():
    g = np.array([[0.25, -0.5]], np.float32)
    total = clipped_sum([Rows(g)], Clip(2))
    assert np.abs(total.units[0] / UNITS * 2 - g[0]).max() < 2.0**-11


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, HUGE])
def test_a_parameter_that_cannot_be_used_gets_nothing_and_the_others_get_theirs(bad):
    spoiled = clipped_sum([rows([bad, 1.0], [3.0, 4.0]), rows([2.0], [0.0])], Clip(1))
    alone = clipped_sum([rows([0.0, 0.0], [3.0, 4.0]), rows([2.0], [0.0])], Clip(1))
    assert all((a == b).all() for a, b in zip(spoiled.units, alone.units, strict=True))
    assert np.isfinite(spoiled.norms).all()
    assert spoiled.units[1][0] > 0.999 * UNITS


@pytest.mark.parametrize("zero", [0.0, TINY, 2.0**-40])
def test_zeros_and_what_is_too_small_add_nothing(zero):
    total = clipped_sum([Outer(np.full((3, 2), zero, np.float32), np.ones((3, 2), np.float32))], Clip(1))
    assert not total.units[0].any()
    assert total.norms.tolist() == [0.0] * 3


def lot(rng: np.random.Generator, n: int, kind: str, form: str = "mixed") -> list[Outer | Rows]:
    """Three parameters."""
    return [
        Outer(wild(rng, (n, 61), kind), wild(rng, (n, 40), kind), one=form == "outer"),
        Outer(wild(rng, (n, 3), kind), wild(rng, (n, 1100), kind))
        if form == "outer"
        else Rows(wild(rng, (n, 3, 700), kind)),
        Outer(wild(rng, (n, 30), kind), wild(rng, (n, 5), kind), one=form == "outer"),
    ]


def taken(gradients, index):
    return [
        Outer(g.left[index], g.right[index], one=g.one) if isinstance(g, Outer) else Rows(g.values[index])
        for g in gradients
    ]


forms = pytest.mark.parametrize("form", ["mixed", "outer"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shares", [None, (F(1, 2), F(1, 3), F(1, 6))])
@forms
def test_sums_do_not_depend_on_order_or_on_where_the_lot_is_cut(kind, shares, form):
    rng = np.random.default_rng(5)
    gradients, clip = lot(rng, 300, kind, form), Clip("0.7", shares)
    whole = clipped_sum(gradients, clip)
    mixed = clipped_sum(taken(gradients, rng.permutation(300)), clip)
    cuts = [0, 1, 2, 77, 200, 200, 300]
    parts = [clipped_sum(taken(gradients, slice(a, b)), clip) for a, b in zip(cuts, cuts[1:], strict=False)]
    joined = parts[0]
    for part in parts[1:]:
        joined += part
    for a, b, c in zip(whole.units, mixed.units, joined.units, strict=True):
        assert (a == b).all()
        assert (a == c).all()
    assert (joined.norms == whole.norms).all()


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shares", [None, (F(1, 2), F(1, 3), F(1, 6))])
def test_each_example_of_several_parameters_is_within_its_norm(kind, shares):
    gradients, root = lot(np.random.default_rng(9), 50, kind, "outer"), F(97, 100)
    for norm in ("1e-6", "0.3", 1000):
        for i in range(50):
            total = clipped_sum(taken(gradients, [i]), Clip(norm, shares), share=root)
            assert squared(total) <= UNITS**2 * root
            for units, share in zip(total.units, shares or (1, 1, 1), strict=True):
                assert sum(v**2 for v in units.ravel().tolist()) <= UNITS**2 * root * share


@pytest.mark.parametrize("kind", ["plain", "wild"])
@forms
def test_sums_are_exact(kind, form):
    """Against a sum in Python's integers of what each example gives alone."""
    gradients = lot(np.random.default_rng(6), 40, kind, form)
    whole = clipped_sum(gradients, Clip(1))
    for place, units in enumerate(whole.units):
        alone = [clipped_sum(taken(gradients, [i]), Clip(1)).units[place].astype(object) for i in range(40)]
        assert (units.astype(object) == sum(alone)).all()


def with_ones(outer: Outer) -> Outer:
    """The same with the ones written down."""
    return Outer(np.concatenate([outer.left, np.ones((len(outer.left), 1), np.float32)], axis=1), outer.right)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(61, 40), (40, 61), (1, 1), (100, 3), (3, 100)], ids=str)
def test_a_one_that_is_not_written_down_counts_like_others(kind, shape):
    rng = np.random.default_rng(sum(shape))
    outer = Outer(wild(rng, (50, shape[0]), kind), wild(rng, (50, shape[1]), kind), one=True)
    written = with_ones(outer)
    assert outer.shape == written.shape
    with np.errstate(all="ignore"):
        assert np.array_equal(outer.formed(), written.formed(), equal_nan=True)
    total, same = clipped_sum([outer], Clip("0.7")), clipped_sum([written], Clip("0.7"))
    assert np.allclose(total.norms, same.norms, rtol=1e-6)
    assert np.abs(total.units[0] - same.units[0]).max() <= 0.05 * UNITS  # a rounding may go the other way, for all rows
    for i in range(50):
        assert (
            squared(clipped_sum([Outer(outer.left[i : i + 1], outer.right[i : i + 1], one=True)], Clip("0.7")))
            <= UNITS**2
        )
    if kind == "plain":
        assert np.allclose(outer.summed(), written.summed(), atol=1e-4)


def ways(monkeypatch, gradients: list, **settings) -> ClippedSum:
    for name, value in settings.items():
        monkeypatch.setattr(*(Total, "rows") if name == "rows" else (module, name), value)
    return clipped_sum(gradients, Clip(1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(61, 200), (200, 61), (9, 50), (50, 9)], ids=str)
@pytest.mark.parametrize("one", [False, True])
def test_float32_and_float64_and_any_cut_give_the_same_sum(kind, shape, one, monkeypatch):
    rng = np.random.default_rng(sum(shape))
    gradients = [Outer(wild(rng, (500, shape[0]), kind), wild(rng, (500, shape[1]), kind), one=one)]
    usual = clipped_sum(gradients, Clip(1))
    slow = ways(monkeypatch, gradients, _EXACT=-1.0)
    few = ways(monkeypatch, gradients, _EXACT=2.0**24, rows=7)
    assert (usual.units[0] == slow.units[0]).all()
    assert (usual.units[0] == few.units[0]).all()


@pytest.mark.parametrize("shape", [(40, 60), (5, 60), (60, 5)], ids=str)
def test_sums_that_leave_float32_are_added_up_in_float64(shape, monkeypatch):
    """Examples that are all the same, in one direction: the largest sums there are; some of them in int32 no more."""
    rng = np.random.default_rng(3)
    left, right = np.zeros((1, shape[0]), np.float32), np.zeros((1, shape[1]), np.float32)
    left[0, 0], right[0, 0] = rng.normal(size=2)
    alone = clipped_sum([Outer(left, right)], Clip("1e-6")).units[0]
    many = clipped_sum([Outer(np.repeat(left, 9000, axis=0), np.repeat(right, 9000, axis=0))], Clip("1e-6")).units[0]
    assert abs(int(alone[0, 0])) > 0.99 * UNITS
    assert (many == 9000 * alone).all()
    monkeypatch.setattr(module, "_EXACT", 2.0**60)  # the check has a reason
    alone = clipped_sum([Outer(left * np.float32(1.1), right)], Clip("1e-6")).units[0]
    lot = [Outer(np.repeat(left * np.float32(1.1), 9000, axis=0), np.repeat(right, 9000, axis=0))]
    assert not (clipped_sum(lot, Clip("1e-6")).units[0] == 9000 * alone).all()


def test_long_lots_do_not_overflow():
    """Sums that fit float32 by a little, added up beyond 2³¹ steps."""
    rng = np.random.default_rng(4)
    row = rng.normal(size=(1, 600)).astype(np.float32)
    left, right = np.abs(row[:, :60]) + 1, np.abs(row)
    alone = clipped_sum([Outer(left, right)], Clip("1e-6")).units[0]
    many = clipped_sum([Outer(np.repeat(left, 40_000, axis=0), np.repeat(right, 40_000, axis=0))], Clip("1e-6")).units[
        0
    ]
    assert (many == 40_000 * alone).all()
    assert int(many.max()) >> (module._UNITS_BITS - module._bits((60, 600))) > 2**31 / 40


def test_numpy_buffers_what_it_did():
    before = np.getbufsize()
    clipped_sum(lot(np.random.default_rng(0), 5, "plain"), Clip(1))
    assert np.getbufsize() == before


def test_short_gradients_are_not_lost():
    """Both sides get coarser together: a gradient of a thousandth of the norm keeps its direction."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(1, 61)).astype(np.float32), rng.normal(size=(1, 1000)).astype(np.float32)
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    for share, least in ((1e-1, 0.98), (1e-2, 0.95), (1e-3, 0.8)):
        found = clipped_sum([Outer(a, b)], Clip(norm / share)).units[0] / (UNITS * share)
        assert least < float((found * np.outer(a, b)).sum()) / norm <= 1.1


@forms
def test_adding_one_example_changes_the_sum_by_what_it_gives_alone(form):
    gradients = lot(np.random.default_rng(7), 65, "plain", form)
    more, less = clipped_sum(gradients, Clip(1)), clipped_sum(taken(gradients, slice(64)), Clip(1))
    change = sum(int(v) ** 2 for a, b in zip(more.units, less.units, strict=True) for v in (a - b).ravel().tolist())
    assert 0 < change <= UNITS**2


THREADS = """
import numpy as np, hashlib, sys
from discreet.learning.sgd.clipping import Clip, clipped_sum
from discreet.learning.sgd.gradients import Outer
rng = np.random.default_rng(1)
a, b = rng.normal(size=(600, 61)).astype(np.float32), rng.normal(size=(600, 300)).astype(np.float32)
print(hashlib.sha256(clipped_sum([Outer(a, b)], Clip(1)).units[0].tobytes()).hexdigest())
"""


def test_sums_do_not_depend_on_the_number_of_threads():
    import os

    found = {
        subprocess.run(
            [sys.executable, "-c", THREADS], env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True, text=True, check=True,
        ).stdout
        for threads in ("1", "2", "4")
    }  # fmt: skip
    assert len(found) == 1


def test_the_largest_lot_fits_the_whole_numbers_of_a_float():
    assert MOST * UNITS < 2**53
    assert all(20 <= module._bits(shape) <= 30 for shape in [(1, 1), (61, 1000), (4096, 4096), (1 << 20, 1 << 20)])


@pytest.mark.parametrize("n", [0, 1])
@forms
def test_empty_lots_and_single_examples(n, form):
    gradients = lot(np.random.default_rng(8), n, "plain", form)
    total = clipped_sum(gradients, Clip(1))
    assert [units.shape for units in total.units] == [gradient.shape for gradient in gradients]
    assert all(units.dtype == np.int64 for units in total.units)
    assert total.norms.shape == (n,)
    assert n or not any(units.any() for units in total.units)
    for gradient in gradients:
        assert gradient.formed().shape == (n, *gradient.shape)
        assert gradient.summed().shape == gradient.shape


@pytest.mark.parametrize("width", [3, 1000, 5000])
def test_norms_are_those_of_the_gradients_formed(width):
    rng = np.random.default_rng(width)
    a, b = wild(rng, (50, width), "plain"), wild(rng, (50, 12), "plain")
    c = wild(rng, (50, 4, width), "plain")
    norms = clipped_sum([Outer(a, b), Rows(c)], Clip(1)).norms
    outer = np.einsum("ni,nj->nij", a.astype(np.float64), b.astype(np.float64)).reshape(50, -1)
    true = np.sqrt((outer**2).sum(axis=1) + (c.astype(np.float64).reshape(50, -1) ** 2).sum(axis=1))
    assert np.abs(norms / true - 1).max() < 1e-6


def test_sums_without_clipping():
    rng = np.random.default_rng(0)
    outer, values = Outer(wild(rng, (5, 3), "plain"), wild(rng, (5, 2), "plain")), wild(rng, (5, 4), "plain")
    assert np.allclose(outer.summed(), outer.formed().sum(axis=0), atol=1e-5)
    assert np.allclose(Rows(values).summed(), values.sum(axis=0))


def test_shares_hold_for_each_parameter():
    big = [rows([[1e6, 0.0]]), rows([[1e-3]]), rows([[5.0]])]
    total = clipped_sum(big, Clip(1, ["0.25", "0.25", "0.5"]))
    norms = [np.linalg.norm(units.astype(np.float64)) / UNITS for units in total.units]
    assert np.allclose(norms, [0.5, 1e-3, 0.5**0.5], rtol=1e-3)


@pytest.mark.parametrize("bad", [0, -1, "nan", float("inf"), True, None, "1e-30", 2**41])
def test_bad_norms_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"^norm: got "):
        Clip(bad)


def test_bad_shares_are_refused():
    with pytest.raises(InvalidData, match=r"add up to 1\.1, expected at most 1"):
        Clip(1, ["0.6", "0.5"])
    with pytest.raises(InvalidParameter, match=r"^shares: got 0"):
        Clip(1, [0, 1])
    with pytest.raises(InvalidData, match=r"2 clipping shares for 1 parameters"):
        clipped_sum([rows([1.0])], Clip(1, ["0.5", "0.5"]))
    for share in (0, 2, -1):
        with pytest.raises(InvalidParameter, match=r"^share: got "):
            clipped_sum([rows([1.0])], Clip(1), share=share)


def test_gradients_of_different_lots_are_refused():
    with pytest.raises(InvalidData, match=r"gradients of \[1, 2\] examples"):
        clipped_sum([rows([1.0]), rows([1.0], [2.0])], Clip(1))
    with pytest.raises(InvalidData, match=r"gradients of \[\] examples"):
        clipped_sum([], Clip(1))


def test_lots_that_could_leave_the_grid_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST", 3)
    with pytest.raises(InvalidData, match=r"a lot of 4 examples, expected at most 3"):
        clipped_sum([rows([1.0], [1.0], [1.0], [1.0])], Clip(1))


# --- An example contributes the same, alone and in company


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers, in memory in another way."""
    if layout == "columns":
        return np.asfortranarray(array)
    if layout == "part":
        return np.concatenate([array, array], axis=1)[:, : array.shape[1]]
    if layout == "steps":
        return np.repeat(array, 2, axis=1)[:, ::2]
    if layout == "unaligned":
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(array.shape)
        raw[...] = array
        return raw
    if layout == "read only":
        array = array.copy()
        array.flags.writeable = False
    return array


LAYOUTS = ["rows", "columns", "part", "steps", "unaligned", "read only"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["outer", "rows"])
def test_layout_in_memory_changes_nothing(layout, form):
    """NumPy calls an array of one row contiguous whatever it is part of, and adds in another order then."""
    rng = np.random.default_rng(12)
    left, right = rng.normal(size=(60, 1003)).astype(np.float32), rng.normal(size=(60, 30)).astype(np.float32)

    def lot(rows, how):
        a, b = laid_out(left[rows], how), laid_out(right[rows], how)
        return [Outer(a, b), Outer(b, a, one=True)] if form == "outer" else [Rows(a), Outer(b, a)]

    usual = clipped_sum(lot(slice(None), "rows"), Clip("0.01"))
    other = clipped_sum(lot(slice(None), layout), Clip("0.01"))
    assert all((a == b).all() for a, b in zip(usual.units, other.units, strict=True))
    for i in range(60):
        assert clipped_sum(lot(slice(i, i + 1), layout), Clip("0.01")).norms == usual.norms[i]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 40])
@pytest.mark.parametrize("form", ["outer", "rows", "both"])
def test_norms_do_not_depend_on_company_for_any_number_of_parameters(count, form):
    """NumPy adds up the eight numbers of one column in pairs, and those of several one after the other."""
    rng = np.random.default_rng(count)
    kinds = {"outer": [True] * count, "rows": [False] * count, "both": [k % 2 == 0 for k in range(count)]}[form]
    sides = [
        (rng.normal(size=(200, 3)).astype(np.float32), rng.normal(size=(200, 5)).astype(np.float32)) for _ in kinds
    ]

    def lot(rows):
        return [Outer(a[rows], b[rows]) if k else Rows(b[rows]) for k, (a, b) in zip(kinds, sides, strict=True)]

    together = clipped_sum(lot(slice(None)), Clip(1))
    alone = [clipped_sum(lot(slice(i, i + 1)), Clip(1)) for i in range(200)]
    assert [one.norms[0] for one in alone] == together.norms.tolist()
    for place, units in enumerate(together.units):
        assert (units == sum(one.units[place] for one in alone)).all()


@pytest.mark.parametrize(
    "wrong",
    [
        [Rows(np.ones((1, 1, 2), np.float32))],
        [Outer(np.ones((1, 1), np.float32), np.ones((1, 5), np.float32))],
        [Outer(np.ones((1, 3), np.float32), np.ones((1, 2), np.float32), one=True)],
        [Rows(np.ones((1, 3, 2), np.float32))] * 2,
        [],
    ],
)
def test_gradients_of_other_shapes_than_the_parameters_are_refused(wrong):
    clipping = Clipping(Clip(1), [np.zeros((3, 2), np.int64)])
    with pytest.raises(InvalidData, match="expected those of the parameters"):
        clipping.add(wrong)
    clipping.add([Outer(np.ones((1, 3), np.float32), np.ones((1, 2), np.float32))])
    with pytest.raises(InvalidData, match="expected those of the parameters"):
        clipping.add(wrong)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float16, np.float64, bool])
def test_numbers_of_other_types_are_clipped_too(kind):
    for value in (1, 3, 100):
        side = np.full((1, 1000), value).astype(kind)
        assert squared(clipped_sum([Rows(side)], Clip("0.01"))) <= UNITS**2
        assert squared(clipped_sum([Outer(side, side[:, :7])], Clip("0.01"))) <= UNITS**2


def test_a_parameter_may_change_its_form_between_parts():
    """The form is the network's own business; what was added up stays."""
    onto = np.zeros((3, 2), np.int64)
    clipping = Clipping(Clip(1), [onto])
    outer = Outer(np.ones((1, 3), np.float32), np.ones((1, 2), np.float32))
    clipping.add([outer])
    before = onto.copy()
    clipping.add([Rows(outer.formed())])
    assert np.abs(onto - 2 * before).max() <= 0.01 * UNITS
    ones = np.ones((1, 2), np.float32)
    clipping.add([Outer(ones, ones, one=True)])
    assert np.abs(onto - 3 * before).max() <= 0.02 * UNITS
