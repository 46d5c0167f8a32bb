"""Which data are in a file: an edit is noticed whatever is done to the file's times, and reading is not repeated."""

import os
from pathlib import Path

import pytest

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines import duckdb as file_versions
from discreet.curator.engines.duckdb import DuckDBEngine, FileVersions
from discreet.errors import InvalidData
from discreet.privacy.unit import Unit


def opened(path: Path) -> DuckDBEngine:
    table = Table("t", [Column("n", "integer")], unit=Unit())
    return DuckDBEngine(Catalog("data", [table], neighbors="change one"), {"t": path})


def edit_in_place(path: Path, content: bytes) -> None:
    """Overwrite some bytes, and set the times back to what they were."""
    times = path.stat()
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("limit", [file_versions.SMALL, 0])  # 0: every file is large
def test_an_edit_in_place_with_its_time_set_back_is_another_version(limit, tmp_path, monkeypatch):
    monkeypatch.setattr(file_versions, "SMALL", limit)
    path = tmp_path / "t.csv"
    path.write_text("n\n1\n")
    with opened(path) as engine:
        before = engine.version
        assert engine.fetch("SELECT n FROM t").to_pylist() == [{"n": 1}]
        edit_in_place(path, b"n\n2\n")
        assert engine.version != before
        with pytest.raises(InvalidData, match="changed after it was opened"):
            engine.fetch("SELECT n FROM t")
    with opened(path) as engine:
        assert engine.version != before


def test_the_contents_count_even_where_the_system_says_nothing_of_an_edit(tmp_path, monkeypatch):
    """As on a file system with coarse clocks, just after the file was written."""
    path = tmp_path / "t.csv"
    path.write_text("n\n1\n")
    frozen = file_versions.stat_of(path)
    monkeypatch.setattr(file_versions, "stat_of", lambda _: frozen)
    versions = FileVersions()
    before = versions.digest([path])
    path.write_text("n\n2\n")
    assert versions.digest([path]) != before


def test_whoever_knows_the_contents_does_not_know_the_version(tmp_path):
    """Else a reader of the ledger, which keeps digests of versions, could try what the row may be that is not known."""
    versions = set()
    for place in (tmp_path / "a.csv", tmp_path / "b.csv"):
        place.write_text("n\n1\n")
        versions.add(FileVersions().digest([place]))
    os.utime(tmp_path / "a.csv", ns=(1, 1))
    versions.add(FileVersions().digest([tmp_path / "a.csv"]))
    assert len(versions) == 3


def test_a_backup_that_sets_the_times_of_reading_changes_nothing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("n\n1\n")
    with opened(path) as engine:
        before = engine.version
        os.utime(path, ns=(1, path.stat().st_mtime_ns))
        assert engine.version == before
        assert engine.fetch("SELECT n FROM t").to_pylist() == [{"n": 1}]


def test_a_settled_file_is_read_once(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("n\n1\n")
    reads = []
    contents = file_versions._contents
    monkeypatch.setattr(file_versions, "_contents", lambda *given: (reads.append(1), contents(*given))[1])
    monkeypatch.setattr(file_versions, "_SETTLED_NS", -(10**12))
    versions = FileVersions()
    for _ in range(3):
        versions.digest([path])
    assert len(reads) == 1
    path.write_text("n\n22\n")
    versions.digest([path])
    assert len(reads) == 2


def test_a_file_that_is_touched_while_a_query_runs_gives_no_answer(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("n\n1\n")
    with opened(path) as engine:
        load = engine._load

        def load_while_it_is_edited() -> None:
            edit_in_place(path, b"n\n7\n")
            load()
            edit_in_place(path, b"n\n1\n")

        monkeypatch.setattr(engine, "_load", load_while_it_is_edited)
        with pytest.raises(InvalidData, match="changed after it was opened"):
            engine.fetch("SELECT n FROM t")
        monkeypatch.setattr(engine, "_load", load)
        with pytest.raises(InvalidData, match="changed after it was opened"):  # what was copied then is never shown
            engine.fetch("SELECT n FROM t")
