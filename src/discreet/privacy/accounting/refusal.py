"""Why an accountant refuses, in words that say what to do."""

from fractions import Fraction

from discreet.exact import plain, text_up


def unbounded(unit: str) -> str:
    """Why d-privacy alone gives no ε."""
    return f"d-privacy per {unit} gives an ε only inside a radius; use PerDistance(...).within(distance)"


def no_delta_left(delta: Fraction, spent: Fraction) -> str:
    """Why a δ that key selection has used up gives no ε."""
    return (
        f"δ = {plain(delta)} does not cover the additive δ = {text_up(spent)} of this loss (key selection and "
        "other (ε, δ) parts); ask with a greater delta"
    )
