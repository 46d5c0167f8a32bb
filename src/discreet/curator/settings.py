"""The settings of an account as one line of JSON that the ledger keeps: a budget, caps, and what they protect.

What a budget protects (whom, against which change) is part of what ε means, so it cannot change unseen either.
"""

import json
from collections.abc import Mapping
from functools import lru_cache

from discreet.errors import InvalidParameter, LedgerDamaged
from discreet.exact import plain
from discreet.privacy.budget import Budget
from discreet.privacy.unit import words


def settings_text(budget: Budget, caps: Mapping[str, Budget], protects: str = "") -> str:
    """One line of JSON, the same for the same settings."""
    limits = {words(analyst, "caps", "the name of an analyst"): _limits(cap, "caps") for analyst, cap in caps.items()}
    document: dict[str, object] = {"budget": _limits(budget, "budget"), "caps": limits}
    if protects:
        document["protects"] = words(protects, "protects", "whom the budget protects, in words")
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _limits(budget: Budget, name: str) -> dict[str, str]:
    if not isinstance(budget, Budget):
        raise InvalidParameter(name, budget, "a Budget", "write Budget(epsilon=…)")
    return {key: plain(getattr(budget, key)) for key in ("epsilon", "delta", "delta_for_keys")}


@lru_cache(maxsize=256)
def settings_of(text: str) -> tuple[Budget, Mapping[str, Budget]]:
    """The budget and the caps that a line states."""
    try:
        document = json.loads(text)
        caps = {analyst: Budget(**limits) for analyst, limits in document["caps"].items()}
        return Budget(**document["budget"]), caps
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LedgerDamaged(f"these are not the settings of an account: {error}") from None


def protection_of(text: str) -> str:
    """What the settings say that they protect; nothing where they do not say."""
    settings_of(text)
    return str(json.loads(text).get("protects", ""))


def in_words(settings: str) -> str:
    """Settings for a message."""
    budget, caps = settings_of(settings)
    limits = [f"{cap.describe_limit()} for {analyst!r}" for analyst, cap in sorted(caps.items())]
    protects = protection_of(settings)
    keys = f" ({plain(budget.delta_for_keys)} of it to name groups)" if budget.delta else ""
    said = f"budget {budget.describe_limit()}{keys}" + (f" and caps {'; '.join(limits)}" if limits else " and no caps")
    return said + (f", protecting {protects}" if protects else "")
