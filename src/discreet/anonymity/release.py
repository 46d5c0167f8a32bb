"""From a table and a policy to a table that may leave the house, with what it reached and what it cost.

>>> from discreet.anonymity import Policy, anonymize
>>> policy = Policy.of({
...     "anonymity": {"k": 2, "method": "local"},
...     "columns": {"name": "identifier", "zip": {"quasi": "prefixes"}, "illness": "sensitive"},
... })
>>> people = {"name": [*"ABCD"], "zip": ["13053", "13068", "14850", "14853"], "illness": [*"abcd"]}
>>> anonymize(people, policy).table.to_pydict()
{'zip': ['130**', '130**', '1485*', '1485*'], 'illness': ['a', 'b', 'c', 'd']}
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.anonymity import lattice, recoding
from discreet.anonymity.bound import Ints
from discreet.anonymity.classes import Classes
from discreet.anonymity.coded import Coded, Recoding
from discreet.anonymity.models import Target
from discreet.anonymity.mondrian import Partition, partition
from discreet.anonymity.operations import blanked, coarsened, padded, suppressed
from discreet.anonymity.policy import Policy
from discreet.anonymity.report import release_page, risk_page
from discreet.anonymity.verdict import Verdict, verify
from discreet.errors import InternalError, InvalidParameter
from discreet.noise import Entropy
from discreet.report import Facts, Page, Text
from discreet.tables import as_arrow, column, texts

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
        steps += [f"Suppressed {gone:,} rows: * in every quasi-identifier."] if gone else []
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
    arrow = as_arrow(table)
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
        return recoding.local(coded, target, suppression=policy.suppression, entropy=entropy)
    made = lattice.optimal(coded, target, suppression=policy.suppression)
    if policy.small == "suppress":
        return made
    if len(policy.target.models) > 1:
        raise InvalidParameter("anonymity.small", "dummies", "no model but k", "made-up rows cannot mend other models")
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
