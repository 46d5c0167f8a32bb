"""Pages about a synthetic table: what each may show, and that its numbers are right."""

import numpy as np
import pyarrow as pa
import pytest
from tests.synthetic.chain_tables import chain

import discreet
from discreet.curator.catalog import Column
from discreet.errors import InvalidData, InvalidParameter, MissingExtra
from discreet.synthetic import result
from discreet.synthetic.columns.schema import Attribute, Schema
from discreet.synthetic.fit.relaxed import Settings
from discreet.synthetic.result import Quality

SIZES = (3, 3, 2)
SCHEMA = Schema(
    [
        Attribute.of(Column("first", "integer", lower=0, upper=2, nullable=False)),
        Attribute.of(Column("second <b>", "text", values=["x", "y", "z"], nullable=False)),
        Attribute.of(Column("third", "boolean", nullable=False)),
    ]
)
POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 5
delta = "1e-5"
[tables.people]
source = "python"
unit = "row"
columns.age = {type = "integer", lower = 0, upper = 9}
columns.ward = {type = "text", values = ["<i>", "b"]}
"""


@pytest.fixture(autouse=True)
def one_thread():
    """Boosting waits for its threads, long on a busy machine."""
    limits = pytest.importorskip("threadpoolctl")
    with limits.threadpool_limits(1):
        yield


@pytest.fixture
def made(tmp_path):
    path = tmp_path / "clinic.toml"
    path.write_text(POLICY, encoding="utf-8")
    age = np.arange(500) % 10
    people = pa.table({"age": age, "ward": np.where(age > 4, "<i>", "b")})
    with discreet.open(path, tables={"people": people}) as data:
        yield data.synthesize("people", epsilon=2, settings=Settings(iterations=50))


def test_the_public_page_reads_noisy_numbers_alone(made, monkeypatch):
    monkeypatch.setattr(result, "closeness", lambda *_: pytest.fail("a real row was compared with"))
    html = made.page().html()
    for part in ("charged as #2 to clinic", "age × ward", "how it was made", "misfit", "ε 2 at δ 1e-05", "<svg"):
        assert part.casefold() in html.casefold()
    assert "<i>" not in html  # names and values are escaped
    assert "owner" not in html
    assert "<th>protects</th>" in html  # facts, one a line
    assert f"<th>released</th><td>{made.receipt.when[:10]}</td>" in html
    assert "safe to publish" in html
    assert made.page().html() == html
    assert "<svg" in made._repr_html_()


def test_the_owners_page_says_whose_it_is(made):
    real = np.column_stack([np.arange(500) % 10, np.arange(500) % 10 > 4]).astype(np.int64)
    html = Quality(made.schema, real, made.codes).page(target="ward").html()
    for part in ("owner's eyes only", "score of pairs (of 1000)", "1-way total variation", "2-way of a fresh sample", "Cramér", "area under curve of ", " = ", "trained on synthetic rows", "furthest off"):  # fmt: skip
        assert part.replace("'", "&#x27;") in html or part in html
    assert "3-way" not in html  # there are two columns


def test_distances_are_exact_and_the_floor_is_a_fresh_sample():
    real, same = chain(2000, SIZES, 1), chain(2000, SIZES, 2)
    found = Quality(SCHEMA, real, same)
    assert found.facts()["real rows"] == 2000
    assert found.facts()["2-way total variation"] == pytest.approx(found.facts()["2-way of a fresh sample"], abs=0.01)
    flipped = real.copy()
    flipped[:, 2] = 1 - flipped[:, 2]
    share = np.bincount(real[:, 2]) / 2000
    apart = Quality(SCHEMA, real, flipped).closeness(1)
    assert apart.distances == pytest.approx((0, 0, abs(share[0] - share[1])))
    assert Quality(SCHEMA, real, real).facts()["score of pairs (of 1000)"] == 1000


def test_associations_are_zero_for_independent_columns_and_one_for_copies():
    codes = np.array([(a, b, a > 0) for a in range(3) for b in range(3)] * 100, np.int64)
    found = Quality(SCHEMA, codes, codes).associations(codes)
    assert found == pytest.approx(np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]]), abs=1e-9)
    constant = np.zeros((10, 3), np.int64)
    assert Quality(SCHEMA, constant, constant).associations(constant) == pytest.approx(np.eye(3))


def test_what_a_model_learns_from_synthetic_rows():
    real = chain(900, SIZES, 1, copy=0.9)
    noise = np.column_stack([np.random.default_rng(0).integers(0, size, 900) for size in SIZES])
    good, bad = Quality(SCHEMA, real, chain(900, SIZES, 2, copy=0.9)), Quality(SCHEMA, real, noise)
    found = good.predicts("third", real)
    assert min(found["synthetic"], found["real"]) > 0.85
    assert abs(bad.predicts("third")["synthetic"] - 0.5) < 0.3
    with pytest.raises(InvalidParameter, match="synthetic columns"):
        good.predicts("fourth")


def test_where_there_is_nothing_to_learn():
    one = Schema(SCHEMA.attributes[2:])
    same, varied = np.zeros((30, 1), np.int64), (np.arange(30) // 2 % 2)[:, None]
    assert np.isnan(Quality(one, varied, varied).predicts("third")["real"])  # nothing to predict from
    assert np.isnan(Quality(SCHEMA, np.repeat(same, 3, axis=1), np.repeat(same, 3, axis=1)).predicts("third")["real"])
    assert "score of pairs (of 1000)" not in Quality(one, varied, same).facts()
    assert "<svg" in Quality(one, varied, same).page().html()


def test_without_scikit_learn_the_page_says_so(monkeypatch):
    def missing(*_):
        raise MissingExtra("scikit-learn", "learn")

    monkeypatch.setattr(result, "_area", missing)
    rows = chain(50, SIZES, 1)
    assert "pip install" in Quality(SCHEMA, rows, rows).facts("third")["area under curve"]


def test_tables_without_rows_are_refused():
    rows = chain(50, SIZES, 1)
    for real, synthetic in ((rows[:0], rows), (rows, rows[:0])):
        with pytest.raises(InvalidData, match="rows in both"):
            Quality(SCHEMA, real, synthetic)


def test_only_the_commonest_of_many_codes_are_drawn():
    many = Schema([Attribute.of(Column("n", "integer", lower=0, upper=99), bins=100)])
    rows = np.repeat(np.arange(100), np.arange(1, 101))[:, None].astype(np.int64)
    html = Quality(many, rows, rows).page().html()
    assert ">99<" in html
    assert ">3<" not in html
