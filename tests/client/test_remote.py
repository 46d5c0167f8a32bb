"""A dataset behind a server is used as a local one: the same answers, words and errors; retries never pay twice."""

import contextlib
import copy
import json
import pickle
import socket
import threading
import traceback
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import discreet
from discreet import errors, wire
from discreet.cli import cli
from discreet.client import transport
from discreet.client.remote import RemoteDataset, connect
from discreet.requests import Commute, ContributionBounds, Question, Synthesis

COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_REGION = "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region"


@pytest.fixture
def ann(server):
    with connect(server.url, token=server.tokens["ann"]) as data:
        yield data


def charges(server):
    return [row for row in server.place.ledger.history("clinic") if row.kind == "charge"]


# The verbs of a local dataset


def test_an_answer_is_the_one_that_the_owner_would_get(server, ann):
    far = ann.ask(BY_REGION, epsilon=2)
    near = server.place.data().acting_as("ann").ask(BY_REGION, epsilon=2)  # free: the same question
    assert near.receipt.free
    assert not far.receipt.free
    assert far.table.equals(near.table)
    assert far.table.schema.equals(near.table.schema)
    assert {name: [end.to_pylist() for end in ends] for name, ends in far.intervals.items()} == {
        name: [end.to_pylist() for end in ends] for name, ends in near.intervals.items()
    }
    assert (far.confidence, far.notes, far.noise_only) == (near.confidence, near.notes, near.noise_only)
    assert (far.receipt.charge, far.receipt.loss) == (near.receipt.charge, near.receipt.loss)
    assert str(far).rpartition("\n")[0] == str(near).rpartition("\n")[0]
    assert "<table>" in far._repr_html_()
    assert far.to_csv(intervals=True) == near.to_csv(intervals=True)


def test_the_same_again_is_free_and_found_by_its_id(server, ann):
    first, again = ann.ask(COUNT, epsilon="0.5"), ann.ask(COUNT, epsilon="0.5")
    assert (first.receipt.free, again.receipt.free) == (False, True)
    question = Question(COUNT, epsilon="0.5")
    for which in (question, wire.answer_id(question)):
        assert ann.answer(which).table.equals(first.table)
    with pytest.raises(errors.BudgetExceeded, match="only a free answer"):
        ann.answer(Question(COUNT, epsilon="0.7"))
    assert len(charges(server)) == 1


def test_a_batch_pays_once(server, ann):
    both = ann.batch([COUNT, BY_REGION], epsilon=1)
    assert [answer.table.column_names for answer in both] == [["n"], ["region", "n", "age"]]
    assert len(charges(server)) == 1
    kept = ann.answer(Question([COUNT, BY_REGION], epsilon=1))
    assert [answer.table for answer in kept] == [answer.table for answer in both]
    for odd in ("SELECT 1", []):
        with pytest.raises(errors.InvalidParameter, match="statements"):
            ann.batch(odd, epsilon=1)


def test_explanations_budgets_and_catalogs_come_whole(server, ann):
    near = server.place.data().acting_as("ann")
    assert str(ann.explain(BY_REGION, epsilon="0.3", delta="1e-8")) == str(
        near.explain(BY_REGION, epsilon="0.3", delta="1e-8")
    )
    assert ann.explain(BY_REGION, epsilon="0.3").to_json() == json.loads(
        json.dumps(near.explain(BY_REGION, epsilon="0.3").to_json())
    )
    ann.ask(COUNT, epsilon="0.3")
    assert str(ann.budget()) == str(wire.budget_of(json.loads(json.dumps(ann.budget().to_json()))))
    assert [row.analyst for row in ann.budget().analysts] == ["ann"]
    olga = connect(server.url, token=server.tokens["olga"])
    assert str(olga.budget()) == str(near.budget())
    assert olga.budget().to_json() == json.loads(json.dumps(near.budget().to_json()))
    assert float(ann.remaining) == pytest.approx(49.7)
    assert ann.catalog == near.catalog
    assert ann.tables == ["visits"]
    assert "one person, that is all rows with the same patient_id" in ann.statement()
    assert ann.statement_document()
    assert len(charges(server)) == 1


def test_a_catalog_with_chains_public_tables_and_odd_names_comes_whole():
    from discreet.curator.catalog import Catalog, Column, Link, Table
    from discreet.privacy.unit import Unit

    orders = Table("orders", [Column("id", "integer"), Column("row", "integer")], unit=Unit("row"), groups=3, rows=2)
    link = Link("order → id", table="orders", key="id")
    items = Table("items", [Column("order → id", "integer", nullable=False)], unit=Unit("orders.row"), link=link)
    places = Table("places", [Column("name", "text", values=["a", "b"])], unit=None)
    rows = Table("rows", [Column("x", "real", lower="0.5", upper=3, granularity="1/8")], unit=Unit())
    times = Table("times", [Column("t", "timestamp", lower="2020-01-01", upper="2020-02-01")], unit=Unit())
    catalog = Catalog("shop", [orders, items, places, rows, times], neighbors="change one")
    assert wire.catalog_of(json.loads(json.dumps(wire.catalog_document(catalog)))) == catalog


# Jobs


def test_a_question_as_a_job_gives_the_same_answer(server, ann):
    seen = []
    job = ann.submit(Question(COUNT, epsilon=1))
    answer = job.wait(60, each=0.02, told=seen.append)
    assert answer.table.equals(ann.ask(COUNT, epsilon=1).table)
    assert job.state == "done"
    assert job.progress == 1.0
    assert seen[-1]["state"] == "done"
    assert job.cancel() == "done"
    assert len(charges(server)) == 1


def test_other_jobs_and_their_files(server, ann, tmp_path):
    bounds = ann.submit(ContributionBounds(table="visits", epsilon=1, by=["region"]))
    assert bounds.wait(60, each=0.02)["receipt"]["charge"] if "receipt" in bounds.wait(60) else bounds.wait(60)
    with pytest.raises(errors.InvalidParameter, match="table"):
        ann.submit(Synthesis(table="nowhere", epsilon=1))
    with pytest.raises(errors.InvalidParameter, match="can be sent"):
        ann.submit(Synthesis(table="visits", epsilon=1, settings=object()))
    with pytest.raises(errors.InvalidParameter, match="a value of discreet.requests"):
        ann.submit("SELECT 1")
    saved = bounds.save(tmp_path / "bounds.json")
    assert json.loads(saved.read_text())


def test_a_file_is_read_where_the_caller_is_and_sent_as_columns(tmp_path):
    path, columns = tmp_path / "places.csv", {"name": ["a", "b"], "lat": ["50", "51"], "lon": ["8", "9"]}
    path.write_text("name,lat,lon\na,50,8\nb,51,9\n")
    for places in (path, str(path), columns, pa.table(columns)):
        request = Commute(table="visits", places=places, origin="a", destination="b", epsilon=1)
        assert wire.request_document(request)["request"]["places"] == columns


def test_a_failed_job_raises_what_it_failed_with(server):
    bob = connect(server.url, token=server.tokens["bob"])
    with pytest.raises(errors.BudgetExceeded):
        bob.submit(Question(COUNT, epsilon=2)).wait(60, each=0.02)
    assert not charges(server)


def test_the_verbs_of_a_local_dataset_are_there():
    """All but what takes a plan apart, and what only the owner's own process has."""
    local = {name for name in vars(discreet.Dataset) if not name.startswith("_")}
    own = {
        "plan",
        "release",
        "acting_as",
        "is_free",
        "settle",
        "ledger",
        "version",
        "is_current",
        "first_step",
        "affordability",
        "own_left",
    }
    assert own <= local
    assert local - own <= {name for name in vars(RemoteDataset) if not name.startswith("_")}


def test_synthetic_tables_and_bounds_come_as_from_a_local_dataset(server, ann):
    table = ann.synthesize("visits", epsilon=20, columns=["region"], people=400)
    assert set(table.column("region").to_pylist()) <= {"north", "south", None}
    assert isinstance(ann.choose_bounds("visits", epsilon=1), dict)
    assert len(charges(server)) == 2
    with pytest.raises(errors.InvalidParameter):
        ann.train("visits", "nothing", epsilon=1, delta="1e-6", examples=400)


# Retries


class Relay:
    """Between client and server: it passes requests on, and cuts the first replies off."""

    def __init__(self, url, cut):
        self._target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._cut, self.requests = cut, []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)

    def _run(self):
        while True:
            try:
                near, _ = self._socket.accept()
            except OSError:
                return
            with near, socket.create_connection(self._target) as far:
                self._pass(near, far)

    def _pass(self, near, far):
        request = b""
        while b"\r\n\r\n" not in request:
            request += near.recv(65536)
        head, _, body = request.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
        while len(body) < length:
            body += near.recv(65536)
        self.requests.append(head)
        far.sendall(head.replace(b"Accept-Encoding", b"Connection: close\r\nAccept-Encoding") + b"\r\n\r\n" + body)
        reply = b""
        while part := far.recv(65536):
            reply += part
        if b"/ask" in head and self._cut:
            kept = self._cut.pop(0)
            reply = reply[: int(len(reply) * kept)]  # the charge is made, the reply is lost
        with contextlib.suppress(OSError):
            near.sendall(reply)


@pytest.mark.parametrize("cut", [[0], [0, 0.5, 0.9], [0.99, 0, 0, 0.3]])
def test_a_reply_that_was_lost_after_the_charge_is_paid_once(server, cut):
    with Relay(server.url, list(cut)) as relay:
        answer = connect(relay.url, token=server.tokens["ann"]).ask(COUNT, epsilon=1)
    keys = {
        line
        for head in relay.requests
        if b"/ask" in head
        for line in head.split(b"\r\n")
        if b"idempotency" in line.lower()
    }
    assert len([head for head in relay.requests if b"/ask" in head]) == len(cut) + 1
    assert len(keys) == 1
    assert len(charges(server)) == 1
    assert answer.receipt.charge == charges(server)[0].number


def test_attempts_are_bounded_and_a_failed_ask_was_charged_once(server):
    with Relay(server.url, [0] * 99) as relay:
        data = connect(relay.url, token=server.tokens["ann"])
        with pytest.raises(errors.ServerUnavailable, match="ended the connection"):
            data.ask(COUNT, epsilon=1)
    assert len([head for head in relay.requests if b"/ask" in head]) == transport.ATTEMPTS
    assert len(charges(server)) == 1


def test_every_statement_has_a_key_of_its_own(server, ann):
    key = "mine"
    ann.answers(Question(COUNT, epsilon=1), key=key)
    ann.answers(Question(COUNT, epsilon=1), key=key)
    with pytest.raises(errors.LedgerConflict, match="another question"):
        ann.answers(Question(BY_REGION, epsilon=1), key=key)
    ann.ask(COUNT, epsilon=2)
    ann.ask(BY_REGION, epsilon=2)
    assert len(charges(server)) == 3


# Servers that are not what they should be


class Scripted:
    """A server that replies with given bytes, one reply a connection; the last of them again and again."""

    def __init__(self, *replies):
        self._replies, self.requests = list(replies), []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)

    __enter__, __exit__ = Relay.__enter__, Relay.__exit__

    def _run(self):
        while True:
            try:
                near, _ = self._socket.accept()
            except OSError:
                return
            with near, contextlib.suppress(OSError):
                near.settimeout(5)
                request = b""
                while b"\r\n\r\n" not in request:
                    request += near.recv(65536)
                if b"POST" in request and not request.endswith(b"}"):
                    request += near.recv(65536)
                self.requests.append(request)
                near.sendall(self._replies.pop(0) if len(self._replies) > 1 else self._replies[0])


def reply(content, status=200, kind="application/json", *, length=None, more=b""):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    size = len(content) if length is None else length
    head = f"HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n".encode()
    return head + more + b"\r\n" + content


LISTED = reply({"datasets": [{"name": "clinic", "role": "analyst", "analyst": "ann"}]})
TOKEN = "discreet_secret_of_ann"


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(transport, "_PAUSE", 0.001)
    monkeypatch.setattr(transport, "_LONGEST_PAUSE", 0.01)


@pytest.mark.parametrize(
    "kind", sorted(wire.KINDS.values(), key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__
)
def test_every_error_is_raised_as_it_was_there(kind):
    made = {
        errors.InvalidParameter: lambda: errors.InvalidParameter("epsilon", -1, "a number above 0", "state one"),
        errors.InvalidQuery: lambda: errors.InvalidQuery("no", "do", text="SELECT x", start=7),
        errors.MissingExtra: lambda: errors.MissingExtra("jax", "jax"),
    }.get(kind, lambda: kind("nothing is left"))()
    problem = reply(wire.problem_document(made, status=422), 422, wire.PROBLEM)
    with Scripted(LISTED, problem) as server, pytest.raises(kind) as caught:
        connect(server.url, token=TOKEN).ask(COUNT, epsilon=1)
    assert type(caught.value) is kind
    assert str(caught.value) == str(made)
    assert vars(caught.value) == vars(made)


def stream(**facts):
    table = pa.table({"n": [1]}).replace_schema_metadata({b"discreet": json.dumps(facts).encode()} if facts else None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (reply(b"", kind=wire.ARROW), "0 answers came to 1"),
        (reply(b"garbage", kind=wire.ARROW), "no answer"),
        (reply(stream(), kind=wire.ARROW), "no answer"),
        (reply(stream(columns=9), kind=wire.ARROW), "no answer"),
        (reply(stream()[:-20], kind=wire.ARROW), "no answer"),
        (reply(stream(), kind=wire.ARROW, length=10_000), "ended the connection"),
        (reply({"columns": []}), "instead of"),
        (reply(b"<html>", 200, "text/html"), "instead of"),
        (reply(b"<html>no", 500, "text/html"), "status 500"),
        (reply(b"{", 422, wire.PROBLEM), "status 422"),
        (reply(b"[]", 422, wire.PROBLEM), "status 422"),
        (reply({"code": "odd", "detail": "odd \x1b[31mwords"}, 422, wire.PROBLEM), r"odd \[31mwords"),
        (reply(b"", 307, more=b"Location: http://203.0.113.1/\r\n"), "status 307"),
        (b"nonsense\r\n\r\n", "ended the connection"),
        (b"", "ended the connection"),
    ],
)
def test_replies_that_are_no_answers_are_said_to_be_none(content, words):
    with Scripted(LISTED, content) as server, pytest.raises(errors.ServerUnavailable, match=words) as caught:
        connect(server.url, token=TOKEN).ask(COUNT, epsilon=1)
    assert "\x1b" not in str(caught.value)


def test_a_huge_reply_is_not_read(monkeypatch):
    monkeypatch.setattr(transport, "_LARGEST", 1000)
    with (
        Scripted(LISTED, reply(b"x" * 5000, kind=wire.ARROW)) as server,
        pytest.raises(errors.ServerUnavailable, match="more than 1000 bytes"),
    ):
        connect(server.url, token=TOKEN).ask(COUNT, epsilon=1)


@pytest.mark.parametrize("content", [b"{", b"[]", b"[" * 100_000, b'{"datasets": 1}', b'{"datasets": [1]}', b"\xff"])
def test_a_list_of_datasets_that_is_none_is_refused(content):
    with Scripted(reply(content)) as server, pytest.raises(errors.ServerUnavailable):
        connect(server.url, token=TOKEN)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("read", [wire.budget_of, wire.explanation_of, wire.catalog_of])
@given(document=st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["name", "tables", "epsilon", "analysts", "statements", "budget", "loss"]), inner)))  # fmt: skip
def test_documents_that_are_none_are_refused(read, document):
    with pytest.raises(errors.ServerUnavailable):
        read(document)


@given(st.binary(min_size=1, max_size=200), st.integers(0, 400))
def test_bytes_that_are_no_answers_are_refused(noise, at):
    good = stream(columns=1)
    for content in (noise, good[:at] + noise + good[at + len(noise) :]):
        with pytest.raises(errors.ServerUnavailable):
            wire.answers_from_arrow(content)


def test_a_busy_server_is_asked_again(server):
    busy = reply(wire.problem_document(errors.LedgerUnavailable("busy"), status=503), 503, wire.PROBLEM)
    with Scripted(LISTED, busy, busy, reply({"words": "x"})) as scripted:
        data = connect(scripted.url, token=TOKEN)
        with pytest.raises(errors.ServerUnavailable, match="no budget report"):
            data.budget()
        assert len(scripted.requests) == 4
    with Scripted(LISTED, busy) as scripted:
        with pytest.raises(errors.LedgerUnavailable, match="busy"):
            connect(scripted.url, token=TOKEN).ask(COUNT, epsilon=1)
        assert len(scripted.requests) == 1 + transport.ATTEMPTS


def test_a_job_is_not_started_twice():
    with Scripted(LISTED, b"") as scripted:
        with pytest.raises(errors.ServerUnavailable, match="ended the connection"):
            connect(scripted.url, token=TOKEN).submit(Question(COUNT, epsilon=1))
        assert len(scripted.requests) == 2


def test_a_server_that_is_down_or_silent():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(errors.ServerUnavailable, match="did not answer within"):
            connect(f"http://127.0.0.1:{port}", token=TOKEN, timeout=0.05)
    with pytest.raises(errors.ServerUnavailable, match="cannot be reached: Connection refused"):
        connect(f"http://127.0.0.1:{port}", token=TOKEN)


# Addresses and tokens


@pytest.mark.parametrize(
    "url", ["http://server.example.org", "http://10.0.0.1:8000", "http://0.0.0.0", "http://[2001:db8::1]"]
)
def test_a_token_never_leaves_the_machine_in_the_clear(url):
    with pytest.raises(errors.InvalidParameter, match="in the clear"):
        connect(url, token=TOKEN)
    assert not transport.address_of(url, insecure=True).secure


@pytest.mark.parametrize(
    "url",
    ["", "clinic.toml", "ftp://host", "http://", "http://127.0.0.1:99999", "http://[::1", f"https://x:{TOKEN}@host",
     f"http://127.0.0.1/?token={TOKEN}", f"http://127.0.0.1/#{TOKEN}", "http://127.0.0.1/a b\r\nX: y"],
)  # fmt: skip
def test_odd_addresses_are_refused_without_their_secrets(url):
    with pytest.raises(errors.InvalidParameter) as caught:
        connect(url, token=TOKEN)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("token", ["", " ", "a b", "a\r\nX: y", "é", "x" * 2000])
def test_odd_tokens_are_refused_and_not_repeated(token):
    with pytest.raises(errors.InvalidParameter, match="token: got") as caught:
        connect("http://127.0.0.1:9", token=token)
    assert not token.strip() or token not in str(caught.value)


def test_a_token_is_shown_nowhere(server, ann, capsys, caplog):
    token = server.tokens["ann"]
    shown = [
        repr(ann),
        str(ann),
        repr(vars(ann)),
        repr(vars(ann._server)),
        repr(ann.submit(Question(COUNT, epsilon=1))),
    ]
    for call in (
        lambda: ann.ask("SELECT nothing", epsilon=1),
        lambda: ann.ask(COUNT, epsilon=1000),
        lambda: connect(server.url, token=token, dataset="other"),
        lambda: connect("http://127.0.0.1:9", token=token),
    ):
        with pytest.raises(errors.DiscreetError) as caught:
            call()
        told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        frames = [frame for frame in told.stack if "tests" not in frame.filename]
        shown += [str(caught.value), "".join(traceback.StackSummary.from_list(frames).format()), repr(told.__context__)]
    for call in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="holds a token"):
            call(ann)
    printed = capsys.readouterr()
    for text in (*shown, printed.out, printed.err, caplog.text):
        assert token not in text


def test_a_server_that_repeats_the_token_is_not_repeated():
    problem = reply({"code": "access-denied", "detail": f"{TOKEN} is wrong"}, 401, wire.PROBLEM)
    with Scripted(problem) as server, pytest.raises(errors.AccessDenied) as caught:
        connect(server.url, token=TOKEN)
    assert str(caught.value) == "(the token) is wrong"


def test_wrong_revoked_and_poor_tokens(server):
    with pytest.raises(errors.AccessDenied, match="not known"):
        connect(server.url, token="discreet_000000000000_" + "x" * 43)
    bob = connect(server.url, token=server.tokens["bob"])
    bob.ask(COUNT, epsilon="0.75")
    with pytest.raises(errors.BudgetExceeded, match="the cap of 'bob'"):
        bob.ask(BY_REGION, epsilon="0.5")
    with pytest.raises(errors.InvalidQuery):
        bob.ask("SELECT nothing FROM visits", epsilon="0.1")
    server.file.revoke("bob")
    with pytest.raises(errors.AccessDenied, match="revoked"):
        bob.budget()


def test_address_and_token_of_the_environment(server, monkeypatch):
    with pytest.raises(errors.InvalidParameter, match="DISCREET_URL"):
        connect()
    monkeypatch.setenv("DISCREET_URL", f"{server.url}/v1/datasets/clinic")
    with pytest.raises(errors.InvalidParameter, match="DISCREET_TOKEN"):
        connect()
    monkeypatch.setenv("DISCREET_TOKEN", server.tokens["ann"] + "\n")
    data = discreet.connect()
    assert isinstance(data, RemoteDataset)
    assert repr(data) == f"<RemoteDataset clinic at {server.url}, as ann (analyst)>"
    with pytest.raises(errors.InvalidParameter, match="that this token opens: clinic"):
        connect(dataset="other")


def test_commands_have_a_server_train_and_synthesize(server, monkeypatch, tmp_path):
    monkeypatch.setenv("DISCREET_TOKEN", server.tokens["ann"])

    def run(*words):
        done = CliRunner().invoke(cli, [*words, "--json"])
        return done.exit_code, done.stdout if done.exit_code == 0 else done.stderr + str(done.exception)

    names = ("table.csv", "table.html", "model", "model.html")
    table, page, model, curve = (str(tmp_path / name) for name in names)
    terms = ["--epsilon", "3", "--columns", "age,region"]
    code, text = run("synth", server.url, *terms, "-o", table, "--report", page)
    assert code == 0, text
    assert "charged as #" in json.loads(text)["cost"]
    assert Path(table).read_text().splitlines()[0].endswith("age,region")
    assert "<html" in Path(page).read_text()
    terms = ["--epsilon", "3", "--delta", "1e-6", "--examples", "400", "--features", "age", "--model", "logistic"]
    code, text = run("train", server.url, "visits", "region", *terms, "-o", model, "--report", curve)
    assert code == 0, text
    assert "charged as #" in json.loads(text)["cost"]
    assert Path(model).stat().st_size > 100
    assert "<html" in Path(curve).read_text()
    assert [row.who for row in charges(server)] == ["ann", "ann"]
    for words in (
        ["train", server.url, "visits", "region", *terms, "--explain"],
        ["synth", server.url, "--epsilon", "1", "--explain"],
        ["synth", server.url, "--epsilon", "1", "-o", f"{table}2.csv", "--owner-report", f"{page}2"],
    ):
        code, text = run(*words)
        assert (code, "goes with a policy file, not with a server" in text) == (2, True)
    code, text = run("ledger", "verify", server.url)
    assert code != 0
    assert "a policy file, and not the address of a server" in text
    assert len(charges(server)) == 2


def test_a_pause_grows_and_is_bounded():
    pauses = [[transport._pause(attempt, 0) for _ in range(200)] for attempt in (1, 2, 3)]
    for attempt, drawn in enumerate(pauses):
        longest = min(transport._LONGEST_PAUSE, transport._PAUSE * 2**attempt)
        assert all(longest / 2 <= pause <= longest for pause in drawn)
        assert len(set(drawn)) > 100
    assert transport._pause(1, 1e9) <= transport._LONGEST_PAUSE
