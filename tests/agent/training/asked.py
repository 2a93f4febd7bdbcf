"""What trainings of tests are asked for."""

from __future__ import annotations

from lived import dataflow

from headgate.agent.configuration import KafkaOptions
from headgate.agent.training.task import Task
from headgate.learning import LearnedSettings, OutputSettings

WAVES, HORIZON = 40, 6
SETTINGS = LearnedSettings(
    {"level": OutputSettings(1e-9), "map": OutputSettings(0.9, confidence=0.8)},
    0.0,
    WAVES,
    HORIZON,
)
SPEC = dataflow(SETTINGS)
KAFKA = KafkaOptions("localhost:1")


def task(outputs: tuple[str, ...] = ("level", "map"), last: int = WAVES, waves: int = 30) -> Task:
    return Task(KAFKA, SPEC, outputs, last, waves)
