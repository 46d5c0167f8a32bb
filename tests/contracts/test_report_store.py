"""What every store of reports promises: one suite that all of them run. To add a store, add it to `STORES`."""

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime

import numpy as np
import pytest

from discreet.errors import InvalidData
from discreet.local.collection.collector import Collection, open_store, sift
from discreet.local.collection.duckdb_store import Batch, Counts
from discreet.local.collection.survey import PLACES, Report, Survey
from discreet.local.places.areas import Area
from discreet.noise import DeterministicEntropy

STORES = ("duckdb", "postgres")
LISTED = ["k-rr", "hadamard", "optimized hashing", "subset", "optimized unary", "symmetric unary"]
NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)


def survey(randomizer="k-rr", **changed):
    fields = {"name": "food", "version": 3, "question": "What?", "domain": list("abcde"), "times": 1, "epsilon": 1}
    if randomizer == PLACES:
        fields |= {"domain": Area.plane(width=6, height=6, cell=1), "epsilon": "1 per km"}
    return Survey(**fields | {"randomizer": randomizer} | changed)


def lines(asked, values, seed=1):
    """Reports of many values at once."""
    entropy = DeterministicEntropy(seed)
    reports = asked.randomizes().randomize(values, entropy=entropy)
    ids = entropy.words(2 * len(reports)).tobytes().hex()
    payloads = [tuple(one) if isinstance(one, list) else one for one in reports.tolist()]
    return [Report(asked.digest, asked.version, one, ids[32 * n : 32 * n + 32]).line for n, one in enumerate(payloads)]


@pytest.fixture(params=STORES)
def address(request, tmp_path):
    """Where a store can be that is not there yet."""
    if request.param == "duckdb":
        return str(tmp_path / "reports.duckdb")
    return request.getfixturevalue("postgres").emptied()


@pytest.fixture
def store(address):
    return Collection(address, patience=20)


def meddle(address, statement):
    """Change a store by other means, past what protects it."""
    if address.startswith("postgresql"):
        import psycopg

        with psycopg.connect(address) as connection:
            for table in ("reports", "tallies", "batches"):
                connection.execute(f"ALTER TABLE discreet_collection.{table} DISABLE TRIGGER only_added")
            connection.execute("SET search_path TO discreet_collection")
            connection.execute(statement)
    else:
        import duckdb

        with duckdb.connect(address) as connection:
            connection.execute(statement)


# Counting


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("randomizer", [*LISTED, PLACES])
def test_the_tally_is_that_of_the_randomizer(store, randomizer):
    asked = survey(PLACES) if randomizer == PLACES else survey(randomizer, domain=[f"{n}" for n in range(150)])
    one, values = asked.randomizes(), np.arange(5000) % 30
    sent = lines(asked, values)
    store.add(asked, sent[:1234])
    store.add(asked, iter(sent[1234:]))
    expected = one.tally(one.randomize(values, entropy=DeterministicEntropy(1)))
    assert np.array_equal(store.tally(asked), expected)
    assert store.counts(asked) == Counts(accepted=5000)
    assert store.estimate(asked, confidence=None, iterations=5).reports == 5000


def test_words_of_all_bits_come_through(store):
    """Words are signed: the first, the last, and all bits of every word, of more words than one block holds."""
    asked = survey("symmetric unary", domain=[f"{n}" for n in range(128)])
    corners = [(0, 0), (-1, -1), (-(2**63), 1), (2**63 - 1, -(2**63))]
    sent = [Report(asked.digest, 3, words, f"{n:032x}").line for n, words in enumerate(corners)]
    assert store.add(asked, sent).accepted == 4
    assert np.array_equal(store.tally(asked), asked.oracle().tally(np.array(corners)))


def test_a_tally_of_many_blocks(store, monkeypatch):
    from discreet.local.collection import postgres_store as module

    monkeypatch.setattr(module, "_BLOCK", 1000)
    for asked in (survey("hadamard", domain=[f"{n}" for n in range(500)]), survey("subset")):
        values = np.arange(3000) % 5
        store.add(asked, lines(asked, values, seed=len(asked.digest)))
        assert store.counts(asked).accepted == 3000
        assert store.tally(asked).sum() >= 3000


def test_several_surveys_share_a_store(store):
    one, two, three = survey(), survey("hadamard", name="drinks"), survey("optimized unary", name="third")
    store.add(one, lines(one, [0] * 10))
    store.add(two, lines(two, [1] * 20, seed=2))
    assert store.tally(one).sum() == 10
    assert store.tally(two).sum() == 20
    for none in (three, survey(name="fourth")):
        assert store.counts(none) == Counts()
        assert store.tally(none).sum() == 0
        with pytest.raises(InvalidData, match="none of this survey yet"):
            store.estimate(none, confidence="0.9")


# Lines that are no reports


def test_lines_are_counted_by_what_is_wrong_with_them(store):
    asked, newer, other = survey(), survey(version=4), survey(name="drinks")
    good = lines(asked, [0, 1, 2])
    parsed = json.loads(good[0])
    spaced = json.dumps(dict(reversed((parsed | {"id": "1" * 32}).items())), indent=None)
    given = [
        *good,
        spaced,  # the same fields in another order, with spaces
        "", "\n", b"  ",  # nothing
        "hello", b"\xff\xfe", None, 5, ["x"], good[1][:-1], good[1] + "x", "[" * 100_000,  # 8 malformed
        json.dumps(parsed | {"id": "2" * 32, "report": 1.5}),  # 9
        lines(newer, [0])[0], survey(epsilon=2).respond("a").line, json.dumps(parsed | {"version": 9}),  # 3 other version
        other.respond("a").line,  # 1 other survey
        json.dumps(parsed | {"id": "3" * 32, "report": 5}),  # out of the domain, 5 times
        json.dumps(parsed | {"id": "4" * 32, "report": -1}),
        json.dumps(parsed | {"id": "5" * 32, "report": 2**62}),
        json.dumps(parsed | {"id": "6" * 32, "report": [1]}),
        Report(asked.digest, asked.version, 999, "7" * 32).line,
        good[2], good[2], spaced,  # 3 replayed
        json.dumps(parsed | {"report": (parsed["report"] + 1) % 5}),  # the same id, another report: 4
    ]  # fmt: skip
    counts = store.add(asked, given)
    assert counts == Counts(accepted=4, malformed=9, other_survey=1, other_version=3, out_of_domain=5, replayed=4)
    assert counts.rejected == 22
    assert store.counts(asked) == counts
    assert store.estimate(asked, confidence=None).counts == counts
    assert store.estimate(asked, confidence=None).reports == 4


def test_a_file_that_grew_counts_dropped_lines_once(store):
    """Read again with more lines, the dropped ones of before are replays, and only new ones have their reason."""
    asked, other = survey(), survey(name="other")
    good = [asked.respond(asked.labels[0]).line for _ in range(3)]
    far = asked.respond(asked.labels[0]).line.replace('"report":', '"report":9')
    wrong = ["hello", "hello", other.respond(other.labels[0]).line, far]
    first = store.add(asked, [*good, *wrong])
    assert (first.accepted, first.rejected, first.malformed) == (3, 4, 2)
    again = store.add(asked, [*wrong, *good])
    assert again == Counts(replayed=7)
    grown = store.add(asked, [*good, *wrong, "hello", "what"])
    assert grown == Counts(malformed=2, replayed=7)
    assert store.counts(asked) == first + again + grown
    assert store.add(other, ["hello"]) == Counts(malformed=1)  # each survey has its own


def test_lines_that_are_all_wrong_are_counted_too(store):
    asked = survey()
    assert store.add(asked, ["hello"] * 7) == store.counts(asked) == Counts(malformed=7)
    assert store.add(asked, []) == Counts()


def test_the_first_of_two_reports_with_one_id_is_kept(store):
    asked = survey()
    first = Report(asked.digest, 3, 2, "a" * 32).line
    others = [Report(asked.digest, 3, n, "a" * 32).line for n in (0, 1, 3)]
    assert store.add(asked, [first, *others]) == Counts(accepted=1, replayed=3)
    assert store.add(asked, others) == Counts(replayed=3)
    assert store.tally(asked).tolist() == [0, 0, 1, 0, 0]


# Once


def test_replays_are_found_across_batches_and_openings(store, address):
    asked = survey()
    sent = lines(asked, np.arange(1000) % 5)
    store.add(asked, sent)
    assert Collection(address).add(asked, sent) == Counts(replayed=1000)
    more = lines(asked, np.arange(10) % 5, seed=2)
    assert Collection(address).add(asked, [*sent[:5], *more]) == Counts(accepted=10, replayed=5)
    assert store.tally(asked).sum() == 1010


def test_an_id_is_stored_once_for_all_surveys(store):
    one, two = survey(), survey(name="drinks")
    store.add(one, [Report(one.digest, 3, 1, "a" * 32).line])
    assert store.add(two, [Report(two.digest, 3, 1, "a" * 32).line]) == Counts(replayed=1)


def test_threads_do_not_store_a_report_twice(address):
    asked = survey()
    sent = lines(asked, np.arange(2000) % 5)
    counts, faults = [], []

    def add(part):
        try:
            counts.append(Collection(address, patience=60).add(asked, part))
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=add, args=(part,)) for part in (sent, sent[::-1], sent[1000:], sent)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sum(one.accepted for one in counts) == 2000
    assert Collection(address).tally(asked).sum() == 2000


ADD = """
import sys
from discreet.local.collection.collector import Collection
from discreet.local.collection.collector import lines_of
from discreet.local.collection.survey import Survey
print(Collection(sys.argv[1], patience=60).add(Survey(**eval(sys.argv[2])), lines_of(sys.stdin.buffer)).accepted)
"""


def adding(address, asked, sent, code=ADD):
    with tempfile.TemporaryFile("w+") as file:  # not a pipe: a pipe would be as slow as the process
        file.write("\n".join(sent))
        file.seek(0)
        return subprocess.Popen(
            [sys.executable, "-c", code, address, repr(asked.to_json())],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.mark.quick_cases(1)
def test_processes_do_not_store_a_report_twice(address):
    asked = survey()
    sent = lines(asked, np.arange(3000) % 5)
    processes = [adding(address, asked, part) for part in (sent, sent[::-1])]
    assert sum(int(process.stdout.read()) for process in processes) == 3000
    assert [process.wait() for process in processes] == [0, 0]
    assert Collection(address).counts(asked) == Counts(accepted=3000, replayed=3000)
    for process in processes:
        process.stdout.close()
        process.stderr.close()


# Whole


KILLED = """
import os, sys
from discreet.local.collection import collector as lines
from discreet.local.collection import duckdb_store as stores
lines._PART = 500
counted = stores.Batch.counts
def then_die(self, *given, seen=[]):
    seen.append(1)
    if len(seen) == 3:
        os._exit(9)  # the reports of the third part are inserted, its counts are not, and nothing is committed
    return counted(self, *given)
stores.Batch.counts = then_die
"""


def test_a_kill_leaves_whole_parts(store, address):
    """Killed just before the third part was complete: two parts are there, and adding again adds the rest."""
    asked = survey()
    sent = lines(asked, np.arange(2000) % 5)
    process = adding(address, asked, sent, KILLED + ADD)
    assert process.wait() == 9, process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    assert store.counts(asked).accepted == store.tally(asked).sum() == 1000
    assert store.add(asked, sent) == Counts(accepted=1000, replayed=1000)


TELLING = """
from discreet.local.collection import collector as lines
from discreet.local.collection import collector as collect
lines._PART = 200
def telling(address, patience, open_store=collect.open_store):
    store = open_store(address, patience=patience)
    append = store.append
    store.append = lambda *given: (append(*given), print("stored", flush=True))[0]
    return store
collect.open_store = telling
"""


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(store, address, parts):
    asked = survey()
    sent = lines(asked, np.arange(6000) % 5)
    process = adding(address, asked, sent, TELLING + ADD)
    assert [process.stdout.readline() for _ in range(parts)] == ["stored\n"] * parts
    time.sleep(0.03 * parts)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()
    left = store.add(asked, sent)
    assert left.accepted + left.replayed == 6000
    assert left.replayed % 200 == 0
    assert left.replayed >= 200 * parts
    assert store.counts(asked).accepted == store.tally(asked).sum() == 6000


def test_a_batch_that_fails_is_not_there(address):
    """The counts cannot be stored: then the reports are not either."""
    asked = survey()
    store = open_store(address, patience=5)
    store.append(asked, sift(asked, lines(asked, [1, 2])), NOW)
    batch = sift(asked, lines(asked, [1, 2], seed=2))
    broken = Batch(batch.ids, batch.reports, Counts(malformed=2**63))
    with pytest.raises((OverflowError, ValueError)):
        store.append(asked, broken, NOW)
    assert store.read(asked)[0] == Counts(accepted=2)
    assert store.append(asked, batch, NOW) == Counts(accepted=2)


# Changed by other means


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE reports SET report = 77",
        "UPDATE reports SET report = NULL",
        "DELETE FROM reports WHERE report = 1",
        "UPDATE batches SET accepted = accepted + 1",
    ],
)
def test_codes_that_were_changed_are_not_counted(store, address, statement):
    asked = survey()
    store.add(asked, [Report(asked.digest, 3, n, f"{n:032x}").line for n in range(5)])
    meddle(address, statement)
    with pytest.raises(InvalidData, match="changed by other means"):
        store.tally(asked)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE reports SET words = NULL",
        "UPDATE reports SET words = ARRAY[1, 2, 3]",
        "UPDATE reports SET words = ARRAY[1, NULL]",
        "UPDATE reports SET words = ARRAY[-1, -1]",  # bits beyond the domain
        "UPDATE reports SET words = CASE WHEN words[1] = 1 THEN ARRAY[1] ELSE ARRAY[1, 2, 3] END",  # as many in all
        "DELETE FROM reports WHERE words[1] = 1",
    ],
)
def test_words_that_were_changed_are_not_counted(store, address, statement):
    asked = survey("optimized unary", domain=[f"{n}" for n in range(70)])
    store.add(asked, [Report(asked.digest, 3, (n, 0), f"{n:032x}").line for n in (1, 2)])
    assert store.tally(asked)[:3].tolist() == [1, 1, 0]
    meddle(address, statement)
    with pytest.raises(InvalidData, match="changed by other means"):
        store.tally(asked)


# Sums that are kept


BITS = survey("optimized unary", domain=[f"{n}" for n in range(70)])


def added_up(address):
    """(until which batch, how many reports) of every sum that a store keeps."""
    query = "SELECT until, counted FROM {}tallies ORDER BY until"
    if address.startswith("postgresql"):
        import psycopg

        with psycopg.connect(address) as connection:
            return connection.execute(query.format("discreet_collection.")).fetchall()
    import duckdb

    with duckdb.connect(address, read_only=True) as connection:
        return connection.execute(query.format("")).fetchall()


def test_words_are_added_up_once_there_are_enough(store, address, monkeypatch):
    monkeypatch.setattr("discreet.local.collection.duckdb_store.ENOUGH", 100)
    sent, values = lines(BITS, np.arange(500) % 70), np.arange(500) % 70
    for start, end in ((0, 30), (30, 60), (60, 250), (250, 251), (240, 255), (255, 500)):
        store.add(BITS, sent[start:end])
        expected = BITS.oracle().tally(BITS.oracle().randomize(values, entropy=DeterministicEntropy(1))[:end])
        assert np.array_equal(store.tally(BITS), expected)
    assert added_up(address) == [(3, 250), (6, 250)]
    assert np.array_equal(store.recount(BITS), store.tally(BITS))
    store.add(survey(), lines(survey(), [1] * 200, seed=5))
    assert len(added_up(address)) == 2, "codes are counted by the database"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tallies SET counted = counted - 1",
        "UPDATE tallies SET until = until - 1",
        "UPDATE tallies SET sums = ARRAY[1, 2]",
        "DELETE FROM tallies",
        "DELETE FROM reports WHERE words[1] % 2 = 1",
        "UPDATE batches SET accepted = accepted + 1",
    ],
)
def test_sums_that_do_not_fit_the_reports_are_refused(store, address, monkeypatch, statement):
    monkeypatch.setattr("discreet.local.collection.duckdb_store.ENOUGH", 100)
    store.add(BITS, lines(BITS, np.arange(150) % 70))
    store.add(BITS, lines(BITS, np.arange(7), seed=2))
    meddle(address, statement)
    if statement.startswith("DELETE FROM tallies"):
        assert np.array_equal(store.tally(BITS), store.recount(BITS)), "nothing is lost: they are counted again"
        return
    with pytest.raises(InvalidData, match="changed by other means"):
        store.tally(BITS)


@pytest.mark.parametrize("statement", ["UPDATE reports SET words = ARRAY[0, 0]", "UPDATE tallies SET sums[3] = 0"])
def test_a_recount_finds_what_an_estimate_does_not_read(store, address, monkeypatch, statement):
    monkeypatch.setattr("discreet.local.collection.duckdb_store.ENOUGH", 100)
    store.add(BITS, lines(BITS, np.arange(150) % 70))
    if not address.startswith("postgresql") and "sums[3]" in statement:
        statement = "UPDATE tallies SET sums = list_concat([0, 0, 0], sums[4:])"
    meddle(address, statement)
    store.tally(BITS)
    with pytest.raises(InvalidData, match="changed by other means"):
        store.recount(BITS)


def test_words_of_several_threads_are_all_added_up(address, monkeypatch):
    monkeypatch.setattr("discreet.local.collection.duckdb_store.ENOUGH", 64)
    sent, faults = lines(BITS, np.arange(800) % 70), []

    def add(part):
        try:
            for start in range(0, len(part), 25):
                Collection(address, patience=60).add(BITS, part[start : start + 25])
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=add, args=(sent[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    store = Collection(address)
    assert store.counts(BITS).accepted == 800
    assert np.array_equal(store.recount(BITS), store.tally(BITS))
