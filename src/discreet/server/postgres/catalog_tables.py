"""pg_catalog and information_schema as tables, made of the public catalog alone: no private row is near.

Each relation is a line: its name and its columns. Those that something is known of are filled; the others are empty.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from discreet.curator.catalog import Catalog, Column, ColumnType, Table
from discreet.exact import plain
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

# A column without a type is text; i: whole number, b: boolean, I: list of whole numbers, L: list of texts.
_RELATIONS = """
pg_namespace oid:i nspname nspowner:i nspacl:L
pg_class oid:i relname relnamespace:i reltype:i reloftype:i relowner:i relam:i relfilenode:i reltablespace:i relpages:i reltuples:i relallvisible:i reltoastrelid:i relhasindex:b relisshared:b relpersistence relkind relnatts:i relchecks:i relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident relispartition:b relrewrite:i relfrozenxid:i relminmxid:i relacl:L reloptions:L relpartbound relhasoids:b xmin:i
pg_attribute attrelid:i attname atttypid:i attstattarget:i attlen:i attnum:i attndims:i attcacheoff:i atttypmod:i attbyval:b attalign attstorage attcompression attnotnull:b atthasdef:b atthasmissing:b attidentity attgenerated attisdropped:b attislocal:b attinhcount:i attcollation:i attacl:L attoptions:L attfdwoptions:L attmissingval
pg_attrdef oid:i adrelid:i adnum:i adbin adsrc
pg_type oid:i typname typnamespace:i typowner:i typlen:i typbyval:b typtype typcategory typispreferred:b typisdefined:b typdelim typrelid:i typsubscript typelem:i typarray:i typinput typoutput typreceive typsend typmodin typmodout typanalyze typalign typstorage typnotnull:b typbasetype:i typtypmod:i typndims:i typcollation:i typdefaultbin typdefault typacl:L
pg_description objoid:i classoid:i objsubid:i description
pg_shdescription objoid:i classoid:i description
pg_index indexrelid:i indrelid:i indnatts:i indnkeyatts:i indisunique:b indnullsnotdistinct:b indisprimary:b indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b indkey:I indcollation:I indclass:I indoption:I indexprs indpred
pg_constraint oid:i conname connamespace:i contype condeferrable:b condeferred:b convalidated:b conrelid:i contypid:i conindid:i conparentid:i confrelid:i confupdtype confdeltype confmatchtype conislocal:b coninhcount:i connoinherit:b conkey:I confkey:I conpfeqop:I conppeqop:I conffeqop:I confdelsetcols:I conexclop:I conbin consrc
pg_database oid:i datname datdba:i encoding:i datlocprovider datistemplate:b datallowconn:b datconnlimit:i datfrozenxid:i datminmxid:i dattablespace:i datcollate datctype daticulocale datcollversion datacl:L
pg_roles oid:i rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b rolconnlimit:i rolpassword rolvaliduntil rolbypassrls:b rolconfig:L
pg_user usename usesysid:i usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil useconfig:L
pg_group groname grosysid:i grolist:I
pg_auth_members roleid:i member:i grantor:i admin_option:b
pg_tablespace oid:i spcname spcowner:i spcacl:L spcoptions:L
pg_am oid:i amname amhandler amtype
pg_proc oid:i proname pronamespace:i proowner:i prolang:i procost:i prorows:i provariadic:i prosupport prokind prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile proparallel pronargs:i pronargdefaults:i prorettype:i proargtypes:I proallargtypes:I proargmodes:L proargnames:L proargdefaults protrftypes:I prosrc probin prosqlbody proconfig:L proacl:L proisagg:b
pg_settings name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals:L boot_val reset_val sourcefile sourceline:i pending_restart:b
pg_collation oid:i collname collnamespace:i collowner:i collprovider collisdeterministic:b collencoding:i collcollate collctype colliculocale collversion
pg_inherits inhrelid:i inhparent:i inhseqno:i inhdetachpending:b
pg_range rngtypid:i rngsubtype:i rngmultitypid:i rngcollation:i rngsubopc:i rngcanonical rngsubdiff
pg_enum oid:i enumtypid:i enumsortorder:i enumlabel
pg_trigger oid:i tgrelid:i tgparentid:i tgname tgfoid:i tgtype:i tgenabled tgisinternal:b tgconstrrelid:i tgconstrindid:i tgconstraint:i tgdeferrable:b tginitdeferred:b tgnargs:i tgattr:I tgargs tgqual tgoldtable tgnewtable
pg_policy oid:i polname polrelid:i polcmd polpermissive:b polroles:I polqual polwithcheck
pg_policies schemaname tablename policyname permissive roles:L cmd qual with_check
pg_publication oid:i pubname pubowner:i puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b
pg_publication_rel oid:i prpubid:i prrelid:i prqual prattrs:I
pg_publication_namespace oid:i pnpubid:i pnnspid:i
pg_subscription oid:i subname subowner:i subenabled:b subdbid:i
pg_statistic_ext oid:i stxrelid:i stxname stxnamespace:i stxowner:i stxstattarget:i stxkeys:I stxkind:L stxexprs
pg_rewrite oid:i rulename ev_class:i ev_type ev_enabled is_instead:b ev_qual ev_action
pg_rules schemaname tablename rulename definition
pg_depend classid:i objid:i objsubid:i refclassid:i refobjid:i refobjsubid:i deptype
pg_shdepend dbid:i classid:i objid:i objsubid:i refclassid:i refobjid:i deptype
pg_extension oid:i extname extowner:i extnamespace:i extrelocatable:b extversion extconfig:I extcondition:L
pg_available_extensions name default_version installed_version comment
pg_language oid:i lanname lanowner:i lanispl:b lanpltrusted:b lanplcallfoid:i laninline:i lanvalidator:i lanacl:L
pg_operator oid:i oprname oprnamespace:i oprowner:i oprkind oprcanmerge:b oprcanhash:b oprleft:i oprright:i oprresult:i oprcom:i oprnegate:i oprcode oprrest oprjoin
pg_opclass oid:i opcmethod:i opcname opcnamespace:i opcowner:i opcfamily:i opcintype:i opcdefault:b opckeytype:i
pg_cast oid:i castsource:i casttarget:i castfunc:i castcontext castmethod
pg_aggregate aggfnoid:i aggkind aggnumdirectargs:i aggtransfn aggfinalfn aggtranstype:i agginitval
pg_event_trigger oid:i evtname evtevent evtowner:i evtfoid:i evtenabled evttags:L
pg_foreign_table ftrelid:i ftserver:i ftoptions:L
pg_foreign_server oid:i srvname srvowner:i srvfdw:i srvtype srvversion srvacl:L srvoptions:L
pg_foreign_data_wrapper oid:i fdwname fdwowner:i fdwhandler:i fdwvalidator:i fdwacl:L fdwoptions:L
pg_user_mappings umid:i srvid:i srvname umuser:i usename umoptions:L
pg_partitioned_table partrelid:i partstrat partnatts:i partdefid:i partattrs:I partclass:I partcollation:I partexprs
pg_sequence seqrelid:i seqtypid:i seqstart:i seqincrement:i seqmax:i seqmin:i seqcache:i seqcycle:b
pg_sequences schemaname sequencename sequenceowner data_type start_value:i min_value:i max_value:i increment_by:i cycle:b cache_size:i last_value:i
pg_tables schemaname tablename tableowner tablespace hasindexes:b hasrules:b hastriggers:b rowsecurity:b
pg_views schemaname viewname viewowner definition
pg_matviews schemaname matviewname matviewowner tablespace hasindexes:b ispopulated:b definition
pg_indexes schemaname tablename indexname tablespace indexdef
pg_locks locktype database:i relation:i pid:i mode granted:b
pg_stat_activity datid:i datname pid:i usesysid:i usename application_name client_addr backend_start query_start state query backend_type
pg_stat_ssl pid:i ssl:b version cipher bits:i client_dn issuer_dn
pg_stat_user_tables relid:i schemaname relname seq_scan:i n_live_tup:i n_dead_tup:i last_vacuum last_analyze
pg_stat_all_tables relid:i schemaname relname seq_scan:i n_live_tup:i n_dead_tup:i last_vacuum last_analyze
pg_stat_database datid:i datname numbackends:i xact_commit:i xact_rollback:i blks_read:i blks_hit:i
pg_statio_user_tables relid:i schemaname relname heap_blks_read:i heap_blks_hit:i
pg_stats schemaname tablename attname null_frac n_distinct
pg_timezone_names name abbrev utc_offset is_dst:b
pg_db_role_setting setdatabase:i setrole:i setconfig:L
pg_seclabels objoid:i classoid:i objsubid:i objtype objnamespace:i objname provider label
pg_default_acl oid:i defaclrole:i defaclnamespace:i defaclobjtype defaclacl:L
pg_conversion oid:i conname connamespace:i conowner:i
pg_ts_config oid:i cfgname cfgnamespace:i cfgowner:i cfgparser:i
pg_cursors name statement is_holdable:b is_binary:b is_scrollable:b creation_time
pg_prepared_statements name statement prepare_time parameter_types:L from_sql:b
information_schema.schemata catalog_name schema_name schema_owner default_character_set_catalog default_character_set_schema default_character_set_name sql_path
information_schema.tables table_catalog table_schema table_name table_type self_referencing_column_name reference_generation user_defined_type_catalog user_defined_type_schema user_defined_type_name is_insertable_into is_typed commit_action
information_schema.columns table_catalog table_schema table_name column_name ordinal_position:i column_default is_nullable data_type character_maximum_length:i character_octet_length:i numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type interval_precision:i character_set_catalog character_set_schema character_set_name collation_catalog collation_schema collation_name domain_catalog domain_schema domain_name udt_catalog udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality:i dtd_identifier is_self_referencing is_identity identity_generation identity_start identity_increment identity_maximum identity_minimum identity_cycle is_generated generation_expression is_updatable
information_schema.views table_catalog table_schema table_name view_definition check_option is_updatable is_insertable_into
information_schema.table_constraints constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name constraint_type is_deferrable initially_deferred enforced
information_schema.key_column_usage constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name column_name ordinal_position:i position_in_unique_constraint:i
information_schema.constraint_column_usage table_catalog table_schema table_name column_name constraint_catalog constraint_schema constraint_name
information_schema.referential_constraints constraint_catalog constraint_schema constraint_name unique_constraint_catalog unique_constraint_schema unique_constraint_name match_option update_rule delete_rule
information_schema.check_constraints constraint_catalog constraint_schema constraint_name check_clause
information_schema.routines specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name routine_type data_type routine_definition external_language
information_schema.parameters specific_catalog specific_schema specific_name ordinal_position:i parameter_mode parameter_name data_type
information_schema.triggers trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog event_object_schema event_object_table action_order:i action_statement action_timing
information_schema.sequences sequence_catalog sequence_schema sequence_name data_type start_value minimum_value maximum_value increment cycle_option
information_schema.table_privileges grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy
information_schema.role_table_grants grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy
information_schema.column_privileges grantor grantee table_catalog table_schema table_name column_name privilege_type is_grantable
information_schema.enabled_roles role_name
information_schema.applicable_roles grantee role_name is_grantable
information_schema.character_sets character_set_catalog character_set_schema character_set_name character_repertoire form_of_use default_collate_catalog default_collate_schema default_collate_name
information_schema.collations collation_catalog collation_schema collation_name pad_attribute
information_schema.domains domain_catalog domain_schema domain_name data_type domain_default
information_schema.element_types object_catalog object_schema object_name object_type collection_type_identifier data_type
information_schema.information_schema_catalog_name catalog_name
"""

RELATIONS = {line.split()[0]: tuple(line.split()[1:]) for line in _RELATIONS.strip().splitlines()}
"""Every relation, with its columns."""

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
            "oid": oid, "relname": table.name, "relnamespace": PUBLIC, "reltype": oid + 1, "relowner": OWNER, "relam": 2,
            "relpersistence": "p", "relkind": "r", "relnatts": len(table.columns), "reltuples": -1,
            "relispopulated": True, "relreplident": "d", "relfilenode": oid,
        })  # fmt: skip
        listed.append({"schemaname": "public", "tablename": table.name, "tableowner": "owner"})
        described.append({"objoid": oid, "classoid": 1259, "objsubid": 0, "description": table_comment(table)})
        for number, column in enumerate(table.columns, 1):
            kind = _OIDS[column.kind]
            attributes.append({
                "attrelid": oid, "attname": column.name, "atttypid": kind, "attlen": TYPES[kind].size, "attnum": number,
                "attcacheoff": -1, "atttypmod": -1, "attalign": "i", "attstorage": "p", "attnotnull": not column.nullable,
                "attislocal": True, "attcollation": 100 if kind == 25 else 0, "attstattarget": -1, "attidentity": "",
                "attgenerated": "", "attcompression": "",
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
    return f"private, protects {table.unit}; ask for aggregates" + (f"; a person counts in at most {', '.join(bounds)}" if bounds else "")


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
