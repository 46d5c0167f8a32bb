"""No word is handed out twice: not to threads, forks, spawned workers, handlers, copies, nor after exceptions."""

import contextlib
import copy
import gc
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings

import numpy as np
import pytest
from tests.conftest import Counting, Scripted, stable

import discreet.noise as noise
from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy, SystemEntropy, discrete_laplace, sampler
from discreet.noise import entropy as module
from discreet.noise.entropy import SYSTEM, _stream
from discreet.noise.uniform import Coins, random_bits

# The chance that 2^21 independent words of 64 bits hold a repetition is below 2^42/2^65 = 1.2e-7.
MOST_WORDS = 1 << 21


def all_different(words) -> bool:
    array = np.concatenate([np.asarray(w, np.uint64).ravel() for w in words])
    assert 0 < array.size <= MOST_WORDS
    return len(np.unique(array)) == array.size


@contextlib.contextmanager
def forking():
    """os.fork warns in a process with threads from Python 3.12 on; forking is the subject here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def in_child(work) -> bytes:
    """What `work()` returns, as bytes, in a forked child."""
    reader, writer = os.pipe()
    with forking():
        pid = os.fork()
    if pid == 0:
        try:
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(work())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return data


def words_of(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint64)


LINES = range(1, len({line for _, _, line in module._Buffered.take.__code__.co_lines() if line}) + 3)
"""Offsets from `def take` that hold its statements, and a few more."""


# --- the stream --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 1023, 1024, 8192, 32767, 32768, 32769, 100_000])
def test_words_are_as_many_as_asked_for_and_belong_to_the_caller(count):
    for stream in (SystemEntropy(), DeterministicEntropy(1)):
        words = stream.words(count)
        assert (words.dtype, words.shape) == (np.uint64, (count,))
        assert words.flags.writeable
        assert words.flags.c_contiguous
        if count:
            assert len(np.unique(words)) == count


def test_the_stream_is_aes_256_in_counter_mode():
    """Against AES-ECB of the counters, beyond the length of one chunk of zeros."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key, count = bytes(range(32)), 70_001
    counters = b"".join(i.to_bytes(16, "big") for i in range(-(-count // 2)))
    ecb = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - the counters are the point
    assert _stream(key, count).tobytes() == ecb.update(counters)[: 8 * count]


def test_each_refill_and_each_large_request_has_its_own_key(monkeypatch):
    keys = []

    def urandom(n):
        keys.append(n)
        return real(n)

    real = os.urandom
    monkeypatch.setattr(module.os, "urandom", urandom)
    stream = SystemEntropy()
    for _ in range(8192):
        stream.words(1)
    assert keys == [32]
    stream.words(1)
    assert keys == [32, 32]
    stream.words(1024)
    stream.words(10**6)
    assert keys == [32] * 4


def test_used_words_are_wiped_from_the_buffer():
    stream = SystemEntropy()
    taken = stream.words(100)
    assert not stream._local.words[:100].any()
    assert taken.all()


def test_every_bit_is_fair():
    """64 bits, each within Hoeffding's bound at 10^−6/64: |mean − 1/2| ≤ sqrt(ln(2·64/1e-6)/2n)."""
    n = 200_000
    small = np.concatenate([SystemEntropy().words(1000) for _ in range(100)])
    words = np.concatenate([small, SystemEntropy().words(n - small.size)])
    means = np.unpackbits(words.view(np.uint8)).reshape(n, 64).mean(axis=0)
    assert np.abs(means - 0.5).max() <= np.sqrt(np.log(2 * 64 / 1e-6) / (2 * n)), (n, means)


@pytest.mark.parametrize("count", [-1, -8192, -(2**70), 2.5, -0.5, "3", None], ids=stable)
def test_bad_counts_are_refused_and_leave_the_stream_sound(count):
    for stream in (SystemEntropy(), DeterministicEntropy(1)):
        before = stream.words(10)
        with pytest.raises(InvalidParameter if isinstance(count, int) else (InvalidParameter, TypeError)):
            stream.words(count)
        assert all_different([before, stream.words(10), stream.words(1), stream.words(500)])


def test_requests_of_every_length_never_meet():
    stream = SystemEntropy()
    lengths = [1, 2, 3, 1023, 7, 1024, 64, 1000, 999, 5000] * 60
    assert all_different([stream.words(n) for n in lengths])


# --- forks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffered", [10, 100, 8190])
def test_parent_and_child_never_share_words(buffered):
    stream = SystemEntropy()
    before = np.concatenate([stream.words(buffered // 10) for _ in range(10)])
    data = in_child(lambda: b"".join(stream.words(n).tobytes() for n in (1, 5, 1000, 2000)))
    after = [stream.words(n) for n in (1, 5, 1000, 2000)]
    assert len(words_of(data)) == 3006
    assert all_different([before, words_of(data), *after])


def test_siblings_and_grandchildren_never_share_words():
    stream = SystemEntropy()
    stream.words(1)

    def generation(depth: int) -> bytes:
        own = stream.words(20).tobytes()
        if depth == 0:
            return own
        older = in_child(lambda: generation(depth - 1))
        younger = in_child(lambda: generation(depth - 1))
        return own + older + younger + stream.words(20).tobytes()

    data = generation(3)
    assert len(words_of(data)) == 20 * 8 + 40 * 7
    assert all_different([words_of(data)])


def test_a_grandchild_with_its_grandparents_pid_does_not_read_its_buffer(monkeypatch):
    """Process ids are used again; the count of forks is not."""
    stream = SystemEntropy()
    first, pid = stream.words(5), os.getpid()

    def child() -> bytes:
        monkeypatch.setattr(module.os, "getpid", lambda: pid)
        return stream.words(5).tobytes()

    assert all_different([first, words_of(in_child(child)), stream.words(5)])


def test_a_fork_that_python_did_not_see_is_noticed_by_its_pid():
    """A C library that calls fork() runs none of Python's hooks."""
    stream = SystemEntropy()
    first = stream.words(5)

    def child() -> bytes:
        module._Forks.seen -= 1
        return stream.words(5).tobytes()

    assert all_different([first, words_of(in_child(child)), stream.words(5)])


def test_forking_in_a_thread_does_not_share_that_threads_words():
    stream, collected = SystemEntropy(), []

    def work() -> None:
        collected.append(stream.words(7))
        collected.append(words_of(in_child(lambda: stream.words(50).tobytes())))
        collected.append(stream.words(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(collected) == 12
    assert all_different(collected)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pool_workers_never_share_noise(method):
    """At scale 2^52 two of these 140 draws are equal with a chance below 10^−11."""
    discrete_laplace(2**52, 10)
    with forking(), multiprocessing.get_context(method).Pool(2) as pool:
        jobs = [pool.apply_async(discrete_laplace, (2**52, 20)) for _ in range(6)]
        draws = [job.get(timeout=600) for job in jobs]
    draws.append(discrete_laplace(2**52, 20))
    together = np.concatenate(draws)
    assert len(np.unique(together)) == together.size


# --- threads -----------------------------------------------------------------------------------------------


def test_many_threads_never_share_words():
    stream, collected = SystemEntropy(), []
    start = threading.Barrier(16)

    def work() -> None:
        start.wait()
        collected.append(np.concatenate([stream.words(n) for n in (1, 3, 1000, 500, 2000) * 15]))

    previous = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(previous)
    assert sum(map(len, collected)) == 16 * 15 * 3504
    assert all_different(collected)


def paused_at(line: int, reached: threading.Event, resume: threading.Event):
    """A trace function that stops once before the given line of `take` until told to go on."""
    code = module._Buffered.take.__code__

    def local(frame, event, arg):
        if event == "line" and frame.f_lineno == code.co_firstlineno + line and not reached.is_set():
            reached.set()
            resume.wait(10)
        return local

    return lambda frame, event, arg: local if frame.f_code is code else None


@pytest.mark.parametrize("refill", [False, True])
def test_two_threads_interleaved_at_any_two_lines_of_take_never_share_words(refill):
    """One thread waits before a line of `take` while another runs up to a line of it; then the first goes on."""
    for first, second in itertools.product(LINES, LINES):
        stream, collected = SystemEntropy(), []
        if refill:
            collected += [stream.words(819) for _ in range(10)]
        waits = [(threading.Event(), threading.Event()) for _ in range(2)]

        def work(line, reached, resume, stream=stream, collected=collected):
            sys.settrace(paused_at(line, reached, resume))
            try:
                collected.append(stream.words(20))
            finally:
                sys.settrace(None)
                reached.set()

        threads = [threading.Thread(target=work, args=(n, *w)) for n, w in zip((first, second), waits, strict=True)]
        for thread, (reached, _) in zip(threads, waits, strict=True):
            thread.start()
            assert reached.wait(10)
        for thread, (_, resume) in zip(threads, waits, strict=True):
            resume.set()
            thread.join(10)
        assert all_different([*collected, stream.words(20)]), (first, second)


def test_threads_that_follow_one_another_start_anew():
    stream, collected = SystemEntropy(), []
    for _ in range(50):
        thread = threading.Thread(target=lambda: collected.append(stream.words(10)))
        thread.start()
        thread.join()
    assert all_different(collected)


def test_a_deterministic_stream_gives_no_word_twice_to_threads():
    stream, collected = DeterministicEntropy(3), []
    threads = [
        threading.Thread(target=lambda: collected.extend(stream.words(50) for _ in range(100))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all_different(collected)


# --- interruptions -----------------------------------------------------------------------------------------


def interrupted_at(line: int, stream: SystemEntropy, count: int, interruption):
    """`stream.words(count)`, calling `interruption` just before the given line (counted from `def take`)."""
    code = module._Buffered.take.__code__
    fired = []

    def local(frame, event, arg):
        if event == "line" and frame.f_lineno == code.co_firstlineno + line and not fired:
            fired.append(line)
            sys.settrace(None)
            try:
                interruption()
            finally:
                sys.settrace(trace)
        return local

    def trace(frame, event, arg):
        return local if frame.f_code is code else None

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        return stream.words(count), fired
    finally:
        sys.settrace(previous)


@pytest.mark.parametrize("refill", [False, True])
def test_a_handler_that_draws_at_any_line_of_take_gets_its_own_words(refill):
    fired = set()
    for line in LINES:
        stream, inner = SystemEntropy(), []
        before = [stream.words(1000) for _ in range(8 if refill else 1)]
        outer, at = interrupted_at(
            line, stream, 400, lambda stream=stream, inner=inner: inner.extend([stream.words(3), stream.words(700)])
        )
        fired.update(at)
        after = [stream.words(900), stream.words(1), stream.words(900)]
        assert len(outer) == 400
        assert all_different([*before, outer, *inner, *after]), f"interrupted at line {line} of take"
    assert len(fired) >= 8


@pytest.mark.parametrize("refill", [False, True])
def test_an_exception_at_any_line_of_take_loses_words_but_never_repeats_them(refill):
    def interrupt():
        raise KeyboardInterrupt

    raised = 0
    for line in LINES:
        stream = SystemEntropy()
        before = [stream.words(1000) for _ in range(8 if refill else 1)]
        try:
            before.append(interrupted_at(line, stream, 400, interrupt)[0])
        except KeyboardInterrupt:
            raised += 1
        after = [stream.words(900), stream.words(1), stream.words(900)]
        assert all(w.all() for w in after)
        assert all_different([*before, *after]), f"interrupted at line {line} of take"
    assert raised >= 8


def test_signal_handlers_may_draw_at_any_time():
    stream, inner, outer = SystemEntropy(), [], []
    previous = signal.signal(signal.SIGALRM, lambda *_: inner.append(stream.words(40)))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        while len(inner) <= 200 and len(outer) < 10**6:
            outer.append(stream.words(20))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert len(inner) > 200
    assert all_different([*inner, *outer])


def test_a_failing_operating_system_leaves_the_stream_usable(monkeypatch):
    stream = SystemEntropy()
    before = [stream.words(819) for _ in range(10)]

    def fail(_):
        raise OSError("no entropy")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "urandom", fail)
        for count in (1, 100, 2000):
            with pytest.raises(OSError, match="no entropy"):
                stream.words(max(count, 10))
    assert all_different([*before, stream.words(500), stream.words(1)])


def test_finalizers_that_draw_during_collection_get_their_own_words():
    stream, inner = SystemEntropy(), []

    class Last:
        def __del__(self):
            inner.append(stream.words(5))

    outer = []
    for _ in range(200):
        cycle = [Last()]
        cycle.append(cycle)
        del cycle
        outer.append(stream.words(50))
        gc.collect(0)
    gc.collect()
    assert len(inner) == 200
    assert all_different([*inner, *outer])


# --- copies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))], ids=["copy", "deepcopy", "pickle"]
)
def test_copies_of_the_system_stream_start_anew(copied):
    stream = SystemEntropy()
    first = stream.words(10)
    twin = copied(stream)
    assert type(twin) is SystemEntropy
    assert all_different([first, stream.words(10), twin.words(10)])


# --- the deterministic stream ------------------------------------------------------------------------------


def test_the_deterministic_stream_is_reproducible_and_depends_on_its_seed():
    one, two = DeterministicEntropy(5), DeterministicEntropy(5)
    for n in (1, 0, 1000, 3):
        assert one.words(n).tolist() == two.words(n).tolist()
    seeds = [0, 1, -1, 5, 2**64, 10**5000, np.int64(7)]
    assert all_different([DeterministicEntropy(seed).words(100) for seed in seeds])
    assert DeterministicEntropy(np.int64(7)).words(3).tolist() == DeterministicEntropy(7).words(3).tolist()


def test_the_deterministic_stream_never_changes():
    """Worked examples and golden files depend on it."""
    assert DeterministicEntropy(1).words(2).tolist() == [2163853080531624331, 10416652290080904926]


@pytest.mark.parametrize("seed", [1.0, "1", None, True, [1], 1j], ids=stable)
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InvalidParameter, match=r"^seed: got .*expected a whole number"):
        DeterministicEntropy(seed)


# --- the entropy argument ----------------------------------------------------------------------------------


def added(size, entropy):
    sums = np.zeros(size or 1, np.int64)
    noise.add_rounded_gaussian(1000, sums, entropy=entropy)
    return sums


DRAWS = {
    "add_rounded_gaussian": added,
    "bernoulli": lambda size, e: noise.bernoulli("1/3", size, entropy=e),
    "bernoulli_exp": lambda size, e: noise.bernoulli_exp("1/3", size, entropy=e),
    "uniform_below": lambda size, e: noise.uniform_below(1000, size, entropy=e),
    "uniform_below, large": lambda size, e: noise.uniform_below(10**30, size, entropy=e),
    "uniform_each": lambda size, e: noise.uniform_each(np.full(size or (), 1000), entropy=e),
    "geometric": lambda size, e: noise.geometric(1000, size, entropy=e),
    "discrete_laplace": lambda size, e: noise.discrete_laplace(1000, size, entropy=e),
    "discrete_gaussian": lambda size, e: noise.discrete_gaussian(1000, size, entropy=e),
    "rounded_gaussian": lambda size, e: noise.rounded_gaussian(1000, size, entropy=e),
    "poisson_sample": lambda size, e: noise.poisson_sample("1/10", 50 * (size or 1), entropy=e),
    "planar_laplace": lambda size, e: noise.planar_laplace(1000, size, entropy=e),
    "categorical": lambda size, e: noise.categorical([1, 2, 3], size, entropy=e),
    "categorical, large": lambda size, e: noise.categorical([10**30, 10**30], size, entropy=e),
    "softmax": lambda size, e: noise.softmax([1, 2, 3], 1, size, entropy=e),
    "softmax_each": lambda size, e: noise.softmax_each(
        np.tile([1, 2, 3], size or 1),
        3 * np.arange(size or 1),
        1,
        multiplicity=np.ones(3 * (size or 1), int),
        entropy=e,
    ),
    "accept_each": lambda size, e: noise.accept_each(np.arange(size or 1), 10, entropy=e),
    "staircase": lambda size, e: noise.staircase(epsilon=1, width=10, first=4, size=size, entropy=e),
}
INNER = {
    "random_bits": lambda size, e: random_bits("1/3", 3, size or 1, entropy=e),
    "Coins.flip": lambda size, e: Coins([1 << 62], 64).flip(np.zeros(size or 1, np.int64), e),
}


def test_every_public_sampler_is_among_these():
    streams = {"DeterministicEntropy", "Entropy", "SystemEntropy"}
    assert {name.split(",")[0] for name in DRAWS} == set(noise.__all__) - streams


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("size", [None, 1000])
def test_all_randomness_comes_from_the_entropy_argument(draw, size, monkeypatch):
    def forbidden(*_):
        raise AssertionError("the operating system was asked although a stream was given")

    monkeypatch.setattr(module.os, "urandom", forbidden)
    monkeypatch.setattr(SYSTEM, "words", forbidden, raising=False)
    counter = Counting(1)
    first = np.asarray(draw(size, counter)).tolist()
    assert counter.count >= 1
    assert np.asarray(draw(size, Counting(1))).tolist() == first
    if size:
        assert np.asarray(draw(size, Counting(2))).tolist() != first


@pytest.mark.parametrize("draw", [*DRAWS.values(), *INNER.values()], ids=[*DRAWS, *INNER])
def test_without_the_argument_the_system_stream_is_used(draw, monkeypatch):
    """For one draw, for many and for very many; and no reproducible stream is made or asked."""
    asked, ask = [], SystemEntropy.words

    def counted(self, count):
        asked.append(count)
        return ask(self, count)

    def forbidden(*_):
        raise AssertionError("a reproducible stream was used")

    monkeypatch.setattr(SystemEntropy, "words", counted)
    for name in ("__init__", "words"):
        monkeypatch.setattr(DeterministicEntropy, name, forbidden)
    monkeypatch.setattr(sampler, "_POOLS", sampler._Pools())  # nothing was drawn before
    for size in (None, 100, 40_000):
        asked.clear()
        draw(size, None)
        assert sum(asked) > 0


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_stream_that_ends_ends_the_draw(draw):
    """Nothing falls back to another source."""
    with pytest.raises(AssertionError, match="the script ended"):
        draw(None, Scripted([]))
    with pytest.raises(AssertionError, match="the script ended"):
        draw(100, Scripted([5]))
