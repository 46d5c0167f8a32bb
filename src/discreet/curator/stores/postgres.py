"""A ledger in a PostgreSQL database: for several server processes, on several machines.

**One after another.** A batch takes the advisory lock of the ledger (`_LOCK`) first, in the order of arrival, and holds
it until its transaction ends. So works see each other whole, a transaction never has to be repeated, and no process is
left behind by a busy one. Each statement sees what was committed before it (READ COMMITTED), so the first one after the
lock sees all batches before.

**Group commit** (`GroupCommit`): all works that wait in a process become one transaction, each in a savepoint of its
own; callers share one wait for the server's disk. `synchronous_commit` is on, whatever the role's settings are.

**A lost connection** leaves a batch kept as a whole or not at all, as the server decides; the callers are told that a
charge may have been made. A charge may be wasted, never lost.

Everything is in the schema `discreet_ledger`. Triggers refuse what a ledger never does. Passwords are libpq's business
(PGPASSWORD, ~/.pgpass, a service file); an address with one is refused.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.curator.engines import postgres_address, shown_address
from discreet.curator.stores import COLUMNS, MOST, GroupCommit, Head, Kept, Row, Rows
from discreet.errors import LedgerConflict, LedgerDamaged, LedgerError, LedgerTooNew, LedgerUnavailable, MissingExtra

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

_LOCK = 0x646973637265_6C  # "discrel": the advisory lock of the ledger of a database
_FORM = 1
_SESSION = (
    "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
    "WHEN 'local' THEN 'on' ELSE current_setting('synchronous_commit') END, false), "
    "set_config('search_path', 'discreet_ledger, pg_catalog', false), set_config('client_encoding', 'UTF8', false), "
    "set_config('default_transaction_read_only', 'off', false), set_config('idle_in_transaction_session_timeout', "
    "'60000', false), set_config('statement_timeout', '0', false)"
)
_FIXED = ", ".join(f'"{name}"' for name in COLUMNS if name != "text")
_TABLES = f"""
CREATE SCHEMA discreet_ledger;
CREATE TABLE discreet_ledger.form (version integer NOT NULL);
INSERT INTO discreet_ledger.form VALUES ({_FORM});
CREATE TABLE discreet_ledger.rows (
    account text COLLATE "C" NOT NULL, kind text NOT NULL CHECK (kind IN ('open', 'amend', 'charge', 'answer')),
    total text NOT NULL, own text NOT NULL, who text COLLATE "C" NOT NULL, statement text, text text, loss text,
    settings text, why text, number bigint PRIMARY KEY, "when" text NOT NULL, clock text, version integer NOT NULL,
    previous text NOT NULL, hash text NOT NULL);
CREATE INDEX chains ON discreet_ledger.rows (account, number);
CREATE INDEX analysts ON discreet_ledger.rows (account, who, number) WHERE kind = 'charge';
CREATE INDEX settings ON discreet_ledger.rows (account, number) WHERE kind IN ('open', 'amend');
CREATE TABLE discreet_ledger.heads (account text COLLATE "C" PRIMARY KEY, length bigint NOT NULL,
    number bigint NOT NULL REFERENCES discreet_ledger.rows (number), hash text NOT NULL);
CREATE TABLE discreet_ledger.answers (key text PRIMARY KEY,
    charge bigint NOT NULL REFERENCES discreet_ledger.rows (number),
    row bigint NOT NULL UNIQUE REFERENCES discreet_ledger.rows (number), answer bytea NOT NULL);
CREATE TABLE discreet_ledger.salts (account text COLLATE "C" PRIMARY KEY, salt bytea NOT NULL);
CREATE FUNCTION discreet_ledger.refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$;
CREATE FUNCTION discreet_ledger.refuse_text() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF NEW.text IS NOT NULL THEN RAISE EXCEPTION 'a text may be erased, not changed'; END IF;
    RETURN NEW; END $$;
CREATE TRIGGER rows_stay_fixed BEFORE UPDATE OF {_FIXED} ON discreet_ledger.rows
    FOR EACH STATEMENT EXECUTE FUNCTION discreet_ledger.refuse();
CREATE TRIGGER texts_stay_fixed BEFORE UPDATE OF text ON discreet_ledger.rows
    FOR EACH ROW EXECUTE FUNCTION discreet_ledger.refuse_text();
CREATE TRIGGER rows_stay BEFORE DELETE OR TRUNCATE ON discreet_ledger.rows
    FOR EACH STATEMENT EXECUTE FUNCTION discreet_ledger.refuse();
CREATE TRIGGER answers_stay_fixed BEFORE UPDATE ON discreet_ledger.answers
    FOR EACH STATEMENT EXECUTE FUNCTION discreet_ledger.refuse();
CREATE TRIGGER salts_stay_fixed BEFORE UPDATE ON discreet_ledger.salts
    FOR EACH STATEMENT EXECUTE FUNCTION discreet_ledger.refuse();
"""  # noqa: S608 - names of our own


class PostgresStore(GroupCommit):
    """The ledger in the database at `address`, made there where it is missing.

    `patience` is how many seconds to wait before giving up with `LedgerUnavailable`.
    """

    _connection: "Connection | None"

    def __init__(self, address: str, *, create: bool = True, patience: float = 30.0) -> None:
        self._address, self._create = postgres_address(address, "ledger"), create
        self._shown = shown_address(address)
        super().__init__(patience)
        try:
            self.transact(lambda rows: rows.last())
        except BaseException:
            self.close()
            raise

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run the work in the next batch; when this returns, what it wrote is on the server's disk."""
        if self._process != os.getpid():
            raise LedgerUnavailable("this process was forked; open the ledger after the fork")
        return super().transact(work)

    def _commit(self) -> None:
        psycopg = _psycopg()
        try:
            connection = self._connected()
            connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            self._run(connection)
            connection.execute("COMMIT")
        except psycopg.Error as error:
            self._release()
            raise self._explained(error) from None
        except BaseException:
            self._release()
            raise

    def _run(self, connection: "Connection") -> None:
        psycopg = _psycopg()
        rows = _PostgresRows(connection)
        for waiter in self._waiting_works():
            connection.execute("SAVEPOINT work")
            try:
                waiter.result = waiter.work(rows)
            except BaseException as error:  # whatever a work raises is its caller's
                if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                    raise  # the server failed, not the work: so does the batch
                waiter.error = self._explained(error) if isinstance(error, psycopg.Error) else error
                connection.execute("ROLLBACK TO SAVEPOINT work")
            connection.execute("RELEASE SAVEPOINT work")

    def _connected(self) -> "Connection":
        if self._connection is None:
            seconds = max(2, round(self._patience))
            connection = _psycopg().connect(
                self._address, autocommit=True, connect_timeout=seconds, application_name="discreet ledger"
            )
            try:
                connection.execute(_SESSION)
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: "Connection") -> None:
        """Recognize the ledger, or make it, under its lock."""
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            found = connection.execute("SELECT to_regclass('discreet_ledger.form') IS NOT NULL").fetchone()
            if found != (True,):
                if not self._create:
                    raise LedgerUnavailable(f"there is no ledger in {self._shown}; name an existing one")
                connection.execute(_TABLES)
            version = connection.execute("SELECT max(version) FROM discreet_ledger.form").fetchone()
        if version != (_FORM,):
            raise LedgerTooNew(f"the ledger in {self._shown} has another version; use the discreet that made it")
        self._create = False  # a ledger that vanishes later is not made anew: a fresh one would be a fresh budget

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()  # rolls back

    def _start_anew(self) -> None:
        super()._start_anew()
        self._process = os.getpid()
        self._connection = None

    def _explained(self, error: BaseException) -> LedgerError:
        errors = _psycopg().errors
        said = " ".join(str(error).split("\n")[0].split())[:200]
        match error:
            case errors.UndefinedTable() | errors.UndefinedColumn() | errors.InvalidSchemaName():
                return LedgerDamaged(
                    f"the schema discreet_ledger in {self._shown} is no ledger; restore a backup ({said})"
                )
            case errors.InsufficientPrivilege():
                what = "this role may not use it; GRANT USAGE on the schema, SELECT and INSERT on its tables"
            case errors.DiskFull() | errors.ReadOnlySqlTransaction():
                what = "the server cannot write"
            case _:
                what = "the server does not answer, or the connection was lost: a charge may have been made"
        return LedgerUnavailable(f"the ledger in {self._shown}: {what} ({said})")


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("psycopg", "postgres") from None
    return psycopg


_ALL = ", ".join(f'"{name}"' for name in COLUMNS)
_ROW = f"SELECT {_ALL} FROM rows "  # noqa: S608 - names of our own
_INSERT = f"INSERT INTO rows ({_ALL}) VALUES ({', '.join(['%s'] * len(COLUMNS))}) ON CONFLICT DO NOTHING"  # noqa: S608
_HEAD = (
    "INSERT INTO heads VALUES (%s, 1, %s, %s) ON CONFLICT (account) DO UPDATE "
    "SET length = heads.length + 1, number = excluded.number, hash = excluded.hash"
)
_ANSWER = (
    "INSERT INTO answers SELECT %s, c.number, r.number, %s FROM rows c, rows r WHERE c.number = %s AND r.number = %s "
    "ON CONFLICT DO NOTHING"
)


class _PostgresRows:
    """The row operations, each one or two statements."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(sql, values)

    def last(self) -> int:
        return int(self._execute("SELECT coalesce(max(number), 0) FROM rows").fetchone()[0])

    def head(self, account: str) -> Head | None:
        sql = "SELECT account, length, number, hash FROM heads WHERE account = %s"
        head = self._execute(sql, [account]).fetchone()
        return head and Head(*head)

    def heads(self) -> Sequence[Head]:
        sql = "SELECT account, length, number, hash FROM heads ORDER BY account"
        return [Head(*head) for head in self._execute(sql)]

    def row(self, number: int) -> Row | None:
        return self._one("WHERE number = %s", number)

    def latest(self, account: str, *, before: int = MOST) -> Row | None:
        return self._one("WHERE account = %s AND number < %s ORDER BY number DESC LIMIT 1", account, before)

    def settings(self, account: str) -> Row | None:
        return self._one("WHERE account = %s AND kind IN ('open', 'amend') ORDER BY number DESC LIMIT 1", account)

    def latest_by(self, account: str, analyst: str, *, before: int = MOST) -> Row | None:
        where = "WHERE account = %s AND who = %s AND number < %s AND kind = 'charge' ORDER BY number DESC LIMIT 1"
        return self._one(where, account, analyst, before)

    def spellings(self, account: str) -> Sequence[str]:
        names = self._execute("SELECT DISTINCT who FROM rows WHERE account = %s AND kind = 'charge'", [account])
        return sorted(who for (who,) in names)

    def after(self, number: int, *, limit: int, account: str | None = None) -> Sequence[Row]:
        where = "WHERE number > %s AND (%s::text IS NULL OR account = %s) ORDER BY number LIMIT %s"
        return [Row(*row) for row in self._execute(_ROW + where, [number, account, account, limit])]

    def append(self, row: Row) -> None:
        if not self._execute(_INSERT, [getattr(row, name) for name in COLUMNS]).rowcount:
            raise LedgerConflict(f"row {row.number} cannot be appended: its number is taken")
        self._execute(_HEAD, [row.account, row.number, row.hash])

    def keep(self, answer: Kept) -> None:
        if not self._execute(_ANSWER, [answer.key, answer.answer, answer.charge, answer.row]).rowcount:
            raise LedgerConflict("an answer is kept under this key, or there is no such row")

    def kept(self, key: str) -> Kept | None:
        return self._answer("WHERE key = %s", key)

    def next_kept(self, number: int) -> Kept | None:
        return self._answer("WHERE row > %s ORDER BY row LIMIT 1", number)

    def unsealed(self) -> int:
        return 0

    def salt(self, account: str) -> bytes | None:
        row = self._execute("SELECT salt FROM salts WHERE account = %s", [account]).fetchone()
        return None if row is None else bytes(row[0])

    def keep_salt(self, account: str, salt: bytes) -> None:
        if not self._execute("INSERT INTO salts VALUES (%s, %s) ON CONFLICT DO NOTHING", [account, salt]).rowcount:
            raise LedgerConflict("this account has a salt already")

    def _one(self, where: str, *values: str | int) -> Row | None:
        row = self._execute(_ROW + where, values).fetchone()
        return row and Row(*row)

    def _answer(self, where: str, value: str | int) -> Kept | None:
        row = self._execute("SELECT key, charge, row, answer FROM answers " + where, [value]).fetchone()  # noqa: S608
        return None if row is None else Kept(row[0], row[1], row[2], bytes(row[3]))
