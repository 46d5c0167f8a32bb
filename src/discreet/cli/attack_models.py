"""`discreet attack membership`, `audit-training`, `coins`: was this person's data in the model, and does ε hold?"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show
from discreet.cli.attack_shared import FILE, confidence_option, output_options, seed_option, unwritten, write

if TYPE_CHECKING:
    from discreet.attacks.membership import MembershipReport
    from discreet.gallery.models import Targets

_CSV = click.Path(dir_okay=False, writable=True)
_must_hold = click.option("--must-hold", is_flag=True, help="Exit with code 3 unless every attack on MODEL holds.")


def _outputs(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(output_options):
        function = option(function)
    return function


def _even(_: click.Context, __: click.Parameter, given: int) -> int:
    if given % 2:
        raise click.BadParameter(f"{given} is odd: each row is in half of the models")
    return given


@click.command(short_help="Whose data was a model trained on? Before and after privacy.")
@click.argument("model", type=FILE)
@click.option("--members", type=FILE, required=True, help="Rows that MODEL was trained on.")
@click.option("--others", type=FILE, required=True, help="Rows of the same kind that it was not trained on.")
@click.option("--coins", "fair", is_flag=True, help="A fair coin for each row decided (see `coins`): ε can be bounded.")
@click.option("--epsilon", help="The ε that is claimed for MODEL.")
@click.option("--delta", help="The δ that is claimed.  [0]")
@click.option(
    "--references", type=click.IntRange(min=0), default=0, callback=_even, help="Train so many models for LiRA."
)
@click.option("--population", type=FILE, help="More rows, of nobody in either file: for RMIA, with --references.")
@click.option("--plain", is_flag=True, help="Train a model without privacy on the members, and show it before MODEL.")
@_must_hold
@confidence_option("0.95")
@seed_option
@_outputs
def membership(
    model: str,
    must_hold: bool,
    epsilon: str | None,
    as_json: bool,
    report: str | None,
    plot: str | None,
    force: bool,
    **given: Any,
) -> None:
    """Whose data was MODEL trained on? Attacks on what it says and on its weights, beside what ε allows.

    MODEL is a file that `discreet train` wrote. Everybody in --members and --others is attacked: by their loss, by the
    norm of their gradient, and with --references by LiRA, by RMIA too with --population. Reference models have the
    shape of MODEL and are trained here without privacy.

    A bound on ε needs members that fair coins chose (--coins); any other two files show a leak, and no ε.

    Exit code 3 where a bound exceeds the claimed --epsilon.

    \b
    discreet attack coins people.csv --members in.csv --others out.csv
    discreet train policy.toml people ill --epsilon 1 ... -o ill.model      (on in.csv)
    discreet attack membership ill.model --members in.csv --others out.csv --coins --epsilon 1 --delta 1e-6
    """
    if given["population"] is not None and not given["references"]:
        raise click.UsageError("--population is for RMIA, which needs reference models too: --references 8")
    unwritten(report, plot, force=force)
    found = _found(model, claimed=epsilon, **given)
    _tell(found, as_json=as_json, report=report, plot=plot)
    if found.broken or (must_hold and any(one.report().verdict != "holds" for one in found.after)):
        raise click.exceptions.Exit(3)


def _found(
    path: str, *, members: str, others: str, population: str | None, references: int, plain: bool, fair: bool,
    seed: int, claimed: str | None, **settings: Any,
) -> "MembershipReport":  # fmt: skip
    from discreet.attacks.membership import MembershipReport
    from discreet.gallery.models import Targets, attacks_on, reference_models, without_privacy
    from discreet.learning.column_model import Model, Shape
    from discreet.tables import read_table

    model = Model.load(path)
    if not isinstance(model.shape, Shape):
        raise click.UsageError(
            f"this attack reads networks, not {model.shape.model} models; see discreet.attacks.membership"
        )
    if references and model.classes is None:
        raise click.UsageError(
            "this model predicts a number; reference models are compared by classes: leave --references"
        )
    tables = [None if name is None else read_table(name) for name in (members, others, population)]
    targets = Targets.of(model.shape, *tables)
    _warn(targets)
    known = None
    if references:
        known = reference_models(model.shape, targets, count=references, seed=seed, progress=_progress("models"))
    common: dict[str, Any] = {"design": "coins" if fair else "unknown", "seed": seed, **settings}
    before = []
    if plain:
        inside = targets.members.nonzero()[0]
        clear = without_privacy(model.shape, targets.x[inside], targets.y[inside], seed=seed)
        before = attacks_on(clear, targets, references=known, against="the same network without privacy", **common)
    after = attacks_on(model, targets, references=known, against=_name(path), claimed=claimed, **common)
    return MembershipReport.of(before=before, after=after, title=f"Membership inference: {_name(path)}")


def _warn(targets: "Targets") -> None:
    shared = targets.shared
    if shared:
        words = "is one of the others and looks" if shared == 1 else "are among the others and look"
        click.echo(f"{shared:,} {words} exactly like a member: twins, or people in both files by mistake", err=True)


@click.command("audit-training", short_help="Does DP-SGD, as it is built here, keep its ε?")
@click.option("--epsilon", required=True, metavar="ε", help="What the training is planned for, and claims: 2")
@click.option("--delta", required=True, metavar="δ", help="1e-5")
@click.option("--steps", type=click.IntRange(min=1), default=10, show_default=True, help="Of the training.")
@click.option("--rate", default="1", show_default=True, help="The chance to be in a lot; at 1 the audit sees most.")
@click.option("--clip", default="1", show_default=True, help="The clipping norm.")
@click.option(
    "--canaries", type=click.IntRange(64, 100_000), default=4096, show_default=True, help="Each put in by a fair coin."
)
@confidence_option("0.95")
@seed_option
@_outputs
def audit_training(
    epsilon: str,
    delta: str,
    steps: int,
    rate: str,
    clip: str,
    canaries: int,
    confidence: float,
    seed: int,
    as_json: bool,
    report: str | None,
    plot: str | None,
    force: bool,
) -> None:
    """A lower bound on the ε of `discreet train`'s own DP-SGD, from one run with canaries.

    Each canary is an example whose gradient lies in one weight of its own and is far too long, and is put in by a fair
    coin. Whoever sees the noisy sums of all steps guesses who was in. No private row is read.

    Exit code 3 where the bound exceeds ε: the training on this machine does not do what it says. A bound below ε proves
    nothing. One run cannot prove more than about the logarithm of the number of canaries.

    \b
    discreet attack audit-training --epsilon 2 --delta 1e-5
    discreet attack audit-training --epsilon 1 --delta 1e-5 --rate 0.1 --steps 100 --report audit.html
    """
    from discreet.attacks.membership import MembershipReport
    from discreet.gallery.models import canaries as planted
    from discreet.learning.sgd.recipe import Recipe, Sgd

    unwritten(report, plot, force=force)
    recipe = Recipe.for_budget(
        epsilon=epsilon, delta=delta, rate=rate, examples=canaries, steps=steps, clip=clip, optimizer=Sgd(1)
    )
    attack = planted(recipe, delta=delta, count=canaries, confidence=confidence, seed=seed)
    found = MembershipReport.of(after=[attack], title="DP-SGD under audit")
    _tell(found, as_json=as_json, report=report, plot=plot)
    if found.broken:
        raise click.exceptions.Exit(3)


@click.command(short_help="Split a table by fair coins, for an audit that bounds ε.")
@click.argument("data", type=FILE)
@click.option("--members", type=_CSV, required=True, help="Write the rows to train on here, .csv or .parquet.")
@click.option("--others", type=_CSV, required=True, help="Write the rows to leave out here.")
@click.option("--seed", type=click.IntRange(min=0), help="Draw the same again; by default nobody knows the coins.")
@click.option("--force", is_flag=True, help="Write over files that exist.")
@show.json_option
def coins(data: str, members: str, others: str, seed: int | None, force: bool, as_json: bool) -> None:
    """Split DATA in two by a fair coin for each row: one half to train on, the other to leave out.

    Train on --members alone, then run `discreet attack membership … --coins`. The coins, and so both files, are the
    judge's: an attacker who knows them has nothing to guess.

    \b
    discreet attack coins people.csv --members in.csv --others out.csv
    """
    from discreet.attacks.membership import coins as drawn
    from discreet.noise.entropy import SYSTEM
    from discreet.tables import read_table
    from discreet.tables import write as written

    if members == others:
        raise click.UsageError("--members and --others are the same file")
    unwritten(members, others, force=force)
    table = read_table(data)
    if not table.num_rows:
        raise click.ClickException(f"{data} has no rows")
    inside = drawn(table.num_rows, seed=int(SYSTEM.words(1)[0]) if seed is None else seed)
    for path, chosen in ((members, inside), (others, ~inside)):
        written(table.filter(chosen), path)
    show.facts({"members": int(inside.sum()), "others": int((~inside).sum())}, as_json=as_json)


def _tell(found: "MembershipReport", *, as_json: bool, report: str | None, plot: str | None) -> None:
    if as_json:
        show.facts(found.as_dict(), as_json=True)
    else:
        click.echo(found.text())
    write(found.page() if report else None, report)
    write(found.curves()[0] if plot else None, plot)


def _name(path: str) -> str:
    from pathlib import Path

    return Path(path).name


def _progress(what: str) -> Callable[[int, int], None] | None:
    """A line that counts, where somebody looks on."""
    if not sys.stderr.isatty():
        return None
    return lambda done, total: click.echo(f"\r{done:,} of {total:,} {what}", nl=done >= total, err=True)
