"""The hospital demo: its data are what they promise, its report tells everything, and it runs from end to end."""

import re
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.curator.policy import explain, read_policy

HERE = Path(__file__).parents[2] / "examples" / "hospital"
VISITS = 20_000
SECTIONS = (
    "The data and the policy",
    "Questions, with error bars beside the truth",
    "How the budget went down, and the refusal",
    "First attack: ask again and again",
    "Second attack: everybody, and everybody but one",
    "The privacy statement",
    "How to go on",
)


@pytest.fixture(scope="module")
def modules():
    """The demo's modules by name, imported as the script imports them, and forgotten afterwards."""
    names = [path.stem for path in HERE.glob("*.py")]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(HERE))
    try:
        yield {name: import_module(name) for name in names}
    finally:
        sys.path.remove(str(HERE))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)


@pytest.fixture(scope="module")
def folder(modules, tmp_path_factory):
    place = tmp_path_factory.mktemp("hospital")
    modules["generate"].generate(place, visits=VISITS, seed=7)
    return place


@pytest.fixture(scope="module")
def ask(folder):
    """A plain DuckDB over the generated files: one row."""
    with duckdb.connect() as database:
        for name in ("patients", "visits", "regions"):
            database.execute(f"CREATE VIEW {name} AS FROM '{folder / name}.parquet'")
        yield lambda sql: database.sql(sql).fetchall()[0]


# The data


def test_the_same_seed_gives_the_same_rows_and_another_seed_others(modules, folder, tmp_path):
    generate = modules["generate"].generate
    generate(tmp_path / "again", visits=VISITS, seed=7)
    generate(tmp_path / "other", visits=VISITS, seed=8)
    for name in ("patients", "visits", "regions"):
        first, again, other = (
            pq.read_table(f / f"{name}.parquet") for f in (folder, tmp_path / "again", tmp_path / "other")
        )
        assert first.equals(again)
        assert first.schema == other.schema
        assert first.equals(other) == (name == "regions")
    assert (folder / "policy.toml").read_bytes() == (tmp_path / "again" / "policy.toml").read_bytes()


def test_the_shape(ask, folder):
    assert ask("SELECT count(*), count(DISTINCT patient_id) FROM patients") == (VISITS // 5, VISITS // 5)
    assert ask("SELECT count(*), count(DISTINCT visit_id) FROM visits") == (VISITS, VISITS)
    assert ask("SELECT count(*), count(DISTINCT region) FROM regions") == (12, 12)
    columns = pq.read_schema(folder / "visits.parquet")
    assert columns.field("admitted").type == pa.date32()
    assert columns.field("cost").type == pa.float64()
    assert columns.field("emergency").type == pa.bool_()
    assert columns.field("diagnosis").type == pa.string()


def test_diagnoses_follow_zipf_and_a_few_patients_come_very_often(ask):
    names, most, middle = ask(
        "SELECT count(*), max(n), median(n) FROM (SELECT count(*) AS n FROM visits WHERE diagnosis IS NOT NULL GROUP BY diagnosis)"
    )
    assert 50 <= names <= 62
    assert most > 15 * middle
    often, usual = ask(
        "SELECT count(*) FILTER (WHERE n > 100), median(n) FROM (SELECT count(*) AS n FROM visits GROUP BY patient_id)"
    )
    assert 3 <= often <= 10
    assert 2 <= usual <= 8


def test_costs_and_stays_are_skewed_and_go_together(ask):
    mean, median, together = ask("SELECT avg(cost), median(cost), corr(cost, length_of_stay) FROM visits")
    assert mean > 1.3 * median
    assert together > 0.6
    mean, median = ask("SELECT avg(length_of_stay), median(length_of_stay) FROM visits")
    assert mean > 1.3 * median
    dear, cheap = ask(
        "SELECT avg(cost) FILTER (department = 'oncology'), avg(cost) FILTER (department = 'paediatrics') FROM visits"
    )
    assert dear > 3 * cheap


@pytest.mark.parametrize(
    ("column", "share"),
    [("diagnosis", 0.008), ("length_of_stay", 0.005), ("cost", 0.015), ("patient_id", 0), ("age", 0)],
)
def test_some_fields_are_empty(ask, column, share):
    empty = ask(f"SELECT avg(({column} IS NULL)::INT) FROM visits")[0]
    assert empty == 0 if share == 0 else share / 2 < empty < share * 2


@pytest.mark.parametrize(
    "impossible",
    [
        "age < 0 OR age > 105",
        "length_of_stay < 0 OR length_of_stay > 365",
        "cost <= 0 OR round(cost, 2) <> cost",
        "admitted < DATE '2024-01-01' OR admitted > DATE '2025-12-31'",
        "department = 'maternity' AND (sex <> 'female' OR age NOT BETWEEN 16 AND 49)",
        "department = 'paediatrics' AND age > 15",
        "diagnosis LIKE 'C61%' AND (sex <> 'male' OR age < 50)",
        "diagnosis LIKE 'C50%' AND sex <> 'female'",
        "region NOT IN (SELECT region FROM regions)",
    ],
)
def test_nothing_impossible(ask, impossible):
    assert ask(f"SELECT count(*) FROM visits WHERE {impossible}") == (0,)


def test_visits_agree_with_their_patients(ask):
    joined = "FROM visits v LEFT JOIN patients p USING (patient_id)"
    wrong = "p.patient_id IS NULL OR v.sex <> p.sex OR v.age <> year(v.admitted) - p.birth_year"
    assert ask(f"SELECT count(*) {joined} WHERE {wrong}") == (0,)
    assert ask("SELECT min(admitted) = any_value(admitted ORDER BY visit_id) FROM visits") == (True,)


def test_too_few_visits_are_refused(modules, tmp_path):
    with pytest.raises(ValueError, match="at least 5000"):
        modules["generate"].generate(tmp_path, visits=100)


def test_the_policy_parses_and_declares_what_is_there(folder, ask):
    policy = read_policy(folder / "policy.toml")
    visits = policy.catalog.table("visits")
    assert (visits.groups, visits.rows) == (3, 10)
    assert set(policy.caps) == {"student"}
    assert policy.budget.delta > 0
    assert not policy.catalog.table("regions").private
    for table in policy.catalog.tables.values():
        stored = set(pq.read_schema(folder / policy.sources[table.name]).names)
        assert {column.name for column in table.columns} <= stored
        for column in table.columns:
            if column.values is not None:
                found = ask(f"SELECT list(DISTINCT {column.name}) FROM {table.name} WHERE {column.name} IS NOT NULL")
                assert set(found[0]) == set(column.values)
            if not column.nullable:
                assert ask(f"SELECT count(*) FROM {table.name} WHERE {column.name} IS NULL") == (0,)
    assert "protects one person, by patient_id" in explain(policy)


# The report


class Tags(HTMLParser):
    """Collects tags, and fails on one that is closed out of order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def story(modules, text="plain"):
    """A story in which every text is the given one."""
    told = modules["story"]
    points = (told.Point(text, 10.0, 8.0, 12.0, 9.0, 9.5), told.Point(text, 5.0, None, None, None))
    asked = told.Asked(
        text,
        text,
        text,
        text,
        text,
        0.1,
        1e-7,
        False,
        2.9,
        text,
        points,
        (text, "n"),
        ((text, "10"),) * 5,
        (text,),
        0.01,
    )
    free = told.Asked(text, text, text, text, text, 0.1, 0.0, True, 2.9, text, (), (text,), (), (), 0.01)
    refused = told.Refused(text, text, text, text)
    averaging = told.Averaging(text, 41, 200, 1, (40.0, 43.0), text, 14.1, 10_000, 41.2)
    guesses = (told.Guesses(text, 20, 20), told.Guesses(text, 11, 20), told.Guesses(text, 14, 20))
    differencing = told.Differencing((text, text), text, 1.0, 0.731, guesses, (text, text))
    return told.Story(
        ((text, text, 12),), text, text, 3.0, 2.9, text, (asked, free), (asked,), (refused,), averaging, differencing, text, text, 3.0
    )  # fmt: skip


def test_the_report_has_every_section_and_is_well_formed(modules):
    html = modules["report"].page(story(modules))
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    assert tags.seen.count("h2") == len(SECTIONS)
    for section in SECTIONS:
        assert f">{section}</h2>" in html
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(pictures) == 5  # the answer that has points and its distances, the budget, two attacks
    for picture in pictures:
        ElementTree.fromstring(picture)  # noqa: S314 - our own


def test_the_report_needs_nothing_else(modules):
    html = modules["report"].page(story(modules))
    assert not re.search(r"https?:|<script|<link|<img|@import|url\(", html)


def test_the_report_escapes_everything(modules):
    html = modules["report"].page(story(modules, '<script>"&x</script>'))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") > 30
    tags = Tags()
    tags.feed(html)
    assert tags.open == []


def test_markdown(modules):
    markdown = modules["report"].markdown
    assert markdown("# A\n\ntext **b** `c_d`") == "<h3>A</h3><p>text <strong>b</strong> <code>c_d</code></p>"
    assert markdown("- one\n- two\n  more") == "<ul><li>one</li><li>two\n  more</li></ul>"
    assert markdown("```json\n<x>\n```") == "<pre>&lt;x&gt;</pre>"
    assert markdown("    a <b>\n    c") == "<pre>a &lt;b&gt;\nc</pre>"
    assert markdown(r"patient\_id \*\*x\*\*") == "<p>patient_id **x**</p>"
    assert '<td>north</td><td class="number">3</td>' in markdown("| a | n |\n|---|---|\n| north | 3 |")


def test_a_point_is_judged_by_what_noise_was_added_to(modules):
    point = modules["story"].Point
    assert point("a", 10, 8, 12, 11).covers
    assert not point("a", 10, 8, 12, 13).covers
    assert point("a", 10, 8, 12, 13, 11).covers
    assert point("a", 10, None, None, 13).covers is None


def test_wilson_interval(modules):
    """Wilson 1927; 0 of 10 at 95 %: 0 to 0.2775, as tables have it."""
    low, high = modules["story"].Guesses("", 0, 10).interval()
    assert (low, high) == (pytest.approx(0, abs=1e-9), pytest.approx(0.2775, abs=1e-4))


# The demo


def test_the_demo_runs_and_its_report_tells_everything(modules, tmp_path, capsys):
    target = modules["demo"].main(tmp_path / "demo", visits=VISITS, trials=8)
    html, printed = target.read_text(encoding="utf-8"), capsys.readouterr().out
    for section in SECTIONS:
        assert f">{section}</h2>" in html
    for question in modules["questions"].QUESTIONS:
        assert question.title in printed
    assert "refused. the cap of 'student'" in printed
    assert "refused. the budget of 'hospital' cannot pay" in printed
    assert re.search(r"exact answers, the difference\s+right 100.0%", printed)
    assert "the same question 100 times: 1 answer, paid for once" in printed
    assert f"{target}\n" in printed
    assert printed.rstrip().endswith(f"discreet demo --serve --folder {target.parent}")
    held, judged = map(int, re.search(r"(\d+) of (\d+) intervals hold the truth", printed).groups())
    assert judged > 30
    assert held > 0.7 * judged  # each with 95 %: false alarm below 1e-6; a wrong idea of bounding shows
    assert re.search(r"As of 20\d\d-\d\d-\d\d", html)  # the statement


def test_the_demo_leaves_the_ledger_of_others_alone(modules, tmp_path):
    (tmp_path / "policy.toml").write_text("mine")
    (tmp_path / "policy.ledger").write_text("mine too")
    with pytest.raises(SystemExit, match="did not write"):
        modules["demo"].prepare(tmp_path, VISITS)
    assert (tmp_path / "policy.ledger").read_text() == "mine too"


def test_the_data_are_made_once(modules, tmp_path, capsys):
    rows = modules["demo"].prepare(tmp_path / "new", VISITS)
    assert modules["demo"].prepare(tmp_path / "new", VISITS) == rows
    assert "there already" in capsys.readouterr().out
    assert modules["demo"].prepare(tmp_path / "new", 5000) != rows
