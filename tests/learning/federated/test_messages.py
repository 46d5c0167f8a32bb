import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidData
from discreet.learning.federated import decode
from discreet.learning.federated.messages import (
    Advertisement,
    Agreement,
    Agreements,
    Delivery,
    Masked,
    Roster,
    Sharing,
    Survivors,
    Unmasking,
    pack,
    unpack,
)

NAMES, TEXTS = ("ann", "bob"), (b"x", b"")
EXAMPLES = [
    Advertisement(b"c", "ann", b"1", b"2", b"s"),
    Roster(b"c", TEXTS),
    Sharing(b"c", "ann", NAMES, TEXTS, b"d", NAMES, TEXTS, TEXTS, b"s"),
    Delivery(b"c", "ann", NAMES, TEXTS),
    Masked(b"c", "ann", NAMES, b"vector", b"s"),
    Survivors(b"c", NAMES),
    Agreement(b"c", "ann", NAMES, NAMES, b"s"),
    Agreements(b"c", NAMES, TEXTS),
    Unmasking(b"c", "ann", NAMES, TEXTS, (), (), b"s"),
]

packed = st.recursive(st.text(max_size=5) | st.binary(max_size=5), lambda inner: st.lists(inner, max_size=3).map(tuple))


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.kind)
def test_messages_come_back(message):
    assert decode(message.encode()) == message


def test_kinds_differ():
    assert len({message.encode() for message in EXAMPLES}) == len(EXAMPLES)
    signed = [message for message in EXAMPLES if hasattr(message, "body")]
    assert len({message.body() for message in signed}) == len(signed)


def test_signatures_cover_every_field():
    """Two fields exchanged, or a letter moved from one to the next, is another text."""
    same = Agreement(b"c", "ann", ("ann", "bob"), ("ann",)), Agreement(b"c", "ann", ("ann",), ("ann", "bob"))
    moved = Advertisement(b"c", "ann", b"12", b"3"), Advertisement(b"c", "ann", b"1", b"23")
    assert same[0].body() != same[1].body()
    assert moved[0].body() != moved[1].body()
    assert Masked(b"c", "a", (), b"v", b"1").body() == Masked(b"c", "a", (), b"v", b"2").body()


@given(st.binary(max_size=60))
def test_junk_is_refused(data):
    with pytest.raises(InvalidData):
        decode(data)


@given(packed)
def test_values_come_back(value):
    depth = _depth(value)
    if depth <= 4:
        assert unpack(pack(value)) == value
    else:
        with pytest.raises(InvalidData):
            unpack(pack(value))


def _depth(value):
    return 1 + max((_depth(part) for part in value), default=0) if isinstance(value, tuple) else 0


@given(st.sampled_from(EXAMPLES), st.data())
def test_there_is_one_encoding(message, data):
    """Whatever bytes can be read at all are the ones that are written for what was read."""
    original = bytearray(message.encode())
    place = data.draw(st.integers(0, len(original) - 1))
    original[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        read = decode(bytes(original))
    except InvalidData:
        return
    assert read.encode() == bytes(original)
    assert read != message


@pytest.mark.parametrize("cut", range(1, 30, 3))
def test_parts_and_additions_are_refused(cut):
    data = EXAMPLES[4].encode()
    for wrong in (data[:-cut], data + bytes(cut), data[cut:]):
        with pytest.raises(InvalidData):
            decode(wrong)


@pytest.mark.parametrize(
    "value",
    [
        ("survivors", b"c", ("bob", "ann")),
        ("survivors", b"c", ("ann", "ann")),
        ("survivors", b"c", (b"ann",)),
        ("survivors", "c", ("ann",)),
        ("survivors", b"c"),
        ("survivors", b"c", ("ann",), b"more"),
        ("unknown", b"c"),
        (b"survivors", b"c", ()),
        (),
        "survivors",
    ],
)
def test_wrong_fields_are_refused(value):
    with pytest.raises(InvalidData):
        decode(pack(value))


@pytest.mark.parametrize("data", [None, 3, "text", bytearray(b"x")])
def test_what_is_not_bytes_is_refused(data):
    with pytest.raises(InvalidData, match="a message is bytes"):
        decode(data)
