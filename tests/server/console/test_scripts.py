"""Parts of the scripts without a browser, by Node.js: the SQL that the builder makes, and numbers for people."""

import json
import shutil
import subprocess
from importlib.resources import files

import pytest

FOLDER = files("discreet.server.console").joinpath("assets")
TABLE = {"name": "visits", "unit": "patient_id"}


def run(tmp_path, script):
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE: scripts of the console are not tested without a browser; run make node")
    for name in ("builder.js", "dom.js", "editor.js"):
        (tmp_path / name).write_bytes(FOLDER.joinpath(name).read_bytes())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "main.js").write_text(script)
    done = subprocess.run([node, "main.js"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_names_and_values_of_the_builder_are_quoted(tmp_path):
    column = {"name": 'odd "name"', "type": "text"}
    parts = {"table": TABLE, "measure": "people", "column": None, "groups": [column], "part": "",
             "filters": [{"column": column, "sign": "=", "value": "it's; DROP"}]}  # fmt: skip
    made = run(
        tmp_path, f'import {{ sqlOf }} from "./builder.js"; console.log(JSON.stringify(sqlOf({json.dumps(parts)})));'
    )
    assert made.split("\n") == [
        'SELECT "odd ""name""", COUNT(DISTINCT patient_id) AS people',
        "FROM visits",
        'WHERE "odd ""name""" = \'it\'\'s; DROP\'',
        'GROUP BY "odd ""name"""',
        "ORDER BY 1",
    ]


def test_a_filter_on_numbers_takes_numbers_alone(tmp_path):
    column = {"name": "age", "type": "integer"}
    filters = [{"column": column, "sign": ">=", "value": value} for value in ("30", "1 OR 1", "")]
    parts = {"table": TABLE, "measure": "rows", "column": None, "groups": [], "part": "", "filters": filters}
    made = run(
        tmp_path, f'import {{ sqlOf }} from "./builder.js"; console.log(JSON.stringify(sqlOf({json.dumps(parts)})));'
    )
    assert made == "SELECT COUNT(*) AS number\nFROM visits\nWHERE age >= 30"


def test_a_filter_that_is_not_finished_is_left_out(tmp_path):
    day, smokes = {"name": "day", "type": "date"}, {"name": "smokes", "type": "boolean"}
    typed = [(day, "2023"), (day, "2023-05-01"), (smokes, "may"), (smokes, "true")]
    filters = [{"column": column, "sign": "=", "value": value} for column, value in typed]
    parts = {"table": TABLE, "measure": "rows", "column": None, "groups": [], "part": "", "filters": filters}
    made = run(
        tmp_path, f'import {{ sqlOf }} from "./builder.js"; console.log(JSON.stringify(sqlOf({json.dumps(parts)})));'
    )
    assert made.split("\n")[-1] == "WHERE day = '2023-05-01' AND smokes = true"


def test_numbers_have_thin_spaces(tmp_path):
    script = (
        'import { number } from "./dom.js";'
        "console.log(JSON.stringify([0, 1234567, -1234, 0.12345, 1234.56, 1e-6, null].map(number)));"
    )
    assert run(tmp_path, script) == ["0", "1\u202f234\u202f567", "−1\u202f234", "0.1235", "1\u202f235", "1.00e−6", "–"]


def test_numbers_in_sentences_have_thin_spaces(tmp_path):
    script = (
        'import { thin } from "./dom.js";'
        'console.log(JSON.stringify(["fewer than 1,660 rows, 95 %", "a1,234 and 2020-01-01, 7", "1,2 and 3,45"].map(thin)));'
    )
    found = run(tmp_path, script)
    assert found == ["fewer than 1\u202f660 rows, 95\u202f%", "a1,234 and 2020-01-01, 7", "1,2 and 3,45"]


def test_completion_knows_tables_columns_and_words(tmp_path):
    catalog = {"tables": [{"name": "visits", "columns": [{"name": "region", "words": "region: text"}]}]}
    script = (
        'import { suggestions } from "./editor.js";'
        f"const c = {json.dumps(catalog)};"
        'console.log(JSON.stringify(["SELECT re", "FROM vi", "SEL", "x"].map((t) => '
        "suggestions(t, t.length, c).found.map((one) => one.text))));"
    )
    assert run(tmp_path, script) == [["region"], ["visits"], ["SELECT"], []]
