"""Run the tests that a change can touch: `make test-changed`, or `python tests/changed.py [COMMIT] [--list]`.

From the files that differ from COMMIT (by default, from where this branch left main) the imports are followed
backwards, those inside functions too, to the test files that reach them. Changed sources run their own examples.
"""

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
_EVERYTHING = {"pyproject.toml", "constraints.txt", "Makefile", "conftest.py", "tests/conftest.py"}
_MOST_SOURCES = 100  # sources whose own examples are named one by one


def main() -> int:
    """Say which tests they are, and run them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?", help="compare with this commit")
    parser.add_argument("--list", action="store_true", help="only say which files would be tested")
    given = parser.parse_args()
    # tests first: pytest would load a module of the sources a second time if nothing had imported it before
    chosen = sorted(touched(changed_files(given.commit)), key=lambda path: (path.startswith("src"), path))
    print(*chosen, sep="\n")
    if given.list or not chosen:
        return 0
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", "not slow", *chosen]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def changed_files(commit: str | None = None) -> set[str]:
    """Paths that differ from a commit, committed or not, and new ones; deleted ones too."""
    base = commit or _git("merge-base", "HEAD", "main").strip()
    differ = _git("diff", "--name-only", base).splitlines()
    return {*differ, *_git("ls-files", "--others", "--exclude-standard").splitlines()}


def touched(changed: Iterable[str]) -> set[str]:
    """The test files, documents and sources with examples that a change of these files can touch."""
    paths = set(changed)
    if paths & _EVERYTHING:
        return {"tests", "src", "README.md", "docs"}
    reached = _importers(paths)
    tests = {path for path in reached if Path(path).name.startswith("test_")}
    examples = {path for path in paths if path.startswith("src/") and path.endswith(".py")}
    pages = {path for path in paths if path.endswith(".md") and path.startswith(("README", "docs/guide"))}
    named = {test for path in paths for test in _named(path)}
    whole = {"src"} if len(examples) > _MOST_SOURCES else examples
    return {path for path in tests | whole | pages | named if (ROOT / path).exists()}


def _named(path: str) -> Iterator[str]:
    """Tests that read a file without importing it."""
    if path.endswith(".md"):
        yield "tests/docs"
    if path.startswith("examples/"):
        yield "tests/examples"
    if path.startswith("tests/mutants/"):
        yield "tests/mutants/test_mutants.py"
    if path.startswith("tests/") and Path(path).name == "conftest.py":
        yield str(Path(path).parent)
    if path.startswith("tests/golden"):
        yield from (
            str(found.relative_to(ROOT)) for found in (ROOT / "tests").rglob("test_*.py") if _reads_golden(found)
        )
    if path.startswith("src/") and not path.endswith(".py"):  # a page, a script, a style: whoever imports its package
        yield from (test for test in _importers({str(Path(path).parent / "__init__.py")}) if "/test_" in test)
    if path.startswith("src/"):
        yield "tests/test_imports.py"


def _reads_golden(path: Path) -> bool:
    return "golden" in path.read_text(encoding="utf-8")


def _importers(paths: set[str]) -> set[str]:
    """These files and all that import them, directly or not."""
    users: dict[str, set[str]] = {}
    for node, imported in graph().items():
        for name in imported:
            users.setdefault(name, set()).add(node)
    found = paths | {_LOADED + path for path in paths}
    left = list(found)
    while left:
        new = users.get(left.pop(), set()) - found
        found |= new
        left += new
    return {node for node in found if not node.startswith(_LOADED)}


_LOADED = "loading "  # a file that is only loaded, as the package around a module is: its functions are not called


@cache
def graph() -> dict[str, frozenset[str]]:
    """What each file of sources, tests and examples imports; and what loading it alone imports."""
    files = [path for folder in ("src", "tests", "examples", "bench") for path in (ROOT / folder).rglob("*.py")]
    nodes: dict[str, frozenset[str]] = {}
    for path in files:
        name, tree = str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))
        nodes[name] = frozenset([_LOADED + name, *_imports(tree, lazy=True)])
        nodes[_LOADED + name] = frozenset(_as_loaded(_imports(tree, lazy=False)))
    commands = "src/discreet/cli/__init__.py"  # imports its commands by name
    nodes[commands] |= {str(path.relative_to(ROOT)) for path in (ROOT / commands).parent.glob("[!_]*.py")}
    return nodes


def _imports(tree: ast.AST, *, lazy: bool) -> Iterator[str]:
    """The files that are imported: also in functions, or only by those who load the file."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import():
                for name in node.names:
                    yield from _files(name.name)
            case ast.ImportFrom(module=str(module)):
                for name in node.names:  # a module of a package, or something in a module
                    inside = _files(f"{module}.{name.name}")
                    yield from inside if any(not file.startswith(_LOADED) for file in inside) else _files(module)
            case ast.Constant(value=str(text)) if lazy and text.startswith("discreet."):  # import_module, patches
                yield from _files(text)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() if not lazy:
                continue
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case _:
                yield from _imports(node, lazy=lazy)


def _as_loaded(paths: Iterable[str]) -> Iterator[str]:
    return (path if path.startswith(_LOADED) else _LOADED + path for path in paths)


@cache
def _files(module: str) -> tuple[str, ...]:
    """The file of a module; those of the packages around it are loaded."""
    return tuple(_search(module))


def _search(module: str) -> Iterator[str]:
    parts = module.split(".")
    roots = [ROOT / "src"] if parts[0] == "discreet" else [ROOT, ROOT / "tests", ROOT / "examples"]
    for count in range(1, len(parts) + 1):
        for root in roots:
            place = root.joinpath(*parts[:count])
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file.is_file():
                    yield ("" if count == len(parts) else _LOADED) + str(file.relative_to(ROOT))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
