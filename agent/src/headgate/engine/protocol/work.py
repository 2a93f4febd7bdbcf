"""Work of a launch: what a run does with the inputs and the state of its action."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from headgate.engine.protocol.increments import FlowTaken


class RunPurpose(StrEnum):
    """The use that a run makes of the state of its stage."""

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


class Ordinary(Struct, frozen=True, tag="ordinary"):
    """The work of an action without flows: the run reads what has come."""

    purpose: ClassVar = RunPurpose.ADVANCE
    taken: ClassVar[dict[str, FlowTaken]] = {}
    consumes: ClassVar = True


class Advance(Struct, frozen=True, tag="advance"):
    """The work of a stage that goes on from its state: the run reads what it has taken."""

    purpose: ClassVar = RunPurpose.ADVANCE
    consumes: ClassVar = True

    taken: dict[str, FlowTaken] = {}
    """By input flow, the increments that the run reads, and those that it removes."""
    remembered_before: dict[str, int | str] = {}
    """What the policy remembered before the run; remembered again if the run is given up."""


class Rebuild(Struct, frozen=True, tag="rebuild"):
    """The work of a stage that begins with an empty state."""

    purpose: ClassVar = RunPurpose.REBUILD
    consumes: ClassVar = True

    taken: dict[str, FlowTaken] = {}
    """By input flow, the increments that the run reads, and those that it removes."""


class Maintain(Struct, frozen=True, tag="maintain"):
    """The work of a run that writes the same state in fewer files, and reads no input."""

    taken: ClassVar[dict[str, FlowTaken]] = {}
    consumes: ClassVar = False

    wholly: bool
    """True for all files of the state; False for one bucket, what its files have come to need."""

    @property
    def purpose(self) -> RunPurpose:
        """The purpose by which launchers know it."""
        return RunPurpose.COMPACT if self.wholly else RunPurpose.UPKEEP

    @property
    def words(self) -> str:
        """Why it is done, for people."""
        return f"{'somebody' if self.wholly else 'its last run'} asked for fewer files of its state"


Work = Ordinary | Advance | Rebuild | Maintain
"""What a run does. Each says its ``purpose``, what it has ``taken`` of which input flow, and
whether it ``consumes`` what is pending for its action."""
