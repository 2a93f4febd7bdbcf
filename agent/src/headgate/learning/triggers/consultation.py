"""What learned triggers ask of who trains models, and what comes back."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class Train(Struct, frozen=True, tag="train"):
    """Have models made of the waves before one, all of them synchronous."""

    outputs: tuple[str, ...]
    wave: int
    """The last that has ended."""
    waves: int
    """How many there should be."""


class ModelsWanted(Struct, frozen=True, tag="models"):
    """Have the models returned by which outputs were decided on; by output, what each is called."""

    models: dict[str, str]


class Refit(Struct, frozen=True, tag="refit"):
    """Have models fitted anew to what service has shown up to a wave."""

    models: dict[str, str]
    """By output, what the model is called that decides."""
    wave: int
    """The last that has ended."""


class Lost(Struct, frozen=True, array_like=True):
    """There is no model, for a reason."""

    reason: str


class Models(Struct, frozen=True):
    """By output, a model's bytes, or why there is none."""

    outputs: dict[str, bytes | Lost]
    instead: dict[str, str] = {}
    """By output, the model that was fitted anew: where another decides by now it stays. Empty where
    models were trained or found."""


Question = Train | Refit | ModelsWanted

_encode = msgspec.msgpack.Encoder().encode
_question: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_answer = msgspec.msgpack.Decoder(Models)


def encode_question(question: Question) -> bytes:
    """Return a question as bytes."""
    return _encode(question)


def decode_question(data: bytes) -> Question:
    """Return a question from its bytes.

    Raises:
        msgspec.MsgspecError: they are none.
    """
    return _question.decode(data)


def encode_answer(answer: Models) -> bytes:
    """Return an answer as bytes."""
    return _encode(answer)


def decode_answer(data: bytes) -> Models:
    """Return an answer from its bytes.

    Raises:
        msgspec.MsgspecError: they are none.
    """
    return _answer.decode(data)
