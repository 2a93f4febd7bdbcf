"""Thrift on the wire, without I/O: framing, the binary and compact protocols, walking over values.

Transport (``reader``), protocol (``binary``, ``compact``, ``detection``) and walkers (``walker``,
``compact_walker``, ``cursor``) know as little of each other as they can: what nobody asks for is
never decoded and passes as bytes. A ``Cursor`` reads binary; ``to_binary`` makes that of compact.
"""

from headgate.wire.binary import (
    BOOL,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRING,
    STRUCT,
    read_header,
)
from headgate.wire.cursor import Cursor
from headgate.wire.detection import detect
from headgate.wire.errors import (
    FrameTooLarge,
    LimitExceeded,
    MalformedMessage,
    ProtocolError,
    TransportMismatch,
    UnsupportedProtocol,
)
from headgate.wire.layouts import Layout, layout_of
from headgate.wire.message import (
    Header,
    Limits,
    Message,
    MessageType,
    Protocol,
    Transport,
    WireFormat,
)
from headgate.wire.reader import MessageReader
from headgate.wire.runs import ENOUGH, all_but, run_of
from headgate.wire.transcoder import Expansion, to_binary, transcode, write_header
from headgate.wire.walker import StructWalker
from headgate.wire.writer import (
    ApplicationError,
    StructWriter,
    write_exception,
    write_message,
    write_reply,
)

__all__ = [
    "BOOL",
    "BYTE",
    "DOUBLE",
    "ENOUGH",
    "I16",
    "I32",
    "I64",
    "LIST",
    "MAP",
    "SET",
    "STRING",
    "STRUCT",
    "ApplicationError",
    "Cursor",
    "Expansion",
    "FrameTooLarge",
    "Header",
    "Layout",
    "LimitExceeded",
    "Limits",
    "MalformedMessage",
    "Message",
    "MessageReader",
    "MessageType",
    "Protocol",
    "ProtocolError",
    "StructWalker",
    "StructWriter",
    "Transport",
    "TransportMismatch",
    "UnsupportedProtocol",
    "WireFormat",
    "all_but",
    "detect",
    "layout_of",
    "read_header",
    "run_of",
    "to_binary",
    "transcode",
    "write_exception",
    "write_header",
    "write_message",
    "write_reply",
]
