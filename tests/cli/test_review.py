"""The command line as a stranger uses it: odd files, odd options, odd places. Most of these broke it once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.cli import show
from discreet.mechanisms import KRR
from discreet.mechanisms.channel_io import to_csv

COINS = "truth,yes,no\nyes,3/4,1/4\nno,1/4,3/4\n"


@pytest.fixture
def coins(tmp_path):
    (tmp_path / "coins.csv").write_text(COINS)
    return "coins.csv"


class TestCheck:
    def test_a_claim_equal_to_the_epsilon_printed_holds(self, discreet, tmp_path):
        """The float 0.1 is above one tenth; the ε printed as 0.1 is not."""
        (tmp_path / "m.csv").write_text(to_csv(KRR(epsilon="0.1", size=3).channel()))
        printed = discreet("channel", "check", "m.csv", "--neighbors", "all", "--claim", "0.1", "--json")
        assert printed.json["epsilon"] == 0.1
        assert printed.json["claim_holds"] is True
        assert printed.code == 0

    def test_no_claim_holds_where_there_is_no_epsilon(self, discreet, tmp_path):
        (tmp_path / "m.csv").write_text("x,a,b\n0,1,0\n1,0,1\n")
        printed = discreet("channel", "check", "m.csv", "--neighbors", "all", "--claim", "1e300", "--json")
        assert (printed.code, printed.json["epsilon"], printed.json["claim_holds"]) == (3, "inf", False)

    def test_the_witness_of_pure_privacy_is_no_reason_for_delta(self, discreet, coins):
        assert "because" in discreet("channel", "check", coins, "--neighbors", "all", "--json").json
        assert (
            "because" not in discreet("channel", "check", coins, "--neighbors", "all", "--delta", "0.1", "--json").json
        )

    def test_windows_files_with_odd_names(self, discreet, tmp_path):
        (tmp_path / "méchant fichier.csv").write_bytes(b"\xef\xbb\xbf" + COINS.replace("\n", "\r\n").encode())
        (tmp_path / "my pairs.csv").write_bytes(b"\xef\xbb\xbfyes;no\r\n")
        told = discreet("channel", "check", "méchant fichier.csv", "--neighbors", "my pairs.csv", "--json").json
        assert told["epsilon"] == 1.0986122886681098

    def test_a_name_that_is_too_long(self, discreet, coins):
        printed = discreet("channel", "check", coins, "--neighbors", "a" * 5000)
        assert printed.code == 1
        assert "no such file" in printed.err

    def test_a_missing_file_is_named_once(self, discreet):
        assert discreet("channel", "check", "gone.csv", "--neighbors", "all").err.count("gone.csv") == 1

    def test_decimals_too_small_for_floats(self, discreet, tmp_path):
        (tmp_path / "m.csv").write_text("x,a,b,c\np,1e-400,0.5,0.4999999999\nq,1e-399,0.5,0.4999999999\n")
        printed = discreet("channel", "check", "m.csv", "--neighbors", "all")
        assert printed.code == 1
        assert "too small" in printed.err
        told = discreet("channel", "check", "m.csv", "--neighbors", "all", "--normalize", "--json").json
        assert told["epsilon"] == pytest.approx(2.302585093)


def test_the_optimal_matrix_printed_is_the_certified_one(discreet, tmp_path):
    for form in ([], ["--json"]):
        (tmp_path / "best").write_text(discreet("channel", "optimal", "4", "--epsilon", "0.3", *form).out)
        printed = discreet("channel", "check", "best", "--neighbors", "line", "--claim", "0.3", "--json")
        assert printed.code == 0
        assert printed.json["exact"] is True


class TestPictures:
    @pytest.mark.parametrize("place", ["noend", "p.xyz", "-", "", "no/such/p.png", "folder.png"])
    def test_odd_places_are_refused_before_anything_is_released(self, discreet, tmp_path, place):
        (tmp_path / "folder.png").mkdir()
        printed = discreet(
            "mechanism", "geometric", "--epsilon", "1", "--sensitivity", "1", "--release", "5", "--plot", place
        )
        assert printed.code == 2
        assert not printed.out
        assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]

    def test_a_mechanism_without_a_picture_is_not_released(self, discreet):
        printed = discreet(
            "mechanism", "choose", "--epsilon", "1", "--sensitivity", "1", "--release", "1,2", "--plot", "p.png"
        )
        assert (printed.code, printed.out) == (2, "")

    def test_without_matplotlib(self, discreet, coins, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        printed = discreet("channel", "curve", coins, "--neighbors", "all", "--plot", "p.png")
        assert (printed.code, printed.out) == (1, "")
        assert "pip install 'discreet[plot]'" in printed.err

    def test_json_stays_alone_on_standard_output(self, discreet, coins):
        pytest.importorskip("matplotlib")
        printed = discreet("channel", "curve", coins, "--neighbors", "all", "--plot", "p.png", "--json")
        assert len(printed.json) == 21
        assert "wrote p.png" in printed.err


class TestMechanisms:
    ADD = ("mechanism", "geometric", "--epsilon", "1", "--sensitivity", "1")

    def test_values_from_a_windows_file(self, discreet, tmp_path):
        (tmp_path / "values.txt").write_bytes(b"\xef\xbb\xbf5\r\n6\r\n\r\n")
        printed = discreet(*self.ADD, "--from", "values.txt", "--json")
        assert len(printed.json["released"]) == 2
        assert "2 were made" in printed.err

    def test_values_that_are_not_text(self, discreet, tmp_path):
        (tmp_path / "values.txt").write_bytes(b"\xff\xfe\x00")
        assert "whole number" in discreet(*self.ADD, "--from", "values.txt").err

    def test_an_epsilon_beyond_floats(self, discreet):
        printed = discreet("mechanism", "geometric", "--epsilon", "1e400", "--sensitivity", "1")
        assert printed.code == 0
        assert "1e+400" in printed.out

    def test_many_answers(self, discreet):
        told = discreet("mechanism", "k-rr", "--epsilon", "1", "--size", "100000", "--release", "99999", "--json").json
        assert 0 <= told["released"][0] < 100_000

    def test_releases_have_all_their_digits(self, discreet):
        printed = discreet(
            "mechanism", "laplace", "--epsilon", "1000", "--sensitivity", "1", "--granularity", "1",
            "--release", "1234567890123456",
        )  # fmt: skip
        assert "123456789012345" in printed.out

    def test_keys_that_are_not_named_have_no_count(self, discreet):
        words = ("mechanism", "select-keys", "--epsilon", "9", "--delta", "1e-6", "--keys", "1", "--method", "laplace")
        released = discreet(*words, "--release", "0,1000", "--json").json["released"]
        assert released[0][0] is None
        assert abs(released[0][1] - 1000) < 20
        assert "–, " in discreet(*words, "--release", "0,1000").out

    @pytest.mark.parametrize(
        "words",
        [
            ("--method", "gaussian", "--sigma", "2", "--epsilon", "3"),
            ("--method", "gaussian", "--epsilon", "3"),
            ("--sigma", "2", "--epsilon", "3"),
            (),
        ],
    )
    def test_settings_that_would_be_ignored_are_refused(self, discreet, words):
        assert discreet("mechanism", "select-keys", "--delta", "1e-6", "--keys", "1", *words).code == 2

    def test_a_confidence_is_shown_beside_an_error_only(self, discreet):
        told = discreet("mechanism", "choose", "--epsilon", "1", "--sensitivity", "1", "--json").json
        assert "confidence" not in told
        assert "confidence" in discreet(*self.ADD, "--json").json


class TestAccount:
    def test_a_broken_sensitivity_is_not_rounded_down(self, discreet):
        printed = discreet("account", "compose", "discrete-gaussian:10,2.5", "--delta", "1e-6")
        assert printed.code == 2
        assert "whole number" in printed.err
        assert discreet("account", "compose", "discrete-gaussian:10,2.0", "--delta", "1e-6").code == 0

    @pytest.mark.parametrize("count", ["_", "1__0", "", "9" * 5000])
    def test_odd_counts(self, discreet, count):
        assert discreet("account", "compose", f"pure:1x{count}", "--delta", "0").code == 2

    def test_a_loss_from_a_windows_file(self, discreet, tmp_path):
        (tmp_path / "loss.json").write_bytes(b'\xef\xbb\xbf{"kind":"pure","epsilon":"0.5"}\r\n')
        assert discreet("account", "compose", "@loss.json", "--delta", "0", "--json").json["epsilon"] == 0.5

    @pytest.mark.parametrize("words", [("--method", "zcdp"), ("--steps", "5"), ("--rate", "0.1")])
    def test_settings_that_would_be_ignored_are_refused(self, discreet, words):
        assert discreet("account", "calibrate", "laplace", "--epsilon", "1", *words).code == 2


def test_numbers_are_rounded_up():
    assert show.number(1.0000000000001) == "1.00000000001"
    assert show.number(0.1) == "0.1"
    assert show.number(0.0) == "0"
    assert show.number(float("inf")) == "inf"


class TestProcess:
    """What only a process of its own shows."""

    def run(self, *words, **more):
        command = [Path(sys.executable).parent / "discreet", *words]
        return subprocess.run(command, capture_output="stdout" not in more, check=False, **more)

    def test_bytes_that_are_not_text_in_a_pipe(self):
        done = self.run("channel", "check", "-", "--neighbors", "all", input=b"\xff\xfe\x00")
        assert done.returncode == 1
        assert b"the pipe is not UTF-8" in done.stderr

    def test_a_terminal_without_epsilon(self):
        env = os.environ | {"PYTHONIOENCODING": "cp1252"}
        done = self.run("channel", "curve", "-", "--neighbors", "all", input=COINS.encode(), env=env)
        assert done.returncode == 0, done.stderr

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
    def test_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = self.run(
                "channel",
                "check",
                "-",
                "--neighbors",
                "all",
                input=COINS.encode(),
                stdout=full,
                stderr=subprocess.PIPE,
            )
        assert done.returncode == 1
        assert b"Traceback" not in done.stderr
        assert b"No space left" in done.stderr

    def test_json_of_every_group_is_json(self):
        for words in (
            ["channel", "check", "-", "--neighbors", "all", "--json"],
            ["channel", "posterior", "-", "--json"],
            ["mechanism", "geometric", "--epsilon", "1", "--sensitivity", "1", "--json"],
            ["account", "compose", "pure:1", "--delta", "0", "--json"],
        ):
            assert json.loads(self.run(*words, input=COINS.encode()).stdout)
