"""Heavy hitters: found among very many values, with limits that hold, at the price of one report a person."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidInput, InvalidParameter
from discreet.local.estimation.heavy_hitters import PrefixExtension, Round, decode, encode
from discreet.local.oracles.responses import KRR, HadamardResponse
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import Pure

WORDS = ["alpha", "beta", "gamma", "naïve", "z"]


def population(people, seed=0):
    """Half of them share a few words, the others have one each that nobody else has."""
    rng = np.random.default_rng(seed)
    common = [WORDS[i] for i in rng.choice(5, people // 2, p=[0.4, 0.25, 0.15, 0.12, 0.08])]
    return common + [f"#{i:05x}" for i in range(people - len(common))]


@pytest.mark.parametrize("oracle", [KRR, HadamardResponse])
@pytest.mark.parametrize("step", [5, 8])
def test_common_values_are_found_and_rare_ones_are_not(oracle, step):
    texts = population(300_000)
    search = PrefixExtension(lambda size: oracle(epsilon=4, size=size), width=6, step=step, keep=12)
    found = search.find(encode(texts, width=6), confidence="0.999999", entropy=DeterministicEntropy(1))
    assert {hitter.text for hitter in found} <= set(WORDS)
    assert {"alpha", "beta", "gamma"} <= {hitter.text for hitter in found}
    for hitter in found:
        assert hitter.low <= texts.count(hitter.text) <= hitter.high
        assert hitter.low <= hitter.count <= hitter.high
    assert [hitter.count for hitter in found] == sorted((hitter.count for hitter in found), reverse=True)


def test_limits_cover_in_repeated_searches():
    """40 searches at 80 %: more than 20 misses have probability below 1e-4 at 20 %, and the limits are proven."""
    rng, texts = np.random.default_rng(0), ["aa"] * 3000 + ["bb"] * 2000 + ["cb"] * 1000
    search = PrefixExtension(lambda size: KRR(epsilon=5, size=size), width=2, step=8, keep=4)
    missed = 0
    for seed in range(40):
        rng.shuffle(texts)
        found = search.find(encode(texts, width=2), confidence="0.8", entropy=DeterministicEntropy(seed))
        counts = {hitter.text: hitter for hitter in found}
        missed += any(
            word in counts and not counts[word].low <= n <= counts[word].high
            for word, n in (("aa", 3000), ("bb", 2000), ("cb", 1000))
        )
    assert missed <= 20


def test_each_person_reports_once():
    asked = []

    class Counting:
        def __init__(self, size):
            self.inner, self.size = KRR(epsilon=3, size=size), size

        loss = Pure(Fraction(3))

        def randomize(self, values, *, entropy=None):
            asked.append((self.size, len(values)))
            return self.inner.randomize(values, entropy=entropy)

        def tally(self, reports):
            return self.inner.tally(reports)

        def estimate(self, tally, *, reports):
            return self.inner.estimate(tally, reports=reports)

    search = PrefixExtension(Counting, width=2, step=4, keep=3)
    search.find(encode(["ab"] * 20_000, width=2), confidence="0.99", entropy=DeterministicEntropy(1))
    assert search.loss == Pure(Fraction(3))
    assert len(asked) == search.rounds == 4
    assert sum(people for _, people in asked) == 20_000
    assert all(size <= 3 * 2**4 + 1 for size, _ in asked)


def test_answers_number_the_extensions_of_candidates():
    """All 3-bit and 11-bit prefixes, against strings of bits."""
    rows = np.random.default_rng(0).integers(0, 256, (500, 2), np.uint8)
    bits = ["".join(f"{byte:08b}" for byte in row) for row in rows.tolist()]
    first = Round(length=3, known=0, candidates=(b"",), width=2)
    assert first.answers(rows).tolist() == [int(b[:3], 2) for b in bits]
    kept = (first.prefix(5), first.prefix(2))
    second = Round(length=11, known=3, candidates=kept, width=2)
    assert second.size == 2 * 256 + 1
    names = ["101", "010"]
    expected = [names.index(b[:3]) * 256 + int(b[3:11], 2) if b[:3] in names else 512 for b in bits]
    assert second.answers(rows).tolist() == expected
    for b, answer in zip(bits, expected, strict=True):
        if answer < 512:
            assert "".join(f"{byte:08b}" for byte in second.prefix(answer)) == b[:11] + "00000"


def test_nothing_common_nothing_found():
    texts = [f"{i:06x}" for i in range(20_000)]
    search = PrefixExtension(lambda size: KRR(epsilon=1, size=size), width=6, step=8, keep=5)
    assert search.find(encode(texts, width=6), confidence="0.999", entropy=DeterministicEntropy(1)) == ()
    few = search.find(encode(["a"], width=6), confidence="0.9", entropy=DeterministicEntropy(1))
    assert few == ()  # a single person fills no round but one


def test_texts():
    rows = encode(["", "é", b"\xff\x00\x01", "longer than that"], width=3)
    assert [bytes(row) for row in rows] == [b"\0\0\0", "é".encode() + b"\0", b"\xff\0\x01", b"lon"]
    assert decode("né".encode()[:2]) == "n"
    for bad in ("abc", [3], [None]):
        with pytest.raises(InvalidData, match="texts"):
            encode(bad, width=3)


@pytest.mark.parametrize("setting", [{"width": 0}, {"step": 0}, {"step": 17}, {"keep": 0}, {"width": 1.5}])
def test_bad_settings(setting):
    with pytest.raises(InvalidParameter):
        PrefixExtension(
            **{"oracle": lambda size: KRR(epsilon=1, size=size), "width": 2, "step": 4, "keep": 4, **setting}
        )


@pytest.mark.parametrize(
    "values", [[[1, 2]], np.zeros((0, 2), np.uint8), np.zeros((3, 5), np.uint8), np.zeros(4, np.uint8)]
)
def test_bad_values(values):
    search = PrefixExtension(lambda size: KRR(epsilon=1, size=size), width=2, step=4, keep=4)
    with pytest.raises(InvalidInput, match="values"):
        search.find(values, confidence="0.9")


def test_no_texts_at_all_are_refused():
    with pytest.raises(InvalidData, match="texts"):
        encode(None, width=2)
