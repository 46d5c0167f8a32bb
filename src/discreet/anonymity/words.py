"""What anonymity does not promise, in plain words, each with its textbook example.

Every report carries these: a reader who sees "4-anonymous" should not have to know the literature to know the rest.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """A promise that is not made: its name, what can happen, and an example that happened or could."""

    name: str
    what: str
    example: str


HOMOGENEITY = Limit(
    "Homogeneity",
    "If all the rows that may be a person's agree on a secret, the secret is told, however many rows there are.",
    "In the published table of twelve inpatients, everybody with ZIP code 130** and age 3* has cancer. The table is "
    "4-anonymous. A neighbor of 31 from 13053 who was there has cancer: no row had to be singled out. "
    "l-diversity, t-closeness and β-likeness limit this.",
)

BACKGROUND = Limit(
    "Background knowledge",
    "Whoever knows something beside the table can rule rows out and be left with few, or with one.",
    "In the same table the rows that may belong to a patient of 21 from 13068 say heart disease or viral infection. "
    "Somebody who knows that heart disease is most unlikely for her knows the rest. Every column that an outsider can "
    "come to know is a quasi-identifier, whether it was declared one or not.",
)

COMPOSITION = Limit(
    "Composition",
    "Two releases on the same people, each anonymous by itself, may together single people out.",
    "Six people, two answers. The least age of an ill person is 40, and two people are 40. The largest weight of an "
    "ill person is 100, and two people weigh 100. Both answers hide among two; only Don is in both pairs.",
)

LATER = Limit(
    "Later releases",
    "The promise is about this table as it is today. What somebody publishes next year can be linked with it, and a "
    "release cannot be called back.",
    "A hospital's table without names and a town's list of voters, each harmless by itself, were joined on ZIP code, "
    "sex and date of birth, and the governor's file was found (Sweeney 1998).",
)

LIMITS = (HOMOGENEITY, BACKGROUND, COMPOSITION, LATER)

INSTEAD = (
    "Differential privacy is the promise that survives all of these: it does not depend on what anybody knows or will "
    "know, and the losses of several releases add up. Where answers, statistics or synthetic rows will do, release "
    "those from behind the curator."
)


def limits_text() -> str:
    """The limits as a plain text, for a terminal or a file beside the data.

    >>> print(limits_text().splitlines()[0])
    Homogeneity: If all the rows that may be a person's agree on a secret, the secret is told, ...
    """
    return "\n".join(f"{limit.name}: {limit.what}" for limit in LIMITS) + "\n" + INSTEAD
