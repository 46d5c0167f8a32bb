"""Answers that protect one by one, and give a person away together (Ganta, Kasiviswanathan, Smith 2008).

The attacker lists the possible worlds (who has the disease), and for each answer keeps those in which it could have
been given: a deterministic answer cuts worlds off, a randomized one only weighs them. Everything is counted exactly,
over all worlds and all answers.

>>> from discreet.attacks.answers.composition import two_tables
>>> report = two_tables().run()
>>> report.verdict, report.facts["possible people, after both answers"]
('falls', 'Don')
>>> noisy = two_tables(noisy=True).run()
>>> noisy.verdict, noisy.facts["Don, after both answers"]
('holds', '112/285 = 39.3 %')
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

from discreet.attacks.answers.accumulation import Belief, posterior_chart
from discreet.attacks.attack_report import AttackReport, Share
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.mechanisms.bayesian import oblivious
from discreet.mechanisms.channel import Channel, deterministic
from discreet.mechanisms.stochastic import position

World = frozenset[Hashable]
Person = Hashable
_MOST_PEOPLE = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """Answers about who has a secret, one after the other, and what they tell together.

    `worlds` are the sets of people who may have it, with the attacker's prior (left out: all the same). `questions`
    are those of `question`. `observed` are the answers that were given (left out: only the average over all answers
    is judged). The goal is reached when some person has the secret with at least `certainty`; success is the
    probability of that over the prior and the answers' randomness, computed exactly. People are named in the report
    only where `named` says that they are invented; otherwise names are among the examples for the owner's eyes.
    """

    worlds: Sequence[World]
    questions: Sequence["Question"]
    observed: Sequence[Hashable] | None = None
    prior: Belief | None = None
    certainty: Number = 1
    named: bool = False
    against: str = "answers together"
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Ask everything, and judge."""
        self._check()
        bar = rational(self.certainty, "certainty", above=0, at_most=1)
        before = self.belief()
        return AttackReport(
            attack="composition",
            against=self.against,
            goal="be certain that a person has the secret" + ("" if bar == 1 else f" (at {float(bar):.4g})"),
            people=len(self.people),
            success=Share.known(float(self.chance(len(self.questions), bar))),
            baseline=Share.known(float(_certain(before, self.people, bar))),
            confidence=self.confidence,
            facts=self._facts(bar),
            worst=self._worst(),
            charts=(posterior_chart(self.by_person(), "Who has it?"),) if self._shown else (),
            remarks=("Computed exactly over all possible worlds and answers: no sampling.",),
        )

    @property
    def people(self) -> tuple[Person, ...]:
        """Everybody who may have the secret, in the order of the worlds."""
        return tuple(dict.fromkeys(person for world in self.worlds for person in sorted(world, key=str)))

    def belief(self) -> Belief:
        """What the attacker believes before any answer."""
        return Belief.uniform(self.worlds) if self.prior is None else self.prior

    def beliefs(self) -> list[Belief]:
        """The belief about worlds before the first observed answer and after each of them."""
        result = [self.belief()]
        for asked, answer in zip(self.questions, self.observed or (), strict=False):
            result.append(result[-1].after(asked.channel, answer))
        return result

    def by_person(self) -> dict[str, dict[Person, Fraction]]:
        """The probability that each person has the secret, before the first observed answer and after each of them."""
        names = ["before", *[f"then {asked.words} = {answer}" for asked, answer in self._answered()]]
        return {
            name: {person: _has(belief, person) for person in self.people}
            for name, belief in zip(names, self.beliefs(), strict=True)
        }

    def chance(self, answers: int, certainty: Fraction) -> Fraction:
        """The probability, over worlds and answers, that the first `answers` answers reach the certainty."""
        before = self.belief()
        together = _together([asked.channel for asked in self.questions[:answers]], self.worlds)
        weights = [before[world] for world in together.inputs]
        reached = Fraction(0)
        for column in range(len(together.outputs)):
            joint = [w * Fraction(p) for w, p in zip(weights, together.matrix[:, column], strict=True)]
            if any(joint):
                belief = Belief(dict(zip(together.inputs, joint, strict=True)))
                reached += sum(joint, Fraction(0)) * _certain(belief, self.people, certainty)
        return reached

    def _answered(self) -> list[tuple["Question", Hashable]]:
        return list(zip(self.questions, self.observed or (), strict=False))

    def _facts(self, bar: Fraction) -> dict[str, Any]:
        facts: dict[str, Any] = {"possible worlds": len(self.worlds)}
        for number in range(1, len(self.questions) + 1):
            facts[f"certain after {_many(number)}"] = f"{_percent(self.chance(number, bar))} of the time"
        if self.observed is None:
            return facts
        beliefs = self.beliefs()
        for asked, answer in self._answered():
            alone = self.belief().after(asked.channel, answer)
            facts[f"possible people, {asked.words} = {answer}"] = self._those(_possible(alone, self.people))
        last = beliefs[-1]
        many = _many(len(self.questions)).replace("2 answers", "both answers")
        facts[f"possible people, after {many}"] = self._those(_possible(last, self.people))
        facts[f"bits of doubt, before and after {many}"] = f"{beliefs[0].entropy:.4g}, {last.entropy:.4g}"
        facts["largest probability of a person"] = _percent(max(_has(last, p) for p in self.people))
        if self.named:
            facts |= {f"{p}, after {many}": _percent(_has(last, p)) for p in self.people if _has(last, p)}
        return facts

    @property
    def _shown(self) -> bool:
        return self.named and self.observed is not None

    def _those(self, people: Sequence[Person]) -> str | int:
        return (", ".join(map(str, people)) or "nobody") if self.named else len(people)

    def _worst(self) -> tuple[str, ...]:
        """The likeliest people after all observed answers."""
        if self.observed is None:
            return ()
        last = self.beliefs()[-1]
        likely = sorted(self.people, key=lambda person: -_has(last, person))[:5]
        return tuple(f"{person}: {_percent(_has(last, person))}" for person in likely)

    def _check(self) -> None:
        if not self.worlds or len(set(self.worlds)) < len(self.worlds):
            raise InvalidParameter("worlds", f"{len(self.worlds)} worlds", "at least one, none of them twice")
        if not self.questions:
            raise InvalidParameter("questions", "none", "at least one question")
        if self.observed is not None and len(self.observed) != len(self.questions):
            raise InvalidParameter(
                "observed", f"{len(self.observed)} answers", f"one for each of {len(self.questions)} questions"
            )


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the world, as a channel from worlds to answers; made by `question`."""

    words: str
    channel: Channel


def question(
    words: str, query: Callable[[World], Hashable], worlds: Sequence[World], *, noise: Channel | None = None
) -> Question:
    """A question whose true answer is a function of the world, given as it is or through a noisy channel.

    >>> worlds = worlds_of_one(["Carl", "Don"])
    >>> question("how many", len, worlds).channel.outputs
    (1,)
    """
    return Question(words, deterministic(query, worlds) if noise is None else oblivious(query, worlds, noise))


def worlds_of_one(people: Sequence[Person]) -> list[World]:
    """The worlds in which exactly one person has the secret.

    >>> [sorted(world) for world in worlds_of_one(["Carl", "Don"])]
    [['Carl'], ['Don']]
    """
    return [frozenset([person]) for person in _distinct(people)]


def all_worlds(people: Sequence[Person], *, at_least: int = 0) -> list[World]:
    """Every set of people, from the smallest; at most 14 people.

    >>> len(all_worlds(["Carl", "Don", "Frank"])), len(all_worlds(["Carl", "Don", "Frank"], at_least=1))
    (8, 7)
    """
    names = _distinct(people)
    least = integer(at_least, "at_least", at_least=0)
    if len(names) > _MOST_PEOPLE:
        raise InvalidParameter("people", f"{len(names)} people", f"at most {_MOST_PEOPLE}", "worlds double with each")
    return [frozenset(group) for size in range(least, len(names) + 1) for group in combinations(names, size)]


def smallest(values: Mapping[Any, Any]) -> Callable[[World], Any]:
    """The query "the least value among those who have it"; None if nobody has.

    >>> smallest({"Don": 40, "Frank": 50})(frozenset(["Frank", "Don"]))
    40
    """
    return lambda world: min((values[person] for person in world), default=None)


def greatest(values: Mapping[Any, Any]) -> Callable[[World], Any]:
    """The query "the greatest value among those who have it"; None if nobody has.

    >>> greatest({"Don": 40, "Frank": 50})(frozenset(["Frank", "Don"]))
    50
    """
    return lambda world: max((values[person] for person in world), default=None)


def halving(values: Sequence[Any]) -> Channel:
    """Noise on an ordered list of values: each step away from the truth is half as probable.

    For 30, 40, 50 the truth 40 is given with 1/2 and each neighbor with 1/4; for 60, 90, 100 the truth 100 is given
    with 4/7, then 2/7, 1/7.

    >>> halving([60, 90, 100]).matrix[2].tolist()
    [Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)]
    """
    ranks = range(len(values))
    rows = [[Fraction(1, 2 ** abs(i - j)) for j in ranks] for i in ranks]
    return Channel(rows, inputs=values, outputs=values, normalize=True)


PEOPLE = ("Alice", "Bob", "Carl", "Don", "Ellie", "Frank")
AGES = dict(zip(PEOPLE, (30, 30, 40, 40, 50, 50), strict=True))
WEIGHTS = dict(zip(PEOPLE, (60, 90, 90, 100, 60, 100), strict=True))
ILL = ("Don", "Frank")


def two_tables(*, noisy: bool = False, worlds: Sequence[World] | None = None) -> Composition:
    """The example of two tables: the least age and the greatest weight of a person with the disease.

    Each answer fits two people; together they fit only Don, if one person is sought (`worlds_of_one`, as in the
    published example). Give `all_worlds(PEOPLE, at_least=1)` for an attacker who thinks that several may have it.

    >>> two_tables().run().facts["possible people, least age = 40"]
    'Carl, Don'
    """
    possible = worlds_of_one(PEOPLE) if worlds is None else list(worlds)
    age, weight = (halving(sorted(set(column.values()))) if noisy else None for column in (AGES, WEIGHTS))
    return Composition(
        worlds=possible,
        questions=[
            question("least age", smallest(AGES), possible, noise=age),
            question("greatest weight", greatest(WEIGHTS), possible, noise=weight),
        ],
        observed=[smallest(AGES)(frozenset(ILL)), greatest(WEIGHTS)(frozenset(ILL))],
        named=True,
        against="two randomized answers" if noisy else "two deterministic answers, each 2-anonymous",
    )


def _together(channels: Sequence[Channel], worlds: Sequence[World]) -> Channel:
    """All answers as one channel, rows in the order of the worlds."""
    together = channels[0]
    for channel in channels[1:]:
        together = together.compose(channel)
    missing = [w for w in worlds if w not in together.inputs]
    if missing:
        raise InvalidData(f"the questions do not know {len(missing)} of the {len(worlds)} worlds")
    order = [position(world, together.inputs, "input") for world in worlds]
    return Channel(together.matrix[order], inputs=list(worlds), outputs=list(together.outputs))


def _has(belief: Belief, person: Person) -> Fraction:
    return belief.that(lambda world: person in world)  # type: ignore[operator]


def _possible(belief: Belief, people: Sequence[Person]) -> list[Person]:
    return [person for person in people if _has(belief, person)]


def _certain(belief: Belief, people: Sequence[Person], bar: Fraction) -> int:
    return int(any(_has(belief, person) >= bar for person in people))


def _distinct(people: Sequence[Person]) -> list[Person]:
    names = list(people)
    if not names or len(set(names)) < len(names):
        raise InvalidParameter("people", f"{len(names)} names", "at least one, none of them twice")
    return names


def _percent(share: Fraction) -> str:
    return f"{share} = {100 * float(share):.1f} %" if share.denominator > 1 else f"{100 * float(share):.1f} %"


def _many(answers: int) -> str:
    return "1 answer" if answers == 1 else f"{answers} answers"
