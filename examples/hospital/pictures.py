"""The report's pictures, drawn as SVG by hand: no library, no file, colors from the page around them."""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

from story import Asked, Averaging, Differencing, Point


def answer_picture(points: Sequence[Point], measure: str) -> str:
    """Released values as bars; beside each, how far from the truth it is, and the interval for its noise."""
    names, bars, gap, row, top = 210, 250, 90, 24, 34
    left, right = names + bars + gap, 860 - 35
    most = max((abs(point.released) for point in points), default=1) or 1
    reach = _reach(points)
    known = reach > 0
    middle, unit = (left + right) / 2, (right - left) / 2
    parts = [
        _text(names, 16, measure + ", released", "head"),
        _text(middle, 16, "distance to the truth", "head", "middle"),
    ]
    for x, text in ((left, -reach), (middle, 0.0), (right, reach)) if known else ():
        parts.append(_line(x, top - 6, x, top + row * len(points), "zero" if x == middle else "grid"))
        parts.append(_text(x, top + row * len(points) + 16, signed(text), "tick", "middle"))
    for i, point in enumerate(points):
        y = top + row * i + row / 2
        parts.append(_text(names - 8, y + 4, _cut(point.label, 30), "label", "end"))
        parts.append(_rect(names, y - 7, bars * abs(point.released) / most, 14, "bar"))
        parts.append(_text(names + bars * abs(point.released) / most + 5, y + 4, short(point.released), "value"))
        if known and point.truth is not None:
            parts += _whisker(point, y, lambda value: middle + unit * value / reach)
    return _svg(860, top + row * len(points) + 24, parts, f"{measure}: released values and their distance to the truth")


def _whisker(point: Point, y: float, place: Callable[[float], float]) -> list[str]:
    truth = point.truth or 0.0
    at = place(point.released - truth)
    found = "miss" if point.covers is False else "hit"
    parts = []
    if point.low is not None and point.high is not None:
        a, b = place(point.low - truth), place(point.high - truth)
        parts += [_line(a, y, b, y, found), _line(a, y - 4, a, y + 4, found), _line(b, y - 4, b, y + 4, found)]
    if point.bounded is not None:
        x = place(point.bounded - truth)
        parts.append(f'<path class="bounded" d="M{x - 5:.1f},{y:.1f}l5,-5l5,5l-5,5z"/>')
    return [*parts, f'<circle class="{found}" cx="{at:.1f}" cy="{y:.1f}" r="3.5"/>']


def budget_picture(epsilon: float, asked: Sequence[Asked]) -> str:
    """What was left after each question, as steps; free questions are hollow."""
    left, right, top, bottom = 50, 840, 32, 240
    step = (right - left) / max(1, len(asked))
    height = lambda value: bottom - (bottom - top) * value / epsilon  # noqa: E731
    parts = [_text(left - 8, height(v) + 4, f"{v:g}", "tick", "end") for v in ticks(epsilon)]
    parts += [_line(left, height(v), right, height(v), "grid") for v in ticks(epsilon)]
    parts.append(_text(left, top - 16, "ε left", "head"))
    path, dots = [f"M{left},{height(epsilon):.1f}"], []
    for i, one in enumerate(asked):
        x = left + step * (i + 1)
        path.append(f"H{x:.1f}V{height(one.remaining):.1f}")
        kind = "free" if one.free else "hit"
        title = f"<title>{escape(f'{i + 1}. {one.title}: {one.remaining:.4g} left')}</title>"
        dots.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{height(one.remaining):.1f}" r="4">{title}</circle>')
        parts.append(_text(x, bottom + 16, str(i + 1), "tick", "middle"))
    end = left + step * max(i + 1 for i, one in enumerate(asked) if not one.free) + step / 2
    y = height(asked[-1].remaining)
    cross = f'<path class="cross" d="M{end - 4:.1f},{y - 4:.1f}l8,8m0,-8l-8,8"/>'
    parts += [
        f'<path class="steps" d="{"".join(path)}"/>',
        *dots,
        cross,
        _text(end, y - 10, "refused", "miss", "middle"),
    ]
    return _svg(860, 265, parts, "the budget after each question")


def averaging_picture(attack: Averaging) -> str:
    """Both axes logarithmic: how uncertain the attacker's mean is after so many questions."""
    left, right, top, bottom = 60, 815, 24, 250
    decades, low, high = math.log10(attack.furthest), -2, 2
    across = lambda n: left + (right - left) * math.log10(n) / decades  # noqa: E731
    up = lambda error: bottom - (bottom - top) * (math.log10(error) - low) / (high - low)  # noqa: E731
    after = lambda n: up(1.96 * attack.spread / math.sqrt(n))  # noqa: E731
    parts = [_text(left, top - 10, "uncertainty of the attacker's mean (±, 95 %)", "head")]
    for power in range(low, high + 1):
        parts.append(_line(left, up(10.0**power), right, up(10.0**power), "grid"))
        parts.append(_text(left - 8, up(10.0**power) + 4, f"{10.0**power:g}", "tick", "end"))
    powers = range(math.floor(decades) + 1)
    parts += [_text(across(10**power), bottom + 16, f"{10**power:,}", "tick", "middle") for power in powers]
    parts.append(_text((left + right) / 2, bottom + 32, "questions", "tick", "middle"))
    parts.append(_line(left, up(0.5), right, up(0.5), "bound"))
    parts.append(_text(left + 6, up(0.5) + 15, "below ±½ the person is found out", "miss"))
    parts.append(_line(across(1), after(1), across(attack.furthest), after(attack.furthest), "weak"))
    stop = len(attack.answers)
    parts.append(_line(across(1), after(1), across(stop), after(stop), "steps"))
    parts.append(f'<circle class="hit" cx="{across(stop):.1f}" cy="{after(stop):.1f}" r="5"/>')
    parts.append(_text(across(stop) + 10, after(stop) - 8, f"the curator refuses after {stop} answers", "label"))
    far = attack.furthest**0.62
    parts.append(_text(across(far) + 10, after(far) - 8, "noise without a ledger", "label"))
    return _svg(860, bottom + 40, parts, "the averaging attack")


def guesses_picture(attack: Differencing) -> str:
    """Shares of right guesses with their intervals, between a coin and certainty; the bound as a line."""
    names, right, row, top = 300, 810, 34, 34
    across = lambda share: names + (right - names) * (share - 0.3) / 0.7  # noqa: E731
    bottom = top + row * len(attack.guesses)
    parts = []
    for share, text in ((0.5, "a coin, 50%"), (1.0, "100%")):
        parts.append(_line(across(share), top - 6, across(share), bottom, "grid"))
        parts.append(_text(across(share), top - 12, text, "tick", "middle"))
    for i, guess in enumerate(attack.guesses):
        y = top + row * i + row / 2
        low, high = guess.interval()
        kind = "bad" if guess.share > 0.95 else "bar"
        parts.append(_text(names - 8, y + 4, guess.name, "label", "end"))
        parts.append(_rect(names, y - 9, across(guess.share) - names, 18, kind))
        parts.append(_line(across(low), y, across(high), y, "zero"))
        parts.append(_text(names + 6, y + 4, f"{guess.share:.1%}", "inside"))
    parts.append(_line(across(attack.bound), top - 6, across(attack.bound), bottom + 4, "bound"))
    parts.append(_text(across(attack.bound), bottom + 18, f"the bound, {attack.bound:.1%}", "miss", "middle"))
    return _svg(860, bottom + 28, parts, "how often the attacker guessed right")


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


def ticks(most: float) -> list[float]:
    """A few plain numbers from 0 to `most`."""
    size = 10.0 ** math.floor(math.log10(most))
    step = next(size * k for k in (0.1, 0.2, 0.25, 0.5, 1) if most / (size * k) <= 6)
    return [step * i for i in range(int(most / step + 1e-9) + 1)]


def _svg(width: float, height: float, parts: Iterable[str], title: str) -> str:
    name = escape(title, quote=True)
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:g}" rx="2"/>'


def short(value: float) -> str:
    """A number with no more digits than a reader wants."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 0 if abs(value) >= 1000 or value == round(value) else max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def signed(value: float) -> str:
    """A difference, with its sign."""
    return "0" if value == 0 else ("+" if value > 0 else "−") + short(abs(value))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
