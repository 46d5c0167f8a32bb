"""Secrets judged one by one: an attack that reads a rare secret is not hidden by those who have none.

Where most people share one answer, guessing it is nearly always right and says nothing about the others. So of the
people who have a secret it is counted how many are told it (the recall), beside the controls who have it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.report import Comparison, Share
from discreet.attacks.tables import Codes, Column, as_texts, coded, distinct, kind
from discreet.exact import integer

Mask = NDArray[np.bool_]

_COMMON = 50  # a secret of at least so many people, and as many controls, is judged on its own
_FEW_SHARE = 0.1  # numbers: the lowest and the highest tenth are judged on their own
_TOLERANCE = 0.1  # the risk that holds for the people of one secret; fewer people, so wider limits than for all


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of people and controls as numbers from 0, the most frequent first (−1: missing); their names.

    >>> Secrets.from_columns(np.array(["a", "b", "b"], object), np.array(["b"], object)).codes[0].tolist()
    [1, 0, 0]
    """

    codes: tuple[Codes, Codes]
    names: tuple[str, ...]
    words: tuple[str, ...]

    @classmethod
    def from_columns(cls, people: Column, controls: Column, reach: float = 0) -> "Secrets":
        """Equal values are one secret; numbers that are right within `reach` are in three bands."""
        if reach and kind(people) == kind(controls) == "number":
            both = np.concatenate([people, controls]).astype(np.float64)
            ends = np.nanquantile(both, [_FEW_SHARE, 1 - _FEW_SHARE])
            bands = np.where(np.isnan(both), -1, (both < ends[0]) + 2 * (both > ends[1]))
            words = ("the middle of the secrets", "the lowest tenth", "the highest tenth")
            return cls((bands[: len(people)], bands[len(people) :]), words, words)
        first, second = coded(people, controls)
        counts = np.bincount(np.append(first, second) + 1)[1:]
        rank = np.append(np.argsort(np.argsort(-counts, kind="stable"), kind="stable"), -1)
        every = distinct(
            np.concatenate([as_texts(people), as_texts(controls)]), np.append(rank[first], rank[second])
        )  # in the order of their ranks
        numbers = tuple(f"secret no. {place + 1} by frequency" for place in range(len(counts)))
        return cls((rank[first], rank[second]), tuple(map(str, every)), numbers)


def chosen_rows(codes: Codes, most: int, seed: int) -> tuple[Codes, int]:
    """Rows to attack: at most so many at random, then at most as many again of the rarest secrets; and how many
    the former are."""
    most = integer(most, "targets", at_least=1)
    order = np.random.default_rng(seed).permutation(len(codes))
    rest = order[most:][codes[order[most:]] >= 0]
    counts = np.bincount(codes[codes >= 0], minlength=1)
    rare = rest[np.argsort(counts[codes[rest]], kind="stable")][:most]
    return np.concatenate([order[:most], rare]), min(most, len(codes))


def by_secret(
    secrets: Secrets, codes: list[Codes], right: list[Mask], plain: Mask, confidence: float, *, chance: bool = False
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    """How often each secret is told to those who have it, and its name for the owner; that of the baseline is left out.

    With `chance` (and without controls) a secret is compared with guesses at random too, which name it as often as
    people have it: the secret of any row is right that often. Limits by
    which a secret falls are widened for the number of secrets (Bonferroni); those by which it holds need not be, since
    all of them must (Berger 1982, intersection-union tests).
    """
    counts = [np.bincount(part[part >= 0], minlength=len(secrets.words)) for part in codes]
    there = np.flatnonzero(counts[0] > 0)
    common = there[(counts[0][there] >= _COMMON) & ((counts[1][there] >= _COMMON) | (len(codes[1]) == 0))]
    shares = counts[0] / max(1, counts[0].sum()) if chance or not len(codes[1]) else np.zeros(len(counts[0]))
    groups: list[Comparison] = []
    rare = []
    for place in there.tolist():
        told = [hits[part == place] for hits, part in zip(right, codes, strict=True)]
        group = _compared(
            secrets.words[place],
            told,
            plain[codes[0] == place],
            confidence,
            looks=len(there),
            share=shares[place],
        )
        if group.reference.low == 1:  # the answer that is the same for everybody is right about all of them
            continue
        if place in common:
            groups.append(group)
        else:
            rare.append(place)
            groups += [replace(group, decides=False)] if group.success.low > group.reference.high else []
    if rare:
        among = [np.isin(part, rare) for part in codes]
        told = [hits[part] for hits, part in zip(right, among, strict=True)]
        name = f"the {len(rare)} rarest secrets" if len(rare) > 1 else "the rarest secret"
        share = float(np.average(shares[rare], weights=counts[0][rare]))
        groups.append(_compared(name, told, plain[among[0]], confidence, looks=len(there), share=share))
    names = tuple(f"{secrets.words[place]}: {secrets.names[place]}" for place in there[:_COMMON].tolist())
    return tuple(groups), names


def _compared(name: str, told: list[Mask], plain: Mask, confidence: float, *, looks: int, share: float) -> Comparison:
    """Success among the people of a secret, beside the controls who have it and the answer that is always the same."""
    wide = 1 - (1 - confidence) / looks
    limits = [(counted(hits, confidence), counted(hits, wide)) for hits in told]
    success = replace(limits[0][0], low=limits[0][1].low)
    control = replace(limits[1][0], high=limits[1][1].high)
    if share > control.value:
        control = Share.known(share)
    always = Share.known(float(plain[0])) if plain.all() or not plain.any() else counted(plain, confidence)
    reference = always if always.value >= max(control.value, 1e-12) else control
    return Comparison(name=name, success=success, reference=reference, tolerance=_TOLERANCE)


def counted(hits: Mask, confidence: float) -> Share:
    """How many of these are hits."""
    return Share.counted(int(hits.sum()), len(hits), confidence=confidence)
