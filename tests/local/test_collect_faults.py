"""Hostile lines, files and disks: rejected and counted, nothing crashes, nothing is lost."""

import io
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter
from discreet.local.collection.collector import Collection, lines_of, parts, sift
from discreet.local.collection.duckdb_store import Counts
from discreet.local.collection.survey import MOST_LINE, PLACES, Report, Survey
from discreet.local.places.areas import Area

FIELDS = {"name": "food", "version": 1, "question": "What?", "domain": list("abcde"), "randomizer": "k-rr", "times": 1}
ASKED = Survey(**FIELDS, epsilon=1)
WIDE = Survey(**FIELDS | {"randomizer": "subset", "domain": [f"{n}" for n in range(100)]}, epsilon=1)
CITY = Survey(
    **FIELDS | {"randomizer": PLACES, "domain": Area.around(10, 179.99, width=4, height=4, cell=1)}, epsilon="1 per km"
)


def sent(first, count):
    return [Report(ASKED.digest, 1, n % 5, f"{n:032x}").line for n in range(first, first + count)]


@pytest.fixture
def store(tmp_path):
    return Collection(tmp_path / "reports.duckdb", patience=0.3)


# Lines


def everything_counted(asked, lines):
    batch = sift(asked, lines)
    texts = [line.decode(errors="replace") if isinstance(line, bytes) else line for line in lines]
    given_lines = [text for text in texts if not isinstance(text, str) or text.strip()]
    assert len(batch.ids) + batch.dropped.rejected == len(given_lines)
    assert asked.randomizes().valid(batch.reports).all() or not batch.ids
    return batch


GOOD = json.loads(sent(0, 1)[0])
HOSTILE = [
    "[" * 200_000,
    '{"a":' * 100_000,
    "{" + '"survey":"x",' * 1000 + "}",
    json.dumps(GOOD | {"report": 10**4000}),
    sent(0, 1)[0].replace('"report":0', '"report":' + "9" * 5000),
    sent(0, 1)[0].replace('"report":0', '"report":NaN'),
    sent(0, 1)[0].replace('"report":0', '"report":Infinity'),
    sent(0, 1)[0].replace('"report":0', '"report":1e400'),
    sent(0, 1)[0].replace('"report":0', '"report":0.0'),
    sent(0, 1)[0].replace('"report":0', '"report":true'),
    sent(0, 1)[0].replace('"report":0', '"report":null'),
    sent(0, 1)[0].replace('"report":0', '"report":"0"'),
    sent(0, 1)[0].replace('"report":0', '"report":{}'),
    sent(0, 1)[0].replace('"report":0', '"report":[[0]]'),
    sent(0, 1)[0].replace('"report":0', '"report":0,"report":1'),
    sent(0, 1)[0].replace('"report":0', '"report":٣'),
    sent(0, 1)[0].replace('"version":1', '"version":"1"'),
    sent(0, 1)[0].replace('"version":1', '"version":1.0'),
    json.dumps(GOOD | {"id": "é" * 32}),
    json.dumps(GOOD | {"id": "A" * 32}),
    json.dumps(GOOD | {"id": ["0" * 32]}),
    json.dumps(GOOD | {"id": "0" * 31 + "\n"}),
    json.dumps(GOOD | {"survey": None}),
    json.dumps(GOOD | {"survey": ASKED.digest + "\x00"}),
    json.dumps(GOOD | {"more": 1}),
    sent(0, 1)[0] + sent(1, 1)[0],
    sent(0, 1)[0].encode("utf-16"),
    b"\x00" * 100,
    "\ud800" + sent(0, 1)[0],
    '"\\ud800"',
    object(),
    {},
    float("nan"),
    GOOD,
]


@pytest.mark.parametrize("asked", [ASKED, WIDE, CITY], ids=lambda asked: asked.randomizer)
def test_hostile_lines_are_counted(asked):
    batch = everything_counted(asked, HOSTILE)
    assert batch.ids == []


@settings(max_examples=300)
@given(
    st.lists(st.one_of(st.text(), st.binary(), st.none(), st.integers(), st.from_regex(r'\{"survey":.*\}')), max_size=5)
)
def test_any_lines_are_counted(lines):
    everything_counted(ASKED, lines)


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from(["survey", "version", "report", "id", "x"]),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
                      st.sampled_from([ASKED.digest, WIDE.digest, "0" * 32])),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
            max_leaves=4,
        ),
    )
)  # fmt: skip
def test_any_json_is_counted(document):
    for asked in (ASKED, WIDE):
        everything_counted(asked, [json.dumps(GOOD | document), json.dumps(document)])


def test_the_mark_that_some_editors_write_costs_no_report():
    text = "\ufeff" + "\r\n".join(sent(0, 3)) + "\r\n"
    assert sift(ASKED, lines_of(io.BytesIO(text.encode()))).dropped == Counts()
    assert len(sift(ASKED, lines_of(io.BytesIO(text.encode()))).ids) == 3


def test_a_truncated_file_loses_its_last_line_alone():
    text = "\n".join(sent(0, 10))
    for cut in range(1, 90, 11):
        batch = sift(ASKED, lines_of(io.BytesIO(text[:-cut].encode())))
        assert (len(batch.ids), batch.dropped) == (9, Counts(malformed=1))


def test_a_gigantic_line_needs_little_memory():
    """200 MB without an end of line, then reports."""

    class Endless(io.RawIOBase):
        left = [b"[" * (1 << 20)] * 200 + [b"\n" + "\n".join(sent(0, 3)).encode()]

        def readable(self):
            return True

        def readinto(self, buffer):
            if not self.left:
                return 0
            piece, rest = self.left[0][: len(buffer)], self.left[0][len(buffer) :]
            self.left = [rest, *self.left[1:]] if rest else self.left[1:]
            buffer[: len(piece)] = piece
            return len(piece)

    tracemalloc.start()
    batch = sift(ASKED, lines_of(io.BufferedReader(Endless())))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(batch.ids), batch.dropped) == (3, Counts(malformed=1))
    assert peak < 30_000_000


@pytest.mark.parametrize(
    "length", [MOST_LINE - 1, MOST_LINE, MOST_LINE + 1, MOST_LINE + 2, MOST_LINE + (1 << 20), 3 * MOST_LINE]
)
@pytest.mark.parametrize("end", [b"\n", b""])
def test_lines_of_every_length_are_one_line(length, end):
    file = io.BytesIO(b"x" * length + end + (b"last" if end else b""))
    assert len(list(lines_of(file))) == (2 if end else 1)


def test_long_lines_are_stored_in_smaller_parts():
    assert [len(part) for part in parts(["x" * 1_000_000] * 150)] == [68, 68, 14]


# Places


@pytest.mark.parametrize(
    "place",
    ["nan,0", "10,nan", "inf,0", "10", "10,20,30", "", "north,west", (None, None), (float("nan"), 1), "91,0", "10,1e999",
     b"10,20", ("10", None), {}, 10, "१०,२०;", ([1], [2])],
)  # fmt: skip
def test_places_that_are_none_are_refused_without_repeating_them(place):
    with pytest.raises(InvalidData, match="^answer: ") as error:
        CITY.respond(place)
    assert "nan" not in str(error.value).replace("expected", "")


def test_places_across_the_date_line_and_at_the_poles():
    east, west = CITY.value((10, 179.985)), CITY.value((10, -179.985))
    assert east != west
    assert CITY.value("10, 180") == CITY.value("10, -180") == CITY.value((10, 540 - 360))
    for latitude in (90, -90):
        polar = Survey(
            **FIELDS | {"randomizer": PLACES, "domain": Area.around(latitude, 0, width=4, height=4, cell=1)},
            epsilon="1 per km",
        )
        cells = {polar.value((latitude, longitude)) for longitude in (0, 90, 180, -90, 12.5)}
        assert len(cells) <= 4  # the pole lies in a corner that four cells share
        batch = sift(polar, [polar.respond((latitude, 77)).line for _ in range(20)])
        assert len(batch.ids) == 20
    with pytest.raises(InvalidData, match="too far"):
        CITY.respond((-10, 0))


@pytest.mark.parametrize("code", [-1, 2**40, 10**18, "nan"])
def test_cells_that_are_none_are_out_of_the_domain(code, store):
    text = CITY.respond((10, 179.99)).line
    payload = json.loads(text)["report"]
    wrong = text.replace(f'"report":{payload}', f'"report":{code}')
    counts = store.add(CITY, [text, wrong.replace('"id":"', '"id":"0')[:-3] + '"}' if code != "nan" else wrong])
    assert counts.accepted == 1
    assert counts.rejected == 1
    assert store.estimate(CITY, confidence=None, iterations=3).reports == 1


# Files and disks


@pytest.mark.parametrize("name", ["clock.duckdb", "blocks", "corrupt extension", "read-only permission"])
def test_the_name_of_a_file_is_not_taken_for_what_is_wrong(tmp_path, name):
    """Each name holds a word by which DuckDB's complaints are told apart."""
    (tmp_path / name).mkdir()
    store = Collection(tmp_path / name, patience=30)  # which it would wait for, were the file in use
    with pytest.raises(InvalidParameter, match="expected a collection that can be used; DuckDB: "):
        store.add(ASKED, sent(0, 1))
    inside = Collection(tmp_path / name / "reports.duckdb")
    assert inside.add(ASKED, sent(0, 5)).accepted == 5
    assert inside.tally(ASKED).sum() == 5


LIMITED = """
import resource, signal, sys
from discreet.errors import DiscreetError
from discreet.local.collection.collector import Collection
from discreet.local.collection.survey import Survey
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
survey, lines = Survey(**eval(sys.argv[2])), sys.stdin.read().splitlines()
for room in map(int, sys.argv[3:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        print(Collection(f"{sys.argv[1]}/{room}.duckdb").add(survey, lines))
    except DiscreetError as error:
        print(f"{type(error).__name__}: {error}")
"""
ROOMS = [0, 50_000, 200_000, 900_000, 10_000_000]
MORE = sent(500, 12_000)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """Collections of 1,000 reports, by room, and what a process said that added more where no file may grow beyond it."""
    folder = tmp_path_factory.mktemp("crowded")
    stores = {room: Collection(folder / f"{room}.duckdb") for room in ROOMS}
    for store in stores.values():
        store.add(ASKED, sent(0, 1000))
    command = [sys.executable, "-c", LIMITED, str(folder), repr(ASKED.to_json()), *map(str, ROOMS)]
    done = subprocess.run(command, input="\n".join(MORE), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {room: (stores[room], said) for room, said in zip(ROOMS, done.stdout.splitlines(), strict=True)}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("room", ROOMS)
def test_a_full_disk_loses_nothing(crowded, room):
    """No file may grow beyond so many bytes: either all is stored, or nothing and in words; then again with room.

    12,000 reports are some 400,000 bytes of write-ahead log. Where that fits, they are stored, although it cannot be
    moved into the file itself, which is larger.
    """
    store, said = crowded[room]
    assert said.startswith("11500 accepted" if room > 800_000 else "InvalidParameter: store: got "), said
    assert ("disk is full" in said) == (room < 800_000), said
    kept = store.counts(ASKED).accepted
    assert kept == store.tally(ASKED).sum() == (12_500 if "accepted" in said else 1000)
    store.add(ASKED, MORE)
    assert store.counts(ASKED).accepted == store.tally(ASKED).sum() == 12_500


UNPRIVILEGED = """
import os, sys, duckdb, pyarrow
from discreet.errors import DiscreetError
from discreet.local.collection.collector import Collection
from discreet.local.collection.survey import Survey
store, asked, lines = Collection(sys.argv[1], patience=1), Survey(**eval(sys.argv[2])), sys.stdin.read().splitlines()
asked.respond("a")
if os.geteuid() == 0:
    os.seteuid(65534)  # nobody: root may write everything
print(store.tally(asked).sum())
try:
    print(store.add(asked, lines))
except DiscreetError as error:
    print(error)
"""


def test_a_file_that_may_not_be_written_can_be_read():
    with tempfile.TemporaryDirectory() as folder:
        store = Collection(Path(folder) / "reports.duckdb")
        store.add(ASKED, sent(0, 10))
        store.store.path.chmod(0o444)
        Path(folder).chmod(0o555)
        command = [sys.executable, "-c", UNPRIVILEGED, str(store.store.path), repr(ASKED.to_json())]
        done = subprocess.run(command, input="\n".join(sent(10, 5)), capture_output=True, text=True, check=False)
        Path(folder).chmod(0o755)
        assert done.stdout.splitlines()[0] == "10", done.stderr
        assert "expected a file that may be written; its permissions forbid it" in done.stdout
        assert store.tally(ASKED).sum() == 10


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_a_file_that_was_cut_off_is_refused_in_words(store, cut):
    store.add(ASKED, sent(0, 30_000))
    path = store.store.path
    path.write_bytes(path.read_bytes()[: int(cut * os.path.getsize(path))])
    for action in (lambda: store.tally(ASKED), lambda: store.add(ASKED, sent(0, 10))):
        with pytest.raises((InvalidParameter, InvalidData)):
            action()


def test_lines_that_end_in_an_error_keep_the_parts_before(store, monkeypatch):
    from discreet.local.collection import collector as lines

    monkeypatch.setattr(lines, "_PART", 100)

    def broken():
        yield from sent(0, 250)
        raise OSError("the disk with the lines is gone")

    with pytest.raises(OSError, match="gone"):
        store.add(ASKED, broken())
    assert store.counts(ASKED) == Counts(accepted=200)
    assert store.add(ASKED, sent(0, 250)) == Counts(accepted=50, replayed=200)


def test_estimates_of_poisoned_stores_are_estimates(store):
    """Ten thousand lies of one kind: the shares are what they say, no crash, and within the documented bound."""
    honest = [ASKED.respond("abcde"[n % 5]).line for n in range(1000)]
    lies = [Report(ASKED.digest, 1, 4, f"{n:032x}").line for n in range(10_000)]
    store.add(ASKED, honest)
    before = store.estimate(ASKED, confidence="0.9").shares
    store.add(ASKED, lies)
    after = store.estimate(ASKED, confidence="0.9").shares
    assert np.abs(after - before).max() <= 10 / 11 * ASKED.oracle().influence + 1e-9
