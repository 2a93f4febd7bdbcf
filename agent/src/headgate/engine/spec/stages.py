"""What makes an action a stage: increments flow into it and out of it (BIPS, section 2.2)."""

from __future__ import annotations

from msgspec import Struct

DEFAULT_BACKLOG = 100
"""Increments; a consumer that is so far behind needs somebody who looks after it."""


class FlowId(Struct, frozen=True, order=True):
    """A flow: one of the outputs of an action."""

    action: str
    flow: str

    def __str__(self) -> str:
        return f"{self.action}.{self.flow}"


class RunnableSpec(Struct, frozen=True):
    """Which increments a run reads, by the name of a rule and what the rule is set to."""

    kind: str = "all"
    setting: int | dict[str, int] | None = None


class StageSpec(Struct, frozen=True):
    """The flows of an action. ``inputs`` says, by the name that the stage has for it, which flow.

    ``backlog`` is in increments: the producer of an input flow is held while so many are unread.
    """

    inputs: dict[str, FlowId] = {}
    outputs: tuple[str, ...] = ()
    runnable: RunnableSpec = RunnableSpec()
    backlog: int = DEFAULT_BACKLOG
