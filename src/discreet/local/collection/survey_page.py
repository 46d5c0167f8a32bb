"""The page: one static HTML file that asks a survey's question and randomizes the answer in the browser.

It loads nothing and may connect only to where reports go: its Content-Security-Policy names the one script and the one
style by their hashes. Respondents see what will be sent, what it costs, and what was given out before.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from fractions import Fraction
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from discreet.errors import InternalError, InvalidParameter
from discreet.exact import exp_up, rational, text_down, text_up
from discreet.local.collection.survey import Survey
from discreet.local.oracles.hashing import Field, OptimizedHashing
from discreet.local.oracles.oracle import Oracle
from discreet.local.oracles.responses import KRR, HadamardResponse
from discreet.local.oracles.sets import OptimizedUnary, SubsetSelection, SymmetricUnary
from discreet.local.places import areas
from discreet.local.places.areas import Area
from discreet.local.places.planar import PlanarReport

_MOST_ANSWERS = 10_000
_SCRIPTS = ("chances", "answers", "places", "page")
_MARK = re.compile("%%([A-Z]+)%%")
_ADDRESS = re.compile(r"[A-Za-z0-9:/?#\[\]@!$&()*+=._~%-]+")  # no quotes, spaces, commas or semicolons
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_HERE = ("localhost", "127.0.0.1", "::1")


def page(survey: Survey, *, endpoint: str | None = None) -> str:
    """The page of a survey; `endpoint` is where it POSTs reports, one line each.

    Guarantee: what the page sends, copies or saves is a report of `survey.randomizes()`, with the same probabilities.
    Proof. They are the same rationals, printed as whole numbers. The page decides with uniform whole numbers below
    their denominators, by rejection from the bits of `crypto.getRandomValues`, in integers of any size: no float
    decides anything. For places, probabilities that are no rationals are compared bit by bit with rational bounds until
    they are decided; floats only find the cell that a place lies in. The tests compare the channels in a real browser.

    >>> survey = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="k-rr", epsilon=1,
    ...                 times=1)
    >>> "connect-src 'none'" in page(survey)
    True
    """
    if not survey.places and len(survey.labels) > _MOST_ANSWERS:
        raise InvalidParameter("domain", f"{len(survey.labels)} answers", f"at most {_MOST_ANSWERS:,} on a page")
    template = _template()
    document = {
        "digest": survey.digest,
        "version": survey.version,
        "question": survey.question,
        "answers": [] if survey.places else list(survey.labels),
        "area": _area(survey.area) if survey.places else None,
        "times": survey.times,
        "epsilon": _few_digits(survey.cost),
        "how": _together(how_words(survey)),
        "cost": _together(cost_words(survey)),
        "endpoint": endpoint,
        "channel": channel_of(survey.randomizes()),
    }
    parts = {
        "POLICY": _policy(template, _origin(endpoint)),
        "TITLE": escape(survey.question),
        "SURVEY": _data(document),
    }
    return _MARK.sub(lambda mark: parts[mark[1]], template)


def channel_of(oracle: Oracle | PlanarReport) -> dict[str, Any]:
    """What the page needs to know of a randomizer: whole numbers, and probabilities as two of them.

    >>> channel_of(KRR(epsilon=1, size=3))["kind"]
    'krr'
    """
    match oracle:
        case KRR():
            return {"kind": "krr", "size": oracle.size, "truth": _ratio(oracle.truth)}
        case HadamardResponse():
            shape = {"blocks": oracle.blocks, "block": oracle.block}
            return {"kind": "hadamard", **shape, "truth": _ratio(oracle.truth)}
        case OptimizedHashing():
            shape = {"hashes": oracle.hashes, "digits": oracle.digits, "functions": oracle.functions}
            return {"kind": "hashing", **shape, **_field(oracle.hashes), "truth": _ratio(oracle.truth)}
        case SubsetSelection():
            return {"kind": "subset", "chosen": oracle.chosen, "truth": _ratio(oracle.truth)}
        case OptimizedUnary() | SymmetricUnary():
            return {"kind": "unary", "truth": _ratio(oracle.truth), "other": _ratio(oracle.other)}
        case PlanarReport(noise="laplace", outside="keep"):
            shape = {"rows": oracle.area.rows, "columns": oracle.area.columns, "margin": oracle.margin}
            return {"kind": "planar", **shape, "rate": _ratio(1 / oracle.scale)}
    raise InvalidParameter("randomizer", type(oracle).__name__, "one that pages know")


# In words


def _together(words: str) -> str:
    """Words of a page, in which no line ends before a percent sign."""
    return words.replace(" %", "\N{NO-BREAK SPACE}%")


def how_words(survey: Survey) -> str:
    """What is done to an answer, for whoever gives it.

    >>> how_words(Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="k-rr",
    ...                  epsilon="ln 3", times=1))
    'Before anything is sent, ... With probability 75 % the report is your answer, otherwise ...'
    """
    before = "Before anything is sent, this device changes your answer at random."
    if survey.places:
        return f"{before} {_moved(survey.planar())} From many reports, one can tell how many people are where."
    oracle = survey.oracle()
    chance = f"{text_up(100 * oracle.truth, 3)} %"  # type: ignore[attr-defined]
    match oracle:
        case KRR():
            what = f"With probability {chance} the report is your answer, otherwise another one, chosen at random."
        case HadamardResponse() | OptimizedHashing():
            what = f"The report is a code that matches many answers; with probability {chance} yours is among them."
        case _:
            what = f"The report is a set of answers; with probability {chance} yours is among them."
    return (
        f"{before} {what} One report does not reveal what you said; from many, one can tell how many people gave each "
        "answer."
    )


def cost_words(survey: Survey) -> str:
    """What reports cost, in words.

    >>> cost_words(Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="k-rr",
    ...                   epsilon="ln 3", times=1))
    'A report costs ε = 1.099: it is at most 3 times as likely as it would be with any other answer. ... 75 % ...'
    """
    each = survey.cost
    if survey.places:
        slack = survey.area.slack
        start = (
            f"A report costs ε = {_few_digits(each)} for each km: it is {_growth(each * (1 + slack))} as likely as it "
            f"would be from a place 1 km away, and {_growth(each * (2 + slack))} as from 2 km away (the cells of the "
            "map, which add to the distance, are counted)."
        )
    else:
        start = (
            f"A report costs ε = {_few_digits(each)}: it is {_growth(each)} as likely as it would be with any other "
            f"answer. Whoever thinks two answers equally likely can be at most {_sure(each)} sure of one of them "
            "afterward."
        )
    if survey.times == 1:
        return f"{start} You are asked once."
    total = f"ε = {_few_digits(survey.times * each)}" + (" for each km" if survey.places else "")
    return f"{start} You are asked at most {survey.times} times, which costs at most {total} in all."


def _moved(report: PlanarReport) -> str:
    """How far reports of places are from the truth; never further than they are."""
    near, far = (report.within(share) for share in ("0.5", "0.95"))
    if near < float(report.area.cell) / 2:
        kept = text_up(min(Fraction(100), 100 * rational(report.stays * (1 + 1e-9), "chance")), 3)
        return f"The report is the cell of the map that you are in {kept} % of the time, and otherwise another one."
    beyond = f"at least half of the time more than {text_down(near, 2)} km away"
    rarely = f"at least one time in twenty more than {text_down(far, 2)} km"
    return (
        f"The report is another place, chosen at random: {beyond}, {rarely}. One report does not reveal where you are."
    )


def _few_digits(epsilon: Fraction) -> str:
    """A few digits, rounded up."""
    return text_up(epsilon, 4)


def _growth(epsilon: Fraction) -> str:
    if epsilon > 10:
        return "up to more than 20,000 times"
    near = round(exp_up(epsilon), 20)  # 3, not 3.01, where ε is ln 3 to 28 digits
    return f"at most {float(-(-near * 100 // 1)) / 100:g} times"


def _sure(epsilon: Fraction) -> str:
    if epsilon > 10:
        return "100 %"
    factor = exp_up(epsilon)
    return f"{float(-(-round(factor / (1 + factor), 20) * 1000 // 1)) / 10:g} %"


# Inside


def _template() -> str:
    """The page with its script, which is the same for all surveys, so that one hash names it."""
    folder = files("discreet.local.collection").joinpath("browser")
    script = "\n".join(folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)
    text = folder.joinpath("page.html").read_text(encoding="utf-8")
    return text.replace("%%SCRIPT%%", f'"use strict";\n(() => {{\n{script}}})();\n')


def _area(area: Area) -> dict[str, Any]:
    """What the page needs to find the cell of a place."""
    shape = {"rows": area.rows, "columns": area.columns, "cell": float(area.cell)}
    shape |= {"up": float(area.cell.denominator), "down": float(area.cell.numerator)}
    if area.center is None:
        return shape | {"center": None}
    sizes = {"width": float(area.width), "height": float(area.height)}
    reach = {"factor": area._factor, "clamped": area._clamped_from}
    series = {"radius": areas._RECTIFYING, "eccentricity": areas._ECCENTRICITY, "alpha": areas._ALPHA}
    return shape | sizes | reach | {"center": area.center, "map": series}


def _ratio(p: Fraction) -> list[str]:
    """Two whole numbers as text: JSON numbers of a browser have 53 bits."""
    return [str(p.numerator), str(p.denominator)]


def _field(order: int) -> dict[str, int]:
    """Of GF(2^bits), the polynomial that products are reduced by: x^bits is its other part. For primes, none."""
    if order & (order - 1):
        return {"bits": 0, "polynomial": 0}
    bits = order.bit_length() - 1
    if bits == 1:
        return {"bits": 1, "polynomial": 0b11}
    reduced = int(Field.of_order(order).products[2 * order + order // 2])  # x · x^(bits−1)
    return {"bits": bits, "polynomial": order ^ reduced}


def _origin(endpoint: str | None) -> str | None:
    """The scheme, host and port of an endpoint; refused unless it is an https address (or http on this machine)."""
    if endpoint is None:
        return None
    expected = "an address such as https://example.org/reports (http only for localhost)"
    if not isinstance(endpoint, str) or not _ADDRESS.fullmatch(endpoint) or len(endpoint) > 2000:
        raise InvalidParameter("endpoint", endpoint, expected)
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidParameter("endpoint", endpoint, expected) from None
    secure = parts.scheme == "https" or (parts.scheme == "http" and host in _HERE)
    if not secure or not host or "@" in parts.netloc:
        raise InvalidParameter("endpoint", endpoint, expected)
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + (f":{port}" if port is not None else "")


def _policy(template: str, origin: str | None) -> str:
    """Nothing but the page's own script and style, by their hashes, and connections to the collector."""
    rules: Mapping[str, str] = {
        "default-src": "'none'",
        "script-src": _hash(_SCRIPT, template),
        "style-src": _hash(_STYLE, template),
        "connect-src": origin or "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(part: re.Pattern[str], template: str) -> str:
    result = part.findall(template)
    if len(result) != 1 or _MARK.search(result[0]):
        raise InternalError("the template of the page must have one script and one style, the same for all surveys")
    return f"'sha256-{b64encode(sha256(result[0].encode()).digest()).decode()}'"


def _data(document: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(document, ensure_ascii=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
