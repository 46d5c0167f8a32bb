"""The tables of a ledger's SQLite file, and how a file of an older version becomes one of this version."""

import sqlite3
from pathlib import Path

from discreet.curator.stores import COLUMNS
from discreet.errors import LedgerDamaged, LedgerTooNew, LedgerUnavailable

APPLICATION = 0x64736372
"""The application id of a ledger file: "dscr"."""


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Recognize the file before anything is written to it; then settings, and the tables that are missing."""
    application, version, tables = (
        connection.execute(question).fetchone()[0]
        for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if (application, version, tables) != (0, 0, 0) and application != APPLICATION:
        raise LedgerDamaged(f"{path} is a SQLite database, but not a ledger; name another file")
    if version > len(STEPS):
        raise LedgerTooNew(
            f"the ledger {path} has version {version}, this discreet knows versions up to {len(STEPS)}; "
            "use the newer discreet that wrote it; nothing was changed"
        )
    if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
        raise LedgerUnavailable(f"the file system of {path} cannot hold a ledger: SQLite has no WAL there; use another")
    for setting in ("synchronous=FULL", "fullfsync=ON", "foreign_keys=OFF", "trusted_schema=OFF"):
        connection.execute(f"PRAGMA {setting}")
    if version < len(STEPS):
        connection.execute("BEGIN IMMEDIATE")
        for statement in (line for step in STEPS[version:] for line in step):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={len(STEPS)}")
        connection.execute("COMMIT")
    connection.execute("PRAGMA foreign_keys=ON")  # not before: a step may put a table in the place of another


_FIXED = ", ".join(f'"{name}"' for name in COLUMNS if name != "text")
_ROWS_STAY = (
    f"CREATE TRIGGER rows_stay_fixed BEFORE UPDATE OF {_FIXED} ON rows "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER texts_stay_fixed BEFORE UPDATE OF text ON rows WHEN new.text IS NOT NULL "
    "BEGIN SELECT RAISE(ABORT, 'a text may be erased, not changed'); END",
    "CREATE TRIGGER rows_stay BEFORE DELETE ON rows BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
)
_ANSWERS_STAY = (
    "CREATE TRIGGER answers_stay_fixed BEFORE UPDATE ON answers "
    "BEGIN SELECT RAISE(ABORT, 'an answer may be forgotten, not changed'); END"
)
STEPS = (
    (
        """CREATE TABLE rows (
            account TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('open', 'amend', 'charge')),
            total TEXT NOT NULL, own TEXT NOT NULL, who TEXT NOT NULL, statement TEXT, text TEXT, loss TEXT,
            settings TEXT, why TEXT, number INTEGER PRIMARY KEY, "when" TEXT NOT NULL, clock TEXT,
            version INTEGER NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT""",
        "CREATE INDEX chains ON rows (account, number)",
        "CREATE INDEX analysts ON rows (account, who, number) WHERE kind = 'charge'",
        "CREATE INDEX settings ON rows (account, number) WHERE kind <> 'charge'",
        """CREATE TABLE heads (account TEXT PRIMARY KEY, length INTEGER NOT NULL,
            number INTEGER NOT NULL REFERENCES rows (number), hash TEXT NOT NULL) STRICT""",
        """CREATE TABLE answers (key TEXT PRIMARY KEY, charge INTEGER NOT NULL REFERENCES rows (number),
            answer BLOB NOT NULL) STRICT""",
        *_ROWS_STAY,
        _ANSWERS_STAY,
    ),
    (
        "CREATE TABLE salts (account TEXT PRIMARY KEY, salt BLOB NOT NULL) STRICT",
        "CREATE TRIGGER salts_stay_fixed BEFORE UPDATE ON salts "
        "BEGIN SELECT RAISE(ABORT, 'a salt stays as it is'); END",
    ),
    (  # rows of a further kind, which seal answers; answers that were kept without a seal are put aside
        """CREATE TABLE new_rows (
            account TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('open', 'amend', 'charge', 'answer')),
            total TEXT NOT NULL, own TEXT NOT NULL, who TEXT NOT NULL, statement TEXT, text TEXT, loss TEXT,
            settings TEXT, why TEXT, number INTEGER PRIMARY KEY, "when" TEXT NOT NULL, clock TEXT,
            version INTEGER NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT""",
        "INSERT INTO new_rows SELECT * FROM rows",
        "DROP TABLE rows",
        "ALTER TABLE new_rows RENAME TO rows",
        "CREATE INDEX chains ON rows (account, number)",
        "CREATE INDEX analysts ON rows (account, who, number) WHERE kind = 'charge'",
        "CREATE INDEX settings ON rows (account, number) WHERE kind IN ('open', 'amend')",
        *_ROWS_STAY,
        "DROP TRIGGER answers_stay_fixed",
        "ALTER TABLE answers RENAME TO unsealed_answers",
        """CREATE TABLE answers (key TEXT PRIMARY KEY, charge INTEGER NOT NULL REFERENCES rows (number),
            row INTEGER NOT NULL UNIQUE REFERENCES rows (number), answer BLOB NOT NULL) STRICT""",
        _ANSWERS_STAY,
    ),
)
"""How version n becomes version n + 1; a new file has version 0."""
