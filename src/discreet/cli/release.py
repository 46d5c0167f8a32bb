"""Values to release, read from words; releases, told in words or JSON."""

import json
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show
from discreet.errors import InvalidData
from discreet.privacy.loss import Loss, PerDistance, Together, to_json

if TYPE_CHECKING:
    from discreet.report import Chart

_ERRORS = {"interval", "radius", "rank_error", "count_error", "kept_from"}


def report(
    mechanism: Any,
    facts: dict[str, Any],
    read: Callable[[str, str], Any],
    chart: "Callable[[], Chart] | None",
    *,
    release: Sequence[str],
    source: Any,
    confidence: str,
    plot: str | None,
    as_json: bool,
    shape: tuple[list[str], list[float]] | None = None,
) -> None:
    """Release the values given, and print what the mechanism is, costs and told."""
    if plot and chart is None:
        raise click.UsageError("there is no picture of this mechanism")
    texts = [*release, *(line.strip() for line in source or () if line.strip())]
    values = [read(text, f"value {place}") for place, text in enumerate(texts, 1)]
    released = [_told(mechanism.release(value)) for value in values]
    shown_facts = {
        "mechanism": type(mechanism).__name__,
        "loss": json.loads(to_json(mechanism.loss)) if as_json else _words(mechanism.loss),
    }
    shown_facts |= {"confidence": confidence} if _ERRORS & facts.keys() else {}
    shown_facts |= facts | ({"released": released if as_json else _in_full(released)} if released else {})
    show.facts(shown_facts, as_json=as_json)
    if len(released) > 1:
        click.echo(f"each release costs that loss: {len(released)} were made", err=True)
    if shape and not as_json and not released:
        show.bars(*shape)
    if plot and chart:
        show.save(chart(), plot)


def _told(released: Any) -> Any:
    """A release as JSON and lines can hold it: streams as lists; of keys the noisy counts, None where not named."""
    if isinstance(released, Iterator):
        return list(released)
    if isinstance(released, tuple):
        named, counts = (part.tolist() for part in released)
        return [count if shown else None for shown, count in zip(named, counts, strict=True)]
    return released.tolist() if hasattr(released, "tolist") else released


def _in_full(released: Any) -> Any:
    """Floats with all their digits: a release is printed as it is."""
    if isinstance(released, list):
        return [_in_full(part) for part in released]
    return repr(released) if isinstance(released, float) else released


def _words(loss: Loss) -> str:
    if isinstance(loss, PerDistance):
        slack = show.number(loss.slack)
        return f"ε {show.number(loss.epsilon)} for each {loss.unit}, with {slack} {loss.unit} added for the grid"
    if isinstance(loss, Together):
        return " and ".join(_words(part) for part in loss.losses)
    fields = ", ".join(f"{name} {show.number(Fraction(getattr(loss, name)))}" for name in loss.__slots__)
    return f"{type(loss).__name__} ({fields})"


def whole(text: str, name: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise InvalidData(f"{name}: expected a whole number") from None


def real(text: str, name: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise InvalidData(f"{name}: expected a number") from None


def wholes(text: str, name: str) -> list[int]:
    """Whole numbers with commas between them."""
    return [whole(part, name) for part in text.split(",")]


def reals(text: str, name: str) -> list[float]:
    """Numbers with commas between them."""
    return [real(part, name) for part in text.split(",")]


def point(text: str, name: str) -> list[float]:
    """A place, written x,y."""
    parts = reals(text, name)
    if len(parts) != 2:
        raise InvalidData(f"{name}: expected a place written x,y")
    return parts
