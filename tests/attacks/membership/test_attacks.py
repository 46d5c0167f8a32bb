"""The attacks: their formulas by another way, an overfit model falls, one trained with DP noise does not."""

from math import log, sqrt

import numpy as np
import pytest
from scipy.stats import norm
from tests.attacks.membership.logistic_model import Logistic, LogisticModel

from discreet.attacks.membership import (
    CanaryGradients,
    Checkpoints,
    GradientAlignment,
    GradientNorm,
    Lira,
    LossThreshold,
    References,
    Rmia,
    check_norms,
    coins,
    directions,
    splits,
)
from discreet.attacks.membership.black_box import logits
from discreet.attacks.membership.one_run import Gaussian
from discreet.errors import InvalidData, InvalidParameter

TARGETS, PEOPLE, WEIGHTS, STEPS = 400, 600, 400, 40
CLAIM = (1, "1e-5")
NOISE = 3.7303 * sqrt(STEPS)  # each step; all together a Gaussian of (1, 1e-5)


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(PEOPLE, WEIGHTS)), rng.integers(0, 2, PEOPLE)  # labels by lot: to fit is to learn by heart
    plain = Logistic(x=x, y=y, steps=STEPS)
    done = []
    online = References.train(plain, x, y, count=8, seed=1, progress=lambda at, of: done.append((at, of)))
    offline = References.train(plain, x, y, count=4, seed=2, pool=np.arange(TARGETS, PEOPLE))
    assert done == [(at, 8) for at in range(1, 9)]
    return x, y, plain, online, offline


def attacks(world, trainer, *, seed=3):
    """Every attack on one model, whose members were drawn by coins."""
    x, y, _, online, offline = world
    inside, targets, others = coins(TARGETS, seed=seed), np.arange(TARGETS), np.arange(TARGETS, PEOPLE)
    model = trainer(np.flatnonzero(inside), 7)
    said, mine = model.scores(x, y), (x[:TARGETS], y[:TARGETS])
    known = {"members": inside, "design": "coins", "claimed": CLAIM}
    start = LogisticModel(np.zeros(WEIGHTS)).gradients(*mine)
    outside = {"population": said[others], "population_references": online.of_targets(others)}
    found = online.of_targets(targets)
    return [
        LossThreshold(losses=-said[targets], **known),
        Lira(confidences=said[targets], references=found, **known),
        Lira(confidences=said[targets], references=offline.of_targets(targets), **known),
        Rmia(confidences=said[targets], references=found, **outside, **known),
        Rmia(confidences=said[targets], references=found, mode="offline", **outside, **known),
        GradientNorm(gradients=model.gradients(*mine), **known),
        GradientAlignment(gradients=start, update=model.weights, **known),
        Checkpoints(confidences=model.checkpoints(*mine), **known),
    ]


def test_the_noise_of_the_private_model_is_as_claimed():
    assert Gaussian(sqrt(STEPS) / NOISE).epsilon(1e-5) == pytest.approx(1, abs=2e-3)


def test_every_attack_brings_down_an_overfit_model(world):
    for attack in attacks(world, world[2]):
        found = attack.find()
        report = found.report()
        assert report.verdict == "falls", report.attack
        assert found.auc().low > 0.6, report.attack
        assert found.bound.epsilon > 0.8, report.attack
        assert report.control.value < report.success.value
        assert report.charts[0].log_x
        assert report.charts[0].log_y


def test_no_attack_breaks_the_claim_of_a_model_trained_with_noise(world):
    x, y = world[:2]
    private = Logistic(x=x, y=y, steps=STEPS, clip=1.0, noise=NOISE)
    for seed in (3, 4, 5):
        for attack in attacks(world, private, seed=seed):
            found = attack.find()
            assert not found.broken, found.attack
            assert found.auc().value < 0.65, found.attack
            assert found.report().verdict != "falls", found.attack


@pytest.mark.parametrize("changed", [{"noise": 0.0}, {"clip": None}])
def test_planted_leaks_in_training_are_flagged_by_the_outputs(world, changed):
    """No noise, or noise as claimed but rows that were not clipped. Half the noise is beyond 400 targets' outputs."""
    x, y = world[:2]
    leaking = Logistic(**{"x": x, "y": y, "steps": STEPS, "clip": 1.0, "noise": NOISE, **changed})
    for seed in (3, 4, 5):
        assert any(attack.find().broken for attack in attacks(world, leaking, seed=seed))


# --- canaries -----------------------------------------------------------------------------------------------------


def planted(k, *, noise, clip, size=1.0, steps=16, count=400):
    """Training on empty rows with as many canaries as weights; the noisy sums are seen."""
    ways, inside = size * np.eye(count), coins(count, seed=k)
    trainer = Logistic(x=np.zeros((20, count)), y=np.zeros(20), steps=steps, clip=clip, noise=noise)
    model = trainer.train(np.zeros((20, count)), np.zeros(20), k, planted=ways[inside])
    return ways, inside, model


@pytest.mark.parametrize(
    ("noise", "clip", "size", "broken"),
    [(1.0812 * 4, 1.0, 1.0, False), (0.0, 1.0, 1.0, True), (1.0812 * 4, None, 5.0, True), (1.0812, 1.0, 1.0, True)],
)
def test_canaries_find_what_was_planted_and_nothing_else(noise, clip, size, broken):
    """16 steps of noise 4σ are one of σ: (4, 1e-5)-DP; a fourth of the noise, none, or no clipping are not."""
    for k in range(3):
        ways, inside, model = planted(k, noise=noise, clip=clip, size=size)
        known = {"directions": ways, "members": inside, "design": "coins", "claimed": (4, "1e-5"), "confidence": 0.95}
        steps = CanaryGradients(observed=model.sums, curve="gaussian", **known).find()
        update = CanaryGradients(observed=-model.weights, curve="gaussian", **known).find()
        assert steps.broken == update.broken == broken
        assert steps.bound.epsilon == pytest.approx(update.bound.epsilon, rel=1e-6)


@pytest.mark.parametrize(("share", "broken"), [(1.0, False), (0.5, True)])
def test_two_thousand_canaries_find_half_the_noise(share, broken):
    for k in range(2):
        ways, inside, model = planted(k, noise=share * 1.0812 * 2, clip=1.0, steps=4, count=2000)
        known = {"directions": ways, "members": inside, "design": "coins", "claimed": (4, "1e-5")}
        assert CanaryGradients(observed=model.sums, curve="gaussian", **known).find().broken == broken


def test_sampled_steps_are_weighed_by_their_likelihood():
    """The score is ln(Π ((1 − q)·N(0) + q·N(1)) / N(0)); without directions a canary is a weight of its own."""
    rng, inside = np.random.default_rng(3), coins(60, seed=1)
    seen = rng.normal(size=(7, 60)) * 2
    known = {"observed": seen, "members": inside, "rate": "1/4", "noise": 2}
    got = CanaryGradients(directions=None, **known).scores()
    dense = 0.75 * norm.pdf(seen, 0, 2) + 0.25 * norm.pdf(seen, 1, 2)
    assert got == pytest.approx(np.log(dense / norm.pdf(seen, 0, 2)).sum(axis=0))
    assert CanaryGradients(directions=np.eye(60), **known).scores() == pytest.approx(got)
    longer = CanaryGradients(directions=3 * np.eye(60), **known).scores()
    dense = 0.75 * norm.pdf(seen, 0, 2) + 0.25 * norm.pdf(seen, 3, 2)
    assert longer == pytest.approx(np.log(dense / norm.pdf(seen, 0, 2)).sum(axis=0))
    assert CanaryGradients(directions=None, **known | {"rate": 1}).scores() == pytest.approx(seen.sum(axis=0))
    with pytest.raises(InvalidParameter, match="rate"):
        CanaryGradients(directions=None, **known | {"rate": 0}).scores()


def test_the_likelihood_finds_more_than_the_sum():
    rng, inside = np.random.default_rng(4), coins(2000, seed=1)
    seen = rng.normal(size=(40, 2000)) * 0.4 + (rng.random((40, 2000)) < 0.05) * inside
    known = {"directions": None, "observed": seen, "members": inside, "design": "coins"}
    added, weighed = CanaryGradients(**known).find(), CanaryGradients(rate="0.05", noise="0.4", **known).find()
    assert weighed.auc().value > added.auc().value + 0.05
    assert weighed.bound.epsilon > added.bound.epsilon


def test_directions_of_more_canaries_than_weights_have_their_length():
    rows = directions(30, 10, norm="1/2", seed=1)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.full(30, 0.5))
    check_norms(rows, most=0.5)
    with pytest.raises(InvalidData, match="30 canaries are longer"):
        check_norms(rows, most=0.4)


def test_coins_are_fair_and_each_its_own():
    drawn = np.array([coins(1000, seed=k) for k in range(50)])
    assert abs(drawn.mean() - 0.5) < 5 * 0.5 / sqrt(50_000)
    assert abs(np.corrcoef(drawn[0], drawn[1])[0, 1]) < 0.16


# --- formulas -----------------------------------------------------------------------------------------------------


def few(count, targets=30, seed=0):
    rng = np.random.default_rng(seed)
    inside = splits(targets, count=count, seed=seed)
    return References.of(-rng.exponential(1, (count, targets)), inside), -rng.exponential(1, targets)


def members(targets=40):
    return np.arange(targets) % 2 == 0


@pytest.mark.parametrize("count", [4, 80])
def test_lira_is_the_ratio_of_two_normal_densities(count):
    references, said = few(count)
    got = Lira(confidences=said, references=references, members=members(30)).scores()
    table, inside = logits(references.confidences), references.inside
    sides = []
    for chosen in (inside, ~inside):
        columns = [table[chosen[:, i], i] for i in range(30)]
        own = np.array([np.std(column, ddof=1) for column in columns])
        spread = own if count == 80 else np.full(30, np.sqrt(np.mean(own**2)))
        sides.append(norm.logpdf(logits(said), [column.mean() for column in columns], spread))
    assert got == pytest.approx(sides[0] - sides[1])


def test_lira_without_models_that_had_the_target_in():
    references, said = few(4)
    got = Lira(confidences=said, references=references, members=members(30), mode="offline").scores()
    table = np.where(references.inside, np.nan, logits(references.confidences))
    spread = np.sqrt(np.mean(np.nanvar(table, axis=0, ddof=1)))
    assert got == pytest.approx((logits(said) - np.nanmean(table, axis=0)) / spread)


def test_one_reference_model_is_enough_for_lira_and_rmia():
    rng = np.random.default_rng(4)
    one = References.of(-rng.exponential(1, (1, 40)), np.zeros((1, 40), bool))
    said = -rng.exponential(1, 40)
    assert Lira(confidences=said, references=one, members=members()).scores() == pytest.approx(
        logits(said) - logits(one.confidences[0])
    )
    rmia = Rmia(confidences=said, references=one, population=said, population_references=one, members=members())
    assert np.isfinite(rmia.scores()).all()


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_rmia_counts_the_people_it_is_ahead_of(mode):
    references, said = few(4, targets=40)
    others, theirs = few(4, targets=25, seed=1)
    attack = Rmia(
        confidences=said,
        references=references,
        population=theirs,
        population_references=others,
        members=members(),
        mode=mode,
        gamma=1.5,
        scale="0.4",
    )

    def ratios(said, references):
        made = []
        for i, one in enumerate(said):
            p, inside = np.exp(references.confidences[:, i]), references.inside[:, i]
            out = p[~inside].mean()
            mean = (p[inside].mean() + out) / 2 if mode == "online" else (1.4 * out + 0.6) / 2
            made.append(np.exp(one) / mean)
        return np.array(made)

    mine, them = ratios(said, references), ratios(theirs, others)
    share = (mine[:, None] / them >= 1.5).mean(axis=1)
    got = attack.scores()
    assert np.abs(got - share).max() < 1 / 25  # ties within a step are broken by the ratio
    assert (np.floor(got * 25 + 1e-9) / 25) == pytest.approx(share)
    assert (np.argsort(got) == np.argsort(mine)).all()


def test_equal_ratios_have_equal_scores_wherever_they_stand():
    flat = References.of(np.full((2, 40), -1.0), np.zeros((2, 40), bool))
    said = np.full(40, -0.5)
    rmia = Rmia(confidences=said, references=flat, population=said, population_references=flat, members=members())
    assert len(set(rmia.scores().tolist())) == 1


def test_gradient_scores():
    rows = np.array([[3.0, 4.0], [0.0, 2.0]] * 20)
    assert GradientNorm(gradients=rows, members=members()).scores()[:2].tolist() == [-5, -2]
    got = GradientAlignment(gradients=rows, update=[-1.0, -1.0], members=members(), scaled=False).scores()
    assert got[:2].tolist() == [7, 2]


def test_logits_are_stable():
    p = np.array([1e-12, 0.3, 1 - 1e-12])
    assert logits(np.log(p)) == pytest.approx(np.log(p / (1 - p)), rel=1e-4)
    assert logits(np.array([0.0]))[0] == pytest.approx(53 * log(2), rel=1e-6)


def test_the_gradients_of_the_small_model_are_those_of_its_loss():
    rng = np.random.default_rng(2)
    x, y, w = rng.normal(size=(5, 3)), rng.integers(0, 2, 5), rng.normal(size=3)
    step = 1e-6 * np.eye(3)
    for i in range(3):
        slope = (LogisticModel(w - step[i]).scores(x, y) - LogisticModel(w + step[i]).scores(x, y)) / 2e-6
        assert LogisticModel(w).gradients(x, y)[:, i] == pytest.approx(slope, abs=1e-6)


# --- references ---------------------------------------------------------------------------------------------------


def test_splits_are_balanced_and_repeatable():
    inside = splits(101, count=6, seed=3)
    assert (inside.sum(axis=0) == 3).all()
    assert set(inside.sum(axis=1).tolist()) == {50, 51}
    assert np.array_equal(inside, splits(101, count=6, seed=3))
    assert not np.array_equal(inside, splits(101, count=6, seed=4))


def test_a_pool_keeps_targets_out():
    inside = splits(50, count=3, seed=1, pool=range(40, 50))
    assert not inside[:, :40].any()
    assert inside.sum(axis=1).tolist() == [5, 5, 5]


def test_each_model_gets_its_rows_and_a_seed_of_its_own():
    seen = []

    class Told:
        def scores(self, x, y):
            return np.full(len(y), -1.0)

    def trainer(indices, seed):
        seen.append((indices.tolist(), seed))
        return Told()

    references = References.train(trainer, np.zeros((10, 1)), np.zeros(10), count=4, seed=1)
    assert [rows for rows, _ in seen] == [np.flatnonzero(row).tolist() for row in references.inside]
    assert len({seed for _, seed in seen}) == 4


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: splits(10, count=3, seed=1), "even"),
        (lambda: splits(10, count=2, seed=1, pool=[1]), "two rows"),
        (lambda: splits(10, count=2, seed=1, pool=[1, 99]), "outside the 10 rows"),
        (lambda: References.of([[0.7]], [[False]]), "above 0"),
        (lambda: References.of([[-0.7]], [False]), "models and targets"),
        (
            lambda: Lira(confidences=[-1.0] * 30, references=few(4)[0].of_targets([0, 1]), members=members(30)).run(),
            "2",
        ),
        (
            lambda: Lira(
                confidences=[-1.0] * 40,
                references=References.of(np.full((1, 40), -1.0), np.ones((1, 40), bool)),
                members=members(),
            ).run(),
            "in every model",
        ),
        (
            lambda: Lira(
                confidences=[-1.0] * 40,
                references=References.of(np.full((1, 40), -1.0), np.zeros((1, 40), bool)),
                members=members(),
                mode="online",
            ).run(),
            "in no model",
        ),
        (lambda: Lira(confidences=[-1.0] * 30, references=few(4)[0], members=members(30), mode="x").run(), "mode"),
        (lambda: LossThreshold(losses=[1.0] * 40, members=members(), design="fair"), "design"),
        (lambda: LossThreshold(losses=[1.0] * 40, members=members(), curve="x"), "curve"),
        (lambda: LossThreshold(losses=[1.0] * 40, members=members(), confidence=1), "confidence"),
        (lambda: LossThreshold(losses=[1.0] * 40, members=members(), claimed=-1), "claimed"),
        (lambda: LossThreshold(losses=[float("nan")] * 40, members=members()).run(), "NaN at position 0"),
        (lambda: GradientAlignment(gradients=np.ones((40, 2)), update=[1.0], members=members()).run(), "weights"),
        (lambda: GradientNorm(gradients=np.full((40, 2), np.inf), members=members()).run(), "infinite"),
        (lambda: Checkpoints(confidences=[[-1.0] * 40], members=members()).run(), "two or more"),
        (lambda: Checkpoints(confidences=[-1.0] * 40, members=members()).run(), "dimensions"),
    ],
)
def test_bad_input_is_refused(make, words):
    with pytest.raises((InvalidData, InvalidParameter), match=words):
        make()


def test_a_trainer_that_answers_for_too_few_rows_is_refused():
    class Short:
        def scores(self, x, y):
            return [-1.0]

    with pytest.raises(InvalidData, match="got 1 for 10 rows"):
        References.train(lambda indices, seed: Short(), np.zeros((10, 1)), np.zeros(10), count=2, seed=1)
