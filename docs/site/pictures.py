"""`python docs/site/pictures.py`: draw the pictures of the site. The tests draw them again and compare."""

import re
from collections.abc import Iterator
from html import escape
from math import exp
from pathlib import Path

HERE = Path(__file__).parent
INK, SOFT, PAPER, LINE = "#1c2433", "#5b6472", "#ffffff", "#d5dae3"
BLUE, GOLD, RED, GREEN = "#2b6cb0", "#b7791f", "#b8432f", "#4f8a3c"
ROW = re.compile(r"^(\w+) +(-?\d+) ± (\d+) +([\d.]+) (?:± ([\d.]+)|\[([\d.]+), ([\d.]+)\])$", re.MULTILINE)


def drawing(width: int, height: int, title: str, *shapes: str) -> str:
    """A picture that needs nothing else, readable on light and on dark pages."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="14">\n<title>{escape(title)}</title>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}" stroke="{LINE}"/>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def words(x: float, y: float, text: str, *, color: str = INK, anchor: str = "start", bold: bool = False) -> str:
    """A line of text."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}"{weight}>{escape(text)}</text>'


def box(x: float, y: float, width: float, height: float, color: str, *, opacity: float = 1, round_: float = 3) -> str:
    """A filled rectangle."""
    size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {size} rx="{round_:g}" fill="{color}" opacity="{opacity:g}"/>'


def stroke(path: str, color: str = INK, *, width: float = 2, dashed: bool = False) -> str:
    """A line along a path."""
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{width:g}"{dashes}/>'


def arrow(x: float, y: float, to: float, text: str, color: str = SOFT) -> str:
    """An arrow to the right, with words above it."""
    head = f"M{x:g} {y:g}H{to:g}M{to - 7:g} {y - 5:g}L{to:g} {y:g}L{to - 7:g} {y + 5:g}"
    return stroke(head, color) + words((x + to) / 2, y - 8, text, color=color, anchor="middle")


def place(x: float, y: float, width: float, first: str, second: str, color: str = BLUE) -> str:
    """A box with a name and what it holds."""
    middle = x + width / 2
    return (
        box(x, y, width, 56, color, opacity=0.12, round_=8)
        + words(middle, y + 24, first, anchor="middle", bold=True)
        + words(middle, y + 44, second, color=SOFT, anchor="middle")
    )


# One function a picture


def answer() -> str:
    """The answer that the README prints: mean ages with their intervals, and what was spent."""
    readme = (HERE.parents[1] / "README.md").read_text(encoding="utf-8")
    spent, left = map(
        float, re.findall(r"^ε ([\d.]+) charged as #2 to people, ([\d.]+) left$", readme, re.MULTILINE)[0]
    )
    shapes = [words(20, 30, f"Mean age by city, 10,000 people, ε {spent:g}, 95 % intervals", bold=True)]

    def across(age: float) -> float:
        return 80 + (age - 48) * 130

    for i, (city, _, _, age, half, low, high) in enumerate(ROW.findall(readme)):
        y, at = 66 + 35 * i, float(age)
        ends = (at - float(half), at + float(half)) if half else (float(low), float(high))
        a, b = map(across, ends)
        shapes += [
            words(20, y + 5, city, color=SOFT),
            stroke(f"M80 {y}H480", LINE, width=1),
            stroke(f"M{a:.1f} {y}H{b:.1f}M{a:.1f} {y - 6}V{y + 6}M{b:.1f} {y - 6}V{y + 6}"),
            f'<circle cx="{across(at):.1f}" cy="{y}" r="6" fill="{BLUE}"/>',
            words(690, y + 5, f"{at:g} ({ends[0]:.2f} to {ends[1]:.2f})", anchor="end"),
        ]
    whole = spent + left
    shapes += [
        words(20, 182, "budget", color=SOFT),
        box(80, 170, 400, 14, LINE, round_=7),
        box(80, 170, 400 * spent / whole, 14, GOLD, round_=7),
        words(690, 182, f"ε {spent:g} of {whole:g} spent", anchor="end"),
    ]
    return drawing(720, 210, "Mean age by city with error bars, and a meter of the budget", *shapes)


def who_sees_what() -> str:
    """The trusted curator above, the local model below."""
    return drawing(
        760, 320, "Who sees what: with a curator, and in the local model",
        words(20, 30, "A trusted curator", bold=True),
        place(20, 50, 150, "people", "true rows"),
        arrow(180, 78, 290, "true rows", RED),
        place(300, 50, 170, "curator", "rows, ledger, noise"),
        arrow(480, 78, 600, "noisy answers", GREEN),
        place(610, 50, 130, "analyst", "no row, ever"),
        words(300, 134, "The owner sees everything: that is the trust.", color=SOFT),
        stroke("M20 160H740", LINE, width=1),
        words(20, 190, "The local model", bold=True),
        place(20, 210, 150, "each device", "truth, noise"),
        arrow(180, 238, 290, "noisy reports", GREEN),
        place(300, 210, 170, "collector", "noisy reports"),
        arrow(480, 238, 600, "estimates", GREEN),
        place(610, 210, 130, "analyst", "estimates"),
        words(300, 294, "Nobody is trusted; errors are larger by about √n.", color=SOFT),
    )  # fmt: skip


def bounding() -> str:
    """One person's rows in five groups, of which two groups and three rows in each count."""
    rows, kept = (5, 2, 4, 1, 3), {0: 3, 2: 3}
    shapes = [words(20, 30, "One person's rows, with at most 2 groups and the weight of 3 rows in each", bold=True)]
    for group, count in enumerate(rows):
        x = 40 + 136 * group
        shapes.append(words(x + 26, 232, f"group {group + 1}", color=SOFT, anchor="middle"))
        for row in range(count):
            counted = kept.get(group, 0)
            share = min(1.0, counted / count)
            shapes.append(box(x, 184 - 30 * row, 52, 24, LINE))
            if counted:
                shapes.append(box(x, 184 - 30 * row, 52 * share, 24, BLUE))
        label = f"counts {kept[group]}" if group in kept else "left out"
        shapes.append(words(x + 26, 252, label, color=BLUE if group in kept else RED, anchor="middle"))
    return drawing(740, 270, "What bounding keeps of one person", *shapes)


def composition() -> str:
    """A budget of ε 3 that questions use up, whoever asks; the same question again is free."""
    asked = (("ann", 1.0, "ages"), ("bob", 0.5, "cities"), ("ann", 0.0, "ages again"), ("cleo", 1.0, "costs"))
    shapes, spent = [words(20, 30, "A budget of ε 3: costs add up, whoever asks", bold=True)], 0.0
    for i, (who, cost, what) in enumerate(asked):
        y = 52 + 36 * i
        shapes.append(words(20, y + 17, f"{who}: {what}", color=SOFT))
        shapes.append(box(170, y, 330, 24, LINE, opacity=0.5))
        shapes.append(box(170, y, 110 * spent, 24, GOLD, opacity=0.35))
        shapes.append(box(170 + 110 * spent, y, 110 * cost, 24, GOLD))
        spent += cost
        shapes.append(words(580, y + 17, f"ε {cost:g}" if cost else "free"))
    y = 52 + 36 * len(asked)
    shapes += [
        words(20, y + 17, "dora: incomes", color=SOFT),
        box(170, y, 330, 24, LINE, opacity=0.5),
        box(170, y, 110 * spent, 24, GOLD, opacity=0.35),
        stroke(f"M{170 + 110 * spent:g} {y + 1}h110v22h-110z", RED, dashed=True),
        words(580, y + 17, "ε 1: refused", color=RED),
    ]
    return drawing(740, 250, "Composition: what questions leave of a budget", *shapes)


def epsilon() -> str:
    """How often a guess whether you are in the data can be right, by ε."""

    def at(e: float) -> tuple[float, float]:
        return 70 + 120 * e, 250 - 400 * (exp(e) / (1 + exp(e)) - 0.5)

    curve = "M" + "L".join("{:.1f} {:.1f}".format(*at(k / 20)) for k in range(101))
    return drawing(
        740, 300, "What epsilon means: the most right guesses of a hundred",
        words(20, 30, "Is she in the data? Right guesses of 100, at most", bold=True),
        stroke("M70 250H670M70 50V250", SOFT, width=1), stroke(curve, BLUE, width=3),
        *_marks(at), words(670, 290, "ε", anchor="end", color=SOFT),
        words(62, 255, "50", anchor="end", color=SOFT), words(62, 55, "100", anchor="end", color=SOFT),
    )  # fmt: skip


def _marks(at: object) -> Iterator[str]:
    for e in (0.1, 0.5, 1, 3, 5):
        x, y = at(e)  # type: ignore[operator]
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{GOLD}"/>'
        yield words(x, 268, f"{e:g}", anchor="middle", color=SOFT)
        yield words(x, y + 24 if e > 2 else y - 12, f"{100 * exp(e) / (1 + exp(e)):.0f}", anchor="middle", bold=True)


def unit() -> str:
    """The same five visits, protected by row and by person."""
    shapes = [words(20, 30, "The same visits, two promises", bold=True)]
    for side, (title, hidden) in enumerate((('unit = "row"', {1}), ('unit = "patient_id"', {1, 3, 4}))):
        x = 30 + 360 * side
        shapes.append(words(x, 60, title, color=BLUE, bold=True))
        for row, who in enumerate(("ann", "bob", "cleo", "bob", "bob")):
            y = 74 + 30 * row
            shapes.append(box(x, y, 220, 24, GOLD if row in hidden else LINE, opacity=0.8 if row in hidden else 0.6))
            shapes.append(words(x + 10, y + 17, f"{who}, visit {row + 1}"))
        told = "one visit is hidden, bob is not" if not side else "all that bob did is hidden"
        shapes.append(words(x, 250, told, color=RED if not side else GREEN))
    return drawing(740, 270, "Rows or people: what the unit protects", *shapes)


PICTURES = (answer, who_sees_what, bounding, composition, epsilon, unit)


def main() -> None:
    """Write them all."""
    for picture in PICTURES:
        (HERE / f"{picture.__name__}.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
