"""From one protocol to the other without a schema: both say the type of all that they hold."""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct as Layout
from struct import error as ShortBuffer  # noqa: N812 - what it means here
from typing import Final, final

from headgate.wire import binary, compact
from headgate.wire.binary import SMALLEST, TYPES, container_at, field_at, i32_at, i64_at, map_at
from headgate.wire.compact import (
    BINARY_TYPES,
    LONGEST_16,
    LONGEST_32,
    LONGEST_64,
    compact_header,
    read_length,
    read_varint,
    unzigzag,
    varint,
    zigzag,
)
from headgate.wire.errors import MalformedMessage, message_too_long, nested_too_deep
from headgate.wire.message import Limits, Message, MessageType, Protocol, Transport
from headgate.wire.runs import ENOUGH, MOST_STRINGS, all_but, run_of

_DEFAULT_LIMITS: Final = Limits()

_i16: Final = Layout(">h").pack
_i32: Final = Layout(">i").pack
_i64: Final = Layout(">q").pack
_field: Final = Layout(">Bh").pack
_container: Final = Layout(">Bi").pack
_map: Final = Layout(">BBi").pack
_strict: Final = Layout(">HBBi").pack
_i16_at: Final = Layout(">h").unpack_from

_IN_BINARY: Final = " once it is written in binary"
_MIN_FIELD: Final = -(1 << 15)
_MAX_FIELD: Final = (1 << 15) - 1

_COMPACT_TYPES: Final = (
    0,
    0,
    compact.TRUE,
    compact.BYTE,
    compact.DOUBLE,
    0,
    compact.I16,
    0,
    compact.I32,
    0,
    compact.I64,
    compact.BINARY,
    compact.STRUCT,
    compact.MAP,
    compact.SET,
    compact.LIST,
)
"""The type of compact by that of the binary protocol; 0 where there is none."""


def write_header(protocol: Protocol, name: bytes, kind: MessageType, seqid: int) -> bytes:
    """Return the bytes of a message before its struct."""
    if protocol is Protocol.COMPACT:
        return compact_header(name, kind, seqid)
    if protocol is Protocol.OLD_BINARY:
        return _i32(len(name)) + name + bytes((kind,)) + _i32(seqid)
    return _strict(binary.VERSION, 0, kind, len(name)) + name + _i32(seqid)


def transcode(
    message: Message,
    protocol: Protocol,
    transport: Transport,
    limits: Limits = _DEFAULT_LIMITS,
) -> Message:
    """Return a message in another protocol or transport, or itself if it is in these already.

    Raises:
        MalformedMessage: its values make no sense.
        LimitExceeded: they are nested too deeply.
        FrameTooLarge: it would become longer than ``limits.max_frame``.
    """
    if message.protocol is protocol and message.transport is transport:
        return message
    if (message.protocol is Protocol.COMPACT) is (protocol is Protocol.COMPACT):
        body = message.raw[message.body :]
    elif protocol is Protocol.COMPACT:
        body = _Compacter(message.raw, message.body, limits).whole()
    else:
        body = _Expander(message.raw, message.body, limits).whole()
    head = write_header(protocol, message.name.encode(), message.type, message.seqid)
    if transport is Transport.FRAMED:
        head = _i32(len(head) + len(body)) + head
    return Message(
        head + body, len(head), message.name, message.type, message.seqid, transport, protocol
    )


def to_binary(message: Message, limits: Limits = _DEFAULT_LIMITS) -> Message:
    """Return a message whose struct can be read with a ``Cursor``: old binary's is as strict's.

    Raises:
        ProtocolError: see ``transcode``.
    """
    if message.protocol is not Protocol.COMPACT:
        return message
    return transcode(message, Protocol.BINARY, Transport.BUFFERED, limits)


@final
class Expansion:
    """``to_binary`` in as many parts as it takes."""

    def __init__(self, message: Message, limits: Limits = _DEFAULT_LIMITS) -> None:
        """Stand before a message, which is in compact."""
        self._message = message
        self._expander = _Expander(message.raw, message.body, limits)
        self._parts = self._expander.in_parts()

    def go_on(self, size: int) -> Message | None:
        """Write so many bytes of it, or a little more, in binary; return the message when it is.

        Raises:
            ProtocolError: see ``transcode``.
        """
        self._expander.stop_after(size)
        for _ in self._parts:
            return None
        message = self._message
        head = write_header(Protocol.BINARY, message.name.encode(), message.type, message.seqid)
        return Message(
            head + self._expander.written(),
            len(head),
            message.name,
            message.type,
            message.seqid,
            Transport.BUFFERED,
            Protocol.BINARY,
        )


@final
class _Expander:
    """Writes a compact struct in binary."""

    __slots__ = ("_data", "_end", "_limits", "_out", "_pos", "_stop", "_strings")

    def __init__(self, data: bytes, pos: int, limits: Limits) -> None:
        self._data = data
        self._pos = pos
        self._end = len(data)
        self._limits = limits
        self._out = bytearray()
        self._strings: list[tuple[int, int, int]] | None = None
        """Of the struct that others may be like, where each string stands here and in binary, and
        its length; None: of none."""
        self._stop = self._end
        """Position after which to give others a turn."""

    def whole(self) -> bytes:
        """Return the struct."""
        try:
            self._struct(0)
        except IndexError as error:
            raise self._cut_short() from error
        return self.written()

    def in_parts(self) -> Generator[None, None, None]:
        """Write the struct; yield after so much as ``stop_after`` said last."""
        try:
            yield from self._struct_in_parts(0)
        except IndexError as error:
            raise self._cut_short() from error

    def stop_after(self, size: int) -> None:
        """Let ``in_parts`` yield after so many more bytes, or a little more."""
        self._stop = self._pos + size

    def written(self) -> bytes:
        """Return the struct, of which all is written."""
        if self._pos != self._end:
            raise MalformedMessage(f"{self._end - self._pos} bytes behind the struct")
        return bytes(self._out)

    def _cut_short(self) -> MalformedMessage:
        return MalformedMessage(f"the message ends at byte {self._end} inside a value")

    def _struct(self, depth: int) -> None:
        if depth > self._limits.max_depth:
            raise nested_too_deep(self._limits.max_depth)
        field = 0
        while True:
            kind, field = self._field(field)
            if kind > compact.FALSE:
                self._value(kind, depth + 1)
            elif kind == compact.STOP:
                return

    def _struct_in_parts(self, depth: int) -> Generator[None, None, None]:
        """Do as ``_struct``; what is in it goes on in parts where it may be large."""
        if depth > self._limits.max_depth:
            raise nested_too_deep(self._limits.max_depth)
        field = 0
        while True:
            kind, field = self._field(field)
            if kind == compact.STRUCT:
                yield from self._struct_in_parts(depth + 1)
            elif kind == compact.LIST:
                yield from self._list_in_parts(depth + 1)
            elif kind > compact.FALSE:
                self._value(kind, depth + 1)
            elif kind == compact.STOP:
                return
            if self._pos > self._stop:
                yield

    def _list_in_parts(self, depth: int) -> Generator[None, None, None]:
        count, element = self._list_head(depth)
        if element != compact.STRUCT:
            for _ in range(count):
                self._value(element, depth + 1)
        elif count <= ENOUGH:
            # Each of them may be large.
            for _ in range(count):
                yield from self._struct_in_parts(depth + 1)
        else:
            yield from self._structs(count, depth + 1)

    def _field(self, before: int) -> tuple[int, int]:
        """Write a field's head, and its value if that is in it; return its type and number."""
        data = self._data
        out = self._out
        head = data[self._pos]
        self._pos += 1
        if head == compact.STOP:
            out.append(binary.STOP)
            if len(out) > self._limits.max_frame:
                raise message_too_long(self._limits.max_frame, _IN_BINARY)
            return compact.STOP, before
        kind = head & 15
        if head >= 16:
            field = before + (head >> 4)
        else:
            number, self._pos = read_varint(data, self._pos, LONGEST_16)
            field = unzigzag(number)
        if not _MIN_FIELD <= field <= _MAX_FIELD:
            raise MalformedMessage(f"a field of number {field}")
        if kind == compact.TRUE:
            out += _field(binary.BOOL, field) + b"\x01"
        elif kind == compact.FALSE:
            out += _field(binary.BOOL, field) + b"\x00"
        else:
            if not BINARY_TYPES[kind]:
                raise MalformedMessage(f"a value of type {kind}, which compact does not have")
            out += _field(BINARY_TYPES[kind], field)
        return kind, field

    def _value(self, kind: int, depth: int) -> None:
        data = self._data
        out = self._out
        pos = self._pos
        if kind == compact.BINARY:
            length, pos = read_length(data, pos, "string")
            self._copy(pos, length, _i32(length))
            return
        if kind == compact.I32:
            number, self._pos = read_varint(data, pos, LONGEST_32)
            out += _i32(unzigzag(number))
        elif kind == compact.I64:
            number, self._pos = read_varint(data, pos, LONGEST_64)
            out += _i64(unzigzag(number))
        elif kind == compact.STRUCT:
            self._struct(depth)
        elif kind in (compact.LIST, compact.SET):
            self._list(depth)
        elif kind == compact.MAP:
            self._map(depth)
        elif kind == compact.I16:
            number, self._pos = read_varint(data, pos, LONGEST_16)
            out += _i16(unzigzag(number))
        elif kind == compact.DOUBLE:
            self._need(pos, 8)
            out += data[pos : pos + 8][::-1]
            self._pos = pos + 8
        elif kind == compact.BYTE:
            out.append(data[pos])
            self._pos = pos + 1
        else:  # a boolean in a container
            out.append(1 if data[pos] == compact.TRUE else 0)
            self._pos = pos + 1

    def _list(self, depth: int) -> None:
        count, element = self._list_head(depth)
        if element == compact.STRUCT and count > ENOUGH and self._strings is None:
            for _ in self._structs(count, depth + 1):
                pass
            return
        for _ in range(count):
            self._value(element, depth + 1)

    def _list_head(self, depth: int) -> tuple[int, int]:
        """Write a list's head; return the number and the type of its elements."""
        head = self._data[self._pos]
        self._pos += 1
        count, element = head >> 4, head & 15
        if count == 15:
            count, self._pos = read_length(self._data, self._pos, "container")
        self._open(count, element, element, depth)
        self._out += _container(BINARY_TYPES[element], count)
        return count, element

    def _structs(self, left: int, depth: int) -> Generator[None, None, None]:
        """Write so many structs; those that have the bytes of the one before are taken together."""
        in_runs = True
        while left:
            begin, at = self._pos, len(self._out)
            if in_runs:
                self._strings = []
            self._struct(depth)
            left -= 1
            strings, self._strings = self._strings, None
            in_runs = strings is not None
            if strings is not None:
                passed = self._repeat(begin, at, left, strings)
                left -= passed
                in_runs = passed >= ENOUGH
            if self._pos > self._stop:
                yield

    def _repeat(self, begin: int, at: int, most: int, strings: list[tuple[int, int, int]]) -> int:
        """Write those next structs that are like the last one but for their strings' contents.

        Args:
            begin: where the last one began.
            at: where it begins in binary.
            most: how many structs are left.
            strings: those of the last one.

        Returns:
            How many there were.
        """
        data, out, here = self._data, self._out, self._pos
        size, written = here - begin, len(out) - at
        places = [(pos, pos + length) for pos, _, length in strings]
        passed = run_of(data, here, most, size, all_but(data, begin, here, places))
        if len(out) + passed * written > self._limits.max_frame:
            raise message_too_long(self._limits.max_frame, _IN_BINARY)
        end = here + passed * size
        block = out[at:] * passed
        for pos, where, length in strings:
            source, target = here + pos - begin, where - at
            if length < passed:
                for number in range(length):
                    block[target + number :: written] = data[source + number : end : size]
                continue
            for first in range(0, passed * written, written):
                content = data[source : source + length]
                block[target + first : target + first + length] = content
                source += size
        out += block
        self._pos = end
        return passed

    def _map(self, depth: int) -> None:
        count, self._pos = read_length(self._data, self._pos, "container")
        if not count:
            # Its types are not written; those of HBase's maps are as good as any.
            self._out += _map(binary.STRING, binary.STRING, 0)
            return
        types = self._data[self._pos]
        self._pos += 1
        keys, values = types >> 4, types & 15
        self._open(count, keys, values, depth)
        self._out += _map(BINARY_TYPES[keys], BINARY_TYPES[values], count)
        for _ in range(count):
            self._value(keys, depth + 1)
            self._value(values, depth + 1)

    def _open(self, count: int, first: int, second: int, depth: int) -> None:
        if depth > self._limits.max_depth:
            raise nested_too_deep(self._limits.max_depth)
        if not count:
            return
        if not (BINARY_TYPES[first] and BINARY_TYPES[second]):
            raise MalformedMessage(f"a container of types {first} and {second}")
        # Each element has a byte at least, each of binary at most eight for it.
        if count > self._end - self._pos:
            raise MalformedMessage(
                f"a container of {count} elements with {self._end - self._pos} bytes left"
            )
        smallest = SMALLEST[BINARY_TYPES[first]]
        if len(self._out) + count * smallest > self._limits.max_frame:
            raise message_too_long(self._limits.max_frame, _IN_BINARY)

    def _copy(self, pos: int, length: int, head: bytes) -> None:
        self._need(pos, length)
        behind = pos + length
        out = self._out
        out += head
        strings = self._strings
        if strings is not None:
            strings.append((pos, len(out), length))
            if len(strings) > MOST_STRINGS:
                self._strings = None
        out += self._data[pos:behind]
        if len(out) > self._limits.max_frame:
            raise message_too_long(self._limits.max_frame, _IN_BINARY)
        self._pos = behind

    def _need(self, pos: int, count: int) -> None:
        if pos + count > self._end:
            raise _short(self._end, count, pos)


@final
class _Compacter:
    """Writes a binary struct in compact. It becomes a quarter longer at most."""

    __slots__ = ("_data", "_end", "_limits", "_out", "_pos")

    def __init__(self, data: bytes, pos: int, limits: Limits) -> None:
        self._data = data
        self._pos = pos
        self._end = len(data)
        self._limits = limits
        self._out = bytearray()

    def whole(self) -> bytes:
        """Return the struct."""
        try:
            self._struct(0)
        except (IndexError, ShortBuffer) as error:
            raise MalformedMessage(
                f"the message ends at byte {self._end} inside a value"
            ) from error
        if self._pos != self._end:
            raise MalformedMessage(f"{self._end - self._pos} bytes behind the struct")
        return bytes(self._out)

    def _struct(self, depth: int) -> None:
        if depth > self._limits.max_depth:
            raise nested_too_deep(self._limits.max_depth)
        data = self._data
        out = self._out
        before = 0
        while True:
            kind = data[self._pos]
            if kind == binary.STOP:
                self._pos += 1
                out.append(compact.STOP)
                return
            kind, field = field_at(data, self._pos)
            self._pos += 3
            written = _compact_type(kind)
            if kind == binary.BOOL:
                written = compact.TRUE if data[self._pos] == 1 else compact.FALSE
                self._pos += 1
            delta = field - before
            if 0 < delta <= 15:
                out.append(delta << 4 | written)
            else:
                out.append(written)
                out += varint(zigzag(field))
            before = field
            if kind != binary.BOOL:
                self._value(kind, depth + 1)

    def _value(self, kind: int, depth: int) -> None:
        data = self._data
        out = self._out
        pos = self._pos
        if kind == binary.STRING:
            length: int = i32_at(data, pos)[0]
            behind = pos + 4 + length
            if length < 0:
                raise MalformedMessage(f"a string of length {length} at byte {pos}")
            if behind > self._end:
                raise _short(self._end, length, pos + 4)
            out += varint(length)
            out += data[pos + 4 : behind]
            self._pos = behind
        elif kind == binary.I32:
            out += varint(zigzag(i32_at(data, pos)[0]))
            self._pos = pos + 4
        elif kind == binary.I64:
            out += varint(zigzag(i64_at(data, pos)[0]))
            self._pos = pos + 8
        elif kind == binary.STRUCT:
            self._struct(depth)
        elif kind in (binary.LIST, binary.SET):
            element, count = container_at(data, pos)
            self._pos = pos + 5
            self._open(count, element, element, depth)
            written = _compact_type(element) if count else compact.STRUCT
            if count < 15:
                out.append(count << 4 | written)
            else:
                out.append(0xF0 | written)
                out += varint(count)
            for _ in range(count):
                self._value(element, depth + 1)
        elif kind == binary.MAP:
            keys, values, count = map_at(data, pos)
            self._pos = pos + 6
            self._open(count, keys, values, depth)
            out += varint(count)
            if count:
                out.append(_compact_type(keys) << 4 | _compact_type(values))
            for _ in range(count):
                self._value(keys, depth + 1)
                self._value(values, depth + 1)
        elif kind == binary.I16:
            out += varint(zigzag(_i16_at(data, pos)[0]))
            self._pos = pos + 2
        elif kind == binary.DOUBLE:
            if pos + 8 > self._end:
                raise _short(self._end, 8, pos)
            out += data[pos : pos + 8][::-1]
            self._pos = pos + 8
        elif kind == binary.BYTE:
            out.append(data[pos])
            self._pos = pos + 1
        else:  # a boolean in a container
            out.append(compact.TRUE if data[pos] == 1 else compact.FALSE)
            self._pos = pos + 1

    def _open(self, count: int, first: int, second: int, depth: int) -> None:
        if depth > self._limits.max_depth:
            raise nested_too_deep(self._limits.max_depth)
        if count and not (_compact_type(first) and _compact_type(second)):
            raise MalformedMessage(f"a container of types {first} and {second}")
        if count and count * min(SMALLEST[first], SMALLEST[second]) > self._end - self._pos:
            raise MalformedMessage(
                f"a container of {count} elements with {self._end - self._pos} bytes left"
            )


def _compact_type(kind: int) -> int:
    found = _COMPACT_TYPES[kind] if kind < TYPES else 0
    if not found:
        raise MalformedMessage(f"a value of type {kind}, which Thrift does not have")
    return found


def _short(end: int, count: int, pos: int) -> MalformedMessage:
    return MalformedMessage(f"the message ends at byte {end}; {count} more were due at byte {pos}")
