import pytest

FORMS = {
    "geometric": ["--epsilon", "1", "--sensitivity", "1", "--release", "5"],
    "laplace": ["--epsilon", "1", "--sensitivity", "2.5", "--release", "-5.25"],
    "gaussian": ["--sigma", "2", "--sensitivity", "1", "--release", "5"],
    "staircase": ["--epsilon", "3", "--sensitivity", "1", "--release", "5"],
    "randomized-response": ["--keep", "1/2", "--release", "1"],
    "k-rr": ["--epsilon", "1", "--size", "5", "--release", "4"],
    "planar-laplace": ["--epsilon", "1", "--granularity", "0.1", "--release", "1,-2"],
    "choose": ["--epsilon", "1", "--sensitivity", "1", "--release", "1,900,3"],
    "quantile": ["--epsilon", "9", "--lower", "0", "--upper", "9", "--granularity", "1", "--neighbors", "change one",
                 "--release", "1,2,3"],
    "extreme": ["--epsilon", "9", "--side", "min", "--lower", "0", "--upper", "9", "--granularity", "1",
                "--release", "1,2,3"],
    "select-keys": ["--epsilon", "1", "--delta", "1e-6", "--keys", "2", "--release", "1,1000"],
    "above-threshold": ["--epsilon", "1", "--sensitivity", "1", "--threshold", "0", "--positives", "1",
                        "--release", "-9999,9999,5"],
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_mechanism_in_text_and_json(discreet, name):
    text = discreet("mechanism", name, *FORMS[name])
    assert text.code == 0, text.err
    assert "loss" in text.out
    told = discreet("mechanism", name, *FORMS[name], "--json").json
    assert told["loss"]["kind"]
    assert len(told["released"]) == 1


def test_without_release_it_shows_the_shape(discreet):
    printed = discreet("mechanism", "geometric", "--epsilon", "0.5", "--sensitivity", "1")
    assert "released" not in printed.out
    assert printed.out.count("█") > 50


def test_values_from_a_pipe(discreet):
    told = discreet("mechanism", "geometric", "--epsilon", "5", "--sensitivity", "1", "--from", "-", "--json",
                    stdin="10\n\n-20\n").json  # fmt: skip
    assert len(told["released"]) == 2
    assert all(isinstance(value, int) for value in told["released"])


def test_several_releases_say_that_each_costs(discreet):
    printed = discreet(
        "mechanism", "geometric", "--epsilon", "5", "--sensitivity", "1", "--release", "1", "--release", "2"
    )
    assert "2 were made" in printed.err


def test_gaussian_by_guarantee(discreet):
    told = discreet("mechanism", "gaussian", "--epsilon", "1", "--delta", "1e-6", "--sensitivity", "1", "--json").json
    assert 4.224 < told["sigma"] < 4.226
    assert discreet("mechanism", "gaussian", "--epsilon", "1", "--sensitivity", "1").code == 2


@pytest.mark.parametrize("name", ["laplace", "gaussian", "randomized-response", "planar-laplace"])
def test_pictures(discreet, tmp_path, name):
    pytest.importorskip("matplotlib")
    assert discreet("mechanism", name, *FORMS[name], "--plot", "shape.png").code == 0
    assert (tmp_path / "shape.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("geometric", ["--epsilon", "1", "--sensitivity", "1", "--release", "x"], "whole number"),
        ("geometric", ["--epsilon", "1", "--sensitivity", "1", "--release", "1.5"], "whole number"),
        ("laplace", ["--epsilon", "1", "--sensitivity", "1", "--release", "nan"], "finite"),
        ("laplace", ["--epsilon", "nan", "--sensitivity", "1"], "epsilon"),
        ("laplace", ["--epsilon", "1", "--sensitivity", "0"], "sensitivity"),
        ("laplace", ["--epsilon", "1", "--sensitivity", "1", "--confidence", "1"], "confidence"),
        ("k-rr", ["--epsilon", "1", "--size", "1"], "size"),
        ("k-rr", ["--epsilon", "1", "--size", "3", "--release", "3"], "from 0 to 2"),
        ("planar-laplace", ["--epsilon", "1", "--granularity", "1", "--release", "1"], "x,y"),
        ("choose", ["--epsilon", "1", "--sensitivity", "1", "--release", ""], "whole number"),
        ("geometric", ["--sensitivity", "1"], "--epsilon"),
        ("randomized-response", ["--keep", "1/2", "--truth", "3/4"], "exactly one"),
        ("geometric", ["--epsilon", "1", "--sensitivity", "1", "--from", "missing.txt"], "missing.txt"),
        ("geometric", ["--epsilon", "1", "--sensitivity", "1", "--plot", "no/such/folder/x.png"], "x.png"),
    ],
)
def test_bad_input_is_one_clear_error(discreet, name, words, said):
    printed = discreet("mechanism", name, *words)
    assert printed.code in (1, 2)
    assert said in printed.err
    assert "Traceback" not in printed.err
