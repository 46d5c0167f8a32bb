"""The page against the Python randomizers, in a real browser: Chromium, driven over a pipe (DevTools protocol)."""

import http.server
import json
import re
import threading
import time
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.local.collection.collector import Collection
from discreet.local.collection.survey import Report, Survey
from discreet.local.collection.survey_page import channel_of, cost_words, how_words, page
from discreet.local.oracles.hashing import BinaryHashing, OptimizedHashing
from discreet.local.oracles.responses import HadamardResponse
from discreet.local.oracles.sets import OptimizedUnary, SubsetSelection, SymmetricUnary
from discreet.local.places.areas import Area
from discreet.local.places.planar import PlanarReport

ALPHA = 1e-6
REPORTS = 20_000
LISTED = ["k-rr", "hadamard", "optimized hashing", "subset", "optimized unary", "symmetric unary"]


def survey(randomizer="k-rr", labels=5, epsilon=1, **changed):
    fields = {"name": "food", "version": 3, "question": "What did you <eat> & drink?", "times": 2}
    fields |= {"domain": [f'<b>dish</b> {n} & "co"' for n in range(labels)]}
    return Survey(**fields | {"randomizer": randomizer, "epsilon": epsilon} | changed)


@pytest.fixture
def opened(browser, tmp_path):
    """Open the page of a survey from a file."""

    def open_(asked, **options):
        path = tmp_path / "page.html"
        path.write_text(page(asked, **options), encoding="utf-8")
        browser.open(path.as_uri())
        return browser

    return open_


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes reports from pages; what came stands in `server.bodies`."""

    def do_POST(self):
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.heads.append(dict(self.headers))
        self.send_response(self.server.status)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def collector():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.bodies, server.heads, server.status = [], [], 200
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}/reports"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# The channel of the browser is that of Python


def drawn(browser, value, count):
    """Reports of one value, as the page's own script makes them."""
    reports = browser.run(
        f"Array.from({{length: {count}}}, () => {{ const r = discreet.randomize({value});"
        " return Array.isArray(r) ? r.map(String).join(' ') : r; })"
    )
    if isinstance(reports[0], str):
        return np.array([[int(word) for word in report.split()] for report in reports], np.int64)
    return np.array(reports, np.int64)


def outputs(oracle, reports):
    """The number of each report among the outputs of the channel."""
    channel = oracle.channel()
    if reports.ndim == 1:
        return reports
    names = {output: place for place, output in enumerate(channel.outputs)}
    if isinstance(channel.outputs[0], tuple):  # subsets
        return np.array(
            [names[tuple(v for v in range(oracle.size) if word >> v & 1)] for word in reports[:, 0].tolist()]
        )
    return reports[:, 0]


def surprise(counts, chances):
    """The p-value of Pearson's test, neighbors in the order of probability merged until 20 are expected."""
    expected = counts.sum() * chances
    order = np.argsort(expected, kind="stable")
    starts, total = [0], 0.0
    for place, size in enumerate(expected[order]):
        if total >= 20:
            starts.append(place)
            total = 0.0
        total += size
    merged = [np.add.reduceat(values[order], starts) for values in (counts, expected)]
    return stats.chisquare(merged[0], merged[1] * counts.sum() / merged[1].sum()).pvalue


def row(oracle, value):
    return np.array([float(p) for p in oracle.channel().matrix[value]])


def supporting(oracle, reports, value):
    """Which reports speak for a value."""
    if reports.ndim > 1:
        return (reports[:, value >> 6] >> (value & 63) & 1).astype(bool)
    chances = row(oracle, value)
    return chances[reports] == chances.max()


def truth_and_other(oracle, factor):
    """P(a report supports the value), P(it supports another) with an ε that is wrong by a factor, all else the same."""
    growth = np.exp(float(oracle.epsilon) * factor)
    match oracle:
        case OptimizedUnary():
            return 0.5, 1 / (1 + growth)
        case SymmetricUnary():
            return np.sqrt(growth) / (1 + np.sqrt(growth)), 1 / (1 + np.sqrt(growth))
        case SubsetSelection():
            truth = oracle.chosen * growth / (oracle.chosen * growth + oracle.size - oracle.chosen)
            return truth, (oracle.chosen - truth) / (oracle.size - 1)
        case HadamardResponse():
            return growth / (growth + 2 * oracle.blocks - 1), None
        case _:
            values = getattr(oracle, "hashes", oracle.size)
            return growth / (growth + values - 1), None


CASES = [
    ("k-rr", 5, 1),
    ("k-rr", 2, "ln 3"),
    ("hadamard", 6, 1),
    ("hadamard", 6, 3),  # several blocks
    ("optimized hashing", 6, "0.8"),  # GF(3)
    ("optimized hashing", 6, 1),  # GF(4)
    ("optimized hashing", 9, "1.4"),
    ("optimized hashing", 12, 2),
    ("subset", 7, 1),
    ("subset", 6, "0.8"),
    ("optimized unary", 5, 1),
    ("symmetric unary", 5, 2),
]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("randomizer", "labels", "epsilon"), CASES)
def test_the_browser_draws_from_the_channel_of_python(opened, randomizer, labels, epsilon):
    """Every single output by Pearson's test, and, with proven power, how often a report speaks for an answer.

    Hoeffding: the frequency of an event among n reports is further than b from its probability with probability at
    most 2·exp(−2nb²) = ALPHA/many. A wrong ε whose probability is more than 2b away is accepted no more often.
    Pearson's p-value is exact only in the limit, so it must be a thousand times smaller to refuse.
    """
    asked = survey(randomizer, labels, epsilon)
    oracle = asked.oracle()
    browser = opened(asked)
    many = 4 * len(CASES)
    allowed = np.sqrt(np.log(2 * many / ALPHA) / (2 * REPORTS))
    for value in (0, labels - 1):
        reports = drawn(browser, value, REPORTS)
        assert oracle.valid(reports).all()
        found = np.bincount(outputs(oracle, reports), minlength=len(oracle.channel().outputs))
        p = surprise(found, row(oracle, value))
        assert p > ALPHA / 1000, f"{randomizer}, {value}: n = {REPORTS}, p = {p}"
        seen = [supporting(oracle, reports, value).mean(), supporting(oracle, reports, (value + 1) % labels).mean()]
        pairs = [
            (observed, *chances)
            for observed, *chances in zip(seen, *(truth_and_other(oracle, f) for f in (1, 0.7, 1.3)), strict=True)
            if chances[0] is not None
        ]
        for observed, right, *_ in pairs:
            assert abs(observed - right) <= allowed, f"{randomizer}: n = {REPORTS}, {observed}, expected {right}"
        for place in (2, 3):
            told_apart = [pair for pair in pairs if abs(pair[place] - pair[1]) > 2 * allowed]
            assert told_apart, f"{randomizer}: {REPORTS} are too few to tell a wrong ε"
            assert all(abs(pair[0] - pair[place]) > allowed for pair in told_apart)


@pytest.mark.parametrize("hashes", [2, 3, 4, 5, 8, 16, 31, 256])
def test_hash_functions_are_the_same_in_every_field(opened, hashes):
    size = 20
    oracle = OptimizedHashing(epsilon="20", size=size, hashes=hashes)  # so that the hash is told nearly always
    text = page(survey("optimized hashing", size)).replace(
        json.dumps(channel_of(survey("optimized hashing", size).oracle())), json.dumps(channel_of(oracle))
    )
    assert f'"hashes": {hashes}' in text
    browser = opened(survey())
    path = Path(browser.run("location.pathname"))
    path.write_text(text, encoding="utf-8")
    browser.open(path.as_uri())
    for value in (0, 7, size - 1):
        reports = drawn(browser, value, 400)
        function, told = np.divmod(reports, hashes)
        assert np.mean(oracle.hash(function, value) == told) > 0.98
        assert np.unique(function).size > min(oracle.functions, 300) / 2


def test_wide_domains_use_all_their_words(opened):
    """200 answers: four words of bits, the last one with 8; every bit beyond 53 and every sign comes through."""
    for randomizer in ("optimized unary", "subset"):
        asked = survey(randomizer, 200)
        oracle = asked.oracle()
        reports = drawn(opened(asked), 199, 2000)
        assert oracle.valid(reports).all()
        counts = oracle.tally(reports)
        chances = np.full(200, float(oracle.other))
        chances[199] = float(oracle.truth)
        allowed = np.sqrt(np.log(2 * 200 / ALPHA) / (2 * 2000))  # Hoeffding, for all 200 together
        assert np.abs(counts / 2000 - chances).max() < allowed


# What a respondent sees and does


def randomize(browser):
    browser.click("randomize")
    browser.wait("document.getElementById('report').checkVisibility()")


def choose(browser, value):
    browser.run(f"document.querySelectorAll('[name=answer]')[{value}].click()")


def test_a_respondent_sees_what_is_sent_and_sends_it(opened):
    asked = survey(times=1)
    with collector() as (server, address):
        browser = opened(asked, endpoint=address)
        assert browser.text("question") == asked.question
        assert browser.text("cost").replace("\N{NO-BREAK SPACE}%", " %") == cost_words(asked)
        assert browser.text("how").replace("\N{NO-BREAK SPACE}%", " %") == how_words(asked)
        assert browser.run("document.getElementById('randomize').disabled")
        assert not browser.visible("report")
        choose(browser, 2)
        randomize(browser)
        line = browser.text("line")
        report = Report.parse(line)
        assert report.line == line
        assert (report.survey, report.version) == (asked.digest, asked.version)
        assert asked.oracle().valid([report.report]).all()
        assert asked.labels[report.report] in browser.text("meaning")
        assert browser.run("document.querySelector('[name=answer]:checked')") is None
        assert server.bodies == []
        browser.click("send")
        browser.wait("document.getElementById('said').textContent.startsWith('Sent')")
        assert server.bodies == [line.encode() + b"\n"]
        assert not {"Cookie", "Referer"} & set(server.heads[0])
        assert line in browser.text("sent")
        assert not browser.visible("form")  # once is enough
        assert browser.complaints() == []


def test_opting_out_sends_nothing_and_keeps_nothing(opened):
    with collector() as (server, address):
        browser = opened(survey(version=11), endpoint=address)
        choose(browser, 1)
        browser.click("decline")
        assert "Nothing was sent" in browser.text("said")
        assert browser.run("document.querySelector('[name=answer]:checked')") is None
        assert browser.run("Object.keys(localStorage).filter((k) => k.includes('/11/')).length") == 0
        time.sleep(0.3)
        assert server.bodies == []


def test_nobody_draws_until_they_like_the_outcome(opened):
    """A report that was drawn and not sent is offered again after a reload; the answer is nowhere."""
    browser = opened(survey(version=12))
    choose(browser, 3)
    randomize(browser)
    line = browser.text("line")
    browser.click("withdraw")
    assert "Nothing was sent" in browser.text("said")
    browser.open(browser.run("location.href"))
    browser.wait("document.getElementById('report').checkVisibility()")  # what is stored may reach the new page late
    assert browser.text("line") == line
    assert not browser.visible("form")
    kept = json.loads(browser.run(f"localStorage.getItem('discreet:{survey(version=12).digest}')"))
    assert set(kept) == {"sent", "waiting"}
    assert set(kept["waiting"]) == {"line", "fitting"}


def test_a_collector_that_fails_gets_the_same_report_again(opened):
    with collector() as (server, address):
        server.status = 500
        browser = opened(survey(version=13), endpoint=address)
        choose(browser, 0)
        randomize(browser)
        browser.click("send")
        browser.wait("document.getElementById('said').textContent.includes('not known')")
        server.status = 200
        browser.click("send")
        browser.wait("document.getElementById('said').textContent.startsWith('Sent')")
        assert len(server.bodies) == 2
        assert server.bodies[0] == server.bodies[1]
        assert browser.visible("form")  # twice is allowed


def test_many_answers_are_a_list_to_choose_from(opened):
    browser = opened(survey("hadamard", 500, version=14))
    browser.run(
        "const s = document.querySelector('select'); s.value = '499'; s.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    randomize(browser)
    report = Report.parse(browser.text("line"))
    assert survey("hadamard", 500, version=14).oracle().valid([report.report]).all()
    assert "more" in browser.text("meaning")


def test_the_policy_of_the_page_forbids_everything_else(opened):
    browser = opened(survey())
    assert browser.run("fetch('http://127.0.0.1:9/x').then(() => 'sent', () => 'refused')") == "refused"
    assert any("Content Security Policy" in json.dumps(event) for event in browser.complaints())
    browser.events.clear()
    browser.run(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.evil = 1'}))"
    )
    assert browser.run("window.evil") is None


# Copy and save, as a respondent does it: by real clicks


def press(browser, name):
    """A click of the mouse where the button is, which counts as a deed of the user."""
    browser.run(f"document.getElementById('{name}').scrollIntoView()")
    box = browser.run(f"JSON.parse(JSON.stringify(document.getElementById('{name}').getBoundingClientRect()))")
    where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "button": "left", "clickCount": 1}
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, **where)


def permit(browser, setting):
    for name in ("clipboard-write", "clipboard-read"):
        browser.call("Browser.setPermission", permission={"name": name}, setting=setting)


def given_out(browser, asked):
    return json.loads(browser.run(f"localStorage.getItem('discreet:{asked.digest}')"))


def test_copy_puts_the_line_on_the_clipboard(opened):
    asked = survey(version=21)
    browser = opened(asked)
    permit(browser, "granted")
    choose(browser, 2)
    randomize(browser)
    line = browser.text("line")
    press(browser, "copy")
    browser.wait("document.getElementById('said').textContent.startsWith('Copied')")
    assert browser.run("navigator.clipboard.readText()") == line
    assert Report.parse(line).survey == asked.digest
    assert [one["line"] for one in given_out(browser, asked)["sent"]] == [line]
    assert given_out(browser, asked)["waiting"] is None
    assert line in browser.text("sent")
    assert browser.complaints() == []


def test_a_browser_that_does_not_copy_marks_the_line(opened):
    asked = survey(version=22)
    browser = opened(asked)
    permit(browser, "denied")
    choose(browser, 2)
    randomize(browser)
    line = browser.text("line")
    press(browser, "copy")
    browser.wait("document.getElementById('said').textContent.includes('copy it by hand')")
    assert browser.run("getSelection().toString().trim()") == line
    assert given_out(browser, asked)["sent"] == []  # it was not given out: it still waits
    permit(browser, "granted")
    press(browser, "copy")
    browser.wait("document.getElementById('said').textContent.startsWith('Copied')")


def test_save_writes_a_file_that_can_be_collected(opened, tmp_path):
    asked = survey(version=23)
    browser = opened(asked)
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    choose(browser, 1)
    randomize(browser)
    line = browser.text("line")
    press(browser, "save")
    browser.wait("document.getElementById('said').textContent.startsWith('Saved')")
    path, end = tmp_path / "food-report.jsonl", time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < end, sorted(tmp_path.iterdir())
        time.sleep(0.05)
    assert path.read_text() == line + "\n"
    store = Collection(tmp_path / "store.duckdb")
    with path.open("rb") as file:
        assert store.add(asked, file).accepted == 1
    assert browser.visible("form")  # twice is allowed
    assert browser.complaints() == []


def test_two_tabs_do_not_answer_twice(opened):
    """Another tab answers while this one is open: what is kept changes behind this page's back."""
    asked = survey(version=24, times=1)
    browser = opened(asked)
    choose(browser, 2)
    other = {"sent": [{"line": "a report of the other tab", "when": "2026-11-16"}], "waiting": None}
    browser.run(f"localStorage.setItem('discreet:{asked.digest}', {json.dumps(json.dumps(other))})")
    browser.click("randomize")
    browser.wait("document.getElementById('said').textContent.includes('another tab')")
    assert not browser.visible("report")
    assert given_out(browser, asked) == other


def test_a_report_that_another_tab_gave_out_is_not_given_out_twice(opened):
    asked = survey(version=25, times=1)
    with collector() as (server, address):
        browser = opened(asked, endpoint=address)
        choose(browser, 2)
        randomize(browser)
        kept = given_out(browser, asked)
        other = {"sent": [{"line": kept["waiting"]["line"], "when": "2026-11-16"}], "waiting": None}
        browser.run(f"localStorage.setItem('discreet:{asked.digest}', {json.dumps(json.dumps(other))})")
        browser.click("send")
        browser.wait("document.getElementById('said').textContent.includes('already given out')")
        assert server.bodies == []
        assert given_out(browser, asked) == other


# Places


def places(area, epsilon="1 per km", **changed):
    return survey("planar laplace", epsilon=epsilon, domain=area, **changed)


PLACED = [
    (Area.plane(width=3, height=2, cell=1), "1 per km"),
    (Area.plane(width=4, height=4, cell=1), "ln 2 at 1 km"),
    (Area.plane(width=2, height=2, cell="0.5"), "0.4 per km"),
]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("area", "epsilon"), PLACED)
def test_the_browser_moves_places_as_python_does(opened, area, epsilon):
    """Every code by Pearson's test; and, with proven power (Hoeffding, as above), how often a report is near."""
    asked = places(area, epsilon)
    planar, count = asked.planar(), 15_000
    browser = opened(asked)
    allowed = np.sqrt(np.log(2 * 8 * len(PLACED) / ALPHA) / (2 * count))
    for value in (0, area.size - 1):
        reports = drawn(browser, value, count)
        assert planar.valid(reports).all()
        chances = np.array(planar.channel().matrix[value], float)
        p = surprise(np.bincount(reports, minlength=planar.codes), chances)
        assert p > ALPHA / 1000, f"{epsilon}, {value}: n = {count}, p = {p}"
        seen = np.mean(reports == chances.argmax())
        assert abs(seen - chances.max()) <= allowed
        wrong = [
            PlanarReport(area, epsilon=planar.epsilon * factor, margin=planar.margin)
            for factor in (Fraction(7, 10), Fraction(13, 10))
        ]
        far = [np.array(one.channel().matrix[value], float) for one in wrong]
        order = np.argsort(-chances, kind="stable")
        for other in far:  # the cells that are likelier, taken together, tell a wrong ε
            most = order[: 1 + int(np.argmax(np.abs(np.cumsum(chances[order] - other[order]))))]
            right, lie = chances[most].sum(), other[most].sum()
            assert abs(right - lie) > 2 * allowed, f"{count} are too few to tell a wrong ε"
            assert abs(np.isin(reports, most).mean() - right) <= allowed


CENTERS = [(37.7855, -122.4075), (0, 179.99), (-60, -180), (89.99, 10), (-90, 0), (51.5, 0)]


@pytest.mark.parametrize("center", CENTERS)
def test_the_browser_finds_the_cells_that_python_finds(opened, center):
    """Random places in and about the area, across the date line and the poles; and those that are too far."""
    asked = places(Area.around(*center, width=20, height=12, cell="0.7"))
    rng = np.random.default_rng(5)
    points = rng.uniform(-8, 30, (300, 2))
    latitude, longitude = asked.area.unproject(points)
    known = ~np.isnan(latitude)
    given = [(float(a), float(b)) for a, b in zip(latitude[known], longitude[known], strict=True) if abs(a) <= 90]
    expected = [int(asked.area.locate([a], [b], outside="clamp").cells[0]) for a, b in given]
    found = opened(asked).run(f"{json.dumps(given)}.map(([a, b]) => discreet.cell_of(a, b))")
    assert len(given) > 250
    differing = [n for n in range(len(given)) if expected[n] != found[n]]
    near = [abs(asked.area.project(*([x] for x in given[n]))[0] / 0.7 % 1 - 0.5).max() for n in differing]
    assert all(0.5 - close < 1e-6 for close in near)  # on a border of two cells, to a millimeter
    browser = opened(asked)
    for odd in (
        "NaN, 0",
        "0, Infinity",
        "91, 0",
        "0, 181",
        f"{-center[0] if abs(center[0]) > 20 else 60}, {center[1]}",
    ):
        assert browser.run(f"discreet.cell_of({odd})") is None


def test_a_respondent_writes_a_place(opened):
    asked = places(Area.around(37.7855, -122.4075, width=2, height=2, cell="0.1"), "ln 2 at 200 m", version=31, times=1)
    with collector() as (server, address):
        browser = opened(asked, endpoint=address)
        assert browser.text("how").replace("\N{NO-BREAK SPACE}%", " %") == how_words(asked)
        assert browser.text("cost").replace("\N{NO-BREAK SPACE}%", " %") == cost_words(asked)

        def write(first, second):
            browser.run(
                f"for (const [n, text] of [{json.dumps(first)}, {json.dumps(second)}].entries()) {{"
                " const input = document.querySelectorAll('[name=place]')[n]; input.value = text;"
                " input.dispatchEvent(new Event('input', {bubbles: true})); }"
            )
            return not browser.run("document.getElementById('randomize').disabled")

        for wrong in (
            ("", ""),
            ("37.78", ""),
            ("north", "west"),
            ("37,78,1", "-122,4"),
            ("91", "0"),
            ("-37", "122"),
            ("1e1", "2"),
        ):
            assert not write(*wrong), wrong
        assert write("37,78", "-122,4")  # a decimal comma
        assert write(" 37.7838 ", "−122.4090")  # a typographic minus
        randomize(browser)
        report = Report.parse(browser.text("line"))
        assert asked.planar().valid([report.report]).all()
        assert "names a place" in browser.text("meaning") or "further away" in browser.text("meaning")
        kept = browser.run(f"localStorage.getItem('discreet:{asked.digest}')")
        assert "37.78" not in kept
        assert browser.run("[...document.querySelectorAll('[name=place]')].every((input) => input.value === '')")
        browser.click("send")
        browser.wait("document.getElementById('said').textContent.startsWith('Sent')")
        assert server.bodies == [report.line.encode() + b"\n"]
        assert "for each km" in browser.text("spent")
        assert browser.complaints() == []


@pytest.mark.parametrize("center", [(37.7855, -122.4075), (-33.86, 151.2), (69.65, 179.99), None])
def test_a_respondent_points_at_a_map(opened, center):
    """A click writes the place into the fields, a marker shows it, and the cell is the one that was pointed at."""
    size = {"width": 4, "height": 2, "cell": "0.1"}
    area = Area.around(*center, **size) if center else Area.plane(**size)
    browser = opened(places(area, version=34))
    assert browser.visible("map")
    assert browser.run("getComputedStyle(document.getElementById('map')).overflow") == "visible"  # all four borders
    aim = (
        "(() => { const map = document.getElementById('map'), m = map.getScreenCTM();"
        " map.dispatchEvent(new MouseEvent('click', {bubbles: true, clientX: m.e + m.a * 30.5, clientY: m.f + m.d * 4.5}));"
        " return [...document.querySelectorAll('[name=place]')].map((input) => Number(input.value)); })()"
    )
    place = browser.run(aim)
    assert browser.run(f"discreet.cell_of({place[0]}, {place[1]})") == 15 * 40 + 30
    assert not browser.run("document.getElementById('randomize').disabled")
    marker = browser.run("['cx', 'cy', 'visibility'].map((n) => document.querySelector('#map circle').getAttribute(n))")
    assert marker[2] == "visible"
    assert [float(end) for end in marker[:2]] == pytest.approx([30.5, 4.5], abs=0.15)  # a click is at a whole pixel
    browser.click("decline")
    assert browser.run("document.querySelector('#map circle').getAttribute('visibility')") == "hidden"
    assert browser.complaints() == []


def test_buttons_do_not_touch_and_fields_are_dark_in_the_dark(opened):
    browser = opened(places(Area.plane(width=2, height=2, cell=1), version=35))
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    colors = browser.run(
        "[...document.querySelectorAll('input, button')].map((e) => getComputedStyle(e).backgroundColor)"
    )
    assert "rgb(255, 255, 255)" not in colors
    browser.call("Emulation.setDeviceMetricsOverride", width=320, height=640, deviceScaleFactor=1, mobile=True)
    boxes = browser.run(
        "[...document.querySelectorAll('#form button:not([hidden])')].map((e) => e.getBoundingClientRect().toJSON())"
    )
    for first, second in zip(boxes, boxes[1:], strict=False):
        assert second["left"] - first["right"] >= 4 or second["top"] - first["bottom"] >= 4


def test_a_device_that_knows_where_it_is(opened):
    asked = places(Area.around(37.7855, -122.4075, width=2, height=2, cell="0.1"), version=32)
    browser = opened(asked)
    browser.call("Browser.setPermission", permission={"name": "geolocation"}, setting="granted")
    browser.call("Emulation.setGeolocationOverride", latitude=37.7838, longitude=-122.409, accuracy=5)
    assert browser.visible("here")
    browser.click("here")
    browser.wait("document.querySelectorAll('[name=place]')[0].value === '37.783800'")
    randomize(browser)
    assert asked.planar().valid([Report.parse(browser.text("line")).report]).all()
    plain = opened(places(Area.plane(width=2, height=2, cell=1), version=33))
    assert not plain.visible("here")


# Without a browser


@pytest.mark.parametrize("randomizer", LISTED)
def test_pages_are_one_file(randomizer):
    text = page(survey(randomizer), endpoint="https://example.org:8443/in?x=1")
    assert "Math.random" not in text
    assert not re.search(r"""(src|href)\s*=\s*["']""", text)
    assert "%%" not in text
    assert "connect-src https://example.org:8443;" in text
    assert "<b>dish" not in text
    assert "<eat>" not in text


def test_probabilities_are_whole_numbers():
    oracle = survey().oracle()
    top, bottom = map(int, channel_of(oracle)["truth"])
    assert oracle.truth.numerator * bottom == oracle.truth.denominator * top


def test_what_pages_do_not_know_is_refused():
    with pytest.raises(InvalidParameter, match="one that pages know"):
        channel_of(PlanarReport(Area.plane(width=2, height=2, cell=1), epsilon=1, outside="clamp"))
    with pytest.raises(InvalidParameter, match="at most 10,000 on a page"):
        page(survey(labels=10_001))
    with pytest.raises(InvalidParameter, match="one that pages know"):
        channel_of(BinaryHashing(epsilon=1, size=4))


@pytest.mark.parametrize(
    "endpoint",
    ["", "ftp://a.b", "http://example.org", "https://", "https://a b", "https://a/;x", "javascript:alert(1)",
     "https://u:p@host/", "//host", "https://a'b", "https://host:99999999/", 'https://a">', 5],
)  # fmt: skip
def test_endpoints_must_be_https(endpoint):
    with pytest.raises(InvalidParameter, match="^endpoint"):
        page(survey(), endpoint=endpoint)


def test_what_it_costs_is_rounded_against_us():
    assert "ε = 1.099" in cost_words(survey(epsilon="ln 3"))
    assert "at most 3 times" in cost_words(survey(epsilon="ln 3"))
    assert "at most 75 % sure" in cost_words(survey(epsilon="ln 3"))
    assert "at most 2.72 times" in cost_words(survey(epsilon=1))
    assert "73.2 % sure" in cost_words(survey(epsilon=1))
    assert "at most 2 times, which costs at most ε = 2 in all" in cost_words(survey(epsilon=1))
    assert "more than 20,000 times" in cost_words(survey(epsilon=900))
