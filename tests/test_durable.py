"""A file takes another's place when it is on disk, and not before."""

import os

import pytest

from discreet.durable import settle


def settled(path):
    beside = path.with_name("new")
    with open(beside, "wb") as sink:
        sink.write(b"new")
        settle(sink, beside, path)


def test_content_is_on_disk_before_the_name_and_the_folder_after(tmp_path, monkeypatch):
    path, seen, sync = tmp_path / "run", [], os.fsync
    path.write_bytes(b"old")

    def watched(file):
        sync(file)
        seen.append((os.path.samestat(os.fstat(file), os.stat(tmp_path)), path.read_bytes()))

    monkeypatch.setattr(os, "fsync", watched)
    settled(path)
    assert seen == [(False, b"old"), (True, b"new")]
    assert os.listdir(tmp_path) == ["run"]


def test_what_did_not_get_to_the_disk_takes_nobodys_place(tmp_path, monkeypatch):
    path = tmp_path / "run"
    path.write_bytes(b"old")

    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        settled(path)
    assert path.read_bytes() == b"old"
