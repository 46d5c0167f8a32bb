"""What the README and the site say: figures from results, pictures as drawn, short paragraphs, no block that nobody runs."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import discreet
from discreet.curator.policy import parse_policy

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SITE = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "decisions" not in page.parts]
FENCE = re.compile(r"^(<!-- [^\n]* -->\n)?```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
MOST_WORDS = 60


def paragraphs(text):
    """Paragraphs and items of lists, without code, tables, pictures and headings."""
    text = re.sub(r"^```.*?^```", "\n", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        for part in re.split(r"\n(?=\s*(?:[-*]|\d+\.)\s)", block):
            if not part.lstrip().startswith(("|", "#", "!", "<")):
                yield " ".join(part.split())


@pytest.mark.parametrize("page", [ROOT / "README.md", *SITE], ids=lambda page: page.name)
def test_no_paragraph_is_long(page):
    long = [part for part in paragraphs(page.read_text("utf-8")) if len(part.split()) > MOST_WORDS]
    assert not long, f"{len(long[0].split())} words: {long[0]}"


# Every block is run


PARSED = {"engines.md": "toml", "sql.md": "toml"}  # by the tests below, and by test_sql_guide.py
ELSEWHERE = {
    # (page, how a block begins): the test that does what it says
    ("client.md", "import discreet"): "tests/docs/test_pages.py::test_the_clients_block_runs",
    ("client.md", "%%discreet"): "tests/client/test_notebook.py",
    ("console.md", "$ discreet demo"): "tests/server/console/test_doors.py",
    ("deployment.md", "location /"): "tests/server/test_access.py",
    ("federated.md", ""): "tests/learning/federated/test_flower.py",
    ("learning.md", "import discreet"): "tests/docs/test_pages.py::test_the_learning_block_runs",
    ("local.md", "discreet local collect postgresql"): "tests/contracts/test_report_store_postgres.py",
    ("local.md", "GRANT"): "tests/contracts/test_report_store_postgres.py",
    ("postgres-clients.md", "psql"): "tests/server/postgres/test_clients.py",
    ("postgres-clients.md", "SET discreet.epsilon"): "tests/server/postgres/test_clients.py",
}


@pytest.mark.parametrize("page", [ROOT / "README.md", *SITE], ids=lambda page: page.name)
def test_every_block_is_run_or_says_where_it_is(page):
    for mark, language, body in FENCE.findall(page.read_text("utf-8")):
        if language in ("console", "pycon") or PARSED.get(page.name) == language:
            continue  # test_commands.py, doctest
        if mark == "<!-- another library -->\n":
            assert language in ("python", "java")
            if language == "python":
                compile(body, page.name, "exec")
            continue
        tests = [test for (name, start), test in ELSEWHERE.items() if name == page.name and body.startswith(start)]
        assert tests, f"{page.name}: nothing runs {body.splitlines()[0]!r}"
        assert (ROOT / tests[0].partition("::")[0]).exists()


def block(page, start):
    text = (ROOT / "docs" / "guide" / page).read_text("utf-8")
    return next(body for _, _, body in FENCE.findall(text) if body.startswith(start))


CLINIC = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
time_floor = 0
[budget]
epsilon = 3
delta = "1e-6"
everyone = "all"
[tables.visits]
source = "python"
unit = "row"
columns.region = { type = "text", values = ["north", "south"], nullable = false }
columns.age = { type = "integer", lower = 0, upper = 99, nullable = false }
columns.readmitted = { type = "boolean", nullable = false }
"""


@pytest.fixture
def clinic(tmp_path, monkeypatch):
    rows = 20_000
    table = pa.table(
        {
            "region": [["north", "south"][i % 2] for i in range(rows)],
            "age": [i % 90 for i in range(rows)],
            "readmitted": [i % 90 > 50 for i in range(rows)],
        }
    )
    policy = tmp_path / "hospital.toml"
    policy.write_text(CLINIC)
    with discreet.open(policy, tables={"visits": table}, analyst="ann") as data:
        yield data, table


def test_the_clients_block_runs(clinic, monkeypatch):
    asked = []
    monkeypatch.setattr(discreet, "connect", lambda url, token: asked.append((url, token)) or clinic[0])
    names = {}
    exec(block("client.md", "import discreet"), names)
    assert asked
    assert names["answer"].column("region") == ["north", "south"]


@pytest.mark.slow
def test_the_learning_block_runs(clinic, monkeypatch):
    data, table = clinic
    monkeypatch.setattr(discreet, "open", lambda name: data)
    names = {"table": table}
    exec(block("learning.md", "import discreet"), names)
    assert names["model"].receipt.epsilon == 1


def test_the_policy_of_another_engine_parses():
    budget, columns = '[budget]\nepsilon = 1\neveryone = "all"\n', 'columns.patient = { type = "integer" }\n'
    assert parse_policy(budget + block("engines.md", "[dataset]") + columns).catalog.name == "clinic"


# The README's figures


def measured(name, case, who, measure="cpu_s"):
    rows = json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text("utf-8"))["rows"]
    (row,) = [row for row in rows if row["case"] == case and row["who"] == who]
    return row[measure]["median"]


REGIONS, DRAWS = "four numbers a region, a million rows", "a million Laplace draws, scale 1"
EPOCH = "60 → 1000 → 10, lot 600, one epoch"
FIGURES = {
    # the row of the table: what its numbers are, in their order
    "four numbers per region": [
        ("curator", REGIONS, "discreet"),
        ("curator", REGIONS, "SmartNoise SQL"),
        ("curator", REGIONS, "DuckDB, no privacy (limit)"),
    ],
    "error of those counts": [
        ("curator", REGIONS, "discreet, bounds chosen privately", "error of n %"),
        ("curator", REGIONS, "PipelineDP, local", "error of n %"),
    ],
    "a million exact Laplace draws": [
        ("noise", DRAWS, "discreet"),
        ("noise", DRAWS, "OpenDP"),
        ("noise", DRAWS, "NumPy (limit)"),
    ],
    "one epoch of DP-SGD": [
        ("learning", EPOCH, "discreet"),
        ("learning", EPOCH, "Opacus ghost"),
        ("learning", EPOCH, "discreet plain SGD"),
    ],
}


@pytest.mark.parametrize("start", FIGURES)
def test_the_table_of_peers_is_what_was_measured(start):
    (line,) = [line for line in README.splitlines() if line.startswith(f"| {start}")]
    shown = re.findall(r"([\d.]+) (?:s|%)", line.partition("|")[2].partition("|")[2])
    assert len(shown) == len(FIGURES[start])
    for text, place in zip(shown, FIGURES[start], strict=True):
        digits = len(text.replace(".", "").lstrip("0"))
        assert float(f"{measured(*place):.{digits}g}") == float(text), place


def test_the_best_peer_is_the_one_that_is_named():
    opendp, smartnoise = (measured("curator", REGIONS, who) for who in ("OpenDP, Polars context", "SmartNoise SQL"))
    assert smartnoise < opendp
    assert smartnoise < measured("curator", REGIONS, "PipelineDP, local")


def test_the_first_answer_is_near_the_truth_of_its_own_script():
    """A real run: its intervals would have to be wrong for it to be further off than three of their widths."""
    city = [["Oslo", "Rome", "Graz"][i % 7 % 3] for i in range(10_000)]
    ages = [18 + i * 7 % 70 for i in range(10_000)]
    rows = pictures().ROW.findall(README)
    assert [row[0] for row in rows] == ["Oslo", "Rome", "Graz"]
    for name, count, width, age, half, low, high in rows:
        truth = [a for a, c in zip(ages, city, strict=True) if c == name]
        assert abs(int(count) - len(truth)) <= 3 * int(width)
        reach = float(half) if half else float(high) - float(low)
        assert abs(float(age) - sum(truth) / len(truth)) <= 3 * reach


def test_the_readme_leaves_nothing_out():
    assert "..." not in README
    assert len(README.splitlines()) <= 100


# Pictures


def pictures():
    spec = importlib.util.spec_from_file_location("site_pictures", ROOT / "docs" / "site" / "pictures.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_pictures_are_as_they_are_drawn_and_stand_on_a_page():
    pages = README + "".join(page.read_text("utf-8") for page in SITE)
    for picture in pictures().PICTURES:
        file = ROOT / "docs" / "site" / f"{picture.__name__}.svg"
        assert file.read_text("utf-8") == picture(), "run docs/site/pictures.py"
        assert f"site/{file.name}" in pages


def test_every_page_is_in_the_contents():
    named = (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in SITE:
        assert f": {page.relative_to(ROOT / 'docs')}" in named, page


IN_PARENT = {"discreet.attacks.audit", "discreet.attacks.membership", "discreet.learning.classical"}


def test_the_reference_has_every_package_with_public_names():
    source = ROOT / "src"
    packages = {
        ".".join(path.parent.relative_to(source).parts)
        for path in source.rglob("__init__.py")
        if re.search(r"^__all__", path.read_text("utf-8"), re.MULTILINE)
    }
    text = (ROOT / "docs" / "site" / "reference.py").read_text("utf-8")
    assert packages - IN_PARENT <= set(re.findall(r'"(discreet[\w.]*)",', text))


# The site, opened as a file


def test_search_works_in_a_site_that_is_opened_as_a_file(browser, tmp_path):
    """Browsers start no worker there, so the site has its own stand-in, with messages and scripts as a worker has them."""
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert "- site/iframe-worker.js" in config
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "first.js").write_text("var first = 40;")
    (tmp_path / "assets" / "second.js").write_text("var second = first + 1;")
    (tmp_path / "assets" / "worker.js").write_text(
        "addEventListener('message', async (event) => {"
        " await importScripts('assets/first.js', 'assets/second.js'); postMessage(second + event.data); });"
    )
    shutil.copy(ROOT / "docs" / "site" / "iframe-worker.js", tmp_path)
    (tmp_path / "page.html").write_text(
        "<!doctype html><script src='iframe-worker.js'></script><body><script>"
        "const worker = new Worker('assets/worker.js'), answers = []; globalThis.discreet = answers;"
        "worker.addEventListener('message', (event) => answers.push(event.data)); worker.postMessage(1);"
        "</script>"
    )
    browser.open((tmp_path / "page.html").as_uri())
    browser.wait("answers.length > 0")
    assert browser.run("answers") == [42]
    assert not browser.complaints()
