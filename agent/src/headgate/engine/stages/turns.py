"""Whose turn it is, and who is held: the order of stages that are due (BIPS, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from headgate.engine.stages.connector import FlowView


class Turn(Struct, frozen=True, order=True):
    """The place of a due stage: those that ran least come first, then those due for longest.

    So each stage has run before any other runs again (paper: runCnt, then epochCnt).
    """

    runs: int
    since: float
    """When it became due, in any unit that grows: seconds, or epochs of a scheduler."""


class Reader(Struct, frozen=True):
    """A consumer of an output flow, and what waits for it there."""

    consumer: str
    view: FlowView
    backlog: int
    """Unread increments from which on the producer is held whatever its other outputs have."""
    needs_more: bool = False
    """Whether it cannot run before more comes: then what is unread there holds nobody."""


class OutputFlow(Struct, frozen=True):
    """An output flow and all its consumers."""

    flow: str
    readers: tuple[Reader, ...] = ()


class Hold(Struct, frozen=True):
    """Why a stage is held, and by whom."""

    holders: tuple[str, ...]
    """The consumers that have something unread."""
    words: str


def hold_of(outputs: Iterable[OutputFlow]) -> Hold | None:
    """Return what holds a stage with these output flows; None where nothing does.

    It is held while all have unread increments, for running it would make nobody runnable (section
    4.2: bottleneck detection), or while a consumer is as far behind as its backlog allows.
    """
    outputs = tuple(outputs)
    behind = [
        (output.flow, reader)
        for output in outputs
        for reader in output.readers
        if reader.view.unread >= reader.backlog
    ]
    if behind:
        words = ", ".join(
            f"`{reader.consumer}` has {reader.view.unread} increments of `{flow}` unread, and its "
            f"backlog is {reader.backlog}"
            for flow, reader in behind
        )
        return Hold(_consumers(reader for _, reader in behind), words)
    if not outputs or not all(_is_full(output) for output in outputs):
        return None
    words = ", ".join(
        f"`{output.flow}` is unread by {_listed(_consumers(output.readers))}" for output in outputs
    )
    return Hold(_consumers(r for output in outputs for r in output.readers), words)


def _is_full(output: OutputFlow) -> bool:
    """Return whether more on this flow would make no consumer runnable; with none it may."""
    return bool(output.readers) and all(
        reader.view.unread and not reader.needs_more for reader in output.readers
    )


def first_of_circle(
    stage: str, holders: Callable[[str], Iterable[str] | None], turns: Callable[[str], Turn]
) -> str | None:
    """Return which stage goes on where stages hold each other in a circle; None: wait.

    Args:
        stage: one that is due and held.
        holders: returns who holds a stage that is due; none at all where nobody does, and None
            where the stage is not due: then it, and so those that it holds, may be waited for.
        turns: returns the place of a due stage.
    """
    circle: dict[str, None] = {stage: None}
    waiting = [stage]
    while waiting:
        found = holders(waiting.pop())
        if not found:
            return None  # it runs, or will without those that it holds
        for name in found:
            if name not in circle:
                circle[name] = None
                waiting.append(name)
    return min(circle, key=lambda name: (turns(name), name))


def in_turn(due: Mapping[str, Turn]) -> list[str]:
    """Return stages in the order in which they are to run; equal ones as they were given."""
    return sorted(due, key=due.__getitem__)


def _consumers(readers: Iterable[Reader]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reader.consumer for reader in readers))


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(f"`{name}`" for name in names)
