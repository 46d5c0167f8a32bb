"""The Jupyter extension: `%load_ext discreet`, and cells of SQL under `%%discreet`, with the `Answer` of Python."""

import argparse
import os
import shlex
from typing import Any, NoReturn

from discreet import dataset
from discreet.client.remote import RemoteDataset, connect
from discreet.dataset import Dataset
from discreet.errors import InvalidParameter
from discreet.requests import Question

_TERMS = ("epsilon", "error", "delta", "groups", "rows", "confidence")


class _Parser(argparse.ArgumentParser):
    """Options of a cell; what is wrong with them is said as an error of discreet."""

    def error(self, message: str) -> NoReturn:
        raise InvalidParameter("%%discreet", message, "options as below", self.format_usage().strip())


def _parser() -> _Parser:
    parser = _Parser(prog="%%discreet", add_help=False, allow_abbrev=False)
    parser.add_argument("dataset", nargs="?", help="a policy file, a URL, or a variable that holds a dataset")
    for name in _TERMS:
        parser.add_argument(f"--{name}", type=int if name in ("groups", "rows") else str)
    parser.add_argument("--measure-bounds", action="store_true")
    parser.add_argument("--explain", action="store_true", help="say what it would cost; nothing is charged")
    parser.add_argument("--to", metavar="NAME", help="a variable that keeps the answer")
    return parser


class Magic:
    """What `%%discreet` knows: the datasets that cells have named, and the last of them.

    >>> Magic({}).options("census.toml --epsilon 0.5").epsilon
    '0.5'
    """

    def __init__(self, variables: dict[str, Any]) -> None:
        self._variables = variables
        self._opened: dict[str, Dataset | RemoteDataset] = {}
        self._last: Dataset | RemoteDataset | None = None

    def options(self, line: str) -> argparse.Namespace:
        """The options of a cell's first line."""
        try:
            return _parser().parse_args(shlex.split(line))
        except ValueError as error:
            raise InvalidParameter("%%discreet", line, "options in which every quotation ends", str(error)) from None

    def __call__(self, line: str, cell: str) -> Any:
        """The answer to the statement of a cell, or with --explain what it would cost."""
        options = self.options(line)
        if options.to is not None and not options.to.isidentifier():
            raise InvalidParameter("--to", options.to, "the name of a variable", "nothing was charged")
        data = self._dataset(options.dataset)
        terms = {name: getattr(options, name) for name in _TERMS if getattr(options, name) is not None}
        question = Question(cell.strip().rstrip(";").rstrip(), **terms, measure_bounds=options.measure_bounds)
        result = data.explain(question) if options.explain else data.answers(question)[0]
        if options.to is not None:
            self._variables[options.to] = result
        return result

    def _dataset(self, name: str | None) -> "Dataset | RemoteDataset":
        if name is None and self._last is None and not os.environ.get("DISCREET_URL"):
            hint = "%%discreet https://discreet.example.org --epsilon 0.5"
            raise InvalidParameter("dataset", None, "a policy file, a URL or a variable, in the first cell", hint)
        if name is not None or self._last is None:
            named = self._variables.get(name or "")
            self._last = named if isinstance(named, Dataset | RemoteDataset) else self._open(name)
        return self._last

    def _open(self, name: str | None) -> "Dataset | RemoteDataset":
        where = name or os.environ["DISCREET_URL"]
        if where not in self._opened:
            remote = where.lower().startswith(("http://", "https://"))
            self._opened[where] = connect(where) if remote else dataset.open(where)
        return self._opened[where]

    def close(self) -> None:
        """Close the datasets that cells have opened."""
        for data in self._opened.values():
            data.close()
        self._opened, self._last = {}, None


_MAGICS: dict[int, Magic] = {}


def load_ipython_extension(shell: Any) -> None:
    """Add `%%discreet` to a notebook: called by `%load_ext discreet`."""
    magic = _MAGICS.setdefault(id(shell), Magic(shell.user_ns))
    shell.register_magic_function(magic.__call__, magic_kind="cell", magic_name="discreet")


def unload_ipython_extension(shell: Any) -> None:
    """Close what cells have opened: called by `%unload_ext discreet`."""
    magic = _MAGICS.pop(id(shell), None)
    if magic is not None:
        magic.close()
        shell.magics_manager.magics["cell"].pop("discreet", None)
