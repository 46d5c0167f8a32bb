"""The demo's report: one HTML page that needs nothing else, its pictures inside.

`page(story)` is a pure function of what happened. Every text that goes in is escaped. The page shows the truth beside
the released values, so it is for the owner's eyes; a real one would not leave the house.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape

from pictures import answer_picture, averaging_picture, budget_picture, guesses_picture
from story import Asked, Averaging, Differencing, Refused, Story

# The page


def page(story: Story) -> str:
    """The whole report."""
    sections = (
        ("data", "The data and the policy", _data(story)),
        ("questions", "Questions, with error bars beside the truth", _questions(story)),
        ("budget", "How the budget went down, and the refusal", _budget(story)),
        ("averaging", "First attack: ask again and again", _averaging(story.averaging)),
        ("differencing", "Second attack: everybody, and everybody but one", _differencing(story.differencing)),
        ("statement", "The privacy statement", f'<div class="paper">{markdown(story.statement)}</div>'),
        ("further", "How to go on", markdown(story.further)),
    )
    contents = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in sections)
    body = "".join(f'<section id="{name}"><h2>{escape(title)}</h2>{html}</section>' for name, title, html in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>discreet: the hospital demo</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body><main>'
        f"<h1>A hospital answers questions</h1>{_summary(story)}<nav><ol>{contents}</ol></nav>{body}"
        f"<footer>Made in {story.seconds:.0f} seconds by <code>examples/hospital/demo.py</code>.</footer>"
        "</main></body></html>\n"
    )


def _summary(story: Story) -> str:
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
    boxes = "".join(f"<div><strong>{escape(big)}</strong><span>{escape(small)}</span></div>" for big, small in tiles)
    return (
        f'<div class="tiles">{boxes}</div><p class="owner">Owner\'s eyes only: this page shows the truth beside each '
        "released value, to show what the noise does. The data are made up; a page like this about real people would "
        "release what the curator protects. Analysts see only what is marked <em>released</em>.</p>"
    )


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
        "<p>Bars are what analysts see. To the right of each, the distance from the released value (dot) and its 95 % "
        "interval to the truth (the line at 0). A diamond marks the truth after bounding, where each patient's part "
        "was bounded and that is known: noise is added to this, and intervals speak of noise. Red: the interval does "
        "not hold it.</p>" + "".join(map(_asked, story.asked)) + "<p>Before paying, an analyst can see what a question "
        f"would cost and how sure its answer would be, for free. The sixth question, explained:</p>"
        f"<pre>{escape(story.plan)}</pre>"
    )


def _asked(asked: Asked) -> str:
    paid = "free: the answer was kept" if asked.free else f"ε {asked.epsilon:.4g}"
    paid += f", δ {asked.delta:.2g}" if asked.delta and not asked.free else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in asked.notes)
    detail = table(asked.header, asked.rows)
    if len(asked.rows) > 3:
        detail = f"<details><summary>{len(asked.rows)} rows</summary>{detail}</details>"
    return (
        f"<article><h3>{escape(asked.title)}</h3><p>{escape(asked.remark)}</p><pre>{escape(asked.sql)}</pre>"
        f'<p class="paid">{escape(asked.analyst)} asks with {escape(asked.asks)} · paid {escape(paid)} · '
        f"{asked.remaining:.4g} left · {asked.seconds * 1000:.0f} ms</p>"
        + (answer_picture(asked.points, asked.measure) if asked.points else "")
        + detail
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
        + "</article>"
    )


def _refused(refused: Refused) -> str:
    return (
        f'<article class="refused"><pre>{escape(refused.sql)}</pre><p class="paid">{escape(refused.analyst)} asks with '
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
        f"{story.epsilon:g}; each answer took its part, and an answer that was kept took nothing.</p>"
        + budget_picture(story.epsilon, everything)
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
        "paid for once and kept; after that it is free, and teaches nothing.</li>"
        f"<li><strong>Rephrased each time:</strong> {len(attack.answers)} answers ({escape(answers)}), each of them "
        f"charged: {attack.estimate:.1f} ± {attack.margin:.1f}. Then: <em>{escape(attack.refusal)}</em></li>"
        f"<li><strong>Against a system that adds the same noise but keeps no ledger:</strong> {attack.furthest:,} "
        f"answers, {attack.careless:.2f} ± {attack.careless_margin:.2f}. The person is found out.</li></ul>"
        + averaging_picture(attack)
    )


def _differencing(attack: Differencing) -> str:
    sqls = "".join(f"<pre>{escape(sql)}</pre>" for sql in attack.sqls)
    rows = [
        (one.name, f"{one.right} of {one.trials}", f"{one.share:.1%}", "{:.1%} to {:.1%}".format(*one.interval()))
        for one in attack.guesses
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
        + guesses_picture(attack)
        + table(("way", "right", "share", "95 % interval"), rows)
        + f"<p>And with the person's number instead of age and region:</p><pre>{escape(asked)}</pre>"
        + f"<p>{escape(outcome)}</p>"
    )


# Texts


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns whose cells look like numbers stand to the right."""
    body = [list(row) for row in rows]
    number = [all(re.match(r"^[−+\d.,% –to\[\]e-]*$", row[i]) for row in body) for i in range(len(header))]
    cell = lambda tag, i, text: f"<{tag}{' class=n' if number[i] else ''}>{escape(text)}</{tag}>"  # noqa: E731
    head = "".join(cell("th", i, text) for i, text in enumerate(header))
    lines = "".join("<tr>" + "".join(cell("td", i, text) for i, text in enumerate(row)) + "</tr>" for row in body)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


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


STYLE = """
:root{--ink:#1d2430;--soft:#5b6675;--line:#d9dee6;--paper:#fff;--wash:#f4f6f9;--blue:#2f6fb3;--pale:#a9c8e8;
--red:#b8432f;--gold:#c98a1b}
@media (prefers-color-scheme:dark){:root{--ink:#e4e8ee;--soft:#9aa5b4;--line:#343c48;--paper:#161a20;--wash:#1e242c;
--blue:#6ba6e6;--pale:#2c5580;--red:#e8806c;--gold:#e0ad4e}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,"Segoe UI","Liberation Sans",sans-serif}
main{max-width:920px;margin:0 auto;padding:32px 20px 80px}
h1{font-size:2rem;margin:0 0 16px}h3{margin:0 0 4px;font-size:1.08rem}h4,h5,h6{margin:18px 0 4px}
h2{margin:56px 0 12px;padding-top:12px;border-top:2px solid var(--ink);font-size:1.4rem}
p{margin:6px 0 10px}a{color:var(--blue)}nav ol{padding-left:20px;color:var(--soft)}
pre{background:var(--wash);padding:10px 12px;border-radius:6px;overflow-x:auto;font-size:13px;line-height:1.45;
white-space:pre-wrap;margin:8px 0}
code{background:var(--wash);padding:1px 4px;border-radius:4px;font-size:.9em}
article{margin:22px 0;padding:16px 18px;border:1px solid var(--line);border-radius:8px}
article.refused{border-left:5px solid var(--red)}.paid{color:var(--soft);font-size:.9rem}
.owner{border-left:5px solid var(--gold);background:var(--wash);padding:10px 14px;border-radius:4px}
.notes{color:var(--soft);font-size:.9rem;padding-left:20px}
.paper{border:1px solid var(--line);border-radius:8px;padding:8px 22px 14px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:12px;margin:18px 0}
.tiles div{background:var(--wash);border-radius:8px;padding:14px 16px}.tiles strong{display:block;font-size:1.5rem}
.tiles span{color:var(--soft);font-size:.88rem;line-height:1.35;display:block}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.88rem;margin:8px 0}
td,th{padding:4px 14px 4px 0;border-bottom:1px solid var(--line);text-align:left;font-variant-numeric:tabular-nums;
vertical-align:top}
th{color:var(--soft);font-weight:600}td.n,th.n{text-align:right}
summary{cursor:pointer;color:var(--blue);font-size:.9rem}
svg{width:100%;height:auto;display:block;margin:10px 0;font:12px system-ui,"Liberation Sans",sans-serif}
svg text{fill:var(--ink)}svg .head,svg .tick{fill:var(--soft)}svg .tick{font-size:11px}
svg .bar{fill:var(--pale)}svg .bad{fill:var(--red);opacity:.55}svg .inside{font-weight:600}
svg .grid{stroke:var(--line)}svg .zero{stroke:var(--ink)}svg .bound{stroke:var(--red);stroke-dasharray:5 4}
svg line.hit{stroke:var(--blue);stroke-width:1.6}svg circle.hit{fill:var(--blue)}
svg line.miss{stroke:var(--red);stroke-width:1.6}svg circle.miss{fill:var(--red)}
svg text.miss{fill:var(--red);font-weight:600}svg .free{fill:var(--paper);stroke:var(--blue);stroke-width:1.8}
svg .steps{fill:none;stroke:var(--blue);stroke-width:2.5}svg .weak{stroke:var(--red);stroke-width:2;opacity:.75}
svg .cross{stroke:var(--red);stroke-width:2.2}
svg .bounded{fill:none;stroke:var(--gold);stroke-width:1.8}
footer{margin-top:60px;color:var(--soft);font-size:.85rem}
"""
