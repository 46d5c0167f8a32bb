"""`discreet attack …` on tables, records and networks, as a person types it."""

import csv
import datetime
import subprocess
import sys

import pytest

COMMANDS = [
    "audit",
    "audit-training",
    "average",
    "coins",
    "compose",
    "difference",
    "example",
    "graph",
    "guess",
    "infer",
    "intersect",
    "link",
    "linkability",
    "match",
    "membership",
    "reconstruct",
    "secret",
    "single-out",
]
PLANTED = "Plantagenet"

RELEASED = "zip,age,ill\n13053,28,flu\n13068,31,cold\n14850,47,flu\n14853,49,cold\n"
KNOWN = f"who,zip,age\nAnn,13053,28\n{PLANTED},13068,31\nCy,14850,47\nDi,14853,50\nEd,99999,20\n"
TRUTH = f"who\nAnn\n{PLANTED}\nCy\nDi\n"
LINK = ("attack", "link", "released.csv", "known.csv", "--on", "zip,age", "--name", "who", "--truth", "truth.csv:who")


@pytest.fixture
def attack(discreet, tmp_path):
    for name, text in {"released": RELEASED, "known": KNOWN, "truth": TRUTH}.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    return discreet


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """The generated files, small."""
    folder = tmp_path_factory.mktemp("example") / "town"
    code = f"import sys; sys.argv = ['discreet', 'attack', 'example', {str(folder)!r}, '--people', '2000']; import discreet.cli; discreet.cli.main()"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return folder


def test_help_names_every_command_and_imports_nothing_heavy(discreet):
    text = discreet("attack", "--help").out
    assert all(f"  {name} " in text for name in COMMANDS)
    code = "import sys, discreet.cli.attack; print([m for m in ('scipy', 'pyarrow', 'duckdb', 'matplotlib', 'discreet.attacks', 'discreet.anonymity') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(discreet, command):
    done = discreet("attack", command, "--help")
    assert done.code == 0
    assert f"discreet attack {command} " in done.out.split("\n", 1)[1]
    assert command in ("coins", "example") or ("--report" in done.out and "--plot" in done.out)


# Linkage


def test_link_counts_the_named(attack):
    found = attack(*LINK, "--json").json
    assert found["success"]["hits"] == 3  # Di's age is off by one
    assert found["success"]["trials"] == 4
    assert found["control"]["hits"] == 0
    assert found["baseline"]["value"] == 0.25
    near = attack(*LINK, "--within", "age=1", "--json").json
    assert near["success"]["hits"] == 4
    slip = attack(*LINK, "--slips", "1", "--json").json
    assert slip["success"]["hits"] >= 3


def test_worst_examples_are_shown_to_the_owner_only(attack, tmp_path):
    plain = attack(*LINK, "--report", "plain.html", "--plot", "plain.svg")
    as_json = attack(*LINK, "--json")
    assert PLANTED not in plain.out + plain.err + as_json.out
    assert PLANTED not in (tmp_path / "plain.html").read_text(encoding="utf-8")
    assert PLANTED not in (tmp_path / "plain.svg").read_text(encoding="utf-8")
    owner = attack(*LINK, "--owner", "--report", "owner.html")
    assert f"is {PLANTED}" in owner.out
    assert PLANTED in (tmp_path / "owner.html").read_text(encoding="utf-8")
    assert any(PLANTED in example for example in attack(*LINK, "--owner", "--json").json["worst"])


def test_labels_are_explained_by_a_hierarchy(attack, tmp_path):
    (tmp_path / "released.csv").write_text(RELEASED.replace("13053", "north").replace("13068", "north"))
    (tmp_path / "zips.csv").write_text("13053;north;*\n13068;north;*\n14850;south;*\n14853;south;*\n99999;far;*\n")
    assert attack(*LINK, "--json").json["success"]["hits"] == 1
    assert attack(*LINK, "--hierarchy", "zip=zips.csv", "--json").json["success"]["hits"] == 3


def test_must_hold_gives_the_exit_code(attack, tmp_path):
    assert attack(*LINK, "--must-hold").code == 3
    assert attack(*LINK).code == 0
    rows = 400
    (tmp_path / "released.csv").write_text("zip,age\n" + "*,*\n" * rows)
    (tmp_path / "known.csv").write_text("who,zip,age\n" + "".join(f"P{i},{i},{i}\n" for i in range(rows)))
    (tmp_path / "truth.csv").write_text("who\n" + "".join(f"P{i}\n" for i in range(rows)))
    assert attack(*LINK, "--must-hold").code == 0


def test_must_hold_fails_where_nothing_is_decided(attack, tmp_path):
    """A raw table of 600 people of whom 3 have a rare secret: nearly everybody is right by saying "none"."""
    for name, start in (("people", 0), ("others", 1000)):
        rows = "".join(f"{start + i},{'HIV' if i < 3 else 'none'}\n" for i in range(600))
        (tmp_path / f"{name}.csv").write_text("number,ill\n" + rows, encoding="utf-8")
    infer = ("attack", "infer", "people.csv", "people.csv", "others.csv", "--known", "number", "--secret", "ill")
    done = attack(*infer, "--must-hold")
    assert done.code == 3
    assert "undecided: The attack was tried on too few people to say: the risk of" in done.err
    assert attack(*infer, "--json").json["verdict"] == "undecided"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--on", "zip,born"), 1, "without a column 'born'"),
        (("--on", ","), 2, "at least one column"),
        (("--on", "zip,zip"), 2, "twice"),
        (("--name", "zip", "--truth", "truth.csv"), 2, "is not FILE:COLUMN"),
        (("--truth", "nothing.csv:who"), 2, "there is no file nothing.csv"),
        (("--truth", "truth.csv:whom"), 1, "without a column 'whom'"),
        (("--truth", "known.csv:who"), 1, "got 5 names, expected 4"),
        (("--within", "born=3"), 2, "not among --on"),
        (("--within", "age"), 2, "is not COLUMN=VALUE"),
        (("--within", "age=1", "--starts", "age=2"), 2, "in two ways"),
        (("--starts", "zip=few"), 2, "not a whole number"),
        (("--confidence", "95"), 2, "strictly between 0 and 1"),
        (("--report", "page.pdf"), 2, "a name that ends in .html"),
        (("--report", "nowhere/page.html"), 2, "a folder that exists"),
        (("--plot", "picture.bmp"), 2, "a name that ends in .svg"),
        (("--report", "truth.html"), 1, "exists already"),
    ],
)
def test_errors_come_before_work_and_name_no_value(attack, tmp_path, words, code, message):
    (tmp_path / "truth.html").write_text("mine")
    done = attack(*LINK, *words)
    assert done.code == code
    assert message in done.err
    assert done.out == ""
    assert PLANTED not in done.err
    assert (tmp_path / "truth.html").read_text() == "mine"


def test_force_writes_over(attack, tmp_path):
    (tmp_path / "page.html").write_text("mine")
    assert attack(*LINK, "--report", "page.html", "--force").code == 0
    assert "linkage" in (tmp_path / "page.html").read_text(encoding="utf-8")


# On the generated files


def test_a_copy_falls_and_broken_ties_hold(discreet, town):
    three = (town / "people.csv", town / "others.csv")
    known = ("--known", "zip,sex,born", "--secret", "condition", "--json")
    assert discreet("attack", "infer", town / "people.csv", *three, *known).json["verdict"] == "falls"
    assert discreet("attack", "infer", town / "shuffled.csv", *three, *known).json["success"]["value"] < 0.4
    sides = ("--left", "zip,sex,race", "--right", "born,condition", "--json")
    copy = discreet("attack", "linkability", town / "people.csv", *three, *sides).json
    assert (copy["verdict"], copy["success"]["value"]) == ("falls", 1.0)
    assert discreet("attack", "linkability", town / "shuffled.csv", *three, *sides).json["success"]["value"] < 0.3
    single = discreet("attack", "single-out", town / "people.csv", *three, "--width", "3", "--json").json
    assert single["success"]["value"] == 1.0
    some = discreet(
        "attack", "single-out", town / "people.csv", *three, "--columns", "zip,sex", "--width", "2", "--json"
    )
    assert some.json["goal"].endswith("2 columns")


def test_secret_reads_answers_and_members(discreet, town):
    words = ("attack", "secret", town / "people.csv", town / "everybody.csv", "--on", "zip,sex,born", "--secret")
    found = discreet(*words, "condition", "--members", f"{town / 'everybody.csv'}:member", "--json").json
    assert found["verdict"] == "falls"
    assert found["control"]["trials"] == 100
    same = discreet(*words, "condition", "--answers", f"{town / 'everybody.csv'}:condition", "--json").json
    assert same["control"] is None
    wrong = discreet(*words, "condition", "--members", f"{town / 'everybody.csv'}:sex")
    assert (wrong.code, "row 1 is neither yes nor no" in wrong.err) == (1, True)


def test_two_releases_say_more_than_one(discreet, town):
    words = ("--known", town / "both.csv", "--on", "age,zip,sex", "--sensitive", "condition", "--json")
    both = discreet("attack", "intersect", town / "north.csv", town / "south.csv", *words).json
    one = discreet("attack", "intersect", town / "north.csv", *words).json
    assert both["success"]["hits"] > 10 * one["success"]["hits"]
    control = discreet("attack", "intersect", town / "north.csv", *words, "--outside", town / "neither.csv").json
    assert control["control"]["trials"] == 200


def test_records_are_found_and_named_to_the_owner(discreet, town):
    words = ("attack", "match", town / "ratings.csv", town / "reviews.csv", "--truth", town / "raters.csv", "--json")
    found = discreet(*words, "--owner").json
    assert found["verdict"] == "falls"
    false = found["facts"]["people outside who are named (false naming)"]
    assert (found["success"]["trials"], found["control"], false["trials"]) == (150, None, 150)
    assert found["success"]["low"] > 0.9 > 0.15 > false["value"]
    with (town / "raters.csv").open(encoding="utf-8") as file:
        truth = {row["person"]: row["record"] for row in csv.DictReader(file)}
    for example in found["worst"]:
        _, person, _, _, record, *_ = example.split()
        assert truth[person] == record
    assert "worst" not in discreet(*words).json


TIMES = {
    "days": str,
    "seconds": lambda day: str(1_000_000_000 + 86_400 * day + 777),
    "milliseconds": lambda day: str(1000 * (1_000_000_000 + 86_400 * day) + 5),
    "dates": lambda day: str(datetime.date(2001, 9, 9) + datetime.timedelta(day)),
    "ISO times": lambda day: f"{datetime.datetime(2001, 9, 9, 1, 46) + datetime.timedelta(day)}Z".replace(" ", "T"),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("times", TIMES)
def test_a_file_of_ones_own_needs_one_command(discreet, town, tmp_path, times):
    """Columns with other names, times of every kind: the same people are found."""
    with (town / "ratings.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["person"][1:]) < 500]
    lines = [f"{row['person']},{row['item']},{row['rating']},{TIMES[times](int(row['day']))}" for row in rows]
    (tmp_path / "mine.csv").write_text("userId,movieId,stars,when\n" + "\n".join(lines) + "\n", encoding="utf-8")
    words = ("attack", "match", "mine.csv", "--plant", 6, "--columns", "userId,movieId,stars,when", "--steps", "6")
    found = discreet(*words, "--json", "--owner").json
    assert found["verdict"] == "falls"
    assert found["success"]["value"] > found["facts"]["named rightly without dates"]["value"] - 0.02 > 0.5
    assert found["success"]["value"] > 0.95
    for example in found["worst"]:  # planted people keep their names, so person and record are called alike
        assert example.split()[1] == example.split()[4]


def test_of_several_ratings_of_an_item_the_latest_counts(discreet, town, tmp_path):
    """Earlier ratings change nothing, wherever they stand; without days the last line counts."""
    with (town / "ratings.csv").open(encoding="utf-8") as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file) if int(row["person"][1:]) < 60]
    pairs = [(row, (*row[:2], "1", str(int(row[3]) - 5))) for row in rows]
    before, after = ([row for pair in pairs for row in pair[::step]] for step in (-1, 1))
    for width in (4, 3):
        columns = ",".join(("person", "item", "rating", "day")[:width])
        reports = []
        for number, table in enumerate((rows, before, after)[: width - 1]):
            lines = "\n".join(",".join(row[:width]) for row in table)
            (tmp_path / f"{number}.csv").write_text(f"{columns}\n{lines}\n", encoding="utf-8")
            reports.append(
                discreet("attack", "match", f"{number}.csv", "--plant", 4, "--columns", columns, "--json").json
            )
        assert all(report["facts"] == reports[0]["facts"] for report in reports)


def test_a_file_with_other_columns_says_what_to_do(discreet, tmp_path):
    (tmp_path / "movies.csv").write_text("userId,movieId,rating,timestamp\n1,2,3,4\n", encoding="utf-8")
    assert "--columns user,film,stars,time" in discreet("attack", "match", "movies.csv", "--plant", 6).err
    (tmp_path / "mine.csv").write_text("userId,movieId,stars\n1,2,3\n", encoding="utf-8")
    assert "--columns user,film,stars,time" in discreet("attack", "match", "mine.csv", "--plant", 6).err
    assert "--plant 8" in discreet("attack", "match", "mine.csv").err
    assert "leave KNOWN" in discreet("attack", "match", "mine.csv", "mine.csv", "--plant", 6).err
    done = discreet("attack", "match", "mine.csv", "--plant", 6, "--columns", "userId,movieId,stars")
    assert (done.code, "plant fewer" in done.err) == (1, True)


def test_nodes_are_found_and_named_to_the_owner(discreet, town):
    words = ("attack", "graph", town / "calls.csv", town / "friends.csv", "--truth", town / "numbers.csv", "--json")
    found = discreet(*words, "--seeds", town / "seeds.csv", "--owner", "--curve", "3").json
    assert found["verdict"] == "falls"
    assert found["facts"]["seeds given"] == "30, of which 30 right"
    with (town / "numbers.csv").open(encoding="utf-8") as file:
        truth = {row["person"]: row["number"] for row in csv.DictReader(file)}
    for example in found["worst"]:
        words = example.split()
        assert truth[words[1]] == words[5]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("match", "ratings.csv", "calls.csv", "--truth", "raters.csv"),
            "known: it has the columns a, b; say which columns hold person, item, rating and day",
        ),
        (("match", "ratings.csv", "reviews.csv", "--truth", "patients.csv"), "truth: it has one column; expected two"),
        (("match", "ratings.csv", "reviews.csv", "--truth", "numbers.csv"), "name nobody of the release"),
        (("graph", "calls.csv", "friends.csv", "--truth", "raters.csv"), "is it the right file?"),
        (
            ("graph", "calls.csv", "friends.csv", "--truth", "numbers.csv", "--seeds", "raters.csv"),
            "name a node that is in no edge",
        ),
    ],
)
def test_wrong_files_are_refused(discreet, town, words, message):
    given = [town / word if word.endswith(".csv") else word for word in words]
    done = discreet("attack", *given)
    assert done.code == 1
    assert message in done.err


def test_numbers_must_be_numbers(discreet, town):
    done = discreet(
        "attack", "match", town / "ratings.csv", town / "reviews.csv", "--truth", town / "raters.csv", "--steps", "1,x"
    )
    assert (done.code, "are not whole numbers" in done.err) == (2, True)


def test_the_example_repeats_and_writes_over_nothing(discreet, town, tmp_path):
    assert discreet("attack", "example", "town", "--people", "2000").code == 0
    for file in town.iterdir():
        assert (tmp_path / "town" / file.name).read_bytes() == file.read_bytes()
    again = discreet("attack", "example", "town")
    assert (again.code, "is not empty" in again.err) == (1, True)
