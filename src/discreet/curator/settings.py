"""The settings of an account, a budget and caps, as one line of JSON that the ledger keeps."""

import json
from collections.abc import Mapping
from functools import lru_cache

from discreet.errors import InvalidParameter, LedgerDamaged
from discreet.exact import plain
from discreet.privacy.budget import Budget
from discreet.privacy.unit import words


def settings_text(budget: Budget, caps: Mapping[str, Budget]) -> str:
    """One line of JSON, the same for the same settings."""
    limits = {words(analyst, "caps", "the name of an analyst"): _limits(cap, "caps") for analyst, cap in caps.items()}
    document = {"budget": _limits(budget, "budget"), "caps": limits}
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


def in_words(settings: str) -> str:
    """Settings for a message."""
    budget, caps = settings_of(settings)
    limits = [f"{cap.describe_limit()} for {analyst!r}" for analyst, cap in sorted(caps.items())]
    return f"budget {budget.describe_limit()}" + (f" and caps {'; '.join(limits)}" if limits else " and no caps")
