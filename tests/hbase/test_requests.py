"""Every mutating method, decoded from what an independent encoder wrote."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from headgate.events import ORIGIN_ATTRIBUTE, Origin, TableChangeKind, encode_origin
from headgate.hbase import (
    METHODS,
    Dialect,
    Effect,
    SchemaChange,
    Write,
    decode_request,
    method_of,
    read_request,
)
from headgate.wire import (
    MalformedMessage,
    Message,
    MessageReader,
    MessageType,
    StructWriter,
    Transport,
    write_message,
)


def read(data: bytes) -> Message:
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    return message


def in_rows(write: Write | SchemaChange) -> list[tuple]:
    assert isinstance(write, Write)
    cells = write.cells
    columns = (cells.kinds, cells.rows, cells.columns, cells.timestamps, cells.values)
    return list(zip(*columns, strict=True))


def on_the_wire(case, transport: Transport) -> bytes:
    data = case.encoded
    return struct.pack(">i", len(data)) + data if transport is Transport.FRAMED else data


def arrivals(data: bytes, manner: str) -> list[bytes]:
    if manner == "byte by byte":
        return [data[i : i + 1] for i in range(len(data))]
    return [data]


@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("manner", ["whole", "byte by byte", "with trailing data"])
def test_a_request_is_decoded_into_its_cells(case, transport, manner):
    data = on_the_wire(case, transport)
    trailing = data[: len(data) // 2] if manner == "with trailing data" else b""
    reader = MessageReader()
    message = None
    for part in arrivals(data + trailing, manner):
        assert message is None, "a message before its last byte"
        reader.feed(part)
        message = reader.next_message()
    assert message is not None
    assert message.raw == data
    assert message.transport is transport
    assert (message.name, message.type, message.seqid) == (case.method, MessageType.CALL, 7)
    assert reader.buffered == len(trailing)

    write = decode_request(case.dialect, message)

    assert isinstance(write, Write)
    assert in_rows(write) == case.cells
    assert (write.method, write.table) == (case.method, "t")
    assert write.origins == case.origins
    assert write.conditional is case.conditional
    assert write.ambiguous == case.ambiguous
    assert tuple(other.table for other in write.others) == case.others


def test_one_reading_tells_method_tables_and_change(case):
    message = read(case.encoded)
    request = read_request(case.dialect, message)
    assert (request.message, request.method.name) == (message, case.method)
    assert request.tables == ("t", *case.others)
    assert request.change == decode_request(case.dialect, message)


def test_the_table_of_requests_has_every_method_that_writes(cases):
    for dialect, methods in METHODS.items():
        mutators = {name for name, method in methods.items() if method.effect is Effect.WRITE}
        assert mutators == {case.method for case in cases if case.dialect is dialect}


def test_a_request_cut_anywhere_is_malformed_and_nothing_else(case):
    whole = case.encoded
    message = read(whole)
    for end in range(message.body, len(whole)):
        cut = Message(whole[:end], message.body, message.name, message.type, 7, Transport.BUFFERED)
        with pytest.raises(MalformedMessage):
            decode_request(case.dialect, cut)


def backwards(dialect: Dialect, name: str, *fields: tuple[str, int, object]) -> Message:
    """Return a request whose fields come in an unusual order, with unknown ones among them."""
    writer = StructWriter().i64(99, 1).mapping(98, {b"k": b"v"})
    for kind, field, value in fields:
        getattr(writer, kind)(field, value)
    return read(write_message(Transport.BUFFERED, name, MessageType.CALL, 1, writer.end()))


def test_fields_may_come_in_any_order_and_with_unknown_ones_among_them():
    mutation = (
        StructWriter().i32(50, 1).binary(3, b"v").binary(2, b"f:a").bool(1, False).i64(51, 2).end()
    )
    batch = StructWriter().structs(2, [mutation]).i32(9, 9).binary(1, b"r").i64(51, 2).end()
    row = backwards(
        Dialect.THRIFT1,
        "mutateRow",
        ("structs", 3, [mutation]),
        ("binary", 2, b"r"),
        ("binary", 1, b"t"),
    )
    rows = backwards(
        Dialect.THRIFT1,
        "mutateRowsTs",
        ("i64", 3, 44),
        ("structs", 2, [batch, batch]),
        ("binary", 1, b"t"),
    )
    value = StructWriter().binary(3, b"v").binary(2, b"a").i32(40, 1).binary(1, b"f").end()
    put = StructWriter().i64(3, 5).structs(2, [value]).binary(1, b"r").end()
    put2 = backwards(Dialect.THRIFT2, "put", ("struct", 2, put), ("binary", 1, b"t"))

    assert in_rows(decode_request(Dialect.THRIFT1, row)) == [(0, b"r", b"f:a", -1, b"v")]
    assert in_rows(decode_request(Dialect.THRIFT1, rows)) == 2 * [(0, b"r", b"f:a", 44, b"v")]
    assert in_rows(decode_request(Dialect.THRIFT2, put2)) == [(0, b"r", b"f:a", 5, b"v")]
    assert read_request(Dialect.THRIFT2, put2).tables == ("t",)


def test_a_row_may_carry_unknown_fields_behind_its_mutations():
    mutation = StructWriter().bool(1, False).binary(2, b"f:a").binary(3, b"v").bool(4, True).end()
    batch = StructWriter().binary(1, b"r").structs(2, [mutation]).i32(9, 9).end()
    rows = backwards(
        Dialect.THRIFT1, "mutateRows", ("binary", 1, b"t"), ("structs", 2, [batch, batch])
    )
    assert in_rows(decode_request(Dialect.THRIFT1, rows)) == 2 * [(0, b"r", b"f:a", -1, b"v")]


def test_bytes_of_another_field_are_never_taken_for_a_puts_value_or_its_end() -> None:
    def row(mutation: StructWriter) -> StructWriter:
        return StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [mutation.end()])

    put = StructWriter().bool(1, False).binary(2, b"f:a")
    # A number in whose bytes the head of a value stands, one byte later than it would.
    number = row(put.i64(0x0B00, 0x03_00000003_616263).bool(4, True)).end()
    # Another field behind the value; the arguments end as a mutation does.
    longer = StructWriter().bool(1, False).binary(2, b"f:a").binary(3, b"v").i32(50, 1)
    # A number of two bytes that are the end of a mutation, one byte later than it would stand.
    short = StructWriter().bool(1, False).binary(2, b"f:a").binary(3, b"v").end()[:-1]
    short += b"\x06\x02\x00\x04\x01\0"
    # The value's last byte and what follows its mutation look like that end.
    early = row(StructWriter().bool(1, False).binary(2, b"f:a").binary(3, b"v\x02")).end()[:-1]
    early += b"\x04\x01\x00" + bytes(8) + b"\0"
    for body, value in (
        (number, b""),
        (row(longer).bool(4, True).end(), b"v"),
        (StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [short]).end(), b"v"),
        (early, b"v\x02"),
    ):
        message = read(write_message(Transport.BUFFERED, "mutateRow", MessageType.CALL, 1, body))
        cells = in_rows(decode_request(Dialect.THRIFT1, message))
        assert cells == [(0, b"r", b"f:a", -1, value)]


@pytest.mark.parametrize(
    "cell",
    [
        # A number in whose bytes the head of a string stands, one byte later than it would.
        StructWriter().binary(1, b"f").i64(0x0B00, 0x02_00000003_717171).binary(3, b"v").end(),
        StructWriter().binary(1, b"f").binary(2, b"q").i64(0x0B00, 0x03_00000003_767676).end(),
    ],
    ids=["qualifier", "value"],
)
def test_bytes_of_another_field_are_never_taken_for_a_part_of_a_cell(cell: bytes) -> None:
    put = StructWriter().binary(1, b"r").structs(2, [cell]).end()
    body = StructWriter().binary(1, b"t").struct(2, put).end()
    message = read(write_message(Transport.BUFFERED, "put", MessageType.CALL, 1, body))
    with pytest.raises(MalformedMessage, match="a TColumnValue without"):
        decode_request(Dialect.THRIFT2, message)


@pytest.mark.parametrize(
    "batch",
    [
        # a number that says how far it is to the mutations, as the length of a key would
        StructWriter().i64(1, 4 << 32).structs(2, []).end(),
        # a list that is not the mutations
        StructWriter().binary(1, b"r").structs(1, []).end(),
    ],
)
def test_a_field_of_another_type_is_never_taken_for_a_batchs_key_or_mutations(
    batch: bytes,
) -> None:
    body = StructWriter().binary(1, b"t").structs(2, [batch]).end()
    message = read(write_message(Transport.BUFFERED, "mutateRows", MessageType.CALL, 1, body))
    with pytest.raises(MalformedMessage, match="without its row or mutations"):
        decode_request(Dialect.THRIFT1, message)


def test_each_write_of_thrift1_that_can_name_its_origin_is_read_with_it(case, encoder):
    if case.dialect is not Dialect.THRIFT1:
        return
    arguments = getattr(encoder.one.Hbase, f"{case.method}_args")
    if "attributes" not in {spec[1] for spec in arguments.thrift_spec.values()}:
        return
    origin = Origin("flow", "step", "run", 5)
    attributes = {b"other": b"x", ORIGIN_ATTRIBUTE: encode_origin(origin)}
    fields = {**case.arguments, "attributes": attributes}
    write = decode_request(case.dialect, read(encoder.call(case.dialect, case.method, **fields)))
    assert isinstance(write, Write)
    assert write.origins == (origin,)


@pytest.mark.parametrize("own", [-(2**63), -(2**62) - 1, -3, -2, -1, 0, 2**62, 2**63 - 2])
def test_a_cells_own_timestamp_is_never_taken_for_none(encoder, own):
    two = encoder.two
    cell = two.TColumnValue(family=b"f", qualifier=b"q", value=b"v", timestamp=own)
    put = two.TPut(row=b"r", columnValues=[cell], timestamp=7)
    message = read(encoder.call(Dialect.THRIFT2, "put", table=b"t", tput=put))
    assert in_rows(decode_request(Dialect.THRIFT2, message)) == [(0, b"r", b"f:q", own, b"v")]


@pytest.mark.parametrize(
    ("dialect", "method", "body"),
    [
        (Dialect.THRIFT1, "mutateRow", StructWriter().binary(1, b"t").end()),
        (Dialect.THRIFT1, "mutateRows", StructWriter().structs(2, []).end()),
        (Dialect.THRIFT1, "incrementRows", StructWriter().end()),
        (Dialect.THRIFT1, "deleteAll", StructWriter().binary(1, b"t").binary(2, b"r").end()),
        *[
            # a batch of which a row has no name, in whatever order its fields come
            (Dialect.THRIFT1, "mutateRows", StructWriter().binary(1, b"t").structs(2, [row]).end())
            for row in (
                StructWriter().structs(2, []).end(),
                StructWriter().structs(2, []).i64(1, 5).end(),
                StructWriter().i64(1, 5).structs(2, []).end(),
                StructWriter().i64(9, 5).binary(1, b"r").end(),
            )
        ],
        (Dialect.THRIFT2, "put", StructWriter().binary(1, b"t").end()),
        (
            Dialect.THRIFT2,
            "deleteSingle",
            StructWriter().binary(1, b"t").struct(2, StructWriter().end()).end(),
        ),
    ],
)
def test_a_request_without_what_its_method_needs_is_malformed(dialect, method, body):
    message = read(write_message(Transport.BUFFERED, method, MessageType.CALL, 1, body))
    with pytest.raises(MalformedMessage, match="without"):
        decode_request(dialect, message)


Field = tuple[str, int, object]
"""Of a struct: the writer's method for its kind, its number and its value."""


def struct_of(fields: Sequence[Field]) -> bytes:
    writer = StructWriter()
    for kind, number, value in fields:
        getattr(writer, kind)(number, value)
    return writer.end()


MUTATION = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
TABLE, ROW, COLUMN = ("binary", 1, b"t"), ("binary", 2, b"r"), ("binary", 3, b"f:q")
VALUE = struct_of([("binary", 1, b"f"), ("binary", 2, b"q"), ("binary", 3, b"v")])
NEEDED: dict[str, list[Field]] = {
    "mutateRow": [TABLE, ROW, ("structs", 3, [MUTATION])],
    "mutateRowTs": [TABLE, ROW, ("structs", 3, [MUTATION])],
    "mutateRows": [TABLE, ("structs", 2, [struct_of([("binary", 1, b"r"), ("structs", 2, [])])])],
    "deleteAll": [TABLE, ROW, COLUMN],
    "deleteAllRow": [TABLE, ROW],
    "checkAndPut": [TABLE, ROW, ("struct", 6, MUTATION)],
    "atomicIncrement": [TABLE, ROW, COLUMN],
}


@pytest.mark.parametrize(
    ("method", "left_out"), [(name, nth) for name in NEEDED for nth in range(len(NEEDED[name]))]
)
def test_each_field_that_a_method_needs_must_be_there(method: str, left_out: int) -> None:
    def decoded(fields: list[Field]) -> object:
        body = struct_of(fields)
        message = read(write_message(Transport.BUFFERED, method, MessageType.CALL, 1, body))
        return decode_request(Dialect.THRIFT1, message)

    fields = NEEDED[method]
    assert decoded(fields)
    with pytest.raises(MalformedMessage, match=f"{method} without its table"):
        decoded([*fields[:left_out], *fields[left_out + 1 :]])


@pytest.mark.parametrize(
    ("method", "left_out"),
    [
        (method, nth)
        for method, count in (("append", 2), ("increment", 3), ("incrementRows", 3))
        for nth in range(count)
    ],
)
def test_each_field_of_a_struct_that_a_method_needs_must_be_there(
    method: str, left_out: int
) -> None:
    def decoded(fields: list[Field]) -> object:
        inner = struct_of(fields)
        outer = ("structs", 1, [inner]) if method == "incrementRows" else ("struct", 1, inner)
        data = write_message(Transport.BUFFERED, method, MessageType.CALL, 1, struct_of([outer]))
        return decode_request(Dialect.THRIFT1, read(data))

    fields: list[Field] = [TABLE, ROW, *([] if method == "append" else [COLUMN])]
    assert decoded(fields)
    with pytest.raises(MalformedMessage, match="without its table"):
        decoded([*fields[:left_out], *fields[left_out + 1 :]])


THRIFT2_NEEDED: dict[str, list[Field]] = {
    "put": [("binary", 1, b"r"), ("structs", 2, [VALUE])],
    "deleteSingle": [("binary", 1, b"r")],
    "increment": [
        ("binary", 1, b"r"),
        ("structs", 2, [struct_of([("binary", 1, b"f"), ("binary", 2, b"q")])]),
    ],
    "append": [("binary", 1, b"r"), ("structs", 2, [VALUE])],
}


@pytest.mark.parametrize("method", THRIFT2_NEEDED)
def test_a_write_of_thrift2_needs_its_table_its_row_and_whole_cells(method: str) -> None:
    def decoded(fields: list[Field], *, table: bool = True) -> object:
        body = struct_of([TABLE] * table + [("struct", 2, struct_of(fields))])
        message = read(write_message(Transport.BUFFERED, method, MessageType.CALL, 1, body))
        return decode_request(Dialect.THRIFT2, message)

    fields = THRIFT2_NEEDED[method]
    assert decoded(fields)
    with pytest.raises(MalformedMessage, match="without its table"):
        decoded(fields, table=False)
    with pytest.raises(MalformedMessage, match="without its row"):
        decoded(fields[1:])
    if len(fields) > 1:
        of_cell: list[Field] = [("binary", 1, b"f"), ("binary", 2, b"q"), ("binary", 3, b"v")]
        for nth in range(2 if method == "increment" else 3):
            for instead in ([], [("binary", 9, b"x")]):
                part = struct_of([*of_cell[:nth], *instead, *of_cell[nth + 1 :]])
                with pytest.raises(MalformedMessage, match="without its"):
                    decoded([fields[0], ("structs", 2, [part])])


def test_counters_of_an_empty_list_are_no_counters_and_not_refused():
    body = StructWriter().structs(1, []).end()
    message = read(write_message(Transport.BUFFERED, "incrementRows", MessageType.CALL, 1, body))
    assert in_rows(decode_request(Dialect.THRIFT1, message)) == []


def test_an_origin_that_headgate_did_not_write_is_malformed_and_says_where(encoder):
    put = encoder.two.TPut(row=b"r", columnValues=[], attributes={b"headgate.origin": b"\xc1"})
    message = read(encoder.call(Dialect.THRIFT2, "put", table=b"t", tput=put))
    write = decode_request(Dialect.THRIFT2, message)
    assert isinstance(write, Write)
    assert write.origins == (None,)
    assert "headgate.origin" in write.origin_error, "the write itself is understood"


@pytest.mark.parametrize(
    ("name", "seen"),
    [(b"t", "t"), (b"default:t", "t"), (b"space:t", "space:t"), (b"\xff", "\\xff")],
)
def test_tables_are_named_as_hbase_prints_them(encoder, name, seen):
    message = read(encoder.call(Dialect.THRIFT1, "deleteAllRow", tableName=name, row=b"r"))
    assert read_request(Dialect.THRIFT1, message).tables == (seen,)


@pytest.mark.parametrize(
    ("namespace", "seen"), [(None, "t"), (b"", "t"), (b"default", "t"), (b"space", "space:t")]
)
def test_table_names_of_thrift2_include_their_namespace(encoder, namespace, seen):
    name = encoder.two.TTableName(ns=namespace, qualifier=b"t")
    message = read(encoder.call(Dialect.THRIFT2, "disableTable", tableName=name))
    change = decode_request(Dialect.THRIFT2, message)
    assert isinstance(change, SchemaChange)
    assert (change.table, change.kind) == (seen, TableChangeKind.DISABLED)


def test_what_is_no_part_of_a_tables_name_is_passed_over() -> None:
    numbers = StructWriter().i64(1, 5).i64(2, 6)
    name = numbers.binary(1, b"a").binary(2, b"t").binary(9, b"x").end()
    body = StructWriter().struct(1, name).end()
    raw = write_message(Transport.BUFFERED, "tableExists", MessageType.CALL, 1, body)
    assert read_request(Dialect.THRIFT2, read(raw)).tables == ("a:t",)


def test_other_parts_of_a_tables_description_are_passed_over() -> None:
    name, other = (StructWriter().binary(2, each).end() for each in (b"t", b"other"))
    described = StructWriter().i64(1, 5).struct(9, other).struct(1, name).end()
    body = StructWriter().struct(1, described).end()
    raw = write_message(Transport.BUFFERED, "createTable", MessageType.CALL, 1, body)
    assert read_request(Dialect.THRIFT2, read(raw)).tables == ("t",)


def test_definitions_that_destroy_cells_name_their_table_and_family(encoder):
    two = encoder.two
    name = two.TTableName(qualifier=b"t")
    family = two.TColumnFamilyDescriptor(name=b"f", maxVersions=1)
    descriptor = two.TTableDescriptor(tableName=name, columns=[family])
    requests = {
        (Dialect.THRIFT1, "disableTable", "disabled", ""): {"tableName": b"t"},
        (Dialect.THRIFT1, "deleteTable", "dropped", ""): {"tableName": b"t"},
        (Dialect.THRIFT2, "disableTable", "disabled", ""): {"tableName": name},
        (Dialect.THRIFT2, "deleteTable", "dropped", ""): {"tableName": name},
        (Dialect.THRIFT2, "truncateTable", "truncated", ""): {
            "tableName": name,
            "preserveSplits": True,
        },
        (Dialect.THRIFT2, "deleteColumnFamily", "family-dropped", "f"): {
            "tableName": name,
            "column": b"f",
        },
        (Dialect.THRIFT2, "modifyColumnFamily", "modified", "f"): {
            "tableName": name,
            "column": family,
        },
        (Dialect.THRIFT2, "modifyTable", "modified", ""): {"desc": descriptor},
    }
    for (dialect, method, kind, of_family), arguments in requests.items():
        change = decode_request(dialect, read(encoder.call(dialect, method, **arguments)))
        assert isinstance(change, SchemaChange)
        assert (change.table, change.kind, change.family) == ("t", kind, of_family)
    for dialect, methods in METHODS.items():
        destroying = {name for name, method in methods.items() if method.effect is Effect.DEFINE}
        assert destroying == {method for d, method, _, _ in requests if d is dialect}


def test_a_method_that_hbase_does_not_have_is_unknown():
    assert method_of(Dialect.THRIFT1, "putMultiple").effect is Effect.UNKNOWN
    assert method_of(Dialect.THRIFT2, "put").effect is Effect.WRITE


def test_reads_are_not_decoded(encoder):
    message = read(encoder.call(Dialect.THRIFT1, "getRow", tableName=b"t", row=b"r", attributes={}))
    assert read_request(Dialect.THRIFT1, message).tables == ("t",)
    with pytest.raises(ValueError, match="changes nothing"):
        decode_request(Dialect.THRIFT1, message)


def test_a_list_of_descriptions_names_each_table_and_perhaps_none() -> None:
    names = [
        StructWriter().binary(1, namespace).binary(2, b"t").end()
        for namespace in (b"default", b"x", b"")
    ]
    for asked, found in ((names, ("t", "x:t")), ([], ())):
        body = StructWriter().structs(1, asked).end()
        reader = MessageReader()
        reader.feed(
            write_message(Transport.BUFFERED, "getTableDescriptors", MessageType.CALL, 0, body)
        )
        message = reader.next_message()
        assert message is not None
        assert read_request(Dialect.THRIFT2, message).tables == found
