"""Single draws are made 64 at a time: each is handed out once, to one thread of one process."""

import os
import threading

import numpy as np

from discreet import noise
from discreet.noise import DeterministicEntropy, sampler

SCALE = 10**12  # numbers so large that two equal ones are no accident


def test_no_number_is_handed_out_twice():
    drawn = [noise.discrete_laplace(SCALE) for _ in range(1000)]
    assert len(set(drawn)) == len(drawn)


def test_single_draws_and_short_arrays_share_no_number():
    singles = [noise.discrete_gaussian(SCALE) for _ in range(100)]
    arrays = [noise.discrete_gaussian(SCALE, size=(2, 3)) for _ in range(50)]
    numbers = singles + np.concatenate([a.ravel() for a in arrays]).tolist()
    assert len(set(numbers)) == len(numbers)


def test_threads_have_pools_of_their_own():
    drawn: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: drawn.append([noise.discrete_laplace(SCALE) for _ in range(200)]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({number for part in drawn for number in part}) == 8 * 200


def test_a_forked_child_drops_the_numbers_its_parent_holds():
    noise.discrete_laplace(SCALE)  # the pool now holds 63 more
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, repr([noise.discrete_laplace(SCALE) for _ in range(63)]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = set(eval(os.read(read, 1 << 16)))  # noqa: S307
    ours = {noise.discrete_laplace(SCALE) for _ in range(63)}
    assert len(theirs) == len(ours) == 63
    assert not theirs & ours


def test_an_injected_stream_is_never_pooled():
    first = [noise.discrete_laplace(SCALE, entropy=DeterministicEntropy(1)) for _ in range(2)]
    assert first[0] == first[1]


def test_pools_do_not_grow_without_end():
    for scale in range(1, 200):
        noise.discrete_laplace(scale)
    assert len(sampler._POOLS._numbers) <= 65
