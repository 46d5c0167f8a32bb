"""The commuting map: New York's counties, and a made-up city of 10,000 blocks and a million workers.

"km missed" is by how much the mean commute of a destination is missed, on average over the destinations. No peer makes
such maps: the published method (an urn with a prior in every origin) is ours too, and stands beside noisy counts.
"""

import os
from pathlib import Path
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

DATA = Path(os.environ.get("DISCREET_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data") / "commuting"
OURS, MISSED = "discreet", "km missed"
URN = {"method": "dirichlet", "epsilon": 1}
NEW_YORK: dict[str, dict[str, Any]] = {
    "urn, pure, ε = 1": URN,
    "urn, probabilistic δ = 1e-6, ε = 1": URN | {"promise": "probabilistic", "delta": "1e-6"},
    "urn, approximate δ = 1e-6, ε = 1": URN | {"promise": "approximate", "delta": "1e-6"},
    "urn, probabilistic, within 100 km, ε = 1": URN | {"promise": "probabilistic", "delta": "1e-6", "cap": 100},
    "counts, ε = 1": {"epsilon": 1},
    "counts, ε = 4.6": {"epsilon": "4.6"},
}
CITY: dict[str, dict[str, Any]] = {
    "counts": {"epsilon": 1},
    "counts in bands": {"epsilon": 1, "bands": ["0.3", 1, 2, 4, 8]},
    "urn in bands, approximate δ = 1e-6": URN
    | {"promise": "approximate", "delta": "1e-6", "bands": ["0.3", 1, 2, 4, 8]},
}


def comparison(*, quick: bool) -> Comparison:
    """Issue 8: at most 15 km at ε = 1 and 3 km at ε = 4.6; the city in under two minutes and 2 GB."""
    parts, bars = [], []
    if (DATA / "NY_commuting_flows_2011.csv").exists():
        parts += [Contestant(_county(name), OURS, new_york, {"settings": one}) for name, one in NEW_YORK.items()]
        bars += [
            Bar("at most 15 km", _county("counts, ε = 1"), OURS, measure=MISSED, at_most=15),
            Bar("at most 3 km", _county("counts, ε = 4.6"), OURS, measure=MISSED, at_most=3),
        ]
    size = {"blocks": 400, "workers": 20_000} if quick else {"blocks": 10_000, "workers": 1_000_000}
    for name, one in CITY.items():
        parts.append(Contestant(_block(name), OURS, made_up, {"settings": one, **size}))
        bars.append(Bar("under two minutes", _block(name), OURS, at_most=120))
        bars.append(Bar("under 2 GB", _block(name), OURS, measure="peak_mb", at_most=2000))
    return Comparison("commuting", "The commuting map", tuple(parts), tuple(bars), rounds=3)


def _county(name: str) -> str:
    return f"New York: {name}"


def _block(name: str) -> str:
    return f"a million workers, ε = 1: {name}"


def new_york(settings: dict[str, Any]) -> Timed:
    from discreet.synthetic.commuting import Flows, Places

    places = Places.read(str(DATA / "ny_county_centroids.csv"))
    return _timed(Flows.read(str(DATA / "NY_commuting_flows_2011.csv"), places, people="flow"), settings)


def made_up(settings: dict[str, Any], blocks: int, workers: int) -> Timed:
    from discreet.synthetic.commuting import city

    return _timed(city(blocks=blocks, workers=workers), settings)


def _timed(flows: Any, settings: dict[str, Any]) -> Timed:
    from discreet.synthetic.commuting import Comparison as Compared
    from discreet.synthetic.commuting import Scheme, synthesize

    def timed() -> dict[str, float]:
        found = Compared(flows, synthesize(flows, Scheme(**settings)))
        return {MISSED: found.missed_km, "people moved": found.moved}

    return timed
