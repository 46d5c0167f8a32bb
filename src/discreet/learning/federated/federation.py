"""Everything about federated training that is decided before a row is seen, and what it costs whom.

>>> from discreet.learning.federated import Federation, Secure
>>> from discreet.learning.sgd.recipe import Sgd
>>> from discreet.privacy.accounting import guarantee
>>> plan = Federation(
...     clients=100, rounds=50, level="client", rate="0.1", multiplier=2, clip=1, optimizer=Sgd(1), secure=None
... )
>>> plan.loss
Repeated(loss=SampledGaussian(rate=0.1, multiplier=2), count=50)
>>> print(guarantee(plan.loss, delta="1e-5"))
(1.65251, 1e-05)-DP by pld
>>> plan.loss_to_coordinator
Traceback (most recent call last):
discreet.errors.NoGuarantee: the coordinator sees every client's update as it is; use secure=Secure(...), or trust it
"""

import hashlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.exact import Number, integer, plain, rational, sqrt_bounds
from discreet.fields import Converted, Integer, Rational
from discreet.learning.federated.messages import RoundSettings, pack
from discreet.learning.federated.noise_shares import GaussianShare, shared_loss, slack
from discreet.learning.sgd.clipping import UNITS
from discreet.learning.sgd.recipe import Adaptive, Optimizer, Recipe, multiplier_for
from discreet.privacy.accounting import guarantee
from discreet.privacy.accounting.rounding import decimal_up
from discreet.privacy.loss import Approximate, Loss, Repeated, SampledGaussian

Level = Literal["client", "example"]
Against = Literal["models", "coordinator"]

_MOST_CLIENTS = 1 << 20
_MOST_ROUNDS = 1 << 30
_MOST_SECURE = 1000  # see `RoundSettings`
_LARGEST_SHARE = 1 << 40  # of the noise: see `GaussianShare`
_FINEST = 1 << 12
_ROOM = 1 << 61  # what the vectors of all clients together stay within


@dataclass(frozen=True)
class Local:
    """What a client does in a round of federated averaging: plain gradient descent on its own rows.

    `epochs` times over its rows, in lots of `batch` (None: all at once); lot j of k has the rows j, j + k, j + 2k, …

    >>> Local("0.1", epochs=2, batch=32).batch
    32
    """

    rate: Converted[Number, float] = Converted(
        lambda rate, name: float(rational(rate, name, at_least=Fraction(1, 10**30), at_most=10**30))
    )
    _: KW_ONLY
    epochs: Integer = Integer(at_least=1, default=1)
    batch: Converted[int | None, int | None] = Converted(
        lambda batch, name: None if batch is None else integer(batch, name, at_least=1), default=None
    )


@dataclass(frozen=True, kw_only=True)
class Secure:
    """How sums are hidden from the coordinator (`discreet.learning.federated`), in shares of the number of clients.

    threshold: so many must stay to the end of a round, or it is abandoned; rounded up, and raised to what the protocol
    needs. colluding: so many may work with the coordinator; rounded up. A client that is curious on its own is such a
    one too: it knows its own share of the noise.

    >>> Secure(threshold="2/3", colluding="0.1").counts(10)
    (7, 1)
    """

    threshold: Rational = Rational(above=0, at_most=1)
    colluding: Rational = Rational(at_least=0, below=1)

    def counts(self, clients: int) -> tuple[int, int]:
        """The threshold and the most that collude, for so many clients."""
        colluding = -(-self.colluding * clients // 1)
        threshold = max(-(-self.threshold * clients // 1), (clients + colluding) // 2 + 1)
        return int(threshold), int(colluding)


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Rounds of federated learning: FedSGD, or FedAvg with `local` (McMahan et al. 2017, Algorithm 1), made private.

    clients: how many there are, a public number. level: whom the noise protects, a "client" with all of its rows
    (McMahan, Ramage, Talwar, Zhang 2018, "DP-FedAvg"), or each "example" of a client. rate: the chance of each client
    (or example) to be in a round (Poisson sampling). examples: about how many there are in all, a public number, for
    level "example". multiplier: the noise in clipping norms; 0 protects nobody. adaptive, curve, worst_loss: as in
    `Recipe`. secure: None if the coordinator is trusted with the updates.

    **Level "client".** Guarantee: two federations that differ in one client, which in one of them has no rows, are told
    apart by the models of all rounds no better than `loss` says. Proof. What a client adds to a round's sum is a vector
    of norm at most UNITS (`updates`), with an independent coin of chance `rate`, and nothing otherwise; every client
    has the weight 1. The sum gets Gaussian noise of multiplier·UNITS, and is divided by the public number rate·clients,
    never by how many came. Who drops out adds the zero vector, which is no longer than any other. Everything else is
    computed from these sums: adaptive composition of `rounds` times SampledGaussian(rate, multiplier).

    **Level "example".** Guarantee: the same for one example more or less at one client. Proof. Every client draws its
    own lot, each example with an independent coin, and adds up clipped gradients: one example moves the client's
    vector, and the sum over clients, by at most UNITS (`training.contributions`; clamping to `bound` moves no two
    vectors apart). Clients take no step of their own between two sums (no `local`): for FedAvg with example-level
    privacy each client would have to add the whole noise itself.

    Both hold if who drops out, and when, does not depend on other clients' rows or coins; with secure aggregation, nor
    on its own. A round is never skipped for how many came, where the coordinator tosses coins: that would tell.

    **Secure.** All clients are in every round and each tosses its coins itself: nobody learns who took part. A sum
    has the noise shares of at least `threshold` clients, of which the coordinator, and clients that work with it, know
    all but `honest` = threshold − colluding. `multiplier` is the noise of `threshold` shares. More are in the sum if
    more stay: noisier than counted. A round with fewer clients is abandoned, by who is there, not by coins.

    >>> from discreet.learning.sgd.recipe import Sgd
    >>> plan = Federation(
    ...     clients=10, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1),
    ...     secure=Secure(threshold="2/3", colluding="0.1"),
    ... )
    >>> plan.threshold, plan.honest, round(float(plan.multiplier_to_coordinator), 3)
    (7, 6, 0.926)
    """

    clients: Integer = Integer(at_least=1, at_most=_MOST_CLIENTS)
    rounds: Integer = Integer(at_least=1, at_most=_MOST_ROUNDS)
    level: Level
    rate: Rational = Rational(above=0, at_most=1)
    multiplier: Converted[Number, Fraction] = Converted(lambda multiplier, _: _multiplier(multiplier))
    clip: Rational = Rational(at_least=Fraction(1, 10**6), at_most=10**6)
    optimizer: Optimizer
    secure: Secure | None
    local: Local | None = None
    examples: Converted[Number | None, Fraction | None] = Converted(
        lambda examples, name: None if examples is None else rational(examples, name, at_least=1, at_most=1 << 40),
        default=None,
    )
    adaptive: Adaptive | None = None
    curve: Rational = Rational(at_least=0, at_most=Fraction(1, 4), default="1/100")
    worst_loss: Rational = Rational(at_least=Fraction(1, 10**9), at_most=10**9, default=5)
    seed: Integer = Integer(default=1)

    def __post_init__(self) -> None:
        _check_level(self)
        _check_secure(self)

    @classmethod
    def for_budget(
        cls, *, epsilon: Number, delta: Number, against: Against, rounds: int, rate: Number, **settings: Any
    ) -> "Federation":
        """The least noise for so many rounds within (ε, δ), against those who see the "models" or the "coordinator".

        >>> from discreet.learning.sgd.recipe import Sgd
        >>> plan = Federation.for_budget(
        ...     epsilon=2, delta="1e-5", against="coordinator", clients=100, rounds=50, level="client", rate="0.1",
        ...     clip=1, optimizer=Sgd(1), secure=Secure(threshold="2/3", colluding="0.1"),
        ... )
        >>> guarantee(plan.loss_to_coordinator, delta="1e-5").epsilon <= 2
        True
        >>> round(float(plan.multiplier_to_coordinator), 2), round(float(plan.multiplier), 2)
        (1.7..., 1.9...)
        """
        if against not in get_args(Against):
            raise InvalidParameter("against", against, f"one of {', '.join(get_args(Against))}")
        budget = (rational(epsilon, "epsilon", above=0), rational(delta, "delta", above=0, below=1))
        noise = multiplier_for(
            *budget,
            rational(rate, "rate", above=0, at_most=1),
            integer(rounds, "rounds", at_least=1, at_most=_MOST_ROUNDS),
        )
        plan = cls(rounds=rounds, rate=rate, multiplier=noise, **settings)
        if plan.secure is None:
            plan._loss_to(against)
            return plan
        return _within(*budget, against, plan)

    @property
    def loss(self) -> Loss:
        """What people learn who see the models of all rounds, and neither the updates nor a client's randomness.

        With `secure`, if all clients add their shares of the noise; if some may not, `loss_to_coordinator` holds.
        """
        return self._loss_to("models")

    @property
    def loss_to_coordinator(self) -> Loss:
        """What the coordinator learns, and up to `colluding` clients with it; no guarantee without `secure`.

        Proof. It sees in each round at most one sum over clients of which at least `honest` keep their shares of the
        noise secret, and nothing else about the others' vectors (`discreet.learning.federated`, `Member`). Coins are
        tossed by the clients, and what is sent does not depend on how they fall: so sampling amplifies here too.
        """
        return self._loss_to("coordinator")

    def _loss_to(self, against: Against) -> Loss:
        if not self.multiplier:
            raise NoGuarantee("without noise (multiplier 0) nothing is guaranteed to anybody")
        if self.secure is None:
            if against == "coordinator":
                what = "the coordinator sees every client's update as it is"
                raise NoGuarantee(f"{what}; use secure=Secure(...), or trust it")
            return Repeated(SampledGaussian(self.rate, self.multiplier), self.rounds)
        shares = self.threshold if against == "models" else self.honest
        return shared_loss(self.rate, self.noise_share(shares), UNITS * self.grain, self.rounds)

    @property
    def method(self) -> str:
        """FedSGD or FedAvg."""
        return "FedAvg" if self.local else "FedSGD"

    @property
    def lot(self) -> Fraction:
        """What noisy sums are divided by: a public number."""
        return self.rate * (self.clients if self.examples is None else self.examples)

    @property
    def riders(self) -> tuple[Fraction, Fraction]:
        """The shares of the squared sensitivity that pay for the learning curve and for the adaptive norm."""
        return self.curve, self.adaptive.share if self.adaptive else Fraction(0)

    @property
    def threshold(self) -> int:
        """How many clients must stay to the end of a round: none need to if the coordinator is trusted."""
        return self.secure.counts(self.clients)[0] if self.secure else 0

    @property
    def honest(self) -> int:
        """How many shares of the noise in a sum are unknown to the coordinator and those who work with it."""
        threshold, colluding = self.secure.counts(self.clients) if self.secure else (0, 0)
        return threshold - colluding

    @property
    def multiplier_to_coordinator(self) -> Fraction:
        """The noise that the coordinator cannot take off, in clipping norms, rounded down."""
        if not self.multiplier or not self.secure:
            return Fraction(0)
        square = self.multiplier**2 * self.honest / self.threshold
        return Fraction(sqrt_bounds(square, 64)[0], 1 << 64)

    @property
    def grain(self) -> int:
        """How many times finer the grid of secure sums is: the noise of many shares is then closer to a Gaussian."""
        grain = _FINEST if self.secure else 1
        whole = UNITS * 4 * self.lot * self.clients if self.level == "example" else 0  # one client may have it all
        while grain > 1 and (_sigma(self, grain) > _LARGEST_SHARE or whole * grain > _ROOM):
            grain //= 2
        return grain

    @property
    def bound(self) -> int:
        """No number in a client's vector is larger in size, on the grid that is sent."""
        return UNITS * self.grain if self.level == "client" else _ROOM // self.clients

    def noise_share(self, counted: int) -> GaussianShare:
        """What every client adds in secure rounds, with so many shares counted on."""
        sigma = _sigma(self, self.grain)
        return GaussianShare(sigma=sigma, honest=counted, sensitivity=UNITS * self.grain, dimension=1 << 27)

    def terms(
        self, keys: Mapping[str, bytes], run: bytes, number: int, length: int, model: bytes = b""
    ) -> RoundSettings:
        """The terms of one secure round: clients and coordinator make the same ones, each by itself.

        `model` is the fingerprint of the round's model: clients that were promised different ones are in different
        rounds, and none of them adds its vector to a sum with others (`Member`).
        """
        threshold, colluding = (self.secure or Secure(threshold=1, colluding=0)).counts(self.clients)
        return RoundSettings(
            round_id=self.round_id(run, number, model),
            clients=keys,
            threshold=threshold,
            colluding=colluding,
            length=length,
            bound=self.bound,
            noise=self.noise_share(self.honest) if self.multiplier else None,
        )

    def round_id(self, run: bytes, number: int, model: bytes = b"") -> bytes:
        """32 bytes that stand for one round of one run of this federation, and for its model's fingerprint."""
        return round_id(self.digest, run, number, model)

    @property
    def digest(self) -> bytes:
        """32 bytes that stand for all of these settings: who has other ones is refused."""
        return hashlib.sha256(repr(self).encode()).digest()

    @property
    def recipe(self) -> Recipe:
        """The same settings as those of a run of DP-SGD over examples."""
        return Recipe(
            rate=self.rate,
            lot=self.lot,
            steps=self.rounds,
            multiplier=self.multiplier or 1,
            clip=self.clip,
            optimizer=self.optimizer,
            adaptive=self.adaptive,
            curve=self.curve,
            worst_loss=self.worst_loss,
            seed=self.seed,
        )

    def after(self, rounds: int) -> "Federation":
        """The same federation if it had ended after so many rounds: its loss is what was spent by then."""
        return replace(self, rounds=rounds)

    def words(self) -> str:
        """The federation in a sentence.

        >>> from discreet.learning.sgd.recipe import Sgd
        >>> plan = Federation(
        ...     clients=100, rounds=50, level="client", rate="0.1", multiplier=2, clip=1, optimizer=Sgd(1), secure=None
        ... )
        >>> plan.words()
        '50 rounds of FedSGD among 100 clients; each client is in a round with chance 0.1; noise of 2 ...'
        """
        trust = "the coordinator is trusted"
        if self.secure:
            colluding = self.threshold - self.honest
            trust = f"the coordinator sees sums over at least {self.threshold}, {colluding} of whom may work with it"
        return (
            f"{self.rounds:,} rounds of {self.method} among {self.clients:,} clients; each {self.level} is in a round "
            f"with chance {plain(self.rate)}; noise of {float(self.multiplier):.6g} clipping norms of "
            f"{plain(self.clip)}; {trust}"
        )


def _within(epsilon: Fraction, delta: Fraction, against: Against, plan: Federation) -> Federation:
    """The secure federation with the least noise: what its shares of the noise cost in δ is counted in."""
    counted = plan.threshold if against == "models" else plan.honest
    share = Fraction(sqrt_bounds(Fraction(plan.threshold, counted), 64)[1], 1 << 64)
    extra = slack(plan.rate, plan.multiplier, UNITS * plan.grain, plan.rounds)
    beside = Approximate(0, extra) if extra is not None and extra < delta else None
    noise = multiplier_for(epsilon, delta, plan.rate, plan.rounds, beside)
    for attempt in range(60):
        plan = replace(plan, multiplier=decimal_up(noise * share, 9))
        if guarantee(plan._loss_to(against), delta=delta).epsilon <= epsilon:
            return plan
        noise *= 1 + Fraction(2**attempt, 10**7)
    raise NoGuarantee(f"no noise was found that achieves ε = {plain(epsilon)} at δ = {plain(delta)}")


def _sigma(plan: Federation, grain: int) -> Fraction:
    """The noise of one share on the grid: so many as the threshold add up to the multiplier. Rounded up."""
    square = plan.multiplier**2 * (UNITS * grain) ** 2 / plan.threshold
    return decimal_up(Fraction(sqrt_bounds(square, 32)[1], 1 << 32), 15) if square else Fraction(0)


def _multiplier(multiplier: Number) -> Fraction:
    exact = rational(multiplier, "multiplier", at_least=0, at_most=1 << 20)
    return exact if not exact else rational(exact, "multiplier", at_least=Fraction(1, 1 << 20))


def _check_level(plan: Federation) -> None:
    for name, kind in (("secure", Secure), ("local", Local), ("adaptive", Adaptive)):
        if not isinstance(getattr(plan, name), kind | None):
            raise InvalidParameter(name, getattr(plan, name), f"{kind.__name__}(…) or None")
    if plan.level not in get_args(Level):
        raise InvalidParameter("level", plan.level, f"one of {', '.join(get_args(Level))}")
    if plan.level == "client" and plan.examples is not None:
        raise InvalidParameter("examples", plan.examples, "None at level 'client'", "sums are divided by rate·clients")
    if plan.level == "example" and plan.examples is None:
        raise InvalidParameter("examples", None, "about how many there are in all, a public number")
    if plan.level == "example" and plan.local is not None:
        hint = "steps on a client's own rows are protected at level 'client' only"
        raise InvalidParameter("local", plan.local, "None at level 'example'", hint)


def _check_secure(plan: Federation) -> None:
    if plan.secure is None:
        return
    integer(plan.clients, "clients", at_least=2, at_most=_MOST_SECURE)
    threshold, _ = plan.secure.counts(plan.clients)
    if threshold > plan.clients:
        expected = f"fewer that collude: {threshold} of {plan.clients} clients would have to stay in every round"
        raise InvalidParameter("secure", plan.secure, expected)
    if _sigma(plan, 1) > _LARGEST_SHARE:
        raise InvalidParameter("multiplier", plan.multiplier, "less noise, for secure sums", "about 1000·√threshold")


def round_id(federation: bytes, run: bytes, number: int, model: bytes = b"") -> bytes:
    """32 bytes that stand for one round of one run of the federation with this digest, and for its model's fingerprint.

    >>> round_id(bytes(32), bytes(16), 1) == round_id(bytes(32), bytes(16), 2)
    False
    """
    return hashlib.sha256(pack(("discreet federated round 1", federation, run, str(number), model))).digest()
