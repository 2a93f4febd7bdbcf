"""What a stage's runnable in Python is asked, and what it answers (BIPS, section 2.6 and Table 1).

It runs outside the engine: the question is that of a ``Consult``, the answer of a ``Consulted``.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Struct

from headgate.engine.protocol.increments import FramingKey

PYTHON_RUNNABLE: Final = "python-runnable"
"""The kind of these questions, among those that are asked outside the engine."""

SHOWN_INCREMENTS: Final = 256
"""Increments of a flow that a runnable is shown, the oldest: some 12 kB of a question. That is
saved until it is answered, and with its answer until a run comes of it."""

LARGEST_STATE: Final = 16_384
"""Bytes of JSON that a runnable may remember. Each checkpoint of the dataflow has them, and twice
while a run is under way."""

HowMany = int | Literal["all"] | tuple[int, int]
"""How many of the oldest increments; or from which, counted from 0, to before which."""


class WaitingIncrement(Struct, frozen=True, array_like=True):
    """An increment that waits; those in a row with one framing key are one."""

    name: str
    index: int
    key: FramingKey
    rows: int


class WaitingFlow(Struct, frozen=True, array_like=True):
    """What waits on an input flow: ``increments`` are the oldest of the ``waiting`` ones.

    The oldest ``read`` were read before, and stayed to be read again.
    """

    increments: tuple[WaitingIncrement, ...]
    waiting: int
    read: int


class RunnableQuestion(Struct, frozen=True):
    """What is read of what waits? ``state`` is JSON, what was remembered with the last run."""

    number: int
    """Among the questions of the stage; its answer has the same."""
    entry: str
    """``module:function``."""
    flows: dict[str, WaitingFlow]
    state: str


class RunnableAnswer(Struct, frozen=True):
    """What a runnable has returned; nothing may run where it reads and removes nothing.

    With a ``failure``, in words that follow its name, it has returned nothing of use; ``traceback``
    says where that came from, if it came from its code. With ``removes`` None what is read is
    removed.
    """

    number: int
    reads: dict[str, HowMany] = {}
    removes: dict[str, HowMany] | None = None
    state: str = "null"
    failure: str = ""
    traceback: str = ""


def encode_runnable(message: RunnableQuestion | RunnableAnswer) -> bytes:
    """Return a question or an answer as bytes."""
    return msgspec.msgpack.encode(message)


def decode_runnable_question(data: bytes) -> RunnableQuestion:
    """Return a question from bytes; raises ``msgspec.MsgspecError`` where they are none."""
    return _questions.decode(data)


def decode_runnable_answer(data: bytes) -> RunnableAnswer:
    """Return an answer from bytes; raises ``msgspec.MsgspecError`` where they are none."""
    return _answers.decode(data)


_questions = msgspec.msgpack.Decoder(RunnableQuestion)
_answers = msgspec.msgpack.Decoder(RunnableAnswer)
