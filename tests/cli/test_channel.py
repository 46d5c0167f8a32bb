import math

import pytest

COINS = "truth,yes,no\nyes,3/4,1/4\nno,0.25,0.75\n"


@pytest.fixture
def coins(tmp_path):
    path = tmp_path / "coins.csv"
    path.write_text(COINS)
    return path


def test_check_prints_epsilon(discreet, coins):
    printed = discreet("channel", "check", coins, "--neighbors", "all")
    assert printed.code == 0
    assert printed.out.splitlines()[0].split() == ["epsilon", "1.09861228867"]


def test_check_json(discreet, coins):
    told = discreet("channel", "check", coins, "--neighbors", "line", "--json").json
    assert told["epsilon"] == pytest.approx(math.log(3), abs=1e-15)
    assert told["epsilon"] >= math.log(3)
    assert told["exact"] is True


def test_heights_of_the_textbook(discreet, tmp_path):
    """B3 on the command line: truth ∞, constant 0, two answers ∞, k-RR exactly ε."""
    heights = range(50, 251)
    epsilon = 0.5
    top, other = math.exp(epsilon) / (200 + math.exp(epsilon)), 1 / (200 + math.exp(epsilon))
    cases = {
        "truth": (lambda h, z: int(h == z), "inf"),
        "constant": (lambda h, z: int(z == 150), 0),
        "two": (lambda h, z: int(z == (100 if h < 150 else 200)), "inf"),
        "krr": (lambda h, z: top if h == z else other, epsilon),
    }
    for name, (entry, expected) in cases.items():
        rows = ["h," + ",".join(map(str, heights))]
        rows += [f"{h}," + ",".join(repr(entry(h, z)) for z in heights) for h in heights]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows))
        told = discreet("channel", "check", f"{name}.csv", "--neighbors", "line", "--json").json
        assert told["epsilon"] == (expected if isinstance(expected, str) else pytest.approx(expected, abs=1e-12))


def test_inf_says_why(discreet, tmp_path):
    (tmp_path / "leak.csv").write_text("x,a,b\n0,1,0\n1,0.5,0.5\n")
    printed = discreet("channel", "check", "leak.csv", "--neighbors", "all")
    assert printed.out.split()[:2] == ["epsilon", "inf"]
    assert "because" in printed.out
    assert discreet("channel", "check", "leak.csv", "--neighbors", "all", "--json").json["epsilon"] == "inf"


def test_neighbors_from_a_file(discreet, tmp_path):
    (tmp_path / "m.csv").write_text("x,a,b\n0,1/2,1/2\n1,1/2,1/2\n2,1,0\n")
    (tmp_path / "pairs.csv").write_text("0,1\n")
    assert discreet("channel", "check", "m.csv", "--neighbors", "pairs.csv", "--json").json["epsilon"] == 0
    assert discreet("channel", "check", "m.csv", "--neighbors", "all", "--json").json["epsilon"] == "inf"


def test_from_a_pipe_and_json(discreet):
    told = discreet("channel", "check", "-", "--neighbors", "all", "--json", stdin=COINS).json
    assert told["epsilon"] == pytest.approx(math.log(3))
    told = discreet("channel", "check", "-", "--neighbors", "all", "--json", stdin='[["3/4","1/4"],["1/4","3/4"]]').json
    assert told["epsilon"] == pytest.approx(math.log(3))


def test_claims(discreet, coins):
    assert discreet("channel", "check", coins, "--neighbors", "all", "--claim", "1.1").code == 0
    printed = discreet("channel", "check", coins, "--neighbors", "all", "--claim", "1", "--json")
    assert printed.code == 3
    assert printed.json["claim_holds"] is False


def test_delta_curve_metric_posterior_optimal(discreet, coins, tmp_path):
    assert discreet("channel", "check", coins, "--neighbors", "all", "--delta", "1/2", "--json").json["epsilon"] == 0
    told = discreet("channel", "check", coins, "--neighbors", "all", "--metric", "line", "--json").json
    assert told["epsilon_per_distance"] == pytest.approx(math.log(3))
    (tmp_path / "far.csv").write_text("d,yes,no\nyes,0,2\nno,2,0\n")
    told = discreet("channel", "check", coins, "--neighbors", "all", "--metric", "far.csv", "--json").json
    assert told["epsilon_per_distance"] == pytest.approx(math.log(3) / 2)
    points = discreet("channel", "curve", coins, "--neighbors", "all", "--epsilon", "0", "--json").json
    assert points == [{"epsilon": 0.0, "delta": 0.5}]
    after = discreet("channel", "posterior", coins, "--prior", "1/10,9/10", "--json").json
    assert after["matrix"][0][0] == "1/4" or float(after["matrix"][0][0]) == 0.25
    assert discreet("channel", "posterior", coins).code == 0
    best = discreet("channel", "optimal", "4", "--epsilon", "1")
    assert best.code == 0
    (tmp_path / "best.csv").write_text(best.out)
    told = discreet("channel", "check", "best.csv", "--neighbors", "line", "--json").json
    assert told["epsilon"] <= 1 + 1e-9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("x,a,b\n0,0.5,0.4\n", "sum"),
        ("x,a,b\n0,0.5\n", "cells"),
        ("x,a,b\n0,nan,1\n", "nan"),
        ("x,a,b\n0,-1,2\n", "-1"),
        ("x,a,a\n0,1,0\n", "a"),
        ("x,a,b\n0,1,0\n0,1,0\n", "0"),
        ("{", "JSON"),
    ],
)
def test_bad_matrices_are_one_clear_error(discreet, tmp_path, text, said):
    (tmp_path / "bad.csv").write_text(text)
    printed = discreet("channel", "check", "bad.csv", "--neighbors", "all")
    assert printed.code == 1
    assert said in printed.err
    assert "Traceback" not in printed.err


def test_missing_files(discreet, coins):
    assert "missing.csv" in discreet("channel", "check", "missing.csv", "--neighbors", "all").err
    assert "no such file" in discreet("channel", "check", coins, "--neighbors", "missing.csv").err
    assert discreet("channel", "check", coins).code == 2
