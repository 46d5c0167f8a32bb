"""`discreet attack compose`, `reconstruct`, `difference`, `average`, `audit`, `guess`."""

import json

import numpy as np
import pytest

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = "{epsilon}"
[tables.people]
source = "clinic.csv"
unit = "person"
max_groups_per_unit = 1
max_rows_per_group = 1
columns.person = {{type = "integer", nullable = false, lower = 0, upper = 999999}}
columns.ill = {{type = "integer", nullable = false, lower = 0, upper = 1}}
"""
SQL = "SELECT COUNT(*) AS n FROM people WHERE ill = 1 AND {subset}"
MECHANISMS = """
import numpy as np
from discreet.mechanisms import Geometric

def honest(count, n, rng):
    stop = -np.expm1(-1)
    return count + rng.geometric(stop, n) - rng.geometric(stop, n)

def half(count, n, rng):
    stop = -np.expm1(-2)
    return count + rng.geometric(stop, n) - rng.geometric(stop, n)

def truth(count):
    return count

def flat(count, n):
    return np.zeros(n)

def failing(count):
    raise RuntimeError

mechanism = Geometric(epsilon=1, sensitivity=1)
"""


def test_the_published_example(discreet):
    exact = discreet("attack", "compose", "--json").json
    assert exact["verdict"] == "falls"
    assert exact["facts"]["possible people, after both answers"] == "Don"
    noisy = discreet("attack", "compose", "--noisy", "--json").json
    assert (noisy["verdict"], noisy["success"]["value"]) == ("holds", 0)
    several = discreet("attack", "compose", "--several", "--json").json
    assert several["facts"]["possible worlds"] == 63


@pytest.mark.parametrize("kind", ["raw", "rounded", "suppressed"])
def test_what_is_not_noise_does_not_help(discreet, kind):
    found = discreet("attack", "reconstruct", "--people", "100", "--answers", kind, "--json").json
    assert found["verdict"] == "falls"
    assert found["success"]["value"] > 0.95


def test_a_budget_helps_and_the_curve_shows_where(discreet, tmp_path):
    words = (
        "--people",
        "600",
        "--questions",
        "900",
        "--answers",
        "budget",
        "--epsilon",
        "1",
        "--curve",
        "--plot",
        "c.svg",
    )
    found = discreet("attack", "reconstruct", *words, "--json").json
    assert found["verdict"] == "holds"
    shares = [fact["value"] for name, fact in found["facts"].items() if name.startswith("recovered at")]
    assert shares[0] < 0.6
    assert shares[-1] == 1
    assert "in all" in (tmp_path / "c.svg").read_text(encoding="utf-8")
    noisy = discreet(
        "attack", "reconstruct", "--people", "100", "--answers", "noisy", "--epsilon", "2", "--curve", "--json"
    )
    assert noisy.json["verdict"] == "falls"
    lp = discreet("attack", "reconstruct", "--people", "60", "--method", "lp", "--json").json
    assert lp["success"]["value"] == 1


def test_bits_of_your_own(discreet, tmp_path):
    rng = np.random.default_rng(1)
    words = ["yes" if bit else "no" for bit in rng.random(80) < 0.3]
    (tmp_path / "bits.csv").write_text("ill\n" + "\n".join(words) + "\n")
    found = discreet("attack", "reconstruct", "--truth", "bits.csv:ill", "--json").json
    assert found["facts"]["secret bits that are 1"] == words.count("yes")
    assert found["success"]["value"] == 1


@pytest.mark.parametrize(("epsilon", "each", "refused"), [("1", "0.05", 10), ("1000000", "1000", 0)])
def test_the_curator_of_a_policy(discreet, tmp_path, epsilon, each, refused):
    """A careless budget gives everything away; the real ledger is never touched."""
    bits = np.random.default_rng(2).random(24) < 0.5
    (tmp_path / "clinic.csv").write_text("person,ill\n" + "".join(f"{i},{int(bit)}\n" for i, bit in enumerate(bits)))
    (tmp_path / "clinic.toml").write_text(POLICY.format(epsilon=epsilon))
    before = sorted(tmp_path.iterdir())
    words = ("--truth", "clinic.csv:ill", "--numbers", "clinic.csv:person", "--questions", "30" if refused else "60")
    found = discreet(
        "attack", "reconstruct", "--policy", "clinic.toml", "--epsilon", each, "--sql", SQL, *words, "--json"
    )
    assert found.json["facts"]["refused"] == refused
    assert (found.json["success"]["value"] == 1) == (not refused)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--answers", "noisy"), "needs an ε of each answer"),
        (("--answers", "budget"), "needs an ε for all answers"),
        (("--epsilon", "1"), "goes with noisy answers or a budget"),
        (("--curve",), "--curve goes with"),
        (("--sql", SQL), "go with --policy"),
        (("--policy", "clinic.toml"), "needs --sql, --numbers and --truth"),
        (("--policy", "clinic.toml", "--people", "9"), "not for --policy"),
        (("--people", "5000", "--questions", "99999"), "too many"),
    ],
)
def test_wrong_usage_is_refused(discreet, tmp_path, words, message):
    (tmp_path / "clinic.toml").write_text(POLICY.format(epsilon=1))
    done = discreet("attack", "reconstruct", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_the_question_needs_its_subset(discreet, tmp_path):
    (tmp_path / "clinic.csv").write_text("person,ill\n1,0\n2,1\n")
    (tmp_path / "clinic.toml").write_text(POLICY.format(epsilon=1))
    words = ("--policy", "clinic.toml", "--truth", "clinic.csv:ill", "--numbers", "clinic.csv:person", "--epsilon", "1")
    done = discreet("attack", "reconstruct", *words, "--sql", "SELECT COUNT(*) AS n FROM people")
    assert (done.code, "{subset}" in done.err) == (2, True)


def test_differences(discreet):
    run = ("attack", "difference", "--people", "60", "--json")
    assert discreet(*run).json["success"]["value"] == 1
    assert discreet(*run, "--answers", "rounded", "--groups", "100").json["verdict"] == "falls"
    budget = discreet(*run, "--answers", "budget", "--epsilon", "0.01").json
    assert budget["success"]["value"] < 0.5 + 4.9 * 0.5 / 60**0.5
    assert any("ε 0.01 in all" in str(fact) for fact in budget["facts"].values())
    assert discreet("attack", "difference", "--people", "5000", "--groups", "99").code == 2


def test_averages(discreet):
    run = ("attack", "average", "--people", "200", "--repeats", "100", "--json", "--answers")
    assert discreet(*run, "noisy", "--epsilon", "0.5").json["success"]["value"] > 0.9
    once = discreet(*run, "cached", "--epsilon", "0.5").json
    assert once["facts"]["answers that count, mean"] == "1"
    assert once["success"]["value"] < 0.622 + 4.9 * 0.5 / 200**0.5
    assert discreet(*run, "budget", "--epsilon", "0.5").json["success"]["value"] < 0.622 + 4.9 * 0.5 / 200**0.5


def test_a_bit_is_guessed_as_the_nearest_bit():
    """A mean of 7 says 1: an attacker who answered 7 would be weaker than need be."""
    from discreet.attacks.answers.averages import Averaging

    settings = {"questions": [["a"], ["b"]], "answerer": lambda q: {"a": 7, "b": -3}[q]}
    assert Averaging(**settings, truth=[5, 0]).run().success.hits == 0
    for truth, possible in (([1, 0], (0, 1)), ([1, 0], None), ([5, 0], (0, 5))):
        assert Averaging(**settings, truth=truth, possible=possible).run().success.hits == 2


# Mechanisms


@pytest.fixture
def audit(discreet, tmp_path):
    (tmp_path / "counts.py").write_text(MECHANISMS)

    def run(name, *words, command="audit"):
        sure = ("--first", "10", "--second", "11", "--confidence", "0.999999")
        return discreet("attack", command, f"counts.py:{name}", *sure, *words)

    return run


def test_a_false_claim_gives_exit_code_3(audit):
    found = audit("half", "--epsilon", "1", "--samples", "40000", "--json")
    assert found.code == 3
    assert found.json["facts"]["claim"] == "broken"
    assert 1 < found.json["facts"]["ε is at least"] <= 2
    honest = audit("honest", "--epsilon", "1", "--samples", "40000", "--json")
    assert (honest.code, honest.json["facts"]["claim"]) == (0, "not refuted")
    assert audit("half", "--samples", "2000").code == 0  # nothing was claimed
    assert audit("flat", "--epsilon", "1/10", "--samples", "2000").code == 0
    assert audit("truth", "--epsilon", "1", "--samples", "2000").code == 3


def test_without_a_second_input_the_worst_neighbor_is_looked_for(discreet, audit):
    words = ("attack", "audit", "counts.py:half", "--first", "10", "--epsilon", "1", "--samples", "40000")
    done = discreet(*words)
    assert (done.code, "of 2 neighbors the worst is" in done.err) == (3, True)


def test_a_claim_that_so_few_draws_cannot_refute_is_not_said_to_stand(audit):
    found = audit("truth", "--epsilon", "12", "--samples", "2000", "--json").json
    assert (found["verdict"], found["facts"]["claim"]) == ("undecided", "not testable")
    assert found["facts"]["ε that could have been proved, at most"] < 6


def test_a_mechanism_is_held_to_its_own_promise(audit, tmp_path):
    found = audit("mechanism", "--samples", "2000", "--report", "audit.html", "--json")
    assert found.code == 0
    assert found.json["facts"]["claimed ε"] == 1
    assert "audit" in (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert audit("mechanism.release", "--epsilon", "1", "--samples", "2000").code == 0


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("nothing", 2, "it has: Geometric, honest, half"),
        ("failing", 1, "it raised this on every single draw"),
    ],
)
def test_what_cannot_be_audited(audit, name, code, message):
    done = audit(name, "--samples", "400")
    assert (done.code, done.out) == (code, "")
    assert message in done.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "there is nothing to audit"),
        (("counts.py",), 2, "there is nothing to audit"),
        (("counts.py", "--first", "1", "--second", "2"), 2, "is not FILE.py:FUNCTION"),
        (("nowhere.py:f", "--first", "1", "--second", "2"), 2, "there is no file nowhere.py"),
        (("nowhere:f", "--first", "1", "--second", "2"), 1, "cannot be loaded: ModuleNotFoundError"),
        (("wrong.py:f", "--first", "1", "--second", "2"), 1, "cannot be loaded: SyntaxError"),
        (("--zoo", "--epsilon", "1"), 2, "brings its own"),
    ],
)
def test_wrong_targets_are_refused(discreet, tmp_path, words, code, message):
    (tmp_path / "wrong.py").write_text("def f(:\n")
    done = discreet("attack", "audit", *words)
    assert (done.code, done.out) == (code, "")
    assert message in done.err


def test_the_zoo_is_paraded(discreet, tmp_path, monkeypatch):
    from discreet.attacks.audit import zoo

    few = [zoo.named("sum without clamping"), zoo.named("the same seed for every release")]
    audit_zoo = zoo.audit_zoo
    monkeypatch.setattr(zoo, "audit_zoo", lambda **settings: audit_zoo(animals=few, **settings))
    found = discreet("attack", "audit", "--zoo", "--report", "zoo.html", "--plot", "zoo.svg")
    assert found.code == 0
    assert "broken  sum without clamping" in found.out
    assert "2 of 2 broken mechanisms were caught" in found.err
    assert "sum without clamping" in (tmp_path / "zoo.html").read_text(encoding="utf-8")
    told = json.loads(discreet("attack", "audit", "--zoo", "--json").out)
    assert [one["broken"] for one in told["mechanisms"]] == [True, True]


def test_the_guessing_game(discreet, audit, tmp_path):
    game = ("attack", "guess", "--epsilon", "1", "--confidence", "0.999999", "--json")
    found = discreet(*game, "--plot", "guess.svg")
    assert found.code == 0
    assert found.json["facts"]["best test, exactly"] == pytest.approx(2 / (1 + np.exp(-1)))
    assert "bound" in (tmp_path / "guess.svg").read_text(encoding="utf-8")
    inner = discreet(*game, "geometric", "--first", "4", "--second", "5").json
    assert inner["verdict"] == "holds"
    assert audit("truth", "--epsilon", "1", "--trials", "500", command="guess").code == 3
    assert audit("truth", "--trials", "500", command="guess").code == 0
    assert audit("flat", "--epsilon", "1", "--trials", "500", command="guess").code == 0


def test_a_matrix_is_guessed_by_its_labels(discreet, tmp_path):
    (tmp_path / "coin.csv").write_text("answer,yes,no\nill,3/4,1/4\nwell,1/4,3/4\n")
    words = ("coin.csv", "--first", "ill", "--second", "well", "--confidence", "0.999999", "--json")
    assert discreet("attack", "guess", *words, "--epsilon", "11/10").code == 0
    caught = discreet("attack", "guess", *words, "--epsilon", "1/2")
    assert (caught.code, caught.json["facts"]["best test, exactly"]) == (3, 1.5)
    assert "which two inputs" in discreet("attack", "guess", "coin.csv").err
    assert "is made with an ε" in discreet("attack", "guess").err
    assert "there is no file" in discreet("attack", "guess", "no.csv", "--first", "1", "--second", "2").err
