"""No module needs, at any time, a module that needs it: the graph of all imports, those inside functions too."""

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import discreet

ROOT = Path(discreet.__file__).parent


def modules() -> dict[str, Path]:
    """The path of every module, by its name."""
    names = {".".join(("discreet", *path.relative_to(ROOT).with_suffix("").parts)): path for path in ROOT.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes that run: what stands under `if TYPE_CHECKING` is for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield other
                yield from nodes(other)
        else:
            yield node
            yield from nodes(node)


def imports(text: str, name: str, known: set[str], *, package: bool = False) -> set[str]:
    """The modules of discreet that a module imports, wherever in its text."""
    found = set()
    for node in nodes(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = name.split(".")[: None if package else -1]
            base = base[: len(base) - node.level + 1] if node.level else []
            source = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            inner = {f"{source}.{alias.name}" for alias in node.names}
            found |= {part if part in known else source for part in inner}
    return (found & known) - {name}


@lru_cache(maxsize=1)
def graph() -> dict[str, set[str]]:
    """Which module imports which."""
    paths = modules()
    return {
        name: imports(path.read_text(encoding="utf-8"), name, set(paths), package=path.name == "__init__.py")
        for name, path in paths.items()
    }


def shortened(edges: dict[str, set[str]], depth: int) -> dict[str, set[str]]:
    """The same graph with names of at most so many parts: what packages import."""

    def short(name: str) -> str:
        return ".".join(name.split(".")[:depth])

    result: dict[str, set[str]] = {}
    for name, imported in edges.items():
        result.setdefault(short(name), set()).update({short(other) for other in imported} - {short(name)})
    return result


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach one another (Tarjan 1972), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(edges[name]):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(edges):
        if name not in index:
            visit(name)
    return found


def test_no_module_imports_itself_in_a_circle():
    assert cycles(graph()) == []


def test_no_package_imports_itself_in_a_circle():
    """Nor do packages beside each other, whichever of their modules does it."""
    for depth in (2, 3, 4):
        assert cycles(shortened(graph(), depth)) == []


def test_a_cycle_of_packages_is_found_where_modules_have_none():
    edges = {"discreet.a.x": {"discreet.b.x"}, "discreet.b.x": set(), "discreet.b.y": {"discreet.a.y"}}
    edges["discreet.a.y"] = set()
    assert cycles(edges) == []
    assert cycles(shortened(edges, 2)) == [["discreet.a", "discreet.b"]]


def test_a_cycle_is_found():
    known = {"discreet.a", "discreet.b", "discreet.c"}
    edges = {
        "discreet.a": imports("from discreet import b", "discreet.a", known),
        "discreet.b": imports("def f():\n    from discreet.c import x", "discreet.b", known),
        "discreet.c": imports("import discreet.a", "discreet.c", known),
    }
    assert cycles(edges) == [sorted(known)]


def test_imports_for_type_checkers_alone_are_none():
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import discreet.a"
    assert imports(text, "discreet.b", {"discreet.a", "discreet.b"}) == set()
