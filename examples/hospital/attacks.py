"""Two attacks on one person, against the curator and against systems without one.

The table is a clinic for one illness: being in it at all is the secret, and "add or remove one" is what it hides.
"""

import math
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from operator import eq
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from generate import REGIONS
from story import Averaging, Differencing, Guesses

import discreet
from discreet.attacks.answers.answerers import Answerer, Curator, only
from discreet.attacks.answers.averages import difference, gather
from discreet.errors import BudgetExceeded, DiscreetError
from discreet.mechanisms import Geometric
from discreet.mechanisms.bayesian import guess_bound

SEED = 2026  # of the clinic and of the coins; never of noise

CLINIC = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
witness = "none"
[budget]
everyone = "all"
epsilon = "1"
[tables.treated]
source = "python"
unit = "person_id"
max_groups_per_unit = 1
max_rows_per_group = 1
[tables.treated.columns]
person_id = {type = "integer", nullable = false}
age = {type = "integer", nullable = false, lower = 0, upper = 110}
region = {type = "text", nullable = false}
"""
TARGET = {"person_id": 4711, "age": 97, "region": "Northam"}
EVERYBODY = "SELECT COUNT(*) AS n FROM treated"
BUT_ONE = "SELECT COUNT(*) AS n FROM treated WHERE NOT (age = 97 AND region = 'Northam')"
ONLY_ONE = "SELECT COUNT(*) AS n FROM treated WHERE age = 97 AND region = 'Northam'"
BY_NUMBER = "SELECT COUNT(*) AS n FROM treated WHERE person_id <> 4711"


class Clinics:
    """Curators over the same small clinic, with the target in it or not, each with a ledger and a budget of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, count()
        self._policy = folder / "clinic.toml"
        self._policy.write_text(CLINIC, encoding="utf-8")
        rng = np.random.default_rng(SEED)
        others = {"person_id": np.arange(1, 41), "age": rng.integers(20, 90, 40)}
        self._others = pa.table(others | {"region": rng.choice(list(REGIONS), 40)})

    def table(self, target: bool) -> pa.Table:
        """Forty people, and the target if so."""
        if not target:
            return self._others
        one = pa.table({name: pa.array([TARGET[name]], kind) for name, kind in zip(TARGET, self._types, strict=True)})
        return pa.concat_tables([self._others, one])

    @property
    def _types(self) -> list[pa.DataType]:
        return [self._others.schema.field(name).type for name in TARGET]

    def open(self, target: bool) -> Any:
        """A curator that has answered nothing yet."""
        ledger = self._folder / f"{next(self._numbers)}.ledger"
        return discreet.open(self._policy, tables={"treated": self.table(target)}, ledger=ledger, analyst="eve")


def attack_by_averaging(repeats: int = 100, each: str = "0.1", furthest: int = 100_000) -> Averaging:
    """Ask the same again and again; then rephrase; then try a system that adds noise but keeps no ledger."""
    print("\nFirst attack: averaging. Is the count 40 or 41? That is one person.")
    refusals: list[BudgetExceeded] = []
    with tempfile.TemporaryDirectory() as folder, Clinics(Path(folder)).open(target=True) as data:
        eve = Curator(dataset=data, epsilon=each, on_refusal=refusals.append)
        same = gather(eve, [EVERYBODY] * repeats)
        rephrased = gather(eve, (f"{EVERYBODY} WHERE age > -{i}" for i in count(1)), until_refused=True)
    answers = (*set(same.answers), *rephrased.answers)
    noise = Geometric(epsilon=each, sensitivity=1)
    careless = np.asarray(noise.release(np.full(furthest, 41)))
    attack = Averaging(
        sql=EVERYBODY,
        truth=41,
        repeats=repeats,
        different=len(set(same.answers)),
        answers=answers,
        refusal=str(refusals[0]),
        spread=math.sqrt(noise.variance),
        furthest=furthest,
        careless=float(careless.mean()),
    )
    print(f"  the same question {repeats} times: {attack.different} answer, paid for once")
    print(f"  rephrased: {len(answers)} answers, mean {attack.estimate:.1f} ± {attack.margin:.1f}; then refused")
    print(f"  noise without a ledger: mean {attack.careless:.2f} ± {attack.careless_margin:.2f}, found out")
    return attack


def attack_by_differencing(trials: int) -> Differencing:
    """Everybody minus everybody but one, each time with a new coin, a new curator and a budget of ε 1."""
    print(f"\nSecond attack: differencing. {trials} trials, each with a new curator and ε 1 in all")
    coins = np.random.default_rng(SEED).integers(0, 2, trials).astype(bool).tolist()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as pool:
        clinics = Clinics(Path(folder))
        exact = [guess_exactly(clinics.table(target)) for target in coins]
        difference = list(pool.map(partial(guess_by_difference, clinics), coins))
        direct = list(pool.map(partial(guess_directly, clinics), coins))
        by_number = try_by_number(clinics)
    right = [sum(map(eq, guesses, coins)) for guesses in (exact, difference, direct)]
    attack = Differencing(
        sqls=(EVERYBODY, BUT_ONE),
        direct=ONLY_ONE,
        epsilon=1.0,
        bound=guess_bound(1) / 2,
        guesses=(
            Guesses("exact answers, the difference", right[0], trials),
            Guesses("the curator, the difference", right[1], trials),
            Guesses("the curator, all of ε on one question", right[2], trials),
        ),
        by_number=by_number,
    )
    for guess in attack.guesses:
        print(f"  {guess.name:<40} right {guess.share:6.1%}")
    luck = 2 * math.sqrt(attack.bound * (1 - attack.bound) / trials)
    print(f"  {'no attack can beat, on average,':<40}       {attack.bound:6.1%} (seen here within {luck:.0%})")
    return attack


def guess_exactly(table: pa.Table) -> bool:
    """The undefended system: answers are exact, so the difference tells."""
    treated = duckdb.from_arrow(table)
    return guess(lambda sql: treated.query("treated", sql).fetchall()[0][0])


def guess_by_difference(clinics: Clinics, target: bool) -> bool:
    """Half of the budget for everybody, half for everybody but one."""
    with clinics.open(target) as data:
        return guess(Curator(dataset=data, epsilon="0.5"))


def guess(answerer: Answerer) -> bool:
    """Whether the target is there, by everybody minus everybody but one."""
    found = difference(answerer, [(EVERYBODY, BUT_ONE)])
    return found is not None and found > 0.5


def guess_directly(clinics: Clinics, target: bool) -> bool:
    """All of the budget for the one person: no attack does better."""
    with clinics.open(target) as data:
        answer = Curator(dataset=data, epsilon="1")(ONLY_ONE)
        return answer is not None and answer >= 1


def try_by_number(clinics: Clinics) -> tuple[str, str]:
    """The same with the person's number: what was asked, and what came back."""
    with clinics.open(target=True) as data:
        try:
            answer = data.ask(BY_NUMBER, epsilon="0.5")
            low, high = (end[0].as_py() for end in answer.intervals["n"])
            return BY_NUMBER, f"answered like any other, with noise: {only(answer.table):g}, between {low} and {high}"
        except DiscreetError as error:
            return BY_NUMBER, f"refused: {error}"
