"""`discreet attack audit`, `guess`, `membership`, `audit-training`, `coins`, `example`: mechanisms and models."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show
from discreet.cli.attack_fields import (
    FILE,
    Generated,
    confidence_option,
    force_option,
    json_option,
    output_options,
    refuse_existing_files,
    seed_option,
    tell,
    with_options,
    write,
)
from discreet.exact import text_up

if TYPE_CHECKING:
    from discreet.attacks.audit import Finding
    from discreet.attacks.audit.zoo import Broken
    from discreet.attacks.membership import MembershipReport

_LITERAL_HELP = "as a Python literal: 5, True, '[1, 2, 3]'; anything else is text"
_OUT = click.Path(dir_okay=False, writable=True)


def _progress(what: str) -> Callable[[int, int], None] | None:
    """A line that counts, where somebody looks on."""
    if not sys.stderr.isatty():
        return None
    return lambda done, total: click.echo(f"\r{done:,} of {total:,} {what}", nl=done >= total, err=True)


# Audits of mechanisms


@with_options(confidence_option("0.999"), seed_option, *output_options)
@click.command(short_help="Bound the ε of any function from below.")
@click.argument("target", metavar="[FILE.py:FUNCTION | MODULE:FUNCTION]", required=False)
@click.option("--first", help=f"The data, {_LITERAL_HELP}.")
@click.option(
    "--second",
    help="Its neighbor: the same data with one person removed or changed.  [the worst of several]",
)
@click.option("--epsilon", help="The claimed ε; without it, only the bound is computed.")
@click.option("--delta", help="The claimed δ.  [0]")
@click.option(
    "--samples", type=click.IntRange(200), default=100_000, show_default=True, help="Outputs drawn for each input."
)
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Roughly how long drawing may take.")
@click.option(
    "--zoo", is_flag=True, help="Audit mechanisms that are known to be broken, and see whether they are caught."
)
def audit(
    target: str | None, first: str | None, second: str | None, zoo: bool, confidence: float, seed: int, as_json: bool,
    report: str | None, plot: str | None, force: bool, **settings: Any,
) -> None:  # fmt: skip
    """Bound the ε of any function from below, from its outputs on two neighboring inputs.

    FUNCTION takes (data) and returns one output, or takes (data, n) or (data, n, rng), with a NumPy generator, and
    returns n outputs. It may also be a mechanism (an object with `release`), whose own ε is audited unless --epsilon
    states another. Without --second, several neighbors of a number, boolean, list, set or mapping are tried, and the
    worst is audited. An audit may refute a claim but never proves one; it reports the largest ε it could have proved.

    Exit code 3 if the claim is refuted; with --zoo, if a broken mechanism was not caught.

    \b
    discreet attack audit counts.py:noisy_count --first 10 --second 11 --epsilon 1
    discreet attack audit --zoo --report zoo.html
    """
    refuse_existing_files(report, plot, force=force)
    if zoo:
        if target is not None or first is not None or second is not None or settings["epsilon"] is not None:
            raise click.UsageError("--zoo brings its own mechanisms, inputs and claims")
        _parade(confidence, seed, as_json=as_json, report=report, plot=plot)
        return
    if target is None or first is None:
        raise click.UsageError("there is nothing to audit; give FILE.py:FUNCTION and --first, or --zoo")
    result = _audit(*_loaded(target), first, second, confidence=confidence, seed=seed, **settings).find()
    tell(result.report(), as_json=as_json, report=report, plot=plot, owner=False)
    if result.broken:
        raise click.exceptions.Exit(3)


def _audit(
    loaded: Any, name: str, first: str, second: str | None, *, epsilon: str | None, delta: str | None, **settings: Any
) -> Any:
    from discreet.attacks.audit import Audit, audit_mechanism, neighbors, worst_pair

    x = _literal(first)
    candidates = [_literal(second)] if second is not None else neighbors(x)
    settings |= {"delta": delta, "claimed": epsilon, "name": name, "progress": _progress("draws")}
    if callable(getattr(loaded, "release", None)) and not isinstance(loaded, type):
        made = audit_mechanism(loaded, x=x, neighbor=candidates[0], **settings)
    else:
        made = Audit(mechanism=loaded, x=x, neighbor=candidates[0], **settings)
    if second is not None:
        return made
    worst = worst_pair(made, [(x, neighbor) for neighbor in candidates])
    click.echo(f"of {len(candidates)} neighbors the worst is {worst.neighbor!r}"[:200], err=True)
    return worst


def _parade(confidence: float, seed: int, *, as_json: bool, report: str | None, plot: str | None) -> None:
    from discreet.attacks.audit.zoo import audit_zoo, bounds, table
    from discreet.report import Page

    caught = audit_zoo(confidence=confidence, seed=seed, progress=_progress("mechanisms"))
    if as_json:
        show.facts({"confidence": confidence, "mechanisms": [_entry(*pair) for pair in caught]}, as_json=True)
    else:
        rows = [("claimed ε", "ε ≥", "", "mechanism"), *[_line(*pair) for pair in caught]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    lead = f"Every bound holds with confidence {confidence:g} by itself."
    page = Page("Mechanisms that were believed private", [table(caught), bounds(caught)], lead=lead)
    write(page if report else None, report)
    write(bounds(caught) if plot else None, plot)
    missed = sum(not finding.broken for _, finding in caught)
    click.echo(f"{len(caught) - missed} of {len(caught)} broken mechanisms were caught", err=True)
    if missed:
        raise click.exceptions.Exit(3)


def _entry(animal: "Broken", finding: "Finding") -> dict[str, Any]:
    claims = {"claimed_epsilon": animal.epsilon, "claimed_delta": animal.delta}
    proof = {"epsilon_at_least": finding.epsilon, "broken": finding.broken, "event": finding.event}
    return {"mechanism": animal.name, "paper": animal.paper, **claims, **proof, "why": animal.why}


def _line(animal: "Broken", finding: "Finding") -> tuple[str, ...]:
    claimed = text_up(animal.epsilon) + (f", δ {text_up(animal.delta)}" if animal.delta else "")
    return claimed, f"{finding.epsilon:.3f}", "broken" if finding.broken else "missed", animal.name


# The guessing game


def _guess(attack: Any, target: str, size: int, first: str | None, second: str | None, **settings: Any) -> Any:
    mechanism, family = _mechanism(target, settings["epsilon"], size)
    defaults = {"response": (False, True), "geometric": (0, 1)}.get(target)
    if defaults is None and (first is None or second is None):
        raise click.UsageError(f"--first and --second say which two inputs of {target} are to be told apart")
    inputs = [
        _input(text, mechanism) if text is not None else (defaults or ())[i] for i, text in enumerate((first, second))
    ]
    batch = callable(mechanism) and _arguments(mechanism) == 2
    name = f"{target} at ε {settings['epsilon']}" if family is not None else Path(target).name
    return attack(
        mechanism=mechanism, first=inputs[0], second=inputs[1], family=family, batch=batch, against=name, **settings
    )


def _mechanism(target: str, epsilon: str | None, size: int) -> tuple[Any, Any]:
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
    named = [label for label in getattr(mechanism, "inputs", ()) if str(label) == text]
    return named[0] if named else _literal(text)


def _arguments(function: Callable[..., Any]) -> int:
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    needed = sum(given.default is given.empty and given.kind in (0, 1) for given in parameters)
    if needed > 2:
        raise click.UsageError("guess calls functions of (data) or (data, n); for (data, n, rng) use audit")
    return needed


GUESS = Generated(
    attack="audit.targets.Guessing",
    short_help="Guess which of two inputs was released.",
    help="""Guess which of two inputs was released, compared with what ε allows.

    No test between neighbors is right more often than e^ε/(1 + e^ε), and randomized response reaches it. The target is
    `response` (one randomized bit), `geometric` (a count with truncated geometric noise), a MATRIX as `discreet
    channel` reads it (.csv or .json), or a function as for `audit`.

    Exit code 3 if guesses are right more often than --epsilon allows.

    \b
    discreet attack guess --epsilon 1 --plot curve.svg
    discreet attack guess geometric --epsilon 1/2 --first 4 --second 5
    discreet attack guess matrix.csv --first yes --second no --epsilon 1
    """,
    more=(
        click.Argument(["target"], metavar="[response | geometric | MATRIX | FILE.py:FUNCTION]", default="response"),
        click.Option(["--first"], help=f"One input, {_LITERAL_HELP}.  [response: False; geometric: 0]"),
        click.Option(["--second"], help="The other.  [response: True; geometric: 1]"),
        click.Option(["--size"], type=click.IntRange(1), default=10, help="geometric: the largest count."),
    ),
    build=_guess,
    claim=True,
    confidence="0.999",
)


# Loading what FILE.py:NAME or MODULE:NAME names


def _loaded(target: str) -> tuple[Any, str]:
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    source, colon, name = target.rpartition(":")
    if not colon or not source or not name:
        raise click.UsageError(f"{target!r} is not FILE.py:FUNCTION or MODULE:FUNCTION, such as counts.py:noisy_count")
    path = Path(source)
    if source.endswith(".py") and not path.is_file():
        raise click.UsageError(f"there is no file {path}")
    sys.path.insert(0, str(path.parent.resolve()) if source.endswith(".py") else str(Path.cwd()))
    try:
        if source.endswith(".py"):
            spec = spec_from_file_location(path.stem, path)
            module = module_from_spec(spec)  # type: ignore[arg-type]
            spec.loader.exec_module(module)  # type: ignore[union-attr]
        else:
            module = import_module(source)
    except Exception as error:
        raise click.ClickException(f"{source} cannot be loaded: {type(error).__name__}: {error}") from None
    loaded: Any = module
    for part in name.split("."):
        if not hasattr(loaded, part):
            there = [n for n, thing in vars(module).items() if callable(thing) and not n.startswith("_")]
            raise click.UsageError(f"{source} has no {part!r}; it has: {', '.join(there[:20]) or 'no function'}")
        loaded = getattr(loaded, part)
    return loaded, name


def _literal(text: str) -> Any:
    from ast import literal_eval

    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


# Models


def _even(_: click.Context, __: click.Parameter, given: int) -> int:
    if given % 2:
        raise click.BadParameter(f"{given} is odd: each row is in half of the models")
    return given


@with_options(confidence_option("0.95"), seed_option, *output_options)
@click.command(short_help="Tell whose data a model was trained on.")
@click.argument("model", type=FILE)
@click.option("--members", type=FILE, required=True, help="Rows that MODEL was trained on.")
@click.option("--others", type=FILE, required=True, help="Similar rows that it was not trained on.")
@click.option("--coins", "fair", is_flag=True, help="A fair coin split the rows (see `coins`), so ε can be bounded.")
@click.option("--epsilon", help="The ε claimed for MODEL.")
@click.option("--delta", help="The claimed δ.  [0]")
@click.option(
    "--references",
    type=click.IntRange(0),
    default=0,
    callback=_even,
    help="How many reference models to train for LiRA.",
)
@click.option("--population", type=FILE, help="For RMIA, with --references: rows of people who are in neither file.")
@click.option(
    "--plain", is_flag=True, help="Also attack a model trained without privacy on the members, for comparison."
)
@click.option("--target", help="The column that a pickled model predicts.")
@click.option("--trust-pickle", is_flag=True, help="Read MODEL as a scikit-learn pickle, which may run any code.")
@click.option("--must-hold", is_flag=True, help="Exit with code 3 unless every attack on MODEL holds.")
def membership(
    model: str, must_hold: bool, epsilon: str | None, as_json: bool, report: str | None, plot: str | None, force: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Tell whose data MODEL was trained on, from its outputs and weights, compared with what ε allows.

    MODEL is a file that `discreet train` wrote. Everybody in --members and --others is attacked by their loss and the
    norm of their gradient; with --references also by LiRA, and with --population by RMIA. Reference models have the
    shape of MODEL and are trained here without privacy.

    A pickled classifier of scikit-learn is attacked by its loss, if you trust the file (--trust-pickle) and name the
    column that it predicts (--target). For other models, discreet.attacks.membership in Python takes the
    outputs for each row.

    Bounding ε requires members chosen by fair coins (--coins); with other files, only a leak can be shown.

    Exit code 3 if a bound exceeds the claimed --epsilon.

    \b
    discreet attack coins people.csv --members in.csv --others out.csv
    discreet train policy.toml people ill --epsilon 1 ... -o ill.model      (on in.csv)
    discreet attack membership ill.model --members in.csv --others out.csv --coins --epsilon 1 --delta 1e-6
    discreet attack membership forest.pkl --members in.csv --others out.csv --target ill --trust-pickle
    """
    if given["population"] is not None and not given["references"]:
        raise click.UsageError("--population is for RMIA, which needs reference models too: --references 8")
    refuse_existing_files(report, plot, force=force)
    if given["references"]:
        given["progress"] = _progress("models")
    from discreet.gallery.models import attack_model_file

    result = attack_model_file(model, claimed=epsilon, warn=lambda text: click.echo(text, err=True), **given)
    _tell_models(result, as_json=as_json, report=report, plot=plot)
    if result.broken or (must_hold and any(finding.report().verdict != "holds" for finding in result.after)):
        raise click.exceptions.Exit(3)


@with_options(confidence_option("0.95"), seed_option, *output_options)
@click.command("audit-training", short_help="Bound the ε of this DP-SGD implementation from below.")
@click.option("--epsilon", required=True, metavar="ε", help="The ε that the training is planned for and claims: 2")
@click.option("--delta", required=True, metavar="δ", help="The δ that it is planned for: 1e-5")
@click.option(
    "--steps", type=click.IntRange(min=1), default=10, show_default=True, help="The number of training steps."
)
@click.option(
    "--rate", default="1", show_default=True, help="The probability of being in a lot; at 1 the audit is strongest."
)
@click.option("--clip", default="1", show_default=True, help="The clipping norm.")
@click.option(
    "--canaries",
    type=click.IntRange(64, 100_000),
    default=4096,
    show_default=True,
    help="The number of canaries; a fair coin decides on each.",
)
def audit_training(
    delta: str, canaries: int, confidence: float, seed: int, as_json: bool, report: str | None, plot: str | None,
    force: bool, **recipe: Any,
) -> None:  # fmt: skip
    """Bound the ε of the DP-SGD of `discreet train` from below, in one run with canaries.

    Each canary is an example with an oversized gradient in a weight of its own; a fair coin decides whether it is in
    the data. The auditor sees the noisy sums of all steps and guesses which are in. No private row is read.

    Exit code 3 if the bound exceeds ε, which means that training on this machine is broken. A bound below ε proves
    nothing. The bound of one run is at most about the logarithm of the number of canaries.

    \b
    discreet attack audit-training --epsilon 2 --delta 1e-5
    discreet attack audit-training --epsilon 1 --delta 1e-5 --rate 0.1 --steps 100 --report audit.html
    """
    from discreet.attacks.membership import MembershipReport
    from discreet.gallery.models import canaries as planted
    from discreet.learning.sgd.recipe import Recipe, Sgd

    refuse_existing_files(report, plot, force=force)
    made = Recipe.for_budget(delta=delta, examples=canaries, optimizer=Sgd(1), **recipe)
    attack = planted(made, delta=delta, count=canaries, confidence=confidence, seed=seed)
    result = MembershipReport.of(after=[attack], title="DP-SGD under audit")
    _tell_models(result, as_json=as_json, report=report, plot=plot)
    if result.broken:
        raise click.exceptions.Exit(3)


def _tell_models(result: "MembershipReport", *, as_json: bool, report: str | None, plot: str | None) -> None:
    if as_json:
        show.facts(result.as_dict(), as_json=True)
    else:
        click.echo(result.text())
    write(result.page() if report else None, report)
    write(result.curves()[0] if plot else None, plot)


@with_options(force_option, json_option)
@click.command(short_help="Split a table by fair coins, for an audit that can bound ε.")
@click.argument("data", type=FILE)
@click.option("--members", type=_OUT, required=True, help="Write the rows to train on here, .csv or .parquet.")
@click.option("--others", type=_OUT, required=True, help="Write the rows to leave out here.")
@click.option("--seed", type=click.IntRange(min=0), help="The seed of the coins; by default nobody knows them.")
def coins(data: str, members: str, others: str, seed: int | None, force: bool, as_json: bool) -> None:
    """Split DATA in two by a fair coin for each row: one half to train on, the other to leave out.

    Train on --members alone, then run `discreet attack membership … --coins`. Keep both files secret: they reveal
    the coins that an attacker has to guess.

    \b
    discreet attack coins people.csv --members in.csv --others out.csv
    """
    from discreet.attacks.membership import coins as drawn
    from discreet.noise.entropy import SYSTEM
    from discreet.tables import read_table
    from discreet.tables import write as written

    if members == others:
        raise click.UsageError("--members and --others are the same file")
    refuse_existing_files(members, others, force=force)
    table = read_table(data)
    if not table.num_rows:
        raise click.ClickException(f"{data} has no rows")
    inside = drawn(table.num_rows, seed=int(SYSTEM.words(1)[0]) if seed is None else seed)
    for path, chosen in ((members, inside), (others, ~inside)):
        written(table.filter(chosen), path)
    show.facts({"members": int(inside.sum()), "others": int((~inside).sum())}, as_json=as_json)


@with_options(seed_option, json_option)
@click.command(short_help="Write generated files to try the attacks on.")
@click.argument("folder", type=click.Path(file_okay=False))
@click.option(
    "--people", type=click.IntRange(200, 200_000), default=20_000, show_default=True, help="The population of the town."
)
def example(folder: str, people: int, seed: int, as_json: bool) -> None:
    """Write generated files to a new FOLDER: a town, its hospital, movie ratings and phone calls.

    The people are made up. The command prints what each file is for. The same seed writes the same files.

    \b
    discreet attack example town
    """
    from discreet.attacks.generated import samples
    from discreet.tables import write as written

    target = Path(folder)
    if target.exists() and any(target.iterdir()):
        raise click.ClickException(f"{folder} is not empty; choose another folder")
    target.mkdir(parents=True, exist_ok=True)
    files = samples(people=people, seed=seed)
    for name, _, table in files:
        written(table, target / name)
    show.facts({name: words for name, words, _ in files}, as_json=as_json)


COMMANDS = (audit, membership, audit_training, coins, example)
