"""Pictures of an audit: outputs with the event shaded, likelihood ratios beside e^ε, the bound beside the claim."""

from math import exp, inf, isfinite
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.audit.outputs import Floats, Outputs
from discreet.exact import float_up
from discreet.report import Bars, Chart, Line, Points

if TYPE_CHECKING:
    from discreet.attacks.audit.finding import Finding, Tested

_BINS = 60
_TITLE = 60  # letters of an event in a title
_NAMED = 12  # outputs that get a bar each
_SEEN = 10  # draws of either side that a plotted ratio rests on


def charts(found: "Finding") -> tuple[Chart, ...]:
    """The charts of a finding; only the last one where nothing tells the sides apart."""
    if not found.tested:
        return (_beside(found),)
    best = found.tested[0]
    few = len(np.unique(np.concatenate([side.whole for side in found.sides]))) <= _NAMED
    return (*(_named(found, best) if few else _spread(found, best)), _beside(found))


def _beside(found: "Finding") -> Chart:
    """The lower bound beside the claim."""
    proven = min(found.epsilon, 50.0)
    names, values = ["ε is at least"], [proven]
    if found.claimed is not None:
        names, values = ["claimed ε", *names], [float_up(found.claimed), *values]
    return Chart(f"{found.name}: claimed and proven", [Bars(names, values)], y="ε")


def _named(found: "Finding", best: "Tested") -> tuple[Chart, ...]:
    """A bar for each output; those of the event are marked."""
    codes = np.unique(np.concatenate([side.whole for side in found.sides]))
    shares = [_shares(side, codes) for side in found.sides]
    inside = {int(code) for side in found.sides for code in np.unique(side.whole[_inside(best, side)])}
    shown = {code: text for side in found.sides for code, text in side.shown.items()}
    texts = [shown.get(int(code), "…") for code in codes]
    order = sorted(range(len(codes)), key=lambda at: _natural(texts[at]))
    labels = [f"{texts[at][:24]}{' ★' if int(codes[at]) in inside else ''}" for at in order]
    sides = [Bars(labels, share[order], name) for share, name in zip(shares, ("x", "neighbor"), strict=True)]
    return (Chart(f"{found.name}: outputs (★ {best.words[:_TITLE]})", sides, y="share of outputs"),)


def _natural(text: str) -> tuple[float, str]:
    """Numbers by their size, other outputs by their text."""
    try:
        return float(text), ""
    except ValueError:
        return inf, text


def _shares(side: Outputs, codes: NDArray[np.int64]) -> Floats:
    return np.bincount(np.searchsorted(codes, side.whole), minlength=len(codes)) / len(side)


def _spread(found: "Finding", best: "Tested") -> tuple[Chart, ...]:
    """Histograms over the output (one number) or over the score of the event (anything else)."""
    alone = found.sides[0].width == 1 and np.isfinite(found.sides[0].numbers).any()
    values = [side.numbers[:, 0] if alone else best.event.score.of(side) for side in found.sides]
    edges = _edges(np.concatenate(values))
    if not alone and len(np.unique(np.concatenate(values))) <= 2:
        return (_inside_or_not(found, best),)
    if len(edges) < 3:
        return ()
    centers = (edges[1:] + edges[:-1]) / 2
    counts = [np.histogram(side, edges)[0] for side in values]
    inside = sum(np.histogram(v[_inside(best, s)], edges)[0] for v, s in zip(values, found.sides, strict=True))
    share = inside / np.maximum(counts[0] + counts[1], 1)
    axis = "output" if alone else best.event.score.words
    sizes = [count / len(side) for count, side in zip(counts, found.sides, strict=True)]
    top = float(np.max(sizes))
    shade = Line(
        centers, np.zeros(len(centers)), "the event", low=np.zeros(len(centers)), high=top * share, dashed=True
    )
    lines = [Line(centers, size, name) for size, name in zip(sizes, ("x", "neighbor"), strict=True)]
    title = f"{found.name}: outputs; shaded: {best.words[:_TITLE]}"
    outputs = Chart(title, [shade, *lines], x=axis, y="share of outputs")
    return (outputs, *_ratios(found, centers, counts, axis))


def _inside_or_not(found: "Finding", best: "Tested") -> Chart:
    """How often the event comes about on either side, where outputs lie on no line."""
    names = ("x", "neighbor")
    bars = [Bars([best.words[:_TITLE], "not so"], [p, 1 - p], name) for p, name in zip(best.shares, names, strict=True)]
    return Chart(f"{found.name}: what tells the sides apart", bars, y="share of outputs", y_range=(0, 1))


def _ratios(found: "Finding", centers: Floats, counts: list[NDArray[np.int64]], axis: str) -> tuple[Chart, ...]:
    """The likelihood ratio in each bin, beside e^ε and e^−ε of the claim."""
    seen = (counts[0] >= _SEEN) & (counts[1] >= _SEEN)
    if not seen.any():
        return ()
    ratio = counts[0][seen] / len(found.sides[0]) / (counts[1][seen] / len(found.sides[1]))
    error = np.exp(2 * np.sqrt(1 / counts[0][seen] + 1 / counts[1][seen]))
    marks: list[Line | Points] = [Points(centers[seen], ratio, "seen", low=ratio / error, high=ratio * error)]
    if found.claimed is not None and isfinite(claim := float_up(found.claimed)) and claim < 300:
        ends = [float(centers[0]), float(centers[-1])]
        marks += [Line(ends, [exp(claim)] * 2, "e^ε claimed", dashed=True), Line(ends, [exp(-claim)] * 2, dashed=True)]
    return (
        Chart(f"{found.name}: likelihood ratio", marks, x=axis, y="p(output | x) / p(output | neighbor)", log_y=True),
    )


def _edges(values: Floats) -> Floats:
    fine = values[np.isfinite(values)]
    if not len(fine):
        return np.empty(0)
    low, high = np.quantile(fine, [0.002, 0.998])
    if not low < high:
        return np.empty(0)
    whole = bool((fine == np.rint(fine)).all()) and high - low < _BINS
    return np.arange(np.floor(low) - 0.5, high + 1) if whole else np.linspace(low, high, _BINS + 1)


def _inside(best: "Tested", side: Outputs) -> NDArray[np.bool_]:
    holds = best.event.holds(side)
    return ~holds if best.outside else holds
