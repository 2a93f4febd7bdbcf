"""Good messages to begin with: every request of the table of tests/hbase, in every protocol."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.transport import TCyMemoryBuffer

from headgate.hbase import Dialect
from headgate.wire import (
    ApplicationError,
    Message,
    MessageReader,
    Protocol,
    Transport,
    transcode,
    write_exception,
)

_TESTS = Path(__file__).resolve().parents[1]
if str(_TESTS / "hbase") not in sys.path:
    sys.path.append(str(_TESTS / "hbase"))

from request_table import CASES, ONE, TWO, Encoder  # noqa: E402

_MARK = {Dialect.THRIFT1: b"\x01", Dialect.THRIFT2: b"\x02"}


def read(data: bytes) -> Message:
    """Return the one message that the bytes are."""
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    return message


def requests(dialect: Dialect) -> list[Message]:
    """Return every request of a service in strict binary."""
    return [read(case.encoded) for case in CASES if case.dialect is dialect]


def every_request() -> list[Message]:
    return [each for dialect in Dialect for each in requests(dialect)]


def replies(dialect: Dialect) -> list[Message]:
    """Return replies of several kinds in strict binary."""
    encoder = Encoder()
    if dialect is Dialect.THRIFT1:
        cell = ONE.TCell(value=b"\0" * 7 + b"\5", timestamp=9)
        written = [
            encoder.reply(dialect, "mutateRow"),
            encoder.reply(dialect, "mutateRow", io=ONE.IOError(message="no")),
            encoder.reply(dialect, "mutateRow", ia=ONE.IllegalArgument(message="no")),
            encoder.reply(dialect, "atomicIncrement", success=7),
            encoder.reply(dialect, "append", success=[cell, cell]),
            encoder.reply(dialect, "checkAndPut", success=True),
        ]
    else:
        cell = TWO.TColumnValue(family=b"f", qualifier=b"n", value=b"\0" * 7 + b"\5", timestamp=9)
        result = TWO.TResult(row=b"r", columnValues=[cell])
        written = [
            encoder.reply(dialect, "put"),
            encoder.reply(dialect, "put", io=TWO.TIOError(message="no")),
            encoder.reply(dialect, "increment", success=result),
            encoder.reply(dialect, "append", success=result),
            encoder.reply(dialect, "checkAndMutate", success=False),
            encoder.reply(dialect, "deleteMultiple", success=[TWO.TDelete(row=b"r")]),
        ]
    found = [read(each) for each in written]
    asked = requests(dialect)[0]
    return [*found, read(write_exception(asked, ApplicationError.INTERNAL_ERROR, "no"))]


def bodies(protocol: Protocol) -> list[bytes]:
    """Return the structs of all requests and replies, as they stand in a message."""
    messages = every_request() + [each for dialect in Dialect for each in replies(dialect)]
    written = [transcode(each, protocol, Transport.BUFFERED) for each in messages]
    return [each.raw[each.body :] for each in written]


def streams(*formats: tuple[Transport, Protocol]) -> list[bytes]:
    """Return what connections send that make each request, in each of these formats."""
    return [
        transcode(message, protocol, transport).raw
        for transport, protocol in formats
        for message in every_request()
    ]


def conversations(dialect: Dialect) -> list[bytes]:
    """Return, for each request, a stream of a reply and then it, with the mark of its service."""
    answers = replies(dialect)
    return [
        answers[number % len(answers)].raw + request.raw
        for number, request in enumerate(requests(dialect))
    ]


def repeated(dialect: Dialect) -> list[bytes]:
    """Return, behind the mark of its service, each request and reply several times in a row."""
    messages = requests(dialect) + replies(dialect)
    framed = [transcode(each, Protocol.BINARY, Transport.FRAMED) for each in messages]
    return [_MARK[dialect] + each.raw * 3 for each in (*messages, *framed)]


BATCHES = (
    (Dialect.THRIFT1, "mutateRows"),
    (Dialect.THRIFT2, "putMultiple"),
    (Dialect.THRIFT2, "deleteMultiple"),
)


def alike_rows() -> list[bytes]:
    """Return rows of batches behind the number of their method, with ``#`` in what may differ.

    Behind each are rows like it, but for the lengths of what may differ.
    """
    lengths = (0, 1, 3, 2, 0, 2, 5, 1, 4, 3)
    return [
        bytes((number,)) + b"".join(_struct(row(b"#" * length)) for length in (1, *lengths))
        for number, row in _alike()
    ]


def _alike() -> list[tuple[int, Callable[[bytes], Any]]]:
    batch, mutation = ONE.BatchMutation, ONE.Mutation
    put = partial(mutation, column=b"f:a")
    value = partial(TWO.TColumnValue, family=b"f")
    constant = value(qualifier=b"b", value=b"", timestamp=5)
    more = {"timestamp": 9, "attributes": {b"k": b"v", b"l": b""}}
    column = TWO.TColumn(family=b"f", qualifier=b"#")
    return [
        (0, lambda it: batch(row=b"r" + it, mutations=[put(value=it)])),
        (0, lambda it: batch(row=it, mutations=[put(value=b"1"), put(value=it)])),
        # HBase ignores a put without a qualifier: its value is no cell's.
        (0, lambda it: batch(row=it, mutations=[put(), mutation(column=b"g", value=it)])),
        (0, lambda it: batch(row=it, mutations=[mutation(isDelete=True, column=b"f:#")])),
        (1, lambda it: TWO.TPut(row=it, columnValues=[value(qualifier=b"a", value=b"1" + it)])),
        (
            1,
            lambda it: TWO.TPut(
                row=b"r", columnValues=[value(qualifier=b"#", value=it), constant], **more
            ),
        ),
        (2, lambda it: TWO.TDelete(row=b"r" + it)),
        (2, lambda it: TWO.TDelete(row=it, columns=[column])),
    ]


def _struct(value: Any) -> bytes:
    buffer = TCyMemoryBuffer()
    TCyBinaryProtocol(buffer).write_struct(value)
    return bytes(buffer.getvalue())


def samples(kind: str) -> Callable[[], list[bytes]]:
    """Return what reads the stored messages of all versions; ``kind`` is UPDATES or CONTROLS."""

    def found() -> list[bytes]:
        formats = _TESTS / "formats"
        if str(formats) not in sys.path:
            sys.path.append(str(formats))
        names = getattr(import_module("stored_formats.messages"), kind)
        return [
            (version / f"{name}.msgpack").read_bytes()
            for version in sorted((formats / "samples" / "messages").iterdir())
            for name in names
        ]

    return found
