"""Pairs and a table to keep them in, for tests."""

from __future__ import annotations

from lived import AllWaves
from simulation.rows import SEALS, MemoryRows
from taught import GRAPH

from headgate.agent.state.sealed import Seals
from headgate.agent.training.knowledge import Knowledge
from headgate.agent.training.pairs import WavePairs, wave_pairs
from headgate.learning import ErrorMetric, Target, levels_of, measured_pairs

WAVES, HORIZON = 9, 4
TARGETS = (
    Target("level", ErrorMetric.RELATIVE, 0.05),
    Target("map", ErrorMetric.RMSE, 2.0),
)


def measured(waves: int = WAVES):
    truth = AllWaves(3, waves)
    histories = {c: truth.history(c) for c in truth.values}
    return {c: measured_pairs(h, HORIZON, levels_of(h.values)) for c, h in histories.items()}


def pairs(waves: int = WAVES, first: int = 101, name: str = "lived") -> list[WavePairs]:
    numbers = range(first, first + waves)
    return wave_pairs(name, 1.7e9, numbers, GRAPH, TARGETS, measured(waves))


def knowledge(
    rows: MemoryRows, waves: int = 1000, seals: Seals = SEALS, models: int = 10
) -> Knowledge:
    return Knowledge(rows, seals, waves, models)
