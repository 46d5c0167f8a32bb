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


BROKEN = {
    # claim: where the product is broken, and how
    "A6": ("discreet.claims.anonymization.two_tables", lambda real: lambda **_: real(noisy=True)),
    "A7": ("discreet.claims.anonymization.two_tables", lambda real: lambda **_: real()),
    "B1": (
        "discreet.mechanisms.randomized_response.KRR.release",
        lambda real: lambda self, value, **_: np.asarray(value),
    ),
    "B5": (
        "discreet.mechanisms.additive.Laplace.release",
        lambda real: lambda self, value, **more: np.asarray(real(self, value, **more)) / 2,
    ),
    "B6": (
        "discreet.mechanisms.additive.Geometric.release",
        lambda real: lambda self, value, **_: np.asarray(value) + 5,
    ),
    "B7": ("discreet.claims.central_model.gaussian_multiplier", lambda real: lambda **terms: 2 * real(**terms)),
    "B10": (
        "discreet.claims.central_model.guarantee",
        lambda real: lambda loss, delta: real(loss.losses[0], delta=delta),
    ),
    "B11": ("discreet.privacy.budget.Budget.allows", lambda real: lambda self, spent: True),
    "C1": (
        "discreet.mechanisms.randomized_response.RandomizedResponse.release",
        lambda real: lambda self, value, **_: value,
    ),
    "C3": ("discreet.local.oracles.responses.KRR.randomize", lambda real: lambda self, values, **_: values),
    "C5": (
        "discreet.mechanisms.additive.PlanarLaplace.release",
        lambda real: lambda self, value, **_: np.asarray(value),
    ),
    "C6": (
        "discreet.claims.local_model.invert",
        lambda real: lambda channel, counts: [Fraction(c, sum(counts)) for c in counts],
    ),
    "D1": ("discreet.claims.private_learning.poisson_sample", lambda real: lambda rate, n, **_: np.arange(n)),
    "E1": (
        "discreet.claims.synthetic_data.measure",
        lambda real: lambda table, design, **m: real(table[:, ::-1] * 0, design, **m),
    ),
    "F1": (
        "discreet.claims.group_fairness.fairness_report",
        lambda real: lambda table, **terms: real({**table, "yhat": table["y"]}, **terms),
    ),
    "G1": ("discreet.claims.group_fairness.agree", lambda real: lambda a, b, purpose: a),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BROKEN)
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
