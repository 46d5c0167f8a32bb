"""One way to write a value as bytes, and one value for any bytes: what is signed cannot be read in two ways.

A value is text, bytes, or a tuple of values: one letter for its kind, eight bytes for its size, then its content. The
size of text and bytes is their length, of a tuple the number of its values.
"""

from typing import Any

from discreet.errors import InvalidData

Packed = str | bytes | tuple[Any, ...]

_DEEPEST = 4
_LETTERS = {str: b"s", bytes: b"b", tuple: b"t"}


def pack(value: Packed) -> bytes:
    """The value as bytes.

    >>> pack(("a", b"bc"))
    b't\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02s\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01ab\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02bc'
    """
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def unpack(data: bytes) -> Packed:
    """The value that these bytes are; anything that `pack` would not have written is refused.

    >>> unpack(pack(("a", (b"bc", "ä"))))
    ('a', (b'bc', 'ä'))
    >>> unpack(b"s")
    Traceback (most recent call last):
    discreet.errors.InvalidData: the message ends too early
    """
    value, end = _read(memoryview(data), 0, 0)
    if end != len(data):
        raise InvalidData("there is something after the end of the message")
    return value


def _write(value: Packed, parts: list[bytes]) -> None:
    content = value.encode() if isinstance(value, str) else value
    parts += [_LETTERS[type(value)], len(content).to_bytes(8, "big")]
    if isinstance(content, tuple):
        for item in content:
            _write(item, parts)
    else:
        parts.append(content)


def _read(data: memoryview, start: int, depth: int) -> tuple[Packed, int]:
    begin = start + 9
    kind, size = bytes(data[start : start + 1]), int.from_bytes(data[start + 1 : begin], "big")
    if begin > len(data) or size > len(data) - begin:  # every value of a tuple takes at least one byte
        raise InvalidData("the message ends too early")
    if kind == b"t" and depth < _DEEPEST:
        return _items(data, begin, size, depth)
    content = bytes(data[begin : begin + size])
    if kind == b"b":
        return content, begin + size
    if kind == b"s":
        return _text(content), begin + size
    raise InvalidData("the message holds something of an unknown kind")


def _items(data: memoryview, begin: int, count: int, depth: int) -> tuple[Packed, int]:
    items = []
    for _ in range(count):
        item, begin = _read(data, begin, depth + 1)
        items.append(item)
    return tuple(items), begin


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidData("the message holds text that is not UTF-8") from None
