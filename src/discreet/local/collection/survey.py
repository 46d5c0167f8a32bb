"""A survey: a small TOML or JSON document that says what is asked, of whom nothing else is known, and at which price.

::

    name = "commute"
    version = 1
    question = "How did you come to work today?"
    domain = ["on foot", "bicycle", "bus or train", "car"]
    randomizer = "k-rr"                # see RANDOMIZERS
    epsilon = "ln 3"                   # of one report: a number, or the logarithm of one
    times = 1                          # how many reports one person may ever send

Places are asked for with an area, in km, and ε for each km::

    randomizer = "planar laplace"
    epsilon = "ln 2 at 1 km"

    [domain]
    latitude = 37.7855
    longitude = -122.4075
    width = 3
    height = 3
    cell = "0.1"

The device reads the document, randomizes the answer and sends one line (`Report`); the collector reads the same
document. The digest of the document is on every report: change anything, and reports are of another survey.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, log_down, plain, rational, sqrt_bounds
from discreet.fields import Choice, Converted, Integer
from discreet.local.oracles.hashing import OptimizedHashing
from discreet.local.oracles.oracle import Oracle
from discreet.local.oracles.responses import KRR, HadamardResponse
from discreet.local.oracles.sets import OptimizedUnary, SubsetSelection, SymmetricUnary
from discreet.local.places.areas import Area
from discreet.local.places.planar import PlanarReport, per_km
from discreet.noise import Entropy, SystemEntropy
from discreet.privacy.loss import Loss, PerDistance

Domain = tuple[str, ...] | Area

PLACES = "planar laplace"
RANDOMIZERS: Mapping[str, type] = {
    "k-rr": KRR,
    "hadamard": HadamardResponse,
    "optimized hashing": OptimizedHashing,
    "subset": SubsetSelection,
    "optimized unary": OptimizedUnary,
    "symmetric unary": SymmetricUnary,
    PLACES: PlanarReport,
}
"""The randomizers that a survey can name."""

_FIRST_WORDS = {"k-rr": "flat", "optimized hashing": "optimised hashing", "optimized unary": "optimised unary"}
_TODAYS_WORDS = {first: word for word, first in _FIRST_WORDS.items()}
"""How the first surveys wrote it, and under the key "randomiser": they still open, and digests are of that spelling."""

_FIELDS = ("name", "version", "question", "domain", "randomizer", "epsilon", "times")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
_LOGARITHM = re.compile(r"\s*ln\s*([\d./eE+-]+)\s*")
_MOST_LABELS = 100_000
_MOST_TEXT = 1000
_AREAS = (
    ("latitude", "longitude", "width", "height", "cell"),
    ("south", "west", "north", "east", "cell"),
    ("width", "height", "cell"),
    ("rows", "columns", "cell", "latitude", "longitude"),
    ("rows", "columns", "cell"),
)
MOST_VERSION = 10**9
MOST_LINE = 1_000_000
"""Characters of a line that is read at all: the longest report, of a set of 100,000 answers, has 33,000."""
_REPORT_FIELDS = ("survey", "version", "report", "id")
_ID = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}/[1-9][0-9]{0,9}/[0-9a-f]{32}")


def _read_name(value: str, name: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidParameter(name, value, "1 to 60 of a–z, 0–9, - and _, starting with a letter or digit")
    return value


def _read_domain(domain: Sequence[str] | Area, name: str) -> Domain:
    """An area, or the list of answers, each once."""
    if isinstance(domain, Area):
        return domain
    if not isinstance(domain, list | tuple) or not 2 <= len(domain) <= _MOST_LABELS:
        got = f"{len(domain)} answers" if isinstance(domain, list | tuple) else domain
        raise InvalidParameter(name, got, f"a list of 2 to {_MOST_LABELS:,} answers")
    labels = tuple(_read_text(label, name) for label in domain)
    if len(set(labels)) < len(labels):
        raise InvalidParameter(name, Counter(labels).most_common(1)[0][0], "each answer once")
    return labels


def _read_text(value: object, name: str) -> str:
    fine = isinstance(value, str) and value == value.strip() and 0 < len(value) <= _MOST_TEXT and value.isprintable()
    if not fine:
        raise InvalidParameter(name, value, f"text of 1 to {_MOST_TEXT} printable characters, no spaces around it")
    return cast(str, value)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What is asked, and how an answer is randomized before it leaves the device.

    Guarantee: a report is ε-LDP for the answer (for places: ε for each km, see `PlanarReport`), whoever collects it;
    `times` reports about one person together are (times·ε)-LDP.
    Proof. Each report is the output of the named randomizer, which proves it, and of a random number that does not look
    at the answer; independent reports add up. Whether a person sends more than `times` is for the device to prevent.

    >>> survey = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="k-rr",
    ...                 epsilon="ln 3", times=1)
    >>> survey.respond("yes").report in (0, 1)
    True
    """

    name: Converted[str, str] = Converted(_read_name)
    version: Integer = Integer(at_least=1, at_most=MOST_VERSION)
    question: Converted[str, str] = Converted(_read_text)
    domain: Converted[Sequence[str] | Area, Domain] = Converted(_read_domain)
    randomizer: Choice = Choice(*RANDOMIZERS)
    epsilon: Converted[Number, str] = Converted(
        lambda epsilon, name: epsilon.strip() if isinstance(epsilon, str) else plain(rational(epsilon, name))
    )
    times: Integer = Integer(at_least=1, at_most=1_000_000)

    def __post_init__(self) -> None:
        if self.places != (self.randomizer == PLACES):
            wanted = "an area in km" if self.randomizer == PLACES else "a list of answers"
            got = "an area" if self.places else "a list"
            raise InvalidParameter("domain", got, f"{wanted} for {self.randomizer!r}")
        self.randomizes()  # refuses an ε or a size that it cannot have

    @property
    def places(self) -> bool:
        """Whether answers are places of an area."""
        return isinstance(self.domain, Area)

    @property
    def area(self) -> Area:
        """The area, of a survey of places."""
        if not isinstance(self.domain, Area):
            raise InvalidParameter("survey", self.name, "a survey of places", "its domain is a list of answers")
        return self.domain

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers that can be given; for places, the cells by number."""
        return tuple(map(str, range(self.domain.size))) if isinstance(self.domain, Area) else self.domain

    # The randomizer

    def oracle(self) -> Oracle:
        """The randomizer of a list of answers, with its estimator."""
        if self.places:
            raise InvalidParameter("survey", self.name, "a survey with a list of answers", "this one is of places")
        return cast(Oracle, RANDOMIZERS[self.randomizer](epsilon=_epsilon(self.epsilon), size=len(self.labels)))

    def planar(self) -> PlanarReport:
        """The randomizer of places."""
        return PlanarReport(self.area, epsilon=per_km(self.epsilon))

    def randomizes(self) -> Oracle | PlanarReport:
        """The randomizer, of either kind."""
        return self.planar() if self.places else self.oracle()

    @property
    def loss(self) -> Loss:
        """What one report costs."""
        return self.randomizes().loss

    @property
    def whole_loss(self) -> Loss:
        """What one report costs between any two answers: for places, between those furthest apart.

        >>> city = Survey(name="c", version=1, question="Where?", domain=Area.plane(width=3, height=4, cell=1),
        ...               randomizer=PLACES, epsilon="1 per km", times=1)
        >>> float(city.whole_loss.epsilon.__round__(3))
        6.414
        """
        loss = self.loss
        if not isinstance(loss, PerDistance):
            return loss
        square = self.area.width**2 + self.area.height**2
        return loss.within(Fraction(sqrt_bounds(square, 32)[1], 1 << 32))

    @property
    def cost(self) -> Fraction:
        """ε of one report; for places, of each km."""
        return self.randomizes().epsilon

    # On the device

    def respond(self, answer: object, *, entropy: Entropy | None = None) -> "Report":
        """The report of one answer: a label; for places, (latitude, longitude), or (x, y) in km on a plain area.

        Guarantee: as the class. The answer is in no message and is not kept.
        """
        source = SystemEntropy() if entropy is None else entropy
        noisy = self.randomizes().randomize([self.value(answer)], entropy=source)[0]
        payload = int(noisy) if noisy.ndim == 0 else tuple(noisy.tolist())
        return Report(self.digest, self.version, payload, source.words(2).tobytes().hex())

    def value(self, answer: object) -> int:
        """The number of an answer in the domain. A place outside the area counts as the nearest cell of it.

        >>> city = Survey(name="c", version=1, question="Where?", domain=Area.plane(width=2, height=2, cell=1),
        ...               randomizer=PLACES, epsilon="1 per km", times=1)
        >>> city.value((1.5, 0.5)), city.value("0.5, 9")
        (1, 2)
        """
        if isinstance(self.domain, Area):
            return _cell(self.domain, answer)
        if not isinstance(answer, str) or answer not in self.domain:
            shown = ", ".join(self.domain[:10]) + (", …" if len(self.domain) > 10 else "")
            raise InvalidData(f"answer: not one that the survey offers; expected one of: {shown}")
        return self.domain.index(answer)

    # The document

    def to_json(self) -> dict[str, Any]:
        """The document, in the one form that the digest is of.

        >>> survey = parse('{"name": "coin", "version": 1, "question": "Heads?", "domain": ["no", "yes"],'
        ...                ' "randomizer": "k-rr", "epsilon": 0.5, "times": 2}')
        >>> Survey.from_json(survey.to_json()) == survey, survey.to_json()["epsilon"]
        (True, '0.5')
        """
        document = {field: getattr(self, field) for field in _FIELDS}
        return document | {"domain": _area_json(self.domain) if isinstance(self.domain, Area) else list(self.domain)}

    @classmethod
    def from_json(cls, document: object) -> "Survey":
        """A survey from a document that was read: exactly the known fields."""
        fields = _exactly(_respelled(document), "survey", (_FIELDS,))
        domain = fields["domain"]
        if isinstance(domain, dict):
            fields["domain"] = _read_area(domain)
        elif not isinstance(domain, list):
            raise InvalidParameter("domain", domain, "a list of answers, or a table that describes an area")
        return cls(**fields)

    @property
    def digest(self) -> str:
        """The name and version, and 128 bits of the SHA-256 of the document: what a report says that it answers.

        >>> Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="k-rr", epsilon=1,
        ...        times=1).digest
        'coin/1/...'
        """
        document = self.to_json()
        word = document.pop("randomizer")
        document["randomiser"] = _FIRST_WORDS.get(word, word)  # so that the reports of the first surveys stay theirs
        text = json.dumps(document, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return f"{self.name}/{self.version}/{sha256(text.encode()).hexdigest()[:32]}"


def read_survey(path: str | Path) -> Survey:
    """Read and check a survey file, TOML or (named .json) JSON.

    >>> read_survey("missing.toml")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: survey: got 'missing.toml', expected a file that can be read; No such file...
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        hint = error.strerror or str(error)
        raise InvalidParameter("survey", str(path), "a file that can be read", hint) from None
    except (UnicodeDecodeError, ValueError):
        raise InvalidParameter("survey", str(path), "a text file in UTF-8") from None
    return parse(text)


def parse(text: str) -> Survey:
    """A survey from its text: JSON if it starts with a brace, else TOML."""
    try:
        if text.lstrip().startswith("{"):
            return Survey.from_json(json.loads(text))
        return Survey.from_json(tomllib.loads(text))
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidParameter("survey", "text that is neither", "TOML or JSON", str(error)) from None
    except RecursionError:
        raise InvalidParameter("survey", "text of too many brackets", "TOML or JSON") from None


# Reading


def _respelled(document: object) -> object:
    """A document as it would be written today."""
    if not isinstance(document, dict):
        return document
    fields = dict(document)
    if "randomiser" in fields and "randomizer" not in fields:
        fields["randomizer"] = fields.pop("randomiser")
    word = fields.get("randomizer")
    return fields | {"randomizer": _TODAYS_WORDS.get(word, word)} if isinstance(word, str) else fields


def _epsilon(words: str) -> Fraction:
    """A number or "ln 3"; logarithms are rounded down, so that no more than what was said is spent."""
    match = _LOGARITHM.fullmatch(words)
    if match is None:
        return rational(words, "epsilon", above=0)
    return log_down(rational(match.group(1), "epsilon", above=1, at_most=10**100))


def _read_area(fields: dict[str, Any]) -> Area:
    given = _exactly(fields, "domain", _AREAS)
    match given:
        case {"south": _}:
            return Area.between(**given)
        case {"rows": _, "latitude": latitude, "longitude": longitude}:
            shape = {name: given[name] for name in ("rows", "columns", "cell")}
            return Area(**shape, center=(latitude, longitude))
        case {"rows": _}:
            return Area(**given)
        case {"latitude": latitude, "longitude": longitude}:
            size = {name: given[name] for name in ("width", "height", "cell")}
            return Area.around(latitude, longitude, **size)
        case _:
            return Area.plane(**given)


def _area_json(area: Area) -> dict[str, Any]:
    shape = {"rows": area.rows, "columns": area.columns, "cell": plain(area.cell)}
    if area.center is None:
        return shape
    return shape | {"latitude": area.center[0], "longitude": area.center[1]}


def _exactly(value: object, where: str, choices: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """A table with exactly the fields of one of the choices."""
    if not isinstance(value, dict):
        raise InvalidParameter(where, value, "a table of fields")
    if any(set(value) == set(choice) for choice in choices):
        return dict(value)
    closest = max(choices, key=lambda choice: len(set(choice) & set(value)))
    missing = [f"no {name!r}" for name in closest if name not in value]
    unknown = [f"an unknown {name!r}" for name in value if name not in closest]
    expected = " or ".join(f"the fields {', '.join(choice)}" for choice in choices[:3])
    raise InvalidParameter(where, ", ".join(missing + unknown), expected)


def _cell(area: Area, answer: object) -> int:
    parts = answer.split(",") if isinstance(answer, str) else answer
    words = "latitude, longitude" if area.center else "x, y in km"
    if not isinstance(parts, list | tuple | np.ndarray) or len(parts) != 2 or any(np.ndim(part) for part in parts):
        raise InvalidData(f"answer: expected two numbers: {words}")
    first, second = ([part] for part in parts)
    if area.center:
        located = area.locate(first, second, outside="clamp")
    else:
        located = area.cells_of(np.array([[_number(part) for part in parts]]), outside="clamp")
    if located.malformed:
        raise InvalidData(f"answer: expected two numbers: {words}")
    if located.outside:
        raise InvalidData("answer: the place is too far outside the area of the survey")
    return int(located.cells[0])


def _number(part: object) -> float:
    try:
        return float(cast(float, part))
    except (TypeError, ValueError):
        return float("nan")


# Reports


@dataclass(frozen=True, slots=True)
class Report:
    """What one person sends: ``{"survey":"commute/1/9f…","version":1,"report":3,"id":"5be0…"}``.

    `report` is one whole number, or a tuple of 64-bit words (unary encodings and subsets). `id` is 128 random bits,
    drawn for this report alone: a line that comes twice is counted once.
    """

    survey: str
    version: int
    report: int | tuple[int, ...]
    id: str

    def __post_init__(self) -> None:
        if not isinstance(self.survey, str) or not _DIGEST.fullmatch(self.survey):
            raise InvalidParameter("survey", self.survey, "the digest of a survey: name/version/32 hexadecimal digits")
        integer(self.version, "version", at_least=1, at_most=MOST_VERSION)
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise InvalidParameter("id", self.id, "32 hexadecimal digits")
        for word in self.words:
            integer(word, "report", at_least=-(2**63), at_most=2**63 - 1)

    @property
    def words(self) -> tuple[int, ...]:
        """The report as words: one, if it is a single number."""
        return self.report if isinstance(self.report, tuple) else (self.report,)

    @property
    def line(self) -> str:
        """The report as one line of JSON, without an end of line.

        >>> Report("coin/1/" + "0" * 32, 1, 0, "f" * 32).line[-52:]
        ',"report":0,"id":"ffffffffffffffffffffffffffffffff"}'
        """
        document = {"survey": self.survey, "version": self.version, "report": self.report, "id": self.id}
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def parse(cls, line: str | bytes) -> "Report":
        """Read a line; what is not a report is refused with the reason.

        >>> Report.parse('{"survey": 5}')
        Traceback (most recent call last):
        discreet.errors.InvalidData: report: no 'version', expected the fields survey, version, report, id
        """
        document = _document(line)
        missing = [f"no {name!r}" for name in _REPORT_FIELDS if name not in document]
        unknown = ["an unknown field" for name in document if name not in _REPORT_FIELDS]
        if missing or unknown:
            raise InvalidData(f"report: {(missing + unknown)[0]}, expected the fields {', '.join(_REPORT_FIELDS)}")
        payload = document["report"]
        try:
            return cls(**document | {"report": tuple(payload) if isinstance(payload, list) else payload})
        except InvalidParameter as error:
            raise InvalidData(f"report: its {error.name} is not {error.expected}") from None


# Reading


def _document(line: str | bytes) -> dict[str, Any]:
    if len(line) > MOST_LINE:
        raise InvalidData(f"report: the line is longer than {MOST_LINE:,} characters")
    try:
        text = line.decode() if isinstance(line, bytes) else line
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise InvalidData("report: the line is not UTF-8") from None
    except (ValueError, RecursionError):  # JSONDecodeError; a number of thousands of digits; a million brackets
        raise InvalidData("report: the line is not JSON, or names a field twice") from None
    if not isinstance(document, dict):
        raise InvalidData("report: the line is not a JSON object")
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError
    return fields


def _no_constant(_: str) -> float:
    raise ValueError
