"""The settings of an account as one line of JSON that the ledger keeps: a budget, caps, and what they protect.

What a budget protects (whom, against which change) is part of what ε means, so it cannot change unseen either.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category, normalize

from discreet.errors import InvalidParameter, LedgerDamaged
from discreet.exact import plain
from discreet.privacy.budget import Budget
from discreet.privacy.unit import words


class Settings(NamedTuple):
    """The budget of an account, caps by analyst, and the cap of everybody who is not named."""

    budget: Budget
    caps: Mapping[str, Budget]
    everyone: Budget | None = None

    def cap_of(self, analyst: str) -> Budget | None:
        """The cap of an analyst, by name or as one of everyone; None where there is none."""
        return self.caps.get(analyst, self.everyone)

    def admits(self, analyst: str) -> bool:
        """Whether this analyst may ask at all.

        Where analysts are named, others are refused unless everyone has a cap. Where nobody is named and there is no
        cap for everyone, any name may spend the whole budget: the dataset is its owner's own tool.
        """
        return not self.caps or self.cap_of(analyst) is not None


class Allowance(NamedTuple):
    """What one caller may spend beside what the owner's settings grant: in all, and within any 24 hours.

    It only narrows: who may ask at all is said by the settings.
    """

    total: Budget | None = None
    daily: Budget | None = None


NO_LIMIT = Allowance()
"""Of a caller who is bound by the owner's settings alone."""


# Names

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Letters and marks that Unicode displays as nothing, beside those of the category Cf and variation selectors."""


@lru_cache(maxsize=4096)
def analyst_name(name: str) -> str:
    """An analyst's name as it is compared: one spelling for every way to write it.

    Compatibility forms and upper case are folded (NFKC and casefold, as in Unicode's NFKC_Casefold), characters that
    display as nothing are dropped, and white space of any kind is one space.

    >>> analyst_name("  Bob\u00a0\u200bSMITH "), analyst_name("\uff22\uff4f\uff42")
    ('bob smith', 'bob')
    """
    before, text = "", words(name, "analyst", "the name of an analyst")
    while text != before:
        before, text = text, normalize("NFKC", normalize("NFKC", text).casefold())
        text = " ".join("".join(letter for letter in text if not _is_invisible(letter)).split())
    return words(text, "analyst", "the name of an analyst, with letters that can be seen")


def _is_invisible(letter: str) -> bool:
    selector = "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef"
    return selector or letter in _INVISIBLE or category(letter) == "Cf"


def caps_by_name(caps: Mapping[str, Budget], place: str = "caps") -> dict[str, Budget]:
    """Caps by the names as they are compared; two caps for one analyst are refused.

    >>> caps_by_name({"Bob": Budget(epsilon=1)})
    {'bob': Budget(epsilon=Fraction(1, 1), delta=Fraction(0, 1), delta_for_keys=Fraction(0, 1))}
    """
    unique: dict[str, Budget] = {}
    for name, cap in caps.items():
        if (known := analyst_name(name)) in unique:
            hint = "names are compared without case and spacing"
            raise InvalidParameter(place, name, f"one cap for {known!r}", hint)
        unique[known] = cap
    return unique


# As text


def settings_text(
    budget: Budget,
    caps: Mapping[str, Budget],
    protects: str = "",
    *,
    everyone: Budget | None = None,
    marks: Iterable[str] = (),
) -> str:
    """One line of JSON, the same for the same settings. `marks`: digests by which the data are known again."""
    limits = {analyst: _limits(cap, "caps") for analyst, cap in caps_by_name(caps).items()}
    document: dict[str, object] = {"budget": _limits(budget, "budget"), "caps": limits}
    if everyone is not None:
        document["everyone"] = _limits(everyone, "everyone")
    if protects:
        document["protects"] = words(protects, "protects", "whom the budget protects, in words")
    if known := sorted(marks):
        document["marks"] = known
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _limits(budget: Budget, name: str) -> dict[str, str]:
    if not isinstance(budget, Budget):
        raise InvalidParameter(name, budget, "a Budget", "write Budget(epsilon=…)")
    return {key: plain(getattr(budget, key)) for key in ("epsilon", "delta", "delta_for_keys")}


@lru_cache(maxsize=256)
def settings_of(text: str) -> Settings:
    """The budget and the caps that a line states. Of two caps for one name, which old ledgers have, the lower."""
    try:
        document = json.loads(text)
        caps: dict[str, Budget] = {}
        for name, limits in document["caps"].items():
            cap, known = Budget(**limits), analyst_name(name)
            caps[known] = min(cap, caps.get(known, cap), key=lambda budget: budget.epsilon)
        everyone = document.get("everyone")
        return Settings(Budget(**document["budget"]), caps, None if everyone is None else Budget(**everyone))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LedgerDamaged(f"these are not the settings of an account: {error}") from None


@lru_cache(maxsize=256)
def cap_as_written(text: str, analyst: str) -> Budget | None:
    """The cap of an analyst whose name is spelled just so: the rule for rows of form 1."""
    settings_of(text)
    limits = json.loads(text)["caps"].get(analyst)
    return None if limits is None else Budget(**limits)


def protection_of(text: str) -> str:
    """What the settings say that they protect; nothing where they do not say."""
    settings_of(text)
    return str(json.loads(text).get("protects", ""))


def marks_of(text: str) -> frozenset[str]:
    """The digests by which the data of an account are known again."""
    settings_of(text)
    return frozenset(map(str, json.loads(text).get("marks", ())))


def same_settings(first: str, other: str) -> bool:
    """Whether two lines grant the same and protect the same, however names are written."""
    return (settings_of(first), protection_of(first)) == (settings_of(other), protection_of(other))


def in_words(settings: str) -> str:
    """Settings for a message."""
    budget, caps, everyone = settings_of(settings)
    limits = [f"{cap.describe_limit()} for {analyst!r}" for analyst, cap in sorted(caps.items())]
    limits += [] if everyone is None else [f"{everyone.describe_limit()} for everyone else"]
    protects = protection_of(settings)
    keys = f" ({plain(budget.delta_for_keys)} of it to name groups)" if budget.delta else ""
    said = f"budget {budget.describe_limit()}{keys}" + (f" and caps {'; '.join(limits)}" if limits else " and no caps")
    return said + (f", protecting {protects}" if protects else "")
