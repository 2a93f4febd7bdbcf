"""What makes an action a stage: increments flow into it and out of it (BIPS, section 2.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

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
    """Which increments a run reads, by the name of a rule and what the rule is set to.

    Of kind ``python`` the rule is a function, ``module:name``.
    """

    kind: str = "all"
    setting: int | str | tuple[str, ...] | dict[str, int] | None = None


class ActionFlows(Struct, frozen=True):
    """The flows of an action, which make it a stage.

    ``inputs`` says, by the name that the stage has for it, which flow. ``backlog`` is in
    increments: the producer of an input flow is held while so many are unread.
    """

    inputs: dict[str, FlowId] = {}
    outputs: tuple[str, ...] = ()
    runnable: RunnableSpec = RunnableSpec()
    backlog: int = DEFAULT_BACKLOG


class OnChange(StrEnum):
    """What becomes of the state of a stage that another version of it wrote."""

    REFUSE = "refuse"
    """Its runs fail until somebody says."""
    REBUILD = "rebuild"
    """The state is made anew from all that its inputs hold."""
    KEEP = "keep"
    """It is right as it is, where only the version differs."""


def stage_problems(
    place: str, stage: ActionFlows, outputs: Mapping[str, tuple[str, ...]]
) -> Iterable[str]:
    """Yield in words what is wrong with a stage; ``outputs`` are those of all actions, by name."""
    for name, source in stage.inputs.items():
        known = outputs.get(source.action)
        if known is None:
            yield f"{place}, flow {name!r}: {source.action!r} is no action"
        elif source.flow not in known:
            has = ", ".join(known) or "none"
            words = f"{source.action!r} has no output {source.flow!r}, but {has}"
            yield f"{place}, flow {name!r}: {words}"
    for name, times in Counter(stage.outputs).items():
        if times > 1:
            yield f"{place}: output flow {name!r} is declared twice; rename one"
    if stage.backlog < 1:
        yield f"{place}: a backlog of {stage.backlog} increments holds its producers for ever"
