"""The program that asks runnables in Python: ``python runnable_program.py SECONDS ROOT...``.

It reads questions from its input and writes an answer to each to its output, both as frames of a
length and MessagePack. What functions print goes to the log, its error output. It is run as a file,
so that it loads nothing of the agent.

A function takes what waits, by input flow, and what it last returned as its state (None at first).
Of a flow it is told ``increments`` (the oldest, each with ``index``, ``key`` and ``rows``),
``waiting`` (how many there are) and ``read`` (how many of the oldest were read before). It returns
None where nothing may run, or a dictionary of ``reads``, ``removes`` and ``state``.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from headgate.agent.children.program import serve
from headgate.engine import (
    LARGEST_STATE,
    HowMany,
    RunnableAnswer,
    RunnableQuestion,
    decode_runnable_question,
    encode_runnable,
)

LONGEST_TRACEBACK = 8_000
"""Characters, the last ones: it is saved with the state of the dataflow."""

Load = Callable[[str], Any]
"""Returns the function that ``module:name`` is."""


class UnfitRunnable(Exception):
    """The function is not there, or returns what is no answer; words that follow its name."""


class Returned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a function returns."""

    reads: dict[str, HowMany] = {}
    removes: dict[str, HowMany] | None = None
    state: Any = None


class LoadedRunnables:
    """The runnables of one process, each imported once."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}

    def __call__(self, entry: str) -> Any:
        """Return a function.

        Raises:
            UnfitRunnable: it is not there, or is none.
        """
        if entry not in self._found:
            module, _, name = entry.partition(":")
            found = getattr(import_module(module), name, None)
            if not callable(found):
                raise UnfitRunnable(f"is not there: module `{module}` has no function `{name}`")
            self._found[entry] = found
        return self._found[entry]


def answer_of(question: RunnableQuestion, load: Load) -> RunnableAnswer:
    """Return what a function says; whatever goes wrong is the answer's ``failure``."""
    try:
        returned = load(question.entry)(_waiting(question), json.loads(question.state))
        return _answer(question.number, returned)
    except UnfitRunnable as error:
        return RunnableAnswer(question.number, failure=str(error))
    except BaseException as error:  # noqa: BLE001 -- code of users may raise anything, exits too
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        below = None if error.__traceback__ is None else error.__traceback__.tb_next
        lines = traceback.format_exception(type(error), error, below)
        return RunnableAnswer(
            question.number,
            failure=f"raised {words[:1000]}",
            traceback="".join(lines)[-LONGEST_TRACEBACK:],
        )


def _waiting(question: RunnableQuestion) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "increments": [
                {"index": one.index, "key": one.key, "rows": one.rows} for one in flow.increments
            ],
            "waiting": flow.waiting,
            "read": flow.read,
        }
        for name, flow in question.flows.items()
    }


def _answer(number: int, returned: Any) -> RunnableAnswer:
    if not returned:
        return RunnableAnswer(number)
    try:
        said = msgspec.convert(returned, Returned)
    except msgspec.ValidationError as error:
        raise UnfitRunnable(
            f"returned {returned!r:.200}, which is no dictionary of `reads`, `removes` and "
            f"`state`: {error}"
        ) from None
    try:
        state = json.dumps(said.state, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UnfitRunnable(f"returned a state that is no JSON: {error}") from None
    if len(state) > LARGEST_STATE:
        raise UnfitRunnable(
            f"returned a state of {len(state)} bytes, of {LARGEST_STATE} at most: each checkpoint "
            "has it; keep what is large in the state of the stage"
        )
    return RunnableAnswer(number, said.reads, said.removes, state)


def answering() -> Callable[[bytes], bytes]:
    """Return what answers questions by functions that are each imported once."""
    runnables = LoadedRunnables()
    return lambda question: encode_runnable(
        answer_of(decode_runnable_question(question), runnables)
    )


if __name__ == "__main__":
    serve(answering())
