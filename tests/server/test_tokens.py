"""Tokens: 256 random bits, shown once, kept as hashes, limited, revoked at once, on the record."""

import json
import re
import stat
import threading
from datetime import timedelta
from http.client import HTTPConnection

import pytest
from click.testing import CliRunner
from tests import serving
from tests.serving import BY_REGION, COUNT

from discreet.cli.serve import token as command
from discreet.curator.ledger import Ledger
from discreet.curator.settings import Allowance
from discreet.curator.stores.sqlite import SqliteStore
from discreet.errors import InvalidData, InvalidParameter
from discreet.privacy.budget import Budget
from discreet.server.tokens import ScramVerifier, TokenFile, new_token


@pytest.fixture
def file(tmp_path):
    return TokenFile(tmp_path / "clinic.tokens")


def test_tokens_are_random_and_long():
    texts = {new_token() for _ in range(1000)}
    assert len(texts) == 1000
    assert all(re.fullmatch(r"discreet_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", text) for text in texts)
    assert len({text[22:] for text in texts}) == 1000


def test_only_the_whole_token_opens(file):
    text, kept = file.create("Ann", "analyst")
    assert file.find(text).id == kept.id
    other = text[:-1] + ("A" if text[-1] != "A" else "B")
    for odd in (
        text[:-1],
        text + "x",
        other,
        text.upper(),
        text[9:],
        text[:22] + "A" * 43,
        "",
        None,
        5,
        "\ud800",
        " " + text,
    ):
        assert file.find(odd) is None


def test_the_file_holds_no_token_and_is_its_owners_alone(file):
    text, kept = file.create("ann", "analyst")
    content = file.path.read_bytes()
    assert text.encode() not in content
    assert text[22:].encode() not in content
    assert text[22:].encode().hex().encode() not in content
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert text not in repr(kept)
    assert kept.hash.hex() not in repr(kept)


def test_a_revocation_by_another_process_holds_at_once(file):
    text, kept = file.create("ann", "analyst")
    elsewhere = TokenFile(file.path)
    assert elsewhere.find(text)
    for which in (kept.id,):
        file.revoke(which)
    assert elsewhere.find(text) is None
    with pytest.raises(InvalidParameter, match="not revoked"):
        file.revoke("ann")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"version": 2, "tokens": []}', '{"version": 1}', '{"version": 1, "tokens": [{}]}']
)
def test_a_file_that_is_none_is_refused(file, content):
    file.path.write_text(content)
    with pytest.raises(InvalidData):
        file.find(new_token())


def test_a_verifier_is_the_one_of_rfc_7677():
    made = ScramVerifier.of("pencil", bytes.fromhex("5b6d99689d123592 6c7f5f4c8d9d9d6b".replace(" ", "")), 4096)
    assert len(made.stored_key) == len(made.server_key) == 32
    assert made != ScramVerifier.of("pencil2", made.salt, 4096)


@pytest.mark.parametrize(
    ("name", "role", "lifetime"), [("", "analyst", None), ("ann", "king", None), ("ann", "analyst", timedelta(0))]
)
def test_tokens_that_cannot_be_are_refused(file, name, role, lifetime):
    with pytest.raises(InvalidParameter):
        file.create(name, role, lifetime=lifetime)
    assert not file.path.exists()


def test_limits_of_a_token_hold_over_http(fresh):
    house = fresh()
    allowance = Allowance(Budget(epsilon="0.5"), Budget(epsilon="0.3"))
    token, _ = TokenFile(house.folder / "clinic.tokens").create("ann", "analyst", allowance=allowance)
    assert house.ask(COUNT, "0.25", who=token).status == 200
    refused = house.ask(BY_REGION, "0.25", who=token)
    assert (refused.status, refused.code) == (402, "budget-exceeded")
    assert "24 hours" in refused.json["detail"]
    assert house.ask(COUNT, "0.6", who=token).status == 402
    assert house.ask(BY_REGION, "0.25", who="ann").status == 200


@pytest.mark.parametrize("path", ["ask", "explain"])
@pytest.mark.parametrize("asked", [False, True])
def test_a_token_that_is_revoked_while_the_body_comes_opens_nothing(fresh, monkeypatch, path, asked):
    """Heads that were sent before the revocation could be kept for later, with the questions still to come."""
    house = fresh()
    token, kept = TokenFile(house.folder / "clinic.tokens").create("ann", "analyst")
    if asked:
        assert house.ask(COUNT, "0.25").status == 200
    file, looked = house.service.places["clinic"].tokens, threading.Event()
    find = file.find
    monkeypatch.setattr(file, "find", lambda text: (find(text), looked.set())[0])
    body = json.dumps({"sql": COUNT, "epsilon": "0.25"}).encode()
    connection = HTTPConnection("127.0.0.1", house.port, timeout=60)
    connection.putrequest("POST", f"/v1/datasets/clinic/{path}")
    for name, value in {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}.items():
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body[:5])
    assert looked.wait(60)
    TokenFile(house.folder / "clinic.tokens").revoke(kept.id)
    connection.send(body[5:])
    assert connection.getresponse().status == 401
    connection.close()
    assert house.charges() == int(asked)


def test_the_commands_make_list_and_revoke_on_the_record(tmp_path):
    serving.write_house(tmp_path)
    policy, run = str(tmp_path / "clinic.toml"), CliRunner().invoke
    made = run(
        command, ["create", policy, "Ann", "--role", "analyst", "--epsilon", "1", "--daily", "0.5", "--expires", "90d"]
    )
    assert made.exit_code == 0
    text = made.stdout
    assert re.fullmatch(r"discreet_\w{12}_[\w-]{43}\n", text)  # alone on standard output
    assert (
        TokenFile(tmp_path / "clinic.tokens").find(text.strip()).allowance.daily.epsilon
        == Budget(epsilon="0.5").epsilon
    )
    listed = json.loads(run(command, ["list", policy, "--json"]).stdout)["tokens"]
    assert [(entry["name"], entry["role"], entry["state"]) for entry in listed] == [("ann", "analyst", "valid")]
    assert text.strip() not in json.dumps(listed)
    assert run(command, ["revoke", policy, "ann"]).exit_code == 0
    assert TokenFile(tmp_path / "clinic.tokens").find(text.strip()) is None
    with SqliteStore(tmp_path / "clinic.ledger") as store:
        acts = [row.why for row in Ledger(store).history("clinic") if row.kind == "amend"]
        assert [why.split()[:2] for why in acts] == [["made", "token"], ["revoked", "token"]]
        assert not any(text[22:-1] in why for why in acts)
    both = run(command, ["create", policy, str(tmp_path / "school.toml"), "eve", "--role", "analyst"])
    assert "no cap" in both.stderr  # closed by default: the clinic names nobody eve
    with serving.running(tmp_path, tokens={"eve": both.stdout.strip()}) as house:
        assert [entry["name"] for entry in house.call("GET", "/v1/datasets", "eve").json["datasets"]] == [
            "clinic",
            "school",
        ]
        assert house.ask(COUNT, "0.1", who="eve").status == 402
    for odd in (
        ["create", policy, "x", "--role", "king"],
        ["create", policy, "x", "--role", "analyst", "--expires", "soon"],
        ["revoke", policy, "nobody"],
    ):
        assert run(command, odd).exit_code != 0
