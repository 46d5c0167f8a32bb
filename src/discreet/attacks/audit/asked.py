"""Audits of what people hold: a mechanism of the library, or a curator in front of two neighboring datasets."""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from discreet.attacks.audit.audit import Audit, Claim, Progress
from discreet.attacks.audit.outputs import Raised
from discreet.errors import InvalidParameter
from discreet.exact import Number
from discreet.mechanisms import Mechanism


def audit_mechanism(
    mechanism: Mechanism,
    *,
    x: Any,
    neighbor: Any,
    delta: Number | None = None,
    claimed: Claim | None = None,
    **settings: Any,
) -> Audit:
    """An audit of a mechanism by its `release`, against what its own `loss` says at δ unless something is claimed.

    >>> from discreet.mechanisms import RandomizedResponse
    >>> coins = RandomizedResponse.from_coins(heads="1/2")
    >>> audit_mechanism(coins, x=0, neighbor=1, samples=4000, confidence="0.99999999").find().broken
    False
    """
    if not callable(getattr(mechanism, "release", None)):
        raise InvalidParameter("mechanism", mechanism, "a mechanism with a release method", "use Audit for functions")
    return Audit(
        mechanism=mechanism.release,
        x=x,
        neighbor=neighbor,
        claimed=mechanism.loss if claimed is None else claimed,
        delta=delta,
        **{"name": type(mechanism).__name__} | settings,
    )


def audit_curator(
    *,
    x: Callable[[], Any],
    neighbor: Callable[[], Any],
    question: str | Callable[[int], str],
    claimed: Claim,
    read: Callable[[Any], Any],
    asking: dict[str, Any] | None = None,
    samples: int = 2000,
    delta: Number | None = None,
    confidence: Number = 0.99,
    seed: int = 0,
    name: str = "a curator",
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Audit:
    """An audit of whole answers: `x()` and `neighbor()` each open a fresh curator, an object with `ask`.

    A curator gives the same answer to the same question again. So each draw opens a new one (give it a ledger of its
    own, in memory), unless `question` is a function of 0, 1, 2, …: then one curator of each side and batch, with a
    budget for all of it, is asked question(0), question(1), …, which should mean the same in other words. What `x()`
    returns is entered and closed if it is a context manager, closed if it has a `close`. `asking` are keywords for
    `ask`; `read` makes an output (a number, a list, anything) of an answer.

    >>> class Toy:
    ...     def __init__(self, rows):
    ...         self.rows = rows
    ...     def ask(self, question):
    ...         return len(self.rows)  # no noise at all
    >>> found = audit_curator(x=lambda: Toy("ab"), neighbor=lambda: Toy("a"), question="COUNT", claimed=1, read=int)
    >>> found.find().broken
    True
    """
    for side, opener in (("x", x), ("neighbor", neighbor)):
        if not callable(opener):
            raise InvalidParameter(side, opener, "a function without arguments that opens a curator")

    def single(opener: Callable[[], Any]) -> Any:
        return _answers(opener, [str(question)], read, asking or {})[0]

    numbers = itertools.count()

    def several(opener: Callable[[], Any], n: int) -> list[Any]:
        texts = [question(i) for i in itertools.islice(numbers, n)] if callable(question) else []
        return _answers(opener, texts, read, asking or {})

    return Audit(
        mechanism=several if callable(question) else single,
        x=x,
        neighbor=neighbor,
        claimed=claimed,
        delta=delta,
        samples=samples,
        confidence=confidence,
        seed=seed,
        name=name,
        seconds=seconds,
        progress=progress,
    )


def _answers(
    opener: Callable[[], Any], questions: list[str], read: Callable[[Any], Any], asking: dict[str, Any]
) -> list[Any]:
    """What one curator answers to these questions."""
    opened = opener()
    with opened if isinstance(opened, AbstractContextManager) else _Closing(opened) as curator:
        return [_answer(curator, question, read, asking) for question in questions]


def _answer(curator: Any, question: str, read: Callable[[Any], Any], asking: dict[str, Any]) -> Any:
    try:
        return read(curator.ask(question, **asking))
    except Exception as error:  # an analyst sees that it failed
        return Raised(type(error).__name__)


class _Closing(AbstractContextManager[Any]):
    """Anything with `ask`, closed at the end if it can be."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def __enter__(self) -> Any:
        return self._opened

    def __exit__(self, *_: object) -> None:
        getattr(self._opened, "close", lambda: None)()
