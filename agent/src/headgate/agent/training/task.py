"""What a training is asked for and what comes of it, between the agent and its process."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from msgspec import Struct

from headgate.agent.children.code_process import CodeWorker
from headgate.agent.configuration import KafkaOptions
from headgate.agent.training.pairs import FEATURE_SETS, PairBasis, PairKey, WavePairs
from headgate.engine import DataflowSpec
from headgate.learning import LEVELS, FitReport


class PackedPairs(Struct, frozen=True, array_like=True):
    """``WavePairs`` as bytes, little-endian."""

    key: PairKey
    features: bytes
    """float32, shape (a, k)."""
    errors: bytes
    """float64, shape (a,)."""
    basis: PairBasis | None = None


class Source(StrEnum):
    """What models are made of."""

    RECORDING = "recording"
    """Waves that were recorded, of this dataflow."""
    KNOWLEDGE = "knowledge"
    """Stored pairs, which may come from elsewhere."""


class Task(Struct, frozen=True, tag="recording"):
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
    metrics: CodeWorker | None = None
    """Where users' metrics are computed; None where nobody computes any."""
    since: int = 1
    """The oldest wave that may be learned from."""


class StoredTask(Struct, frozen=True, tag="stored"):
    """Have models made of pairs that are stored."""

    spec: DataflowSpec
    """The dataflow."""
    outputs: tuple[str, ...]
    """Bounded ones."""
    waves: int
    """How many were asked for."""
    pairs: tuple[PackedPairs, ...]
    """Of successive waves, the same for each output and container."""


class RefitTask(Struct, frozen=True, tag="refit"):
    """Have models fitted anew to what service has shown."""

    kafka: KafkaOptions
    """Where it was recorded."""
    spec: DataflowSpec
    """The dataflow."""
    models: dict[str, bytes]
    """By output."""
    pairs: tuple[PackedPairs, ...]
    """That they were trained on."""
    last: int
    """The newest wave of service."""
    since: dict[str, int] = {}
    """First wave of service after the last change of the world, by output; labels before it are not
    used."""


AnyTask = Task | StoredTask | RefitTask


def pack_pairs(pairs: WavePairs) -> PackedPairs:
    """Return pairs as bytes."""
    shown = pairs.features.astype("<f4").tobytes()
    return PackedPairs(pairs.key, shown, pairs.errors.astype("<f8").tobytes(), pairs.basis)


def unpack(packed: PackedPairs) -> WavePairs:
    """Return pairs from their bytes.

    Raises:
        ValueError: there are none, other features than are known, or levels that are none.
    """
    measured = np.frombuffer(packed.errors, "<f8")
    if not len(measured):
        raise ValueError(f"wave {packed.key.wave} of output {packed.key.output} has no pair")
    shown = np.frombuffer(packed.features, "<f4").reshape(len(measured), -1)
    if shown.shape[1] not in map(len, FEATURE_SETS.values()):
        raise ValueError(
            f"wave {packed.key.wave} of output {packed.key.output} has {shown.shape[1]} features"
        )
    basis = packed.basis
    if basis is not None and (len(basis.levels) != LEVELS or not np.isfinite(basis.levels).all()):
        raise ValueError(
            f"wave {packed.key.wave} of output {packed.key.output} has not {LEVELS} levels"
        )
    return WavePairs(packed.key, shown, measured, basis)


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
    first: int = 0
    """The oldest wave that was learned from; 0 where none was."""
