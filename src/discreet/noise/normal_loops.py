"""Loops of `normal` that can be compiled; NumPy code that does the same, and the proofs, stand there."""

import math

import numpy as np

from discreet.compiled import loop

BITS = 31
"""Bits of L/m that are drawn at once; one more bit of the word is the sign."""

PLACES = (1 << BITS) - 1


@loop()
def put(short, words, guide, shift, start, numbers, rare):  # type: ignore[no-untyped-def]
    """Add to numbers in the blocks that the guide names; where it says 0, or leaves it open, goes into `rare`, counted.

    The first of the numbers is at the position `start`.
    """
    many, half, down = 0, 1 << (BITS - 1 - shift), BITS - shift
    here, there = short[start:], words[start:]
    for k in range(numbers.size):
        block, word = np.int64(guide[here[k]]), np.int64(there[k])
        if block > 0:
            signed = (block - 1) ^ -(word >> BITS)
            numbers[k] += (signed << shift) + (((word & PLACES) + half) >> down)
        else:
            rare[many] = start + k
            many += 1
    return many


@loop()
def settle(  # type: ignore[no-untyped-def]
    rare, short, words, first, second, third, guide, blocks, steps, scale, margin, block, accepted, open_
):
    """Blocks and verdicts of rare proposals where floats and 64 bits decide; the others go into `open_`, counted."""
    many, one = np.int64(0), np.uint64(1)
    for i in range(rare.size):
        cell, place = short[rare[i]], np.int64(words[rare[i]])
        place = (place ^ -(place >> BITS)) & PLACES
        found, certain = np.int64(guide[cell]), True
        if found < 0:
            word = (np.uint64(cell) << np.uint64(48)) | (first[i] >> np.uint64(16))
            found, end = np.int64(0), np.int64(blocks.size)
            while found < end:
                middle = (found + end) >> 1
                if blocks[middle] <= word:
                    found = middle + 1
                else:
                    end = middle
            certain = found == 0 or word - blocks[found - 1] > one
        if certain and found == 0:
            word = second[i]
            step, end = np.int64(0), np.int64(steps.size)
            while step < end:
                middle = (step + end) >> 1
                if steps[middle] <= word:
                    step = middle + 1
                else:
                    end = middle
            certain = step < steps.size and (step == 0 or word - steps[step - 1] > one)
            start, length = step * (2 * scale), place * (2.0**-BITS * scale)
            whole = (start + scale) * scale
            gap = math.expm1(whole - (start + length) * length) / math.expm1(whole)
            gap -= np.float64(third[i] >> np.uint64(11)) * 2.0**-53
            certain = certain and abs(gap) >= margin
            accepted[i] = gap > 0
            block[i] = step
        else:
            block[i] = found - 1
        if not certain:
            open_[many] = i
            many += 1
    return many


@loop()
def finish(rare, block, accepted, words, shift, onto, spare):  # type: ignore[no-untyped-def]
    """Add what rare proposals became; those that were not accepted take the place of spare ones, in their order.

    Positions for which none is left are the first of `rare` afterwards, and counted.
    """
    count, half, down = onto.size, 1 << (BITS - 1 - shift), BITS - shift
    dropped = np.zeros(spare.size, np.bool_)
    many = 0
    for i in range(rare.size):
        position = rare[i]
        word = np.int64(words[position])
        number = ((np.int64(block[i]) ^ -(word >> BITS)) << shift) + (((word & PLACES) + half) >> down)
        if position >= count:
            spare[position - count] += number
            dropped[position - count] = not accepted[i]
        elif accepted[i]:
            onto[position] += number
        else:
            rare[many] = position
            many += 1
    used = 0
    for k in range(spare.size):
        if used < many and not dropped[k]:
            onto[rare[used]] += spare[k]
            used += 1
    left = many - used
    for i in range(left):
        rare[i] = rare[used + i]
    return left
