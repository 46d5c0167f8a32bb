"""The page's randomizers in Node, without a browser: where their bits come from, and what they draw."""

import json
import re
import shutil
import subprocess
from importlib.resources import files
from math import log, sqrt

import numpy as np
import pytest
from tests.local.test_page import ALPHA, CASES, outputs, row, supporting, surprise, survey

from discreet.local.collection.survey import PLACES
from discreet.local.collection.survey_page import page
from discreet.local.places.areas import Area
from discreet.local.places.planar import PlanarReport

REPORTS = 12_000
PREPARED = """
let asked = 0;
const bits = globalThis.crypto.getRandomValues.bind(globalThis.crypto);
Object.defineProperty(globalThis, "crypto", {value: {getRandomValues: (to) => { asked += to.length; return bits(to); }}});
Math.random = () => { throw new Error("Math.random is not for privacy"); };
globalThis.document = {getElementById: () => ({textContent: DATA})};
"""
DRAWN = """
const drawn = Array.from({length: REPORTS}, () => { const r = ORACLE.randomize(VALUE);
  return Array.isArray(r) ? r.map(String) : r; });
console.log(JSON.stringify({drawn, asked}));
"""


def run_in_node(asked, value, reports):
    """Reports of one value by the scripts of the page, and how many random bytes they asked for."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE: the scripts of the page are tested in a browser only")
    document = re.search(r'<script[^>]* id="survey"[^>]*>(.*?)</script>', page(asked), re.DOTALL)
    kind = json.loads(document[1])["channel"]["kind"]
    folder = files("discreet.local.collection").joinpath("browser")
    scripts = [folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in ("chances", "answers", "places")]
    drawn = DRAWN.replace("REPORTS", str(reports)).replace("ORACLE", kind).replace("VALUE", str(value))
    text = "\n".join([PREPARED.replace("DATA", json.dumps(document[1])), *scripts, drawn])
    done = subprocess.run([node, "-"], input=text, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    codes = [[int(word) for word in one] if isinstance(one, list) else one for one in found["drawn"]]
    return np.array(codes, np.int64), found["asked"]


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(("randomizer", "labels", "epsilon"), CASES)
def test_scripts_draw_from_the_channel_of_python(randomizer, labels, epsilon):
    """As in the browser: Pearson on all outputs, and Hoeffding on how often a report speaks for the answer."""
    asked = survey(randomizer, labels, epsilon)
    oracle, value = asked.oracle(), labels - 1
    reports, asked_for = run_in_node(asked, value, REPORTS)
    assert asked_for >= REPORTS
    assert oracle.valid(reports).all()
    found = np.bincount(outputs(oracle, reports), minlength=len(oracle.channel().outputs))
    assert surprise(found, row(oracle, value)) > ALPHA / 1000
    allowed = sqrt(log(2 * len(CASES) / ALPHA) / (2 * REPORTS))
    assert abs(supporting(oracle, reports, value).mean() - float(oracle.truth)) <= allowed


def test_scripts_move_places_as_python_does():
    asked = survey(PLACES, domain=Area.plane(width=3, height=2, cell=1), epsilon="1 per km")
    randomizer = asked.planar()
    reports, asked_for = run_in_node(asked, 4, REPORTS)
    assert asked_for >= REPORTS
    found = np.bincount(reports, minlength=randomizer.codes)
    right, wrong = (
        np.asarray(PlanarReport(asked.area, epsilon=epsilon, margin=randomizer.margin).channel().matrix[4], np.float64)
        for epsilon in ("1", "1.3")
    )
    assert surprise(found, right) > ALPHA / 1000
    assert surprise(found, wrong) < ALPHA / 1000


def test_the_only_source_of_chance_is_cryptographic():
    folder = files("discreet.local.collection").joinpath("browser")
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    assert not [name for name, text in texts.items() if re.search(r"Math\s*(\.|\[)\s*['\"]?random", text)]
    assert texts["chances.js"].count("crypto.getRandomValues(bytes)") == 1
