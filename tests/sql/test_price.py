"""What is stated is what is spent: shares of ε, the fit of Gaussian noise, the least ε for an error."""

import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.curator.catalog import Catalog, Column, Table
from discreet.errors import InternalError, InvalidParameter, InvalidQuery
from discreet.mechanisms import Geometric, RoundedGaussian
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import Approximate, Pure, Together
from discreet.privacy.unit import Unit
from discreet.sql.plan import price
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.release.release import Release

COLUMNS = [
    Column("person", "integer"),
    Column("city", "text"),
    Column("sex", "text", values=["f", "m"]),
    Column("age", "integer", lower=0, upper=120),
    Column("pay", "real", lower=-50, upper=1000, granularity="0.25"),
]
NUMBERS = (
    "COUNT(*)",
    "COUNT(age)",
    "COUNT(DISTINCT person)",
    "SUM(age)",
    "AVG(age)",
    "SUM(pay)",
    "AVG(pay)",
    "SUM(age + 2 * pay)",
)


def catalog(neighbors="add or remove one", unit="person"):
    return Catalog("c", [Table("t", COLUMNS, unit=Unit(unit))], neighbors=neighbors)


def parts(loss):
    return loss.losses if isinstance(loss, Together) else (loss,)


numbers = st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=5, unique=True)
relations = st.sampled_from(["add or remove one", "change one"])
epsilons = st.fractions(min_value="1/1000", max_value=20, max_denominator=1000)


@settings(max_examples=25)
@given(
    numbers,
    st.sampled_from(["", "GROUP BY sex", "GROUP BY age, sex"]),
    epsilons,
    st.integers(1, 9),
    st.integers(1, 9),
    relations,
)
def test_pure_shares_add_up_to_what_was_stated(asked, grouped, epsilon, groups, rows, neighbors):
    made = plan(
        [f"SELECT {', '.join(asked)} FROM t {grouped}"], catalog(neighbors), Terms(epsilon, groups=groups, rows=rows)
    )
    assert sum(part.epsilon for part in parts(made.loss)) == epsilon == made.epsilon
    assert made.delta == 0
    assert made.verify(catalog(neighbors)) == made.loss


@settings(max_examples=25)
@given(
    numbers,
    st.sampled_from(["GROUP BY sex", "GROUP BY city", "GROUP BY age, city"]),
    epsilons,
    st.sampled_from(["1e-4", "1e-9"]),
    st.integers(1, 60),
    relations,
)
def test_the_whole_is_within_the_stated_epsilon_and_delta(asked, grouped, epsilon, delta, groups, neighbors):
    try:
        made = plan(
            [f"SELECT {', '.join(asked)} FROM t {grouped}"],
            catalog(neighbors),
            Terms(epsilon, delta=delta, groups=groups, rows=1),
        )
    except InvalidQuery:
        return
    except ValueError as error:
        assert "table is too long" in str(error)
        return
    assert made.epsilon <= epsilon
    assert made.delta <= Fraction(delta)
    named = [part for part in parts(made.loss) if isinstance(part, Approximate)]
    noise = [part for part in parts(made.loss) if not isinstance(part, Approximate)]
    spare = made.delta - sum(part.delta for part in named)
    left = made.epsilon - sum(part.epsilon for part in named)
    assert spare >= 0
    assert guarantee(Together(*noise, Pure(0)), delta=spare).epsilon <= float(left) * (1 + 1e-9)


def test_selection_of_keys_is_part_of_the_price():
    made = plan(
        ["SELECT city, COUNT(*), SUM(age) FROM t GROUP BY city"],
        catalog(),
        Terms("0.9", delta="1e-8", groups=2, rows=1),
    )
    assert parts(made.loss) == (Pure("0.3"), Pure("0.3"), Approximate("0.3", "1e-8"))
    assert made.releases[0].selection.keys == 2
    two = plan(
        ["SELECT city, COUNT(*) FROM t GROUP BY city"], catalog("change one"), Terms(1, delta="1e-8", groups=2, rows=1)
    )
    assert two.releases[0].selection.keys == 4


@pytest.mark.parametrize("terms", [
    {"epsilon": 1}, {"error": 50}, {"epsilon": "0.5", "groups": 9},
])  # fmt: skip
@pytest.mark.parametrize("several", [1, 2, 3])
def test_several_selections_of_keys_share_one_delta(terms, several):
    """δ of all selections, and of Gaussian noise beside them, is what was stated."""
    asked = ["SELECT city, COUNT(*) FROM t GROUP BY city", "SELECT city, sex, COUNT(*) FROM t GROUP BY city, sex",
             "SELECT city, age, COUNT(*) FROM t GROUP BY city, age"]  # fmt: skip
    made = plan(asked[:several], catalog(), Terms(**{"delta": "1e-6", "groups": 1, "rows": 1} | terms))
    selections = [release.selection for release in made.releases]
    assert len(selections) == several
    gaussian = any(isinstance(noise, RoundedGaussian) for release in made.releases for noise in release.noises)
    assert gaussian == ("groups" in terms)
    total = sum(selection.delta for selection in selections)
    assert total == Fraction(1, 10**6) / (2 if gaussian else 1)
    assert made.delta == Fraction(1, 10**6)


def test_gaussian_noise_is_taken_exactly_where_it_is_smaller():
    for groups in (1, 2, 5, 10, 20, 40, 80):
        made = plan(
            ["SELECT age, COUNT(*) FROM t GROUP BY age"], catalog(), Terms(1, delta="1e-6", groups=groups, rows=1)
        )
        (noise,) = made.releases[0].noises
        width = noise.interval("0.95")
        laplace = Geometric(epsilon=1, sensitivity=groups).interval("0.95")
        assert width <= laplace
        assert isinstance(noise, RoundedGaussian) == (width < laplace)
    assert isinstance(noise, RoundedGaussian)


def test_of_many_counts_in_one_statement_the_smaller_noise_is_taken():
    for many, kind in ((5, Geometric), (50, RoundedGaussian)):
        sql = "SELECT " + ", ".join(f"COUNT_IF(age = {age})" for age in range(many)) + " FROM t"
        ((pure,), (chosen,)) = (
            plan([sql], catalog(), Terms(1, delta=delta, groups=1, rows=1)).releases for delta in (None, "1e-6")
        )
        assert {type(noise) for noise in chosen.noises} == {kind}
        assert len(chosen.noises) == many
        widths = [max(noise.interval("0.95") for noise in release.noises) for release in (pure, chosen)]
        assert widths[1] <= widths[0] * (Fraction(1, 2) if many == 50 else 1)


def test_people_are_counted_at_their_own_sensitivity():
    table = Table("v", [Column("who", "integer"), Column("x", "integer", lower=0, upper=9)], unit=Unit("who"))
    known = Catalog("h", [table], neighbors="add or remove one")
    sql = "SELECT COUNT(*), COUNT(DISTINCT who), SUM(x) FROM v"
    (release,) = plan([sql], known, Terms(1, groups=1, rows=7)).releases
    assert [noise.sensitivity for noise in release.noises] == [7, 1, 63]


@settings(max_examples=25)
@given(st.integers(1, 10**7), st.integers(1, 5), st.integers(1, 5), st.sampled_from(["0.5", "0.95", "0.999"]))
def test_error_is_kept_with_the_least_epsilon(error, groups, rows, confidence):
    terms = Terms(error=error, groups=groups, rows=rows, confidence=confidence)
    made = plan(["SELECT sex, COUNT(*), SUM(pay) FROM t GROUP BY sex"], catalog(), terms)
    for derived, noise in zip(made.releases[0].derived, made.releases[0].noises, strict=True):
        width = noise.interval(confidence) * derived.step
        assert width <= error
        less = Geometric(epsilon=noise.epsilon * Fraction(99, 100), sensitivity=noise.sensitivity)
        assert less.interval(confidence) * derived.step + derived.step > error * Fraction(97, 100)


def test_a_mean_has_no_error_in_advance_and_nothing_has_no_price():
    with pytest.raises(InvalidQuery, match="AVG"):
        plan(["SELECT AVG(age) FROM t"], catalog(), Terms(error=1, rows=1))
    with pytest.raises(InvalidQuery):
        plan(["SELECT sex FROM t GROUP BY sex"], catalog(), Terms(error=1, groups=1))


@pytest.mark.parametrize("error", ["1e400", "1e30", 5 * 10**15])
def test_an_error_beyond_all_answers_is_refused(error):
    with pytest.raises(InvalidParameter, match="at most 4503599627370496.*; noise is never that wide") as refused:
        plan(["SELECT COUNT(*) FROM t"], catalog(), Terms(error=error, rows=1))
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("error", [1, 1000, 10**15, 2**52])
def test_any_other_error_has_its_least_epsilon(error):
    (release,) = plan(["SELECT COUNT(*) FROM t"], catalog(), Terms(error=error, rows=1)).releases
    noise = release.noises[0]
    assert noise.interval("0.95") <= error
    assert Geometric(epsilon=noise.epsilon * Fraction(99, 100), sensitivity=1).interval("0.95") >= error


def test_keys_alone_can_be_asked_for_where_they_are_not_public():
    made = plan(["SELECT city FROM t GROUP BY city"], catalog(), Terms(epsilon=1, delta="1e-6", groups=1))
    assert made.loss == Approximate(1, "1e-6")
    with pytest.raises(InvalidQuery, match="nothing is measured"):
        plan(["SELECT sex FROM t GROUP BY sex"], catalog(), Terms(epsilon=1, groups=1))


def test_bounds_must_be_stated_by_somebody():
    with pytest.raises(InvalidQuery, match="groups"):
        plan(["SELECT sex, COUNT(*) FROM t GROUP BY sex"], catalog(), Terms(epsilon=1, rows=1))
    with pytest.raises(InvalidQuery, match="rows"):
        plan(["SELECT COUNT(*) FROM t"], catalog(), Terms(epsilon=1))
    plan(["SELECT COUNT(DISTINCT person) FROM t"], catalog(), Terms(epsilon=1))  # one person, one count


def test_a_draft_without_bounds_is_never_priced():
    with pytest.raises(InternalError):
        price._bound(type("Draft", (), {"bound": None})())


@pytest.mark.parametrize("numbers", ["COUNT(*)", "COUNT(*), SUM(age), COUNT(DISTINCT person)"])
def test_gaussian_measures_together_cost_what_was_stated(numbers):
    """(ε, δ) of all measures together, by the exact profile: what was stated, within a thousandth, and no more."""
    made = plan([f"SELECT {numbers} FROM t GROUP BY age"], catalog(), Terms(1, delta="1e-6", groups=80, rows=1))
    assert all(isinstance(noise, RoundedGaussian) for release in made.releases for noise in release.noises)
    assert 0.999 < guarantee(made.loss, delta="1e-6").epsilon <= 1


WEIGHED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, weights = '{}') {} FROM t{}"


def weighed_release(weights: str, listed: str, after: str = "", **terms: object) -> Release:
    catalog = Catalog("d", [Table("t", [Column("x", "integer", lower=0, upper=9), Column("c", "text")], unit=Unit())],
                      neighbors="add or remove one")  # fmt: skip
    made = plan([WEIGHED.format(weights, listed, after)], catalog, Terms(**terms))
    assert made.verify(catalog) == made.loss
    assert made.epsilon == 2
    return made.releases[0]


def test_weights_say_which_part_of_epsilon_an_aggregate_has() -> None:
    release = weighed_release("3, 1", "COUNT(*) AS n, SUM(x) AS s")
    assert [noise.epsilon for noise in release.noises] == [Fraction(3, 2), Fraction(1, 2)]
    shared = weighed_release("1, 4", "COUNT(x) AS n, AVG(x) AS m")  # of the count, the larger weight holds
    assert [noise.epsilon for noise in shared.noises] == [1, 1]


def test_weights_of_quantiles_choices_and_names_add_up() -> None:
    release = weighed_release(
        "2, 1, 1, 1, 4", "MEDIAN(x) AS q, HISTOGRAM(x, [3]) AS h, MODE(x) AS m, COUNT(*) AS n"
    )  # a histogram of two bins is two aggregates
    assert sum(choice.mechanism.epsilon for choice in release.choices) == Fraction(2 * 2, 8)
    assert release.tallies[0].noise.epsilon == Fraction(2, 8)
    assert release.tops[0].mechanism.epsilon == Fraction(2, 8)
    assert release.noises[0].epsilon == Fraction(2 * 4, 8)
    named = weighed_release("3, 1", "c, COUNT(*) AS n, SUM(x) AS s", " GROUP BY c", delta="1e-6")
    assert named.selection is not None
    assert (named.selection.epsilon, named.noises[0].epsilon) == (Fraction(2, 3), 1)


@pytest.mark.parametrize(
    ("weights", "listed", "terms", "said"),
    [
        ("1, 2", "COUNT(*) AS n", {}, "2 weights for 1 aggregates"),
        ("0", "COUNT(*) AS n", {}, "weights '0'; one number above 0"),
        ("1e3", "COUNT(*) AS n", {}, "weights '1e3'"),
        ("1,,2", "COUNT(*) AS n", {}, "weights '1,,2'"),
        ("1, 2", "COUNT(*) AS n, (SELECT COUNT(*) FROM t) AS m", {}, "weights share the epsilon of one SELECT"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: str, listed: str, terms: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidQuery, match=re.escape(said)):
        weighed_release(weights, listed, **terms)
