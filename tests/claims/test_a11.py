"""A11: columns that are harmless one by one become a fingerprint together."""

import numpy as np
import pytest

from discreet.attacks.tables.linkage import Linkage, fingerprint, uniqueness

pytestmark = pytest.mark.claim("A11")
COLUMNS = [f"font {i}" for i in range(14)] + ["screen", "language", "time zone"]


def browsers(count, seed):
    """Fonts that are there or not, and a few settings of few values, some of them rare."""
    rng = np.random.default_rng(seed)
    fonts = {f"font {i}": rng.random(count) < 0.2 + 0.05 * i % 0.6 for i in range(14)}
    few = {name: rng.zipf(1.8, count) % size for name, size in (("screen", 12), ("language", 20), ("time zone", 24))}
    return {"cookie": np.arange(count), **fonts, **few}


def test_harmless_columns_become_a_fingerprint():
    table = browsers(5000, 1)
    alone = [uniqueness(table, [name]) for name in COLUMNS]
    assert max(alone) < 0.005
    steps = fingerprint(table, COLUMNS)
    assert steps[3][1] < 0.2
    assert steps[-1][1] > 0.8


def test_a_fingerprint_is_a_name():
    """Visitors without cookies are found again on a list of those with: the more columns, the more."""
    table = browsers(5000, 2)
    rng = np.random.default_rng(3)
    again = rng.permutation(5000)[:1000]
    shares = []
    for width in (3, 8, 17):
        names = COLUMNS[-width:]
        visits = {name: table[name][again] for name in names}
        report = Linkage(released=visits, known=table, on=names, name="cookie", truth=table["cookie"][again]).run()
        shares.append(report.success)
    assert shares[0].high < 0.15
    assert shares[1].low > shares[0].high
    assert shares[2].low > 0.75
