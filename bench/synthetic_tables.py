"""The tables of `bench.synthetic`, and how near a synthetic one is: in the Python of any contestant."""

import csv
import json
import math
import os
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

from bench.harness import ROOT, Timed

DATA = Path(os.environ.get("DISCREET_DATA") or ROOT.parent / "shared" / "data")
DELTA = "1e-9"
PAIRS, TRIPLES, AUC, CPU, PEAK = "pair TV", "triple TV", "AUC", "synthesis CPU s", "synthesis peak MB"
SCORE = "k-marginal"

_EDGES: dict[str, list[float]] = {
    "AGEP": list(range(5, 100, 5)),
    "PINCP": [1, 5e3, 1e4, 15e3, 2e4, 25e3, 3e4, 4e4, 5e4, 6e4, 75e3, 1e5, 15e4, 25e4],
    "POVPIP": [*range(50, 501, 50), 501],
    "DENSITY": [50, 150, 500, 1000, 1500, 2000, 2500, 3500, 5000, 1e4, 2e4],
    "NOC": [1, 2, 3, 4, 5, 6, 7],
    "NPF": [3, 4, 5, 6, 7, 8],
}
"""Public edges of bins; one more code is for "not applicable"."""


def table_of(name: str, rows: int) -> tuple[Any, Any, tuple[int, ...]]:
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


def judged(table: str, rows: int, make: Callable[[Any, tuple[int, ...]], Any]) -> Timed:
    """Synthesize, and report how near the rows are and how long they took."""
    codes, fresh, sizes = table_of(table, rows)

    def run() -> dict[str, float]:
        import resource

        before = time.process_time()
        made = make(codes, sizes)
        spent = time.process_time() - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        pairs, triples = (list(combinations(range(len(sizes)), order)) for order in (2, 3))
        facts = {PAIRS: _mean_tv(codes, made, sizes, pairs), TRIPLES: _mean_tv(codes, made, sizes, triples)}
        if fresh is not None:
            facts[AUC] = _area(made, fresh)
        if not table.startswith("adult"):  # PUMA is their first column
            facts[SCORE] = 1000 * (1 - _mean_tv(codes, made, sizes, [each for each in triples if each[0] == 0]))
        return {**facts, CPU: spent, PEAK: peak}

    return run


def counts(codes: Any, sizes: tuple[int, ...], which: tuple[int, ...]) -> Any:
    import numpy as np

    flat = np.ravel_multi_index(tuple(codes[:, one] for one in which), tuple(sizes[one] for one in which))
    return np.bincount(flat, minlength=math.prod(sizes[one] for one in which))


def _mean_tv(real: Any, made: Any, sizes: tuple[int, ...], which: list[tuple[int, ...]]) -> float:
    import numpy as np

    gaps = [
        np.abs(counts(real, sizes, each) / len(real) - counts(made, sizes, each) / len(made)).sum() / 2
        for each in which
    ]
    return float(np.mean(gaps))


def _area(made: Any, fresh: Any) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
    from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

    if len(set(made[:, -1].tolist())) < 2:
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0).fit(made[:, :-1], made[:, -1])
    return float(roc_auc_score(fresh[:, -1], model.predict_proba(fresh[:, :-1])[:, 1]))
