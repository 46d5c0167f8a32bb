"""Private principal components: exact sensitivity, noise of the stated deviation, what comes back, bad inputs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.sgd import preprocessing
from discreet.learning.sgd.preprocessing import PCA_GRID, PrivatePca
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import GaussianNoise

RNG = np.random.default_rng(20261116)


def moments(rows):
    return preprocessing._moments(np.asarray(rows))


@settings(max_examples=60)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=4, max_size=4))
def test_no_row_moves_the_matrix_by_more_than_one(row):
    """The whole symmetric matrix counts: its Frobenius norm is that of the noise's geometry (see `release`)."""
    change = moments([row])
    assert sum(int(v) ** 2 for v in change.ravel()) <= PCA_GRID**4
    assert (change == change.T).all()


@pytest.mark.parametrize("scale", [1e-3, 1, 1e3, 1e30])
def test_one_row_more_adds_itself_and_nothing_else_exactly(scale):
    rows = RNG.normal(size=(5000, 6)) * scale
    whole = moments(rows)
    for k in (0, 17, 4095, 4096, 4999):
        assert (whole - moments(np.delete(rows, k, axis=0)) == moments(rows[k : k + 1])).all()


def test_rows_of_norm_one_or_more_fill_their_room():
    rows = RNG.normal(size=(50, 100)) * 10
    for row in rows:
        assert np.square(moments([row]).astype(float)).sum() > 0.99 * PCA_GRID**4


def test_noise_has_the_stated_deviations_and_not_others():
    """s on the diagonal, s/√2 off it; false alarms below 1e-6, 30 % are seen."""
    columns, multiplier = 150, 3
    zero = np.zeros((columns, columns), np.int64)
    noisy = preprocessing._noisy(
        zero, PrivatePca(1, multiplier=multiplier, rows=100).multiplier, DeterministicEntropy(4)
    )
    assert (noisy == noisy.T).all()
    scale = multiplier * PCA_GRID**2
    for values, sigma in (
        (noisy[np.triu_indices(columns, 1)], scale / math.sqrt(2)),
        (noisy.diagonal(), scale),
    ):
        n = values.size
        for factor in (1, 1.3, 1 / 1.3) if n > 1000 else (1, 2):
            far = abs(np.square(values / (sigma * factor)).sum() - n) / math.sqrt(2 * n) > 5
            assert far == (factor != 1)


def test_directions_are_found():
    basis = np.linalg.qr(RNG.normal(size=(20, 20)))[0]
    rows = (RNG.normal(size=(20_000, 3)) * [0.5, 0.3, 0.2]) @ basis[:3]
    found = PrivatePca(3, multiplier=5, rows=20_000, whiten=0).release(rows, entropy=DeterministicEntropy(1))
    overlap = np.linalg.svd(basis[:3] @ found.directions)[1]
    assert overlap.min() > 0.98
    z = found.apply(rows)
    assert np.square(z).mean() == pytest.approx(1, rel=0.1)


def test_whitening_makes_spreads_equal():
    rows = RNG.normal(size=(50_000, 2)) * [0.3, 0.03]
    for whiten, ratio in ((0, 100), ("1/2", 10), (1, 1)):
        z = PrivatePca(2, multiplier=1, rows=50_000, whiten=whiten).release(rows).apply(rows)
        spreads = np.square(z).mean(axis=0)
        assert spreads[0] / spreads[1] == pytest.approx(ratio, rel=0.2)


def test_a_row_is_projected_on_its_own():
    rows = RNG.normal(size=(300, 30)).astype(np.float32)
    found = PrivatePca(5, multiplier=1, rows=100).release(rows)
    assert (found.apply(rows)[7:8] == found.apply(rows[7:8])).all()


@pytest.mark.parametrize("share", ["1/100", "1/10", "1/2"])
def test_a_share_of_the_budget(share):
    """Its multiplier is 1/√share times that which spends all: μ² in proportion."""
    pca = PrivatePca.for_share(3, epsilon=2, delta="1e-5", share=share, rows=100)
    whole = PrivatePca.for_share(3, epsilon=2, delta="1e-5", share="999999/1000000", rows=100)
    assert float(pca.multiplier) == pytest.approx(float(whole.multiplier) / math.sqrt(float(eval(share))), rel=1e-4)  # noqa: S307
    assert pca.loss == GaussianNoise(pca.multiplier)
    assert guarantee(whole.loss, delta="1e-5").epsilon <= 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.zeros((3, 2)), "5 components of 2 columns"),
        (np.zeros(3), "expected up to"),
        (np.zeros((3, 0)), "expected up to"),
        (np.array([["a", "b"]]), "expected up to"),
    ],
)
def test_bad_rows(rows, words):
    with pytest.raises(InvalidData, match=words):
        PrivatePca(5, multiplier=1, rows=100).release(rows)


@pytest.mark.parametrize(
    "wrong", [{"dimensions": 0}, {"multiplier": 0}, {"whiten": 2}, {"multiplier": "x"}, {"rows": 0}]
)
def test_bad_settings(wrong):
    with pytest.raises(InvalidParameter):
        PrivatePca(**{"dimensions": 2, "multiplier": 1, "rows": 10} | wrong)


def test_no_rows_give_noise_alone():
    assert PrivatePca(2, multiplier=1, rows=100).release(np.zeros((0, 4))).directions.shape == (4, 2)


def test_a_row_counts_the_same_alone_and_in_company_however_it_lies_in_memory():
    rows = np.random.default_rng(3).normal(size=(200, 301))
    whole = np.concatenate(list(preprocessing._snapped(rows)))
    columns = np.asfortranarray(rows)
    assert (np.concatenate(list(preprocessing._snapped(columns))) == whole).all()
    for k in range(200):
        assert (next(preprocessing._snapped(columns[k : k + 1])) == whole[k]).all()
