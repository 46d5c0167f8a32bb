"""The demo's report: one HTML page that needs nothing else, its pictures inside.

`page(story)` is a pure function of what happened. Every text that goes in is escaped. The page shows the truth beside
the released values, so it is for the owner's eyes; a real one would not leave the house.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape

from pictures import answer_charts, averaging_chart, budget_chart, guesses_chart
from story import Asked, Averaging, Differencing, Refused, Story

from discreet.report import Grid, Heading, Html, Page, Tiles
from discreet.report.page import render

# The page


def page(story: Story) -> str:
    """The whole report."""
    sections = (
        ("The data and the policy", _data(story)),
        ("Questions, with error bars beside the truth", _questions(story)),
        ("How the budget went down, and the refusal", _budget(story)),
        ("First attack: ask again and again", _averaging(story.averaging)),
        ("Second attack: everybody, and everybody but one", _differencing(story.differencing)),
        ("The privacy statement", f'<div class="paper">{markdown(story.statement)}</div>'),
        ("How to go on", markdown(story.further)),
    )
    made = f'<p class="soft">Made in {story.seconds:.0f} seconds by <code>examples/hospital/demo.py</code>.</p>'
    parts = [part for title, html in sections for part in (Heading(title), Html(html))]
    return Page("A hospital answers questions", [*_summary(story), *parts, Html(made)]).html()


def _summary(story: Story) -> list[Tiles | Html]:
    everything = (*story.asked, *story.until_empty)
    tiles = (
        (f"{max(rows for *_, rows in story.tables):,}", "visits, none of them real"),
        (f"{len(everything)}", f"questions answered, {sum(asked.free for asked in everything)} of them free"),
        (f"{story.spent:.3g} of {story.epsilon:g}", "ε spent; then refused"),
        (
            f"{story.differencing.guesses[1].share:.0%}",
            "right guesses about one person by differencing; a coin has 50%",
        ),
    )
    note = (
        '<p class="note">For the owner only: this page shows the truth beside each released value, so that you can see '
        "what the noise does. The data are made up. A page like this about real people would give away what the "
        "curator protects. Analysts see only what is marked <em>released</em>.</p>"
    )
    return [Tiles(tiles), Html(note)]


def _data(story: Story) -> str:
    rows = [(name, kind, f"{count:,}") for name, kind, count in story.tables]
    return (
        table(("table", "", "rows"), rows)
        + "<p>The owner wrote a policy, and nothing in it was read off the rows. In words:</p>"
        + f"<pre>{escape(story.words)}</pre>"
        + f"<details><summary>policy.toml</summary><pre>{escape(story.policy)}</pre></details>"
    )


def _questions(story: Story) -> str:
    return (
        "<p>Bars show what analysts see. Beside them: how far each released value (dot) and its 95 % interval are from "
        "the truth (0). Where each patient's contribution was bounded, noise is added to the bounded value, and the "
        "interval is about the noise: a third color marks that value.</p>"
        + "".join(map(_asked, story.asked))
        + "<p>Before paying, an analyst can see what a question "
        f"would cost and how sure its answer would be, for free. The sixth question, explained:</p>"
        f"<pre>{escape(story.plan)}</pre>"
    )


def _asked(asked: Asked) -> str:
    paid = "free: the answer was cached" if asked.free else f"ε {asked.epsilon:.4g}"
    paid += f", δ {asked.delta:.2g}" if asked.delta and not asked.free else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in asked.notes)
    detail = table(asked.header, asked.rows)
    if len(asked.rows) > 3:
        detail = f"<details><summary>{len(asked.rows)} rows</summary>{detail}</details>"
    return (
        f"<article><h3>{escape(asked.title)}</h3><p>{escape(asked.remark)}</p><pre>{escape(asked.sql)}</pre>"
        f'<p class="soft">{escape(asked.analyst)} asks with {escape(asked.asks)} · paid {escape(paid)} · '
        f"{asked.remaining:.4g} left · {asked.seconds * 1000:.0f} ms</p>"
        + (render(answer_charts(asked.points, asked.measure)) if asked.points else "")
        + detail
        + (f'<ul class="soft">{notes}</ul>' if notes else "")
        + "</article>"
    )


def _refused(refused: Refused) -> str:
    return (
        f'<article class="refused"><pre>{escape(refused.sql)}</pre><p class="soft">{escape(refused.analyst)} asks with '
        f"{escape(refused.asks)}</p><p><strong>Refused.</strong></p><pre>{escape(refused.message)}</pre></article>"
    )


def _budget(story: Story) -> str:
    everything = (*story.asked, *story.until_empty)
    rows = [
        (
            str(i + 1),
            asked.title,
            asked.analyst,
            "free" if asked.free else f"{asked.epsilon:.4g}",
            f"{asked.remaining:.4g}",
        )
        for i, asked in enumerate(everything)
    ]
    return (
        f"<p>The budget belongs to the data, not to an analyst, for analysts may tell each other. It began at ε "
        f"{story.epsilon:g}; each answer took its part, and an answer from the cache took nothing.</p>"
        + render([budget_chart(story.epsilon, everything)])
        + f"<details><summary>{len(rows)} questions</summary>"
        + table(("", "question", "analyst", "ε", "left"), rows)
        + "</details>"
        + "".join(map(_refused, story.refused))
    )


def _averaging(attack: Averaging) -> str:
    answers = ", ".join(f"{answer:,.4g}" for answer in attack.answers)
    return (
        f"<p>Noise averages out, if one may ask often enough. The table holds the people treated for one illness, and "
        f"the attacker knows all of them but one: the count is {attack.truth - 1:g} or {attack.truth:g}, and a mean "
        f"that is certain within ½ tells which.</p><pre>{escape(attack.sql)}</pre><ul>"
        f"<li><strong>The same question, {attack.repeats:,} times:</strong> "
        f"{'always the same answer' if attack.different == 1 else f'{attack.different} different answers'}. It was "
        "paid for once and cached; after that it is free, and teaches nothing.</li>"
        f"<li><strong>Rephrased each time:</strong> {len(attack.answers)} answers ({escape(answers)}), each of them "
        f"charged: {attack.estimate:.1f} ± {attack.margin:.1f}. Then: <em>{escape(attack.refusal)}</em></li>"
        f"<li><strong>Against a system that adds the same noise but keeps no ledger:</strong> {attack.furthest:,} "
        f"answers, {attack.careless:.2f} ± {attack.careless_margin:.2f}. The person is found out.</li></ul>"
        + render([averaging_chart(attack)])
    )


def _differencing(attack: Differencing) -> str:
    sqls = "".join(f"<pre>{escape(sql)}</pre>" for sql in attack.sqls)
    rows = [
        (
            guess.name,
            f"{guess.right} of {guess.trials}",
            f"{guess.share:.1%}",
            "{:.1%} to {:.1%}".format(*guess.interval()),
        )
        for guess in attack.guesses
    ]
    asked, outcome = attack.by_number
    scatter = 1.96 * (attack.bound * (1 - attack.bound) / attack.guesses[2].trials) ** 0.5
    return (
        "<p>The attacker knows one person well enough to single them out, and wants to know whether they are in the "
        "table at all. In each trial a coin decides that, and a new curator with a budget of ε "
        f"{attack.epsilon:g} in all guards the table. The attacker subtracts:</p>{sqls}<p>or spends everything on the "
        f"one person:</p><pre>{escape(attack.direct)}</pre><p>Whatever is asked, nobody guesses right with a chance of "
        f"more than e^ε/(1+e^ε) = {attack.bound:.1%}; a coin has 50%. The direct question has just that chance, so "
        f"its share is now above, now below: {attack.guesses[2].trials} trials scatter by ±{scatter:.0%}. Against "
        f"exact answers, {attack.guesses[0].share:.0%} of the guesses were right.</p>"
        + render([guesses_chart(attack)])
        + table(("way", "right", "share", "95 % interval"), rows)
        + f"<p>And with the person's number instead of age and region:</p><pre>{escape(asked)}</pre>"
        + f"<p>{escape(outcome)}</p>"
    )


# Texts


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns whose cells look like numbers stand to the right."""
    return render([Grid(header, list(rows))])


def markdown(text: str) -> str:
    """As much of Markdown as a privacy statement uses: headings, lists, tables, code, bold, paragraphs."""
    blocks, html = re.split(r"\n\s*\n(?=\S|    )", text.strip("\n")), []
    for block in blocks:
        lines = block.strip("\n").splitlines()
        if found := re.match(r"(#+)\s+(.*)", lines[0]):
            html.append(f"<h{min(len(found[1]) + 2, 6)}>{_inline(found[2])}</h{min(len(found[1]) + 2, 6)}>")
            lines = lines[1:]
        if not lines:
            continue
        if lines[0].startswith("```"):
            html.append(f"<pre>{escape(chr(10).join(line for line in lines if not line.startswith('```')))}</pre>")
        elif all(line.startswith("    ") for line in lines):
            html.append(f"<pre>{escape(chr(10).join(line[4:] for line in lines))}</pre>")
        elif all(line.lstrip().startswith("|") for line in lines):
            cells = [[cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")] for line in lines]
            html.append(table(cells[0], [row for row in cells[1:] if not set("".join(row)) <= set("-: ")]))
        elif re.match(r"[-*] ", lines[0]):
            items = re.split(r"\n(?=[-*] )", "\n".join(lines))
            html.append("<ul>" + "".join(f"<li>{_inline(item[2:])}</li>" for item in items) + "</ul>")
        else:
            html.append(f"<p>{_inline(' '.join(lines))}</p>")
    return "".join(html)


def _inline(text: str) -> str:
    safe = re.sub(r"(?<!\\)\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text))
    safe = re.sub(r"(?<!\\)`([^`]+)`", r"<code>\1</code>", safe)
    return re.sub(r"\\([\\`*_{}\[\]()#+\-.!|~])", r"\1", safe)
