"""Faults: kill -9, SIGTERM, races, a full disk, data that are gone, a sandbox that dies, clocks that jump."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException

import pytest
from tests import serving
from tests.serving import BY_REGION, CLINIC, COUNT

import discreet
from discreet.curator.ledger import Ledger
from discreet.curator.stores.sqlite import SqliteStore
from discreet.server.tokens import TokenFile
from discreet.sql.after import sandbox


class Process:
    """`discreet serve` as users start it, in a process of its own."""

    def __init__(self, folder, *options, **popen):
        command = [sys.executable, "-m", "discreet", "serve", str(folder / "clinic.toml"), "--port", "0", *options]
        self.log = (folder / "server.log").open("a+")
        self.log.seek(0, os.SEEK_END)
        start = self.log.tell()
        self._popen = subprocess.Popen(command, stderr=self.log, stdout=subprocess.DEVNULL, **popen)
        while True:
            assert self._popen.poll() is None, (folder / "server.log").read_text()
            lines = (folder / "server.log").read_text()[start:].splitlines()
            said = [json.loads(line) for line in lines if '"listening"' in line and line.endswith("}")]
            if said:
                break
            time.sleep(0.02)
        self.port = int(said[0]["listening"].rpartition(":")[2])

    def ask(self, token, sql, key, epsilon="0.01"):
        """The status and the content of a reply; None where none came."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            body = json.dumps({"sql": sql, "epsilon": epsilon})
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": key}
            connection.request("POST", "/v1/datasets/clinic/ask", body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, HTTPException):
            return None
        finally:
            connection.close()

    def stop(self, how=signal.SIGTERM):
        self._popen.send_signal(how)
        code = self._popen.wait(60)
        self.log.close()
        return code


def as_retried(content):
    """A reply to compare: of one that was free the first time, what is left may be less at a retry."""
    receipt = json.loads(content)["receipt"]
    return content.replace(f'"remaining": {receipt["remaining"]}'.encode(), b"") if receipt["free"] else content


def storm(folder, tokens, rounds, seed):
    """Kill a server in a storm of asks, again and again; what clients saw, by key, and what was sent under it."""
    seen, sent, delay = {}, {}, seed
    server = Process(folder)
    for turn in range(rounds):
        stopped = threading.Event()

        def client(number, server=server, turn=turn, stopped=stopped):
            for step in range(1000):
                if stopped.is_set():
                    return
                key = f"{turn}-{number}-{step}"
                sql = f"SELECT COUNT(*) AS n FROM visits WHERE age < {turn % 100 + 1} AND cost < {number + step % 5}.{turn:03}"
                sent[key] = (number, sql, f"0.0{10 + step % 80}")
                reply = server.ask(tokens[number], sql, key, sent[key][2])
                if reply is None:
                    return
                assert reply[0] == 200, reply
                seen[key] = reply[1]

        threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        delay = (delay * 1103515245 + 12345) % 2**31
        time.sleep(0.01 + 0.3 * delay / 2**31)
        server.stop(signal.SIGKILL)
        stopped.set()
        for thread in threads:
            thread.join()
        server = Process(folder)
        last = [key for key in sent if key.startswith(f"{turn}-")][-8:]
        for key in last:  # every retry: the same bytes, or what the charge could not give
            number, sql, epsilon = sent[key]
            status, content = server.ask(tokens[number], sql, key, epsilon)
            if key in seen:
                assert status == 200
                assert as_retried(content) == as_retried(seen[key])
            elif status == 200:
                seen[key] = content
            else:
                assert status == 500, content
                assert json.loads(content)["code"] == "release-failed", content
    assert server.stop() == 0
    return seen, sent


def check_storm(folder, seen, sent):
    with SqliteStore(folder / "clinic.ledger") as store:
        ledger = Ledger(store)
        assert ledger.verify("clinic")
        charges = {charge.number: charge for charge in ledger.charges("clinic")}
    for key, content in seen.items():
        receipt = json.loads(content)["receipt"]
        charge = charges[receipt["charge"]]  # every answer that a client saw is charged
        assert charge.analyst == f"analyst {sent[key][0]}"
    named = [charge.request for charge in charges.values()]
    assert None not in named
    assert len(set(named)) == len(named)  # no request is charged twice
    with discreet.open(folder / "clinic.toml"):
        pass  # which the witness has nothing against


def stormy(folder):
    policy = CLINIC.replace("[tables.visits]", '[budget.everyone]\nepsilon = "90000"\n\n[tables.visits]')
    serving.write_house(folder, clinic=policy)
    file = TokenFile(folder / "clinic.tokens")
    return [file.create(f"analyst {number}", "analyst")[0] for number in range(4)]


def test_kill_9_in_a_storm_of_asks(tmp_path):
    seen, sent = storm(tmp_path, stormy(tmp_path), 3, 1)
    check_storm(tmp_path, seen, sent)
    assert seen


@pytest.mark.slow
def test_kill_9_in_a_storm_of_asks_500_times(tmp_path):
    rounds = int(os.environ.get("DISCREET_ROUNDS", "500"))
    seen, sent = storm(tmp_path, stormy(tmp_path), rounds, 2)
    check_storm(tmp_path, seen, sent)
    assert len(seen) > rounds


def test_an_orderly_end_answers_what_was_charged(tmp_path):
    tokens = stormy(tmp_path)
    policy = (tmp_path / "clinic.toml").read_text().replace("time_floor = 0", 'time_floor = "0.5"')
    (tmp_path / "clinic.toml").write_text(policy)
    server, replies = Process(tmp_path), []
    threads = [
        threading.Thread(target=lambda n=n: replies.append(server.ask(tokens[n], COUNT, f"key {n}"))) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    with SqliteStore(tmp_path / "clinic.ledger") as store:
        while len(Ledger(store).charges("clinic")) < 4:  # charged, and waiting for the time grid
            time.sleep(0.01)
    assert server.stop() == 0
    for thread in threads:
        thread.join()
    assert [status for status, _ in replies] == [200] * 4
    with SqliteStore(tmp_path / "clinic.ledger") as store:
        kinds = [row.kind for row in Ledger(store).history("clinic")]
        assert kinds.count("answer") == kinds.count("charge") == 4
    lines = [json.loads(line) for line in (tmp_path / "server.log").read_text().splitlines()]
    assert len([line for line in lines if line.get("status") == 200]) == 4


def test_32_analysts_who_race_for_the_last_epsilon_never_pass_it(fresh):
    policy = CLINIC.replace('epsilon = "100000"', 'epsilon = "1"').replace('epsilon = "50000"', 'epsilon = "1"')
    policy = policy.replace('delta = "1e-3"', "").replace('delta = "1e-4"', "")  # so that ε adds up
    policy = policy.replace('epsilon = "1000"', 'epsilon = "1"')
    policy = policy.replace("[tables.visits]", '[budget.everyone]\nepsilon = "1"\n\n[tables.visits]')
    house = fresh(clinic=policy)
    file = TokenFile(house.folder / "clinic.tokens")
    tokens = [file.create(f"racer {number}", "analyst")[0] for number in range(32)]
    replies, start = [], threading.Barrier(32)

    def race(token):
        start.wait()
        replies.append(house.ask(COUNT, "0.09", who=token))

    threads = [threading.Thread(target=race, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = sorted(reply.status for reply in replies)
    assert statuses == [200] * 11 + [402] * 21  # 11 × 0.09 = 0.99
    ledger = house.service.places["clinic"].ledger
    assert float(ledger.spent("clinic").epsilon) == pytest.approx(0.99)
    assert ledger.verify("clinic")
    last = house.ask(COUNT, "0.01", who=tokens[0])
    assert last.status == 200
    assert house.ask(COUNT, "0.001", who=tokens[1]).status == 402


def test_a_full_disk_is_told_and_nothing_is_given_unpaid(fresh):
    house = fresh()
    assert house.ask(COUNT, "0.5").status == 200
    store = house.service.places["clinic"].ledger._store
    pages = store.transact(lambda rows: rows._execute("PRAGMA page_count").fetchone()[0])
    store.transact(lambda rows: rows._execute(f"PRAGMA max_page_count = {pages}").fetchone())
    replies = [house.ask(COUNT, f"0.{n}") for n in range(11, 99)]
    full = [reply for reply in replies if reply.status != 200]
    assert full
    assert {(reply.status, reply.code) for reply in full} == {(503, "ledger-unavailable")}
    assert str(house.folder) not in full[-1].content.decode()
    store.transact(lambda rows: rows._execute("PRAGMA max_page_count = 1000000").fetchone())
    assert house.ask(BY_REGION, "0.5").status == 200
    assert house.service.places["clinic"].ledger.verify("clinic")


def test_data_that_are_gone_or_changed(fresh):
    house = fresh()
    first = house.ask(COUNT, "0.5")
    data = house.folder / "visits.csv"
    rows = data.read_bytes()
    data.unlink()
    gone = house.ask(BY_REGION, "0.5")
    assert (gone.status, gone.code) == (503, "server-unavailable")
    assert str(house.folder) not in gone.content.decode()
    assert house.charges() == 1
    data.write_bytes(rows + b"401,30,2020-03-01,1.5,north\n")  # somebody came: another version of the data
    again = house.ask(COUNT, "0.5")
    assert again.status == 200, again
    assert not again.json["receipt"]["free"]
    assert house.charges() == 2
    assert first.status == 200


def test_a_sandbox_that_dies_costs_nothing_more(fresh):
    house = fresh()
    sql = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY n DESC"
    assert house.ask(sql, "0.5").status == 200
    assert sandbox._idle
    for idle in sandbox._idle:
        idle._process.kill()
        idle._process.wait()
    assert house.ask(sql, "0.6").status == 200
    assert house.charges() == 2


class Jumping:
    """A clock that is set."""

    def __init__(self):
        self.time = datetime.now(UTC)

    def now(self):
        return self.time


def test_a_clock_that_jumps_gives_nobody_a_second_day(fresh, monkeypatch):
    house = fresh()
    clock = Jumping()
    place = house.service.places["clinic"]
    monkeypatch.setattr(place.ledger, "_clock", clock)
    assert house.ask(COUNT, "0.5", who="bob").status == 200
    for jump in (timedelta(days=-400), timedelta(days=800), timedelta(days=-1)):
        clock.time += jump
        assert house.ask(BY_REGION, "0.6", who="bob").status == 402
        assert house.ask(COUNT, f"0.{100 + jump.days % 50}", who="ann").status == 200
    assert place.ledger.verify("clinic")
    times = [row.when for row in place.ledger.history("clinic")]
    assert times == sorted(times)


def test_a_token_file_that_is_broken_lets_nobody_in(fresh):
    house = fresh()
    (house.folder / "clinic.tokens").write_text("{")
    reply = house.call("GET", "/v1/datasets/clinic", "ann")
    assert (reply.status, reply.code) == (503, "server-unavailable")
    assert str(house.folder) not in reply.content.decode()
    assert house.call("GET", "/v1/datasets/school", "sue").status == 200  # which has nothing to do with it
    (house.folder / "clinic.tokens").unlink()
    assert house.call("GET", "/v1/datasets/clinic", "ann").status == 401


def test_a_ledger_that_cannot_be_read_is_not_ready(fresh, monkeypatch):
    house = fresh()
    assert house.call("GET", "/readyz", None).status == 200
    place = house.service.places["clinic"]
    place._left = None
    monkeypatch.setattr(
        place.ledger._store, "transact", lambda work: (_ for _ in ()).throw(discreet.errors.LedgerUnavailable("x"))
    )
    assert house.call("GET", "/readyz", None).status == 503
    assert house.ask(COUNT, "0.5").status == 503


def test_a_ledger_that_another_program_holds_keeps_nobody_else_waiting(fresh, monkeypatch):
    house, free = fresh(), threading.Event()
    place = house.service.places["clinic"]
    place._left = None
    monkeypatch.setattr(type(place), "remaining", lambda self: free.wait(60))
    probe = threading.Thread(target=lambda: house.call("GET", "/readyz", None))
    probe.start()
    while not house.app.state.ready_limiter.borrowed_tokens:
        assert probe.is_alive()
    assert house.call("GET", "/healthz", None).status == 200
    free.set()
    probe.join()


def test_a_refusal_does_not_read_the_ledger_for_names(fresh, monkeypatch):
    """Else whoever has nothing left to spend could keep the ledger busy."""
    house = fresh()
    place = house.service.places["clinic"]
    monkeypatch.setattr(place._ledger, "requests", lambda *_, **__: pytest.fail("the ledger was read"))
    assert house.ask(COUNT, "1e9", Idempotency_Key="much").status == 402
    assert house.ask("SELECT nothing FROM visits", Idempotency_Key="odd").status == 422
    assert house.ask(COUNT, "0.5", Idempotency_Key="good").status == 200


def test_names_of_requests_are_forgotten_after_their_day(fresh, monkeypatch):
    house = fresh()
    place = house.service.places["clinic"]
    for n in range(3):
        assert house.ask(COUNT, f"0.5{n}", Idempotency_Key=f"key {n}").status == 200
    assert len(place.requests) == 3
    monkeypatch.setattr("discreet.server.session.REQUESTS_FOR", timedelta(0))
    assert house.ask(COUNT, "0.6", Idempotency_Key="last").status == 200
    assert len(place.requests) <= 1


@pytest.mark.slow
def test_ten_thousand_connections_do_not_stop_it(tmp_path):
    resource = pytest.importorskip("resource")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 12_000:
        pytest.skip(f"this user may open {most} files, and 12,000 are needed for 10,000 connections")
    tokens, near = stormy(tmp_path), []
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (12_000, most))
    server = Process(tmp_path)
    try:
        for _ in range(10_000):
            near.append(socket.create_connection(("127.0.0.1", server.port), 30))
            near[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")  # and never more
        assert server.ask(tokens[0], COUNT, "among ten thousand")[0] == 200
    finally:
        for connection in near:
            connection.close()
        assert server.stop() == 0
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
