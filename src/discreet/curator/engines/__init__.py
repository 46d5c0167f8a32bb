"""Where private rows are: an engine computes exact aggregates over them, and knows nothing of ε.

What every engine promises (tests/contracts/test_engine.py): each table of the catalog can be read under its own quoted
name, with the declared columns in the declared types and no others; no value of a row can make a query over them fail,
since a failure would tell of that row; what is read of a row does not depend on the other rows; and no row of a private
table is large, since texts are cut to their first `catalog.TEXT` characters, and names of units are NULL where they are
longer than four bytes for each of those.

Addresses of servers in a policy: they name a place and a user, and hold no secret.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import parse_qsl, unquote, urlsplit

from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow


class Engine(Protocol):
    """Exact aggregates in SQL of its dialect; knows rows, knows nothing of ε."""

    @property
    def dialect(self) -> str:
        """The SQL that it speaks, as sqlglot names it."""
        ...

    @property
    def version(self) -> str:
        """Names the data as they are now; other data, another name."""
        ...

    def fetch(self, sql: str, *, salt: str = "") -> "pyarrow.Table":
        """Run SQL that the planner generated; never the text of an analyst.

        `salt` is the value of the parameter `draw.SALT`, where the SQL has it. The gate gives it; without one, what is
        drawn is fair, but anybody could compute it.
        """
        ...


class PublicEngine(Engine, Protocol):
    """An engine that also reads public tables, when a dataset is opened."""

    def fetch_public(self, sql: str, table: str) -> "pyarrow.Table":
        """The rows of a SELECT that reads one public table."""
        ...


@runtime_checkable
class Steady(Protocol):
    """An engine whose rows may change between two fetches, unless they are asked to stay."""

    def one_state(self) -> AbstractContextManager[None]:
        """Let all fetches of this thread see the same rows."""
        ...


def one_state(engine: Engine) -> AbstractContextManager[None]:
    """A block in which all fetches of this thread see the same rows, on every engine.

    >>> from discreet.curator.engines.duckdb import DuckDBEngine
    >>> isinstance(DuckDBEngine, Steady)  # a file that changes is noticed, and refused
    False
    """
    return engine.one_state() if isinstance(engine, Steady) else nullcontext()


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


def kept_alive(conninfo: Mapping[str, object]) -> dict[str, int]:
    """Options of libpq by which a server that vanished without a word is noticed within a minute, not in two hours.

    What an address says of them itself is left as it is.

    >>> kept_alive({"host": "db.example.org", "keepalives_idle": "300"})
    {'keepalives_interval': 10, 'keepalives_count': 3}
    """
    wanted = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
    return {name: value for name, value in wanted.items() if name not in conninfo}


def shown_address(address: str) -> str:
    """The address without its options.

    >>> shown_address("postgresql://curator@db.example.org/records?sslmode=verify-full")
    'postgresql://curator@db.example.org/records'
    """
    return address.partition("?")[0].partition(";")[0]
