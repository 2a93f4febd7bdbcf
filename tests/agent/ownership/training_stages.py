"""Stages for threads of training: what was asked when one failed is answered all the same."""

from __future__ import annotations

import queue
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from simulation.rows import SEALS, MemoryRows
from thread_faults import WAIT, Faults, Heard

from headgate.agent.configuration import KafkaOptions
from headgate.agent.metrics import AgentMetrics
from headgate.agent.training.adviser import Computes, LearnedAdviser, Trains
from headgate.agent.training.knowledge import Knowledge
from headgate.agent.training.task import Task
from headgate.agent.training.trainer import Trainer
from headgate.engine import DataflowSpec
from headgate.learning import Lost, Models, ModelsWanted, decode_answer, encode_question

SPEC = DataflowSpec("flow", (), ())
KAFKA = KafkaOptions("localhost:1")


def trainings(heard: Heard, patch: pytest.MonkeyPatch, directory: Path) -> None:
    """A training that could not be begun is answered so; the next is carried out."""
    faults = Faults()
    started = Trainer._started

    def starting(trainer: Trainer) -> Any:
        faults()
        return started(trainer)

    patch.setattr(Trainer, "_started", starting)
    trainer = Trainer(directory, WAIT, heard.supervision, (sys.executable, "-c", ""))
    answers: queue.Queue[Any] = queue.Queue()
    for _ in range(2):
        trainer.train(Task(KAFKA, SPEC, (), 1, 1), lambda *said: answers.put(said[:2]))
    first, second = answers.get(timeout=WAIT), answers.get(timeout=WAIT)
    assert first[0] is None
    assert first[1].startswith("it could not be begun")
    assert "ended with status 0" in second[1]
    trainer.close()


def models(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """A question on which it failed is answered so; the next is answered."""
    faults = Faults()
    found = Knowledge.model

    def finding(knowledge: Knowledge, *of: str) -> bytes:
        faults()
        return found(knowledge, *of)

    patch.setattr(Knowledge, "model", finding)
    adviser = LearnedAdviser(
        SPEC,
        KAFKA,
        cast("Trains", SimpleNamespace(forget=lambda _: None)),
        Knowledge(MemoryRows(), SEALS, 1, 3),
        cast("Computes", None),
        AgentMetrics().of("flow"),
        heard.supervision,
    )
    answers: queue.Queue[Any] = queue.Queue()
    for _number in range(2):
        question = encode_question(ModelsWanted({"out": "0" * 16}))
        adviser.answer(question, lambda *said: answers.put(said))
    assert answers.get(timeout=WAIT)[0] is None
    answer = decode_answer(answers.get(timeout=WAIT)[0])
    assert isinstance(answer, Models)
    assert isinstance(answer.outputs["out"], Lost)
    adviser.close()
