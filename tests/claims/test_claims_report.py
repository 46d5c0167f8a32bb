"""The report of all claims: every figure is as predicted, and a product that is broken on purpose is told."""

import json
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

from discreet.claims import CLAIMS, Evidence, Figure, Run, page, results
from discreet.claims.claim import Claim, Group
from discreet.cli.claims import claims
from discreet.errors import InvalidParameter
from discreet.mechanisms.channel import identity
from discreet.synthetic.commuting import pure_prior

NUMBERS = {"A": 11, "B": 16, "C": 9, "D": 7, "E": 4, "F": 6, "G": 1}
QUICK = Run(seed=1, fast=True)


def test_there_is_every_claim_once():
    assert [claim.id for claim in CLAIMS] == [
        f"{letter}{n}" for letter, last in NUMBERS.items() for n in range(1, last + 1)
    ]


@pytest.mark.filterwarnings("ignore:expect little")
@pytest.mark.parametrize("name", [claim.id for claim in CLAIMS])
def test_every_figure_is_as_predicted(name):
    (result,) = results([name], QUICK)
    assert result.holds, [figure.row() for figure in result.evidence.figures if not figure.holds]
    json.dumps(result.to_json(), allow_nan=False)
    assert result.charts
    assert "<h2" in page([result], QUICK).html()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:expect little")
@pytest.mark.parametrize("seed", range(2, 8))
def test_no_seed_is_special(seed):
    failing = {
        result.claim.id: [figure.row() for figure in result.evidence.figures if not figure.holds]
        for result in results(None, Run(seed=seed, fast=True))
        if not result.holds
    }
    assert not failing


def given(**fixed):
    """A sabotage: whatever was said, these settings are taken."""
    return lambda real: lambda *values, **terms: real(*values, **{**terms, **fixed})


def without(name):
    """A sabotage: a setting is ignored."""
    return lambda real: lambda *values, **terms: real(*values, **{k: v for k, v in terms.items() if k != name})


def reading(**columns):
    """A sabotage: columns of the table are taken for others."""
    return lambda real: lambda table, **terms: real({**table, **{k: table[v] for k, v in columns.items()}}, **terms)


ANONYMIZATION, CENTRAL, UTILITY, LOCAL, LEARNING, SYNTHETIC, FAIRNESS = (
    f"discreet.claims.{name}"
    for name in (
        "anonymization", "central_model", "utility", "local_model", "private_learning", "synthetic_data",
        "group_fairness",
    )
)  # fmt: skip

BROKEN = {
    # claim: where the product is broken, and how
    "A1": (f"{ANONYMIZATION}.coarsened", given(level=1)),
    "A2": (
        f"{ANONYMIZATION}.verify",  # diversity is never looked at
        lambda real: lambda table, *, quasi, models: real(table, quasi=quasi, models=[models[0]] * len(models)),
    ),
    "A3": (f"{ANONYMIZATION}.Linkage", given(on=["sex"])),
    "A4": (f"{ANONYMIZATION}.planted", given(known=1)),
    "A5": (f"{ANONYMIZATION}.rewired", lambda real: lambda network, **_: network),
    "A6": (f"{ANONYMIZATION}.two_tables", lambda real: lambda **_: real(noisy=True)),
    "A7": (f"{ANONYMIZATION}.two_tables", lambda real: lambda **_: real()),
    "A8": (f"{ANONYMIZATION}.Accumulation", without("total")),
    "A9": (f"{ANONYMIZATION}.against_budget", given(epsilons=[10_000] * 4)),
    "A10": (f"{ANONYMIZATION}.Smoking", given(epsilon=1)),
    "A11": (f"{ANONYMIZATION}.fingerprint", lambda real: lambda table, columns: real(table, columns[:2])),
    "B1": (
        "discreet.mechanisms.randomized_response.KRR.release",
        lambda real: lambda self, value, **_: np.asarray(value),
    ),
    "B2": (f"{CENTRAL}.sensitivity", given(neighbors="add or remove one")),
    "B3": (
        "discreet.mechanisms.channel.Channel.epsilon",
        lambda real: lambda self, neighbors: real(self, neighbors) / 2,
    ),
    "B4": (f"{CENTRAL}.sensitivity", given(size=2)),
    "B5": (
        "discreet.mechanisms.additive.Laplace.release",
        lambda real: lambda self, value, **more: np.asarray(real(self, value, **more)) / 2,
    ),
    "B6": (
        "discreet.mechanisms.additive.Geometric.release",
        lambda real: lambda self, value, **_: np.asarray(value) + 5,
    ),
    "B7": (f"{CENTRAL}.gaussian_multiplier", lambda real: lambda **terms: 2 * real(**terms)),
    "B8": (
        "discreet.mechanisms.selection.Exponential.probabilities",
        lambda real: lambda self, scores: real(self, 2 * np.asarray(scores)),
    ),
    "B9": (
        "discreet.mechanisms.randomized_response.RandomizedResponse.for_epsilon",
        lambda real: lambda *, epsilon: real(epsilon=2 * epsilon),
    ),
    "B10": (f"{CENTRAL}.guarantee", lambda real: lambda loss, delta: real(loss.losses[0], delta=delta)),
    "B11": ("discreet.privacy.budget.Budget.allows", lambda real: lambda self, spent: True),
    "B12": (f"{CENTRAL}.prior_independence", given(epsilon=100)),
    "B13": (f"{UTILITY}.oblivious", lambda real: lambda query, databases, noise: real(max, databases, noise)),
    "B14": (f"{UTILITY}.remap", lambda real: lambda noise, **_: identity(noise.outputs)),
    "B15": (f"{UTILITY}.remap", lambda real: lambda noise, **_: identity(noise.outputs)),
    "B16": (
        "discreet.mechanisms.additive.Geometric.release",
        lambda real: lambda self, value, **more: np.asarray(real(self, value, **more)) * 2,
    ),
    "C1": (
        "discreet.mechanisms.randomized_response.RandomizedResponse.release",
        lambda real: lambda self, value, **_: value,
    ),
    "C2": ("discreet.local.oracles.responses.BinaryResponse.randomize", lambda real: lambda self, values, **_: values),
    "C3": ("discreet.local.oracles.responses.KRR.randomize", lambda real: lambda self, values, **_: values),
    "C4": (
        "discreet.mechanisms.channel.Channel.d_privacy",
        lambda real: lambda self, metric: real(self, metric) / 2,
    ),
    "C5": (
        "discreet.mechanisms.additive.PlanarLaplace.release",
        lambda real: lambda self, value, **_: np.asarray(value),
    ),
    "C6": (f"{LOCAL}.invert", lambda real: lambda channel, counts: [Fraction(c, sum(counts)) for c in counts]),
    "C7": (f"{LOCAL}.ibu", given(iterations=1)),
    "C8": (f"{LOCAL}.PlanarReport", given(epsilon="ln 2 at 4 km")),
    "C9": (
        "discreet.local.collection.device_account.DeviceAccount.charge",
        lambda real: lambda self, loss, **_: None,
    ),
    "D1": (f"{LEARNING}.poisson_sample", lambda real: lambda rate, n, **_: np.arange(n)),
    "D2": (f"{LEARNING}.costs", lambda real: lambda **terms: dict.fromkeys(real(**terms), real(**terms)["basic"])),
    "D3": (
        f"{LEARNING}.DPClassifier",
        lambda real: lambda **terms: real(**{**terms, "epsilon": 2 * Fraction(terms["epsilon"])}),
    ),
    "D4": (f"{LEARNING}.Recipe.for_budget", given(epsilon=8)),
    "D5": (
        f"{LEARNING}.LossThreshold",
        lambda real: lambda **terms: real(**{**terms, "losses": np.zeros(len(terms["losses"]))}),
    ),
    "D6": ("discreet.learning.federated.crypto.apply", lambda real: lambda words, key, *, add: None),
    "D7": ("discreet.learning.classical.choose", given(epsilon=10)),
    "E1": (f"{SYNTHETIC}.measure", lambda real: lambda table, design, **m: real(table[:, ::-1] * 0, design, **m)),
    "E2": (
        f"{SYNTHETIC}.probabilistic_prior",
        lambda real: lambda blocks, people, *, epsilon, delta: pure_prior(blocks, epsilon=epsilon),
    ),
    "E3": (f"{SYNTHETIC}.Scheme", without("bands")),
    "E4": (f"{SYNTHETIC}.Scheme", without("cap")),
    "F1": (f"{FAIRNESS}.fairness_report", reading(yhat="y")),
    "F2": (f"{FAIRNESS}.fairness_report", reading(given="a")),
    "F3": (f"{FAIRNESS}.fairness_report", reading(y="yhat")),
    "F4": (
        f"{FAIRNESS}.fairness_report",
        lambda real: lambda table, **terms: real({**table, "race": table["race"][::-1]}, **terms),
    ),
    "F5": (
        f"{FAIRNESS}.tradeoff",
        lambda real: lambda score, repays, group, criteria: real(score, repays, np.sort(group), criteria),
    ),
    "F6": (
        "discreet.Dataset.audit_fairness",
        lambda real: (
            lambda self, table, said, **terms: real(
                self, table, {**said, "prediction": said["prediction"][::-1]}, **terms
            )
        ),
    ),
    "G1": (f"{FAIRNESS}.agree", lambda real: lambda a, b, purpose: a),
}
LONG = {"A5", "C8", "D3", "D4", "E2", "E3"}
"""Claims that take more than a second to show: their sabotages are slow tests, and each has its own tests beside."""


def test_every_claim_is_shown_to_fail_on_a_broken_product():
    assert set(BROKEN) == {claim.id for claim in CLAIMS}


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:expect little")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in BROKEN]
)
def test_a_broken_product_is_told(name, monkeypatch):
    target, sabotage = BROKEN[name]
    from _pytest.monkeypatch import derive_importpath

    attribute, found = derive_importpath(target, raising=True)
    monkeypatch.setattr(found, attribute, sabotage(getattr(found, attribute)))
    assert not results([name], QUICK)[0].holds


def test_a_claim_without_figures_fails_and_an_error_is_a_figure():
    group = Group()
    group.claim("Z1", "Nothing is shown.")(lambda run: Evidence([]))

    def refuse(run):
        raise InvalidParameter("x", 1, "2")

    for claim in (*group.claims, Claim("Z2", "An error is raised.", refuse)):
        assert not claim.result(QUICK).holds


@pytest.mark.parametrize(
    ("figure", "holds"),
    [
        (Figure.equal("x", 1, 1.05, within=0.1), True),
        (Figure.equal("x", 1, 1.2, within=0.1), False),
        (Figure.equal("x", 0.3, float("nan"), within=1), False),
        (Figure.equal("x", "a", "b"), False),
        (Figure.at_most("x", 1, 1), True),
        (Figure.at_most("x", 1, float("nan")), False),
        (Figure.at_least("x", 1, 0.9), False),
        (Figure.at_least("x", 1, float("nan")), False),
        (Figure.covered("x", 1, 2, 0.5, 3), True),
        (Figure.covered("x", 1, 2, 1.5, 3), False),
    ],
)
def test_figures_say_whether_they_agree(figure, holds):
    assert figure.holds is holds
    assert figure.row()[-1] == ("as predicted" if holds else "not as predicted")


def test_the_command(tmp_path):
    target = str(tmp_path / "claims.html")
    done = CliRunner().invoke(claims, ["a6", "B3", "-o", target, "--fast", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert [(claim["id"], claim["holds"]) for claim in document["claims"]] == [("A6", True), ("B3", True)]
    assert document["claims"][1]["figures"][0]["measured"] == "∞"
    assert "as predicted" in (tmp_path / "claims.html").read_text("utf-8")
    assert CliRunner().invoke(claims, ["A6", "-o", target]).exit_code == 1  # it exists
    assert "A11" in CliRunner().invoke(claims, ["--list"]).output
    assert isinstance(CliRunner().invoke(claims, ["Z9", "-o", target, "--force"]).exception, InvalidParameter)


def test_the_command_ends_with_3_where_a_claim_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.claims.local_model.invert", lambda channel, counts: counts)
    done = CliRunner().invoke(claims, ["C6", "-o", str(tmp_path / "claims.html")])
    assert done.exit_code == 3
    assert "not as predicted: C6" in done.stderr
