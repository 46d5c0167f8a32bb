"""What a server and its clients say to each other: questions, answers and errors as documents.

Both sides import this module, so they cannot drift. Numbers such as ε travel as text or as JSON numbers, and are read
as the decimal that was written. Answers travel as JSON for people and scripts, and as Arrow streams without any loss.
"""

import base64
import ipaddress
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet import errors, requests
from discreet.curator.answer import Answer, Receipt
from discreet.errors import DiscreetError, InvalidParameter, ServerUnavailable
from discreet.exact import plain
from discreet.privacy import loss as losses
from discreet.requests import Question, Request
from discreet.tables import read_table

if TYPE_CHECKING:
    from discreet.curator.catalog import Catalog, Column, Table
    from discreet.curator.reports.budget_report import BudgetReport
    from discreet.sql.plan.explain import Explanation

ARROW = "application/vnd.apache.arrow.stream"
"""The media type of answers as Arrow streams, one after the other."""

PROBLEM = "application/problem+json"
"""The media type of errors (RFC 9457)."""

VERSION = 1
"""Of the documents of this module; part of every path of the server."""

_META = b"discreet"
_TERMS = ("epsilon", "error", "delta", "groups", "rows", "confidence", "measure_bounds")


# Questions


def question_document(question: Question) -> dict[str, Any]:
    """A question as JSON can hold it: terms that were not stated are left out.

    >>> question_document(Question("SELECT COUNT(*) FROM people", epsilon=Fraction(1, 2)))
    {'sql': 'SELECT COUNT(*) FROM people', 'epsilon': '0.5'}
    """
    document: dict[str, Any] = {"sql": question.sql if isinstance(question.sql, str) else list(question.sql)}
    for name in _TERMS:
        value, default = getattr(question, name), Question.__dataclass_fields__[name].default
        if value != default:
            document[name] = value if isinstance(value, bool | int) else str(plain(value) if _exact(value) else value)
    return document


def question_of(document: Mapping[str, Any]) -> Question:
    """The question of a document; a name that is not known is refused, as is a value of another type.

    >>> question_of({"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1}).epsilon
    '0.1'
    >>> question_of({"sql": "SELECT COUNT(*) FROM people", "groups": "2"})
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: groups: got '2', expected a whole number
    """
    odd = [name for name in document if name not in ("sql", *_TERMS)]
    if odd:
        hint = f"a question has sql and, of terms, {', '.join(_TERMS)}"
        raise InvalidParameter(odd[0], document[odd[0]], "a name of a question", hint)
    sql = document.get("sql")
    texts = tuple(text for text in (sql if isinstance(sql, list) else [sql]) if isinstance(text, str))
    if not texts or len(texts) < (len(sql) if isinstance(sql, list) else 1):
        raise InvalidParameter("sql", sql, "SQL as text, or a list of at least one statement")
    terms = {name: _term(name, document[name]) for name in _TERMS if document.get(name) is not None}
    return Question(texts if isinstance(sql, list) else texts[0], **terms)


def _term(name: str, value: Any) -> Any:
    """A term of a question, which is a value that can be compared and remembered; anything else is refused."""
    kinds, words = _TERM_KINDS.get(name, ((str, int, float), "a number, or a number as text"))
    if type(value) not in kinds:  # JSON has no other types, and True is no number
        raise InvalidParameter(name, value, words)
    return decimal(value)


_TERM_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "groups": ((int,), "a whole number"),
    "rows": ((int,), "a whole number"),
    "measure_bounds": ((bool,), "true or false"),
}


def decimal(value: Any) -> Any:
    """A number of JSON as the decimal that was written, not the nearest binary fraction.

    >>> decimal(0.1), decimal(2), decimal("1/3")
    ('0.1', 2, '1/3')
    """
    return repr(value) if isinstance(value, float) else value


def answer_id(question: Question) -> str:
    """The name under which the answer to a question is found again: the question itself, packed.

    >>> question_named(answer_id(Question("SELECT COUNT(*) FROM people", epsilon="0.5"))).epsilon
    '0.5'
    """
    text = json.dumps(question_document(question), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def question_named(name: str) -> Question:
    """The question of an answer's name."""
    refusal = InvalidParameter("answer", name, "the id of an answer, as the server gave it")
    try:
        packed = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4))
        unpacked = zlib.decompressobj()
        text = unpacked.decompress(packed, _LARGEST_QUESTION)
        if unpacked.unconsumed_tail:
            raise refusal
        document = json.loads(text)
    except (ValueError, RecursionError, zlib.error):
        raise refusal from None
    if not isinstance(document, dict):
        raise refusal
    return question_of(document)


_LARGEST_QUESTION = 1 << 20


def _exact(value: Any) -> bool:
    return isinstance(value, Fraction)


# Other requests

REQUESTS: Mapping[str, type] = {
    "synthesis": requests.Synthesis,
    "linked-synthesis": requests.LinkedSynthesis,
    "training": requests.Training,
    "commute": requests.Commute,
    "bounds": requests.ContributionBounds,
    "fairness-audit": requests.FairnessAudit,
}
"""What a job can be beside a question, and the request that its fields make."""

TABLES = frozenset({"places", "predictions"})
"""Fields of requests that are tables of the caller's: they travel whole, and are never the name of a file."""


def request_document(request: Request) -> dict[str, Any]:
    """A request as the document that starts a job: its kind, and the fields that were stated.

    >>> request_document(requests.ContributionBounds(table="visits", epsilon=Fraction(1, 10)))
    {'kind': 'bounds', 'request': {'table': 'visits', 'epsilon': '0.1'}}
    """
    if isinstance(request, Question):
        return {"kind": "question", "request": question_document(request)}
    kind = next((name for name, made in REQUESTS.items() if isinstance(request, made)), None)
    if kind is None:
        expected = "a value of discreet.requests, such as a Question"
        raise InvalidParameter("request", type(request).__name__, expected)
    stated = {}
    for field in fields(request):
        value = getattr(request, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if value is not default and value != default:
            table = read_table(value, field.name) if field.name in TABLES else value
            stated[field.name] = _sendable(table, field.name)
    return {"kind": kind, "request": stated}


def _sendable(value: Any, name: str) -> Any:
    """A value that JSON can hold; others cannot be sent."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Fraction():
            return plain(value)
        case Mapping():
            return {str(key): _sendable(part, name) for key, part in value.items()}
        case list() | tuple():
            return [_sendable(part, name) for part in value]
        case _ if hasattr(value, "to_pydict"):  # a table of Arrow
            return _sendable(value.to_pydict(), name)
    raise InvalidParameter(name, type(value).__name__, "numbers, texts, lists and mappings, which can be sent")


# Answers


def answer_document(answer: Answer, question: Question | None = None) -> dict[str, Any]:
    """An answer as JSON, with the id under which it is found again."""
    return answer.to_json() | ({} if question is None else {"id": answer_id(question)})


def answers_to_arrow(answers: Sequence[Answer]) -> bytes:
    """Answers as Arrow streams, one after the other, without any loss: intervals, receipt and notes go along."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    for answer in answers:
        names, columns = list(answer.table.column_names), list(answer.table.columns)
        for name, ends in answer.intervals.items():
            names += [f"{name} low", f"{name} high"]
            columns += [pa.chunked_array([end]) if isinstance(end, pa.Array) else end for end in ends]
        facts = {
            "columns": answer.table.num_columns,
            "intervals": list(answer.intervals),
            "confidence": plain(answer.confidence),
            "notes": list(answer.notes),
            "noise_only": answer.noise_only,
            "receipt": answer.receipt.to_json(),
        }
        schema = pa.schema(
            [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)],
            metadata={_META: json.dumps(facts, ensure_ascii=False).encode()},
        )
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    return bytes(sink.getvalue())


def answers_from_arrow(content: bytes) -> list[Answer]:
    """The answers of Arrow streams; what is none is `ServerUnavailable`."""
    import pyarrow as pa

    answers, source = [], pa.BufferReader(content)
    try:
        while source.tell() < len(content):
            table = pa.ipc.open_stream(source).read_all()
            table.validate(full=True)
            answers.append(_answer(table, json.loads(table.schema.metadata[_META])))
    except (pa.ArrowException, *_UNREADABLE) as error:
        raise ServerUnavailable(f"what came is no answer of a discreet server ({type(error).__name__})") from None
    return answers


_UNREADABLE = (
    ArithmeticError, AttributeError, DiscreetError, LookupError, OSError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What reading a document raises that is not what it should be."""


def _answer(table: Any, facts: Mapping[str, Any]) -> Answer:
    count = int(facts["columns"])
    ends = {
        name: tuple(table.column(count + 2 * place + end).combine_chunks() for end in (0, 1))
        for place, name in enumerate(facts["intervals"])
    }
    shown = table.select(range(count)).replace_schema_metadata(None)
    receipt = receipt_of(facts["receipt"])
    notes = tuple(facts["notes"])
    return Answer(shown, ends, Fraction(facts["confidence"]), receipt, notes, bool(facts["noise_only"]))


def receipt_of(document: Mapping[str, Any]) -> Receipt:
    """The receipt of a document that `Receipt.to_json` wrote."""
    given = {field.name: document[field.name] for field in fields(Receipt)}
    numbers = {name: float(document[name]) for name in ("epsilon", "delta", "remaining")}
    return Receipt(**{**given, **numbers, "loss": losses.from_json(json.dumps(document["loss"]))})


# What questions cost, and what is left


def explanation_of(document: Any) -> "Explanation":
    """The explanation of a document that `Explanation.to_json` wrote; what is none is `ServerUnavailable`."""
    from discreet.sql.plan.explain import Explanation

    try:
        return Explanation(
            tuple(document["statements"]),
            _fraction(document["epsilon"]),
            _fraction(document["delta"]),
            losses.from_json(json.dumps(document["loss"])),
            _fraction(document["confidence"]),
            tuple(document["releases"]),
            tuple(document["notes"]),
            tuple(document["warnings"]),
            document["budget"],
        )
    except _UNREADABLE as error:
        raise _not("explanation", error) from None


def budget_of(document: Any) -> "BudgetReport":
    """The report of a document that `BudgetReport.to_json` wrote; what is none is `ServerUnavailable`."""
    from discreet.curator.reports.budget_report import AnalystReport, BudgetReport
    from discreet.curator.stores import Head
    from discreet.privacy.budget import Budget

    try:
        analysts = tuple(
            AnalystReport(
                str(row["analyst"]), int(row["charges"]), float(row["spent"]), float(row["share"]),
                None if row["cap"] is None else Budget(**{name: _fraction(part) for name, part in row["cap"].items()}),
                None if row["left"] is None else float(row["left"]),
            )
            for row in document["analysts"]
        )  # fmt: skip
        epsilon, delta, delta_for_keys = (_fraction(document[name]) for name in ("epsilon", "delta", "delta_for_keys"))
        return BudgetReport(
            str(document["dataset"]), epsilon, delta, delta_for_keys, float(document["spent"]),
            _fraction(document["delta_spent"]), float(document["remaining"]), int(document["charges"]), analysts,
            Head(**document["head"]),
        )  # fmt: skip
    except _UNREADABLE as error:
        raise _not("budget report", error) from None


def _fraction(value: Any) -> Fraction:
    return Fraction(str(value))


def _not(what: str, error: Exception) -> ServerUnavailable:
    return ServerUnavailable(f"what came is no {what} of a discreet server ({type(error).__name__})")


# What is public of a dataset


def catalog_document(catalog: "Catalog") -> dict[str, Any]:
    """Tables, columns, bounds and values as the owner declared them; nothing of it comes from rows."""
    return {
        "name": catalog.name,
        "neighbors": str(catalog.neighbors),
        "protects": catalog.protects,
        "tables": [_table_document(table) for table in catalog.tables.values()],
    }


def _table_document(table: "Table") -> dict[str, Any]:
    document: dict[str, Any] = {"name": table.name, "private": table.private}
    if table.unit is not None:
        document |= {"unit": table.unit.key or "row", "protects": str(table.unit)}
    if table.link is not None:
        document["via"] = str(table.link)
        document["link"] = {"column": table.link.column, "table": table.link.table, "key": table.link.key}
    bounds = {"max_groups_per_unit": table.groups, "max_rows_per_group": table.rows}
    document |= {name: bound for name, bound in bounds.items() if bound is not None}
    return document | {"columns": [_column_document(column) for column in table.columns]}


def _column_document(column: "Column") -> dict[str, Any]:
    document: dict[str, Any] = {"name": column.name, "type": str(column.kind), "words": column.describe()}
    low = column.lower if column.lower is not None else column.earliest
    high = column.upper if column.upper is not None else column.latest
    for name, value in (("lower", low), ("upper", high), ("granularity", column.granularity)):
        if value is not None:
            document[name] = plain(value) if isinstance(value, Fraction | int) else value.isoformat()
    if column.values is not None:
        document["values"] = list(column.values)
    return document if column.nullable else document | {"nullable": False}


def catalog_of(document: Any) -> "Catalog":
    """The catalog of a document that `catalog_document` wrote; what is none is `ServerUnavailable`."""
    from discreet.curator.catalog import Catalog

    try:
        return Catalog(document["name"], map(_table_of, document["tables"]), neighbors=document["neighbors"])
    except _UNREADABLE as error:
        raise _not("catalog", error) from None


def _table_of(document: Mapping[str, Any]) -> "Table":
    from discreet.curator.catalog import Column, Link, Table
    from discreet.privacy.unit import Unit

    unit = None
    if document["private"]:
        unit = Unit(None if document["protects"] == str(Unit()) else document["unit"])
    declared = ("lower", "upper", "granularity", "values", "nullable")
    columns = [
        Column(column["name"], column["type"], **{name: column[name] for name in declared if name in column})
        for column in document["columns"]
    ]
    link = Link(**document["link"]) if "link" in document else None
    groups, rows = document.get("max_groups_per_unit"), document.get("max_rows_per_group")
    return Table(document["name"], columns, unit=unit, groups=groups, rows=rows, link=link)


# Errors


def problem_code(kind: type[BaseException]) -> str:
    """The stable name of a kind of error: that of the nearest class of `discreet.errors`.

    >>> problem_code(errors.BudgetExceeded)
    'budget-exceeded'
    """
    known = next((parent for parent in kind.__mro__ if parent.__module__ == errors.__name__), DiscreetError)
    return re.sub(r"(?<!^)(?=[A-Z])", "-", known.__name__).lower()


KINDS = {
    problem_code(kind): kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, DiscreetError)
}
"""Every error of discreet by its stable name."""

_FIELDS: Mapping[type[DiscreetError], tuple[str, ...]] = {
    InvalidParameter: ("name", "got", "expected", "hint"),
    errors.InvalidQuery: ("problem", "hint", "start"),
    errors.MissingExtra: ("package", "extra"),
}
"""What errors say beside their words, in parts."""

_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def problem_document(error: DiscreetError, *, status: int) -> dict[str, Any]:
    """An error as RFC 9457 writes it: a stable code, and the words that the command line would print.

    >>> problem_document(errors.BudgetExceeded("nothing is left"), status=402)["code"]
    'budget-exceeded'
    """
    code = problem_code(type(error))
    own = next((names for kind, names in _FIELDS.items() if isinstance(error, kind)), ())
    facts = {name: getattr(error, name) for name in own if getattr(error, name) not in (None, "")}
    title = (type(error).__doc__ or "").split("\n")[0]
    document = {"type": f"urn:discreet:problem:{code}", "code": code, "status": status, "title": title}
    return document | {"detail": str(error)} | ({"facts": facts} if facts else {})


def error_of(document: Mapping[str, Any]) -> DiscreetError:
    """The error that a problem document tells of; one of an unknown code is `ServerUnavailable`.

    >>> error_of({"code": "budget-exceeded", "detail": "nothing is left"})
    BudgetExceeded('nothing is left')
    """
    kind = KINDS.get(str(document.get("code")))
    detail = _CONTROLS.sub("", str(document.get("detail") or document.get("title") or ""))
    if kind is None:
        return ServerUnavailable(detail or "the server answered with something that is no answer")
    facts = document.get("facts")
    own = next((names for parent, names in _FIELDS.items() if issubclass(kind, parent)), ())
    told = facts if isinstance(facts, dict) else {}
    return errors.restored(kind, detail, {name: told.get(name, None if name == "start" else "") for name in own})


# Places


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
