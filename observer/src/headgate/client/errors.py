"""What can go wrong between this client and a Thrift server."""

from __future__ import annotations


class ClientError(Exception):
    """A request to HBase's Thrift server that did not end well."""


class ConnectionFailed(ClientError):
    """Nobody answers at the address, or the connection broke; a write may or may not be done.

    The connection is closed and stays so: whoever knows what a repetition means opens a new one.
    """


class RequestRefused(ClientError):
    """The server answered with an error of its own; the connection is still usable.

    Attributes:
        detail: the server's whole text, which is often a Java stack trace.
        may_pass: whether the same request may succeed later; None where the server does not say,
            as with an internal error.
    """

    def __init__(self, message: str, detail: str, *, may_pass: bool | None = None) -> None:
        super().__init__(message)
        self.detail = detail
        self.may_pass = may_pass
