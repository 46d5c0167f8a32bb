"""The gallery: every exhibit is made, what should fall falls and what should hold holds."""

import pytest
from click.testing import CliRunner

from discreet.cli.attack import gallery
from discreet.errors import InvalidParameter
from discreet.gallery import EXHIBITS, run
from discreet.gallery.exhibits import summary
from discreet.gallery.stories import STORIES

QUICK = ("homogeneity", "fingerprints", "intersection", "composition", "accumulation", "differencing", "reconstruction", "harm", "guessing", "updates")  # fmt: skip
VERDICTS = {
    "linkage": ["falls", "holds", "holds"],
    "homogeneity": ["falls", "holds"],
    "fingerprints": [],
    "inference": ["falls", "falls", "falls", "holds", "holds", "holds"],
    "intersection": ["falls", "falls", "leaks"],
    "sparse": ["falls", "holds"],
    "graph": ["falls", "leaks"],
    "composition": ["falls", "holds"],
    "accumulation": ["falls", "holds"],
    "differencing": ["falls", "falls", "holds"],
    "averaging": ["falls", "holds"],
    "reconstruction": ["falls", "falls", "falls", "holds"],
    "harm": ["holds", "holds"],
    "audit": ["holds"],
    "guessing": ["holds"],
    "membership": ["falls", "falls", "falls", "holds", "holds", "holds"],
    "updates": ["falls", "holds", "holds", "falls", "holds"],
}


def shown(exhibit):
    finished = exhibit.run(seed=1)
    assert finished.parts()
    assert len(summary([finished]).rows) == len(finished.shown.reports)
    return [report.verdict for report in finished.shown.reports]


def test_every_exhibit_is_known_here():
    assert {exhibit.name for exhibit in EXHIBITS} == set(VERDICTS)
    assert len({exhibit.name for exhibit in EXHIBITS}) == len(EXHIBITS)


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS if e.name in QUICK], ids=lambda e: e.name)
def test_what_falls_and_what_holds(exhibit):
    assert shown(exhibit) == VERDICTS[exhibit.name]


@pytest.mark.slow
@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS if e.name not in QUICK], ids=lambda e: e.name)
def test_what_falls_and_what_holds_in_the_longer_ones(exhibit):
    assert shown(exhibit) == VERDICTS[exhibit.name]


def test_a_page_from_the_command_line(tmp_path):
    out = tmp_path / "page.html"
    arguments = ["composition", "harm", "-o", str(out), "--seed", "2"]
    done = CliRunner().invoke(gallery, arguments)
    assert done.exit_code == 0, done.output
    text = out.read_text(encoding="utf-8")
    assert "Two harmless answers, one person" in text
    assert text.count("<svg") >= 4
    assert "[2/2]" in done.output
    assert "exists already" in CliRunner().invoke(gallery, arguments).output
    assert CliRunner().invoke(gallery, [*arguments, "--force"]).exit_code == 0


def test_the_list_and_a_stranger():
    listed = CliRunner().invoke(gallery, ["--list"]).output
    assert all(exhibit.name in listed for exhibit in EXHIBITS)
    with pytest.raises(InvalidParameter, match="linkage"):
        run(["wizardry"], seed=1)


def test_the_same_seed_gives_the_same_page():
    first, again = (run(["composition"], seed=3).parts for _ in range(2))
    assert [type(part) for part in first] == [type(part) for part in again]
    assert first[1].rows == again[1].rows


def test_every_exhibit_asks_one_question_and_is_told_in_steps():
    assert set(STORIES) == {exhibit.name for exhibit in EXHIBITS}
    assert len({story.question for story in STORIES.values()}) == len(STORIES)
    for story in STORIES.values():
        assert story.question.count("?") == 1
        assert story.question.endswith("?")
        assert all(words.endswith(".") for _, words in story.steps)
