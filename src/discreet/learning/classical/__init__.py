"""Classical models with the scikit-learn API, exact noise and declared bounds.

=========================  ============================================================================================
`LinearRegression`         objective perturbation, or noisy XᵀX and Xᵀy; `Ridge` with a penalty
`LogisticRegression`       objective perturbation, or noisy steps along clipped gradients
`GaussianNB`               noisy moments of each class; `CategoricalNB` noisy counts of categories
`DecisionTreeClassifier`   splits by the exponential mechanism; `RandomForestClassifier` over disjoint parts of the rows
`PCA`, `StandardScaler`    noisy covariance; noisy means and deviations
`KMeans`                   Lloyd's iterations with noisy counts and sums
`Histogram`                noisy counts; `KernelDensity` smoothed from them
`choose`                   one of several models by the exponential mechanism
=========================  ============================================================================================

Constructors are free; `fit` spends. After it, `cost_` says how much, under "add or remove one". ε, δ, bounds and
classes are declared, by keyword, without defaults: nothing is learned from the data in silence. The number of rows is
not treated as public. `rows=` may state it roughly: it is used to refuse an ε that cannot work, and never compared.

`entropy=` is for tests: a known stream is not private.

Which of scikit-learn's own estimator checks cannot pass
---------------------------------------------------------
`check_estimator` is run on all of them, and on `DPClassifier` and `DPRegressor`, for which the same holds
(tests/learning/classical/test_estimator_checks.py). With noise held still all pass. With fresh noise those cannot that
fit twice and want the same result:

- `check_fit_idempotent`, `check_supervised_y_2d`, `check_regressors_int`, `check_regressor_data_not_an_array`,
  `check_classifier_data_not_an_array`.
- `check_pipeline_consistency`, `check_transformer_general` and `check_transformer_data_not_an_array` are skipped by
  scikit-learn itself, because the estimators say that they are not deterministic (and `check_array_api_input` where
  SCIPY_ARRAY_API is not set).
- `check_sample_weights_list`, `check_sample_weights_not_overwritten` and
  `check_sample_weight_equivalence_on_dense_data` use weights above 1, which are refused.
- `check_classifiers_one_label_sample_weights` gives `CategoricalNB` fractions, which are no categories.
- `check_clustering` asks for `labels_`, a fact about each training row. `KMeans` does not keep it, and is not run
  through that check because it does not derive from scikit-learn's `ClusterMixin`.

The classifiers pass with `classes="public"`; with declared classes a label outside them is refused.
"""

from discreet.learning.classical.estimator import Choice, choose, closeness, correct_answers
from discreet.learning.classical.inputs import one_hot_columns
from discreet.learning.classical.linear import LinearRegression, Ridge
from discreet.learning.classical.logistic import LogisticRegression
from discreet.learning.classical.moments import PCA, CategoricalNB, GaussianNB, StandardScaler
from discreet.learning.classical.trees import DecisionTreeClassifier, RandomForestClassifier
from discreet.learning.classical.unsupervised import Histogram, KernelDensity, KMeans

__all__ = [
    "PCA",
    "CategoricalNB",
    "Choice",
    "DecisionTreeClassifier",
    "GaussianNB",
    "Histogram",
    "KMeans",
    "KernelDensity",
    "LinearRegression",
    "LogisticRegression",
    "RandomForestClassifier",
    "Ridge",
    "StandardScaler",
    "choose",
    "closeness",
    "correct_answers",
    "one_hot_columns",
]
