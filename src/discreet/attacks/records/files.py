"""Records and networks from files, with names of any kind, as the numbered ones that attacks take.

>>> import pathlib, tempfile
>>> from discreet.attacks.records.files import read_ratings
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> _ = (folder / "released.csv").write_text("person,item,rating\\nr1,Alien,5\\nr1,Brazil,2\\nr2,Alien,3\\n")
>>> _ = (folder / "known.csv").write_text("person,item,rating\\nAnn,Brazil,2\\n")
>>> _ = (folder / "truth.csv").write_text("person,record\\nAnn,r1\\n")
>>> case = read_ratings(folder / "released.csv", folder / "known.csv", folder / "truth.csv")
>>> case.truth.tolist(), case.images
([0], ('r1', 'r2'))
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.attack_report import AttackReport
from discreet.attacks.records.networks import Network
from discreet.attacks.records.ratings import Ratings, planted
from discreet.attacks.tables.columns import Codes, Column, as_texts, coded, columns, distinct, kind, missing, positions
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.tables import read_table

RATING_COLUMNS = ("person", "item", "rating", "day")
"""What the columns of a table of ratings are called, unless they are named."""

_SECONDS, _MILLISECONDS = 1e8, 1e11  # numbers from here on are no days: 1e8 days are 270,000 years
_NUMBERS = re.compile(r"person (\d+) is (record|released node) (\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """What is released, what the attacker holds, and which is whose; `people` and `images` are names by number.

    `truth[i]` is the number of the released record (or node) of person i, −1 if there is none; `seeds` are pairs.
    """

    released: Any
    auxiliary: Any
    truth: NDArray[np.int64]
    people: tuple[str, ...]
    images: tuple[str, ...]
    seeds: NDArray[np.int64] | None = None

    def named(self, report: AttackReport) -> AttackReport:
        """A report whose private examples speak of names instead of numbers."""

        def words(match: re.Match[str]) -> str:
            return f"person {self.people[int(match[1])]} is {match[2]} {self.images[int(match[3])]}"

        return replace(report, worst=tuple(_NUMBERS.sub(words, example) for example in report.worst))


def read_ratings(released: Any, known: Any, truth: Any, *, names: Sequence[str] = RATING_COLUMNS) -> Case:
    """Two tables of person, item, rating and (where known) day, and a table of pairs person, released person.

    People who are not in `truth`, or have an empty cell there, are not in the release. Items have the same names in
    both tables. `names` are the columns of both that hold person, item, rating and day; the last may be left out. A
    day is a date, a time (ISO), a number of days, or seconds or milliseconds since 1970 (told by their size). Where a
    person rated an item several times, the latest rating counts.
    """
    ours, theirs = _entries(known, "known", names), _entries(released, "released", names)
    items = coded(theirs["item"], ours["item"])
    count = int(max(codes.max() for codes in items)) + 1
    (who,), (record,) = coded(ours["person"]), coded(theirs["person"])
    people, images = distinct(ours["person"], who), distinct(theirs["person"], record)
    return Case(
        released=_ratings(theirs, record, items[0], count, "released"),
        auxiliary=_ratings(ours, who, items[1], count, "known"),
        truth=_truth(_pairs(truth, "truth"), people, images),
        people=tuple(as_texts(people)),
        images=tuple(as_texts(images)),
    )


def plant_ratings(table: Any, *, known: int, seed: int, names: Sequence[str] = RATING_COLUMNS) -> Case:
    """One table of ratings, split into a release and what is known: `known` ratings each of some of its people.

    A quarter of the people (500 at most) who rated enough are attacked, and as many are taken out of the release.

    >>> rows = [(f"p{p}", f"film {i}", 1 + (p * i) % 5) for p in range(40) for i in range(p % 3, 30, 3)]
    >>> stars = dict(zip(("who", "what", "stars"), map(list, zip(*rows)), strict=True))
    >>> case = plant_ratings(stars, known=4, seed=1, names=("who", "what", "stars"))
    >>> case.released.people, case.auxiliary.people
    (30, 20)
    """
    rows = _entries(table, "released", names)
    (record,), (item,) = coded(rows["person"]), coded(rows["item"])
    ratings = _ratings(rows, record, item, int(item.max()) + 1, "released")
    able = int((np.bincount(ratings.person) >= integer(known, "plant", at_least=1)).sum())
    size = min(500, able // 2, ratings.people // 4)
    if size < 1:
        raise InvalidData(f"released: {able} people have {known} ratings; plant fewer, or give more people")
    case = planted(ratings, targets=size, absent=size, known=known, seed=seed)
    texts = as_texts(distinct(rows["person"], record))
    images = np.empty(case.released.people, object)
    images[case.truth[:size]] = texts[case.people[:size]]
    return Case(
        released=case.released,
        auxiliary=case.auxiliary,
        truth=case.truth.astype(np.int64),
        people=tuple(texts[case.people]),
        images=tuple(images),
    )


def read_networks(released: Any, known: Any, truth: Any, seeds: Any = None, *, directed: bool = False) -> Case:
    """Two tables of edges and tables of pairs (known node, released node); of each the first two columns count.

    Nodes that only `truth` names have no edges (if most are such, it is refused). Nodes of the known network that are
    not in `truth`, or have an empty cell there, are not in the release.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "edges.csv").write_text("from,to\\nx,y\\ny,z\\n")
    >>> _ = (folder / "friends.csv").write_text("from,to\\nAnn,Bo\\n")
    >>> _ = (folder / "truth.csv").write_text("person,node\\nAnn,x\\nBo,y\\n")
    >>> read_networks(folder / "edges.csv", folder / "friends.csv", folder / "truth.csv").truth.tolist()
    [0, 1]
    """
    whose = _pairs(truth, "truth")
    ours, people = _network(known, whose[0], "known", directed)
    theirs, images = _network(released, whose[1], "released", directed)
    pairs = None
    if seeds is not None:
        given = _pairs(seeds, "seeds")
        result = [positions(side, names) for side, names in zip(given, (people, images), strict=True)]
        _refuse((result[0] < 0) | (result[1] < 0), "seeds", "name a node that is in no edge; leave them out")
        pairs = np.stack(result, axis=1)
    return Case(
        released=theirs,
        auxiliary=ours,
        truth=_truth(whose, people, images),
        people=tuple(as_texts(people)),
        images=tuple(as_texts(images)),
        seeds=pairs,
    )


def _entries(table: Any, where: str, names: Sequence[str]) -> dict[str, Column]:
    """Columns by what they hold: person, item, rating and, if there is one, day."""
    if not 3 <= len(names) <= 4:
        raise InvalidParameter("columns", ", ".join(names), "three or four names: person, item, rating and perhaps day")
    present = read_table(table, where).column_names
    optional = tuple(names) == RATING_COLUMNS and names[-1] not in present
    if tuple(names) == RATING_COLUMNS and not set(RATING_COLUMNS[:3]) <= set(present):
        hint = "say which columns hold person, item, rating and day: --columns user,film,stars,time"
        raise InvalidData(f"{where}: it has the columns {', '.join(present[:20])}; {hint}")
    wanted = names[:3] if optional else names
    read = columns(table, wanted, where=where)
    result = dict(zip(RATING_COLUMNS, read.values(), strict=False))
    for name, (written, column) in zip(RATING_COLUMNS, read.items(), strict=False):
        _refuse(missing(column), f"{where}, column {written!r}", "are empty; leave those lines out")
        if name == "day":
            result[name] = _days(column, f"{where}, column {written!r}")
        elif name == "rating" and kind(column) == "text":
            raise InvalidData(f"{where}, column {written!r}: there are texts; expected numbers")
    return result


def _days(column: Column, where: str) -> Column:
    """Days since 1970, or as they were counted, from dates, ISO times, days, or seconds or milliseconds since 1970."""
    if kind(column) == "text":
        try:
            column = np.array([_time(text) for text in column.tolist()], "datetime64[D]")
        except ValueError:
            wanted = "days, dates such as 2024-05-31, ISO times, or seconds since 1970"
            raise InvalidData(f"{where}: there are texts that are no times; expected {wanted}") from None
    if kind(column) == "date":
        return np.asarray(column.astype("datetime64[D]").astype(np.int64))
    size = float(np.median(np.abs(column)))
    a_day = 86_400_000 if size >= _MILLISECONDS else 86_400 if size >= _SECONDS else 1
    return np.asarray(np.floor(column / a_day).astype(np.int64))


def _time(text: str) -> np.datetime64:
    """The day of an ISO time, in universal time where it says its zone."""
    read = datetime.fromisoformat(str(text).strip())
    return np.datetime64((read if read.tzinfo is None else read.astimezone(UTC)).date())


def _ratings(table: dict[str, Column], person: Codes, item: Codes, items: int, where: str) -> Ratings:
    """Of several ratings of an item by one person the latest counts; without days, or on one day, the last line."""
    day = table.get("day", np.zeros(len(person), np.int64))
    order = np.lexsort((np.arange(len(person)), day, item, person))
    last = np.append((np.diff(person[order]) != 0) | (np.diff(item[order]) != 0), True)
    kept = np.sort(order[last])
    days = day[kept] if "day" in table else None
    try:
        return Ratings.of(person[kept], item[kept], table["rating"][kept], days, items=items)
    except InvalidData as error:
        raise InvalidData(f"{where}: {error}") from None


def _network(table: Any, more: Column, where: str, directed: bool) -> tuple[Network, Column]:
    """The network, and the names of its nodes; `more` are nodes that may have no edge."""
    source, target = _pairs(table, where)
    _refuse(missing(source) | missing(target), where, "lack an end; leave those lines out")
    codes = coded(source, target, more)
    nodes = int(max(side.max() for side in codes)) + 1
    strange, told = int((codes[2] > max(codes[0].max(), codes[1].max())).sum()), int((codes[2] >= 0).sum())
    if 2 * strange > told:
        raise InvalidData(
            f"truth: {strange} of {told} lines name a node that is in no edge of the {where} "
            "network; is it the right file? Its columns are the known node, then the released one"
        )
    try:
        network = Network.of(codes[0], codes[1], nodes=nodes, directed=directed)
    except InvalidData as error:
        raise InvalidData(f"{where}: {error}") from None
    alike = [source, target, more] if len({kind(c) for c in (source, target, more)}) == 1 else []
    every = np.concatenate(alike or [as_texts(column) for column in (source, target, more)])
    return network, distinct(every, np.concatenate(codes))


def _pairs(table: Any, where: str) -> tuple[Column, Column]:
    """The first two columns."""
    names = read_table(table, where).column_names[:2]
    if len(names) < 2:
        raise InvalidData(f"{where}: it has one column; expected two, with a header line")
    result = columns(table, names, where=where)
    return result[names[0]], result[names[1]]


def _truth(pairs: tuple[Column, Column], people: Column, images: Column) -> NDArray[np.int64]:
    who, whose = positions(pairs[0], people), positions(pairs[1], images)
    _refuse((whose < 0) & ~missing(pairs[1]), "truth", "name nobody of the release; leave the cell empty for that")
    listed = who[who >= 0]
    if len(np.unique(listed)) < len(listed):
        raise InvalidData(f"truth: {len(listed) - len(np.unique(listed))} people are listed twice; keep one line each")
    truth = np.full(len(people), -1, np.int64)
    truth[listed] = whose[who >= 0]
    return truth


def _refuse(bad: NDArray[np.bool_], where: str, what: str) -> None:
    if bad.any():
        raise InvalidData(f"{where}: {int(bad.sum())} lines {what} (the first is row {int(np.argmax(bad)) + 1})")
