"""Errors that HBase's Thrift2 server answers with: what was refused, and whether for good."""

from __future__ import annotations

from typing import Any, Final

from thriftpy2.thrift import TApplicationException

from headgate.client.errors import RequestRefused
from headgate.client.structs import thrift

_FINAL_CAUSES: Final = (
    "NoSuchColumnFamilyException",
    "TableNotFoundException",
    "NamespaceNotFoundException",
    "AccessDeniedException",
    "DoNotRetryIOException",
)
"""Causes that no retry cures. HBase calls such an error retryable once its own retries ran out."""


def refusal(method: str, address: str, error: Any) -> RequestRefused:
    """Return the client's own error for an exception that a server answered a method with."""
    text = error.message or "no reason given"
    detail = text.decode(errors="backslashreplace") if isinstance(text, bytes) else str(text)
    first = detail.splitlines()[0] if detail else "no reason given"
    return RequestRefused(
        f"{method} was refused by {address}: {first}", detail, may_pass=_may_pass(error, detail)
    )


def _may_pass(error: Any, detail: str) -> bool | None:
    """Return whether a request that was refused may succeed later; None where nobody says."""
    if isinstance(error, thrift.TIOError):
        return bool(error.canRetry) and not any(cause in detail for cause in _FINAL_CAUSES)
    if isinstance(error, TApplicationException):
        # Whatever the server did not expect: a row that is too long, or a server that starts.
        return None if error.type == TApplicationException.INTERNAL_ERROR else False
    return False
