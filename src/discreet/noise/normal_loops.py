"""Loops of `normal` that can be compiled; NumPy code that does the same, and the proofs, stand there."""

import math

import numpy as np

from discreet.compiled import loop

BITS = 31
"""Bits of L/m that are drawn at once; one more bit of the word is the sign."""

PLACES = (1 << BITS) - 1


@loop()
def settle(  # type: ignore[no-untyped-def]
    short, place, first, second, third, guide, blocks, steps, scale, margin, block, accepted, open_
):
    """Blocks and verdicts of rare proposals where floats and 64 bits decide; the others go into `open_`, counted."""
    many, one = np.int64(0), np.uint64(1)
    for i in range(short.size):
        found, certain = np.int64(guide[short[i]]), short[i] >= 0
        if found < 0:
            word = (np.uint64(short[i]) << np.uint64(48)) | (first[i] >> np.uint64(16))
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
            start, length = step * (2 * scale), place[i] * (2.0**-BITS * scale)
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
def put_onto(short, words, guide, shift, onto, rare):  # type: ignore[no-untyped-def]
    """Add numbers in the blocks that the guide names; where it says 0, or leaves it open, goes into `rare`, counted."""
    many = np.int64(0)
    half, down = np.uint32(1) << np.uint32(BITS - 1 - shift), np.uint32(BITS - shift)
    for position in range(onto.size):
        block, word = np.int64(guide[short[position]]), words[position]
        rare[many] = position
        many += block <= 0
        signed = (block - 1) ^ -np.int64(word >> np.uint32(31))
        value = (signed << shift) + np.int64(((word & np.uint32(PLACES)) + half) >> down)
        onto[position] += value if block > 0 else 0
    return many
