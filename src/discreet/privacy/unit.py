"""Who is protected, and against which change, in plain words."""

from dataclasses import dataclass
from enum import StrEnum

from discreet.errors import InvalidParameter


class Neighbors(StrEnum):
    """Which two datasets must look alike. Every sensitivity is for one of these two.

    A histogram shows the difference: adding or removing one person changes one cell by 1 (ℓ1 sensitivity 1);
    changing one person's data lowers one cell and raises another (ℓ1 sensitivity 2).

    >>> print(Neighbors.ADD_OR_REMOVE_ONE)
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

    def __post_init__(self) -> None:
        if self.key is not None:
            words(self.key, "key", "the name of the column that identifies a person")

    def __str__(self) -> str:
        return "one row" if self.key is None else f"one person, by {self.key}"


def words(value: str, name: str, expected: str) -> str:
    """A non-empty text that can be written as UTF-8, since it goes into the ledger.

    >>> words("km", "unit", "a unit of distance")
    'km'
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidParameter(name, value, expected)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidParameter(name, value, "text that can be written as UTF-8") from None
    return value


def relation(value: Neighbors | str) -> Neighbors:
    """Read a neighbor relation in its plain words.

    >>> relation("change one")
    <Neighbors.CHANGE_ONE: 'change one'>
    """
    if value not in list(Neighbors):
        raise InvalidParameter("neighbors", value, " or ".join(repr(str(neighbor)) for neighbor in Neighbors))
    return Neighbors(value)
