"""The report's charts."""

import math
from collections.abc import Iterable, Sequence

from story import Asked, Averaging, Differencing, Point

from discreet.report import Bars, Chart, Intervals, Line, Points

_SHOWN = 60  # points of a curve


def answer_charts(points: Sequence[Point], measure: str) -> list[Chart]:
    """Released values as bars; beside them, how far from the truth each is, and the interval for its noise."""
    labels = [point.label for point in points]
    bars = Chart(f"{measure}, released", [Bars(labels, [point.released for point in points])])
    reach = _reach(points)
    if not reach:
        return [bars]
    marks = [_distances(points, labels, "its interval holds the truth", missed=False)]
    if any(point.covers is False for point in points):
        marks.append(_distances(points, labels, "it does not", missed=True))
    if any(point.bounded is not None for point in points):
        after = [_from_truth(point, point.bounded) for point in points]
        marks.append(Intervals(labels, after, "the truth after bounding"))
    return [bars, Chart("Distance to the truth", marks, y_range=(-reach, reach))]


def _distances(points: Sequence[Point], labels: Sequence[str], name: str, *, missed: bool) -> Intervals:
    shown = [point if (point.covers is False) == missed else None for point in points]
    sides = ([math.nan if p is None else _from_truth(p, getattr(p, side)) for p in shown] for side in _SIDES)
    values, low, high = sides
    return Intervals(labels, values, name, low=low, high=high)


_SIDES = ("released", "low", "high")


def _from_truth(point: Point, value: float | None) -> float:
    return math.nan if value is None or point.truth is None else value - point.truth


def budget_chart(epsilon: float, asked: Sequence[Asked]) -> Chart:
    """What was left after each question, as steps."""
    left = [epsilon, *(each.remaining for each in asked)]
    paid = [i for i, each in enumerate(asked, 1) if not each.free]
    free = [i for i, each in enumerate(asked, 1) if each.free]
    marks: list[Line | Points] = [Line(range(len(left)), left, "ε left", steps=True)]
    marks += [Points(at, [left[i] for i in at], name) for at, name in ((paid, "charged"), (free, "free")) if at]
    return Chart("The budget after each question", marks, x="question", y="ε left", y_range=(0, epsilon))


def averaging_chart(attack: Averaging) -> Chart:
    """How uncertain the attacker's mean is after so many questions, on logarithmic axes."""
    stop, far = len(attack.answers), math.log10(attack.furthest)
    many = [10 ** (far * i / _SHOWN) for i in range(_SHOWN + 1)]
    few = [*(n for n in many if n < stop), stop]
    error = [[1.96 * attack.spread / math.sqrt(n) for n in counts] for counts in (few, many)]
    marks = [
        Line(few, error[0], f"the curator: refuses after {stop} answers"),
        Line(many, error[1], "the same noise without a ledger", dashed=True),
        Line([1, attack.furthest], [0.5, 0.5], "below ±½ the person is found out"),
    ]
    title = "How sure the attacker is of the mean (±, at 95 %)"
    return Chart(title, marks, x="questions", y="±", log_x=True, log_y=True)


def guesses_chart(attack: Differencing) -> Chart:
    """Shares of right guesses with their intervals; the bound as ticks."""
    low, high = zip(*(guess.interval() for guess in attack.guesses), strict=True)
    shares, limits = [guess.share for guess in attack.guesses], [attack.bound] * len(attack.guesses)
    bars = Bars([guess.name for guess in attack.guesses], shares, low=low, high=high, limits=limits)
    words = f"share of right guesses; a coin has 0.5, the red tick is the bound of {attack.bound:.1%}"
    return Chart("How often the attacker guessed right", [bars], y=words, y_range=(0, 1))


def _reach(points: Iterable[Point]) -> float:
    """The farthest from the truth that a value or an end of an interval is, rounded up to a plain number."""
    ends = [
        abs(end - point.truth)
        for point in points
        if point.truth is not None
        for end in (point.released, point.low, point.high, point.bounded)
        if end is not None
    ]
    most = max(ends, default=0.0)
    if most == 0:
        return 0.0
    size = 10.0 ** math.floor(math.log10(most))
    return next(size * k for k in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if size * k >= most * (1 - 1e-9))


def short(value: float) -> str:
    """A number with no more digits than a reader wants."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 0 if abs(value) >= 1000 or value == round(value) else max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"
