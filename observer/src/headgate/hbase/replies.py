"""Replies that headgate gives in HBase's place."""

from __future__ import annotations

from headgate.hbase.methods import Dialect, method_of
from headgate.wire import ApplicationError, Message, StructWriter, write_exception, write_reply


def io_error_reply(
    dialect: Dialect, request: Message, text: str, *, can_retry: bool = True
) -> bytes:
    """Return the IOError of the dialect that refuses a request, in the request's transport.

    A method that has no IOError gets a ``TApplicationException``. ``can_retry`` says whether
    HBase's own client tries again; both dialects have it in the same field.
    """
    method = method_of(dialect, request.name)
    if not method.io_error:
        return write_exception(request, ApplicationError.INTERNAL_ERROR, text)
    error = StructWriter().binary(1, text.encode()).bool(2, can_retry).end()
    return write_reply(request, StructWriter().struct(method.io_error, error).end())
