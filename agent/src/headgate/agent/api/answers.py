"""What the API answers with: JSON, and errors in words."""

from __future__ import annotations

from typing import Any

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headgate.agent.api.messages import ErrorView, ProblemView
from headgate.agent.errors import AgentError, HBaseRefused, Refused, UnknownDataflow
from headgate.flows import DataflowErrors

log = structlog.get_logger("headgate.agent.api")

JSON = "application/json"


def json_answer(content: Any, status: int = 200) -> Response:
    """Return an answer with the content as JSON."""
    return Response(msgspec.json.encode(content), status, media_type=JSON)


def _status(error: Exception) -> int:
    match error:
        case UnknownDataflow():
            return 404
        case Refused():
            return 409
        case HBaseRefused():
            return 502
        case _:
            return 503


async def _agent_error(_: Request, error: Exception) -> Response:
    return json_answer(ErrorView(str(error)), _status(error))


async def _http_error(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = error.detail if isinstance(error, HTTPException) else str(error)
    return json_answer(ErrorView(words), status)


async def _dataflow_errors(_: Request, error: Exception) -> Response:
    found = error.problems if isinstance(error, DataflowErrors) else ()
    problems = tuple(ProblemView(p.file, p.line, p.column, p.message, p.cure) for p in found)
    return json_answer(ErrorView("the dataflow file is not in order", problems), 422)


async def _fault(request: Request, error: Exception) -> Response:
    log.error("request failed", path=request.url.path, exc_info=error)
    words = f"the agent failed to answer ({type(error).__name__}); its log says where"
    return json_answer(ErrorView(words), 500)


ERROR_ANSWERS = {
    AgentError: _agent_error,
    DataflowErrors: _dataflow_errors,
    HTTPException: _http_error,
    Exception: _fault,
}
"""What becomes of an error, by its class."""
