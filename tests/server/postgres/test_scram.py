"""SCRAM: the right token gets in; a downgrade, a replay, another certificate and a guess do not."""

import base64
import hashlib
import hmac

import pytest

from discreet.errors import AccessDenied
from discreet.server.postgres.scram import PLAIN, PLUS, Exchange, mechanisms, unknown_verifier
from discreet.server.tokens import ScramVerifier

SECRET, BOUND = "discreet_0123456789ab_" + "x" * 43, b"c" * 32
VERIFIER = ScramVerifier.of(SECRET, b"s" * 16)


def client_final(first, bare, secret, header, bound=b""):
    """What an honest client answers (RFC 5802)."""
    fields = dict(part.split("=", 1) for part in first.decode().split(","))
    without = f"c={base64.b64encode(header.encode() + bound).decode()},r={fields['r']}"
    salted = hashlib.pbkdf2_hmac("sha256", secret.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    signed = f"{bare},{first.decode()},{without}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    server = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
    return f"{without},p={proof}".encode(), b"v=" + base64.b64encode(server)


def talk(*, secret=SECRET, verifier=VERIFIER, certificate=None, mechanism=PLAIN, header="n,,", bound=b""):
    exchange = Exchange(verifier, certificate)
    bare = "n=ann,r=clientnonce"
    first = exchange.first(mechanism, (header + bare).encode())
    final, expected = client_final(first, bare, secret, header, bound)
    return exchange, final, expected


def test_the_right_token_is_accepted_and_the_server_proves_itself():
    exchange, final, expected = talk()
    assert exchange.last(final) == expected


def test_the_vector_of_rfc_7677():
    verifier = ScramVerifier.of("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    exchange = Exchange(verifier, None)
    exchange._own = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = exchange.first(PLAIN, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.last(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_with_a_certificate_the_proof_is_bound_to_it():
    header = "p=tls-server-end-point,,"
    exchange, final, expected = talk(certificate=BOUND, mechanism=PLUS, header=header, bound=BOUND)
    assert exchange.last(final) == expected
    exchange, final, _ = talk(certificate=BOUND, mechanism=PLUS, header=header, bound=b"d" * 32)
    with pytest.raises(AccessDenied, match="another certificate"):
        exchange.last(final)


@pytest.mark.parametrize(
    "given",
    [
        {"certificate": BOUND, "header": "y,,"},  # the client was told that there is no binding
        {"certificate": None, "mechanism": PLUS, "header": "p=tls-server-end-point,,"},
        {"certificate": BOUND, "mechanism": PLUS, "header": "n,,"},
        {"certificate": BOUND, "header": "p=tls-server-end-point,,"},
        {"certificate": BOUND, "mechanism": PLUS, "header": "p=tls-unique,,"},
        {"mechanism": "PLAIN"},
    ],
)
def test_a_downgrade_is_refused(given):
    with pytest.raises(AccessDenied):
        talk(**given)


def test_a_wrong_token_a_replay_and_a_second_try_are_refused():
    exchange, final, _ = talk(secret=SECRET[:-1] + "y")
    with pytest.raises(AccessDenied, match="does not fit"):
        exchange.last(final)
    first, final, _ = talk()
    first.last(final)
    with pytest.raises(AccessDenied):
        first.last(final)
    other, _, _ = talk()
    with pytest.raises(AccessDenied, match="nonce"):
        other.last(final)


def test_nobody_fits_the_verifier_of_an_unknown_name_and_it_is_always_the_same():
    one, two = unknown_verifier("eve", b"k"), unknown_verifier("eve", b"k")
    assert one == two != unknown_verifier("mallory", b"k")
    assert len(one.salt) == 16
    exchange, final, _ = talk(verifier=one)
    with pytest.raises(AccessDenied):
        exchange.last(final)


def test_mechanisms_are_offered_only_where_they_can_be_kept():
    assert mechanisms(BOUND) == [PLUS, PLAIN]
    assert mechanisms(None) == [PLAIN]
