import pytest


@pytest.mark.parametrize(
    ("words", "exact"),
    [
        (["gaussian:20x1000", "--delta", "1e-6"], 8.30623),
        (["sampled-gaussian:0.01,4x10000", "--delta", "1e-5"], 0.94700),
        (["laplace:10x100", "gaussian:20x100", "--delta", "1e-6"], 5.39171),
        (["pure:0.01x10000", "--delta", "1e-6"], 4.88552),
        (["pure:1/3x3", "--delta", "0"], 1),
    ],
)
def test_compose(discreet, words, exact):
    told = discreet("account", "compose", *words, "--json").json
    assert told["epsilon"] == pytest.approx(exact, rel=1e-3)


def test_every_accountant_beside_the_best(discreet):
    told = discreet("account", "compose", "pure:0.1x10", "--delta", "1e-6", "--all", "--json").json
    assert told["epsilon"] == min(value for value in told.values() if isinstance(value, float | int) and value != 1e-6)
    assert told["pure"] == 1
    printed = discreet("account", "compose", "gaussian:2", "--delta", "1e-6", "--all")
    assert "not pure" in printed.out


def test_groups_cost_more(discreet):
    one = discreet("account", "compose", "gaussian:5", "--delta", "1e-6", "--json").json["epsilon"]
    three = discreet("account", "compose", "gaussian:5", "--delta", "1e-6", "--group", "3", "--json").json["epsilon"]
    assert three > 2 * one


def test_loss_from_a_file(discreet, tmp_path):
    (tmp_path / "loss.json").write_text('{"kind":"repeated","loss":{"kind":"pure","epsilon":"0.1"},"count":3}')
    told = discreet("account", "compose", "@loss.json", "--delta", "0", "--json").json
    assert told["epsilon"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("words", "sigma"),
    [
        (["gaussian", "--epsilon", "1", "--delta", "1e-6"], 4.22468),
        (["gaussian", "--epsilon", "1", "--delta", "1e-6", "--method", "zcdp"], 4.53088),
        (["gaussian", "--epsilon", "1", "--delta", "1e-6", "--method", "classical"], 5.29880),
        (["gaussian", "--epsilon", "1", "--delta", "1e-6", "--sensitivity", "10"], 42.2468),
        (["discrete-gaussian", "--epsilon", "1", "--delta", "1e-6", "--sensitivity", "1000"], 4224.68),
    ],
)
def test_calibrate(discreet, words, sigma):
    assert discreet("account", "calibrate", *words, "--json").json["sigma"] == pytest.approx(sigma, rel=1e-4)


def test_calibrate_training_round_trip(discreet):
    found = discreet("account", "calibrate", "sampled-gaussian", "--epsilon", "2", "--delta", "1e-5", "--rate", "0.01",
                     "--steps", "1000", "--json").json  # fmt: skip
    told = discreet("account", "compose", f"sampled-gaussian:0.01,{found['multiplier']:.9f}x1000", "--delta", "1e-5",
                    "--json").json  # fmt: skip
    assert told["epsilon"] == pytest.approx(2, rel=2e-3)


def test_laplace_needs_no_delta(discreet):
    assert discreet("account", "calibrate", "laplace", "--epsilon", "0.1", "--json").json["scale"] == 10


def test_zcdp(discreet):
    assert discreet("account", "zcdp", "--rho", "0.5", "--delta", "1e-6", "--json").json["epsilon"] < 5.8


def test_plot(discreet, tmp_path):
    pytest.importorskip("matplotlib")
    assert discreet("account", "compose", "gaussian:5x10", "--delta", "1e-6", "--plot", "p.svg").code == 0
    assert "<svg" in (tmp_path / "p.svg").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compose", "gaussian:1", "--delta", "0"], "delta"),
        (["compose", "gaussian:0", "--delta", "1e-6"], "multiplier"),
        (["compose", "gaussian", "--delta", "1e-6"], "cannot read the loss"),
        (["compose", "magic:1", "--delta", "1e-6"], "cannot read the loss"),
        (["compose", "gaussian:1,2", "--delta", "1e-6"], "takes"),
        (["compose", "pure:1", "--delta", "2"], "delta"),
        (["compose", "pure:-1", "--delta", "0"], "epsilon"),
        (["compose", "@missing.json", "--delta", "0"], "missing.json"),
        (["compose", "--delta", "0"], "LOSS"),
        (["calibrate", "sampled-gaussian", "--epsilon", "1", "--delta", "1e-6"], "--rate"),
        (["calibrate", "gaussian", "--epsilon", "1"], "delta"),
        (["calibrate", "gaussian", "--epsilon", "2", "--delta", "1e-6", "--method", "classical"], "epsilon"),
    ],
)
def test_bad_input_is_one_clear_error(discreet, words, said):
    printed = discreet("account", *words)
    assert printed.code in (1, 2)
    assert said in printed.err
    assert "Traceback" not in printed.err
