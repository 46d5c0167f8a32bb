"""Streams that tests inject where the product asks for entropy."""

import os
import re
import signal
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from tests.browser import browser  # noqa: F401 (a fixture)

from discreet.curator.settings import SystemTimer
from discreet.noise import DeterministicEntropy, Entropy
from discreet.noise.entropy import Words

# Started in the background, this process ignores Ctrl-C, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Shared machines are slow at times; in CI the same examples every time, so that a landing is not a lottery.
settings.register_profile("here", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


class Scripted:
    """Returns the given words in order; afterwards fails, or goes on with the stream `then`."""

    def __init__(self, words: Iterable[int], then: Entropy | None = None) -> None:
        self.left = [int(word) for word in words]
        self._then = then

    def words(self, count: int) -> Words:
        taken, self.left = self.left[:count], self.left[count:]
        missing = count - len(taken)
        if missing and self._then is None:
            raise AssertionError(f"the script ended: {missing} words more were asked for")
        rest = self._then.words(missing) if missing else np.empty(0, np.uint64)
        return np.concatenate([np.array(taken, np.uint64), rest])


class Counting:
    """A deterministic stream that counts the words taken from it."""

    def __init__(self, seed: int = 0) -> None:
        self.count = 0
        self._stream = DeterministicEntropy(seed)

    def words(self, count: int) -> Words:
        self.count += count
        return self._stream.words(count)


class LazyModule:
    """A large module, imported by the first test that uses it, not when tests are collected; skipped if it is absent."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)  # pytest and doctest look for names of their own in all that they collect
        return getattr(pytest.importorskip(self._name), attribute)


def stable(value: object) -> str:
    """The name of a test case: a repr without addresses, the same in every worker process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where a test says `quick_cases(n)`, n of its cases, spread evenly, are quick; the others are slow."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("quick_cases"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        count = same[0].get_closest_marker("quick_cases").args[0]
        quick = {place * (len(same) - 1) // max(count - 1, 1) for place in range(count)}
        for place, item in enumerate(same):
            if place not in quick:
                item.add_marker("slow")


_ABSENT = re.compile(r"could not import|.* is not installed|NO (BROWSER|FLOWER|NODE|POSTGRESQL)\b")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    return present((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    return present((yield))


def present(report: Any) -> Any:
    """In CI, what is skipped because something is not installed there fails: nobody reads what CI skips."""
    if os.environ.get("CI") and report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        if _ABSENT.match(reason):
            report.outcome, report.longrepr = "failed", f"must not be skipped in CI: {reason}"
    return report


@pytest.fixture
def deterministic() -> DeterministicEntropy:
    return DeterministicEntropy(20261115)


@pytest.fixture
def scripted() -> Callable[..., Scripted]:
    return Scripted


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers leave at once: tests of what is answered need not wait for when; those of when have their own timers."""
    monkeypatch.setattr(SystemTimer, "wait", lambda self, nanoseconds: None)
