"""pg_catalog and information_schema as tables, made of the public catalog alone: no private row is near.

Each relation is a line of relations.txt: its name and its columns. Those of which something is known are filled.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.curator.catalog import Catalog, Column, ColumnType, Table
from discreet.server.postgres.types import TYPES

if TYPE_CHECKING:
    import pyarrow

PG_CATALOG, PUBLIC, INFORMATION_SCHEMA = 11, 2200, 13000
OWNER, CALLER, DATABASE = 10, 16_000, 5
FIRST = 16_384
"""The number of the first table; names and numbers of an open dataset do not change."""

_OIDS = {
    ColumnType.INTEGER: 20,
    ColumnType.REAL: 701,
    ColumnType.TEXT: 25,
    ColumnType.BOOLEAN: 16,
    ColumnType.DATE: 1082,
    ColumnType.TIMESTAMP: 1114,
}

RELATIONS = {
    line.split()[0]: tuple(line.split()[1:])
    for line in Path(__file__).with_name("relations.txt").read_text("utf-8").splitlines()
}
"""Every relation with its columns. One without a type is text; i is a whole number, b a boolean, I and L are lists."""

_TYPE_NAMES = {
    16: ("bool", "b", "B"), 17: ("bytea", "b", "U"), 18: ("char", "b", "Z"), 19: ("name", "b", "S"),
    20: ("int8", "b", "N"), 21: ("int2", "b", "N"), 23: ("int4", "b", "N"), 24: ("regproc", "b", "N"),
    25: ("text", "b", "S"), 26: ("oid", "b", "N"), 114: ("json", "b", "U"), 700: ("float4", "b", "N"),
    701: ("float8", "b", "N"), 705: ("unknown", "p", "X"), 1042: ("bpchar", "b", "S"), 1043: ("varchar", "b", "S"),
    1082: ("date", "b", "D"), 1083: ("time", "b", "D"), 1114: ("timestamp", "b", "D"),
    1184: ("timestamptz", "b", "D"), 1186: ("interval", "b", "T"), 1700: ("numeric", "b", "N"),
    2205: ("regclass", "b", "N"), 2278: ("void", "p", "P"), 2950: ("uuid", "b", "U"),
}  # fmt: skip
_SENT = {"char": "char", "timestamptz": "timestamptz_", "timestamp": "timestamp_", "date": "date_", "time": "time_",
         "numeric": "numeric_", "uuid": "uuid_", "json": "json_", "interval": "interval_"}  # fmt: skip

_KEYWORDS = ("analyze", "ilike", "limit", "offset")
"""Words that PostgreSQL adds to those of the standard, as far as they mean something here."""

Rows = list[dict[str, Any]]


def relations(catalog: Catalog, user: str) -> "dict[str, pyarrow.Table]":
    """Every relation of pg_catalog and information_schema for one dataset, as Arrow tables."""
    numbered = {table.name: FIRST + place * 10 for place, table in enumerate(catalog.tables.values())}
    filled = _general(catalog, user) | _schema(catalog, numbered) | _standard(catalog)
    return {name: _table(columns, filled.get(name, [])) for name, columns in RELATIONS.items()}


def filled(name: str, rows: Rows) -> "pyarrow.Table":
    """A relation with these rows."""
    return _table(RELATIONS[name], rows)


def _table(columns: Iterable[str], rows: Rows) -> "pyarrow.Table":
    import pyarrow as pa

    kinds = {"": pa.string(), "i": pa.int64(), "b": pa.bool_(), "I": pa.list_(pa.int64()), "L": pa.list_(pa.string())}
    usual: dict[str, Any] = {"i": 0, "b": False}
    made = {}
    for column in columns:
        name, _, kind = column.partition(":")
        made[name] = pa.array([row.get(name, usual.get(kind)) for row in rows], kinds[kind])
    return pa.table(made)


def _general(catalog: Catalog, user: str) -> dict[str, Rows]:
    name = catalog.name
    roles = [{"oid": OWNER, "rolname": "owner", "rolinherit": True}]
    roles.append({"oid": CALLER, "rolname": user, "rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1})
    schemas = ((PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION_SCHEMA, "information_schema"))
    collate = {"datcollate": "C.UTF-8", "datctype": "C.UTF-8", "datlocprovider": "c"}
    return {
        "pg_namespace": [{"oid": oid, "nspname": schema, "nspowner": OWNER} for oid, schema in schemas],
        "pg_database": [{"oid": DATABASE, "datname": name, "datdba": OWNER, "encoding": 6, "datallowconn": True,
                         "datconnlimit": -1, "dattablespace": 1663, **collate}],
        "pg_roles": roles,
        "pg_user": [{"usename": user, "usesysid": CALLER}],
        "pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}],
        "pg_am": [{"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}],
        "pg_language": [{"oid": 14, "lanname": "sql", "lanowner": OWNER, "lanpltrusted": True}],
        "pg_collation": [{"oid": 100, "collname": "default", "collnamespace": PG_CATALOG, "collowner": OWNER,
                          "collprovider": "d", "collisdeterministic": True, "collencoding": -1}],
        "pg_type": _types(),
        "pg_get_keywords": [{"word": word, "catcode": "R", "catdesc": "reserved"} for word in _KEYWORDS],
        "pg_timezone_names": [{"name": "UTC", "abbrev": "UTC", "utc_offset": "00:00:00"}],
        "pg_shdescription": [{"objoid": DATABASE, "classoid": 1262, "description": catalog.protects}],
    }  # fmt: skip


def _types() -> Rows:
    rows: Rows = []
    for oid, (name, kind, category) in _TYPE_NAMES.items():
        size, array = (TYPES[oid].size, TYPES[oid].array) if oid in TYPES else (-1, 0)
        stem = _SENT.get(name, name)
        common = {"typnamespace": PG_CATALOG, "typowner": OWNER, "typisdefined": True, "typdelim": ",", "typtypmod": -1,
                  "typalign": "i", "typstorage": "p"}  # fmt: skip
        rows.append({
            "oid": oid, "typname": name, "typlen": size, "typtype": kind, "typcategory": category, "typarray": array,
            "typinput": f"{stem}in", "typoutput": f"{stem}out", "typreceive": f"{stem}recv", "typsend": f"{stem}send",
            "typcollation": 100 if category == "S" else 0, **common,
        })  # fmt: skip
        if array:
            rows.append({
                "oid": array, "typname": f"_{name}", "typlen": -1, "typtype": "b", "typcategory": "A", "typelem": oid,
                "typinput": "array_in", "typoutput": "array_out", "typreceive": "array_recv", "typsend": "array_send",
                **common,
            })  # fmt: skip
    return rows


def _schema(catalog: Catalog, numbered: dict[str, int]) -> dict[str, Rows]:
    classes: Rows = []
    attributes: Rows = []
    described: Rows = []
    listed: Rows = []
    for table in catalog.tables.values():
        oid = numbered[table.name]
        classes.append({
            "oid": oid, "relname": table.name, "relnamespace": PUBLIC, "reltype": oid + 1, "relowner": OWNER,
            "relam": 2, "relpersistence": "p", "relkind": "r", "relnatts": len(table.columns), "reltuples": -1,
            "relispopulated": True, "relreplident": "d", "relfilenode": oid,
        })  # fmt: skip
        listed.append({"schemaname": "public", "tablename": table.name, "tableowner": "owner"})
        described.append({"objoid": oid, "classoid": 1259, "objsubid": 0, "description": table_comment(table)})
        for number, column in enumerate(table.columns, 1):
            kind = _OIDS[column.kind]
            attributes.append({
                "attrelid": oid, "attname": column.name, "atttypid": kind, "attlen": TYPES[kind].size, "attnum": number,
                "attcacheoff": -1, "atttypmod": -1, "attalign": "i", "attstorage": "p",
                "attnotnull": not column.nullable, "attislocal": True, "attcollation": 100 if kind == 25 else 0,
                "attstattarget": -1, "attidentity": "", "attgenerated": "", "attcompression": "",
            })  # fmt: skip
            words = column_comment(column, table)
            described.append({"objoid": oid, "classoid": 1259, "objsubid": number, "description": words})
    return {"pg_class": classes, "pg_attribute": attributes, "pg_description": described, "pg_tables": listed}


def table_comment(table: Table) -> str:
    """What is to be known of a table: whether it is private, and whom it protects."""
    if table.unit is None:
        return "public: rows may be read"
    bounds = [f"{count} {what}" for count, what in ((table.groups, "groups of an answer"), (table.rows, "rows in each"))
              if count is not None]  # fmt: skip
    words = f"; a person counts in at most {', '.join(bounds)}" if bounds else ""
    return f"private, protects {table.unit}; ask for aggregates{words}"


def column_comment(column: Column, table: Table) -> str:
    """What is publicly known of a column: bounds, steps, declared values, whether it names the person."""
    words = column.describe().partition(": ")[2]
    if column.values is not None:
        shown = ", ".join(map(str, column.values[:50]))
        words += f" ({shown}{', …' if len(column.values) > 50 else ''})"
    if table.unit_column is not None and table.unit_column.name == column.name:
        words += "; names the person who is protected"
    return words


def _standard(catalog: Catalog) -> dict[str, Rows]:
    name = catalog.name
    place = {"table_catalog": name, "table_schema": "public"}
    columns: Rows = []
    for table in catalog.tables.values():
        for number, column in enumerate(table.columns, 1):
            kind = _OIDS[column.kind]
            numeric = {20: (64, 2, 0), 701: (53, 2, None)}.get(kind, (None, None, None))
            columns.append(place | {
                "table_name": table.name, "column_name": column.name, "ordinal_position": number,
                "is_nullable": "YES" if column.nullable else "NO", "data_type": TYPES[kind].name, "udt_catalog": name,
                "udt_schema": "pg_catalog", "udt_name": _TYPE_NAMES[kind][0], "dtd_identifier": str(number),
                "is_self_referencing": "NO", "is_identity": "NO", "identity_cycle": "NO", "is_generated": "NEVER",
                "is_updatable": "NO", "numeric_precision": numeric[0], "numeric_precision_radix": numeric[1],
                "numeric_scale": numeric[2], "datetime_precision": {1082: 0, 1114: 6}.get(kind),
                "character_maximum_length": None, "character_octet_length": 2**30 if kind == 25 else None,
                "interval_precision": None, "maximum_cardinality": None,
            })  # fmt: skip
    tables = [
        place | {"table_name": table.name, "table_type": "BASE TABLE", "is_insertable_into": "NO", "is_typed": "NO"}
        for table in catalog.tables.values()
    ]
    privileges = [
        place | {"grantor": "owner", "grantee": "PUBLIC", "table_name": table.name, "privilege_type": "SELECT",
                 "is_grantable": "NO", "with_hierarchy": "YES"}
        for table in catalog.tables.values()
    ]  # fmt: skip
    schemas = ("pg_catalog", "public", "information_schema")
    return {
        "information_schema.tables": tables,
        "information_schema.columns": columns,
        "information_schema.schemata": [
            {"catalog_name": name, "schema_name": schema, "schema_owner": "owner"} for schema in schemas
        ],
        "information_schema.table_privileges": privileges,
        "information_schema.role_table_grants": privileges,
        "information_schema.information_schema_catalog_name": [{"catalog_name": name}],
        "information_schema.character_sets": [{"character_set_name": "UTF8", "character_repertoire": "UCS",
                                               "form_of_use": "UTF8", "default_collate_name": "C.UTF-8"}],
    }  # fmt: skip
