from fractions import Fraction

import pytest

from discreet.curator.catalog import Catalog, Column, ColumnType, Table
from discreet.errors import InvalidParameter
from discreet.privacy.unit import Neighbors, Unit

AGE = Column("age", "integer", lower=0, upper=120)


def test_names_are_found_in_any_case():
    catalog = Catalog("d", [Table("People", [AGE], unit=Unit())], neighbors="change one")
    assert catalog.table("pEOPLE").column("AGE") is AGE
    assert catalog.neighbors is Neighbors.CHANGE_ONE


def test_values_are_frozen_and_compare_by_value():
    assert Column("age", ColumnType.INTEGER, lower="0", upper="1.2e2") == AGE
    assert hash(AGE) == hash(Column("age", "integer", lower=0, upper=120))
    with pytest.raises(AttributeError):
        AGE.lower = Fraction(5)


def test_what_can_be_summed():
    assert AGE.bounded
    assert not Column("age", "integer").bounded
    assert not Column("pay", "real", lower=0, upper=10).bounded  # no grid to add on
    assert Column("pay", "real", lower=0, upper=10, granularity="0.01").bounded


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "number"}, "type"),
        ({"kind": "integer", "lower": 0}, "both lower and upper"),
        ({"kind": "integer", "lower": 5, "upper": 1}, "lower ≤ upper"),
        ({"kind": "integer", "lower": "0.5", "upper": 1}, "whole numbers"),
        ({"kind": "integer", "lower": float("nan"), "upper": 1}, "finite"),
        ({"kind": "real", "lower": 0, "upper": float("inf")}, "finite"),
        ({"kind": "text", "lower": 0, "upper": 1}, "integer or real"),
        ({"kind": "real", "lower": 0, "upper": 1, "granularity": "0.3"}, "multiples"),
        ({"kind": "real", "lower": 0, "upper": 1, "granularity": 0}, "granularity"),
        ({"kind": "real", "lower": 0, "upper": 1, "granularity": "1e-30"}, "2^61"),
        ({"kind": "integer", "granularity": 2}, "granularity"),
        ({"kind": "date", "granularity": 1}, "granularity"),
        ({"kind": "text", "values": []}, "at least one"),
        ({"kind": "text", "values": ["a", "a"]}, "each once"),
        ({"kind": "text", "values": ["a", 1]}, "type text"),
        ({"kind": "text", "values": "abc"}, "a list"),
        ({"kind": "integer", "values": [True]}, "type integer"),
        ({"kind": "real", "values": [1.5]}, "bounds and a granularity"),
        ({"kind": "text", "nullable": "no"}, "true or false"),
    ],
)
def test_bad_columns_are_refused_with_their_name(settings, said):
    with pytest.raises(InvalidParameter, match="column 'x'") as refusal:
        Column("x", **settings)
    assert said in str(refusal.value)


def test_bad_tables_and_catalogs_are_refused():
    with pytest.raises(InvalidParameter, match="at least one column"):
        Table("t", [], unit=None)
    with pytest.raises(InvalidParameter, match="two columns"):
        Table("t", [AGE, Column("AGE", "text")], unit=None)
    with pytest.raises(InvalidParameter, match="a column of table 't': age"):
        Table("t", [AGE], unit=Unit("id"))
    with pytest.raises(InvalidParameter, match="private table"):
        Catalog("d", [Table("t", [AGE], unit=None)], neighbors="change one")
    private = Table("t", [AGE], unit=Unit())
    with pytest.raises(InvalidParameter, match="different names"):
        Catalog("d", [private, Table("T", [AGE], unit=None)], neighbors="change one")
    with pytest.raises(InvalidParameter, match="add or remove one"):
        Catalog("d", [private], neighbors="whatever")
    with pytest.raises(InvalidParameter, match="a table of dataset 'd': t"):
        Catalog("d", [private], neighbors="change one").table("u")
    with pytest.raises(InvalidParameter):
        Column("", "text")
