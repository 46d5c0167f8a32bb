"""Who is protected, and against which change, in plain words."""

from dataclasses import dataclass
from enum import StrEnum


class Neighbours(StrEnum):
    """Which two datasets must look alike. Every sensitivity is for one of these two.

    A histogram shows the difference: adding or removing one person changes one cell by 1 (ℓ1 sensitivity 1);
    changing one person's data lowers one cell and raises another (ℓ1 sensitivity 2).

    >>> print(Neighbours.ADD_OR_REMOVE_ONE)
    add or remove one
    """

    ADD_OR_REMOVE_ONE = "add or remove one"
    CHANGE_ONE = "change one"


@dataclass(frozen=True, slots=True)
class Unit:
    """Whose presence or data is protected: one row, or all the rows of one person.

    >>> print(Unit()), print(Unit("patient_id"))
    one row
    one person, by patient_id
    (None, None)
    """

    key: str | None = None

    def __str__(self) -> str:
        return "one row" if self.key is None else f"one person, by {self.key}"
