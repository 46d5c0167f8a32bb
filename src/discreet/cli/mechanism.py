"""`discreet mechanism …`: look at a mechanism, release a value with it.

Values to release, read from words; releases, told in words or JSON.
"""

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
    released = [_printable(mechanism.release(value)) for value in values]
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


def _printable(released: Any) -> Any:
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


Command = Callable[..., None]

_MOST_CHECKED = 200  # answers; beyond, looking at the whole channel takes too long


@click.group(name="mechanism", cls=show.Group)
def group() -> None:
    """Inspect a mechanism (noise, cost, error), or release a value with it.

    Without --release nothing private is read: the command shows what a release would cost and how far it
    would be from the truth.

    \b
    discreet mechanism laplace --epsilon 1 --sensitivity 10
    discreet mechanism geometric --epsilon 0.5 --sensitivity 1 --release 42 --json
    """


def _options(*parameters: click.Option) -> Callable[[Command], Command]:
    """The options of a mechanism, then those that all of them share."""
    shared = [
        click.Option(["--release"], multiple=True, help="A true value to release; may be repeated."),
        click.Option(
            ["--from", "source"],
            type=click.File("r", encoding="utf-8-sig", errors="replace"),
            help="Read values to release from a file, one a line, or - for a pipe.",
        ),
        click.Option(
            ["--confidence"],
            default="0.95",
            show_default=True,
            help="The confidence level of the error bound shown.",
        ),
        click.Option(["--plot"], type=show.PLOT_TYPE, callback=show.checked_file(), help=show.PLOT_HELP),
        click.Option([*show.JSON], is_flag=True, help=show.JSON_HELP),
    ]

    def add(function: Command) -> Command:
        function.__click_params__ = [*parameters, *shared][::-1]  # type: ignore[attr-defined]
        return function

    return add


def _needed(name: str, text: str) -> click.Option:
    return click.Option([f"--{name}"], required=True, help=text)


def _maybe(name: str, text: str, default: str | None = None, **more: Any) -> click.Option:
    return click.Option([f"--{name}"], default=default, show_default=default is not None, help=text, **more)


_EPSILON = _needed("epsilon", "The privacy loss of one release.")
_SENSITIVITY = _needed("sensitivity", "The most that one person can change the value.")
_GRANULARITY = _maybe("granularity", "The step of the grid; by default 1/1024 of the sensitivity.")
_MONOTONE = click.Option(["--monotone"], is_flag=True, help="One person moves all scores the same way (counts).")


@group.command()
@_options(_EPSILON, _SENSITIVITY)
def geometric(epsilon: str, sensitivity: str, **rest: Any) -> None:
    """Discrete Laplace noise on a whole number."""
    from discreet.mechanisms import Geometric

    _additive(Geometric(epsilon=epsilon, sensitivity=whole(sensitivity, "sensitivity")), step=1.0, read=whole, **rest)


@group.command()
@_options(_EPSILON, _SENSITIVITY, _GRANULARITY)
def laplace(epsilon: str, sensitivity: str, granularity: str | None, **rest: Any) -> None:
    """Laplace noise on a real number, on a grid."""
    from discreet.mechanisms import Laplace

    mechanism = Laplace(epsilon=epsilon, sensitivity=sensitivity, granularity=granularity)
    _additive(mechanism, step=float(mechanism.granularity), read=real, **rest)


@group.command()
@_options(
    _maybe("sigma", "The standard deviation of the noise; or state --epsilon and --delta."),
    _maybe("epsilon", "With --delta: the least noise for this guarantee."),
    _maybe("delta", "With --epsilon."),
    _SENSITIVITY,
    _GRANULARITY,
)
def gaussian(
    sigma: str | None, epsilon: str | None, delta: str | None, sensitivity: str, granularity: str | None, **rest: Any
) -> None:
    """Gaussian noise on a real number, on a grid."""
    from discreet.mechanisms import Gaussian

    if sigma is not None and epsilon is None and delta is None:
        mechanism = Gaussian(sigma=sigma, sensitivity=sensitivity, granularity=granularity)
    elif sigma is None and epsilon is not None and delta is not None:
        mechanism = Gaussian.for_guarantee(
            epsilon=epsilon, delta=delta, sensitivity=sensitivity, granularity=granularity
        )
    else:
        raise click.UsageError("state either --sigma, or both --epsilon and --delta")
    _additive(mechanism, step=float(mechanism.granularity), read=real, sigma=float(mechanism.sigma), **rest)


@group.command(short_help="Staircase noise on a real number, on a grid.")
@_options(_EPSILON, _SENSITIVITY, _GRANULARITY)
def staircase(epsilon: str, sensitivity: str, granularity: str | None, **rest: Any) -> None:
    """Staircase noise: the least expected error of all additive noise, on a grid."""
    from discreet.mechanisms import Staircase

    mechanism = Staircase(epsilon=epsilon, sensitivity=sensitivity, granularity=granularity)
    _additive(mechanism, step=float(mechanism.granularity), read=real, **rest)


@group.command(name="randomized-response", short_help="Randomized response on one bit.")
@_options(
    _maybe("epsilon", "Truth with probability e^ε/(1 + e^ε)."),
    _maybe("truth", "The probability of a true answer."),
    _maybe("coins", "The first coin's chance of heads; tails, and a second fair coin answers."),
    _maybe("keep", "Keep the answer with this probability, else answer at random."),
)
def randomized_response(
    epsilon: str | None, truth: str | None, coins: str | None, keep: str | None, **rest: Any
) -> None:
    """Randomized response on one bit: --release 1 for yes, 0 for no.

    State one of --epsilon, --truth, --coins, --keep.
    """
    from discreet.mechanisms import RandomizedResponse

    forms: list[tuple[str | None, Callable[[str], RandomizedResponse]]] = [
        (epsilon, lambda value: RandomizedResponse.for_epsilon(epsilon=value)),
        (truth, lambda value: RandomizedResponse(truth=value)),
        (coins, lambda value: RandomizedResponse.from_coins(heads=value)),
        (keep, lambda value: RandomizedResponse.from_keep(keep=value)),
    ]
    given = [(value, make) for value, make in forms if value is not None]
    if len(given) != 1:
        raise click.UsageError("state exactly one of --epsilon, --truth, --coins, --keep")
    mechanism = given[0][1](given[0][0])
    _finite(mechanism, {"epsilon": mechanism.epsilon, "truth": mechanism.truth, "keep": mechanism.keep}, **rest)


@group.command(name="k-rr", short_help="k-ary randomized response (k-RR).")
@_options(_EPSILON, _needed("size", "How many answers there are."))
def k_rr(epsilon: str, size: str, **rest: Any) -> None:
    """Randomized response on one of k answers, numbered from 0."""
    from discreet.mechanisms import KRR

    mechanism = KRR(epsilon=epsilon, size=whole(size, "size"))
    facts = {"truth": mechanism.truth, "other": mechanism.other}
    if mechanism.size <= _MOST_CHECKED:
        _finite(mechanism, facts, **rest)
    else:
        report(mechanism, facts, whole, None, **rest)


@group.command(name="planar-laplace", short_help="Planar Laplace noise on a location.")
@_options(
    _needed("epsilon", "The privacy loss for each unit of distance."),
    _maybe("unit", "The unit of distance.", "km"),
    _needed("granularity", "The size of a grid cell, in that unit."),
)
def planar_laplace(epsilon: str, unit: str, granularity: str, **rest: Any) -> None:
    """Planar Laplace noise on a location x,y (for example --release 1.5,-2)."""
    from discreet.mechanisms import PlanarLaplace

    mechanism = PlanarLaplace(epsilon=epsilon, unit=unit, granularity=granularity)

    def chart() -> "Chart":
        from discreet.report import Chart, Points

        points = mechanism.release([[0.0, 0.0]] * 4000)
        reach = float(abs(points).max())
        ends, title = (-reach, reach), f"4000 draws around one place ({unit})"
        return Chart(title, [Points(points[:, 0], points[:, 1])], x_range=ends, y_range=ends, square=True)

    report(mechanism, {"radius": mechanism.interval(rest["confidence"])}, point, chart, **rest)


@group.command(short_help="Choose one of several candidates.")
@_options(
    _EPSILON,
    _SENSITIVITY,
    _MONOTONE,
    _maybe(
        "method", "How to choose.", "exponential", type=click.Choice(["exponential", "permute-and-flip", "noisy-max"])
    ),
)
def choose(epsilon: str, sensitivity: str, monotone: bool, method: str, **rest: Any) -> None:
    """Choose one of several candidates by whole-number scores (--release 3,17,5), counted from 0."""
    from discreet.mechanisms import Exponential, PermuteAndFlip, ReportNoisyMax

    kind = {"exponential": Exponential, "permute-and-flip": PermuteAndFlip, "noisy-max": ReportNoisyMax}[method]
    mechanism = kind(epsilon=epsilon, sensitivity=sensitivity, monotone=monotone)
    report(mechanism, {"scale": mechanism.scale}, wholes, None, **rest)


@group.command(short_help="A quantile of the data.")
@_options(
    _EPSILON,
    _maybe("probability", "The share of the data below the answer; 0.5 is the median.", "0.5"),
    _needed("lower", "The least possible answer."),
    _needed("upper", "The largest possible answer."),
    _needed("granularity", "The step between possible answers."),
    _needed("neighbors", "'add or remove one' or 'change one'."),
)
def quantile(
    epsilon: str, probability: str, lower: str, upper: str, granularity: str, neighbors: str, **rest: Any
) -> None:
    """A quantile of the data (--release 3,17,5 or --from FILE, one data set a line)."""
    from discreet.mechanisms import Quantile, Range
    from discreet.privacy.unit import relation

    within = Range(lower=lower, upper=upper, granularity=granularity)
    mechanism = Quantile(epsilon=epsilon, probability=probability, within=within, neighbors=relation(neighbors))
    facts = {"rank_error": mechanism.interval(rest["confidence"]), "possible_answers": within.points}
    report(mechanism, facts, reals, None, **rest)


@group.command(short_help="The minimum or maximum of the data.")
@_options(
    _EPSILON,
    _needed("side", "'min' or 'max'."),
    _needed("lower", "The least possible answer."),
    _needed("upper", "The largest possible answer."),
    _needed("granularity", "The step between possible answers."),
)
def extreme(epsilon: str, side: str, lower: str, upper: str, granularity: str, **rest: Any) -> None:
    """The minimum or maximum of the data: a value beyond which few data lie (--release 3,17,5)."""
    from discreet.mechanisms import Extreme, Range

    mechanism = Extreme(epsilon=epsilon, side=side, within=Range(lower=lower, upper=upper, granularity=granularity))
    report(
        mechanism, {"rank": mechanism.rank, "rank_error": mechanism.interval(rest["confidence"])}, reals, None, **rest
    )


@group.command(name="select-keys", short_help="Which groups may be named.")
@_options(
    _maybe("epsilon", "The privacy loss (optimal and laplace)."),
    _maybe("sigma", "The standard deviation of the noise (gaussian)."),
    _needed("delta", "The chance that a key of one person alone is named."),
    _needed("keys", "The most keys that one person appears under."),
    _maybe("method", "How to select.", "optimal", type=click.Choice(["optimal", "laplace", "gaussian"])),
)
def select_keys(epsilon: str | None, sigma: str | None, delta: str, keys: str, method: str, **rest: Any) -> None:
    """Which groups may be named, given how many people each has (--release 3,17,5)."""
    from discreet.mechanisms import GaussianThreshold, LaplaceThreshold, OptimalSelection

    most = whole(keys, "keys")
    if (sigma is None, epsilon is None) != (method != "gaussian", method == "gaussian"):
        wanted, other = ("sigma", "epsilon") if method == "gaussian" else ("epsilon", "sigma")
        raise click.UsageError(f"--method {method} needs --{wanted}, and no --{other}")
    mechanism: Any
    if method == "gaussian":
        mechanism = GaussianThreshold(sigma=sigma or 0, delta=delta, keys=most)
    else:
        kind = OptimalSelection if method == "optimal" else LaplaceThreshold
        mechanism = kind(epsilon=epsilon or 0, delta=delta, keys=most)
    facts = {"kept_from" if method == "optimal" else "count_error": mechanism.interval(rest["confidence"])}
    if method != "optimal":
        facts["threshold"] = mechanism.threshold
    report(mechanism, facts, wholes, None, **rest)


@group.command(name="above-threshold", short_help="Which answers of a stream exceed a threshold.")
@_options(
    _EPSILON,
    _SENSITIVITY,
    _needed("threshold", "What answers are compared with."),
    _needed("positives", "Stop after this many answers above."),
    _MONOTONE,
)
def above_threshold(
    epsilon: str, sensitivity: str, threshold: str, positives: str, monotone: bool, **rest: Any
) -> None:
    """Which answers of a stream exceed a threshold (--release 3,17,5), paid for by the positives alone."""
    from discreet.mechanisms import AboveThreshold

    mechanism = AboveThreshold(
        epsilon=epsilon,
        sensitivity=whole(sensitivity, "sensitivity"),
        threshold=whole(threshold, "threshold"),
        positives=whole(positives, "positives"),
        monotone=monotone,
    )
    of_threshold, of_answer = mechanism.scales
    report(mechanism, {"threshold_scale": of_threshold, "answer_scale": of_answer}, wholes, None, **rest)


def _additive(mechanism: Any, *, step: float, read: Callable[[str, str], Any], **rest: Any) -> None:
    """Report a mechanism that adds noise: its interval, its deviation and the shape of the noise."""
    facts = {name: rest.pop(name) for name in ("sigma",) if name in rest}
    facts |= {"interval": mechanism.interval(rest["confidence"]), "deviation": mechanism.variance**0.5}
    if not hasattr(mechanism, "probability"):
        report(mechanism, facts, read, None, **rest)
        return
    reach = max(1, round(3 * mechanism.variance**0.5 / step))
    places = sorted({round(reach * i / 10) for i in range(-10, 11)})
    shape = [f"{k * step:.4g}" for k in places], [mechanism.probability(k) / step for k in places]

    def chart() -> "Chart":
        from discreet.report import Chart, Line

        spread = range(-reach, reach + 1, max(1, reach // 400))
        line = Line([k * step for k in spread], [mechanism.probability(k) / step for k in spread])
        return Chart(type(mechanism).__name__, [line], x="noise", y="density")

    report(mechanism, facts, read, chart, shape=shape, **rest)


def _finite(mechanism: Any, facts: dict[str, Any], **rest: Any) -> None:
    """Report a mechanism with a few outputs: its channel is checked, not only stated."""
    from discreet.mechanisms import Channel

    channel: Channel = mechanism.channel()
    facts["channel_epsilon"] = channel.epsilon("all")

    def chart() -> "Chart":
        from discreet.report import Chart, Heat

        matrix = [[float(p) for p in row] for row in channel.matrix]
        return Chart(type(mechanism).__name__, [Heat(matrix)], x="answer", y="truth")

    report(mechanism, facts, whole, chart, **rest)
