"""Masking a table as a policy says: redaction, coarsening, recoding, suppression, dummy rows; and what it cost.

>>> from discreet.anonymity import Policy, anonymize
>>> policy = Policy.of({
...     "anonymity": {"k": 2, "method": "local"},
...     "columns": {"name": "identifier", "zip": {"quasi": "prefixes"}, "illness": "sensitive"},
... })
>>> people = {"name": [*"ABCD"], "zip": ["13053", "13068", "14850", "14853"], "illness": [*"abcd"]}
>>> anonymize(people, policy).table.to_pydict()
{'zip': ['130**', '130**', '1485*', '1485*'], 'illness': ['a', 'b', 'c', 'd']}
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.anonymity_report import release_page, risk_page
from discreet.anonymity.classes import Classes, Ints
from discreet.anonymity.hierarchy import TOP, Hierarchy
from discreet.anonymity.masking_policy import Policy
from discreet.anonymity.models import Target, Verdict, verify
from discreet.anonymity.recoding import Coded, Recoding
from discreet.anonymity.recoding.global_recoding import Partition, optimal, partition
from discreet.anonymity.recoding.local_recoding import local
from discreet.errors import InternalError, InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.noise import Entropy
from discreet.noise.uniform import uniform_below
from discreet.report import Facts, Page, Text
from discreet.tables import column, read_table, texts

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True, eq=False)
class Anonymized:
    """The released table, and how it came about. `original` is private; so is everything that names a small class."""

    table: "pyarrow.Table"
    policy: Policy
    original: "pyarrow.Table"
    recoding: Recoding | Partition
    verdict: Verdict
    dummies: int = 0
    units: Ints | None = None
    remarks: tuple[str, ...] = ()

    @property
    def suppressed(self) -> int:
        """How many rows have `*` in every quasi-identifier."""
        return self.verdict.suppressed

    @property
    def done(self) -> list[str]:
        """What was done, in sentences."""
        policy = self.policy
        steps = [f"Removed: {', '.join(policy.identifiers)}."] if policy.identifiers else []
        steps += [f"Coarsened to level {level}: {rule.column}." for rule, level in policy.coarsen]
        steps += [f"Recoded ({policy.method}) to {policy.target.name}: {', '.join(policy.names)}."]
        lifted = self._lifted
        gone = self.suppressed - lifted
        rows = "1 row" if gone == 1 else f"{gone:,} rows"
        steps += [f"Suppressed {rows}: * in every quasi-identifier."] if gone else []
        steps += [f"Lifted {lifted:,} rows to * in every quasi-identifier, like suppressed ones."] if lifted else []
        steps += self._secrets
        steps += (
            [f"Added {self.dummies:,} made-up rows; counts over the table are too high by them."]
            if self.dummies
            else []
        )
        return [*steps, *self.remarks]

    @property
    def _lifted(self) -> int:
        """How many rows are in a class that was lifted to `*` everywhere, but not suppressed."""
        if not isinstance(self.recoding, Recoding) or self.policy.presence is not None:
            return 0
        return self.suppressed - int(self.recoding.suppressed.sum())

    @property
    def _secrets(self) -> list[str]:
        """What became of the secrets of suppressed rows."""
        hidden = self.verdict.hidden
        if hidden is None or not self.policy.sensitive:
            return []
        if hidden.removed:
            failed = f"As one class they do not satisfy {', '.join(hidden.failing)}"
            return [f"{failed}: their values of {', '.join(hidden.removed)} were removed."]
        return ["As one class they satisfy every model, and keep their sensitive values."] if hidden.told else []

    def text(self) -> str:
        """What was done and what was reached, as lines."""
        return "\n".join([*self.done, self.verdict.text(), f"information lost (NCP): {self.recoding.ncp:.4f} of 1"])

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        reached = self.verdict.as_dict()
        return {"done": self.done, "ncp": self.recoding.ncp, "dummies": self.dummies, "verdict": reached}

    def page(self, **settings: Any) -> Page:
        """The report: risk before and after, what was reached, what was lost, what none of it promises."""
        target, secrets = self.policy.target, tuple(self.policy.sensitive)
        if isinstance(self.recoding, Recoding):
            settings = {"units": self.units, "verdict": self.verdict, **settings}
            return release_page(self.original, self.recoding, target, done=self.done, sensitive=secrets, **settings)
        page = risk_page(self.table, self.policy.names, models=target, sensitive=secrets, units=self.units, **settings)
        lost = Facts({"information lost (NCP), of 1": self.recoding.ncp})
        return Page(page.title, [*map(Text, self.done), lost, *page.parts], lead=page.lead)

    def _repr_html_(self) -> str:
        return self.page().fragment()


def anonymize(table: Any, policy: Policy, *, entropy: Entropy | None = None) -> Anonymized:
    """Anonymize a table as a policy says.

    Guarantee: the target holds for every class of the released table, read again from its texts, counting the policy's
    unit. Rows whose quasi-identifiers are all `*` are in no class: they satisfy the target as one, or their sensitive
    values are missing in the release. It is no guarantee of privacy: see `Anonymized.page`.
    """
    arrow = read_table(table)
    prepared, units = policy.prepared(arrow), policy.units(arrow)
    for rule, level in policy.coarsen:
        prepared = coarsened(prepared, rule.hierarchy(prepared), level=level)
    made = _recoded(prepared, policy, units, entropy)
    released, dummies = made.table(prepared), 0
    if policy.small == "dummies":
        released, dummies = padded(released, policy.names, k=policy.k, entropy=entropy)
    released, models = _members(released, policy)
    verdict = verify(released, quasi=policy.names, models=models, sensitive=tuple(policy.sensitive), units=units)
    if not all(finding.holds for finding in verdict.findings):
        raise InternalError("the released table, read again, does not satisfy the policy; nothing was released")
    if verdict.hidden is not None and not verdict.hidden.holds:
        gone = Classes.of_table(released, policy.names).of_row < 0
        released = blanked(released, gone, tuple(policy.sensitive))
        hidden = replace(verdict.hidden, told=False, removed=tuple(policy.sensitive))
        verdict = replace(verdict, hidden=hidden)
    return Anonymized(released, policy, prepared, made, verdict, dummies, units, _repeated(arrow, policy))


def _repeated(table: "pyarrow.Table", policy: Policy) -> tuple[str, ...]:
    """A sentence where rows were counted although a name occurs in several of them."""
    if policy.unit is not None:
        return ()
    for name in policy.identifiers:
        values = len(column(table, name).unique())
        if values < table.num_rows:
            return (
                f"Rows were counted; {name!r} has {values:,} values in {table.num_rows:,} rows: if it names people, "
                f'say unit = "{name}" under [anonymity], or one person\'s rows are taken for several people.',
            )
    return ()


def _recoded(
    table: "pyarrow.Table", policy: Policy, units: Ints | None, entropy: Entropy | None
) -> Recoding | Partition:
    if policy.method == "mondrian" and policy.suppression:
        raise InvalidParameter("anonymity.method", policy.method, "'optimal' or 'local' where rows are suppressed")
    if policy.unit is not None and policy.small != "suppress":
        raise InvalidParameter(
            "anonymity.small", policy.small, "'suppress' where a unit is counted: a row is no person"
        )
    if policy.method != "optimal" and policy.small != "suppress":
        raise InvalidParameter("anonymity.method", policy.method, "'optimal' where rows are made up")
    if policy.method == "mondrian":
        return partition(table, policy.names, policy.target.bind(table, quasi=policy.names, units=units))
    coded = Coded.of(table, [rule.hierarchy(table) for rule in policy.quasi])
    target = policy.target.bind(table, quasi=policy.names, units=units)
    if policy.method == "local":
        return local(coded, target, suppression=policy.suppression, entropy=entropy)
    made = optimal(coded, target, suppression=policy.suppression)
    if policy.small == "suppress":
        return made
    if len(policy.target.models) > 1:
        raise InvalidParameter("anonymity.small", "dummies", "no model but k", "made-up rows cannot fix other models")
    return Recoding(made.coded, made.levels, np.zeros(made.coded.rows, np.bool_))


def _members(table: "pyarrow.Table", policy: Policy) -> "tuple[pyarrow.Table, Target]":
    """The rows of the members alone, where the table is a population; and what is checked again afterwards.

    Classes of the population shrink to their members: rows of those that then fail the rest are suppressed.
    """
    if policy.presence is None or policy.presence.member is None:
        return table, policy.target
    member = policy.presence.member
    inside = np.isin([text.lower() for text in texts(column(table, member)).to_pylist()], ["true", "1", "yes"])
    released = table.filter(inside).drop_columns([member])
    rest = Target.of(*(model for model in policy.target.models if model is not policy.presence))
    classes = Classes.of_table(released, policy.names)
    fits = rest.bind(released, quasi=policy.names, feasible=False).holds(classes)
    failing = np.append(~fits, True)[classes.of_row]  # suppressed rows stay so
    return suppressed(released, failing, policy.names), rest


# The plain operations


def redacted(table: Any, names: Sequence[str]) -> "pyarrow.Table":
    """The table without the named columns.

    >>> redacted({"name": ["Ann"], "age": [30]}, ["name"]).column_names
    ['age']
    """
    arrow = read_table(table)
    for name in names:
        column(arrow, name)
    return arrow.drop_columns(list(names))


def coarsened(table: Any, hierarchy: Hierarchy, *, level: int) -> "pyarrow.Table":
    """The table with one column lifted to a level of its hierarchy.

    >>> ages = Hierarchy.rows("age", [(28, "<30"), (31, "3*"), (36, "3*")])
    >>> coarsened({"age": [28, 31]}, ages, level=1).column("age").to_pylist()
    ['<30', '3*']
    """
    import pyarrow

    if not 0 <= level <= hierarchy.height:
        raise InvalidParameter("level", level, f"a level of {hierarchy.name!r}, 0 to {hierarchy.height}")
    arrow = read_table(table)
    codes = hierarchy.codes[level][hierarchy.code(column(arrow, hierarchy.name))]
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes), list(hierarchy.labels[level]))
    return arrow.set_column(arrow.column_names.index(hierarchy.name), hierarchy.name, texts.dictionary_decode())


def suppressed(table: Any, rows: NDArray[np.bool_], names: Sequence[str]) -> "pyarrow.Table":
    """The table with the named columns replaced by `*` in the given rows.

    >>> suppressed({"zip": ["13053", "14850"]}, np.array([False, True]), ["zip"]).column("zip").to_pylist()
    ['13053', '*']
    """
    import pyarrow
    from pyarrow import compute

    arrow = read_table(table)
    mask = np.asarray(rows)
    if mask.dtype != bool or mask.shape != (arrow.num_rows,):
        raise InvalidData(f"rows: expected one true or false for each of the {arrow.num_rows} rows")
    for name in names:
        values = texts(column(arrow, name))
        hidden = compute.if_else(pyarrow.array(mask), TOP, values)
        arrow = arrow.set_column(arrow.column_names.index(name), name, hidden)
    return arrow


def blanked(table: Any, rows: NDArray[np.bool_], names: Sequence[str]) -> "pyarrow.Table":
    """The table with the named columns missing in the given rows.

    >>> blanked({"ill": ["flu", "ulcer"]}, np.array([False, True]), ["ill"]).column("ill").to_pylist()
    ['flu', None]
    """
    import pyarrow
    from pyarrow import compute

    arrow, mask = read_table(table), pyarrow.array(np.asarray(rows))
    for name in names:
        values = column(arrow, name)
        empty = compute.if_else(mask, pyarrow.scalar(None, values.type), values)
        arrow = arrow.set_column(arrow.column_names.index(name), name, empty)
    return arrow


def padded(table: Any, quasi: Sequence[str], *, k: int, entropy: Entropy | None = None) -> "tuple[pyarrow.Table, int]":
    """The table with dummy rows, so that every class has at least k rows; and how many were added.

    A dummy row has the quasi-identifiers of its class; each other value is that of a row drawn from the whole table.
    Rows are shuffled, so that a dummy does not stand last. It distorts counts: the number added is part of the result,
    to be published with the table.

    >>> table, added = padded({"zip": ["130**", "130**", "148**"], "sick": ["yes", "no", "no"]}, ["zip"], k=2)
    >>> added, sorted(table.column("zip").to_pylist())
    (1, ['130**', '130**', '148**', '148**'])
    """
    import pyarrow

    integer(k, "k", at_least=1)
    arrow = read_table(table)
    if arrow.num_rows == 0:
        raise InvalidData("the table has no rows")
    classes = Classes.of_table(arrow, quasi)
    missing = np.maximum(k - classes.sizes, 0)
    models = _first_rows(classes)[np.repeat(np.arange(classes.count), missing)]
    if not len(models):
        return arrow, 0
    drawn = {
        name: np.asarray(uniform_below(arrow.num_rows, len(models), entropy=entropy)) for name in arrow.column_names
    }
    columns = {
        name: arrow.column(name).take(pyarrow.array(models if name in quasi else drawn[name]))
        for name in arrow.column_names
    }
    whole = pyarrow.concat_tables([arrow, pyarrow.table(columns, schema=arrow.schema)])
    return shuffled(whole, entropy=entropy), len(models)


def shuffled(table: Any, *, entropy: Entropy | None = None) -> "pyarrow.Table":
    """The table with its rows in a random order: the order of rows can tell whose they are.

    >>> sorted(shuffled({"zip": ["a", "b", "c"]}).column("zip").to_pylist())
    ['a', 'b', 'c']
    """
    import pyarrow

    arrow = read_table(table)
    if not arrow.num_rows:
        return arrow
    words = np.asarray(uniform_below(2**63, arrow.num_rows, entropy=entropy))  # ties: below 2⁻⁶⁴·rows², in order
    return arrow.take(pyarrow.array(np.argsort(words, kind="stable")))


def _first_rows(classes: Classes) -> NDArray[np.int64]:
    first = np.zeros(classes.count, np.int64)
    kept = np.flatnonzero(classes.of_row >= 0)[::-1]
    first[classes.of_row[kept]] = kept
    return first
