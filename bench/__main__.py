"""`python -m bench [NAME …] [--quick] [--list] [--json]`: run comparisons, print and write their tables."""

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

from bench.harness import ROOT, Comparison, Result, compare
from bench.overview import overview
from bench.report import as_json, as_markdown, write

COMPARISONS = (
    "noise",
    "selection",
    "accounting",
    "timing",
    "ledger",
    "engines",
    "curator",
    "server",
    "local",
    "ibu",
    "anonymity",
    "attacks",
    "classical",
    "learning",
    "fairness",
    "synthetic",
    "synthetic_census",
    "commuting",
    "growth",
)
"""One file each in this folder, with a function `comparison(quick: bool) -> Comparison`."""


_FEW = 4
"""Cases of a comparison in a smoke run: all of them together end within 5 minutes on two idle cores."""
_WHOLE = ("growth",)


def main(arguments: list[str] | None = None) -> int:
    """Run the named comparisons (all by default). Exit code 1: a bar was missed, or discreet crashed."""
    options = _options(arguments)
    if options.list:
        print("\n".join(f"{name}: {_load(name, quick=True).title}" for name in COMPARISONS))
        return 0
    results = [_one(name, options) for name in options.names or COMPARISONS]
    if (folder := _folder(options)) is not None:
        print(f"wrote {overview(folder).save(folder / 'index.html').name}", file=sys.stderr)
    if options.json:
        print(json.dumps([as_json(result) for result in results], indent=1, ensure_ascii=False))
    return int(any(_disappoints(result, quick=options.quick) for result in results))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(COMPARISONS)}; default all")
    parser.add_argument("--quick", action="store_true", help="a smoke run: little work, one round, nothing written")
    parser.add_argument("--list", action="store_true", help="name the comparisons and stop")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--rounds", type=int, help="rounds instead of each comparison's own number")
    parser.add_argument("--out", type=Path, help="folder for the results; default bench/results")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(COMPARISONS))
    if unknown:
        parser.error(f"unknown comparison {', '.join(unknown)}; known are {', '.join(COMPARISONS)}")
    return options


def _load(name: str, *, quick: bool) -> Comparison:
    comparison: Comparison = import_module(f"bench.{name}").comparison(quick=quick)
    return comparison.shortened(_FEW) if quick and name not in _WHOLE else comparison


def _one(name: str, options: argparse.Namespace) -> Result:
    rounds = options.rounds or (1 if options.quick else None)
    result = compare(
        _load(name, quick=options.quick),
        rounds=rounds,
        install=not options.quick,
        say=lambda line: print(line, file=sys.stderr),
    )
    if not options.json:
        print(as_markdown(result))
    if (folder := _folder(options)) is not None:
        write(result, folder)
    return result


def _folder(options: argparse.Namespace) -> Path | None:
    """Where results are written; a smoke run keeps none, unless it is told where."""
    out: Path | None = options.out
    return out if out or options.quick else ROOT / "bench" / "results"


def _disappoints(result: Result, *, quick: bool) -> bool:
    """Our own code in trouble; or, on a run long enough to judge, a bar that was measured and missed."""
    ours = any(row.trouble and not row.contestant.peer for row in result.rows)
    return ours or (not quick and any(verdict.word == "FAIL" for verdict in result.verdicts))


if __name__ == "__main__":
    sys.exit(main())
