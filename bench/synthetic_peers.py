"""MST and AIM on mbi, for `bench.synthetic`, which says after what they were written."""

import math
from importlib import import_module
from itertools import combinations
from typing import Any

from bench.harness import Timed
from bench.synthetic_tables import DELTA, counts, judged


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
        return counts(self.codes, self.sizes, which)

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
    return judged(table, rows, make)


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


def aim(table: str, epsilon: int, rows: int, most_mb: float, iterations: int) -> Timed:
    """AIM with all pairs as the workload and the authors' 16 rounds a column to begin with."""

    def make(codes: Any, sizes: tuple[int, ...]) -> Any:
        work, rho = _Mbi(codes, sizes), _rho(epsilon)
        return work.rows(_aim(work, rho, most_mb, 16 * len(sizes), iterations))

    _quiet_mbi()
    return judged(table, rows, make)


def _aim(work: _Mbi, rho: float, most_mb: float, rounds: int, iterations: int) -> Any:
    """Single columns first, then rounds: choose the pair modeled worst, measure it, fit, halve σ if little moved."""
    import numpy as np

    d = len(work.sizes)
    exact = {each: work.counts(each) for order in (1, 2) for each in combinations(range(d), order)}
    sigma, epsilon = math.sqrt(rounds / (1.8 * rho)), math.sqrt(0.8 * rho / rounds)
    known = [work.noisy((one,), sigma) for one in range(d)]
    model, used, last = _Relaxation(work, known, iterations), d * 0.5 / sigma**2, False
    while not last:
        left = rho - used
        if left < 2 * (0.5 / sigma**2 + epsilon**2 / 8):
            last, sigma, epsilon = True, math.sqrt(1 / (1.8 * left)), math.sqrt(0.8 * left)
        used += 0.5 / sigma**2 + epsilon**2 / 8
        modeled = model.pairs()
        fits = _fitting(work, model.logs, exact, most_mb * used / rho)
        chosen = _worst(work, {each: (exact[each], modeled[each]) for each in fits}, sigma, epsilon)
        known = _with(known, work.noisy(chosen, sigma))
        model = _Relaxation(work, known, iterations, model.logs)
        moved = np.abs(model.marginal(chosen) - modeled[chosen]).sum()
        if moved <= math.sqrt(2 / math.pi) * sigma * exact[chosen].size:
            sigma, epsilon = sigma / 2, epsilon * 2
    return work.fitted(known, 1000, model.potentials())


def _worst(work: _Mbi, tables: dict[tuple[int, ...], Any], sigma: float, epsilon: float) -> tuple[int, ...]:
    """The exponential mechanism over how far the model is off, less the noise to come, × overlap with the workload."""
    import numpy as np

    others = len(work.sizes) - 1
    weights = {each: others if len(each) == 1 else 2 * others for each in tables}
    scores = [
        weights[each] * (float(np.abs(exact - guess).sum()) - math.sqrt(2 / math.pi) * sigma * exact.size)
        for each, (exact, guess) in tables.items()
    ]
    return list(tables)[work.picked(scores, epsilon, max(weights.values()))]


def _with(known: list[Any], fresh: Any) -> list[Any]:
    """One more measurement; a marginal measured before becomes the mean weighted by precision: the same likelihood."""
    same = [one for one in known if one.clique == fresh.clique]
    if not same:
        return [*known, fresh]
    old, new = same[0].stddev ** -2, fresh.stddev**-2
    mean = (old * same[0].noisy_measurement + new * fresh.noisy_measurement) / (old + new)
    merged = type(fresh)(mean, fresh.clique, stddev=(old + new) ** -0.5)
    return [merged if one is same[0] else one for one in known]


def _fitting(work: _Mbi, held: Any, candidates: Any, most_mb: float) -> list[tuple[int, ...]]:
    """Candidates with which the junction tree stays within a size, or that are part of what was measured."""
    cliques = [_names(each) for each in held]
    size = work.mbi.junction_tree.hypothetical_model_size
    return [
        each
        for each in candidates
        if any(set(each) <= set(one) for one in held) or size(work.domain, [*cliques, _names(each)]) <= most_mb
    ]


def _names(columns: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, columns))


def _numbers(clique: Any) -> tuple[int, ...]:
    return tuple(map(int, clique))


class _Relaxation:
    """AIM's model between its rounds: the mirror descent of mbi (McKenna, Sheldon, Miklau 2019, Algorithm 1) in NumPy.

    Every table has all columns as axes, of length 1 where it lacks the column. `logs` are the potentials of what was
    measured, `shares` the probabilities in the cliques of mbi's junction tree.
    """

    def __init__(self, work: _Mbi, known: list[Any], iterations: int, start: Any = None) -> None:
        self.work, self.d = work, len(work.sizes)
        self.targets = {_numbers(one.clique): (self.wide(one), one.stddev**-2) for one in known}
        junction = work.mbi.junction_tree
        tree = junction.make_junction_tree(work.domain, [one.clique for one in known])[0]
        self.near = {_numbers(node): [_numbers(one) for one in tree.neighbors(node)] for node in tree}
        self.order = [(_numbers(a), _numbers(b)) for a, b in junction.message_passing_order(tree)]
        self.home = {each: next(node for node in self.near if set(each) <= set(node)) for each in self.targets}
        weights = [one.stddev**-2 / one.noisy_measurement.size for one in known]
        totals = [weight * float(one.noisy_measurement.sum()) for weight, one in zip(weights, known, strict=True)]
        self.people = max(sum(totals) / sum(weights), 1.0)
        self.logs = {each: 0.0 * goal for each, (goal, _) in self.targets.items()} | (start or {})
        self._descend(iterations)

    def wide(self, measured: Any) -> Any:
        columns = _numbers(measured.clique)
        return measured.noisy_measurement.reshape([s if i in columns else 1 for i, s in enumerate(self.work.sizes)])

    def _descend(self, iterations: int) -> None:
        """Steps with momentum (Nesterov); one that raises the loss is taken back, and the momentum starts anew."""
        step, speed = 2 / (self._curvature() * self.people), 0
        self.shares, last = self._calibrated(self.logs), self.logs
        loss, slopes = self._loss()
        for _ in range(iterations):
            stepped = {each: log - step * slopes[each] for each, log in self.logs.items()}
            speed += 1
            ahead = {each: log + speed / (speed + 3) * (log - last[each]) for each, log in stepped.items()}
            before, self.shares = self.shares, self._calibrated(ahead)
            fresh = self._loss()
            if fresh[0] <= loss:
                last, self.logs, (loss, slopes), step = stepped, ahead, fresh, 1.1 * step
            else:
                last, self.shares, step, speed = self.logs, before, 0.5 * step, 0

    def _curvature(self) -> float:
        """mbi's bound on the curvature: the precisions within a largest clique, times the cells summed over."""
        cells = {each: goal.size for each, (goal, _) in self.targets.items()}
        largest = [each for each in cells if not any(set(each) < set(other) for other in cells)]
        return max(
            math.fsum(self.targets[each][1] * cells[one] / cells[each] for each in cells if set(each) <= set(one))
            for one in largest
        )

    def _loss(self) -> tuple[float, dict[Any, Any]]:
        """Half the squared misfit in units of the noise, and its slopes by the marginals measured."""
        gaps = {
            each: self.people * self.kept(self.shares[self.home[each]], *each) - goal
            for each, (goal, _) in self.targets.items()
        }
        slopes = {each: self.targets[each][1] * gap for each, gap in gaps.items()}
        return 0.5 * sum(float((slopes[each] * gap).sum()) for each, gap in gaps.items()), slopes

    def _calibrated(self, logs: dict[Any, Any]) -> dict[Any, Any]:
        """Probabilities in every clique, by messages to and fro."""
        import numpy as np

        beliefs: dict[Any, Any] = dict.fromkeys(self.near, 0.0)
        for each, log in logs.items():
            beliefs[self.home[each]] = beliefs[self.home[each]] + log
        sent: dict[Any, Any] = {}
        for a, b in self.order:
            belief = beliefs[a] - sent[b, a] if (b, a) in sent else beliefs[a]
            peak, away = belief.max(), tuple(one for one in a if one not in b)
            sent[a, b] = np.log(np.exp(belief - peak).sum(axis=away, keepdims=True) + 1e-300) + peak
            beliefs[b] = beliefs[b] + sent[a, b]
        found = {node: np.exp(belief - belief.max()) for node, belief in beliefs.items()}
        return {node: table / table.sum() for node, table in found.items()}

    def kept(self, table: Any, *columns: int) -> Any:
        return table.sum(axis=tuple(one for one in range(self.d) if one not in columns), keepdims=True)

    def marginal(self, columns: tuple[int, ...]) -> Any:
        return self.people * self.kept(self.shares[self.home[columns]], *columns).ravel()

    def pairs(self) -> dict[tuple[int, ...], Any]:
        """All columns and pairs. From a clique with a column we walk the tree: P(column, clique) = Σ P(column,
        separator) P(clique | separator). (mbi's `project` compiles a program a pair: 85 CPU s a round on Adult.)"""
        import numpy as np

        sizes = self.work.sizes
        home = {one: next(node for node in self.near if one in node) for one in range(self.d)}
        single = {one: self.kept(self.shares[home[one]], one) for one in range(self.d)}
        found = {(a, b): single[a] * single[b] for a, b in combinations(range(self.d), 2)}  # of unconnected columns
        for one in range(self.d):
            todo: list[Any] = [(home[one], None, self.shares[home[one]])]
            while todo:
                node, parent, joint = todo.pop()
                for other in node:
                    if (sizes[other], other) > (sizes[one], one):
                        found[min(one, other), max(one, other)] = self.kept(joint, one, other)
                for child in self.near[node]:
                    if child != parent:
                        both, table = set(node) & set(child), self.shares[child]
                        if one not in child:
                            table = table * self.kept(joint, one, *both) / np.maximum(self.kept(table, *both), 1e-300)
                        todo.append((child, node, table))
        tables = {(one,): table for one, table in single.items()} | found
        return {each: self.people * table.ravel() for each, table in tables.items()}

    def potentials(self) -> Any:
        """The same model for mbi to start from."""
        mbi, domain = self.work.mbi, self.work.domain
        tables = {
            _names(each): mbi.Factor(domain.project(_names(each)), log.reshape([self.work.sizes[one] for one in each]))
            for each, log in self.logs.items()
        }
        return mbi.CliqueVector(domain, list(tables), tables)
