"""The time to live that a request gives its cells, in whatever request it may stand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.events import NO_TTL
from headgate.hbase import Cells, Dialect, Write, decode_request, judge
from headgate.wire import Message, MessageReader

NINE_SECONDS = (9000).to_bytes(8)
_TYPES = ("TPut", "TDelete", "TIncrement", "TAppend")
_WITHOUT_ATTRIBUTES = {
    (Dialect.THRIFT1, name) for name in ("atomicIncrement", "increment", "incrementRows", "append")
}


def read(data: bytes) -> Message:
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    return message


def decoded(dialect: Dialect, data: bytes) -> Write:
    write = decode_request(dialect, read(data))
    assert isinstance(write, Write)
    return write


def given_ttl(value: Any, ttl: bytes) -> Any:
    """Return what a request of Thrift2 writes, with the attribute wherever it can stand."""
    if isinstance(value, list):
        return [given_ttl(each, ttl) for each in value]
    if hasattr(value, "thrift_spec"):
        fields = {name: given_ttl(each, ttl) for name, each in vars(value).items()}
        if type(value).__name__ in _TYPES:
            fields["attributes"] = {**(fields["attributes"] or {}), b"_ttl": ttl}
        return type(value)(**fields)
    return value


def with_ttl(case: Any, encoder: Any, ttl: bytes) -> bytes:
    arguments: dict[str, Any] = dict(case.arguments)
    if case.dialect is Dialect.THRIFT1:
        arguments["attributes"] = {**arguments.get("attributes", {}), b"_ttl": ttl}
    else:
        arguments = {name: given_ttl(each, ttl) for name, each in arguments.items()}
    data: bytes = encoder.call(case.dialect, case.method, **arguments)
    return data


def test_every_cell_has_the_time_to_live_of_its_request(case, encoder):
    without = (case.dialect, case.method) in _WITHOUT_ATTRIBUTES

    data = case.encoded if without else with_ttl(case, encoder, NINE_SECONDS)

    expected = () if without else (9000,) * len(case.cells)
    assert decoded(case.dialect, data).cells.every_ttl() == expected
    assert decoded(case.dialect, case.encoded).cells.every_ttl() == ()


@pytest.mark.parametrize(
    ("given", "ttl"),
    [
        (bytes(8), 0),
        ((-1).to_bytes(8, signed=True), 0),
        ((2**63 - 1).to_bytes(8), NO_TTL),
        ((2**63 - 2).to_bytes(8), 2**63 - 2),
        (NINE_SECONDS + b"more", 9000),
        (NINE_SECONDS[:7], NO_TTL),
        (b"", NO_TTL),
    ],
    ids=["none left", "negative", "HBase's none", "the longest", "too long", "too short", "empty"],
)
def test_the_attribute_is_read_as_hbase_reads_it(encoder, given, ttl):
    data = encoder.call(
        Dialect.THRIFT1,
        "mutateRow",
        tableName=b"t",
        row=b"r",
        mutations=[encoder.one.Mutation(column=b"f:a", value=b"1")],
        attributes={b"_ttl": given},
    )

    assert (decoded(Dialect.THRIFT1, data).cells.every_ttl() or (NO_TTL,)) == (ttl,)


@given(ttls=st.lists(st.sampled_from([NO_TTL, 9000, 9000, 5]), max_size=40), wide=st.booleans())
def test_rows_of_one_batch_have_their_own(encoder, ttls, wide):
    two = encoder.two
    qualifiers = [b"a", b"b"] if wide else [b"a"]
    puts = [
        two.TPut(
            row=b"r%03d" % number,
            columnValues=[
                two.TColumnValue(family=b"f", qualifier=name, value=b"v") for name in qualifiers
            ],
            attributes=None if ttl == NO_TTL else {b"_ttl": ttl.to_bytes(8)},
        )
        for number, ttl in enumerate(ttls)
    ]
    data = encoder.call(Dialect.THRIFT2, "putMultiple", table=b"t", tputs=puts)

    cells = decoded(Dialect.THRIFT2, data).cells

    each = tuple(ttl for ttl in ttls for _ in qualifiers)
    assert cells.every_ttl() == (each if set(ttls) - {NO_TTL} else ())


def test_a_put_and_a_delete_of_one_row_keep_theirs_in_the_order_of_the_server(encoder):
    two = encoder.two
    value = two.TColumnValue(family=b"f", qualifier=b"a", value=b"v")
    mutations = [
        two.TMutation(put=two.TPut(row=b"r", columnValues=[value], attributes={b"_ttl": bytes(8)})),
        two.TMutation(deleteSingle=two.TDelete(row=b"r")),
        two.TMutation(
            put=two.TPut(row=b"r", columnValues=[value], attributes={b"_ttl": NINE_SECONDS})
        ),
    ]
    data = encoder.call(
        Dialect.THRIFT2,
        "mutateRow",
        table=b"t",
        trowMutations=two.TRowMutations(row=b"r", mutations=mutations),
    )

    assert decoded(Dialect.THRIFT2, data).cells.every_ttl() == (0, NO_TTL, 9000)


def test_an_increment_keeps_it_with_the_counter_of_the_reply(encoder):
    two = encoder.two
    increment = two.TIncrement(
        row=b"r",
        columns=[two.TColumnIncrement(family=b"f", qualifier=b"a")],
        attributes={b"_ttl": NINE_SECONDS},
    )
    data = encoder.call(Dialect.THRIFT2, "increment", table=b"t", tincrement=increment)
    value = two.TColumnValue(family=b"f", qualifier=b"a", value=bytes(8), timestamp=5)
    reply = encoder.reply(
        Dialect.THRIFT2, "increment", success=two.TResult(row=b"r", columnValues=[value])
    )

    judgement = judge(Dialect.THRIFT2, decoded(Dialect.THRIFT2, data), read(reply))

    assert judgement.cells.every_ttl() == (9000,)


def test_a_row_without_cells_gives_none_a_time_to_live() -> None:
    """Read in parts, such a row once made another list of times to live than read whole."""
    cells = Cells(bytearray(1), [b"r"], [b"f:a"], [-1], [b"1"])
    cells.give_ttls(1, [])
    assert cells.ttls == []
