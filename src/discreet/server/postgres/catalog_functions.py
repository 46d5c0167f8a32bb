"""PostgreSQL's functions, casts and operators in questions about the schema, written as what they mean here."""

from collections.abc import Callable, Mapping
from typing import Any

import sqlglot
from sqlglot import exp

from discreet.errors import InvalidQuery
from discreet.server.postgres.statements import literal, membership
from discreet.server.postgres.types import TYPES

_SCHEMAS = {"pg_catalog": 11, "public": 2200, "information_schema": 13000}
_NUMBERS = {
    "pg_class": 1259, "pg_type": 1247, "pg_proc": 1255, "pg_namespace": 2615, "pg_attribute": 1249, "pg_attrdef": 2604,
    "pg_constraint": 2606, "pg_database": 1262, "pg_description": 2609, "pg_index": 2610, "pg_trigger": 2620,
    "pg_rewrite": 2618, "pg_am": 2601, "pg_extension": 3079, "pg_language": 2612, "pg_operator": 2617,
    "pg_collation": 3456, "pg_opclass": 2616, "pg_cast": 2605, "pg_enum": 3501, "pg_roles": 12000,
}  # fmt: skip
_TRUE = frozenset({
    "pg_table_is_visible", "pg_type_is_visible", "pg_function_is_visible", "pg_opclass_is_visible",
    "pg_opfamily_is_visible", "pg_operator_is_visible", "pg_collation_is_visible", "pg_statistics_obj_is_visible",
    "pg_ts_config_is_visible", "has_schema_privilege", "has_table_privilege", "has_column_privilege",
    "has_any_column_privilege", "has_database_privilege", "pg_advisory_unlock_all", "has_function_privilege",
    "has_sequence_privilege", "has_tablespace_privilege", "has_type_privilege",
})  # fmt: skip
_FALSE = frozenset({"pg_is_in_recovery", "pg_relation_is_publishable", "pg_is_other_temp_schema", "pg_has_role",
                    "row_security_active", "pg_is_wal_replay_paused"})  # fmt: skip
_NULL = frozenset({
    "pg_get_expr", "pg_get_viewdef", "pg_get_indexdef", "pg_get_constraintdef", "pg_get_triggerdef", "pg_get_ruledef",
    "pg_get_functiondef", "pg_get_function_arguments", "pg_get_function_result", "pg_get_serial_sequence",
    "pg_get_partkeydef", "pg_get_statisticsobjdef_columns", "pg_get_statisticsobjdef", "pg_tablespace_location",
    "inet_server_addr", "inet_client_addr", "inet_server_port", "pg_get_function_identity_arguments", "to_regtype",
    "pg_describe_object", "pg_stat_get_numscans", "pg_last_xact_replay_timestamp", "pg_indexes_size",
    "pg_get_function_sqlbody", "pg_partition_ancestors", "aclexplode", "acldefault", "pg_options_to_table",
    "pg_sequence_last_value",
})  # fmt: skip
_ZERO = frozenset({"pg_my_temp_schema", "pg_char_to_encoding", "pg_relation_size", "pg_total_relation_size",
                   "pg_table_size", "pg_database_size", "pg_tablespace_size", "txid_current",
                   "pg_stat_get_live_tuples"})  # fmt: skip
_TABLES = frozenset({"pg_get_keywords"})
"""Functions that give tables, which are empty relations here."""
_ROOMS = ("pg_catalog", "information_schema")
_PROCEDURES = ("typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze", "amhandler")


def rewritten(tree: exp.Expr, facts: Mapping[str, Any], numbers: Mapping[str, int]) -> exp.Expr:
    """A statement of PostgreSQL over its catalog as one that DuckDB can run."""
    changes: tuple[Change, ...] = (
        _unqualified,
        _operators,
        _procedures,
        lambda node: _cast(node, numbers),
        lambda node: _function(node, facts, numbers),
    )
    tree = exp.Subquery(this=tree.copy())
    for change in changes:
        for node in reversed(list(tree.walk())):  # what is inside comes before what holds it
            new = change(node)
            if new is not node:
                node.replace(new)
    whole: exp.Expr = tree.this
    return whole.pop()


Change = Callable[[exp.Expr], exp.Expr]


def _unqualified(node: exp.Expr) -> exp.Expr:
    """pg_catalog.function(…) is the function; pg_catalog.type is the type; COLLATE says nothing here."""
    if isinstance(node, exp.Dot) and isinstance(node.this, exp.Identifier) and node.this.name.casefold() in _ROOMS:
        inner: exp.Expr = node.expression
        return inner
    if isinstance(node, exp.Column) and node.args.get("db") is not None:
        node.set("db", None)
        node.set("catalog", None)
    if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
        node.set("db", None)
        return _from_function(node)
    if isinstance(node, exp.Collate):
        value: exp.Expr = node.this
        return value
    return node


def _from_function(node: exp.Table) -> exp.Expr:
    """A function in FROM: an empty relation, or one whose column is called as the table is, as in PostgreSQL."""
    name, alias = node.this.name.casefold() or node.this.sql_name().casefold(), node.alias
    if name in _TABLES:
        return exp.table_(name, alias=node.args.get("alias"))
    if not alias or node.args["alias"].columns:
        return node
    if isinstance(node.this, exp.GenerateSeries | exp.Unnest):
        node.args["alias"].set("columns", [exp.to_identifier(alias)])
        return node
    return exp.select(exp.alias_(node.this.copy(), alias)).subquery(alias)


_SIGNS: dict[str, Callable[[exp.Expr, exp.Expr], exp.Expr]] = {
    "~": lambda a, b: exp.RegexpLike(this=a, expression=b),
    "!~": lambda a, b: exp.Not(this=exp.RegexpLike(this=a, expression=b)),
    "~~": lambda a, b: exp.Like(this=a, expression=b),
    "!~~": lambda a, b: exp.Not(this=exp.Like(this=a, expression=b)),
    "=": lambda a, b: exp.EQ(this=a, expression=b),
    "<>": lambda a, b: exp.NEQ(this=a, expression=b),
}


def _operators(node: exp.Expr) -> exp.Expr:
    """OPERATOR(pg_catalog.~) as the operator that it names."""
    if isinstance(node, exp.EQ | exp.NEQ):
        return membership(node)
    if isinstance(node, exp.Operator):
        sign = str(node.args.get("operator")).rpartition(".")[2]
        if sign in _SIGNS:
            return _SIGNS[sign](node.this.copy(), node.expression.copy())
    return node


def _procedures(node: exp.Expr) -> exp.Expr:
    """A procedure is a name here: compared with 0, it is compared with no name."""
    compared = isinstance(node, exp.EQ | exp.NEQ) and isinstance(node.this, exp.Column)
    if compared and node.this.name.casefold() in _PROCEDURES and node.expression.name == "0":
        return type(node)(this=node.this.copy(), expression=exp.Literal.string("-"))
    return node


def _type_name(node: exp.Cast) -> str:
    to = node.to
    if isinstance(to, exp.ObjectIdentifier):
        return str(to.this).casefold()
    if to.this is exp.DataType.Type.NAME:
        return "name"
    kind = to.args.get("kind")
    if kind is not None:
        return (kind.sql() if isinstance(kind, exp.Expr) else str(kind)).casefold().rpartition(".")[2].strip('"')
    return ""


def _cast(node: exp.Expr, numbers: Mapping[str, int]) -> exp.Expr:  # noqa: PLR0911 (one return a type)
    """Casts to types that only PostgreSQL has."""
    if not isinstance(node, exp.Cast):
        return node
    name, value = _type_name(node), node.this.copy()
    if (
        isinstance(value, exp.Literal)
        and value.is_string
        and name in ("regclass", "regtype", "regnamespace", "regproc")
    ):
        plain = value.name.replace('"', "")
        if plain.isdecimal():
            return exp.Literal.number(plain)
        result = _number(name, plain.rpartition(".")[2], numbers)
        return exp.Null() if result is None else exp.Literal.number(result)
    match name:
        case "regclass":
            return _relation("relname", value)
        case "regtype":
            return _type_text(value)
        case "regnamespace":
            return _schema_text(value)
        case "oid" if "regclass" in value.meta:
            return _relation("oid", value.meta["regclass"])
        case "oid" | "xid" | "int2vector" | "oidvector":
            return exp.TryCast(this=value, to=exp.DataType.build("BIGINT")) if name in ("oid", "xid") else value
        case "name" | "text" | "char" | "regproc" | "regprocedure" | "regoper" | "regoperator" | "regrole" | "varchar":
            return exp.cast(value, "VARCHAR")
        case "bool":
            return exp.cast(value, "BOOLEAN")
        case "int4" | "int8" | "int2" | "int":
            return exp.cast(value, "BIGINT")
        case _:
            return node


def _number(kind: str, name: str, numbers: Mapping[str, int]) -> int | None:
    if kind == "regclass":
        return numbers.get(name) or _NUMBERS.get(name)
    if kind == "regnamespace":
        return _SCHEMAS.get(name)
    return next((oid for oid, known in TYPES.items() if known.name == name), None)


_MARK = "__value__"


def _scalar(sql: str, value: exp.Expr, **more: exp.Expr) -> exp.Expr:
    """A query of ours in parentheses, with a node of the statement in place of a mark."""
    tree = sqlglot.parse_one(f"({sql})", read="postgres")
    for column in list(tree.find_all(exp.Column)):
        if column.name == _MARK:
            column.replace(exp.Paren(this=value.copy()))
        elif column.name in more:
            column.replace(exp.Paren(this=more[column.name].copy()))
    return tree


def _relation(column: str, value: exp.Expr) -> exp.Expr:
    """The name or the number of a relation that is given by either."""
    text = f"CAST({_MARK} AS text)"
    result = _scalar(
        f"SELECT {column} FROM pg_catalog.pg_class "  # noqa: S608
        f"WHERE CAST(oid AS text) = {text} OR relname = {text} OR 'public.' || relname = {text} LIMIT 1",
        value,
    )
    result.meta["regclass"] = value.copy()
    return result


def _type_text(value: exp.Expr) -> exp.Expr:
    case = exp.Case(this=value.copy())
    for oid, kind in TYPES.items():
        case = case.when(exp.Literal.number(oid), exp.Literal.string(kind.name), copy=False)
        case = case.when(exp.Literal.number(kind.array), exp.Literal.string(f"{kind.name}[]"), copy=False)
    for oid, name in ((18, '"char"'), (19, "name"), (1042, "character"), (2205, "regclass"), (2278, "void")):
        case = case.when(exp.Literal.number(oid), exp.Literal.string(name), copy=False)
    case = case.when(exp.Literal.number(0), exp.Literal.string("-"), copy=False)
    unknown = exp.case().when(exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())), exp.Literal.string("???"))
    return case.else_(unknown, copy=False)


def _schema_text(value: exp.Expr) -> exp.Expr:
    case = exp.Case(this=value.copy())
    for name, oid in _SCHEMAS.items():
        case = case.when(exp.Literal.number(oid), exp.Literal.string(name), copy=False)
    return case


_WORDS = frozenset({"current_user", "session_user", "user", "current_catalog", "current_role", "current_schema"})
_NOW = frozenset({"now", "statement_timestamp", "clock_timestamp", "pg_postmaster_start_time", "pg_conf_load_time",
                  "current_timestamp", "localtimestamp", "transaction_timestamp"})  # fmt: skip


def _function(node: exp.Expr, facts: Mapping[str, Any], numbers: Mapping[str, int]) -> exp.Expr:  # noqa: PLR0911
    """A function that DuckDB lacks, or would answer for itself."""
    if isinstance(node, exp.Column) and not node.table and not node.this.args.get("quoted"):
        word = node.name.casefold()
        return _with_name(literal(facts[word]), node, word) if word in _WORDS else node
    if not isinstance(node, exp.Func):
        return node
    if isinstance(node, exp.Anonymous):
        name, arguments = node.name.casefold(), list(node.expressions)
    else:
        name = node.sql_name().casefold()
        arguments = [part for part in node.args.values() if isinstance(part, exp.Expr)]
    name = {"current_version": "version"}.get(name, name)
    if name in _NOW:
        return _with_name(exp.cast(literal(facts["now"]), "TIMESTAMPTZ"), node, "now")
    if name in facts:
        return _with_name(literal(facts[name]), node, name)
    if name in _TRUE:
        return _with_name(exp.true(), node, name)
    if name in _FALSE:
        return _with_name(exp.false(), node, name)
    if name in _NULL:
        return _with_name(exp.cast(exp.Null(), "VARCHAR"), node, name)
    if name in _ZERO:
        return _with_name(exp.Literal.number(0), node, name)
    return _computed(node, name, arguments, facts, numbers)


def _described(first: exp.Expr, number: exp.Expr) -> exp.Expr:
    sql = "SELECT description FROM pg_catalog.pg_description WHERE objoid = __value__ AND objsubid = __number__ LIMIT 1"
    return _scalar(sql, first, __number__=number)


_QUOTED = """
CASE WHEN __value__ IS NULL THEN __missing__ ELSE concat(
    CASE WHEN strpos(CAST(__value__ AS text), '\\') > 0 THEN 'E' ELSE '' END, '''',
    replace(replace(CAST(__value__ AS text), '''', ''''''), '\\', '\\\\'), '''') END"""


def _quoted(value: exp.Expr, missing: str | None) -> exp.Expr:
    """A value as the text of a literal; E begins one that holds a backslash."""
    return _scalar(_QUOTED, value, __missing__=literal(missing))


def _computed(  # noqa: PLR0911, PLR0912 (one return a function)
    node: exp.Expr, name: str, arguments: list[exp.Expr], facts: Mapping[str, Any], numbers: Mapping[str, int]
) -> exp.Expr:
    """A function whose value depends on what it is given."""
    first = arguments[0] if arguments else exp.Null()
    match name:
        case "format_type":
            return _with_name(_type_text(first), node, name)
        case "pg_get_userbyid":
            text = f"SELECT rolname FROM pg_catalog.pg_roles WHERE oid = {_MARK} LIMIT 1"  # noqa: S608
            return _with_name(_scalar(text, first), node, name)
        case "pg_encoding_to_char":
            return _with_name(exp.Literal.string("UTF8"), node, name)
        case "current_schemas":
            return _with_name(literal(["pg_catalog", "public"]), node, name)
        case "current_setting":
            known = facts["settings"].get(first.name.casefold())
            return _with_name(exp.Null() if known is None else literal(known), node, name)
        case "set_config" if first.name.casefold().startswith("discreet."):
            raise InvalidQuery("set_config of a term of questions", f"write SET {first.name} = …")
        case "set_config":
            return _with_name((arguments[1] if len(arguments) > 1 else exp.Null()).copy(), node, name)
        case "obj_description":
            return _with_name(_described(first, exp.Literal.number(0)), node, name)
        case "col_description" if len(arguments) > 1:
            return _with_name(_described(first, arguments[1]), node, name)
        case "shobj_description":
            text = f"SELECT description FROM pg_catalog.pg_shdescription WHERE objoid = {_MARK} LIMIT 1"  # noqa: S608
            return _with_name(_scalar(text, first), node, name)
        case "format" if first.name == "%I.%I" and len(arguments) == 1 and len(node.expressions) == 2:
            return exp.func("concat", node.expressions[0], exp.Literal.string("."), node.expressions[1])
        case "format" if first.name == "%I.%I" and len(arguments) == 3:
            return exp.func("concat", arguments[1], exp.Literal.string("."), arguments[2])
        case "format" if first.name == "%I" and node.expressions:
            return _with_name(node.expressions[-1].copy(), node, name)
        case "quote_ident":
            return _with_name(first.copy(), node, name)
        case "quote_literal" | "quote_nullable":
            return _with_name(_quoted(first, "NULL" if name == "quote_nullable" else None), node, name)
        case "pg_size_pretty":
            return _with_name(exp.Literal.string("0 bytes"), node, name)
        case "to_regclass":
            plain = first.name.replace('"', "").rpartition(".")[2] if isinstance(first, exp.Literal) else ""
            return _with_name(literal(numbers.get(plain)), node, name)
        case "_pg_expandarray":  # of the columns of an index, of which there is none
            return sqlglot.parse_one("{'x': CAST(NULL AS BIGINT), 'n': CAST(NULL AS BIGINT)}", read="duckdb")
        case "json_build_object":
            return exp.Anonymous(this="json_object", expressions=[part.copy() for part in arguments])
        case "array_upper":
            return _with_name(exp.Anonymous(this="len", expressions=[first.copy()]), node, name)
        case "array_lower":
            return _with_name(exp.Literal.number(1), node, name)
        case "parse_ident":
            bare = exp.Anonymous(this="replace", expressions=[first.copy(), literal('"'), literal("")])
            return _with_name(exp.Anonymous(this="string_split", expressions=[bare, literal(".")]), node, name)
        case _:
            return node


def _with_name(value: exp.Expr, node: exp.Expr, name: str) -> exp.Expr:
    """A value that stands for a function among the columns of a SELECT has the function's name."""
    if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        return exp.alias_(value, name, quoted=True)
    return value
