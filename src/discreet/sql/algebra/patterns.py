"""Regular expressions that need few states, so that no text can make the engine slow.

DuckDB matches with RE2, which never backtracks: it builds a deterministic automaton as texts need its states, and reads
a text once. But a pattern such as a.{20}z needs more states than fit, and each row would pay for building them (0.3 to
3 µs a character were measured). So a pattern is taken apart here, its automaton is built, and only small ones are used.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, NoReturn

from discreet.sql.algebra.kinds import Unsupported

_MOST_NODES = 200
_MOST_STATES = 100
_MOST_REPEATS = 20
_SPECIAL = "\\.[]{}()*+?^$|"
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": " \t\n\f\r"}
_HINT = (
    "use plain characters, . [a-z] [^a-z] \\d \\w \\s, groups, |, * + ? {2,5}, and ^ $ at the ends; for any case, "
    "LOWER(x)"
)


class Automaton(NamedTuple):
    """How large a pattern is: the states that searching with it needs, and the steps that building them takes."""

    states: int
    steps: int


@dataclass(slots=True)
class _Net:
    """A non-deterministic automaton: from each node by a set of letters to another, and freely to others."""

    moves: list[tuple[frozenset[int], int] | None] = field(default_factory=list)
    free: list[list[int]] = field(default_factory=list)

    def node(self) -> int:
        if len(self.moves) >= _MOST_NODES:
            raise Unsupported("a pattern this large", "use a shorter one, with fewer repetitions")
        self.moves.append(None)
        self.free.append([])
        return len(self.moves) - 1


@lru_cache(maxsize=200)
def automaton(pattern: str) -> Automaton:
    """The size of a pattern's automaton; `Unsupported` where it is large, or holds what is not understood here.

    >>> automaton("^C[0-9]{2}").states
    5
    >>> automaton("a.{20}z")
    Traceback (most recent call last):
    discreet.sql.algebra.kinds.Unsupported: a pattern that needs so many states
    """
    reader = _Reader(pattern)
    net = _Net()
    start, end = reader.read(net)
    letters = _told_apart(net, range(_OTHER, len(reader.sets)))
    if not pattern.startswith("^"):
        net.free[start].append(loop := net.node())
        net.moves[loop] = (frozenset(range(-1, len(reader.sets))), start)
    states = {_closure(net, [start])}
    waiting = list(states)
    while waiting:
        state = waiting.pop()
        for letter in letters:
            targets = [move[1] for node in state if (move := net.moves[node]) and letter in move[0]]
            reached = _closure(net, targets)
            if end in reached and not pattern.endswith("$"):
                reached = frozenset([end])  # found: nothing further is read
            if reached not in states:
                states.add(reached)
                waiting.append(reached)
        if len(states) > _MOST_STATES:
            raise Unsupported("a pattern that needs so many states", "use fewer repetitions that can overlap")
    return Automaton(len(states), len(letters) * sum(map(len, states)))


_OTHER = -1
"""All characters that a pattern does not tell apart from others."""


def _told_apart(net: _Net, letters: range) -> list[int]:
    """One letter for each kind of letters that all nodes treat alike."""
    kinds = {
        frozenset(at for at, move in enumerate(net.moves) if move and letter in move[0]): letter for letter in letters
    }
    return list(kinds.values())


def _closure(net: _Net, nodes: list[int]) -> frozenset[int]:
    reached, waiting = set(nodes), list(nodes)
    while waiting:
        for node in net.free[waiting.pop()]:
            if node not in reached:
                reached.add(node)
                waiting.append(node)
    return frozenset(reached)


class _Reader:
    """A pattern, read from left to right. `sets` are the sets of characters that it names, each cut by the others."""

    def __init__(self, pattern: str) -> None:
        self.text, self.at = pattern, 0
        self.sets: list[tuple[int, int]] = _cuts(pattern)

    def read(self, net: _Net) -> tuple[int, int]:
        if not self.text or "\n" in self.text or "\0" in self.text:
            self.fail()
        self.at += self.text.startswith("^")
        ends = self._choice(net)
        if self.at < len(self.text):
            self.fail()
        return ends

    def _choice(self, net: _Net) -> tuple[int, int]:
        start, end = net.node(), net.node()
        while True:
            first, last = self._sequence(net)
            net.free[start].append(first)
            net.free[last].append(end)
            if self._peek() != "|":
                return start, end
            self.at += 1

    def _sequence(self, net: _Net) -> tuple[int, int]:
        start = last = net.node()
        while self._peek() and self._peek() not in "|)":
            if self._peek() == "$" and self.at == len(self.text) - 1:
                self.at += 1
                break
            begin = self.at
            atom = self._atom(net)
            low, high = self._repeats()
            after = self.at
            for turn in range(max(low, high or low, 1)):
                if turn:
                    self.at = begin
                    atom = self._atom(net)
                following = net.node()
                net.free[last].append(atom[0])
                net.free[atom[1]].append(following)
                if turn >= low:
                    net.free[last].append(following)
                last = following
            if high is None:
                net.free[atom[1]].append(atom[0])
            self.at = after
        return start, last

    def _atom(self, net: _Net) -> tuple[int, int]:
        sign = self._peek()
        if sign == "(":
            self.at += 3 if self.text.startswith("(?:", self.at) else 1
            inner = self._choice(net)
            if self._peek() != ")":
                self.fail()
            self.at += 1
            return inner
        ranges, negated = _read_set(self, sign)
        letters = frozenset(place for place, (low, _) in enumerate(self.sets) if any(a <= low <= b for a, b in ranges))
        every = frozenset(range(-1, len(self.sets)))
        start, end = net.node(), net.node()
        net.moves[start] = (every - letters if negated else letters, end)
        return start, end

    def _repeats(self) -> tuple[int, int | None]:
        """How often at least and at most (None: without end) what stands before is repeated."""
        sign = self._peek()
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign, (1, 1))
        if sign == "{":
            close = self.text.find("}", self.at)
            least, comma, most = self.text[self.at + 1 : close].partition(",")
            if close < 0 or not (least.isascii() and least.isdecimal()) or not (most == "" or most.isdecimal()):
                self.fail()
            low = int(least[:4])
            high = low if not comma else int(most[:4]) if most else None
            if max(low, high or 0) > _MOST_REPEATS or (high is not None and (high < low or not high)):
                raise Unsupported("a pattern with so many repetitions", f"use at most {_MOST_REPEATS}")
            self.at = close
        if sign and sign in "*+?{":
            self.at += 1
            if (following := self._peek()) and following in "*+?{":
                self.fail()
        return low, high

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def fail(self) -> NoReturn:
        """Say where the pattern stops being understood."""
        raise Unsupported(f"a pattern with {self.text[self.at : self.at + 2]!r} here", _HINT)


Ranges = list[tuple[int, int]]


def _read_set(reader: _Reader, sign: str) -> tuple[Ranges, bool]:
    """A character, or a set of them; whether all others are meant."""
    text = reader.text
    if sign == ".":
        reader.at += 1
        return [], True
    if sign == "\\":
        letter = text[reader.at + 1 : reader.at + 2]
        reader.at += 2
        if letter and letter.lower() in _CLASSES:
            return _ranges(_CLASSES[letter.lower()]), letter.isupper()
        if not letter or letter not in _SPECIAL + "-/":
            reader.at -= 2
            reader.fail()
        return [(ord(letter), ord(letter))], False
    if sign == "[":
        close = text.find("]", reader.at + 1)
        inner = text[reader.at + 1 : close]
        negated = inner.startswith("^")
        inner = inner[negated:]
        if close < 0 or not inner or any(part in inner for part in ("[", "&&", "--", "~~", "||")):
            reader.fail()
        for name, listed in _CLASSES.items():
            inner = inner.replace(f"\\{name}", listed)
        if "\\" in inner or inner.startswith("-") or inner.endswith("-") or "^" in inner:
            reader.fail()
        reader.at = close + 1
        ranges = _ranges(inner)
        if any(low > high for low, high in ranges):
            reader.fail()
        return ranges, negated
    if not sign or sign in _SPECIAL:
        reader.fail()
    reader.at += 1
    return [(ord(sign), ord(sign))], False


def _ranges(inner: str) -> Ranges:
    result, place = [], 0
    while place < len(inner):
        ranged = inner[place + 1 : place + 2] == "-" and place + 2 < len(inner)
        result.append((ord(inner[place]), ord(inner[place + 2 if ranged else place])))
        place += 3 if ranged else 1
    return result


def _cuts(pattern: str) -> Ranges:
    """The characters that a pattern names, in pieces that it tells apart: at most two for each of its characters."""
    edges = set()
    for low, high in _named(pattern):
        edges |= {low, high + 1}
    ordered = sorted(edges)
    return [(low, high - 1) for low, high in pairwise(ordered)]


def _named(pattern: str) -> Iterator[tuple[int, int]]:
    for letter in pattern:
        yield ord(letter), ord(letter)
    for place, sign in enumerate(pattern):
        if sign == "-" and 0 < place < len(pattern) - 1 and pattern[place - 1] <= pattern[place + 1]:
            yield ord(pattern[place - 1]), ord(pattern[place + 1])
    for name, listed in _CLASSES.items():
        if f"\\{name}" in pattern.lower():
            yield from _ranges(listed)
