"""An attack that cannot read a release, or has no true control, never says that it holds."""

import csv

import numpy as np
import pytest

from discreet.attacks.answers.intersection import Intersection
from discreet.attacks.tables.columns import alike, columns
from discreet.attacks.tables.inference import Inference, Linkability
from discreet.attacks.tables.linkage import Linkage, LinkedSecret
from discreet.attacks.tables.matching import Join
from discreet.attacks.tables.rules import Coarse
from discreet.attacks.tables.singling_out import SinglingOut

CONTINENTS = {"Japan": "Asia", "China": "Asia", "France": "Europe", "Italy": "Europe"}
COVERS = {top: [land for land, of in CONTINENTS.items() if of == top] for top in ("Asia", "Europe")}


def folk(seed, people=400):
    rng = np.random.default_rng(seed)
    days = np.datetime64("1950-01-01") + rng.integers(0, 20_000, people)
    return {
        "id": [f"{seed}-{i}" for i in range(people)],
        "land": rng.choice(list(CONTINENTS), people).tolist(),
        "zip": [f"{code:05d}" for code in rng.integers(1000, 1100, people)],
        "born": days.astype(str).tolist(),
        "ill": rng.choice(["flu", "burn", "none", "cold"], people).tolist(),
    }


PEOPLE, OTHERS = folk(1), folk(2)
ALL = {**PEOPLE, "land": [CONTINENTS[land] for land in PEOPLE["land"]]}
HALF = {**PEOPLE, "land": [CONTINENTS[land] if CONTINENTS[land] == "Asia" else land for land in PEOPLE["land"]]}
ILL, LAND = {"secret": "ill"}, {"secret": "land"}
RELEASES = pytest.mark.parametrize("released", [ALL, HALF])


@RELEASES
def test_linkage(released):
    on = ["land", "zip", "born"]
    common = {"known": PEOPLE, "name": "id", "truth": PEOPLE["id"]}
    report = Linkage(released=released, on=on, **common).run()
    assert report.verdict != "holds"
    assert "'land'" in report.unread[0]
    explained = Linkage(released=released, on={**dict.fromkeys(on), "land": Coarse(covers=COVERS)}, **common).run()
    assert explained.success.value > 0.99
    assert explained.unread == ()


@RELEASES
def test_linked_secret(released):
    members = [True] * len(PEOPLE["id"])
    common = {"known": PEOPLE, "secret": "ill", "answers": PEOPLE["ill"], "members": members}
    assert LinkedSecret(released=released, on=["land", "zip"], **common).run().unread
    assert not LinkedSecret(released=PEOPLE, on=["land", "zip"], **common).run().unread
    coarse = {**PEOPLE, "ill": ["ill" if ill != "none" else ill for ill in PEOPLE["ill"]]}
    assert "'ill'" in LinkedSecret(released=coarse, on=["zip", "born"], **common).run().unread[0]


@RELEASES
def test_inference_linkability_and_singling_out(released):
    common = {"people": PEOPLE, "controls": OTHERS}
    attacks = [
        Inference(released=released, known=["land"], **ILL, **common),
        Inference(released=released, known=["zip"], **LAND, **common),
        Linkability(released=released, left=["land"], right=["zip"], **common),
        SinglingOut(released=released, columns=["land", "zip"], width=2, **common),
    ]
    for attack in attacks:
        report = attack.run()
        assert report.verdict != "holds"
        assert any("'land'" in said for said in report.unread)


def test_intersection():
    common = {"known": PEOPLE, "on": ["land", "zip"], "sensitive": "ill"}
    report = Intersection(releases=[HALF, HALF], **common).run()
    assert report.verdict != "holds"
    assert any("'land'" in said for said in report.unread)
    assert not Intersection(releases=[HALF, HALF], covers={"land": COVERS}, **common).run().unread


def test_tables_of_other_people_are_no_doubt():
    common = {"people": PEOPLE, "controls": OTHERS, "released": folk(3)}
    for attack in (
        Inference(known=["land", "zip"], **ILL, **common),
        SinglingOut(columns=["land", "zip", "ill"], width=3, **common),
    ):
        assert attack.run().unread == ()


def test_the_people_themselves_are_no_control():
    common = {"released": PEOPLE, "people": PEOPLE, "controls": PEOPLE}
    for attack in (
        Inference(known=["zip", "land", "born"], **ILL, **common),
        Linkability(left=["zip", "land"], right=["born"], **common),
        SinglingOut(columns=["zip", "land", "ill"], width=3, **common),
    ):
        report = attack.run()
        assert report.verdict == "undecided"
        assert "no control" in report.unread[-1]


def test_some_of_the_people_among_the_controls():
    people, others = (columns(one, ["land", "zip", "born", "ill"]) for one in (PEOPLE, OTHERS))
    assert alike(people, others) == 0
    mixed = {name: np.concatenate([values[:40], people[name][:40]]) for name, values in others.items()}
    assert alike(people, mixed) >= 40


def test_alike_raises_no_false_alarm():
    """Tables of few different rows, drawn alike: at most one false alarm in a million is meant; none in 300."""
    rng = np.random.default_rng(5)
    for values in (2, 30, 300, 3000):
        for _ in range(75):
            first, second = ({"a": rng.integers(0, values, 300)} for _ in range(2))
            assert alike(first, second) == 0


def test_a_year_in_a_csv_file_covers_dates(tmp_path):
    """All years: the column is read as numbers, and must not be taken for something that fits no date."""
    released = {"born": [born[:4] for born in PEOPLE["born"]], "zip": PEOPLE["zip"]}
    for name, table in (("released", released), ("known", PEOPLE)):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))
    report = Linkage(
        released=tmp_path / "released.csv", known=tmp_path / "known.csv", on=["born", "zip"], name="id",
        truth=PEOPLE["id"],
    ).run()  # fmt: skip
    assert report.success.value > 0.7
    join = Join(columns(tmp_path / "released.csv", ["born"]), columns(tmp_path / "known.csv", ["born"]), {})
    assert join.fits(np.arange(400), np.arange(400)).all()
