"""The boundary as it is meant: the server's user holds files, ledger and tokens; another user has a token and asks."""

import contextlib
import io
import json
import logging
import os
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests import serving
from tests.docs.test_commands import BLOCK, PORT, ROOT, end_servers, steps, wait_for, with_free_ports
from tests.server.test_faults import Process
from tests.serving import COUNT

import discreet
from discreet.server import run
from discreet.server.run import exposed
from discreet.server.session import Place
from discreet.server.tokens import TokenFile, new_token

OWNER, ANALYST = 47_101, 47_102
"""Numbers of users, of whom the system need not have heard."""


def as_user(number):
    return {"user": number, "group": number, "extra_groups": []}


@pytest.fixture
def python(tmp_path):
    """A Python that other users can run, and the environment in which it finds what this one finds."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip(
            "two users of the operating system take root to become them; run the tests as root to see the boundary"
        )
    folders = [str(Path(discreet.__file__).parents[1]), *(path for path in sys.path if path.endswith("site-packages"))]
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(folders),
        "HOME": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    named = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for program in (sys.executable, shutil.which(named, path="/usr/local/bin:/usr/bin:/bin")):
        try:
            if program:
                subprocess.run(
                    [program, "-c", "import discreet, uvicorn"],
                    check=True,
                    env=env,
                    cwd="/",
                    timeout=60,
                    **as_user(ANALYST),
                )
                return program, env
        except (OSError, subprocess.SubprocessError):
            continue
    pytest.skip(
        "no Python of this version can be run by other users here; the boundary between two users was not tested"
    )


@pytest.fixture
def open_folder():
    """A folder that other users may pass through; pytest's own are closed again by each run of pytest that starts."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # noqa: S103
        yield Path(folder)


def test_an_analyst_in_another_account_asks_and_can_touch_nothing(python, open_folder):
    program, env = python
    home, log = open_folder / "curator", open_folder / "log"
    serving.write_house(home)
    token, _ = TokenFile(home / "clinic.tokens").create("ann", "analyst")
    for path in (home, *home.iterdir()):
        os.chown(path, OWNER, OWNER)
        os.chmod(path, 0o700 if path.is_dir() else 0o600)
    command = [program, "-m", "discreet", "serve", str(home / "clinic.toml"), "--port", "0"]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, env=env | {"HOME": str(home)}, cwd="/", stderr=errors, **as_user(OWNER)) as server,
    ):
        try:
            for _ in range(600):
                said = [json.loads(line) for line in log.read_text().splitlines() if "listening" in line]
                if said:
                    break
                assert server.poll() is None, log.read_text()
                time.sleep(0.05)
            asking = {**env, "DISCREET_URL": said[0]["listening"], "DISCREET_TOKEN": token}

            def run(*words):
                done = subprocess.run(
                    words,
                    check=False,
                    env=asking,
                    cwd="/",
                    capture_output=True,
                    text=True,
                    timeout=120,
                    **as_user(ANALYST),
                )
                return done.returncode, done.stdout + done.stderr

            code, text = run(program, "-m", "discreet", "ask", COUNT, "--epsilon", "0.5")
            assert code == 0, text
            assert "charged as #2 to clinic" in text
            for name in ("visits.csv", "clinic.toml", "clinic.tokens", "clinic.ledger"):
                assert (home / name).exists()
                assert run("/bin/cat", str(home / name))[0] != 0
                assert run("/bin/rm", "-f", str(home / name))[0] != 0
                assert (home / name).exists()
            assert run("/bin/kill", str(server.pid))[0] != 0
            code, text = run(program, "-m", "discreet", "ask", str(home / "clinic.toml"), COUNT, "--epsilon", "0.5")
            assert code != 0
            for name in ("clinic.ledger", "clinic.tokens"):
                assert (home / name).stat().st_mode & 0o077 == 0
        finally:
            server.terminate()
            assert server.wait(60) == 0


def test_the_tutorial_with_an_owner_and_an_analyst_in_two_accounts(python, open_folder):
    """Commands with a token are the analyst's, in another folder, where the owner's files are out of reach."""
    program, env = python
    folders = {OWNER: open_folder / "curator", ANALYST: open_folder / "analyst"}
    for user, folder in folders.items():
        folder.mkdir(mode=0o700)
        os.chown(folder, user, user)
    programs = open_folder / "bin"
    programs.mkdir()
    (programs / "discreet").write_text(f'#!/bin/sh\nexec {program} -m discreet "$@"\n')
    for path in (programs, programs / "discreet"):
        path.chmod(0o755)
    page, checker, users = (ROOT / "docs" / "guide" / "server.md").read_text(), OutputChecker(), []
    try:
        for _, block in BLOCK.findall(with_free_ports(page)):
            for command, expected in steps(block):
                user = ANALYST if "ann.token)" in command else OWNER
                home = folders[user]
                if user == ANALYST and not users.count(ANALYST):  # the owner gives ann her token
                    shutil.copy(folders[OWNER] / "ann.token", home)
                    os.chown(home / "ann.token", user, user)
                users.append(user)
                mine = env | {"HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin", "COLUMNS": "100"}
                with tempfile.TemporaryFile("w+") as out:  # a server would keep a pipe open
                    subprocess.run(
                        ["/bin/bash", "-c", command], env=mine, cwd=home, stdin=subprocess.DEVNULL, stdout=out,
                        stderr=subprocess.STDOUT, check=False, timeout=120, **as_user(user),
                    )  # fmt: skip
                    out.seek(0)
                    printed = out.read()
                if "& " in command and (port := PORT.search(command)):
                    wait_for(int(port[1]))
                assert not expected or checker.check_output(expected, printed, ELLIPSIS | NORMALIZE_WHITESPACE), printed
        assert users.count(ANALYST) >= 4
        assert users.count(OWNER) >= 8
    finally:
        end_servers(folders[OWNER])


def test_tls_by_flags_and_a_client_that_checks_it(tmp_path, monkeypatch):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")]),
    )
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256())
    )  # fmt: skip
    (tmp_path / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)
    serving.write_house(tmp_path)
    tokens = serving.make_tokens(tmp_path)
    server = Process(tmp_path, "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    try:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        with discreet.connect(f"https://localhost:{server.port}", token=tokens["ann"]) as data:
            assert not data.ask(COUNT, epsilon=1).receipt.free
        monkeypatch.setattr("discreet.client.transport._PAUSE", 0.001)
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(discreet.errors.ServerUnavailable):
            discreet.connect(f"https://localhost:{server.port}", token=tokens["ann"])
        with pytest.raises(ssl.SSLError):
            ssl.create_default_context().wrap_socket(
                socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost"
            )
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "tokens would travel open"),  # noqa: S104
        (["--tls-cert", "missing.pem"], "both, or none"),
        (["--tls-cert", "missing.pem", "--tls-key", "missing.pem"], "a file in PEM form"),
        (["--owner-log", "/nowhere/log"], "a file to write"),
        (["--allow-origin", "https://lab.example/"], "no / at its end"),
        (["--allow-origin", "*"], "an origin such as"),
    ],
)
def test_a_server_that_would_be_unsafe_does_not_start(tmp_path, options, words):
    from click.testing import CliRunner

    from discreet.cli.serve import serve

    serving.write_house(tmp_path)
    result = CliRunner().invoke(serve, [str(tmp_path / "clinic.toml"), "--port", "0", *options])
    assert result.exit_code != 0
    assert words in str(result.exception)


def test_what_other_users_can_read_or_replace_is_told(tmp_path):
    home = tmp_path / "curator"
    serving.write_house(home)
    tokens = TokenFile(home / "clinic.tokens")
    tokens.create("ann", "analyst")
    with contextlib.closing(Place(home / "clinic.toml")) as place:
        for path, mode in (("visits.csv", 0o600), ("clinic.toml", 0o644), (".", 0o755)):
            (home / path).chmod(mode)
        assert exposed([place]) == []
        (home / "visits.csv").chmod(0o640)
        (home / "clinic.tokens").chmod(0o606)
        (home / "clinic.toml").chmod(0o666)  # whoever writes it sets the budget
        home.chmod(0o777)
        assert exposed([place]) == [
            f"replace files in {home}: chmod go-w",
            f"read or write {home / 'clinic.tokens'}: chmod 600",
            f"read or write {home / 'visits.csv'}: chmod 600",
            f"write {home / 'clinic.toml'}: chmod go-w",
        ]
        home.chmod(0o1777)
        assert not [words for words in exposed([place]) if "replace" in words]
        home.chmod(0o755)


def test_the_log_of_the_owner_is_for_the_owner_alone(tmp_path, monkeypatch):
    for logger in (run.LOG, run.OWNER, logging.getLogger("uvicorn.error"), logging.getLogger("asyncio")):
        for name in ("handlers", "propagate", "level"):
            value = getattr(logger, name)
            monkeypatch.setattr(logger, name, list(value) if name == "handlers" else value)
    path = tmp_path / "owner.log"
    path.write_text("from before\n")
    path.chmod(0o644)
    stream = io.StringIO()
    run.log_to(stream, path)
    run.OWNER.error("charge #1 failed", exc_info=ValueError("patient 17"))
    assert "patient 17" in path.read_text()
    assert "patient 17" not in stream.getvalue()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for handler in run.OWNER.handlers:
        handler.close()


def test_the_address_that_a_named_proxy_states_is_the_one_that_is_throttled(tmp_path):
    serving.write_house(tmp_path)
    tokens = serving.make_tokens(tmp_path)
    server = Process(tmp_path, "--behind-proxy", "127.0.0.1")

    def status(token, address):
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": address}
            connection.request("GET", "/v1/datasets", headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    try:
        assert {status(new_token(), "192.0.2.1") for _ in range(11)} == {401}
        assert status(tokens["ann"], "192.0.2.1") == 429
        assert status(tokens["ann"], "192.0.2.2") == 200
        assert status(tokens["ann"], "192.0.2.1, 192.0.2.9") == 200  # the proxy saw 192.0.2.9; the rest is hearsay
    finally:
        assert server.stop() == 0
