"""Runs pytest in a fork of this process for every line of JSON on standard input; its exit code is the line that answers.

A line has the tests and the file that takes what pytest prints. Other libraries are imported once, here; the product never
is, so every fork imports it from where PYTHONPATH points at that moment.
"""

import contextlib
import importlib
import json
import os
import sys

_LIBRARIES = ("scipy.stats", "scipy.optimize", "pyarrow.parquet", "duckdb", "sqlglot", "mpmath", "sklearn.linear_model")


def _run(tests: list[str], output: str) -> int:
    with open(output, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    import pytest

    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "", *tests]))


def main() -> None:
    """Answer until standard input ends."""
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it, not the folder of this file
    for name in _LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if "discreet" in sys.modules:
        sys.exit("the product was imported before it is sabotaged")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 70
            try:
                code = _run(**json.loads(line))
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
