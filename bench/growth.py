"""How time grows with size: four numbers a region over more and more rows, and more and more exact draws."""

from bench.curator import discreet_job, discreet_rows, duckdb_job, duckdb_rows
from bench.harness import Bar, Comparison, Contestant
from bench.noise import discreet_many, numpy_many

JOB, ROWS, DRAWS = "four numbers a region", "three numbers a region, each row a unit", "exact Laplace draws, scale 100"
LIMIT = "DuckDB, no privacy (limit)"


def comparison(*, quick: bool) -> Comparison:
    """Each case once a size; the page draws a curve through the sizes."""
    sizes = (1_000, 10_000, 100_000) if quick else (10_000, 100_000, 1_000_000, 4_000_000)
    draws = {"law": "Laplace", "scale": "100"}
    contestants = [
        contestant
        for size in sizes
        for contestant in (
            Contestant(_at(JOB, size), "discreet", discreet_job, {"rows": size}, packages=("duckdb",)),
            Contestant(_at(JOB, size), LIMIT, duckdb_job, {"rows": size}, packages=("duckdb",)),
            Contestant(_at(ROWS, size), "discreet", discreet_rows, {"rows": size}, packages=("duckdb",)),
            Contestant(_at(ROWS, size), LIMIT, duckdb_rows, {"rows": size}, packages=("duckdb",)),
            Contestant(_at(DRAWS, size, "draws"), "discreet", discreet_many, {**draws, "n": size}),
            Contestant(_at(DRAWS, size, "draws"), "NumPy (limit)", numpy_many, {**draws, "n": size}),
        )
    ]
    largest = _at(JOB, sizes[-1])
    bars = [Bar("at most 4 × DuckDB's CPU at the largest size", largest, "discreet", LIMIT, at_most=4)]
    return Comparison("growth", "How time grows with size", tuple(contestants), tuple(bars), rounds=3)


def _at(what: str, size: int, unit: str = "rows") -> str:
    return f"{what}: {size:,} {unit}"
