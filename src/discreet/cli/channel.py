"""`discreet channel …`: is it private? Any finite mechanism, as a matrix in a CSV or JSON file."""

import json
import math
import os
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from discreet.cli import show
from discreet.errors import InvalidChannel

_MATRIX = click.argument("matrix", type=click.Path(allow_dash=True))
_NEIGHBORS = click.option(
    "--neighbors",
    required=True,
    help="Which inputs are neighbors: 'all', 'line' (each row and the next), or a file with two inputs a line.",
)
_NORMALIZE = click.option("--normalize", is_flag=True, help="Divide each row by its sum (for rounded decimals).")
_PRIOR = click.option(
    "--prior", default="uniform", show_default=True, help="'uniform', or probabilities a,b,c in the order of the rows."
)


@click.group(name="channel", cls=show.Group)
def group() -> None:
    """Compute the privacy of any finite mechanism, given as a matrix.

    A matrix is a CSV file (header row: outputs; first column: inputs; cells as 0.25 or 1/3), a JSON file
    {"inputs": […], "outputs": […], "matrix": [[…], …]}, or - for a pipe.

    \b
    discreet channel check matrix.csv --neighbors all
    discreet channel check matrix.csv --neighbors pairs.csv --delta 1e-6 --json
    """


@group.command()
@_MATRIX
@_NEIGHBORS
@show.delta_option("Ask for (ε,δ)-DP instead of ε-DP.", default="0", show_default=True)
@click.option("--claim", help="A claimed ε: exit with code 3 if the mechanism does not satisfy it.")
@click.option("--metric", help="Also compute the ε of d-privacy: 'discrete', 'line' or a CSV matrix of distances.")
@_NORMALIZE
@show.json_option
def check(
    matrix: str, neighbors: str, delta: str, claim: str | None, metric: str | None, normalize: bool, as_json: bool
) -> None:
    """Compute the tightest ε (`inf` if there is none) and the output that attains it."""
    from discreet.exact import rational

    channel = _read(matrix, normalize)
    near = _neighbors(neighbors)
    epsilon, spare = channel.epsilon(near, delta=delta), rational(delta, "delta")
    summary: dict[str, Any] = {"epsilon": epsilon, "delta": spare, "exact": channel.exact}
    summary |= {"inputs": len(channel.inputs), "outputs": len(channel.outputs)}
    if metric is not None:
        summary["epsilon_per_distance"] = channel.d_privacy(_metric(metric))
    holds = claim is None or _at_most(epsilon, rational(claim, "claim", at_least=0))
    if claim is not None:
        summary["claim_holds"] = holds
    witness = None if spare else channel.worst(near)
    if witness is not None:
        summary["because"] = str(witness)
    show.facts(summary, as_json=as_json)
    if not holds:
        raise click.exceptions.Exit(3)


@group.command()
@_MATRIX
@_NEIGHBORS
@click.option("--epsilon", "epsilons", multiple=True, help="An ε; may be repeated. By default 21 evenly spaced values.")
@_NORMALIZE
@show.plot_option
@show.json_option
def curve(
    matrix: str, neighbors: str, epsilons: tuple[str, ...], normalize: bool, plot: str | None, as_json: bool
) -> None:
    """Compute the least δ for each ε."""
    points = _read(matrix, normalize).curve(_neighbors(neighbors), list(epsilons) or None)
    if as_json:
        click.echo(json.dumps([{"epsilon": epsilon, "delta": delta} for epsilon, delta in points]))
    else:
        show.bars([f"ε {epsilon:.4g}" for epsilon, _ in points], [delta for _, delta in points])
    if plot:
        from discreet.report import Chart, Line

        line = Line([epsilon for epsilon, _ in points], [delta for _, delta in points])
        show.save(Chart("Privacy profile", [line], x="ε", y="δ"), plot)


@group.command()
@_MATRIX
@_PRIOR
@_NORMALIZE
@show.json_option
def posterior(matrix: str, prior: str, normalize: bool, as_json: bool) -> None:
    """Compute what an adversary with this prior believes after each output."""
    from discreet.mechanisms import bayesian

    channel = _read(matrix, normalize)
    belief = _prior(prior)
    after = bayesian.posterior(channel, belief)
    if as_json:
        from discreet.mechanisms.channel_io import to_json

        click.echo(to_json(after))
        return
    for output, row in zip(after.inputs, after.matrix, strict=True):
        click.echo(f"after {output}:")
        show.bars([str(label) for label in after.outputs], [float(p) for p in row])
    click.echo(f"a guess is right with probability {float(bayesian.vulnerability(channel, belief)):.6g}")


@group.command()
@click.argument("inputs", type=click.IntRange(2, 200))
@show.epsilon_option("The privacy loss.")
@_PRIOR
@click.option(
    "--error",
    type=click.Choice(["absolute", "squared", "wrong"]),
    default="absolute",
    show_default=True,
    help="The expected error to minimize: |answer − truth|, its square, or how often they differ.",
)
@click.option(
    "--neighbors",
    type=click.Choice(["line", "all"]),
    default="line",
    show_default=True,
    help="'line' (a count) or 'all' (the local model).",
)
@show.json_option
def optimal(inputs: int, epsilon: str, prior: str, error: str, neighbors: str, as_json: bool) -> None:
    """Compute the optimal ε-DP mechanism on 0 … INPUTS−1 for a user with this prior, as an exact, certified matrix."""
    from discreet.mechanisms.channel_io import to_csv, to_json
    from discreet.mechanisms.optimal import optimum

    losses: dict[str, Callable[[int, int], int]] = {
        "absolute": lambda y, z: abs(y - z),
        "squared": lambda y, z: (y - z) ** 2,
        "wrong": lambda y, z: int(y != z),
    }
    result = optimum(
        prior=_prior(prior), loss=losses[error], epsilon=epsilon, neighbors=neighbors, inputs=range(inputs)
    )
    text = to_json(result.channel) if as_json else to_csv(result.channel).replace("\r\n", "\n").rstrip("\n")
    click.echo(text)
    click.echo(f"expected loss {float(result.value):.9g}; certified exactly at ε {epsilon}", err=True)


def _read(matrix: str, normalize: bool) -> Any:
    from discreet.mechanisms import channel_io

    if matrix != "-":
        return channel_io.read_channel(matrix, normalize=normalize)
    return channel_io.parse_channel(channel_io.decoded(sys.stdin.buffer.read(), "the pipe"), normalize=normalize)


def _prior(text: str) -> Any:
    return text if text == "uniform" else [part.strip() for part in text.split(",")]


def _at_most(epsilon: float, claim: Fraction) -> bool:
    """Whether the ε printed, read as the decimal that it prints as, is at most the claim."""
    return math.isfinite(epsilon) and Fraction(repr(epsilon)) <= claim


def _neighbors(text: str) -> Any:
    from discreet.mechanisms.channel_io import read_pairs

    if text in ("all", "line"):
        return text
    if not os.path.exists(text):  # Path.exists raises for names that are too long
        raise InvalidChannel(
            f"neighbors: got {text!r}, expected 'all', 'line' or a file of pairs; there is no such file"
        )
    return read_pairs(text)


def _metric(text: str) -> Any:
    from discreet.mechanisms.channel_io import read_distances

    if text in ("discrete", "line"):
        return text
    table = read_distances(text)

    def distance(a: Any, b: Any) -> str:
        if (str(a), str(b)) not in table:
            raise InvalidChannel(f"metric: there is no distance between {a!r} and {b!r} in {Path(text).name}")
        return table[str(a), str(b)]

    return distance
