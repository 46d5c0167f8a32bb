"""A ledger in a PostgreSQL database: for several server processes, on several machines.

**One after another.** A batch takes the advisory lock of the ledger (`_LOCK`) first, in the order of arrival, and holds
it until its transaction ends. So works see each other whole, a transaction never has to be repeated, and no process is
left behind by a busy one. Each statement sees what was committed before it (READ COMMITTED), so the first one after the
lock sees all batches before.

**Group commit** (`GroupCommit`): all works that wait in a process become one transaction, each in a savepoint of its
own; callers share one wait for the server's disk, for which `synchronous_commit` is on, whatever the role says.

**Few waits under the lock.** While one process holds the lock all others wait, so a charge takes two round trips: with
the lock come the last rows of the account and the analyst that were charged last (`_LastRows`), and what a work writes
goes out with the end of its transaction. What is not at hand is asked of the server, after what was written before.
The wait for the disk comes after the lock (`_END`): the commit itself is asynchronous, and callers return when the log
is flushed up to it. Proof that nothing told is lost: the log of the server is one sequence, of which a crash leaves a
beginning; a batch comes after all batches that it saw, so one that is flushed has all of those before it.

**A lost connection** leaves a batch kept as a whole or not at all, as the server decides; the callers are told that a
charge may have been made. A charge may be wasted, never lost.

Everything is in the schema `discreet_ledger`. Triggers refuse what a ledger never does. Passwords are libpq's business
(PGPASSWORD, ~/.pgpass, a service file); an address with one is refused.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.curator.engines import kept_alive, postgres_address, shown_address
from discreet.curator.stores import COLUMNS, MOST, CachedAnswer, GroupCommit, Head, Row, Rows
from discreet.errors import LedgerConflict, LedgerDamaged, LedgerError, LedgerTooNew, LedgerUnavailable, MissingExtra

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off"
_END = (
    "COMMIT; SELECT pg_logical_emit_message(true, 'discreet', '') "
    "WHERE pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()"
)
_LOCK = 0x646973637265_6C  # "discrel": the advisory lock of the ledger of a database
_FORM = 1
_SESSION = (
    "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
    "WHEN 'local' THEN 'on' ELSE current_setting('synchronous_commit') END, false), "
    "set_config('search_path', 'discreet_ledger, pg_catalog', false), set_config('client_encoding', 'UTF8', false), "
    "set_config('default_transaction_read_only', 'off', false), set_config('idle_in_transaction_session_timeout', "
    "'60000', false), set_config('statement_timeout', '0', false), "
    "set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false), "
    "set_config('enable_bitmapscan', 'off', false)"
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
    _hot: tuple[str, str] | None

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
            rows = self._begun()
            self._run(rows)
            self._hot = rows.hot
        except psycopg.Error as error:
            self._release()
            raise self._explained(error) from None
        except BaseException:
            self._release()
            raise

    def _begun(self) -> "_PostgresRows":
        """A transaction that holds the lock; a connection that was lost while it was idle is made anew, once."""
        idle, psycopg = self._connection, _psycopg()
        rows = _PostgresRows(self._connected(), self._hot)
        try:
            rows.begin()
        except (psycopg.OperationalError, psycopg.InterfaceError):
            if idle is None or not idle.closed:
                raise
            self._release()  # nothing was written in this transaction, so nothing is written twice
            rows = _PostgresRows(self._connected(), self._hot)
            rows.begin()
        return rows

    def _run(self, rows: "_PostgresRows") -> None:
        works = self._waiting_works()
        first = waiter = next(works, None)
        while waiter is not None:
            try:
                waiter.result = waiter.work(rows)
            except BaseException as error:  # whatever a work raises is its caller's
                waiter.error = self._of_work(error)
                rows.forget()
            following = next(works, None)
            try:
                rows.write(last=following is None, alone=waiter is first and following is None)
            except BaseException as error:
                waiter.error = self._of_work(error)
                rows.forget()
                rows.write(last=following is None)
            waiter = following

    def _of_work(self, error: BaseException) -> BaseException:
        """What the caller of a work is told; where the server failed, not the work, so does the batch."""
        psycopg = _psycopg()
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            raise error
        return self._explained(error) if isinstance(error, psycopg.Error) else error

    def _connected(self) -> "Connection":
        if self._connection is None:
            seconds = max(2, round(self._patience))
            psycopg = _psycopg()
            options = kept_alive(psycopg.conninfo.conninfo_to_dict(self._address))
            connection = psycopg.connect(
                self._address, autocommit=True, connect_timeout=seconds, application_name="discreet ledger", **options
            )
            try:
                connection.execute(_SESSION)
                self._prepare(connection)
                for statement in (_STATE, _APPEND):
                    connection.execute(statement.encode())
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: "Connection") -> None:
        """Recognize the ledger, or make it, under its lock."""
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            result = connection.execute("SELECT to_regclass('discreet_ledger.form') IS NOT NULL").fetchone()
            if result != (True,):
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
        self._hot = None

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
_TYPES = {"number": "bigint", "version": "integer"}
_APPEND = (
    f"PREPARE append({', '.join(_TYPES.get(name, 'text') for name in COLUMNS)}) AS "  # noqa: S608 - names of our own
    f"WITH r AS (INSERT INTO rows ({_ALL}) "
    f"VALUES ({', '.join(f'${place}' for place in range(1, len(COLUMNS) + 1))}) RETURNING account, number, hash) "
    "INSERT INTO heads SELECT account, 1, number, hash FROM r ON CONFLICT (account) DO UPDATE "
    "SET length = heads.length + 1, number = excluded.number, hash = excluded.hash"
)
_APPENDED = f"EXECUTE append({', '.join(['%s'] * len(COLUMNS))})"
_ANSWER = (
    "INSERT INTO answers SELECT %s, c.number, r.number, %s FROM rows c, rows r WHERE c.number = %s AND r.number = %s "
    "ON CONFLICT DO NOTHING"
)
_SETTINGS = "WHERE account = %s AND kind IN ('open', 'amend') ORDER BY number DESC LIMIT 1"
_AHEAD = {
    "rows": ("account = $1", 4),  # an answer, its charge, and what its totals are derived from (`charges.Derived`)
    "charges": ("account = $1 AND who = $2 AND kind = 'charge'", 2),
    "settings": ("account = $1 AND kind IN ('open', 'amend')", 1),
}
"""The last rows that are fetched with the lock: which, and how many."""

_LISTED = ", ".join(f'q."{name}"' for name in COLUMNS)
_ENDS = [
    f"(SELECT json_agg(json_build_array({_LISTED}) ORDER BY number DESC) FROM "  # noqa: S608
    f"(SELECT * FROM rows WHERE {which} ORDER BY number DESC LIMIT {most}) q)"
    for which, most in _AHEAD.values()
]
_STATE = (
    "PREPARE state(text, text) AS SELECT (SELECT coalesce(max(number), 0) FROM rows), "  # noqa: S608
    f"(SELECT json_build_array(account, length, number, hash) FROM heads WHERE account = $1), {', '.join(_ENDS)}"
)

Statement = tuple[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class _LastRows:
    """The last rows of some kind, latest first; `whole` where there are no others."""

    rows: tuple[Row, ...]
    whole: bool

    def latest(self, before: int) -> tuple[bool, Row | None]:
        """Whether it is known here, and the last row with a smaller number."""
        row = next((row for row in self.rows if row.number < before), None)
        return row is not None or self.whole, row

    def with_row(self, row: Row) -> "_LastRows":
        return _LastRows((row, *self.rows), self.whole)


@dataclass(frozen=True, slots=True)
class _State:
    """What is known of the ledger in this transaction without asking the server again.

    It is true as long as the lock is held: nobody else writes, and `append` is the only way in which works write rows.
    """

    last: int | None = None
    heads: Mapping[str, Head | None] = field(default_factory=dict)
    ends: Mapping[tuple[str, ...], _LastRows] = field(default_factory=dict)

    def after(self, row: Row) -> "_State":
        heads, head = dict(self.heads), self.heads.get(row.account)
        if row.account in heads:
            heads[row.account] = Head(row.account, head.length + 1 if head else 1, row.number, row.hash)
        keys: list[tuple[str, ...]] = [("rows", row.account)]
        keys += [("charges", row.account, row.who)] if row.kind == "charge" else []
        keys += [("settings", row.account)] if row.kind in ("open", "amend") else []
        longer = {key: self.ends[key].with_row(row) for key in keys if key in self.ends}
        return _State(row.number, heads, {**self.ends, **longer})


class _PostgresRows:
    """The row operations of one transaction; what they write is held back until the work ends, or reads."""

    def __init__(self, connection: "Connection", hot: tuple[str, str] | None) -> None:
        self._connection, self.hot = connection, hot
        self._state = self._before = _State()
        self._held: list[Statement] = []
        self._in_work = self._ended = False

    # The transaction

    def begin(self) -> None:
        """Take the lock, and what is asked next, if it is what was asked last."""
        start: list[Statement] = [(_BEGIN, ()), ("SELECT pg_advisory_xact_lock(%s)", [_LOCK])]
        if self.hot is None:
            self._send(start)
            return
        account, analyst = self.hot
        last, head, *result = self._send([*start, ("EXECUTE state(%s, %s)", [account, analyst])]).fetchone()
        keys: list[tuple[str, ...]] = [
            (name, account, analyst) if name == "charges" else (name, account) for name in _AHEAD
        ]
        ends = {
            key: _LastRows(tuple(Row(*row) for row in rows or ()), len(rows or ()) < most)
            for key, rows, (_, most) in zip(keys, result, _AHEAD.values(), strict=True)
        }
        self._state = self._before = _State(last, {account: head and Head(*head)}, ends)

    def write(self, *, last: bool, alone: bool = False) -> None:
        """Send what the work wrote; with the last one, make all of it durable. One that is alone needs no savepoint."""
        if self._ended:
            return
        saved = bool(self._held) and not (alone or self._in_work)
        end = [("RELEASE SAVEPOINT work", ())] if saved or self._in_work else []
        self._send([*self._held, *end, *([(_END, ())] if last else [])], saved=saved)
        self._held, self._in_work, self._before = [], False, self._state

    def forget(self) -> None:
        """Undo what the work wrote."""
        self._held, self._state = [], self._before
        if self._in_work:
            self._send([("ROLLBACK TO SAVEPOINT work", ())])
        elif self._aborted:  # it was alone
            self._ended = True
            self._send([("ROLLBACK", ())])

    @property
    def _aborted(self) -> bool:
        """Whether a statement failed in the transaction."""
        return self._connection.info.transaction_status is _psycopg().pq.TransactionStatus.INERROR

    def _send(self, statements: Sequence[Statement], *, saved: bool = False) -> Any:
        """Run statements in one round trip, in a savepoint if so wanted; what the last one gives."""
        cursor = _psycopg().ClientCursor(self._connection)
        statements = [("SAVEPOINT work", ()), *statements] if saved else statements
        if not statements:
            return cursor
        text, values = "; ".join(sql for sql, _ in statements), [value for _, some in statements for value in some]
        try:
            cursor.execute(text.encode(), values)
        except _psycopg().Error:
            self._in_work = self._in_work or (saved and self._aborted)  # if nothing was sent, there is no savepoint
            raise
        self._in_work = self._in_work or saved
        while cursor.nextset():
            pass
        return cursor

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Ask the server, after what the work wrote; a statement that fails is undone with its work."""
        held, self._held = self._held, []
        return self._send([*held, (sql, values)], saved=not self._in_work)

    # Reading

    def last(self) -> int:
        if self._state.last is None:
            number = int(self._execute("SELECT coalesce(max(number), 0) FROM rows").fetchone()[0])
            self._state = replace(self._state, last=number)
        return self._state.last or 0

    def head(self, account: str) -> Head | None:
        if account in self._state.heads:
            return self._state.heads[account]
        sql = "SELECT account, length, number, hash FROM heads WHERE account = %s"
        head = self._execute(sql, [account]).fetchone()
        return head and Head(*head)

    def heads(self) -> Sequence[Head]:
        sql = "SELECT account, length, number, hash FROM heads ORDER BY account"
        return [Head(*head) for head in self._execute(sql)]

    def row(self, number: int) -> Row | None:
        return self._one("WHERE number = %s", number)

    def latest(self, account: str, *, before: int = MOST) -> Row | None:
        where = "WHERE account = %s AND number < %s ORDER BY number DESC LIMIT 1"
        return self._latest(("rows", account), before, where, account, before)

    def settings(self, account: str) -> Row | None:
        return self._latest(("settings", account), MOST, _SETTINGS, account)

    def latest_by(self, account: str, analyst: str, *, before: int = MOST) -> Row | None:
        self.hot = (account, analyst) if before == MOST else self.hot
        where = "WHERE account = %s AND who = %s AND number < %s AND kind = 'charge' ORDER BY number DESC LIMIT 1"
        return self._latest(("charges", account, analyst), before, where, account, analyst, before)

    def spellings(self, account: str) -> Sequence[str]:
        names = self._execute("SELECT DISTINCT who FROM rows WHERE account = %s AND kind = 'charge'", [account])
        return sorted(who for (who,) in names)

    def after(self, number: int, *, limit: int, account: str | None = None) -> Sequence[Row]:
        where = "WHERE number > %s AND (%s::text IS NULL OR account = %s) ORDER BY number LIMIT %s"
        return [Row(*row) for row in self._execute(_ROW + where, [number, account, account, limit])]

    def cached(self, key: str) -> CachedAnswer | None:
        return self._answer("WHERE key = %s", key)

    def next_cached(self, number: int) -> CachedAnswer | None:
        return self._answer("WHERE row > %s ORDER BY row LIMIT 1", number)

    def unsealed(self) -> int:
        return 0

    def salt(self, account: str) -> bytes | None:
        row = self._execute("SELECT salt FROM salts WHERE account = %s", [account]).fetchone()
        return None if row is None else bytes(row[0])

    def _latest(self, key: tuple[str, ...], before: int, where: str, *values: str | int) -> Row | None:
        known, row = self._state.ends[key].latest(before) if key in self._state.ends else (False, None)
        return row if known else self._one(where, *values)

    def _one(self, where: str, *values: str | int) -> Row | None:
        row = self._execute(_ROW + where, values).fetchone()
        return row and Row(*row)

    def _answer(self, where: str, value: str | int) -> CachedAnswer | None:
        row = self._execute("SELECT key, charge, row, answer FROM answers " + where, [value]).fetchone()  # noqa: S608
        return None if row is None else CachedAnswer(row[0], row[1], row[2], bytes(row[3]))

    # Writing

    def append(self, row: Row) -> None:
        if row.number <= self.last():
            raise LedgerConflict(f"row {row.number} cannot be appended: its number is taken")
        self._held.append((_APPENDED, [getattr(row, name) for name in COLUMNS]))
        self._state = self._state.after(row)

    def cache(self, answer: CachedAnswer) -> None:
        if not self._execute(_ANSWER, [answer.key, answer.answer, answer.charge, answer.row]).rowcount:
            raise LedgerConflict("an answer is cached under this key, or there is no such row")

    def keep_salt(self, account: str, salt: bytes) -> None:
        if not self._execute("INSERT INTO salts VALUES (%s, %s) ON CONFLICT DO NOTHING", [account, salt]).rowcount:
            raise LedgerConflict("this account has a salt already")
