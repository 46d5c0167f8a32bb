"""`discreet account …`: compose losses, convert them, find the least noise for a guarantee."""

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from discreet.cli import show
from discreet.errors import DiscreetError, NoGuarantee
from discreet.exact import rational
from discreet.privacy import loss as losses

if TYPE_CHECKING:
    from discreet.report import Chart

_DELTA = show.delta_option("The δ of the guarantee; 0 for pure ε-DP.", required=True)

_KINDS: dict[str, tuple[type[Any], int, str]] = {
    "pure": (losses.Pure, 1, "ε"),
    "bounded-range": (losses.BoundedRange, 1, "ε"),
    "approximate": (losses.Approximate, 2, "ε,δ"),
    "concentrated": (losses.Concentrated, 1, "ρ"),
    "laplace": (losses.LaplaceNoise, 1, "scale/sensitivity"),
    "gaussian": (losses.GaussianNoise, 1, "σ/sensitivity"),
    "discrete-gaussian": (losses.DiscreteGaussianNoise, 2, "σ,sensitivity"),
    "sampled-gaussian": (losses.SampledGaussian, 2, "rate,σ/sensitivity"),
}
_SPEC = re.compile(r"(?P<kind>[a-z-]+):(?P<numbers>[^x]+)(x(?P<count>[0-9]{1,19}))?")

_KINDS_HELP = "\n".join(f"  {name}:{fields}" for name, (_, _, fields) in _KINDS.items())
_COMPOSE_HELP = f"""Compute the least ε at a given δ for all LOSSES together.

\b
A loss is one of these, with xCOUNT after it if it is repeated:
{_KINDS_HELP}
  @FILE (the JSON of a loss)
"""


@click.group(name="account", cls=show.Group)
def group() -> None:
    """Compose and convert privacy losses; find the least noise for a guarantee.

    A loss is written KIND:NUMBERS, repeated releases with xCOUNT at the end, for example gaussian:20x1000.
    """


@group.command(help=_COMPOSE_HELP)
@click.argument("specs", metavar="LOSS...", nargs=-1, required=True)
@_DELTA
@click.option(
    "--group", "size", type=click.IntRange(min=1), default=1, show_default=True, help="For groups of this many people."
)
@click.option("--all", "every", is_flag=True, help="Show the result of every accountant, not only the best.")
@show.plot_option
@show.json_option
def compose(specs: tuple[str, ...], delta: str, size: int, every: bool, plot: str | None, as_json: bool) -> None:  # noqa: D103
    from discreet.privacy.accounting import guarantee
    from discreet.privacy.calibration import group as of_group

    total = losses.Together(*(_loss(spec) for spec in specs))
    charged = of_group(total, size) if size > 1 else total
    result = guarantee(charged, delta=delta)
    epsilon = result.epsilon if result.exact is None else result.exact
    summary: dict[str, Any] = {"epsilon": epsilon, "delta": result.delta, "by": result.by}
    if every:
        summary |= _each(charged, delta)
    show.facts(summary, as_json=as_json)
    if plot:
        show.save(_profile(charged, result.epsilon), plot)


@group.command()
@click.argument(
    "kind", metavar="KIND", type=click.Choice(["laplace", "gaussian", "discrete-gaussian", "sampled-gaussian"])
)
@show.epsilon_option("The ε wanted.")
@show.delta_option("The δ wanted; every KIND but laplace needs one above 0.", default="0", show_default=True)
@click.option(
    "--sensitivity", default="1", show_default=True, help="The most by which one person can change the value."
)
@click.option("--rate", help="sampled-gaussian: the probability that a person is in a lot.")
@click.option("--steps", type=click.IntRange(min=1), help="sampled-gaussian: the number of steps.")
@click.option(
    "--method",
    type=click.Choice(["analytic", "zcdp", "classical"]),
    help="gaussian: how to calibrate; by default analytic, which adds the least noise.",
)
@show.json_option
def calibrate(
    kind: str,
    epsilon: str,
    delta: str,
    sensitivity: str,
    rate: str | None,
    steps: int | None,
    method: Literal["analytic", "zcdp", "classical"] | None,
    as_json: bool,
) -> None:
    """Find the least noise for (ε, δ)-DP; KIND is laplace, gaussian, discrete-gaussian or sampled-gaussian."""
    from discreet.privacy import calibration

    if method is not None and kind != "gaussian":
        raise click.UsageError(f"--method is for gaussian, not for {kind}")
    if (rate is not None or steps is not None) and kind != "sampled-gaussian":
        raise click.UsageError(f"--rate and --steps are for sampled-gaussian, not for {kind}")
    moved = rational(sensitivity, "sensitivity", above=0)
    multiplier: Fraction
    if kind == "laplace":
        multiplier = calibration.laplace_multiplier(epsilon=epsilon, delta=delta)
    elif kind == "gaussian":
        multiplier = calibration.gaussian_multiplier(epsilon=epsilon, delta=delta, method=method or "analytic")
    elif kind == "discrete-gaussian":
        if moved.denominator != 1:
            raise click.UsageError("--sensitivity is a whole number of steps for discrete-gaussian")
        multiplier = calibration.discrete_gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=int(moved)) / moved
    else:
        if rate is None or steps is None:
            raise click.UsageError("sampled-gaussian needs --rate and --steps")
        multiplier = calibration.sampled_gaussian_multiplier(epsilon=epsilon, delta=delta, rate=rate, steps=steps)
    name = "scale" if kind == "laplace" else "sigma"
    show.facts({name: multiplier * moved, "multiplier": multiplier}, as_json=as_json)


@group.command()
@click.option("--rho", required=True, help="The ρ of ρ-zCDP.")
@_DELTA
@show.json_option
def zcdp(rho: str, delta: str, as_json: bool) -> None:
    """Convert ρ-zCDP to (ε, δ)-DP, by the tight formula."""
    from discreet.privacy.accounting import zcdp as accountant

    show.facts({"epsilon": accountant.epsilon(rho, delta=delta), "delta": rational(delta, "delta")}, as_json=as_json)


def _loss(spec: str) -> losses.Loss:
    if spec.startswith("@"):
        try:
            return losses.from_json(Path(spec[1:]).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise click.UsageError(f"cannot read {spec[1:]}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise click.UsageError(f"cannot read {spec[1:]}: it is not UTF-8 text") from None
    match = _SPEC.fullmatch(spec)
    if match is None or match["kind"] not in _KINDS:
        raise click.UsageError(
            f"cannot read the loss {spec!r}; write it as one of:\n{_KINDS_HELP}\nand xCOUNT after it"
        )
    kind, count, fields = _KINDS[match["kind"]]
    numbers: list[Any] = match["numbers"].split(",")
    if len(numbers) != count:
        raise click.UsageError(f"{match['kind']} takes {fields}; got {match['numbers']!r}")
    if kind is losses.DiscreteGaussianNoise:
        steps = rational(numbers[1], "sensitivity", at_least=0)
        if steps.denominator != 1:
            raise click.UsageError(f"the sensitivity of discrete-gaussian is a whole number; got {numbers[1]!r}")
        numbers[1] = int(steps)
    loss: losses.Loss = kind(*numbers)
    return loss if match["count"] is None else losses.Repeated(loss, int(match["count"]))


def _each(loss: losses.Loss, delta: str) -> dict[str, Any]:
    """What every accountant says, or why it says nothing."""
    from discreet.privacy.accounting import composition, pld, rdp
    from discreet.privacy.accounting import zcdp as zcdp_accountant

    ways: dict[str, Callable[[], Any]] = {
        "pure": lambda: composition.pure(loss),
        "advanced": lambda: composition.advanced(loss, delta=delta),
        "zcdp": lambda: zcdp_accountant.epsilon(zcdp_accountant.rho(loss), delta=delta),
        "rdp": lambda: rdp.epsilon(rdp.curve(loss), delta=delta),
        "pld": lambda: pld.epsilon(loss, delta=delta),
    }
    summary: dict[str, Any] = {}
    for name, way in ways.items():
        try:
            summary[name] = way()
        except DiscreetError as error:
            summary[name] = f"– ({error})"
    return summary


def _profile(loss: losses.Loss, epsilon: float) -> "Chart":
    from discreet.privacy.accounting import delta_for
    from discreet.report import Chart, Line

    top = 1.5 * epsilon if 0 < epsilon < float("inf") else 5.0
    points = []
    for step in range(1, 31):
        try:
            points.append((top * step / 30, float(delta_for(loss, epsilon=top * step / 30).delta)))
        except NoGuarantee:
            continue
    line = Line([e for e, _ in points], [d if d > 0 else float("nan") for _, d in points])
    return Chart("What these releases guarantee together", [line], x="ε", y="δ", log_y=True)
