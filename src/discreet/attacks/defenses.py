"""What an owner may do to ratings before they are released, to be tried against attacks.

>>> from discreet.attacks.defenses import coarse, common
>>> from discreet.attacks.ratings import catalog
>>> everybody = catalog(people=300, items=200, mean=30, seed=1)
>>> len(common(coarse(everybody, days=30), items=50)) < len(everybody)
True
"""

import numpy as np

from discreet.attacks.ratings import BEST, Ratings
from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational

_MOST_CELLS = 100_000_000


def thinned(ratings: Ratings, *, share: Number, seed: int) -> Ratings:
    """Each entry is published with this probability.

    >>> from discreet.attacks.ratings import catalog
    >>> len(thinned(catalog(people=200, items=100, mean=20, seed=1), share="0.5", seed=1)) < 3000
    True
    """
    chance = float(rational(share, "share", at_least=0, at_most=1))
    rng = np.random.default_rng(integer(seed, "seed", at_least=0))
    return ratings.where(rng.random(len(ratings)) < chance)


def coarse(ratings: Ratings, *, days: int) -> Ratings:
    """Dates are published as the middle of periods of `days` days.

    >>> coarse(Ratings.of([0, 0], [0, 1], [5, 3], day=[3, 17]), days=10).day.tolist()
    [5, 15]
    """
    if ratings.day is None:
        raise InvalidParameter("ratings", "ratings without dates", "ratings with dates, which can be made coarse")
    width = integer(days, "days", at_least=1)
    day = ratings.day // width * width + width // 2
    return Ratings(ratings.person, ratings.item, ratings.rating, day, ratings.starts, ratings.people, ratings.items)


def common(ratings: Ratings, *, items: int) -> Ratings:
    """Only the most often rated items are published.

    >>> len(common(Ratings.of([0, 0, 1], [0, 1, 1], [5, 3, 4]), items=1))
    2
    """
    most = np.argsort(-ratings.support, kind="stable")[: integer(items, "items", at_least=1)]
    return ratings.where(np.isin(ratings.item, most))


def flipped(ratings: Ratings, *, share: Number, seed: int) -> Ratings:
    """Randomized response on every cell of people × items: whether it is filled is reversed with probability `share`.

    Ratings (1 to 5) and days (between the first and the last) of the cells that come out filled are drawn uniformly,
    so that a cell tells only whether it was filled, and that with ln((1 − share)/share) (Warner 1965). A simulation,
    with ordinary random numbers; all cells are touched, so it is for small catalogs.

    >>> from discreet.attacks.ratings import catalog
    >>> len(flipped(catalog(people=200, items=100, mean=20, seed=1), share="0.5", seed=1)) > 9000
    True
    """
    chance = float(rational(share, "share", at_least=0, at_most=1))
    if ratings.people * ratings.items > _MOST_CELLS:
        raise InvalidParameter("ratings", f"{ratings.people} × {ratings.items} cells", f"at most {_MOST_CELLS} cells")
    rng = np.random.default_rng(integer(seed, "seed", at_least=0))
    cells = rng.random((ratings.items, ratings.people)) < chance
    cells[ratings.item, ratings.person] ^= True
    what, who = (axis.astype(np.int32) for axis in np.nonzero(cells))
    how = rng.integers(1, BEST + 1, len(who)).astype(np.float32)
    when = None if ratings.day is None else rng.integers(ratings.day.min(), ratings.day.max() + 1, len(who), np.int32)
    return Ratings.of_sorted(who, what, how, when, ratings.people, ratings.items)
