"""Questions about the schema as BI tools and drivers put them: answered without an error, from the policy alone."""

import pytest

psycopg = pytest.importorskip("psycopg")

VECTORS = {
    "dbeaver databases": "SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate ORDER BY db.datname",
    "dbeaver session": "SELECT current_schema(), session_user",
    "dbeaver settings": "SELECT * FROM pg_catalog.pg_settings WHERE name = 'standard_conforming_strings'",
    "dbeaver schemas": "SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname",
    "dbeaver tables": "SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')",
    "dbeaver columns": "SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON a.attrelid = c.oid LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum LEFT OUTER JOIN pg_catalog.pg_description dsc ON c.oid = dsc.objoid AND a.attnum = dsc.objsubid WHERE NOT a.attisdropped AND c.oid = 16384 ORDER BY a.attnum",
    "dbeaver types": "SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid WHERE t.typname IS NOT NULL",
    "metabase tables": "SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' END AS type, d.description, stat.n_live_tup AS estimated_row_count FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0 LEFT JOIN pg_stat_user_tables stat ON n.nspname = stat.schemaname AND c.relname = stat.relname WHERE c.relkind IN ('r', 'p', 'v', 'f', 'm') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY type, schema, name",
    "metabase columns": "SELECT c.column_name AS name, c.udt_name AS database_type, c.ordinal_position - 1 AS position, c.table_schema, c.table_name, pk.column_name IS NOT NULL AS is_pk, col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text)) AS regclass) AS oid), c.ordinal_position) AS remark FROM information_schema.columns c LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints tc JOIN information_schema.key_column_usage kc ON tc.constraint_name = kc.constraint_name WHERE tc.constraint_type = 'PRIMARY KEY') pk ON c.table_name = pk.table_name AND c.column_name = pk.column_name WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' ORDER BY 4, 5, 3",
    "metabase privileges": "SELECT t.schemaname AS schema, t.tablename AS table, pg_catalog.has_table_privilege(current_user, '\"' || t.schemaname || '\".\"' || t.tablename || '\"', 'SELECT') AS sel FROM pg_catalog.pg_tables t WHERE t.schemaname !~ '^pg_'",
    "metabase enums": "SELECT nspname, typname FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN (SELECT DISTINCT enumtypid FROM pg_catalog.pg_enum e)",
    "superset schemas": "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname",
    "superset views": "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind IN ('v', 'm')",
    "superset columns": "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'visits'",
    "grafana version": "SELECT current_setting('server_version_num')::int/100 AS version",
    "grafana timescale": "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'",
    "grafana tables": "SELECT CASE WHEN table_schema = 'public' THEN table_name ELSE table_schema || '.' || table_name END AS \"table\" FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY 1",
    "grafana columns": 'SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE table_name = \'visits\'',
    "power bi tables": "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.tables WHERE TABLE_SCHEMA NOT IN ('information_schema', 'pg_catalog') ORDER BY TABLE_SCHEMA, TABLE_NAME",
    "power bi columns": "SELECT COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, CASE WHEN (data_type LIKE '%unsigned%') THEN DATA_TYPE || ' unsigned' ELSE DATA_TYPE END AS DATA_TYPE FROM INFORMATION_SCHEMA.columns WHERE TABLE_SCHEMA = 'public' AND TABLE_NAME = 'visits' ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION",
    "power bi encoding": "SELECT character_set_name FROM INFORMATION_SCHEMA.character_sets",
    "npgsql version": "SELECT version()",
    "npgsql types": "SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.typelem FROM pg_type AS t JOIN pg_namespace AS ns ON ns.oid = t.typnamespace LEFT JOIN pg_class AS cls ON cls.oid = t.typrelid WHERE t.typtype IN ('b', 'r', 'm', 'e', 'd') ORDER BY t.oid",
    "metabase rights": "WITH rights AS (SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table, pg_catalog.has_any_column_privilege(current_user, '\"' || replace(t.schemaname, '\"', '\"\"') || '\"', 'update') AS update, pg_catalog.has_any_column_privilege(current_user, t.objectname, 'select') AS select, pg_catalog.has_any_column_privilege(current_user, t.objectname, 'insert') AS insert, pg_catalog.has_table_privilege(current_user, t.objectname, 'delete') AS delete FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables UNION SELECT schemaname, viewname AS objectname FROM pg_catalog.pg_views UNION SELECT schemaname, matviewname AS objectname FROM pg_catalog.pg_matviews) t WHERE t.schemaname !~ '^pg_' AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')) SELECT t.* FROM rights t",
    "metabase foreign keys": "SELECT fk_table.relname, fk_column.attname FROM pg_constraint AS c INNER JOIN pg_class AS fk_table ON c.conrelid = fk_table.oid INNER JOIN pg_attribute AS fk_column ON c.conrelid = fk_column.attrelid WHERE c.contype = 'f'::char AND fk_column.attnum = ANY(c.conkey)",
    "grafana tables in the path": "SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting('search_path'),','),1)) as i, string_to_array(current_setting('search_path'),',') s) THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS \"table\" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') ORDER BY 1",
    "grafana columns of a path": "SELECT quote_ident(column_name) AS \"column\" FROM information_schema.columns WHERE CASE WHEN array_length(parse_ident('public.visits'),1) = 2 THEN quote_ident(table_schema) = (parse_ident('public.visits'))[1] AND quote_ident(table_name) = (parse_ident('public.visits'))[2] ELSE quote_ident(table_name) = 'visits' END",
    "dbeaver and jdbc keywords": "SELECT string_agg(word, ',') FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{a,abs,absolute}'::text[])",
    "pgcli kinds": "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = ANY('{r,p,f}') ORDER BY 1,2",
    "pgcli functions": "SELECT p.proname, COALESCE(proallargtypes::regtype[], proargtypes::regtype[])::text[], d.deptype = 'e' is_extension FROM pg_catalog.pg_proc p LEFT JOIN pg_depend d ON d.objid = p.oid WHERE p.prorettype::regtype != 'trigger'::regtype",
    "power bi foreign keys": "SELECT pkcol.COLUMN_NAME, fkcon.CONSTRAINT_SCHEMA || '_' || fkcol.TABLE_NAME AS FK_NAME FROM (SELECT DISTINCT constraint_catalog, constraint_schema, unique_constraint_schema, constraint_name, unique_constraint_name FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS) fkcon INNER JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE fkcol ON fkcon.CONSTRAINT_NAME = fkcol.CONSTRAINT_NAME INNER JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE pkcol ON fkcon.UNIQUE_CONSTRAINT_NAME = pkcol.CONSTRAINT_NAME WHERE pkcol.ORDINAL_POSITION = fkcol.ORDINAL_POSITION",
    "npgsql ranges": "SELECT typ.oid, CASE WHEN proc.proname = 'array_recv' THEN 'a' ELSE typ.typtype END AS typtype, CASE WHEN typ.typtype = 'm' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = typ.oid) END AS elem FROM pg_type AS typ LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive LEFT JOIN pg_range ON pg_range.rngtypid = typ.oid",
    "keys": "SELECT kcu.column_name FROM information_schema.table_constraints tco JOIN information_schema.key_column_usage kcu ON kcu.constraint_name = tco.constraint_name WHERE tco.constraint_type = 'FOREIGN KEY'",
    "ping": "SELECT 1",
}


@pytest.fixture(scope="module")
def client(door):
    with psycopg.connect(**door.target, dbname="clinic", autocommit=True) as made:
        yield made


@pytest.mark.parametrize("name", VECTORS)
def test_a_question_about_the_schema_is_answered(client, door, name):
    before = door.charges()
    assert client.execute(VECTORS[name]).description is not None
    assert door.charges() == before


def test_what_is_told_is_the_policy(client):
    assert client.execute(VECTORS["superset columns"]).fetchall() == [
        ("patient_id", "bigint", "NO", None),
        ("age", "bigint", "YES", None),
        ("day", "date", "YES", None),
        ("cost", "double precision", "YES", None),
        ("region", "text", "YES", None),
    ]
    comments = client.execute("SELECT col_description(16384, 5)").fetchone()[0]
    assert comments == "text, one of 2 declared values (north, south)"


def test_what_the_path_of_grafana_finds_and_how_types_are_called(client):
    assert client.execute(VECTORS["grafana tables in the path"]).fetchall() == [("visits",)]
    found = client.execute("SELECT 1007::regtype::text, NULL::oid::regtype::text, 0::oid::regtype::text").fetchone()
    assert found == ("integer[]", None, "-")


def test_numbers_of_many_digits_are_exact():
    from decimal import Decimal

    from discreet.server.postgres.types import NUMERIC, parameter

    for text in ("123456789012345678901234567890.123456789", "-0.00010002", "0", "10000", "1.50"):
        assert parameter(NUMERIC.binary(Decimal(text)), 1700, binary=True) == Decimal(text)
    for stated in (b"2020-03-04 +00", b"2020-03-04T10:00:00.000+00:00", b"2020-03-04"):  # JDBC, Node, psycopg
        assert str(parameter(stated, 1082, binary=False)) == "2020-03-04"
    with pytest.raises(Exception, match="date"):
        parameter(b"2020-03-04 x", 1082, binary=False)


def test_types_in_text_and_in_binary_are_the_same(client):
    sql = (
        "SELECT 7::bigint AS a, 1.5::numeric(9,3) AS b, -0.25::double precision AS c, true AS d, 'x''y'::text AS e, "
        "date '2024-02-29' AS f, timestamp '2024-02-29 12:34:56.789' AS g, ARRAY[1,2]::bigint[] AS h, "
        "time '12:34:56.5' AS m, timestamptz '2020-01-01 00:00:00+02' AS n, '\\x6162'::bytea AS o, 1.5::real AS p, "
        "3::smallint AS q, 4::integer AS r, uuid '12345678-1234-1234-1234-123456789012' AS s, "
        "ARRAY['a','b,c',NULL] AS t, "
        "NULL::text AS i, -12345.678::numeric(12,3) AS j, 0::numeric(5,2) AS k, interval '2 days' AS l"
    )
    rows = [client.cursor(binary=binary).execute(sql).fetchone() for binary in (False, True)]
    assert rows[0] == rows[1]
    assert rows[0][0] == 7
    assert rows[0][7] == [1, 2]
