"""Questions about the schema: answered from the public catalog, in the sandbox, where no private row is.

A statement that reads pg_catalog, information_schema or nothing at all is written anew for DuckDB: relations become
tables made of the catalog (`catalog_tables`), functions of PostgreSQL become what they mean here (`catalog_functions`).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from discreet.curator.catalog import Catalog
from discreet.errors import InvalidParameter, InvalidQuery
from discreet.server.postgres import statements as st
from discreet.server.postgres.catalog_functions import rewritten
from discreet.server.postgres.catalog_tables import RELATIONS, filled, relations
from discreet.server.session import Recent
from discreet.sql.after import sandbox

if TYPE_CHECKING:
    import pyarrow

_READERS: Recent[int, "CatalogReader"] = Recent(100)
_ANSWERS = 500
_SECONDS = 20


class CatalogReader:
    """The catalog of one dataset as PostgreSQL's clients ask for it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tables: Recent[str, dict[str, pyarrow.Table]] = Recent(50)
        self._answers: Recent[tuple[str, str], pyarrow.Table] = Recent(_ANSWERS)
        self._decided: Recent[str, bool] = Recent(2_000)

    @classmethod
    def of(cls, catalog: Catalog) -> "CatalogReader":
        """The reader of a catalog; made once."""
        reader = _READERS.get(id(catalog))
        if reader is None or reader._catalog is not catalog:
            reader = cls(catalog)
            _READERS.put(id(catalog), reader)
        return reader

    def is_for_catalog(self, sql: str) -> bool:
        """Whether a statement reads the catalog, or nothing; all else is a question to the dataset."""
        known = self._decided.get(sql)
        if known is None:
            known = self._is_for_catalog(sql)
            if st.is_short(sql):
                self._decided.put(sql, known)
        return known

    def _is_for_catalog(self, sql: str) -> bool:
        try:
            tree = st.parsed(sql, "postgres")
        except InvalidQuery:
            return False
        if not isinstance(tree, exp.Query):
            return False
        named = {part.alias.casefold() for part in tree.find_all(exp.CTE)}
        read = [node for node in tree.find_all(exp.Table) if node.db or node.name.casefold() not in named]
        return not any(isinstance(node.this, exp.Identifier) and relation_of(node) is None for node in read)

    def run(self, sql: str, values: Sequence[Any], facts: Mapping[str, Any]) -> "pyarrow.Table":
        """The rows of a statement about the schema."""
        tree = st.parsed(sql, "postgres")
        if values:
            tree = st.bound(tree, values)
        user = str(facts["current_user"])
        tables = self._tables.get(user)
        if tables is None:
            tables = relations(self._catalog, user)
            self._tables.put(user, tables)
        numbers = {
            str(name): oid
            for name, oid in zip(*tables["pg_class"].select(["relname", "oid"]).to_pydict().values(), strict=True)
        }
        tree = rewritten(tree, facts, numbers)
        read = {}
        for node in list(tree.find_all(exp.Table)):
            name = relation_of(node) if isinstance(node.this, exp.Identifier) else None
            if name is not None and (node.db or not _is_named(node)):
                given = "discreet_" + name.replace(".", "_")
                read[given] = _changing(name, facts) if name in _CHANGING else tables[name]
                alias = node.alias or node.name
                node.set("db", None)
                node.set("catalog", None)
                node.set("this", exp.to_identifier(given, quoted=True))
                if not node.alias:
                    node.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        text = st.written(tree, "duckdb")
        result = self._ran(user, text, read)
        return _with_oids(result) if read else result

    def _ran(self, user: str, text: str, read: "dict[str, pyarrow.Table]") -> "pyarrow.Table":
        keep = not any(f"discreet_{name}" in read for name in _CHANGING)
        result = self._answers.get((user, text)) if keep else None
        if result is None:
            try:
                result = sandbox.run(text, read, seconds=_SECONDS)
            except InvalidParameter as error:
                reason = error.hint.strip().splitlines()[0] if error.hint.strip() else f"expected {error.expected}"
                raise InvalidQuery("this question about the schema cannot be answered", reason) from None
            if keep and st.is_short(text):
                self._answers.put((user, text), result)
        return result


def relation_of(node: exp.Table) -> str | None:
    """The relation that a table of a statement is, if it is one of PostgreSQL's own."""
    schema, name = node.db.casefold(), node.name.casefold()
    if schema in ("pg_catalog", "") and name in RELATIONS:
        return name
    if f"{schema}.{name}" in RELATIONS:
        return f"{schema}.{name}"
    return None


def _with_oids(table: "pyarrow.Table") -> "pyarrow.Table":
    """Lists of numbers of relations and types as what they are: asyncpg reads no other before it knows all types."""
    import pyarrow as pa

    oids = pa.list_(pa.uint32())
    for place, field in enumerate(table.schema):
        if field.type.equals(pa.list_(pa.int64())):
            table = table.set_column(place, field.name, table.column(place).cast(oids, safe=False))
    return table


def _is_named(node: exp.Table) -> bool:
    """Whether WITH gives the name."""
    top = node.root()
    return any(part.alias.casefold() == node.name.casefold() for part in top.find_all(exp.CTE))


_CHANGING = ("pg_settings", "pg_cursors")
"""Relations that are about the session: they are made anew for each statement."""


def _changing(name: str, facts: Mapping[str, Any]) -> "pyarrow.Table":
    if name == "pg_cursors":
        return filled(name, [{"name": cursor} for cursor in facts["cursors"]])
    return filled(name, [{"name": n, "setting": v} for n, v in sorted(facts["settings"].items())])
