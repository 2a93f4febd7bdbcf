"""Which of HBase's two services a request is meant for."""

import pytest

from headgate.hbase import METHODS, Dialect, dialect_of
from headgate.wire import (
    Message,
    MessageReader,
    MessageType,
    Protocol,
    StructWriter,
    Transport,
    transcode,
    write_message,
)

STRUCT = StructWriter().binary(1, b"x").end()
SHARED = METHODS[Dialect.THRIFT1].keys() & METHODS[Dialect.THRIFT2].keys()
ASKED_OF_BOTH = {"getThriftServerType", "getClusterId"}


def read(data: bytes) -> Message:
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    return message


def call(name: str, arguments: StructWriter) -> Message:
    return read(write_message(Transport.BUFFERED, name, MessageType.CALL, 1, arguments.end()))


@pytest.mark.parametrize("protocol", [Protocol.BINARY, Protocol.COMPACT])
def test_a_write_is_of_the_service_that_it_was_written_for(case, protocol):
    message = transcode(read(case.encoded), protocol, Transport.FRAMED)
    assert dialect_of(message) is case.dialect


@pytest.mark.parametrize(
    "method", ["createTable", "enableTable", "disableTable", "deleteTable", "isTableEnabled"]
)
def test_tables_are_named_by_a_string_in_thrift1_and_by_a_struct_in_thrift2(method):
    assert dialect_of(call(method, StructWriter().binary(1, b"t"))) is Dialect.THRIFT1
    assert dialect_of(call(method, StructWriter().struct(1, STRUCT))) is Dialect.THRIFT2


def test_a_get_is_told_by_its_second_argument():
    get = StructWriter().binary(1, b"t")
    assert dialect_of(call("get", get.binary(2, b"row"))) is Dialect.THRIFT1
    get = StructWriter().binary(1, b"t")
    assert dialect_of(call("get", get.struct(2, STRUCT))) is Dialect.THRIFT2


@pytest.mark.parametrize("method", sorted(ASKED_OF_BOTH | {"noSuchMethod"}))
def test_what_both_services_or_none_of_them_have_is_of_neither(method):
    assert dialect_of(call(method, StructWriter())) is None


@pytest.mark.parametrize("method", sorted(SHARED - ASKED_OF_BOTH))
def test_arguments_that_fit_no_service_tell_nothing(method):
    assert dialect_of(call(method, StructWriter().i32(1, 1).i32(2, 1).i32(4, 1))) is None
