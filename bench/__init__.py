"""Side-by-side benchmarks against peers and limits: `python -m bench`. See README.md."""
