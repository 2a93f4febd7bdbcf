"""Whatever is done to a valid request: what is recognised and what is read agree, or it is refused.

The reference reads as HBase's generated code does: fields by id, the last of two alike, elements as
what the service declares, whatever a container says of itself.
"""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.hbase import Dialect, Patterns, read_request
from headgate.wire import Message, MessageReader, ProtocolError

FIXED = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}


class Malformed(Exception):
    """What HBase's reader raises for."""


class Java:
    """Reads a struct of TBinaryProtocol into fields by id, as generated code would see them."""

    def __init__(self, data: bytes, pos: int) -> None:
        self.data, self.pos = data, pos

    def take(self, size: int) -> bytes:
        if size < 0 or self.pos + size > len(self.data):
            raise Malformed
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def value(self, kind: int) -> Any:
        if kind in FIXED:
            return self.take(FIXED[kind])
        if kind == 11:
            return self.take(struct.unpack(">i", self.take(4))[0])
        if kind == 12:
            return self.fields()
        if kind in (14, 15):
            element, count = struct.unpack(">Bi", self.take(5))
            if count < 0 or count > len(self.data):
                raise Malformed
            return (element, [self.value(element) for _ in range(count)])
        if kind == 13:
            keys, values, count = struct.unpack(">BBi", self.take(6))
            if count < 0 or count > len(self.data):
                raise Malformed
            return [(self.value(keys), self.value(values)) for _ in range(count)]
        raise Malformed

    def fields(self) -> dict[tuple[int, int], Any]:
        found: dict[tuple[int, int], Any] = {}
        while kind := self.take(1)[0]:
            (field,) = struct.unpack(">h", self.take(2))
            found[field, kind] = self.value(kind)
        return found


def read(data: bytes) -> Message | None:
    reader = MessageReader()
    reader.feed(data)
    return reader.next_message()


def spans(data: bytes, pos: int) -> list[tuple[int, int]]:
    """Return begin and end of each field of the struct at a position, and of those in them."""
    java = Java(data, pos)
    found: list[tuple[int, int]] = []

    def walk(kind: int) -> None:
        if kind == 12:
            while True:
                begin = java.pos
                kind = java.take(1)[0]
                if not kind:
                    return
                java.take(2)
                walk(kind)
                found.append((begin, java.pos))
        elif kind in (14, 15):
            element, count = struct.unpack(">Bi", java.take(5))
            for _ in range(count):
                walk(element)
        else:
            java.value(kind)

    walk(12)
    return found


DEEP = b"\x0c\x00\x63" + b"\x0c\x00\x01" * 20 + b"\x00" * 21
MUTATIONS = ("twice", "gone", "moved", "unknown", "deep", "cut", "second", "type", "byte")


def mutated(data: st.DataObject, whole: bytes, body: int) -> bytes:
    """Return a request with one thing done to it."""
    fields = spans(whole, body)
    if not fields:
        raise Malformed
    what = data.draw(st.sampled_from(MUTATIONS))
    begin, end = data.draw(st.sampled_from(fields))
    if what == "twice":
        return whole[:end] + whole[begin:end] + whole[end:]
    if what == "gone":
        return whole[:begin] + whole[end:]
    if what == "moved":
        return whole[:body] + whole[begin:end] + whole[body:begin] + whole[end:]
    if what == "unknown":
        return whole[:begin] + b"\x0b\x00\x5a\x00\x00\x00\x02hi" + whole[begin:]
    if what == "deep":
        return whole[:begin] + DEEP + whole[begin:]
    if what == "cut":
        return whole[: data.draw(st.integers(body, len(whole) - 1))]
    if what == "second":
        return whole + whole
    at = begin if what == "type" else data.draw(st.integers(body, len(whole) - 1))
    other = data.draw(st.sampled_from([2, 3, 6, 8, 10, 11, 12, 13, 14, 15, 0, 255]))
    return whole[:at] + bytes((other,)) + whole[at + 1 :]


def top_table(dialect: Dialect, message: Message) -> bytes | None:
    """Return the table as generated code reads it, where it is field 1, a string."""
    found = Java(message.raw, message.body).fields().get((1, 11))
    return found if isinstance(found, bytes) else None


@settings(deadline=None, max_examples=600)
@given(data=st.data())
def test_what_is_recognised_and_what_is_read_agree_or_the_request_is_refused(cases, data):
    case = data.draw(st.sampled_from(cases))
    raw = case.encoded
    first = read(raw)
    assert first is not None
    for _ in range(data.draw(st.integers(0, 3))):
        try:
            raw = mutated(data, raw, first.body)
        except Malformed:
            break
    framed = data.draw(st.booleans())
    sent = struct.pack(">i", len(raw)) + raw if framed else raw
    try:
        message = read(sent)
        if message is None:
            return
        request = read_request(case.dialect, message)
    except ProtocolError:
        return
    assert message.raw == sent or not framed, "a frame is one message"
    table = top_table(case.dialect, message)
    if table is not None:
        assert request.tables[0] == table.decode("utf-8", "backslashreplace").removeprefix(
            "default:"
        )
    patterns = Patterns(case.dialect)
    for _ in range(2):
        patterns.consider(request)
    pattern = patterns.find(message.raw)
    if pattern is None:
        return
    assert pattern.tables == request.tables
    found = pattern.put(message.raw) if pattern.writes else None
    assert found is None or found == request.change
    # Another request of the kind, with other bytes in a string that may differ.
    layout = pattern.layout
    begin, end = data.draw(st.sampled_from(layout.strings[1:] or layout.strings))
    other = bytearray(message.raw)
    other[begin:end] = data.draw(st.binary(min_size=end - begin, max_size=end - begin))
    if patterns.find(bytes(other)) is not pattern:
        return
    later = read(bytes(other))
    assert later is not None
    again = read_request(case.dialect, later)
    assert (pattern.tables, pattern.name) == (again.tables, again.method.name)
    found = pattern.put(bytes(other)) if pattern.writes else None
    assert found is None or found == again.change


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_what_generated_clients_could_send_is_never_refused(cases, data):
    """Any order of fields, and unknown ones among them."""
    case = data.draw(st.sampled_from(cases))
    message = read(case.encoded)
    assert message is not None
    body = message.raw[message.body :]
    tops: list[bytes] = []
    java = Java(body, 0)
    while body[java.pos]:
        begin = java.pos
        kind = java.take(1)[0]
        java.take(2)
        java.value(kind)
        tops.append(body[begin : java.pos])
    tops.append(b"\x0b\x00\x5a\x00\x00\x00\x02hi")
    tops.append(DEEP)
    order = data.draw(st.permutations(tops))
    raw = message.raw[: message.body] + b"".join(order) + b"\x00"
    changed = read(raw)
    assert changed is not None
    assert read_request(case.dialect, changed).change == read_request(case.dialect, message).change
