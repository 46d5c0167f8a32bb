"""Fields of frozen values that read what a person writes: one idiom for every constructor that converts and checks.

A field is a descriptor. The dataclass makes the constructor; assigning the field reads the value, or refuses it by its
name. Type checkers see what may be written in calls, and what is read from attributes.

>>> @dataclass(frozen=True, kw_only=True)
... class Noise:
...     scale: Rational = Rational(above=0)
...     count: Integer = Integer(at_least=1, default=1)
>>> Noise(scale="0.5")
Noise(scale=Fraction(1, 2), count=1)
>>> Noise(scale=0)
Traceback (most recent call last):
discreet.errors.InvalidParameter: scale: got 0, expected a number > 0
>>> Noise(count=2)
Traceback (most recent call last):
TypeError: ...__init__() missing 1 required keyword-only argument: 'scale'

Such a dataclass has no `slots=True`: a slot would take the descriptor's place. What involves several fields is checked
in `__post_init__`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass  # noqa: F401 (for the examples)
from fractions import Fraction
from inspect import signature
from typing import Any, Generic, TypeVar, overload

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, plain, rational, text_up

__all__ = ["Choice", "Converted", "DisplayMixin", "Integer", "Rational"]

Written = TypeVar("Written")
Read = TypeVar("Read")
_REQUIRED: Any = object()
_LONGEST = 24
"""Characters of a fraction that is shown exactly."""


class Converted(Generic[Written, Read]):
    """A field that is read by `convert(value, name)`; required unless it has a default.

    >>> @dataclass(frozen=True)
    ... class Named:
    ...     name: Converted[object, str] = Converted(lambda value, name: str(value).casefold())
    >>> Named("Ann").name
    'ann'
    """

    def __init__(self, convert: Callable[[Written, str], Read], *, default: Any = _REQUIRED) -> None:
        self._convert = convert
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, value: None, owner: type) -> Any: ...

    @overload
    def __get__(self, value: object, owner: type) -> Read: ...

    def __get__(self, value: object | None, owner: type) -> Any:
        if value is not None:
            return value.__dict__[self._name]
        if self._default is _REQUIRED:
            raise AttributeError(self._name)  # the dataclass then makes it a required argument
        return self._default

    def __set__(self, value: object, written: Written) -> None:
        value.__dict__[self._name] = self._convert(written, self._name)


class Rational(Converted[Number, Fraction]):
    """A number that is read exactly, within limits (`exact.rational`)."""

    def __init__(
        self,
        *,
        above: int | Fraction | None = None,
        at_least: int | Fraction | None = None,
        below: int | Fraction | None = None,
        at_most: int | Fraction | None = None,
        default: Any = _REQUIRED,
    ) -> None:
        def convert(value: Number, name: str) -> Fraction:
            return rational(value, name, above=above, at_least=at_least, below=below, at_most=at_most)

        super().__init__(convert, default=default)


class Integer(Converted[int, int]):
    """A whole number within limits (`exact.integer`)."""

    def __init__(self, *, at_least: int | None = None, at_most: int | None = None, default: Any = _REQUIRED) -> None:
        def convert(value: int, name: str) -> int:
            return integer(value, name, at_least=at_least, at_most=at_most)

        super().__init__(convert, default=default)


class Choice(Converted[str, str]):
    """One of a few words.

    >>> @dataclass(frozen=True)
    ... class Chart:
    ...     scale: Choice = Choice("linear", "log")
    >>> Chart("cubic")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: scale: got 'cubic', expected one of linear, log
    """

    def __init__(self, *words: str, default: Any = _REQUIRED) -> None:
        def convert(value: str, name: str) -> str:
            if not isinstance(value, str) or value not in words:
                raise InvalidParameter(name, value, f"one of {', '.join(words)}")
            return value

        super().__init__(convert, default=default)


class DisplayMixin:
    """A frozen value that prints its settings, and in a notebook also what it is, its cost and its error.

    >>> @dataclass(frozen=True)
    ... class Coin(DisplayMixin):
    ...     "A coin that falls on heads at times."
    ...     heads: Fraction
    >>> Coin(Fraction(1, 2)), Coin(Fraction(1, 3))
    (Coin(heads=0.5), Coin(heads='1/3'))
    >>> "heads</th>" in Coin(Fraction(1, 2))._repr_html_()
    True
    """

    __slots__ = ()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__repr__" not in cls.__dict__:  # a dataclass leaves the __repr__ of its own class alone
            cls.__repr__ = DisplayMixin._as_written  # type: ignore[method-assign, assignment]

    def _as_written(self) -> str:
        parts = (f"{part.name}={_as_code(getattr(self, part.name))}" for part in fields(self) if part.repr)  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        from discreet.report.card import card

        facts = {part.name: _in_words(getattr(self, part.name)) for part in fields(self) if part.repr}  # type: ignore[arg-type]
        if (loss := getattr(self, "loss", None)) is not None and "loss" not in facts:
            facts["one release costs"] = _in_words(loss)
        interval = getattr(self, "interval", None)
        if callable(interval) and list(signature(interval).parameters) == ["confidence"]:
            facts["noise, at 95 % confidence"] = f"at most {_in_words(interval('0.95'))}"
        sentence = " ".join((type(self).__doc__ or "").split("\n\n")[0].split())
        return card(type(self).__name__, sentence, facts)


def _as_code(value: Any) -> str:
    """A setting as its constructor reads it: 1/2 as 0.5, 1/3 as '1/3'."""
    match value:
        case Fraction():
            text = plain(value)
            return repr(text) if "/" in text else text
        case tuple() if type(value) is tuple:
            return f"({', '.join(map(_as_code, value))}{',' * (len(value) == 1)})"
        case _:
            return repr(value)


def _in_words(value: Any) -> str:
    """A setting as a person would write it: 1/2 as 0.5, a loss as its name with its settings."""
    match value:
        case Fraction():
            text = plain(value)
            return text if len(text) <= _LONGEST else text_up(value)
        case float():
            return text_up(value)
        case str():
            return value
        case tuple():
            return ", ".join(map(_in_words, value))
        case _ if is_dataclass(value) and not isinstance(value, type):
            parts = (f"{part.name} {_in_words(getattr(value, part.name))}" for part in fields(value) if part.repr)
            return f"{type(value).__name__}({', '.join(parts)})"
        case _:
            return repr(value)
