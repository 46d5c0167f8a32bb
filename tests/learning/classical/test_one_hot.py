"""Columns of one category: declared, read off an encoder, enforced on every row, and worth less noise."""

import numpy as np
import pytest
from tests.conftest import LazyModule

from discreet.errors import InvalidParameter
from discreet.learning.classical import PCA, KMeans, LinearRegression, LogisticRegression, one_hot_columns
from discreet.learning.classical.exact_sums import UNIT, reach_of, snapped
from discreet.learning.classical.inputs import box_of, groups_of
from discreet.noise import DeterministicEntropy

compose, pipelines = LazyModule("sklearn.compose"), LazyModule("sklearn.pipeline")
preprocessing = LazyModule("sklearn.preprocessing")
COLUMNS = ["'age'", "'eye'", "'heart'", "'lung'"]
LETTERS = [["a", "b", "c"], ["x", "y"]]


def table(rows, sizes, seed):
    """Indicators of categories of these sizes, three more columns, and a target that depends on all of them."""
    rng = np.random.default_rng(seed)
    parts, score, lists, start = [], np.zeros(rows), [], 0
    for size in sizes:
        codes = rng.choice(size, rows, p=rng.dirichlet(np.full(size, 2.0)))
        parts.append(np.eye(size)[codes])
        score += rng.normal(0, 0.3, size)[codes]
        lists.append(list(range(start, start + size)))
        start += size
    numbers = np.clip(rng.normal(0, 0.35, (rows, 3)), -1, 1)
    score += numbers @ rng.normal(0, 0.6, 3)
    return np.hstack([*parts, numbers]), np.clip((score + rng.normal(0, 0.5, rows)) / 5, -1, 1), lists


@pytest.mark.parametrize(
    ("one_hot", "expected"),
    [
        (None, ()),
        ([["eye", "heart", "lung"]], ((1, 2, 3),)),
        ([(3, np.int64(1))], ((3, 1),)),
        ([[0], []], ((0,), ())),
    ],
)
def test_columns_are_found_by_name_and_position(one_hot, expected):
    assert groups_of(one_hot, COLUMNS) == expected


@pytest.mark.parametrize(
    "one_hot",
    [
        [["nose"]],
        [[4]],
        [[-1]],
        [[1.5]],
        [[True]],
        [[1, 1]],
        [[1, 2], [2]],
        ["eye"],
        [1],
        "eye",
        [[None]],
    ],
)
def test_what_cannot_be_read_is_refused(one_hot):
    with pytest.raises(InvalidParameter, match="one_hot"):
        groups_of(one_hot, COLUMNS)


def test_a_transformer_without_categories_is_refused():
    with pytest.raises(InvalidParameter, match="one_hot"):
        groups_of(preprocessing.MinMaxScaler(), COLUMNS)


@pytest.mark.parametrize(
    ("drop", "expected"),
    [
        (None, [[0, 1, 2], [3, 4]]),
        ("first", [[0, 1], [2]]),
        ("if_binary", [[0, 1, 2], [3]]),
        (["b", "x"], [[0, 1], [2]]),
    ],
)
def test_an_encoder_makes_the_columns_it_is_said_to_make(drop, expected):
    encoder = preprocessing.OneHotEncoder(categories=LETTERS, drop=drop, sparse_output=False)
    assert one_hot_columns(encoder) == expected
    made = encoder.fit_transform([["a", "x"], ["b", "y"], ["c", "x"]])
    assert made.shape[1] == sum(map(len, expected))
    assert all(made[:, group].sum(axis=1).max() <= 1 for group in expected)


@pytest.mark.parametrize("settings", [{}, {"max_categories": 2}, {"min_frequency": 2}])
def test_categories_that_are_found_in_the_data_are_refused(settings):
    categories = {"categories": LETTERS} if settings else {}
    with pytest.raises(InvalidParameter, match="fact about it"):
        one_hot_columns(preprocessing.OneHotEncoder(**settings, **categories).fit([["a", "x"], ["b", "y"], ["c", "y"]]))


def test_a_pipeline_with_a_column_transformer():
    rng = np.random.default_rng(1)
    rows = np.array([[rng.choice(["a", "b", "c"]), rng.uniform(), rng.choice(["x", "y"])] for _ in range(3000)], object)
    encoder = preprocessing.OneHotEncoder(categories=LETTERS, sparse_output=False)
    columns = compose.ColumnTransformer([("number", preprocessing.MinMaxScaler(), [1]), ("words", encoder, [0, 2])])
    with pytest.raises(InvalidParameter, match="not fitted"):
        one_hot_columns(columns)
    model = LogisticRegression(
        epsilon=3, delta="1e-6", bounds=(0, 1), classes=[False, True], one_hot=columns, entropy=DeterministicEntropy(1)
    )
    pipeline = pipelines.Pipeline([("columns", columns), ("model", model)]).fit(rows, rows[:, 0] == "a")
    assert one_hot_columns(columns) == [[1, 2, 3], [4, 5]]
    assert pipeline.score(rows, rows[:, 0] == "a") > 0.95


def test_a_row_of_several_indicators_is_shortened_and_others_are_not():
    box = box_of({"age": (-1, 1)}, COLUMNS, groups=((1, 2, 3),))  # indicators need no bounds
    reach = reach_of(4, groups=((1, 2, 3),))
    whole = snapped(np.array([[0.5, 0, 1, 0], [-1, 1, 1, 1], [1, 7, 0, 0]]), box, reach)
    assert whole[0].tolist() == [UNIT // 2, 0, UNIT, 0]
    assert whole[1, 1:].sum() <= UNIT < whole[1, 1:].sum() + 4
    assert whole[2].tolist() == [UNIT, UNIT, 0, 0]


@pytest.mark.parametrize(("delta", "method"), [(0, None), ("1e-6", "objective")])
def test_declared_categories_are_worth_their_noise(delta, method):
    """R² of held-out rows on three generated tables; without the declaration noise is far larger.

    With δ > 0 "gradient" is taken, whose noise does not grow with the columns, declared or not.
    """
    for seed, (rows, sizes) in enumerate([(8000, (5, 8, 12)), (20_000, (20, 20)), (8000, (4, 4, 4, 4, 4, 4))]):
        x, y, lists = table(rows, sizes, seed)
        half = rows // 2
        settings = {"epsilon": 3, "delta": delta, "bounds": (-1, 1), "target_bounds": (-1, 1), "method": method}
        scores = [
            LinearRegression(**settings, one_hot=one_hot, entropy=DeterministicEntropy(seed))
            .fit(x[:half], y[:half])
            .score(x[half:], y[half:])
            for one_hot in (None, lists)
        ]
        assert scores[1] > scores[0] + 0.03


def test_components_of_categories_are_nearer():
    """The covariance's noise: (4 + 1)² against (40 + 1)², so components are far nearer to the true ones."""
    x, _, lists = table(20_000, (20, 20), 4)
    truth = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2][:3]
    found = [
        PCA(
            epsilon=1,
            delta="1e-6",
            bounds=(-1, 1),
            norm=None,
            n_components=3,
            one_hot=h,
            entropy=DeterministicEntropy(1),
        )
        .fit(x)
        .components_
        for h in (None, lists)
    ]
    apart = [np.linalg.norm(c.T @ c - truth.T @ truth) for c in found]
    assert apart[1] < apart[0] / 2.4


def test_clusters_of_categories():
    """Two kinds of people: (a, x) near −0.7, (b, y) near 0.7. Three columns' reach is 3, not 5."""
    rng = np.random.default_rng(2)
    kind = rng.integers(0, 2, 4000)
    x = np.hstack([np.eye(2)[kind], np.eye(2)[kind], (rng.normal(0, 0.1, 4000) + 1.4 * kind - 0.7)[:, None]])
    model = KMeans(
        n_clusters=2,
        epsilon=2,
        delta=0,
        bounds=[(0, 1)] * 4 + [(-1, 1)],
        one_hot=[[0, 1], [2, 3]],
        entropy=DeterministicEntropy(3),
    ).fit(x)
    order = model.cluster_centers_[:, 4].argsort()
    assert np.allclose(model.cluster_centers_[order], [[1, 0, 1, 0, -0.7], [0, 1, 0, 1, 0.7]], atol=0.1)
    assert (np.argsort(order)[model.predict(x)] == kind).mean() > 0.99
