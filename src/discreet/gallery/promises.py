"""Exhibits on promises: audits that catch broken mechanisms, and the bound on any guess."""

from discreet.attacks.audit import audit_mechanism
from discreet.attacks.guessing import Guessing
from discreet.attacks.zoo import bounds, parade, table
from discreet.gallery.exhibit import Exhibit, Shown
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.response import KRR
from discreet.report import Text


def _audit(seed: int) -> Shown:
    right = audit_mechanism(Geometric(epsilon=1, sensitivity=1), x=0, neighbor=1, samples=100_000, seed=seed).run()
    found = parade(seed=seed)
    caught = sum(one.broken for _, one in found)
    return Shown(
        [right], [Text(f"Of {len(found)} broken mechanisms the audit catches {caught}."), table(found), bounds(found)]
    )


def _guessing(seed: int) -> Shown:
    response = KRR(epsilon=1, size=2).channel()
    return Shown([Guessing(mechanism=response, first=0, second=1, epsilon=1, trials=20_000, seed=seed).run()])


EXHIBITS = (
    Exhibit(
        name="audit",
        title="Promises, audited",
        claims=("B1",),
        words="From outputs alone: a lower bound on ε with its confidence; mechanisms once believed private are caught",
        show=_audit,
    ),
    Exhibit(
        name="guessing",
        title="No guess does better",
        claims=("B9",),
        words="Which of two neighbors was it? The best test, measured, beside what ε allows",
        show=_guessing,
    ),
)
