"""What may be imported where, what `import discreet` costs, and that the public names are the ones promised."""

import ast
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import discreet
import discreet.noise

SOURCE = Path(discreet.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
RANDOMNESS = {"random", "secrets", "_random", "uuid", "numpy.random", "scipy.stats", "torch"}
"""Modules that make numbers which are not exact, not secure, or not from the one stream."""

SIMULATION = ("attacks", "claims", "gallery")
"""Rooms that release nothing: what they draw is repeatable on purpose, from numpy.random with a stated seed."""

ASKS_THE_SYSTEM = SOURCE / "noise" / "entropy.py"


def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(module)):
                names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


def attributes(tree: ast.AST) -> set[str]:
    """Dotted names such as np.random.laplace, by the spelling in the file."""
    found = set()
    for outer in ast.walk(tree):
        parts, node = [], outer
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name):
            found.add(".".join([node.id, *reversed(parts)]))
    return found


def randomness_in(text: str) -> set[str]:
    tree = ast.parse(text)
    modules = {n for n in imported(tree) if any(n == r or n.startswith(r + ".") for r in RANDOMNESS)}
    used = {
        a for a in attributes(tree) if a.startswith(("np.random", "numpy.random", "scipy.stats")) or a.endswith(".rvs")
    }
    return modules | used


def system_calls_in(text: str) -> set[str]:
    tree = ast.parse(text)
    return {name for name in attributes(tree) | imported(tree) if name.split(".")[-1] in ("urandom", "getrandom")}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_module_uses_randomness_that_is_not_exact_and_secure(path):
    """scipy.stats may give quantiles and bounds, which are not noise: allowed where nothing is drawn from it."""
    found = randomness_in(path.read_text())
    if path.relative_to(SOURCE).parts[0] in SIMULATION:
        found = {name for name in found if not name.startswith(("np.random", "numpy.random"))}
    assert not {name for name in found if not name.startswith("scipy.stats") or name.endswith(".rvs")}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_the_entropy_module_asks_the_operating_system(path):
    text = path.read_text()
    if path == ASKS_THE_SYSTEM:
        assert system_calls_in(text) == {"os.urandom"}
    else:
        assert not system_calls_in(text)
        assert "/dev/urandom" not in text
        assert "/dev/random" not in text


def test_the_search_for_randomness_finds_it():
    for text in (
        "import random", "from random import gauss", "import numpy.random", "from numpy import random",
        "from numpy.random import default_rng", "import secrets", "import numpy as np\nnp.random.laplace()",
        "def f():\n    import random", "from scipy.stats import norm\nx = norm.rvs(3)",
    ):  # fmt: skip
        assert randomness_in(text), text
    for text in ("import os\nos.urandom(3)", "from os import urandom", "from os import getrandom as g", "o.urandom(3)"):
        assert system_calls_in(text), text
    assert not randomness_in("import numpy as np\nnp.exp(1)")


def test_every_module_can_be_imported_alone():
    names = [m.name for m in pkgutil.walk_packages(discreet.__path__, "discreet.")]
    assert "discreet.noise.entropy" in names
    for name in names:
        importlib.import_module(name)


# --- what importing costs ----------------------------------------------------------------------------------

HEAVY = [
    "scipy",
    "matplotlib",
    "pandas",
    "cryptography",
    "dp_accounting",
    "mpmath",
    "multiprocessing",
    "click",
    "numpy.testing",
]

PROBE = """
import sys
{statement}
print(*sys.modules)
"""


def loaded_by(statement: str) -> set[str]:
    """The modules that an import loads in a new interpreter."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    command = [sys.executable, "-c", PROBE.format(statement=statement)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return set(done.stdout.split())


def test_importing_is_light():
    bare, numpy = loaded_by("pass"), loaded_by("import numpy")
    fresh = {name.partition(".")[0] for name in loaded_by("import discreet") - bare}
    assert fresh <= {"discreet", *sys.stdlib_module_names}
    found = loaded_by("import discreet.noise, discreet.privacy.loss, discreet.exact")
    assert not (found - numpy).intersection(HEAVY)
    assert len(found - numpy) < len(numpy), "as many modules as numpy alone"


# --- public names ------------------------------------------------------------------------------------------


def test_the_names_of_the_noise_package_are_exactly_those_promised():
    public = {
        name for name, value in vars(discreet.noise).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(discreet.noise.__all__)
    assert list(discreet.noise.__all__) == sorted(discreet.noise.__all__)
    assert set(discreet.noise.__all__) == {
        "DeterministicEntropy", "Entropy", "SystemEntropy", "accept_each", "add_rounded_gaussian", "bernoulli", "bernoulli_exp", "categorical",
        "discrete_gaussian", "discrete_laplace", "geometric", "planar_laplace", "poisson_sample", "rounded_gaussian", "softmax", "softmax_each",
        "staircase",
        "uniform_below", "uniform_each",
    }  # fmt: skip


@pytest.mark.parametrize("name", discreet.noise.__all__)
def test_every_public_name_is_described_with_an_example(name):
    described = inspect.getdoc(getattr(discreet.noise, name)) or ""
    assert len(described) > 40
    if name != "Entropy":  # a protocol; its implementations have the examples
        assert ">>> " in described


@pytest.mark.parametrize("name", [n for n in discreet.noise.__all__ if n[0].islower()])
def test_the_entropy_argument_is_keyword_only_and_defaults_to_the_system(name):
    parameter = inspect.signature(getattr(discreet.noise, name)).parameters["entropy"]
    assert parameter.kind is parameter.KEYWORD_ONLY
    assert parameter.default is None
