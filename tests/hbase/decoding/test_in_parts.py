"""A batch that is read in parts says what it says when it is read at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.events import ORIGIN_ATTRIBUTE, Origin, UpdateKind, encode_origin
from headgate.hbase import Cells, Dialect, Reading, Request, Write, read_request
from headgate.wire import (
    MalformedMessage,
    Message,
    MessageType,
    Protocol,
    ProtocolError,
    StructWriter,
    Transport,
    transcode,
    write_message,
)

ONE, TWO = Dialect.THRIFT1, Dialect.THRIFT2
ORIGINS = [encode_origin(Origin("flow", "step", f"run-{n}", n)) for n in (1, 2)]


def message(name: str, body: bytes, protocol: Protocol) -> Message:
    return transcode(message_of(name, body), protocol, Transport.BUFFERED)


def row(dialect: Dialect, name: str, key: bytes, values: list[bytes], odd: int) -> bytes:
    writer = StructWriter()
    if odd != 4:
        writer.binary(1, key)
    if dialect is ONE:
        cells = [
            StructWriter().bool(1, odd == 3).binary(2, b"f:%d" % at).binary(3, value).end()
            for at, value in enumerate(values)
        ]
    elif name == "putMultiple":
        cells = [
            StructWriter().binary(1, b"f").binary(2, b"%d" % at).binary(3, value).end()
            for at, value in enumerate(values)
        ]
    else:
        cells = [StructWriter().binary(1, b"f").binary(2, value).end() for value in values]
    if odd != 5:
        writer.structs(2, cells)
    if odd in (1, 4):
        writer.binary(1, key)  # twice, or behind the cells
    elif odd == 2 and dialect is TWO:
        origin = ORIGINS[len(values) % 2]
        attributes = {ORIGIN_ATTRIBUTE: origin, b"_ttl": len(values).to_bytes(8)}
        writer.mapping(5 if name == "putMultiple" else 6, attributes)
    return writer.end()


@st.composite
def batches(draw: st.DrawFn) -> tuple[Dialect, Message]:
    dialect, name = draw(
        st.sampled_from(
            [
                (ONE, "mutateRows"),
                (ONE, "mutateRowsTs"),
                (TWO, "putMultiple"),
                (TWO, "deleteMultiple"),
            ]
        )
    )
    rows = []
    for _ in range(draw(st.integers(0, 5))):
        size, cells = draw(st.integers(0, 20)), draw(st.integers(0, 3))
        grows = draw(st.integers(0, 2))
        odd = draw(st.sampled_from([0, 0, 0, 0, 2, 2, 3, 4, 4, 1, 5]))
        rows += [
            row(dialect, name, b"r%03d" % n, [b"v" * (size + n * grows)] * cells, odd)
            for n in range(draw(st.integers(1, 25)))
        ]
    parts = [
        lambda writer: writer.binary(1, b"t"),
        lambda writer: writer.structs(2, rows),
        lambda writer: writer.i64(3, 77) if name == "mutateRowsTs" else writer,
        lambda writer: writer.binary(1, b"u"),
        lambda writer: writer.structs(2, rows[:1]),
    ]
    order = draw(
        st.sampled_from([(0, 1, 2), (0, 1, 2), (1, 0), (2, 1, 0), (1,), (0, 1, 3), (0, 1, 4)])
    )
    writer = StructWriter()
    for each in order:
        parts[each](writer)
    behind = draw(st.sampled_from([b"", b"", b"", b"\x00"]))
    body = bytearray(writer.end() + behind)
    if draw(st.integers(0, 3)) == 0:
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
        return dialect, message_of(name, bytes(body))
    protocol = draw(st.sampled_from([Protocol.BINARY, Protocol.BINARY, Protocol.COMPACT]))
    if behind:
        protocol = Protocol.BINARY
    return dialect, message(name, bytes(body), protocol)


def message_of(name: str, body: bytes) -> Message:
    raw = write_message(Transport.BUFFERED, name, MessageType.CALL, 3, body)
    return Message(raw, len(raw) - len(body), name, MessageType.CALL, 3, Transport.BUFFERED)


def outcome(read) -> Request | str:
    try:
        return read()
    except ProtocolError as error:
        # Damaged bytes may be wrong in two places: which of them is named depends on the way.
        return type(error).__name__


def read_in_parts(dialect: Dialect, request: Message, sizes: list[int]) -> Request:
    """Read a request by turns of these sizes, again and again."""
    reading = Reading(dialect, request)
    for turn in range(len(request.raw) + 2):
        found = reading.go_on(sizes[turn % len(sizes)])
        if found is not None:
            return found
    raise AssertionError("it never ends")


@settings(deadline=None, max_examples=300)
@given(asked=batches(), sizes=st.lists(st.integers(1, 2000), min_size=1, max_size=5))
def test_parts_make_no_difference(asked, sizes) -> None:
    dialect, request = asked
    in_parts = outcome(lambda: read_in_parts(dialect, request, sizes))
    assert in_parts == outcome(lambda: read_request(dialect, request))


@pytest.mark.parametrize(
    ("dialect", "name"), [(ONE, "mutateRows"), (TWO, "putMultiple"), (TWO, "deleteMultiple")]
)
@pytest.mark.parametrize("odd", [0, 4])
def test_rows_have_their_names_wherever_those_stand(dialect: Dialect, name: str, odd: int) -> None:
    keys = [b"r%03d" % number for number in range(40)]
    rows = [row(dialect, name, key, [b"v"], odd) for key in keys]
    body = StructWriter().binary(1, b"t").structs(2, rows).end()
    found = read_in_parts(dialect, message_of(name, body), [500])
    assert isinstance(found.change, Write)
    assert list(found.change.cells.rows) == keys


@pytest.mark.parametrize(
    ("dialect", "name"), [(ONE, "mutateRows"), (TWO, "putMultiple"), (TWO, "deleteMultiple")]
)
@pytest.mark.parametrize("byte", [b"\0", b"\x0b", b"v"])
def test_keys_and_values_may_hold_any_bytes(dialect: Dialect, name: str, byte: bytes) -> None:
    keys = [byte * (60 + number) for number in range(40)]
    values = [byte * (1 + number % 7) for number in range(40)]
    rows = [row(dialect, name, *each, 0) for each in zip(keys, ([v] for v in values), strict=True)]
    body = StructWriter().binary(1, b"t").structs(2, rows).end()
    found = read_in_parts(dialect, message_of(name, body), [500])
    assert isinstance(found.change, Write)
    cells = found.change.cells
    assert cells.rows == keys
    if name == "deleteMultiple":
        assert cells.columns == [b"f:" + each for each in values]
    else:
        assert cells.values == values


def test_a_number_is_never_taken_for_the_head_of_a_rows_cells() -> None:
    keys = [b"r%03d" % number for number in range(40)]
    number = 0x0F0002_0C_FFFFFFFF  # field 2, a list of structs, fewer than none
    rows = [
        StructWriter().binary(1, key).i64(9, number).structs(2, cells_of(TWO, [1], 0)).end()
        for key in keys
    ]
    body = StructWriter().binary(1, b"t").structs(2, rows).end()
    found = read_in_parts(TWO, message_of("putMultiple", body), [500])
    assert isinstance(found.change, Write)
    assert found.change.cells.rows == keys


@pytest.mark.parametrize("left_out", [1, 2])
def test_a_put_without_its_row_or_columns_is_refused(left_out: int) -> None:
    put = StructWriter().i64(3, 5)
    if left_out != 1:
        put.binary(1, b"row")
    if left_out != 2:
        put.structs(2, cells_of(TWO, [1, 2], 0))
    body = StructWriter().binary(1, b"t").struct(2, put.end()).end()
    with pytest.raises(MalformedMessage, match="a TPut without its row or columns"):
        read_in_parts(TWO, message_of("put", body), [10])


def test_other_fields_of_a_put_are_passed_over_in_parts_too() -> None:
    put = StructWriter().i64(1, 5).binary(1, b"row").i64(2, 6).structs(2, cells_of(TWO, [1, 2], 0))
    body = StructWriter().binary(1, b"t").struct(2, put.binary(9, b"x").i64(3, 88).end()).end()
    found = read_in_parts(TWO, message_of("put", body), [10])
    assert isinstance(found.change, Write)
    cells = found.change.cells
    assert (cells.rows, cells.columns) == ([b"row"] * 2, [b"f:0", b"f:1"])
    assert cells.timestamps == [88, 88]


def cells_of(dialect: Dialect, sizes: list[int], odd: int) -> list[bytes]:
    """Return mutations or columns with values of these sizes, some not as they mostly are."""
    found = []
    for at, size in enumerate(sizes):
        writer = StructWriter()
        if dialect is ONE:
            deletes = odd == 1 and at % 3 == 0
            writer.bool(1, deletes).binary(2, b"f:%d" % (at % 50)).binary(3, b"v" * size)
            if at % 7:
                writer.bool(4, True)
        else:
            writer.binary(1, b"f").binary(2, b"%d" % at).binary(3, b"v" * size)
            if odd == 1 and at % 3 == 0:
                writer.i64(4, at)
        found.append(writer.end())
    return found


@st.composite
def wide_rows(draw: st.DrawFn) -> tuple[Dialect, Message]:
    """Requests that write many cells of one row."""
    dialect, name = draw(
        st.sampled_from(
            [(ONE, "mutateRow"), (ONE, "mutateRowTs"), (TWO, "put"), (TWO, "mutateRow")]
        )
    )
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=9)) * draw(st.integers(1, 120))
    odd = draw(st.integers(0, 3))
    cells = cells_of(dialect, sizes, odd)
    writer = StructWriter().binary(1, b"t")
    if dialect is ONE:
        if odd != 2:
            writer.binary(2, b"row")
        writer.structs(3, cells)
        if odd == 2:
            writer.binary(2, b"row")
        if name == "mutateRowTs":
            writer.i64(4, 77)
    elif name == "put":
        one = StructWriter()
        if odd != 2:
            one.binary(1, b"row")
        if odd != 1:
            one.structs(2, cells)
        one.i64(3, 88)
        if odd == 2:
            one.binary(1, b"row")
        if odd == 3:
            one.mapping(5, {ORIGIN_ATTRIBUTE: ORIGINS[0]})
        writer.struct(2, one.end())
    else:
        puts = [StructWriter().binary(1, b"row").structs(2, [cell]).end() for cell in cells]
        deletes = StructWriter().binary(1, b"row").end()
        both = [
            StructWriter().struct(2, deletes).end()
            if odd == 1 and at % 4 == 0
            else StructWriter().struct(1, put).end()
            for at, put in enumerate(puts)
        ]
        rows = StructWriter()
        if odd != 2:
            rows.binary(1, b"row")
        rows.structs(2, both)
        if odd == 2:
            rows.binary(1, b"row")
        writer.struct(2, rows.end())
    body = bytearray(writer.end())
    if draw(st.integers(0, 3)) == 0:
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
        return dialect, message_of(name, bytes(body))
    return dialect, message(name, bytes(body), draw(st.sampled_from(list(Protocol)[:2])))


@settings(deadline=None, max_examples=150)
@given(asked=wide_rows(), sizes=st.lists(st.integers(1, 4000), min_size=1, max_size=5))
def test_parts_make_no_difference_to_a_row_of_many_cells(asked, sizes) -> None:
    dialect, request = asked
    in_parts = outcome(lambda: read_in_parts(dialect, request, sizes))
    assert in_parts == outcome(lambda: read_request(dialect, request))


@pytest.mark.parametrize(
    ("dialect", "name"), [(ONE, "mutateRow"), (TWO, "put"), (TWO, "mutateRow")]
)
def test_a_row_of_many_cells_is_read_in_parts(dialect: Dialect, name: str) -> None:
    cells = cells_of(dialect, [each % 40 for each in range(2000)], 0)
    writer = StructWriter().binary(1, b"t")
    if dialect is ONE:
        body = writer.binary(2, b"row").structs(3, cells).end()
    elif name == "put":
        body = writer.struct(2, StructWriter().binary(1, b"r").structs(2, cells).end()).end()
    else:
        puts = [StructWriter().binary(1, b"r").structs(2, [cell]).end() for cell in cells]
        both = [StructWriter().struct(1, put).end() for put in puts]
        body = writer.struct(2, StructWriter().binary(1, b"r").structs(2, both).end()).end()
    reading = Reading(dialect, message(name, body, Protocol.BINARY))
    turns = 1
    while (found := reading.go_on(1000)) is None:
        turns += 1
    assert isinstance(found.change, Write)
    assert len(found.change.cells) == 2000
    # Of a row's cells 256 are read without a look at how far that is.
    longest = 256 * max(map(len, cells))
    assert turns >= len(body) // (1000 + longest)
    assert turns > 5


def test_many_puts_and_deletes_are_put_into_their_order_in_turns_of_their_own() -> None:
    for name, field in (("mutateRow", 3), ("mutateRows", 2)):
        cells = cells_of(ONE, [each % 40 for each in range(5000)], 1)
        writer = StructWriter().binary(1, b"t")
        if name == "mutateRow":
            writer.binary(2, b"row")
        else:
            cells = [
                StructWriter().binary(1, b"r%d" % at).structs(2, [cell]).end()
                for at, cell in enumerate(cells)
            ]
        request = message(name, writer.structs(field, cells).end(), Protocol.BINARY)
        reading = Reading(ONE, request)
        behind = 0
        while (found := reading.go_on(5000)) is None:
            cursor = reading._cursor
            behind += cursor is not None and cursor.pos == cursor.end
        assert behind == 3
        assert found == read_request(ONE, request)


KIND = st.sampled_from(
    [
        UpdateKind.PUT,
        UpdateKind.PUT,
        UpdateKind.DELETE_COLUMN,
        UpdateKind.DELETE_CELL,
        UpdateKind.DELETE_FAMILY,
        UpdateKind.DELETE_FAMILY_VERSION,
        UpdateKind.DELETE_ROW,
    ]
)


@given(
    st.lists(
        st.tuples(KIND, st.sampled_from([b"a", b"b"]), st.sampled_from([b"f:", b"f:q", b"g:q"]))
    )
)
def test_puts_that_a_delete_may_hide_are_found_one_by_one(cells) -> None:
    written = Cells.empty()
    for kind, row, column in cells:
        named = b"" if kind is UpdateKind.DELETE_ROW else column
        if kind in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION):
            named = column[:2]
        written.add(kind, row, named, -1, None)
    hides = {
        (row, named)
        for kind, row, named in zip(written.kinds, written.rows, written.columns, strict=True)
        if kind != UpdateKind.PUT
    }
    expected = [
        at
        for at, kind in enumerate(written.kinds)
        if kind == UpdateKind.PUT
        and not hides.isdisjoint(
            {
                (written.rows[at], b""),
                (written.rows[at], written.columns[at]),
                (written.rows[at], written.columns[at][:2]),
            }
        )
    ]
    assert list(written.put_and_deleted()) == expected


def test_each_part_ends_with_the_row_that_reaches_its_size() -> None:
    rows = [row(ONE, "mutateRows", b"r%d" % n, [b"v" * (n % 40)], 0) for n in range(200)]
    body = StructWriter().binary(1, b"t").structs(2, rows).end()
    request = message("mutateRows", body, Protocol.BINARY)
    reading = Reading(ONE, request)
    turns = 1
    while (found := reading.go_on(500)) is None:
        turns += 1
    assert turns >= len(body) // (500 + max(map(len, rows)))
    assert isinstance(found.change, Write)
    assert len(found.change.cells) == 200


def test_rows_of_one_kind_are_read_in_parts_too() -> None:
    rows = [row(ONE, "mutateRows", b"r%03d" % n, [b"value"], 0) for n in range(200)]
    body = StructWriter().binary(1, b"t").structs(2, rows).end()
    reading = Reading(ONE, message("mutateRows", body, Protocol.BINARY))
    turns = 1
    while reading.go_on(500) is None:
        turns += 1
    assert turns == -(-(len(body) - 12) // -(-500 // len(rows[0]) * len(rows[0])))


def test_what_has_few_cells_is_read_at_once() -> None:
    body = StructWriter().binary(1, b"t").binary(2, b"r").binary(3, b"f:q").end()
    found = Reading(ONE, message("deleteAll", body, Protocol.BINARY)).go_on(1)
    assert found is not None
    assert found.tables == ("t",)
