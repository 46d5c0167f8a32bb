"""Questions about the schema as BI tools and drivers put them: answered without an error, from the policy alone."""

from pathlib import Path

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
    "dbeaver path": "SHOW search_path",
    "dbeaver database": "SELECT d.oid, d.* FROM pg_catalog.pg_database d WHERE d.datname = 'clinic'",
    "dbeaver type in the path": "SELECT ns.nspname = ANY(current_schemas(true)), ns.nspname, ty.typname FROM pg_catalog.pg_type ty JOIN pg_catalog.pg_namespace ns ON ns.oid = ty.typnamespace WHERE ty.oid = 1034",
    "dbeaver and jdbc type by number": "SELECT typinput = 'pg_catalog.array_in'::regproc AS listed, typtype, typname, pg_type.oid FROM pg_catalog.pg_type LEFT JOIN (SELECT n.oid AS of, n.nspname, path.i FROM pg_namespace AS n JOIN (SELECT g.i, (current_schemas(false))[g.i] AS nspname FROM generate_series(1, array_upper(current_schemas(false), 1)) AS g(i)) AS path USING (nspname)) AS found ON found.of = typnamespace WHERE pg_type.oid = 1034 ORDER BY found.i, pg_type.oid DESC",
    "dbeaver has enums": "SELECT * FROM pg_catalog.pg_enum WHERE 1 <> 1 LIMIT 1",
    "dbeaver has kinds of rows": "SELECT reltype FROM pg_catalog.pg_class WHERE 1 <> 1 LIMIT 1",
    "dbeaver types with comments": "SELECT ty.oid, ty.*, cl.relkind, format_type(nullif(ty.typbasetype, 0), ty.typtypmod) AS base, ds.description FROM pg_catalog.pg_type ty LEFT OUTER JOIN pg_catalog.pg_type el ON el.oid = ty.typelem LEFT OUTER JOIN pg_catalog.pg_class cl ON cl.oid = ty.typrelid LEFT OUTER JOIN pg_catalog.pg_description ds ON ds.objoid = ty.oid WHERE ty.typname IS NOT NULL AND (cl.relkind IS NULL OR cl.relkind = 'c') AND (el.typcategory IS NULL OR el.typcategory <> 'C')",
    "dbeaver tables of the system": "SELECT cl.oid, cl.*, pg_catalog.pg_get_expr(cl.relpartbound, cl.oid) AS bound, pg_catalog.pg_get_partkeydef(cl.oid) AS parts FROM pg_catalog.pg_class cl WHERE cl.relnamespace = 11 AND cl.relkind NOT IN ('i', 'I', 'c')",
    "dbeaver sizes": "SELECT cl.oid, pg_catalog.pg_total_relation_size(cl.oid) AS whole, pg_catalog.pg_relation_size(cl.oid) AS rows FROM pg_class cl WHERE cl.relnamespace = 2200",
    "dbeaver indexes": "SELECT ix.*, ix.indkey AS keys, cl.relname, cl.relam, cl.reltablespace, tb.relname AS of, ds.description, pg_catalog.pg_get_expr(ix.indpred, ix.indrelid) AS among, pg_catalog.pg_get_expr(ix.indexprs, ix.indrelid, true) AS of_what, pg_catalog.pg_relation_size(ix.indexrelid) AS size, pg_catalog.pg_stat_get_numscans(ix.indexrelid) AS used FROM pg_catalog.pg_index ix JOIN pg_catalog.pg_class cl ON cl.oid = ix.indexrelid JOIN pg_catalog.pg_class tb ON tb.oid = ix.indrelid LEFT OUTER JOIN pg_catalog.pg_description ds ON ds.objoid = ix.indexrelid WHERE ix.indrelid = 16384 ORDER BY of, cl.relname",
    "dbeaver constraints": "SELECT co.oid, co.*, tb.relname AS of, rt.relnamespace AS referred, ds.description, CASE WHEN co.contype = 'c' THEN \"substring\"(pg_get_constraintdef(co.oid), 7) ELSE NULL END AS text FROM pg_catalog.pg_constraint co JOIN pg_catalog.pg_class tb ON tb.oid = co.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = co.confrelid LEFT OUTER JOIN pg_catalog.pg_description ds ON ds.objoid = co.oid AND ds.objsubid = 0 AND ds.classoid = 'pg_constraint'::regclass WHERE co.conrelid = 16384 ORDER BY co.oid",
    "metabase isolation": "SHOW TRANSACTION ISOLATION LEVEL",
    "metabase zone": "SHOW timezone",
    "metabase and jdbc schemas": "SELECT nspname AS \"S\", current_database() AS \"C\" FROM pg_catalog.pg_namespace WHERE nspname <> 'pg_toast' AND (nspname !~ '^pg_temp_' OR nspname = (pg_catalog.current_schemas(true))[1]) AND (nspname !~ '^pg_toast_temp_' OR nspname = replace((pg_catalog.current_schemas(true))[1], 'pg_temp_', 'pg_toast_temp_')) ORDER BY \"S\"",
    "metabase tables with every kind": 'SELECT "s"."nspname" AS "schema", "r"."relname" AS "name", CASE "r"."relkind" WHEN \'r\' THEN \'TABLE\' WHEN \'p\' THEN \'PARTITIONED TABLE\' WHEN \'f\' THEN \'FOREIGN TABLE\' ELSE NULL END AS "type", "x"."description" FROM "pg_catalog"."pg_class" AS "r" INNER JOIN "pg_catalog"."pg_namespace" AS "s" ON "r"."relnamespace" = "s"."oid" LEFT JOIN "pg_catalog"."pg_description" AS "x" ON ("r"."oid" = "x"."objoid") AND ("x"."objsubid" = \'0\') AND ("x"."classoid" = \'pg_class\'::regclass) WHERE ("s"."nspname" !~ \'^pg_\') AND r.relkind in (\'r\', \'p\', \'v\', \'f\', \'m\') AND ("s"."nspname" IN (\'public\')) ORDER BY "type" ASC, "schema" ASC, "name" ASC',
    "metabase columns and those of views": 'SELECT "k"."column_name" AS "name", CASE WHEN "k"."udt_schema" IN (\'public\', \'pg_catalog\') THEN FORMAT(\'%s\', "k"."udt_name") ELSE FORMAT(\'"%s"."%s"\', "k"."udt_schema", "k"."udt_name") END AS "database-type", "k"."ordinal_position" - 1 AS "place", (("column_default" IS NULL) OR (LOWER("column_default") = \'null\')) AND ("is_nullable" = \'NO\') AND NOT ((("column_default" IS NOT NULL) AND ("column_default" LIKE \'%nextval(%\')) OR ("is_identity" <> \'NO\')) AS "required?" FROM "information_schema"."columns" AS "k" WHERE k.table_schema !~ \'^information_schema|catalog_history|pg_\' UNION ALL SELECT "a"."attname" AS "name", FORMAT(\'%s\', "y"."typname") AS "database-type", "a"."attnum" - 1 AS "place", FALSE AS "required?" FROM "pg_catalog"."pg_class" AS "r" INNER JOIN "pg_catalog"."pg_attribute" AS "a" ON "a"."attrelid" = "r"."oid" INNER JOIN "pg_catalog"."pg_type" AS "y" ON "y"."oid" = "a"."atttypid" WHERE ("r"."relkind" = \'m\') AND ("a"."attnum" >= 1) ORDER BY "place" ASC',
    "metabase foreign keys of both sides": 'SELECT "s"."nspname" AS "from-schema", "f"."relname" AS "from", "fc"."attname", "p"."relname" AS "to", "pc"."attname" FROM "pg_constraint" AS "k" INNER JOIN "pg_class" AS "f" ON "k"."conrelid" = "f"."oid" INNER JOIN "pg_namespace" AS "s" ON "k"."connamespace" = "s"."oid" INNER JOIN "pg_attribute" AS "fc" ON "k"."conrelid" = "fc"."attrelid" INNER JOIN "pg_class" AS "p" ON "k"."confrelid" = "p"."oid" INNER JOIN "pg_attribute" AS "pc" ON "k"."confrelid" = "pc"."attrelid" WHERE s.nspname !~ \'^information_schema|catalog_history|pg_\' AND ("k"."contype" = \'f\'::char) AND ("fc"."attnum" = ANY(k.conkey)) AND ("pc"."attnum" = ANY(k.confkey)) ORDER BY "from-schema" ASC, "from" ASC',
    "metabase indexes": 'SELECT "t"."schema", "t"."table", TRIM(BOTH \'"\' FROM PG_CATALOG.PG_GET_INDEXDEF("t"."index", "t"."pos", FALSE)) AS "field" FROM (SELECT "s"."nspname" AS "schema", "r"."relname" AS "table", "q"."oid" AS "index", (INFORMATION_SCHEMA._PG_EXPANDARRAY("i"."indkey"))."n" AS "pos" FROM "pg_catalog"."pg_class" AS "r" INNER JOIN "pg_catalog"."pg_namespace" AS "s" ON "r"."relnamespace" = "s"."oid" INNER JOIN "pg_catalog"."pg_index" AS "i" ON "r"."oid" = "i"."indrelid" INNER JOIN "pg_catalog"."pg_class" AS "q" ON "q"."oid" = "i"."indexrelid" WHERE (PG_CATALOG.PG_GET_EXPR("i"."indpred", "i"."indrelid") IS NULL)) AS "t" WHERE "t"."pos" = 1',
    "grafana schemas": "SELECT quote_ident(schema_name) AS \"name\" FROM information_schema.schemata WHERE schema_name NOT IN ('information_schema', 'pg_catalog', 'pg_toast') ORDER BY schema_name",
    "grafana tables, those of the path first": "SELECT quote_ident(table_name) AS \"table\" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') ORDER BY CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(p[k]) = '\"$user\"' THEN user ELSE trim(p[k]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting('search_path'),','),1)) AS k, string_to_array(current_setting('search_path'),',') p) THEN 0 ELSE 1 END, 1",
    "grafana columns in the path": "SELECT quote_ident(column_name) AS \"column\", data_type FROM information_schema.columns WHERE CASE WHEN array_length(parse_ident('visits'),1) = 2 THEN quote_ident(table_schema) = (parse_ident('visits'))[1] ELSE quote_ident(table_name) = 'visits' AND quote_ident(table_schema) IN (SELECT CASE WHEN trim(p[k]) = '\"$user\"' THEN user ELSE trim(p[k]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting('search_path'),','),1)) AS k, string_to_array(current_setting('search_path'),',') p) END",
    "power bi foreign keys of a table": "SELECT p.COLUMN_NAME AS PK, f.TABLE_SCHEMA AS FS, f.TABLE_NAME AS FT, f.ORDINAL_POSITION AS ORDINAL, r.CONSTRAINT_SCHEMA || '_' || f.TABLE_NAME || '_' || 'visits' AS FK_NAME FROM (SELECT DISTINCT constraint_schema, unique_constraint_schema, constraint_name, unique_constraint_name FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS) r INNER JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE f ON r.CONSTRAINT_SCHEMA = f.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = f.CONSTRAINT_NAME INNER JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE p ON r.UNIQUE_CONSTRAINT_SCHEMA = p.CONSTRAINT_SCHEMA AND r.UNIQUE_CONSTRAINT_NAME = p.CONSTRAINT_NAME WHERE p.TABLE_SCHEMA = 'public' AND p.TABLE_NAME = 'visits' AND p.ORDINAL_POSITION = f.ORDINAL_POSITION ORDER BY FK_NAME, f.ORDINAL_POSITION",
    "power bi indexes": "SELECT c.CONSTRAINT_SCHEMA || '_' || c.CONSTRAINT_NAME AS INDEX_NAME, k.COLUMN_NAME, k.ORDINAL_POSITION, CASE WHEN c.CONSTRAINT_TYPE = 'PRIMARY KEY' THEN 'Y' ELSE 'N' END AS PRIMARY_KEY FROM INFORMATION_SCHEMA.table_constraints c INNER JOIN INFORMATION_SCHEMA.key_column_usage k ON c.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND c.CONSTRAINT_NAME = k.CONSTRAINT_NAME AND c.TABLE_NAME = k.TABLE_NAME WHERE c.TABLE_NAME = 'visits' AND c.CONSTRAINT_TYPE IN ('PRIMARY KEY', 'UNIQUE') ORDER BY c.CONSTRAINT_SCHEMA || '_' || c.CONSTRAINT_NAME, k.ORDINAL_POSITION",
    "npgsql types of lists, ranges and domains": "SELECT s.nspname, q.oid, q.typname, q.typtype, q.of FROM (SELECT a.oid, a.typnamespace, a.typname, a.typtype, a.typrelid, a.relkind, e.oid AS of, CASE WHEN ep.proname = 'array_recv' THEN 'a' ELSE e.typtype END AS oftype FROM (SELECT t.oid, typnamespace, typname, typrelid, relkind, CASE WHEN p.proname = 'array_recv' THEN 'a' ELSE t.typtype END AS typtype, CASE WHEN p.proname = 'array_recv' THEN t.typelem WHEN t.typtype = 'r' THEN rngsubtype WHEN t.typtype = 'm' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = t.oid) WHEN t.typtype = 'd' THEN t.typbasetype END AS ofoid FROM pg_type AS t LEFT JOIN pg_class AS c ON (c.oid = t.typrelid) LEFT JOIN pg_proc AS p ON p.oid = t.typreceive LEFT JOIN pg_range ON (pg_range.rngtypid = t.oid)) AS a LEFT JOIN pg_type AS e ON e.oid = ofoid LEFT JOIN pg_proc AS ep ON ep.oid = e.typreceive) AS q JOIN pg_namespace AS s ON (s.oid = typnamespace) WHERE typtype IN ('b', 'r', 'm', 'e', 'd') OR (typtype = 'c' AND relkind = 'c') OR (typtype = 'a' AND oftype IN ('b', 'r', 'm', 'e', 'd')) ORDER BY CASE WHEN typtype IN ('b', 'e', 'p') THEN 0 WHEN typtype = 'd' AND oftype = 'a' THEN 6 END",
    "npgsql fields of rows": "SELECT t.oid, f.attname, f.atttypid FROM pg_type AS t JOIN pg_class AS c ON (c.oid = t.typrelid) JOIN pg_attribute AS f ON (f.attrelid = t.typrelid) WHERE (t.typtype = 'c' AND c.relkind = 'c') AND attnum > 0 AND NOT attisdropped ORDER BY t.oid, f.attnum",
    "npgsql enums": "SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid ORDER BY oid, enumsortorder",
    "pgadmin kind of server": "SELECT CASE WHEN (SELECT count(extname) FROM pg_catalog.pg_extension WHERE extname = 'bdr') > 0 THEN 'pgd' WHEN (SELECT COUNT(*) FROM pg_replication_slots) > 0 THEN 'log' ELSE NULL END AS kind",
    "adbc columns": "SELECT attname, atttypid FROM pg_catalog.pg_class AS r INNER JOIN pg_catalog.pg_attribute AS a ON r.oid = a.attrelid INNER JOIN pg_catalog.pg_type AS t ON a.atttypid = t.oid WHERE a.attnum >= 0 AND r.oid = 'visits'::regclass::oid ORDER BY a.attnum",
    "bounds of lists": "SELECT array_upper(ARRAY[7, 8], 1), array_lower(ARRAY[7, 8], 1), pg_catalog.array_upper(ARRAY['x'], 1), array_lower(string_to_array('a,b', ','), 1)",
    "pgcli path": "SELECT * FROM unnest(current_schemas(true))",
    "pgcli zone": "SHOW time zone",
    "pgcli columns": "SELECT s.nspname, r.relname, a.attname, a.atttypid::regtype::text AS kind, a.atthasdef, pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) AS default FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class r ON a.attrelid = r.oid JOIN pg_catalog.pg_namespace s ON r.relnamespace = s.oid LEFT OUTER JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE r.relkind = ANY('{v,m,r}') AND NOT a.attisdropped AND a.attnum > 0 ORDER BY 1, 2, a.attnum",
    "pgcli foreign keys": "SELECT s.nspname, p.relname, unnest((SELECT array_agg(attname ORDER BY k) FROM (SELECT unnest(confkey) AS attnum, generate_subscripts(confkey, 1) AS k) y JOIN pg_catalog.pg_attribute a USING (attnum) WHERE a.attrelid = f.confrelid)) AS column FROM pg_catalog.pg_constraint f JOIN pg_catalog.pg_class p ON p.oid = f.confrelid JOIN pg_catalog.pg_namespace s ON s.oid = p.relnamespace WHERE f.contype = 'f'",
    "pgcli types": "SELECT s.nspname, y.typname FROM pg_catalog.pg_type y JOIN pg_catalog.pg_namespace s ON s.oid = y.typnamespace WHERE (y.typrelid = 0 OR (SELECT r.relkind = 'c' FROM pg_catalog.pg_class r WHERE r.oid = y.typrelid)) AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_type e WHERE e.oid = y.typelem AND e.typarray = y.oid) AND s.nspname <> 'pg_catalog' ORDER BY 1, 2",
    "pgcli functions with arguments": "SELECT s.nspname, f.proname, f.proargnames, f.proargmodes, prorettype::regtype::text AS gives, f.prokind = 'a' AS aggregate, f.proretset, pg_get_expr(proargdefaults, 0) AS usual FROM pg_catalog.pg_proc f JOIN pg_catalog.pg_namespace s ON s.oid = f.pronamespace ORDER BY 1, 2",
    "psql table by name": "SELECT r.oid, s.nspname, r.relname FROM pg_catalog.pg_class r LEFT JOIN pg_catalog.pg_namespace s ON s.oid = r.relnamespace WHERE r.relname OPERATOR(pg_catalog.~) '^(visits)$' COLLATE pg_catalog.default AND pg_catalog.pg_table_is_visible(r.oid) ORDER BY 2, 3",
    "psql kind of table": "SELECT r.relchecks, r.relkind, r.relhasindex, r.relhasrules, r.relhastriggers, r.relrowsecurity, r.relforcerowsecurity, false AS oids, r.relispartition, '', r.reltablespace, CASE WHEN r.reloftype = 0 THEN '' ELSE r.reloftype::pg_catalog.regtype::pg_catalog.text END, r.relpersistence, r.relreplident, m.amname FROM pg_catalog.pg_class r LEFT JOIN pg_catalog.pg_class o ON (r.reltoastrelid = o.oid) LEFT JOIN pg_catalog.pg_am m ON (r.relam = m.oid) WHERE r.oid = '16384'",
    "psql columns": "SELECT k.attname, pg_catalog.format_type(k.atttypid, k.atttypmod), (SELECT pg_catalog.pg_get_expr(v.adbin, v.adrelid, true) FROM pg_catalog.pg_attrdef v WHERE v.adrelid = k.attrelid AND v.adnum = k.attnum AND k.atthasdef), k.attnotnull, (SELECT o.collname FROM pg_catalog.pg_collation o, pg_catalog.pg_type y WHERE o.oid = k.attcollation AND y.oid = k.atttypid AND k.attcollation <> y.typcollation), k.attidentity, k.attgenerated FROM pg_catalog.pg_attribute k WHERE k.attrelid = '16384' AND k.attnum > 0 AND NOT k.attisdropped ORDER BY k.attnum",
    "psql policies": "SELECT l.polname, l.polpermissive, CASE WHEN l.polroles = '{0}' THEN NULL ELSE pg_catalog.array_to_string(array(SELECT rolname FROM pg_catalog.pg_roles WHERE oid = ANY (l.polroles) ORDER BY 1), ',') END, pg_catalog.pg_get_expr(l.polqual, l.polrelid), CASE l.polcmd WHEN 'r' THEN 'SELECT' END FROM pg_catalog.pg_policy l WHERE l.polrelid = '16384' ORDER BY 1",
    "psql statistics": "SELECT oid, stxrelid::pg_catalog.regclass, stxnamespace::pg_catalog.regnamespace::pg_catalog.text AS space, stxname, pg_catalog.pg_get_statisticsobjdef_columns(oid) AS columns, 'd' = ANY(stxkind) AS d, stxstattarget FROM pg_catalog.pg_statistic_ext WHERE stxrelid = '16384' ORDER BY space, stxname",
    "psql publications": "SELECT pubname, NULL, NULL FROM pg_catalog.pg_publication b JOIN pg_catalog.pg_publication_namespace bn ON b.oid = bn.pnpubid JOIN pg_catalog.pg_class r ON r.relnamespace = bn.pnnspid WHERE r.oid = '16384' AND pg_catalog.pg_relation_is_publishable('16384') UNION SELECT pubname, pg_get_expr(br.prqual, r.oid), (CASE WHEN br.prattrs IS NOT NULL THEN (SELECT string_agg(attname, ', ') FROM pg_catalog.generate_series(0, pg_catalog.array_upper(br.prattrs::pg_catalog.int2[], 1)) g, pg_catalog.pg_attribute WHERE attrelid = br.prrelid AND attnum = prattrs[g]) ELSE NULL END) FROM pg_catalog.pg_publication b JOIN pg_catalog.pg_publication_rel br ON b.oid = br.prpubid JOIN pg_catalog.pg_class r ON r.oid = br.prrelid WHERE br.prrelid = '16384' ORDER BY 1",
    "psql parents": "SELECT r.oid::pg_catalog.regclass FROM pg_catalog.pg_class r, pg_catalog.pg_inherits h WHERE r.oid = h.inhparent AND h.inhrelid = '16384' AND r.relkind != 'p' AND r.relkind != 'I' ORDER BY inhseqno",
    "psql partitions": "SELECT r.oid::pg_catalog.regclass, r.relkind, inhdetachpending, pg_catalog.pg_get_expr(r.relpartbound, r.oid) FROM pg_catalog.pg_class r, pg_catalog.pg_inherits h WHERE r.oid = h.inhrelid AND h.inhparent = '16384' ORDER BY pg_catalog.pg_get_expr(r.relpartbound, r.oid) = 'DEFAULT', r.oid::pg_catalog.regclass::pg_catalog.text",
    "psql databases": "SELECT b.datname, pg_catalog.pg_get_userbyid(b.datdba) AS owner, pg_catalog.pg_encoding_to_char(b.encoding) AS coded, CASE b.datlocprovider WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' END AS provider, b.datcollate, b.datctype, b.daticulocale, b.daticurules, CASE WHEN pg_catalog.array_length(b.datacl, 1) = 0 THEN '(none)' ELSE pg_catalog.array_to_string(b.datacl, E'\\n') END AS rights FROM pg_catalog.pg_database b ORDER BY 1",
    "psql foreign keys": "SELECT true AS same, conname, pg_catalog.pg_get_constraintdef(k.oid, true) AS text, conrelid::pg_catalog.regclass AS of FROM pg_catalog.pg_constraint k WHERE k.conrelid = '16384' AND k.contype = 'f' AND conparentid = 0 ORDER BY conname",
}
"""What tools ask as they connect, list and describe: reworded, with every construct of their own statements."""

STATED = [
    "SET extra_float_digits = 3",
    "SET application_name = 'DBeaver 25.1.5 - Main <postgres>'",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    'SET TIME ZONE "Asia/Shanghai"',
    "DISCARD ALL",
]
"""What tools say before they ask."""

ASKED = {
    "power bi sums": 'select "rows"."region" as "region", sum("rows"."age") as "a0" from ( select "_"."region", "_"."age" from "public"."visits" "_" ) "rows" group by "region" limit 1000001',
    "power bi counts": 'select count(*) as "a0" from ( select "_"."region" from "public"."visits" "_" ) "_" limit 1000001',
    "metabase groups": 'SELECT "public"."visits"."region" AS "region", COUNT(*) AS "count" FROM "public"."visits" GROUP BY "public"."visits"."region" ORDER BY "public"."visits"."region" ASC',
    "metabase months": 'SELECT CAST(DATE_TRUNC(\'month\', "public"."visits"."day") AS date) AS "day", COUNT(*) AS "count" FROM "public"."visits" GROUP BY CAST(DATE_TRUNC(\'month\', "public"."visits"."day") AS date) ORDER BY CAST(DATE_TRUNC(\'month\', "public"."visits"."day") AS date) ASC',
    "metabase models": 'SELECT "source"."region" AS "region", SUM("source"."age") AS "sum" FROM (SELECT "public"."visits"."region" AS "region", "public"."visits"."age" AS "age" FROM "public"."visits") AS "source" GROUP BY "source"."region" ORDER BY "source"."region" ASC',
    "metabase filters": 'SELECT count(*) AS "count" FROM "public"."visits" WHERE ("public"."visits"."day" >= date \'2020-01-01\') AND ("public"."visits"."day" < date \'2020-04-01\')',
    "superset most first": "SELECT region AS region, COUNT(*) AS count FROM public.visits GROUP BY region ORDER BY count DESC LIMIT 1000",
    "superset days": "SELECT DATE_TRUNC('day', day) AS __timestamp, COUNT(*) AS count FROM public.visits WHERE day >= '2020-03-01' AND day < '2020-03-04' GROUP BY DATE_TRUNC('day', day) ORDER BY count DESC LIMIT 1000",
    "superset metrics": 'SELECT region AS region, COUNT(*) AS "COUNT(*)", AVG(cost) AS "AVG(cost)" FROM public.visits GROUP BY region ORDER BY "COUNT(*)" DESC LIMIT 100',
    "grafana days": "SELECT day AS \"time\", COUNT(*) FROM visits WHERE day BETWEEN '2020-03-01' AND '2020-03-03' GROUP BY 1 ORDER BY 1",
    "grafana times with a zone": "SELECT day AS \"time\", COUNT(*) FROM visits WHERE day BETWEEN '2020-03-01T07:30:00Z' AND '2020-03-03T07:30:00Z' GROUP BY 1 ORDER BY 1",
    "superset days by their format": "SELECT DATE_TRUNC('day', day) AS __timestamp, COUNT(*) AS count FROM public.visits WHERE day >= TO_DATE('2020-03-01', 'YYYY-MM-DD') AND day < TO_TIMESTAMP('2020-03-04 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('day', day) ORDER BY count DESC LIMIT 1000",
    "power bi days": 'select "_"."day" as "day", count(*) as "a0" from "public"."visits" "_" where "_"."day" >= timestamp \'2020-03-01 00:00:00\' and "_"."day" < timestamp \'2020-03-04 00:00:00\' group by "_"."day" limit 1000001',
}
"""Questions as tools write them from what was clicked."""

LIMITS = {
    "psql 16 keys of partitions": "SELECT conname FROM pg_catalog.pg_constraint WHERE confrelid IN (SELECT pg_catalog.pg_partition_ancestors('16384') UNION ALL VALUES ('16384'::pg_catalog.regclass))",
    "a name of a schema for its number": "SELECT relname FROM pg_class WHERE relnamespace = 'public'",
}
"""What is refused, though tools of some version or setting say it; the guide names the first, the second is
no SQL of PostgreSQL's either."""


@pytest.fixture(scope="module")
def client(door):
    with psycopg.connect(**door.target, dbname="clinic", autocommit=True) as made:
        yield made


@pytest.mark.quick_cases(40)
@pytest.mark.parametrize("name", VECTORS)
def test_a_question_about_the_schema_is_answered(client, door, name):
    before = door.charges()
    assert client.execute(VECTORS[name]).description is not None
    assert door.charges() == before


@pytest.mark.parametrize("sql", STATED)
def test_what_tools_say_before_they_ask_is_accepted(door, sql):
    with psycopg.connect(**door.target, dbname="clinic", autocommit=True) as made:
        assert made.execute(sql).statusmessage == ("DISCARD ALL" if sql == "DISCARD ALL" else "SET")
        assert made.execute("SELECT 1").fetchone() == (1,)


def test_questions_as_tools_write_them_are_answered(door):
    with psycopg.connect(**door.target, dbname="clinic", autocommit=True, options="-c discreet.epsilon=1") as made:
        for name, sql in ASKED.items():
            assert made.execute(sql).fetchall(), name


@pytest.mark.parametrize("name", LIMITS)
def test_what_is_not_answered_is_refused_in_words_and_for_free(door, name):
    with psycopg.connect(**door.target, dbname="clinic", autocommit=True, options="-c discreet.epsilon=1") as made:
        before = door.charges()
        with pytest.raises(psycopg.Error) as refusal:
            made.execute(LIMITS[name])
        assert refusal.value.sqlstate == "42000"
        assert refusal.value.diag.message_hint
        assert door.charges() == before


def test_the_guide_counts_these_statements():
    guide = (Path(__file__).parents[3] / "docs/guide/postgres-clients.md").read_text("utf-8")
    answered = len(VECTORS) + len(ASKED) + len(STATED)
    assert f"Of {answered + len(LIMITS)} statements of these tools" in " ".join(guide.split())
    assert f"{answered} are answered" in guide


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


def test_literals_are_quoted_as_asyncpg_wants_them_for_copy(client):
    sql = r"SELECT quote_literal('a''b'), quote_literal($1::pg_catalog.int8), quote_nullable(NULL), quote_literal(E'a\\b')"
    found = psycopg.RawCursor(client).execute(sql, [5]).fetchone()
    assert found == ("'a''b'", "'5'", "NULL", r"E'a\\b'")


def test_numbers_of_many_digits_are_exact():
    from decimal import Decimal

    from discreet.server.postgres.types import NUMERIC, parameter

    for text in ("123456789012345678901234567890.123456789", "-0.00010002", "0", "10000", "1.50"):
        assert parameter(NUMERIC.binary(Decimal(text)), 1700, binary=True) == Decimal(text)
    for stated in (b"2020-03-04 +00", b"2020-03-04T10:00:00.000+00:00", b"2020-03-04"):  # JDBC, Node, psycopg
        assert str(parameter(stated, 1082, binary=False)) == "2020-03-04"
    with pytest.raises(Exception, match="date"):
        parameter(b"2020-03-04 x", 1082, binary=False)


def test_days_and_moments_that_python_does_not_know_are_written_as_postgresql_does():
    import duckdb

    from discreet.server.postgres.types import form_of

    written = [
        ("date 'infinity'", b"infinity", "7fffffff"),
        ("date '-infinity'", b"-infinity", "80000000"),
        ("date '290000-01-01'", b"290000-01-01", "064511d0"),
        ("date '5000-01-02 (BC)'", b"5000-01-02 BC", "ffd8fe55"),
        ("timestamp 'infinity'", b"infinity", "7fffffffffffffff"),
        ("timestamptz '-infinity'", b"-infinity", "8000000000000000"),
        ("timestamp '1969-12-31 23:59:59.999999'", b"1969-12-31 23:59:59.999999", "fffca2fec4c81fff"),
        ("timestamp_ns '2024-01-01 00:00:00.123456789'", b"2024-01-01 00:00:00.123456", "0002b0d5d4eb2240"),
        ("['infinity'::date, NULL]", b"{infinity,NULL}", None),
        ("0.1::real", b"0.1", "3dcccccd"),
    ]
    table = duckdb.sql(f"SELECT {', '.join(text for text, *_ in written)}").to_arrow_table()
    for (sql, text, binary), column in zip(written, table.columns, strict=True):
        form = form_of(column.type)
        assert form.column(column, binary=False) == [text], sql
        assert binary is None or form.column(column, binary=True)[0].hex() == binary, sql


def test_types_in_text_and_in_binary_are_the_same(client):
    sql = (
        "SELECT 7::bigint AS a, 1.5::numeric(9,3) AS b, -0.25::double precision AS c, true AS d, 'x''y'::text AS e, "
        "date '2024-02-29' AS f, timestamp '2024-02-29 12:34:56.789' AS g, ARRAY[1,2]::bigint[] AS h, "
        "time '12:34:56.5' AS m, timestamptz '2020-01-01 00:00:00+02' AS n, '\\x6162'::bytea AS o, 1.5::real AS p, "
        "3::smallint AS q, 4::integer AS r, uuid '12345678-1234-1234-1234-123456789012' AS s, "
        "ARRAY['a','b,c',NULL] AS t, "
        "'n'::name AS u, 'visits'::regclass::oid AS v, "
        "NULL::text AS i, -12345.678::numeric(12,3) AS j, 0::numeric(5,2) AS k, interval '2 days' AS l"
    )
    rows = [client.cursor(binary=binary).execute(sql).fetchone() for binary in (False, True)]
    assert rows[0] == rows[1]
    assert rows[0][0] == 7
    assert rows[0][7] == [1, 2]
