"""Addresses of servers in a policy: they name a place and a user, and hold no secret."""

from urllib.parse import parse_qsl, unquote, urlsplit

from discreet.errors import InvalidParameter

_SECRET = {"password", "sslpassword", "token", "passwd", "pwd", "secret", "oauth_client_secret"}
_HINT = {
    "postgresql": "put it into PGPASSWORD, ~/.pgpass, or a service file: postgresql:///?service=clinic",
    "sc": "put it into the environment variable DISCREET_SPARK_TOKEN",
}


def postgres_address(address: str, where: str = "[dataset] address") -> str:
    """The address, if it is one of PostgreSQL without a password.

    >>> postgres_address("postgresql://curator@db.example.org/records?sslmode=verify-full")[:23]
    'postgresql://curator@db'
    >>> postgres_address("postgresql://curator:hush@db.example.org/records")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: [dataset] address: got 'postgresql://…', expected an address without a ...
    """
    if not isinstance(address, str) or not address.startswith(("postgresql://", "postgres://")):
        raise InvalidParameter(where, "another text", "postgresql://user@host:port/database, or ?service=NAME")
    refuse_secrets(address, where)
    return address


def refuse_secrets(address: str, where: str = "[dataset] address") -> None:
    """Refuse an address that holds a password or a token; nothing of it is repeated.

    >>> refuse_secrets("sc://spark.example.org:15002/;token=abc")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: [dataset] address: got 'sc://…', expected an address without a password; ...
    """
    scheme = address.partition("://")[0]
    try:
        parts = urlsplit(address)
        user, query = parts.netloc.rpartition("@")[0], parts.query + ";" + parts.path
    except ValueError:
        user, query = "", address
    names = [name.strip().casefold() for name, _ in parse_qsl(query.replace(";", "&"), keep_blank_values=True)]
    if ":" in unquote(user) or _SECRET & {name.removeprefix("/") for name in names}:
        hint = _HINT.get("postgresql" if scheme == "postgres" else scheme, "")
        raise InvalidParameter(where, f"{scheme}://…", "an address without a password", hint)


def shown_address(address: str) -> str:
    """The address without its options.

    >>> shown_address("postgresql://curator@db.example.org/records?sslmode=verify-full")
    'postgresql://curator@db.example.org/records'
    """
    return address.partition("?")[0].partition(";")[0]
