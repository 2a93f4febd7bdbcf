"""What an epoch has made: files of the state and of the output flows."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headgate.incremental.state.files import FileRef
from headgate.incremental.state.manifest import BucketState


class BucketOutcome(Struct, frozen=True):
    """What an epoch has made of one bucket."""

    bucket: int
    """Its number among the buckets of the state."""
    runs: tuple[FileRef, ...]
    """What has changed of its state: one file, or none."""
    remote: tuple[FileRef, ...]
    """Rows of its translation for groups that are not of this epoch, or of other buckets."""
    outputs: Mapping[str, tuple[FileRef, ...]]
    """By increment: a flow, or with framing a flow and a key (``FramePart``)."""
    groups: int
    waiting: Mapping[str, tuple[FileRef, ...]] = {}
    """Units of all groups that came, by input flow; only of the first bucket, and only where that
    has no group."""


class EpochOutcome(Struct, frozen=True):
    """What a whole epoch has made; nothing of it counts before a manifest with it is committed."""

    buckets: tuple[BucketState, ...]
    """The state after it, all of it."""
    outputs: Mapping[str, tuple[FileRef, ...]]
    groups: int
    """That were translated."""
    written: int
    """Bytes of state, compaction included."""
    waiting: Mapping[str, tuple[FileRef, ...]] = {}
    """Units of all groups that came where no group was there at all, by input flow."""
