"""`discreet attack audit`, `guess`: does a mechanism keep its promise?"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show
from discreet.cli.attack_shared import confidence_option, judged, output_options, seed_option, tell, unwritten, write
from discreet.exact import text_up

if TYPE_CHECKING:
    from discreet.attacks.audit import Finding
    from discreet.attacks.audit.zoo import Broken

_LITERAL_HELP = "as Python writes it: 5, True, '[1, 2, 3]'; anything else is a text"
_TRIALS = 10_000


def _outputs(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(output_options):
        function = option(function)
    return function


@click.command(short_help="A lower bound on any function's ε; a zoo of broken ones.")
@click.argument("target", metavar="[FILE.py:FUNCTION | MODULE:FUNCTION]", required=False)
@click.option("--first", help=f"The data, {_LITERAL_HELP}.")
@click.option(
    "--second",
    help="Its neighbor: the same data without one person, or with one person's changed.  [the worst of several]",
)
@click.option("--epsilon", help="The ε that is claimed; without, only the bound is found.")
@click.option("--delta", help="The δ that is claimed.  [0]")
@click.option(
    "--samples", type=click.IntRange(min=200), default=100_000, show_default=True, help="How often each is drawn from."
)
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="About how long drawing may take.")
@click.option("--zoo", is_flag=True, help="Audit mechanisms that are known to be broken: does the audit catch them?")
@confidence_option("0.999")
@seed_option
@_outputs
def audit(
    target: str | None,
    first: str | None,
    second: str | None,
    zoo: bool,
    confidence: float,
    seed: int,
    as_json: bool,
    report: str | None,
    plot: str | None,
    force: bool,
    **settings: Any,
) -> None:
    """A lower bound on the ε of any function, from its outputs on two neighboring inputs.

    FUNCTION takes (data) and gives one output, or (data, n) and gives n of them, or (data, n, rng) with a NumPy
    generator; a mechanism of discreet (an object with `release`) will do too, and is held to its own promise unless
    --epsilon claims another. Without --second several neighbors of a number, a truth value or a list are tried, and
    the one that looks worst is audited. An audit refutes a claim or does not; it never proves one, and says how large
    an ε it could have proved.

    Exit code 3 where the claim is refuted; with --zoo, where a broken mechanism was not caught.

    \b
    discreet attack audit counts.py:noisy_count --first 10 --second 11 --epsilon 1
    discreet attack audit --zoo --report zoo.html
    """
    unwritten(report, plot, force=force)
    if zoo:
        if target is not None or first is not None or second is not None or settings["epsilon"] is not None:
            raise click.UsageError("--zoo brings its own mechanisms, inputs and claims")
        _parade(confidence, seed, as_json=as_json, report=report, plot=plot)
        return
    if target is None or first is None:
        raise click.UsageError("there is nothing to audit; give FILE.py:FUNCTION and --first, or say --zoo")
    held, name = _loaded(target)
    found = _audit(held, name, first, second, confidence=confidence, seed=seed, **settings).find()
    tell(found.report(), as_json=as_json, report=report, plot=plot, owner=False)
    if found.broken:
        raise click.exceptions.Exit(3)


def _audit(
    held: Any, name: str, first: str, second: str | None, *, epsilon: str | None, delta: str | None, **settings: Any
) -> Any:
    from discreet.attacks.audit import Audit, audit_mechanism, neighbors, worst_pair

    x = _literal(first)
    candidates = [_literal(second)] if second is not None else neighbors(x)
    settings |= {"delta": delta, "claimed": epsilon, "name": name, "progress": _progress("draws")}
    if callable(getattr(held, "release", None)) and not isinstance(held, type):
        made = audit_mechanism(held, x=x, neighbor=candidates[0], **settings)
    else:
        made = Audit(mechanism=held, x=x, neighbor=candidates[0], **settings)
    if second is not None:
        return made
    worst = worst_pair(made, [(x, neighbor) for neighbor in candidates])
    click.echo(f"of {len(candidates)} neighbors the worst is {worst.neighbor!r}"[:200], err=True)
    return worst


def _parade(confidence: float, seed: int, *, as_json: bool, report: str | None, plot: str | None) -> None:
    from discreet.attacks.audit.zoo import bounds, parade, table
    from discreet.report import Page

    found = parade(confidence=confidence, seed=seed, progress=_progress("mechanisms"))
    if as_json:
        show.facts({"confidence": confidence, "mechanisms": [_entry(*one) for one in found]}, as_json=True)
    else:
        _columns([("claimed ε", "ε ≥", "", "mechanism"), *[_line(*one) for one in found]])
    lead = f"Every bound holds with confidence {confidence:g} by itself."
    title = "Mechanisms that were believed private"
    write(Page(title, [table(found), bounds(found)], lead=lead) if report else None, report)
    write(bounds(found) if plot else None, plot)
    missed = sum(not one.broken for _, one in found)
    click.echo(f"{len(found) - missed} of {len(found)} broken mechanisms were caught", err=True)
    if missed:
        raise click.exceptions.Exit(3)


def _entry(animal: "Broken", found: "Finding") -> dict[str, Any]:
    return {
        "mechanism": animal.name,
        "paper": animal.paper,
        "claimed_epsilon": animal.epsilon,
        "claimed_delta": animal.delta,
        "epsilon_at_least": found.epsilon,
        "broken": found.broken,
        "event": found.event,
        "why": animal.why,
    }


def _line(animal: "Broken", found: "Finding") -> tuple[str, ...]:
    delta = f", δ {text_up(animal.delta)}" if animal.delta else ""
    claimed = f"{text_up(animal.epsilon)}{delta}"
    return claimed, f"{found.epsilon:.3f}", "broken" if found.broken else "missed", animal.name


def _columns(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


# The guessing game


@click.command(short_help="Which of two inputs was it? Beside what ε allows.")
@click.argument("target", metavar="[response | geometric | MATRIX | FILE.py:FUNCTION]", default="response")
@click.option("--first", help=f"One input, {_LITERAL_HELP}.  [response: False; geometric: 0]")
@click.option("--second", help="The other.  [response: True; geometric: 1]")
@click.option("--epsilon", help="The ε that is claimed; response and geometric are made with it.")
@click.option("--size", type=click.IntRange(min=1), default=10, show_default=True, help="geometric: the largest count.")
@click.option(
    "--trials", type=click.IntRange(min=1), default=_TRIALS, show_default=True, help="Guesses for each input."
)
@seed_option
@judged(claim=True, confidence="0.999")
def guess(target: str, size: int, **settings: Any) -> Any:
    """One of two inputs was released: which? Measured beside what ε allows.

    No test between neighbors is right more often than e^ε/(1 + e^ε), and randomized response reaches it. The target is
    `response` (one randomized bit), `geometric` (a count with truncated geometric noise), a MATRIX as `discreet
    channel` reads it (.csv or .json), or a function as for `audit`.

    Exit code 3 where guesses are right more often than --epsilon allows.

    \b
    discreet attack guess --epsilon 1 --plot curve.svg
    discreet attack guess geometric --epsilon 1/2 --first 4 --second 5
    discreet attack guess matrix.csv --first yes --second no --epsilon 1
    """
    from discreet.attacks.audit.targets import Guessing

    mechanism, family = _target(target, settings["epsilon"], size)
    first, second = (settings.pop(name) for name in ("first", "second"))
    defaults = {"response": (False, True), "geometric": (0, 1)}.get(target)
    if defaults is None and (first is None or second is None):
        raise click.UsageError(f"--first and --second say which two inputs of {target} are to be told apart")
    inputs = [
        _input(text, mechanism) if text is not None else (defaults or ())[i] for i, text in enumerate((first, second))
    ]
    batch = callable(mechanism) and _arguments(mechanism) == 2
    name = f"{target} at ε {settings['epsilon']}" if family is not None else Path(target).name
    return Guessing(
        mechanism=mechanism, first=inputs[0], second=inputs[1], family=family, batch=batch, against=name, **settings
    )


def _target(target: str, epsilon: str | None, size: int) -> tuple[Any, Any]:
    """The mechanism, and (where it has one) its channel at each ε."""
    from discreet.mechanisms import RandomizedResponse
    from discreet.mechanisms.channel_io import read_channel
    from discreet.mechanisms.optimal import geometric_channel

    families: dict[str, Callable[[Any], Any]] = {
        "response": lambda e: RandomizedResponse.for_epsilon(epsilon=e).channel(),
        "geometric": lambda e: geometric_channel(size, e),
    }
    if target in families:
        if epsilon is None:
            raise click.UsageError(f"{target} is made with an ε: --epsilon 1")
        return families[target](epsilon), families[target]
    if Path(target).suffix.lower() in (".csv", ".json"):
        if not Path(target).is_file():
            raise click.UsageError(f"there is no file {target}")
        return read_channel(target), None
    return _loaded(target)[0], None


def _input(text: str, mechanism: Any) -> Any:
    """An input of a channel by its label; of anything else as Python writes it."""
    inputs = getattr(mechanism, "inputs", ())
    named = [label for label in inputs if str(label) == text]
    return named[0] if named else _literal(text)


def _arguments(function: Callable[..., Any]) -> int:
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    needed = sum(one.default is one.empty and one.kind in (0, 1) for one in parameters)
    if needed > 2:
        raise click.UsageError("guess calls functions of (data) or (data, n); for (data, n, rng) use audit")
    return needed


# Loading


def _loaded(target: str) -> tuple[Any, str]:
    """The thing that FILE.py:NAME or MODULE:NAME names, and its name."""
    source, colon, name = target.rpartition(":")
    if not colon or not source or not name:
        raise click.UsageError(f"{target!r} is not FILE.py:FUNCTION or MODULE:FUNCTION, such as counts.py:noisy_count")
    module = _from_file(Path(source)) if source.endswith(".py") else _from_module(source)
    held = module
    for part in name.split("."):
        if not hasattr(held, part):
            there = [n for n, thing in vars(module).items() if callable(thing) and not n.startswith("_")]
            raise click.UsageError(f"{source} has no {part!r}; it has: {', '.join(there[:20]) or 'no function'}")
        held = getattr(held, part)
    return held, name


def _from_file(path: Path) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    if not path.is_file():
        raise click.UsageError(f"there is no file {path}")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{path} cannot be read as Python")
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    return _imported(lambda: spec.loader.exec_module(module) or module, str(path))  # type: ignore[union-attr]


def _from_module(name: str) -> Any:
    from importlib import import_module

    sys.path.insert(0, str(Path.cwd()))
    return _imported(lambda: import_module(name), name)


def _imported(load: Callable[[], Any], name: str) -> Any:
    try:
        return load()
    except Exception as error:
        raise click.ClickException(f"{name} cannot be loaded: {type(error).__name__}: {error}") from None


def _literal(text: str) -> Any:
    from ast import literal_eval

    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _progress(what: str) -> Callable[[int, int], None] | None:
    """A line that counts, where somebody looks on."""
    if not sys.stderr.isatty():
        return None
    return lambda done, total: click.echo(f"\r{done:,} of {total:,} {what}", nl=done >= total, err=True)
