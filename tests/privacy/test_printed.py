"""What is printed of a cost is never below it, of what is left never above it; there is one way to print."""

import ast
import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.exact import printed_down, printed_up, text_down, text_up
from discreet.privacy import (
    Approximate,
    Budget,
    Concentrated,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Parallel,
    Pure,
    Repeated,
    SampledGaussian,
    Spent,
    Together,
    delta_for,
    guarantee,
)

SOURCES = Path(__file__).parents[2] / "src" / "discreet"

ATOMS: list[Loss] = [
    Pure("0.1"),
    Pure("1/3"),
    Pure("0.7000001"),
    LaplaceNoise(3),
    LaplaceNoise("0.77"),
    GaussianNoise(2),
    GaussianNoise("3.3"),
    DiscreteGaussianNoise("1.7", 1),
    SampledGaussian("0.01", "1.1"),
    Approximate("0.3", "1/3000000"),
    Concentrated("0.013"),
]
PLANS = [
    plan
    for atom in ATOMS
    for plan in (atom, Repeated(atom, 3), Together(atom, Pure("0.123456789")), Parallel(atom, Pure("1/7")))
]


def read(text: str) -> tuple[Fraction, Fraction]:
    """ε and δ of a printed guarantee."""
    printed = re.fullmatch(r"\(([^,]+), ([^)]+)\)-DP by \w+", text)
    assert printed is not None, text
    return Fraction(printed[1]), Fraction(printed[2])


@pytest.mark.parametrize("loss", PLANS, ids=str)
@pytest.mark.parametrize("delta", ["1/300000"])
def test_a_printed_guarantee_is_not_below_the_proven_one(loss: Loss, delta: str) -> None:
    found = guarantee(loss, delta=delta)
    epsilon, shown = read(str(found))
    proven = Fraction(found.epsilon) if found.exact is None else found.exact
    assert proven <= epsilon <= proven * (1 + Fraction(1, 10**5))
    assert found.delta <= shown
    assert delta_for(loss, epsilon=epsilon).delta <= Fraction(delta) * (1 + Fraction(1, 10**4))  # `pld` is this near


@given(st.fractions(Fraction(1, 10**12), 10**6), st.integers(1, 15))
@settings(max_examples=300)
def test_text_is_rounded_as_its_name_says(x: Fraction, digits: int) -> None:
    up, down = Fraction(text_up(x, digits)), Fraction(text_down(x, digits))
    assert down <= x <= up
    assert up - down <= x * Fraction(10) ** (1 - digits)
    assert len(Decimal(text_up(x, digits)).normalize().as_tuple().digits) <= digits
    assert text_up(-x, digits) == f"-{text_down(x, digits)}"
    assert Fraction(repr(printed_down(x))) <= x <= Fraction(repr(printed_up(x)))


@given(st.floats(0, 1e300, allow_subnormal=False))
@settings(max_examples=200)
def test_a_float_is_the_decimal_that_it_prints_as(x: float) -> None:
    assert Fraction(text_down(x)) <= Fraction(repr(x)) <= Fraction(text_up(x))


def test_what_a_float_cannot_hold_is_printed_too() -> None:
    assert text_up(Fraction(1, 10**400)) == "1e-400"
    assert text_down(Fraction(10) ** 400 + 1, 3) == "1e+400"
    assert [text_up(x) for x in (0.0, 1.0, math.inf, Fraction(0), Fraction(123456789))] == [
        "0",
        "1",
        "inf",
        "0",
        "1.23457e+08",
    ]


@given(st.fractions(Fraction(1, 10**6), 3), st.fractions(0, Fraction(1, 10**7)))
@settings(max_examples=100)
def test_a_budget_tells_at_least_what_is_spent(epsilon: Fraction, delta: Fraction) -> None:
    budget = Budget(epsilon=2, delta="1e-6", delta_for_keys="1/3000000")
    spent = Spent.by(Approximate(epsilon, delta))
    words = budget.describe(spent)
    shown = re.match(r"ε ([^,]+)", words)
    assert shown is not None
    assert Fraction(shown[1]) >= min(Fraction(budget.epsilon_of(spent)), epsilon)
    if delta:
        additive = re.search(r"additive δ (\S+) of (\S+)", words)
        assert additive is not None
        assert Fraction(additive[1]) >= delta
        assert Fraction(additive[2]) <= budget.delta_for_keys


def test_an_exact_sum_is_told_exactly() -> None:
    spent = Spent().plus(Pure("0.1")).plus(Pure("0.2"))
    assert Budget(epsilon=1).describe(spent) == "ε 0.3"
    assert str(guarantee(Repeated(Pure("0.1"), 3), delta=0)) == "(0.3, 0)-DP by pure"


# --- one way to print ---------------------------------------------------------------------------------------------

COST = re.compile(r"epsilon|delta(?!_?s?core)|\brho\b|_rho|rho_|spent|\bcost", re.IGNORECASE)
NO_COST = {
    # what is shown there is no cost, but …
    ("anonymity/anonymity_report.py", "costs.suppressed_share"),  # a share of rows
    ("privacy/accounting/pld.py", "_LEAST_DELTA"),  # how far an accountant reaches
    ("cli/attack_models.py", "finding.epsilon"),  # a lower bound that an attack proved
    ("cli/channel.py", "epsilon"),  # the ε's at which a profile is drawn
    ("synthetic/planner.py", "float(epsilon) * alone * 2"),  # advice: "about … or more"
}


def formatted_costs() -> list[tuple[str, str]]:
    """Every cost that an f-string formats with digits of its own, as (file, expression)."""
    places = []
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
                digits = "".join(str(part.value) for part in node.format_spec.values if isinstance(part, ast.Constant))
                if re.search(r"[efg%]$", digits) and COST.search(ast.unparse(node.value)):
                    places.append((path.relative_to(SOURCES).as_posix(), ast.unparse(node.value)))
    return places


def test_costs_are_printed_in_one_way() -> None:
    """`:.6g` rounds to nearest, so half of what it prints is too little; `exact.text_up` prints costs.

    Equal: the exceptions still exist.
    """
    assert set(formatted_costs()) == NO_COST
