"""A witness outside the ledger: a ledger that vanished, was renamed or put back is noticed; an honest one never refused."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import discreet
from discreet.curator.ledger import Ledger, digest
from discreet.curator.policy import read_policy
from discreet.curator.stores import Head
from discreet.curator.stores.sqlite import SqliteStore
from discreet.curator.witness import Witness, default_folder, witness_of
from discreet.errors import InvalidParameter, LedgerConflict, LedgerDamaged, LedgerUnavailable
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Pure

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
{more}
[budget]
everyone = "all"
epsilon = "1"
[tables.visits]
source = "visits.csv"
unit = "row"
columns.age = {{type = "integer", lower = 0, upper = 120, nullable = false}}
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    place.mkdir()
    (place / "visits.csv").write_text("age\n" + "30\n" * 50)
    write(place)
    return place


def write(folder: Path, more: str = "", **changes: str) -> Path:
    text = POLICY.format(more=more)
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / "policy.toml").write_text(text)
    return folder / "policy.toml"


def ask(folder: Path, epsilon: str = "0.6", name: str = "policy.toml"):
    with discreet.open(folder / name, analyst="ann") as data:
        return data.ask(COUNT, epsilon=epsilon)


def remove_ledger(folder: Path, name: str = "policy.ledger") -> None:
    for file in folder.glob(f"{name}*"):
        file.unlink()


def lines(folder: Path) -> list[dict]:
    (file,) = [file for file in folder.glob("*.heads") if file.stat().st_size]
    return [json.loads(line) for line in file.read_text().splitlines()]


# --- what is noticed ---------------------------------------------------------------------------------------


def test_a_vanished_ledger_is_not_begun_anew(folder):
    ask(folder)
    remove_ledger(folder)
    with pytest.raises(LedgerDamaged, match="a witness saw row 3 of 'clinic'.*removed, renamed or put back.*forget"):
        ask(folder, "0.9")
    assert [file.name for file in folder.glob("*ledger*")] == []
    (folder / "policy.ledger").touch()
    with pytest.raises(LedgerDamaged, match="a witness saw row 3 of 'clinic'"):
        ask(folder, "0.9")


def test_an_older_copy_that_is_put_back_is_refused(folder):
    ask(folder, "0.1")
    shutil.copy(folder / "policy.ledger", folder / "old")
    ask(folder, "0.5")
    remove_ledger(folder)
    shutil.move(folder / "old", folder / "policy.ledger")
    with pytest.raises(LedgerDamaged, match="a witness saw row 5 of 'clinic'"):
        ask(folder, "0.9")


def test_a_chain_that_was_rewritten_is_refused(folder):
    ask(folder)
    remove_ledger(folder)
    with SqliteStore(folder / "policy.ledger") as store:  # as long as the one that was witnessed, by somebody else
        forged = Ledger(store)
        policy = read_policy(folder / "policy.toml")
        forged.open("clinic", policy.budget, protects=policy.catalog.protects)
        for n in range(5):
            forged.charge("clinic", analyst="ann", statement=digest(f"SELECT {n}"), loss=Pure("0.001"))
    with pytest.raises(LedgerDamaged, match="does not go on from there"):
        ask(folder, "0.9")


def test_another_name_of_the_ledger_is_no_new_budget(folder):
    ask(folder)
    write(folder, 'ledger = "other.ledger"')
    with pytest.raises(LedgerDamaged, match="a witness saw row 3 of 'clinic' in .*policy.ledger"):
        ask(folder, "0.9")


@pytest.mark.parametrize("more", ["", 'ledger = "other.ledger"'])
def test_another_name_of_the_dataset_is_no_new_budget(folder, more):
    ask(folder)
    write(folder, more, clinic="hospital")
    with pytest.raises(LedgerDamaged, match="a witness saw row 3 of 'clinic'"):
        ask(folder, "0.9")


def test_another_name_of_the_policy_is_no_new_budget(folder):
    ask(folder)
    (folder / "policy.toml").rename(folder / "again.toml")
    with pytest.raises(LedgerDamaged, match="a witness saw row 3"):
        ask(folder, "0.9", "again.toml")


def test_another_name_of_the_dataset_is_noticed_in_its_ledger_even_without_what_the_witness_saw(folder):
    ask(folder)
    shutil.rmtree(default_folder())
    write(folder, clinic="hospital")
    with pytest.raises(LedgerConflict, match="this ledger has charges for the same data under the name 'clinic'"):
        ask(folder, "0.9")


def test_an_id_is_known_wherever_the_files_lie(folder, tmp_path):
    write(folder, 'id = "visits of 2026"')
    ask(folder)
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved, ignore=shutil.ignore_patterns("*.ledger*"))
    write(moved, 'id = "visits of 2026"', clinic="hospital")
    with pytest.raises(LedgerDamaged, match="a witness saw row 3"):
        ask(moved, "0.9")


def test_one_known_file_is_enough_also_behind_a_link(folder):
    ask(folder)
    (folder / "link.csv").symlink_to(folder / "visits.csv")
    (folder / "more.csv").write_text("age\n1\n")
    text = POLICY.format(more="").replace("visits.csv", "link.csv").replace("clinic", "hospital")
    more = text[text.index("[tables.visits]") :].replace("visits", "more").replace("link.csv", "more.csv")
    (folder / "other.toml").write_text(text + more)
    with pytest.raises(LedgerDamaged, match="a witness saw row 3 of 'clinic'"):
        ask(folder, "0.9", "other.toml")


def test_tables_of_python_are_known_by_their_policy(folder):
    import pyarrow as pa

    write(folder, **{"visits.csv": "python"})
    table = pa.table({"age": [30] * 50})
    with discreet.open(folder / "policy.toml", tables={"visits": table}) as data:
        data.ask(COUNT, epsilon="0.6")
    with pytest.raises(LedgerDamaged, match="a witness saw row 3"):
        discreet.open(folder / "policy.toml", tables={"visits": table}, ledger=folder / "other.ledger")


# --- what is not refused -----------------------------------------------------------------------------------


def test_an_honest_ledger_goes_on_also_where_it_was_moved(folder, tmp_path):
    ask(folder, "0.1")
    ask(folder, "0.2")
    write(folder, 'ledger = "renamed.ledger"')
    (folder / "policy.ledger").rename(folder / "renamed.ledger")
    assert ask(folder, "0.3").receipt.charge == 6
    shutil.move(folder, tmp_path / "elsewhere")
    assert ask(tmp_path / "elsewhere", "0.05").receipt.charge == 8


def test_an_id_or_a_table_may_be_added_later(folder):
    ask(folder, "0.1")
    write(folder, 'id = "visits of 2026"')
    assert ask(folder, "0.2").receipt.charge == 4
    remove_ledger(folder)
    with pytest.raises(LedgerDamaged):
        ask(folder)


def test_a_witness_that_is_behind_is_fine_as_after_a_crash(folder):
    ask(folder, "0.1")
    with SqliteStore(folder / "policy.ledger") as store:  # charged and not witnessed: the process died in between
        Ledger(store).charge("clinic", analyst="ann", statement=digest("x"), loss=Pure("0.1"))
    assert ask(folder, "0.2").receipt.charge == 5
    assert lines(default_folder())[-1]["number"] == 6


def test_a_line_that_a_crash_cut_short_is_left_out_and_the_next_is_whole(folder):
    ask(folder, "0.1")
    (file,) = [file for file in default_folder().glob("*.heads") if file.stat().st_size]
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"account": "cli')
    ask(folder, "0.2")
    assert json.loads(file.read_text().splitlines()[-1])["number"] == 5
    remove_ledger(folder)
    with pytest.raises(LedgerDamaged, match="a witness saw row 5"):
        ask(folder)


def test_a_witness_of_garbage_is_refused_not_taken_for_an_empty_one(folder):
    ask(folder, "0.1")
    (file,) = [file for file in default_folder().glob("*.heads") if file.stat().st_size]
    for garbage in (b"garbage\n", b"{}\n"):
        file.write_bytes(garbage)
        with pytest.raises(LedgerDamaged, match="the last line of the witness"):
            ask(folder, "0.2")


# --- what is written ---------------------------------------------------------------------------------------


def test_every_row_is_witnessed_after_it_is_in_the_ledger(folder):
    ask(folder, "0.1")
    ask(folder, "0.1")
    ask(folder, "0.2")
    seen = lines(default_folder())
    assert [line["number"] for line in seen] == [1, 2, 3, 4, 5]
    with SqliteStore(folder / "policy.ledger") as store:
        assert [line["hash"] for line in seen] == [row.hash for row in Ledger(store).history("clinic")]
    assert {line["ledger"] for line in seen} == {str(folder / "policy.ledger")}
    assert oct(default_folder().stat().st_mode & 0o777) == "0o700"
    assert {oct(file.stat().st_mode & 0o777) for file in default_folder().iterdir()} == {"0o600"}


def test_the_policy_names_folders_or_none(folder):
    write(folder, 'witness = ["one", "two"]')
    ask(folder, "0.1")
    shutil.rmtree(folder / "one")
    remove_ledger(folder)
    with pytest.raises(LedgerDamaged, match="a witness saw row 3"):
        ask(folder)
    write(folder, 'witness = "none"')
    remove_ledger(folder)
    assert ask(folder).receipt.charge == 2
    assert not default_folder().exists()


@pytest.mark.parametrize("bad", ["3", '""', "[]", '["none", "a"]', "[1]", "true"])
def test_other_witnesses_are_refused(folder, bad):
    with pytest.raises(InvalidParameter, match=r"\[dataset\] witness"):
        read_policy(write(folder, f"witness = {bad}"))


def test_a_witness_that_cannot_be_written_is_said_before_anything_is_charged(folder):
    (folder / "file").touch()
    write(folder, 'witness = "file/below"')
    with pytest.raises(LedgerUnavailable, match="the witness .* cannot be written .*nothing was charged"):
        ask(folder)
    with SqliteStore(folder / "policy.ledger") as store:
        assert Ledger(store).accounts() == []


def test_a_witness_that_fails_after_a_charge_loses_no_answer_and_the_owner_is_told(folder, caplog):
    import logging

    with discreet.open(folder / "policy.toml", analyst="ann") as data:
        shutil.rmtree(default_folder())
        default_folder().touch()
        owner = logging.getLogger("discreet.owner")
        owner.addHandler(caplog.handler)
        try:
            answer = data.ask(COUNT, epsilon="0.1")
        finally:
            owner.removeHandler(caplog.handler)
    assert answer.receipt.charge == 2
    assert "could not note row 2 of clinic" in caplog.text
    with pytest.raises(LedgerUnavailable, match="cannot be written"):
        ask(folder, "0.2")


def test_threads_share_one_note_and_the_last_line_is_the_newest(tmp_path):
    witness = Witness([tmp_path], marks=["id:x"], ledger="x")
    with SqliteStore(tmp_path / "a.ledger") as store:
        ledger = Ledger(store, witness=witness)
        ledger.open("a", Budget(epsilon=1000))

        def many() -> None:
            for _ in range(20):
                ledger.charge("a", analyst="ann", statement=digest("x"), loss=Pure("0.001"))

        threads = [threading.Thread(target=many) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen = lines(tmp_path)
        numbers = [line["number"] for line in seen]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == 161
        assert {line["number"]: line["hash"] for line in seen}.items() <= {
            (row.number, row.hash) for row in ledger.history("a")
        }


def test_processes_share_a_witness(folder):
    script = (
        "import discreet, sys\n"
        "with discreet.open(sys.argv[1], analyst='ann') as data:\n"
        "    for n in range(5):\n"
        "        data.ask(f'SELECT COUNT(*) FROM visits WHERE age > {n + int(sys.argv[2])}', epsilon='0.001')\n"
    )
    command = [sys.executable, "-c", script, str(folder / "policy.toml")]
    running = [subprocess.Popen([*command, str(10 * n)], env=os.environ) for n in range(2)]
    assert [process.wait(60) for process in running] == [0, 0]
    numbers = [line["number"] for line in lines(default_folder())]
    assert (numbers, numbers[-1]) == (sorted(set(numbers)), 21)
    assert ask(folder, "0.1").receipt.charge == 22


# --- parting with it ---------------------------------------------------------------------------------------


def test_the_owner_may_part_with_a_lost_ledger_on_record(folder):
    ask(folder)
    remove_ledger(folder)
    policy = read_policy(folder / "policy.toml")
    witness = witness_of(policy, folder / "policy.ledger")
    assert [seen.head.number for seen in witness.sightings()] == [3]
    witness.forget(by="olga", why="the disk is gone")
    assert witness.sightings() == []
    assert ask(folder).receipt.charge == 2
    assert "the disk is gone" in "".join(file.read_text() for file in default_folder().iterdir())
    remove_ledger(folder)
    with pytest.raises(LedgerDamaged, match="a witness saw row 3"):
        ask(folder)


def test_looking_writes_nothing(folder):
    policy = read_policy(folder / "policy.toml")
    witness = witness_of(policy, folder / "policy.ledger", recording=False)
    witness.prepare()
    witness.record(Head("clinic", 1, 1, "ab"))
    assert witness.sightings() == []
    assert not default_folder().exists()
