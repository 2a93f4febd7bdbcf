"""What can be wrong with bytes from a peer, each kind with its own name and cure."""

from __future__ import annotations


class ProtocolError(Exception):
    """Bytes that this side can't or won't read. After it the stream has no known message border."""


class UnsupportedProtocol(ProtocolError):
    """The peer speaks something that is not read here; the message says what and the cure.

    Attributes:
        spoken: what was recognised, e.g. ``HTTP`` or ``TLS``.
        answer: bytes that a peer of this kind understands as a refusal; empty where there are none.
    """

    def __init__(self, spoken: str, cure: str, answer: bytes = b"") -> None:
        super().__init__(f"the peer speaks {spoken}; {cure}")
        self.spoken = spoken
        self.answer = answer


class TransportMismatch(ProtocolError):
    """The peer frames its messages and should not, or the other way round."""


class FrameTooLarge(ProtocolError):
    """A message longer than ``Limits.max_frame``; refused before its bytes were stored."""


class LimitExceeded(ProtocolError):
    """A string, container or nesting beyond ``Limits``."""


class MalformedMessage(ProtocolError):
    """Bytes that no Thrift writer produces: wrong lengths, unknown types, a message cut short."""
