"""Plans: everything about a release, decided before a row is seen, as a value and as a JSON document.

Documents are versioned, in names that do not follow Python's: a class is registered once under a name, its fields under
names of their own, so that renaming it in Python changes no document. The digest of a plan's document is the plan's
name: released answers are found again under it for years.

>>> @documented("coin", names={"p": "probability"})
... @dataclass(frozen=True)
... class Coin:
...     p: Fraction
>>> document = to_document(Coin(Fraction(1, 3)))
>>> canonical(document)
'{"is":"coin","probability":{"rational":"1/3"}}'
>>> from_document(document)
Coin(p=Fraction(1, 3))
>>> from_document({"is": "coin", "chance": 1})
Traceback (most recent call last):
discreet.errors.InvalidData: 'coin' has the fields probability; got also 'chance'; missing 'probability'; ...
"""

import hashlib
import json
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields  # noqa: F401 (for the examples)
from datetime import date, datetime, time, timedelta
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, get_args

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog, Column, ColumnType, Link, Table
from discreet.curator.engines import Engine
from discreet.errors import InternalError, InvalidData, NoGuarantee
from discreet.exact import plain, text_up
from discreet.noise import Entropy
from discreet.privacy import loss as losses
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import Approximate, Loss, Pure, Together
from discreet.privacy.unit import Neighbors, Unit
from discreet.report.card import outline

__all__ = [
    "Plan",
    "PlanDisplayMixin",
    "PrivatePlan",
    "canonical",
    "digest",
    "documented",
    "from_document",
    "plan_document",
    "plan_parts",
    "require_price",
    "to_document",
]  # fmt: skip

Result_co = TypeVar("Result_co", covariant=True)


class Plan(Protocol[Result_co]):
    """A release as a value: printable before it is paid for, and checked again at the gate.

    What every plan promises (tests/contracts/test_plan.py): `loss` covers all that `run` gives out, for the neighbors
    of the catalog; `verify` derives it again from the parts of the document and the catalog alone; `document` is the
    same for two plans that would release the same thing in the same way, and only for them; `finish` reads no private
    row.
    """

    @property
    def text(self) -> str:
        """What was asked, in the analyst's words: kept in the ledger for the owner."""
        ...

    def document(self) -> dict[str, Any]:
        """What is released and how, as a versioned JSON document; nothing of what is done afterwards."""
        ...

    @property
    def digest(self) -> str:
        """The name of the plan: the digest of its document. Plans of the same name share one answer."""
        ...

    @property
    def loss(self) -> Loss:
        """What the release costs, all of it together."""
        ...

    @property
    def epsilon(self) -> Fraction:
        """The ε of the whole, at `delta`: what the analyst is told that it costs."""
        ...

    @property
    def delta(self) -> Fraction:
        """The δ of the whole."""
        ...

    @property
    def private(self) -> bool:
        """Whether it reads private rows at all."""
        ...

    def verify(self, catalog: Catalog) -> Loss:
        """The loss, derived again from the document's parts and the owner's catalog, not from what the plan states.

        `InternalError` where the plan was made for another catalog, or its noise is too small for what one unit moves.
        """
        ...

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Read private rows and release: the only method that touches them."""
        ...

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> Result_co:
        """What the analyst gets, computed from released values (and public tables) alone."""
        ...


class PlanDisplayMixin:
    """How every plan is shown: in a line, and in a notebook by what `explain()` says."""

    __slots__ = ()

    def __repr__(self) -> str:
        plan: Any = self
        delta = f", δ {text_up(plan.delta)}" if plan.delta else ""
        asked = " ".join(plan.text.split())
        return f"<{type(self).__name__} {plan.digest[:12]} at ε {text_up(plan.epsilon)}{delta}: {asked}>"

    def _repr_html_(self) -> str:
        words: Any = self.explain()  # type: ignore[attr-defined]
        return str(words._repr_html_()) if hasattr(words, "_repr_html_") else outline(str(words))


class PrivatePlan(PlanDisplayMixin, ABC):
    """What plans share that always read private rows."""

    __slots__ = ()

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """What is released and how."""

    @property
    def digest(self) -> str:
        """The name of the plan."""
        return digest(self.document())

    @property
    def private(self) -> bool:
        """It reads private rows."""
        return True


_ROUNDING = 1 + 1e-9
"""What a calibrated ε may be off in its last digits."""


@lru_cache(maxsize=1024)
def require_price(loss: Loss, epsilon: Fraction, delta: Fraction) -> None:
    """Refuse a plan whose stated ε and δ, which the analyst is shown before paying, do not cover its loss.

    >>> require_price(Together(Pure("0.4"), Pure("0.6")), Fraction(1), Fraction(0))
    >>> require_price(Pure("1.1"), Fraction(1), Fraction(0))
    Traceback (most recent call last):
    discreet.errors.InternalError: a plan states a smaller ε or δ than its loss has; ...
    """
    parts = list(_together(loss))
    added = [part for part in parts if isinstance(part, Pure | Approximate)]
    rest = [part for part in parts if not isinstance(part, Pure | Approximate)]
    first = sum((part.epsilon for part in added), Fraction(0))
    used = sum((part.delta for part in added if isinstance(part, Approximate)), Fraction(0))
    if first <= epsilon and used <= delta and (not rest or _proves(Together(*rest), epsilon - first, delta - used)):
        return  # additive parts first: numerical accounting of all together takes half a second
    if not _proves(loss, epsilon, delta):
        raise InternalError("a plan states a smaller ε or δ than its loss has; nothing was charged or read")


def _together(loss: Loss) -> Iterator[Loss]:
    for part in loss.losses if isinstance(loss, Together) else ():
        yield from _together(part)
    if not isinstance(loss, Together):
        yield loss


def _proves(loss: Loss, epsilon: Fraction, delta: Fraction) -> bool:
    try:
        return guarantee(loss, delta=delta).epsilon <= float(epsilon) * _ROUNDING
    except NoGuarantee:
        return False


Class = TypeVar("Class", bound=type)
_EXACT_JSON = 2**53
"""Beyond it a whole number is written as text: not every reader of JSON has it exactly."""
_UNREADABLE = "another version of discreet may have written it"


class _Entry(NamedTuple):
    """How a class is written: the name of each Python field, and what the others are when it is read back."""

    name: str
    kind: type
    names: Mapping[str, str]
    omitted: Mapping[str, object]
    defaults: Mapping[str, object]


_BY_NAME: dict[str, _Entry] = {}
_BY_CLASS: dict[type, _Entry] = {}


def documented(
    name: str,
    *,
    names: Mapping[str, str] | None = None,
    omit: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Callable[[Class], Class]:
    """Register a frozen dataclass, a named tuple or an enum (written by its values) under a name that never changes.

    `names` gives fields that are written under another name than Python's; `omit` gives fields that are not written,
    since what is released does not depend on them, with the values that they have when they are read back. `defaults`
    gives fields that came later: they are written only where they differ from the value that older documents mean.

    Guarantee: equal documents are read as equal values, but for what is omitted. Proof. Every other field that the
    constructor takes is written, under a name of its own, or has its default; `to_document` writes no two values of a
    field alike.
    """
    renamed, omitted, later = dict(names or {}), dict(omit or {}), dict(defaults or {})

    def register(kind: Class) -> Class:
        if issubclass(kind, Enum):
            written = {"value": "value"}
        else:
            arguments = _arguments(kind)
            written = {field: renamed.get(field, field) for field in arguments if field not in omitted}
            if (
                {*renamed, *omitted, *later} - {*arguments}
                or len(set(written.values())) < len(written)
                or "is" in written
            ):
                raise TypeError(f"{name}: names, omit and defaults must give fields of {kind.__name__}, each once")
        entry = _Entry(name, kind, written, omitted, later)
        if _BY_NAME.setdefault(name, entry) != entry or _BY_CLASS.setdefault(kind, entry) != entry:
            raise TypeError(f"{name}, {kind.__name__}: registered before, otherwise")
        return kind

    return register


def _arguments(kind: Any) -> list[str]:
    return list(kind._fields) if issubclass(kind, tuple) else [field.name for field in fields(kind) if field.init]


def to_document(value: object) -> Any:  # noqa: PLR0911, PLR0912 (one branch a type)
    """A value in terms of JSON, exactly; what is not of a registered class or a plain value is refused.

    >>> to_document((Fraction(1, 2), 2**60, None, {"a": b"?"}))
    [{'rational': '0.5'}, {'integer': '1152921504606846976'}, None, {'mapping': [['a', {'bytes': 'Pw=='}]]}]
    """
    entry = _BY_CLASS.get(type(value))
    if entry is not None:
        return {"is": entry.name} | {
            written: to_document(getattr(value, field))
            for field, written in entry.names.items()
            if field not in entry.defaults or getattr(value, field) != entry.defaults[field]
        }
    match value:
        case None | bool():
            return value
        case Enum():
            raise _unknown(value)
        case str():
            return str(value)
        case int():
            return int(value) if abs(value) <= _EXACT_JSON else {"integer": str(value)}
        case float() if isfinite(value):
            return {"float": repr(float(value))}
        case Fraction():
            return {"rational": plain(value)}
        case bytes():
            return {"bytes": b64encode(value).decode()}
        case tuple() | list() if type(value) in (tuple, list):
            return [to_document(item) for item in value]
        case Mapping():
            return {"mapping": [[to_document(key), to_document(item)] for key, item in value.items()]}
        case range():
            return {"range": [to_document(part) for part in (value.start, value.stop, value.step)]}
        case datetime() | date() | time():
            return {_MOMENTS[type(value)]: value.isoformat()}
        case timedelta():
            return {"microseconds": to_document(value // timedelta(microseconds=1))}
        case _ if isinstance(value, _LOSSES):
            return {"loss": json.loads(losses.to_json(value))}
        case _:
            raise _unknown(value)


def from_document(document: Any) -> Any:
    """The value of a document; a name or a field that is not known, missing or superfluous is refused in words."""
    if isinstance(document, list):
        return tuple(from_document(item) for item in document)
    if document is None or isinstance(document, bool | int | str):
        return document
    if not isinstance(document, dict):
        raise InvalidData(f"a document has a {type(document).__name__}, which none is written with; {_UNREADABLE}")
    try:
        if "is" in document:
            return _read(document)
        ((kind, content),) = document.items()
        return _PLAIN[kind](content)
    except InvalidData:
        raise
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise InvalidData(f"a part of a document cannot be read ({', '.join(document)}): {error}") from None


def _read(document: dict[str, Any]) -> Any:
    name = document["is"]
    if not isinstance(name, str) or name not in _BY_NAME:
        raise InvalidData(f"unknown name {name!r} in a document; {_UNREADABLE}")
    entry = _BY_NAME[name]
    given = {written: value for written, value in document.items() if written != "is"}
    later = [written for field, written in entry.names.items() if field in entry.defaults and written not in given]
    _require(name, [*given, *later], entry.names.values())
    if issubclass(entry.kind, Enum):
        return entry.kind(from_document(given["value"]))
    values = {
        field: entry.defaults[field] if written in later else from_document(given[written])
        for field, written in entry.names.items()
    }
    return entry.kind(**values, **entry.omitted)


def plan_document(kind: str, version: int, **parts: object) -> dict[str, Any]:
    """The document of a plan: its kind and version, and all that what it releases depends on.

    >>> plan_document("toss", 1, times=3)
    {'plan': 'toss', 'version': 1, 'times': 3}
    """
    return {"plan": kind, "version": version} | {name: to_document(part) for name, part in parts.items()}


def plan_parts(document: Mapping[str, Any], kind: str, version: int, names: Collection[str]) -> dict[str, Any]:
    """The parts of a plan's document, which must be of this kind and version and have these parts.

    >>> plan_parts({"plan": "toss", "version": 2, "times": 3}, "toss", 1, ["times"])
    Traceback (most recent call last):
    discreet.errors.InvalidData: a plan 'toss' of version 2, expected 'toss' of version 1; another version ...
    """
    if (document.get("plan"), document.get("version")) != (kind, version):
        got = f"a plan {document.get('plan')!r} of version {document.get('version')!r}"
        raise InvalidData(f"{got}, expected {kind!r} of version {version}; {_UNREADABLE}")
    given = {name: part for name, part in document.items() if name not in ("plan", "version")}
    _require(kind, given, names)
    return {name: from_document(part) for name, part in given.items()}


def _require(name: str, given: Collection[str], expected: Collection[str]) -> None:
    odd = [f"got also {field!r}" for field in given if field not in expected]
    odd += [f"missing {field!r}" for field in expected if field not in given]
    if odd:
        raise InvalidData(f"{name!r} has the fields {', '.join(expected)}; {'; '.join(odd)}; {_UNREADABLE}")


def canonical(document: Any) -> str:
    """The one text of a document: sorted names, no white space, to be written as UTF-8."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(document: Any) -> str:
    """The name of a document: the SHA-256 of its one text.

    >>> digest({"plan": "toss", "version": 1})[:16]
    '6a51278f1d02d7f4'
    """
    return hashlib.sha256(canonical(document).encode()).hexdigest()


def _unknown(value: object) -> InvalidData:
    return InvalidData(f"a {type(value).__name__} cannot be written into a document; register its class first")


_LOSSES = get_args(Loss)
_MOMENTS = {datetime: "datetime", date: "date", time: "time"}
_PLAIN: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "integer": int,
        "float": float,
        "rational": Fraction,
        "bytes": lambda text: b64decode(text, validate=True),
        "mapping": lambda pairs: {from_document(key): from_document(item) for key, item in pairs},
        "range": lambda parts: range(*from_document(parts)),
        "datetime": datetime.fromisoformat,
        "date": date.fromisoformat,
        "time": time.fromisoformat,
        "microseconds": lambda count: timedelta(microseconds=from_document(count)),
        "loss": lambda document: losses.from_json(json.dumps(document)),
    }
)

documented("neighbors")(Neighbors)
documented("unit", names={"key": "person"})(Unit)
documented("column type")(ColumnType)
documented("column", names={"kind": "type"}, defaults={"earliest": None, "latest": None})(Column)
documented("link")(Link)
documented(
    "table",
    names={"groups": "max_groups_per_unit", "rows": "max_rows_per_group"},
    defaults={"link": None, "repeats": ()},
)(Table)
