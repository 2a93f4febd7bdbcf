"""What a run of a stage is for, besides taking what has come."""

from __future__ import annotations

from enum import StrEnum


class RunPurpose(StrEnum):
    """What a run does with the state of its stage."""

    ADVANCE = "advance"
    """It goes on from the state with what has come: the usual."""
    REBUILD = "rebuild"
    """It begins with an empty state, and is given everything that its inputs hold."""
    COMPACT = "compact"
    """It reads nothing of its inputs: it only writes the same state in as few files as can be."""
    UPKEEP = "upkeep"
    """Likewise, but of one bucket, what its files have come to need."""

    @property
    def maintains(self) -> bool:
        """Whether it reads nothing and changes no state."""
        return self in (RunPurpose.COMPACT, RunPurpose.UPKEEP)
