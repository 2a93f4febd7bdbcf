"""Who wrote: the run whose step sent a request, or whom its connection belongs to.

An origin travels as the value of an attribute of a request, in one of two forms: what Headgate's
own programs send is a MessagePack array, shorter and told apart by its first byte; what any other
program may send is a JSON object, ``{"dataflow": "air", "action": "feed"}``.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

ORIGIN_ATTRIBUTE = b"headgate.origin"
"""Name of the Thrift2 attribute that carries an encoded origin on puts, deletes and the like."""


class Origin(Struct, frozen=True, array_like=True):
    """A run's attempt, an action whose run is not known, or a writer outside of all dataflows.

    ``run`` is empty where only the connection says who writes: its listener or its certificate.
    ``dataflow`` is empty for a writer that belongs to none, and ``action`` then too.
    """

    dataflow: str
    action: str
    run: str
    token: int
    """The run's fencing token: an observer refuses one below the fence."""
    writer: str = ""
    proof: bytes = b""
    """A signature by which an agent is known that writes its own state; it names nobody then."""

    @property
    def nameless(self) -> bool:
        """Whether it says nothing of who writes, but perhaps that it is an agent."""
        return not (self.writer or self.dataflow)

    @property
    def name(self) -> str:
        """``dataflow/action``, or the writer's name: what rules and metrics call it."""
        return self.writer or f"{self.dataflow}/{self.action}"


def agent_origin(proof: bytes) -> Origin:
    """Return what an agent sends with a change of its own state: a proof that it is one."""
    return Origin("", "", "", 0, "", proof)


# msgspec lets two through: text that is no UTF-8, and endless lists in lists in a skipped field.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no message."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Origin)

_LONGEST: Final = 4096
"""Bytes of an encoded origin: names of dataflow, action and run, each some hundred at most. It goes
with each of its writes, and into the log and the rules' text."""
_TEXT_BELOW: Final = b"\x80"  # a MessagePack array begins above what begins a JSON text


class OriginText(Struct, frozen=True, omit_defaults=True):
    """An origin with its fields by name: what JSON says and shows of it.

    Either ``writer`` alone, or ``dataflow``, with ``action`` where one is meant, and with ``run``
    and ``token`` where a run of it is.
    """

    dataflow: str = ""
    action: str = ""
    run: str = ""
    token: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    writer: str = ""


_text_encoder = msgspec.json.Encoder()
_text_decoder = msgspec.json.Decoder(OriginText)
_FORM: Final = (
    'write {"writer": NAME}, or {"dataflow": NAME, "action": NAME}, and for a run of it "run" and '
    '"token" too'
)


def origin_text(origin: Origin) -> OriginText:
    """Return an origin with its fields by name."""
    return OriginText(origin.dataflow, origin.action, origin.run, origin.token, origin.writer)


def encode_origin_text(origin: Origin) -> str:
    """Return the value of the origin attribute, as any program may send it."""
    return _text_encoder.encode(origin_text(origin)).decode()


def encode_origin(origin: Origin) -> bytes:
    """Return the value of the origin attribute, in the shorter form."""
    return _encoder.encode(origin)


def decode_origin(data: bytes) -> Origin:
    """Return the origin in an attribute's value, whichever form it has.

    Raises:
        ValueError: the bytes are no origin.
    """
    try:
        if len(data) > _LONGEST:
            message = f"it has {len(data)} bytes, {_LONGEST} at most"
            raise ValueError(message)  # noqa: TRY301 - as what the decoders raise
        return _from_text(data) if data[:1] < _TEXT_BELOW else _decoder.decode(data)
    except (ValueError, *UNREADABLE) as error:
        message = f"attribute {ORIGIN_ATTRIBUTE.decode()} holds no origin: {error}; {_FORM}"
        raise ValueError(message) from error


def _from_text(data: bytes) -> Origin:
    text = _text_decoder.decode(data)
    if text.writer:
        if text.dataflow or text.action or text.run or text.token:
            message = "a writer belongs to no dataflow, and has no action, run and token"
            raise ValueError(message)
    elif not text.dataflow:
        message = "it names neither a writer nor a dataflow"
        raise ValueError(message)
    elif bool(text.run) != bool(text.token) or (text.run and not text.action):
        message = "an action, a run of it and the run's token go together"
        raise ValueError(message)
    return Origin(text.dataflow, text.action, text.run, text.token, text.writer)
