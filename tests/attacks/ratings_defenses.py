"""Two ways to publish ratings that tell less: fewer entries, and randomized response on every cell."""

import numpy as np

from discreet.attacks.records.ratings import BEST, Ratings


def thinned(ratings, *, share, seed):
    """Each entry is published with this probability."""
    chance = float(share)
    rng = np.random.default_rng(seed)
    return ratings.where(rng.random(len(ratings)) < chance)


def flipped(ratings, *, share, seed):
    """Randomized response on every cell of people × items: whether it is filled is reversed with probability `share`.

    Ratings (1 to 5) and days (between the first and the last) of the cells that come out filled are drawn uniformly,
    so that a cell tells only whether it was filled, and that with ln((1 − share)/share) (Warner 1965).
    """
    chance = float(share)
    rng = np.random.default_rng(seed)
    cells = rng.random((ratings.items, ratings.people)) < chance
    cells[ratings.item, ratings.person] ^= True
    what, who = (axis.astype(np.int32) for axis in np.nonzero(cells))
    how = rng.integers(1, BEST + 1, len(who)).astype(np.float32)
    when = None if ratings.day is None else rng.integers(ratings.day.min(), ratings.day.max() + 1, len(who), np.int32)
    return Ratings.of_sorted(who, what, how, when, ratings.people, ratings.items)
