"""What can be asked of a dataset, as frozen values: `Dataset.plan(request)` prices one, `Dataset.release` pays for it.

A request says what somebody wants in their own words; nothing of it is checked before it meets the owner's catalog.

>>> Question("SELECT COUNT(*) FROM people", epsilon=1).statements
('SELECT COUNT(*) FROM people',)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from discreet.errors import InvalidParameter
from discreet.exact import Number

__all__ = [
    "Commute",
    "ContributionBounds",
    "FairnessAudit",
    "LinkedSynthesis",
    "Question",
    "Request",
    "Synthesis",
    "Training",
]


@dataclass(frozen=True)
class Question:
    """One SELECT, or several that are planned and paid for together: one ε for all, nothing released twice.

    State `epsilon`, what the whole may cost, or `error`, the error of every count and sum that you accept, for which
    the least ε is found. An error of averages, variances or quantiles, and a relative one ("5%"), needs both: a tenth
    of ε pays for a first release, and a second costs the least ε, within the rest, that keeps the error. `delta` is
    needed where groups come from the data; with it, Gaussian noise is used where it is smaller. `groups` and `rows`
    bound what one person contributes, instead of the policy. `measure_bounds` spends a tenth of ε on how much that
    left out.
    """

    sql: str | Sequence[str]
    epsilon: Number | None = field(default=None, kw_only=True)
    error: Number | None = field(default=None, kw_only=True)
    delta: Number | None = field(default=None, kw_only=True)
    groups: int | None = field(default=None, kw_only=True)
    rows: int | None = field(default=None, kw_only=True)
    confidence: Number = field(default="0.95", kw_only=True)
    measure_bounds: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.sql, str) and not self.sql:
            raise InvalidParameter("statements", self.sql, "SQL as text, or a list of at least one statement")

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements, in order."""
        return (self.sql,) if isinstance(self.sql, str) else tuple(self.sql)


@dataclass(frozen=True, kw_only=True)
class Training:
    """A model that predicts a column of a table: a network trained by DP-SGD, or a classical model.

    `examples` is the public, rough number of units (ask for a count first): it sets the rate and costs nothing.
    `features`: the columns it reads; all others, if left out. `recipe` has further settings of
    `learning.sgd.recipe.Recipe`: steps, adaptive, per_layer, curve, average, seed … What is left out is set from public
    facts (examples, features, ε, δ) by `learning.training_plan`, as for `DPClassifier`; `explain` says what to. With
    `epochs` stated, a lot is a tenth of the examples, if left out. `model`: a network, logistic (with `C`) or linear
    regression, or a tree of a `depth`.

    >>> Training(table="visits", target="ill", epsilon=1, delta="1e-6", examples=2000).model
    'network'
    """

    table: str
    target: str
    epsilon: Number
    delta: Number
    examples: int
    features: Sequence[str] | None = None
    hidden: Sequence[int] | None = None
    activation: str | None = None
    epochs: Number | None = None
    lot: int | None = None
    clip: Number | None = None
    optimizer: Any = None
    model: Literal["network", "logistic", "linear", "tree"] = "network"
    depth: int = 4
    C: Number = 1
    recipe: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """A synthetic table that looks like a private one.

    delta: that of the budget, if left out. columns: those to synthesize; if left out, all but the key, each of which
    must be declared well enough: none is silently dropped. exclude: columns that are not synthesized. bins, values:
    public, instead of the policy's. discover: text columns whose values are found privately; they cost a tenth of ε
    and δ together. at_most: rules "a <= b"; never: combinations that cannot be; rules: these and others as sentences
    ("a decides b", "when a=x then b=y|z"). target: a column that models will predict. rows_per_person: the most rows of
    one person. people: about how many units there are, public, to refuse a budget that is too small. rows: how many
    synthetic rows; the noisy number of rows, if left out. adaptive: after columns and pairs, so many rounds in which
    triples are chosen privately. model: "relaxed", or "graphical" (by mbi, an extra). settings: how a table is fitted,
    `synthetic.fit.relaxed.Settings`.

    >>> Synthesis(table="people", epsilon=1).model
    'relaxed'
    """

    table: str
    epsilon: Number
    delta: Number | None = None
    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    bins: Mapping[str, int | Sequence[Any]] = field(default_factory=dict)
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    discover: Sequence[str] = ()
    at_most: Sequence[str] = ()
    never: Sequence[Any] = ()
    rules: Sequence[str] = ()
    target: str | None = None
    rows_per_person: int = 1
    people: int | None = None
    rows: int | None = None
    adaptive: int | None = None
    model: Literal["relaxed", "graphical"] = "relaxed"
    settings: Any = None


@dataclass(frozen=True, kw_only=True)
class LinkedSynthesis:
    """Several synthetic tables of the same people: one person's rows stay together.

    tables: names, or what is said of each: columns, exclude, bins, values, at_most, never, rules, rows_per_person (1,
    if left out). The first with one row a person has the people. delta: that of the budget, if left out. people: about
    how many there are, public. settings: how tables are fitted, `synthetic.fit.relaxed.Settings`.

    >>> LinkedSynthesis(tables=["people", "visits"], epsilon=1).people is None
    True
    """

    tables: Mapping[str, Mapping[str, Any]] | Sequence[str]
    epsilon: Number
    delta: Number | None = None
    people: int | None = None
    settings: Any = None


@dataclass(frozen=True, kw_only=True)
class Commute:
    """Synthetic flows between two columns of a table.

    `places` is a public table of names and coordinates. The others are settings of `synthetic.commuting.flows.Scheme`.

    >>> Commute(table="people", places={}, origin="home", destination="work", epsilon=1).promise
    'pure'
    """

    table: str
    places: Any
    origin: str
    destination: str
    epsilon: Number
    delta: Number = 0
    promise: Literal["pure", "approximate"] = "pure"
    cap: Number | None = None
    bands: Sequence[Number] | None = None
    groups: Mapping[str, str] | None = None
    hubs: int | None = None


@dataclass(frozen=True, kw_only=True)
class ContributionBounds:
    """Contribution bounds and bounds of columns that suit the data, chosen privately.

    `by`: the columns that questions group by; with them, `max_groups_per_unit` is chosen, and `max_rows_per_group` for
    groups by all of them together. `columns`: names of numeric columns with a wide public range each, within which
    lower and upper are chosen. `probability`: the share of people who are not cut. `most_groups` and `most_rows` are
    public: no bound is chosen above them.

    >>> ContributionBounds(table="visits", epsilon="0.1", columns={"amount": (0, 10**6)}).probability
    '0.95'
    """

    table: str
    epsilon: Number
    by: Sequence[str] = ()
    columns: Mapping[str, tuple[Number, Number]] = field(default_factory=dict)
    probability: Number = "0.95"
    most_groups: int = 1000
    most_rows: int = 1000


@dataclass(frozen=True, kw_only=True)
class FairnessAudit:
    """How far groups are apart in what a model says of the people of a table.

    `predictions` is the model owner's table: the unit's key (the column `key`: that of the unit, unless rows are
    protected) and the column `prediction`. Labels and groups never leave. `group` and `given` have declared values, or
    are numbers for which `bins` says edges (or how many bins of equal width between the declared bounds). `delta` is
    for Gaussian noise, which is larger than geometric noise here, but adds up more slowly over many audits. `least`:
    the smallest group that is judged.

    >>> FairnessAudit(table="people", predictions={}, label="ill", group="sex", epsilon=1).noise
    'geometric'
    """

    table: str
    predictions: Any
    label: str
    group: str | Sequence[str]
    epsilon: Number
    given: str | Sequence[str] = ()
    key: str | None = None
    prediction: str = "prediction"
    positive: str | Sequence[str] = ()
    threshold: Number | None = None
    bins: Mapping[str, int | Sequence[float]] | None = None
    delta: Number | None = None
    noise: Literal["geometric", "gaussian"] = "geometric"
    confidence: Number = "0.95"
    least: int = 20


Request = Question | Training | Synthesis | LinkedSynthesis | Commute | ContributionBounds | FairnessAudit
"""The closed union of what can be asked."""
