"""What fits cost is added up within a `Spending` block: all of them, also those whose models are thrown away."""

import copy
import pickle
import threading
import warnings

import numpy as np
import pytest

from discreet.errors import BudgetExceeded, InvalidParameter, NoGuarantee, NoiseWarning
from discreet.learning import DPClassifier, KernelDensity, LinearRegression, LogisticRegression, StandardScaler, choose
from discreet.privacy import Approximate, Budget, Pure, Spending, Spent
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import Together

RNG = np.random.default_rng(1)
X = RNG.uniform(-1, 1, size=(600, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")


def logistic(**settings):
    return LogisticRegression(**{"epsilon": 1, "delta": 0, "bounds": (-1, 1), "classes": ["no", "yes"]} | settings)


def network(**settings):
    given = {"hidden": (), "epsilon": 2, "delta": "1e-5", "bounds": "unit", "classes": ["no", "yes"], "rows": 600}
    return DPClassifier(**given | {"steps": 5} | settings)


def test_a_grid_search_costs_all_of_its_fits():
    """Nineteen trainings at ε 1: the model that comes back says 1."""
    from sklearn.model_selection import GridSearchCV

    with Spending() as spending:
        search = GridSearchCV(logistic(), {"max_iter": [1, 2, 3, 4, 5, 6]}, cv=3).fit(X, Y)
    assert len(spending.losses) == 6 * 3 + 1
    assert search.best_estimator_.cost_ == Pure(1)
    assert spending.guarantee(delta=0).epsilon == pytest.approx(19)
    assert not Budget(epsilon=18).allows(spending.spent)
    assert Budget(epsilon=19).allows(spending.spent)


def test_pipelines_and_cross_validation():
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline

    scaler = StandardScaler(epsilon="1/2", delta=0, bounds=(-1, 1))
    with Spending() as spending:
        cross_val_score(make_pipeline(scaler, logistic(bounds=(-9, 9))), X, Y, cv=3)
    assert len(spending.losses) == 6
    assert spending.guarantee(delta=0).epsilon == pytest.approx(4.5)


def test_costs_are_the_true_ones_and_compose_as_such():
    """Networks that spend δ: nine of them cost far less than nine times ε."""
    with Spending() as spending:
        models = [network().fit(X, Y) for _ in range(9)]
    assert spending.losses == tuple(model.cost_ for model in models)
    found = spending.guarantee(delta="1e-5")
    assert found.epsilon == guarantee(Together(*spending.losses), delta="1e-5").epsilon
    assert 2 < found.epsilon < 9


def test_blocks_nest_and_end():
    logistic().fit(X, Y)
    with Spending() as outer:
        logistic().fit(X, Y)
        with Spending() as inner:
            logistic().fit(X, Y)
            choose(["a", "b"], [1, 2], epsilon="1/2", sensitivity=1)
    logistic().fit(X, Y)
    assert (len(outer.losses), len(inner.losses)) == (3, 2)


def test_a_fit_within_a_fit_is_counted_once():
    with Spending() as spending:
        model = KernelDensity(epsilon=1, delta=0, bounds=(-1, 1), bins=8, bandwidth="1/4").fit(X[:, :1])
    assert spending.losses == (model.cost_,)


def test_threads_count():
    with Spending() as spending:
        threads = [threading.Thread(target=lambda: logistic().fit(X, Y)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(spending.losses) == 4


def test_what_is_refused_costs_nothing_and_what_is_interrupted_costs_all(monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with Spending() as spending:
        with pytest.raises(InvalidParameter):
            logistic(bounds=None).fit(X, Y)
        with pytest.raises(InvalidParameter):
            logistic(epsilon="much").fit(X, Y)
        assert spending.losses == ()
        monkeypatch.setattr("discreet.learning.estimators.train", stop)
        with pytest.raises(KeyboardInterrupt):
            network().fit(X, Y)
    assert spending.losses == (Approximate(2, "1e-5"),)


def test_a_warning_that_is_an_error_costs_nothing_if_nothing_was_drawn():
    """What is declared warns before anything is paid; a noisy count warns after it was paid for."""
    warned = [
        logistic(epsilon="1/50", rows=600),
        LinearRegression(
            epsilon="1/5", delta="1e-6", bounds=(-1, 1), target_bounds=(0, 1), rows=300, method="gradient"
        ),
        network(epsilon="0.1"),
    ]
    with Spending(Budget(epsilon=3, delta="1e-4")) as spending, warnings.catch_warnings(action="error"):
        for model in warned:
            with pytest.raises(NoiseWarning, match="expect little"):
                model.fit(X, Y if model.kind == "classifier" else X[:, 0])
        assert spending.losses == ()
        wide = np.tile(X[:60], 200)  # noise of 200 rows, and a count of 60 with noise of some 30
        with pytest.raises(RuntimeWarning, match="expect little") as after:
            logistic(epsilon="1/2", delta="1e-6", method="gradient").fit(wide, Y[:60])
        assert after.type is RuntimeWarning
        assert len(spending.losses) == 1


def test_fits_in_other_processes_are_refused():
    """They would not be counted. Fitted models travel as ever, and so do all models outside a block."""
    from sklearn.model_selection import cross_val_score

    fitted = logistic().fit(X, Y)
    assert pickle.loads(pickle.dumps(logistic())).epsilon == 1
    with Spending() as spending:
        with pytest.raises(NoGuarantee, match="cannot be counted.*n_jobs=1"):
            pickle.dumps(logistic())
        assert (pickle.loads(pickle.dumps(fitted)).predict(X) == fitted.predict(X)).all()
        assert copy.deepcopy(logistic()).epsilon == 1
        with pytest.raises(pickle.PicklingError) as caught:
            cross_val_score(logistic(), X, Y, cv=3, n_jobs=2)
    assert "cannot be counted" in str(caught.value.__cause__)
    assert spending.losses == ()


def test_a_budget_refuses_fits_that_it_cannot_pay():
    """Before a row is seen; releases by hand and fits spend the same budget, and true costs take the place of limits."""
    with Spending(Budget(epsilon="2.5", delta="1e-4")) as spending:
        fitted = logistic().fit(X, Y)
        spending.charge(Pure("1/2"))
        with pytest.raises(BudgetExceeded):
            logistic(epsilon="1.5", entropy=Untouched()).fit(X, Y)
        logistic().fit(X, Y)
    assert spending.losses == (fitted.cost_, Pure("1/2"), Pure(1))
    assert str(spending) == "ε 2.5 of ε 2.5, δ 0.0001 spent"
    with Spending(Budget(epsilon=8, delta="1e-4")) as other:
        cost = network().fit(X, Y).cost_
    assert other.spent == Spent.by(cost)


def test_one_of_several_budgets_that_cannot_pay_leaves_the_others_as_they_were():
    with Spending() as outer, Spending(Budget(epsilon=5)) as rich, Spending(Budget(epsilon="1/2")) as poor:
        with pytest.raises(BudgetExceeded):
            logistic(entropy=Untouched()).fit(X, Y)
        logistic(epsilon="1/4").fit(X, Y)
    assert outer.losses == rich.losses == poor.losses == (Pure("1/4"),)


class Untouched:
    def words(self, count):
        raise AssertionError("noise was drawn")
