"""The simulation behind docs/scale.md: 10^11 rows and 10^8 groups, selected in the engine, released in two stages.

    python -m bench.scale                     10^8 groups, half a minute of CPU
    python -m bench.scale --groups 1000000    the same shares of everything, in a second

No row is made: how many people each group has is drawn (Poisson around a Zipf law), counted by size, and what follows
is computed from these counts with the product's own selection; noise and memory are measured on a million groups.
"""

import argparse
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.partitions import OptimalSelection
from discreet.noise import discrete_laplace

GROUPS, ROWS = 10**8, 10**11
CHUNK = 10**6
ROW_BYTES = 16 + 8 + 16
"""What a group takes on its way to the curator: a key, a count, a sum of 38 digits."""
MOST = 4096
"""Counts of people from here on are named whatever is asked."""


@dataclass(frozen=True)
class Terms:
    """What a person adds, and what the release may cost."""

    keys: int = 10
    rows_per_key: int = 10
    select: str = "1/2"
    numbers: str = "1/2"
    delta: str = "1e-10"


def sizes(groups: int, contributions: float, exponent: float, seed: int = 1) -> Iterator[NDArray[np.int64]]:
    """How many people each group has, a chunk of groups at a time."""
    source = np.random.default_rng(seed)
    ranks = range(1, groups + 1, CHUNK)
    whole = sum(float((np.arange(first, min(first + CHUNK, groups + 1)) ** -exponent).sum()) for first in ranks)
    for first in ranks:
        expected = np.arange(first, min(first + CHUNK, groups + 1), dtype=float) ** -exponent * (contributions / whole)
        yield source.poisson(expected)


def counted(groups: int, contributions: float, exponent: float) -> tuple[NDArray[np.int64], int]:
    """How many groups have 0, 1, 2, … people, all of `MOST` and more in the last; and how many people in all."""
    found, total = np.zeros(MOST + 1, np.int64), 0
    for people in sizes(groups, contributions, exponent):
        found += np.bincount(np.minimum(people, MOST), minlength=MOST + 1)
        total += int(people.sum())
    return found, total


def named(found: NDArray[np.int64], least: int, terms: Terms) -> dict[str, float]:
    """What the engine hands over, and what is named of it, where groups of at most `least` people are left out."""
    selection = OptimalSelection(epsilon=terms.select, delta=terms.delta, keys=terms.keys)
    people = np.arange(MOST + 1)
    keep = np.array([kept(selection, int(n), least) for n in people])
    handed = float(found[least + 1 :].sum())
    once = int(np.searchsorted(keep, 0.5))
    return {
        "handed over": handed,
        "GB": handed * ROW_BYTES / 1e9,
        "named": float((found * keep).sum()),
        "half named at": once,
    }


def kept(selection: OptimalSelection, people: int, least: int) -> float:
    """The probability that a group is named, when the engine leaves out those of at most `least` people.

    Guarantee: (ε,δ)-DP, as the selection itself. Proof. It is the selection of max(0, n − least); a person changes
    that by at most what n changes by, and a group of 0 is never named: so it need not be handed over at all.
    """
    return float(selection.keep(max(0, people - least)))


def measured(count: int = 10**6) -> dict[str, float]:
    """Seconds of CPU for choosing among a million groups and two noisy numbers for each."""
    selection, start = OptimalSelection(epsilon="1/2", delta="1e-10", keys=10), time.process_time()
    selection.release(np.full(count, 40))
    for _ in range(2):
        discrete_laplace(scale=400, size=count)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"CPU s a million": time.process_time() - start, "peak MB": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=GROUPS)
    given = parser.parse_args()
    terms, start = Terms(), time.process_time()
    contributions = ROWS / terms.rows_per_key * given.groups / GROUPS
    print(f"noise: {', '.join(f'{name} {value:,.2f}' for name, value in measured().items())}")
    for exponent in (0.8, 1.0, 1.2):
        found, total = counted(given.groups, contributions, exponent)
        print(f"Zipf {exponent}: {total:,} people in {given.groups:,} groups, {int(found[1:].sum()):,} not empty")
        for least in (0, 20, 100, 1000):
            facts = named(found, least, terms)
            print(f"  least {least:5d}: " + ", ".join(f"{name} {value:,.2f}" for name, value in facts.items()))
    print(f"{time.process_time() - start:.0f} CPU s")


if __name__ == "__main__":
    main()
