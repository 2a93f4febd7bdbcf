"""What learned triggers ask of who trains models, and what comes back."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from headgate.engine import MetricAnswer, MetricQuestion


class Train(Struct, frozen=True, tag="train"):
    """Have models made of the waves before one, all of them synchronous."""

    outputs: tuple[str, ...]
    wave: int
    """The last that has ended."""
    waves: int
    """How many there should be."""
    since: int = 1
    """The first that may be learned from: those before the last change are of another world."""


class ModelsWanted(Struct, frozen=True, tag="models"):
    """Have the models returned by which outputs were decided on; by output, what each is called."""

    models: dict[str, str]


class Measure(Struct, frozen=True, tag="measure"):
    """Have users' metrics say how far outputs are from what was shown before their last runs.

    ``bound`` of each question is the output, ``version`` the wave of the run.
    """

    questions: list[MetricQuestion]


class Refit(Struct, frozen=True, tag="refit"):
    """Have models fitted anew to what service has shown up to a wave."""

    models: dict[str, str]
    """By output, what the model is called that decides."""
    wave: int
    """The last that has ended."""
    since: dict[str, int] = {}
    """First wave after the last change of the world, by output; 1 for outputs that are not listed.
    Labels before it are not used."""


class Lost(Struct, frozen=True, array_like=True):
    """There is no model, for a reason."""

    reason: str


class Models(Struct, frozen=True, tag="models"):
    """By output, a model's bytes, or why there is none."""

    outputs: dict[str, bytes | Lost]
    instead: dict[str, str] = {}
    """By output, the model that was fitted anew: where another decides by now it stays. Empty where
    models were trained or found."""
    waves: tuple[int, int] = (0, 0)
    """The first and the last wave that models were trained on; zeros where they were not."""


class Measured(Struct, frozen=True, tag="measured"):
    """What users' metrics have said."""

    answers: list[MetricAnswer]


Question = Train | Refit | ModelsWanted | Measure
Answer = Models | Measured

_encode = msgspec.msgpack.Encoder().encode
_question: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_answer: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def encode_question(question: Question) -> bytes:
    """Return a question as bytes."""
    return _encode(question)


def decode_question(data: bytes) -> Question:
    """Return a question from its bytes.

    Raises:
        msgspec.MsgspecError: they are none.
    """
    return _question.decode(data)


def encode_answer(answer: Answer) -> bytes:
    """Return an answer as bytes."""
    return _encode(answer)


def decode_answer(data: bytes) -> Answer:
    """Return an answer from its bytes.

    Raises:
        msgspec.MsgspecError: they are none.
    """
    return _answer.decode(data)
