"""`discreet attack compose`, `reconstruct`, `difference`, `average`: many answers about the same people."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from discreet.cli.attack_shared import FILE, FileColumn, bits_of, column_of, judged, seed_option
from discreet.exact import text_up

if TYPE_CHECKING:
    from discreet.attacks import AttackReport
    from discreet.attacks.answers.answerers import Answerer

_KINDS = ("raw", "rounded", "suppressed", "noisy", "budget")
_METHODS = {"least-squares": "least squares", "lp": "lp"}
_RATIOS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)  # of the noise to √n
_TOTALS = ("0.1", "1", "10", "100", "1000", "10000", "100000")
_MOST_CELLS = 400_000_000


def _answering(*kinds: str, people: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that say whose secrets are attacked and how questions are answered."""
    options = [
        click.option(
            "--answers",
            "kind",
            type=click.Choice(kinds),
            default="raw",
            show_default=True,
            help="raw counts; rounded; small ones suppressed; noisy without a ledger; within a budget"
            + ("; noisy, but kept and given again." if "kept" in kinds else "."),
        ),
        click.option("--people", type=click.IntRange(2, 5000), help=f"Generate the bits of so many.  [{people}]"),
        click.option(
            "--rate",
            type=click.FloatRange(0, 1),
            default=0.5,
            show_default=True,
            help="Share of 1 among generated bits.",
        ),
        click.option("--truth", type=FileColumn(), help="Secret bits of your own instead: 1 and 0, or yes and no."),
        click.option("--base", type=click.IntRange(min=1), default=5, show_default=True, help="Of rounding."),
        click.option(
            "--below", type=click.IntRange(min=1), default=5, show_default=True, help="Counts suppressed below this."
        ),
        click.option("--epsilon", help="noisy, kept: of each answer; budget: for all answers together."),
        seed_option,
    ]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@dataclass(frozen=True, slots=True)
class _Asked:
    """Whose secrets, and how questions about them are answered."""

    kind: str
    secret: Any
    base: int
    below: int
    epsilon: Fraction
    seed: int

    @classmethod
    def of(
        cls,
        size: int,
        *,
        kind: str,
        people: int | None,
        rate: float,
        truth: tuple[str, str] | None,
        base: int,
        below: int,
        epsilon: str | None,
        seed: int,
    ) -> "_Asked":
        from discreet.attacks.answers.reconstruction import population
        from discreet.exact import rational

        random = kind in ("noisy", "kept", "budget")
        if people is not None and truth is not None:
            raise click.UsageError("--people generates secrets, --truth reads them: give one of the two")
        if random and epsilon is None:
            what = "for all answers together" if kind == "budget" else "of each answer"
            raise click.UsageError(f"--answers {kind} needs an ε {what}, such as --epsilon 1")
        if not random and epsilon is not None:
            raise click.UsageError(f"--epsilon goes with noisy answers or a budget, not with --answers {kind}")
        exact = rational(epsilon, "--epsilon", above=0) if epsilon is not None else Fraction(0)
        secret = bits_of(truth, "truth") if truth is not None else population(people or size, rate, seed)
        return cls(kind, secret, base, below, exact, seed)

    def each(self, questions: int) -> Fraction:
        """ε of one answer."""
        return self.epsilon / questions if self.kind == "budget" else self.epsilon

    def answerer(self, questions: int, stream: int = 0) -> "Answerer":
        """Who answers so many questions."""
        from discreet.attacks.answers.answerers import Limited, Noisy, Raw, Remembered, Rounded, Suppressed

        exact = Raw(self.secret)
        match self.kind:
            case "raw":
                return exact
            case "rounded":
                return Rounded(exact, base=self.base)
            case "suppressed":
                return Suppressed(exact, below=self.below)
        noisy = Noisy(exact, epsilon=self.each(questions), seed=self.seed * 1_000_003 + stream)
        if self.kind == "kept":
            return Remembered(noisy)
        return noisy if self.kind == "noisy" else Limited(noisy, answers=questions)

    def for_each(self, questions: int) -> Any:
        """The same, but behind a budget each person is attacked with the whole of it."""
        from discreet.attacks.answers.answerers import Fresh

        if self.kind != "budget":
            return self.answerer(questions)
        words = f"{self.words}, anew for each person"
        return Fresh(lambda person: self.answerer(questions, person), words)

    @property
    def words(self) -> str:
        """How a report calls a budget."""
        return f"noisy counts within a budget of ε {text_up(self.epsilon, 4)}" if self.kind == "budget" else ""

    @property
    def total(self) -> Fraction | None:
        """ε of all answers about one person, behind a budget."""
        return self.epsilon if self.kind == "budget" else None


@click.command(short_help="Two answers, each harmless, that name a person together.")
@click.option(
    "--noisy", is_flag=True, help="Each answer is randomized: a step away from the truth is half as probable."
)
@click.option("--several", is_flag=True, help="The attacker thinks that several people may have the disease.")
@judged()
def compose(noisy: bool, several: bool, confidence: float) -> Any:
    """Two answers that protect one by one and give a person away together: the published example.

    Six invented people; the least age and the greatest weight of whoever has the disease. Each answer fits two people,
    both together only one. With --noisy nobody is ever certain. Computed exactly, without sampling.

    \b
    discreet attack compose
    discreet attack compose --noisy
    """
    from discreet.attacks.answers.composition import PEOPLE, all_worlds, two_tables

    worlds = all_worlds(PEOPLE, at_least=1) if several else None
    return replace(two_tables(noisy=noisy, worlds=worlds), confidence=confidence)


@click.command(short_help="Recover secret bits from counts over subsets.")
@_answering(*_KINDS, people=1000)
@click.option("--questions", type=click.IntRange(min=1), help="How many subsets are asked for.  [4 for each person]")
@click.option(
    "--method", type=click.Choice(list(_METHODS)), default="least-squares", show_default=True, help="How it is solved."
)
@click.option("--curve", is_flag=True, help="Also draw what comes back against the noise, or against the budget.")
@click.option("--policy", type=FILE, help="Ask the curator of this policy instead, with an empty ledger of its own.")
@click.option("--sql", help="With --policy: the question, with {subset} where the subset goes.")
@click.option(
    "--numbers", type=FileColumn(), help="With --policy: each person's public number, a column the SQL knows."
)
@judged()
def reconstruct(
    questions: int | None,
    method: str,
    curve: bool,
    policy: str | None,
    sql: str | None,
    numbers: tuple[str, str] | None,
    confidence: float,
    **answering: Any,
) -> Any:
    """Recover secret bits from counts over random subsets (Dinur, Nissim 2003).

    The bits are generated, or your own (--truth). With --policy your curator is asked, through SQL; the policy's
    whole budget is the attacker's, on a ledger in memory, so that nothing is charged to the real one.

    \b
    discreet attack reconstruct --people 200 --answers rounded
    discreet attack reconstruct --people 200 --answers budget --epsilon 1 --curve --plot curve.svg
    discreet attack reconstruct --policy clinic.toml --epsilon 0.01 --questions 100 \\
        --truth clinic.csv:ill --numbers clinic.csv:person \\
        --sql "SELECT COUNT(*) AS n FROM people WHERE ill AND {subset}"
    """
    if policy is not None:
        if curve or answering["people"] is not None:
            raise click.UsageError("--curve and --people are for generated bits, not for --policy")
        return _Curator(policy, sql, numbers, answering, questions, _METHODS[method], confidence).attack()
    if sql is not None or numbers is not None:
        raise click.UsageError("--sql and --numbers go with --policy")
    if curve and answering["kind"] not in ("noisy", "budget"):
        raise click.UsageError("--curve goes with --answers noisy or budget: it is drawn against the noise or the ε")
    return _reconstruction(_Asked.of(1000, **answering), questions, _METHODS[method], curve, confidence)


def _reconstruction(asked: _Asked, questions: int | None, method: str, curve: bool, confidence: float) -> Any:
    from discreet.attacks.answers.reconstruction import Reconstruction, random_subsets

    count, people = questions or 4 * len(asked.secret), len(asked.secret)
    if count * people > _MOST_CELLS:
        raise click.UsageError(f"{count:,} questions about {people:,} people are too many; ask fewer: --questions")
    attack = Reconstruction(
        subsets=random_subsets(count, people=people, seed=asked.seed),
        truth=asked.secret,
        answerer=asked.answerer(count),
        method=method,
        scale=1 / asked.each(count) if asked.epsilon else 0,
        missing=(0, asked.below - 1) if asked.kind == "suppressed" else None,
        against=asked.words,
        confidence=confidence,
    )
    return _WithCurve(attack, asked, count) if curve else attack


@dataclass(frozen=True, slots=True)
class _WithCurve:
    """A reconstruction, and what comes back at other noises or budgets, on generated bits of the same number and rate.

    The curve is drawn with the same method, questions and seed.
    """

    attack: Any
    asked: _Asked
    questions: int

    def run(self) -> "AttackReport":
        from discreet.attacks.answers.reconstruction import against_budget, against_noise

        settings: dict[str, Any] = {
            "people": len(self.asked.secret),
            "questions": self.questions,
            "seed": self.asked.seed,
            "rate": float(self.asked.secret.mean()),
            "method": self.attack.method,
            "confidence": self.attack.confidence,
        }
        if self.asked.kind == "budget":
            curve = against_budget(epsilons=_TOTALS, **settings)
        else:
            curve = against_noise(ratios=_RATIOS, **settings)
        found: AttackReport = self.attack.run()
        shares = zip(curve.values, curve.shares, strict=True)
        facts = {f"recovered at {value:g} ({curve.axis})": share for value, share in shares}
        return replace(found, charts=(curve.chart(), *found.charts), facts={**found.facts, **facts})


@dataclass(frozen=True, slots=True)
class _Curator:
    """A reconstruction through SQL, against the curator of a policy."""

    policy: str
    sql: str | None
    numbers: tuple[str, str] | None
    answering: dict[str, Any]
    questions: int | None
    method: str
    confidence: float

    def attack(self) -> Any:
        """The same, with everything checked that can be."""
        if self.sql is None or self.numbers is None or self.answering["truth"] is None:
            raise click.UsageError("--policy needs --sql, --numbers and --truth")
        if self.answering["epsilon"] is None:
            raise click.UsageError("--policy needs the ε of each question, such as --epsilon 0.01")
        if self.sql.count("{subset}") != 1:
            raise click.UsageError(
                '--sql needs {subset} once: "SELECT COUNT(*) AS n FROM people WHERE ill AND {subset}"'
            )
        return self

    def run(self) -> "AttackReport":
        import discreet
        from discreet.attacks.answers.answerers import Curator, ask_all
        from discreet.attacks.answers.reconstruction import Hashed, Reconstruction
        from discreet.curator.ledger import Ledger
        from discreet.curator.policy import read_policy
        from discreet.curator.stores.memory import MemoryStore
        from discreet.errors import InvalidData
        from discreet.exact import rational

        assert self.numbers is not None  # noqa: S101 (checked by attack)
        truth, numbers = bits_of(self.answering["truth"], "truth"), column_of(self.numbers, "numbers")
        if len(truth) != len(numbers):
            raise InvalidData(f"numbers: got {len(numbers)}, expected {len(truth)}, one for each line of --truth")
        each = rational(self.answering["epsilon"], "--epsilon", above=0)
        hashed = Hashed.of(numbers, questions=self.questions or 4 * len(truth), seed=self.answering["seed"])
        policy = replace(read_policy(self.policy), caps={}, everyone=None)
        with discreet.open(policy, ledger=Ledger(MemoryStore()), analyst="attacker") as data:
            curator = Curator(dataset=data, epsilon=each, sql=self._question)
            answers = ask_all(curator, hashed.predicates(self.numbers[1]))
            words = f"{curator.words}, ε {text_up(data.policy.budget.epsilon, 4)} in all"
        return Reconstruction(
            subsets=hashed.masks,
            truth=truth,
            answers=answers,
            method=self.method,
            scale=1 / each,
            against=words,
            confidence=self.confidence,
        ).run()

    def _question(self, predicate: str) -> str:
        return str(self.sql).replace("{subset}", f"({predicate})")


@click.command(short_help="Everybody minus everybody but one.")
@_answering(*_KINDS, people=200)
@click.option(
    "--groups", type=click.IntRange(min=1), default=1, show_default=True, help="Pairs of questions about each person."
)
@judged()
def difference(groups: int, confidence: float, **answering: Any) -> Any:
    """Everybody, and everybody but one: the difference of two counts is one person's secret.

    Each person is put into --groups random groups; the mean of the differences tells the bit. Rounding needs many.

    \b
    discreet attack difference --people 100
    discreet attack difference --people 100 --answers rounded --groups 100
    discreet attack difference --people 100 --answers budget --epsilon 1
    """
    from discreet.attacks.answers.averages import Differencing, pairs_about

    asked = _Asked.of(200, **answering)
    people = len(asked.secret)
    if 2 * people * people * groups > _MOST_CELLS:
        raise click.UsageError(f"{groups} groups for each of {people} people are too many; take fewer: --groups")
    return Differencing(
        pairs=pairs_about(range(people), of=people, groups=groups, seed=asked.seed),
        truth=asked.secret,
        answerer=asked.for_each(2 * groups),
        epsilon=asked.total,
        confidence=confidence,
    )


@click.command(short_help="Ask the same again and again.")
@_answering(*_KINDS, "kept", people=400)
@click.option(
    "--repeats", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How often each is asked."
)
@judged()
def average(repeats: int, confidence: float, **answering: Any) -> Any:
    """Ask the same again and again: fresh noise without a ledger averages away.

    Each person's bit is asked for --repeats times. A system that keeps its answers gives the same one again; one with a
    budget spreads it over all repetitions.

    \b
    discreet attack average --people 100 --answers noisy --epsilon 0.5 --repeats 150
    discreet attack average --people 100 --answers budget --epsilon 0.5 --repeats 150
    """
    from discreet.attacks.answers.averages import Averaging

    asked = _Asked.of(400, **answering)
    return Averaging(
        questions=[[[person]] * repeats for person in range(len(asked.secret))],
        truth=asked.secret.astype(int),
        answerer=asked.for_each(repeats),
        possible=(0, 1),
        epsilon=asked.total,
        confidence=confidence,
    )
