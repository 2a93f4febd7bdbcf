"""What a training is asked for and what comes of it, between the agent and its process."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from headgate.agent.advisers.metric_process import MetricWorker
from headgate.agent.configuration import KafkaOptions
from headgate.agent.training.pairs import PairKey, WavePairs
from headgate.engine import DataflowSpec
from headgate.learning import FEATURES, FitReport


class Task(Struct, frozen=True):
    """Have models made of a dataflow's past."""

    kafka: KafkaOptions
    """Where it was recorded."""
    spec: DataflowSpec
    """The dataflow."""
    outputs: tuple[str, ...]
    """Bounded ones."""
    last: int
    """The newest wave that may be learned from."""
    waves: int
    """How many there should be."""
    metrics: MetricWorker | None = None
    """Where users' metrics are computed; None where nobody computes any."""


class PackedPairs(Struct, frozen=True, array_like=True):
    """``WavePairs`` as bytes, little-endian."""

    key: PairKey
    features: bytes
    """float32, shape (a, k)."""
    errors: bytes
    """float64, shape (a,)."""


def pack(pairs: WavePairs) -> PackedPairs:
    """Return pairs as bytes."""
    shown = pairs.features.astype("<f4").tobytes()
    return PackedPairs(pairs.key, shown, pairs.errors.astype("<f8").tobytes())


def unpack(packed: PackedPairs) -> WavePairs:
    """Return pairs from their bytes.

    Raises:
        ValueError: there are none, or not as many features as errors.
    """
    measured = np.frombuffer(packed.errors, "<f8")
    if not len(measured):
        raise ValueError(f"wave {packed.key.wave} of output {packed.key.output} has no pair")
    shown = np.frombuffer(packed.features, "<f4").reshape(len(measured), len(FEATURES))
    return WavePairs(packed.key, shown, measured)


class Trained(Struct, frozen=True):
    """What has come of a training."""

    models: dict[str, bytes] = {}
    """By output."""
    reasons: dict[str, str] = {}
    """By output, why there is none."""
    waves: int = 0
    """How many were learned from."""
    last: int = 0
    """The newest of them."""
    left_out: str = ""
    """How many waves were left out and why."""
    report: FitReport | None = None
    """Of the test phase; None where no wave could be learned from."""
    pairs: tuple[PackedPairs, ...] = ()
    failures: dict[str, str] = {}
    """By output or container with a user's metric, what that failed on."""
