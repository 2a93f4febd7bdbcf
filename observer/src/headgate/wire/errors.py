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


def cut_short(end: int, count: int, pos: int) -> MalformedMessage:
    """Return the error of a message that ends where so many more bytes were due at ``pos``."""
    return MalformedMessage(f"the message ends at byte {end}; {count} more were due at byte {pos}")


# What exceeds ``Limits``, each with the key of the observer's configuration that allows more.


def message_too_long(most: int, when: str = "") -> FrameTooLarge:
    """Return the error of a message of more than so many bytes."""
    cure = "raise limits.message_bytes or send smaller batches"
    return FrameTooLarge(f"a message of more than {most} bytes{when}; {cure}")


def string_too_long(length: int, most: int) -> LimitExceeded:
    """Return the error of a string of so many bytes."""
    return LimitExceeded(f"a string of {length}; the limit is {most}, limits.string_bytes")


def container_too_large(count: int, most: int) -> LimitExceeded:
    """Return the error of a list, set or map of so many elements."""
    return LimitExceeded(f"a container of {count}; the limit is {most}, limits.container_elements")


def nested_too_deep(most: int) -> LimitExceeded:
    """Return the error of structs and containers inside of each other."""
    return LimitExceeded(f"values nested deeper than {most}, limits.nesting")
