"""What an engine knows of containers while a recording passes through it.

It is the engine that decides in service, so values are decoded, duplicates left out and updates
counted by the same code: what is learned from is bit for bit what is decided by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Advice,
    CellsRead,
    ConditionResult,
    Consulted,
    ContainerScanned,
    ContainerWatch,
    DataflowSpec,
    DecisionKind,
    Detail,
    Engine,
    Evaluation,
    Heard,
    Inputs,
    Moment,
    Needs,
    NeedsAnswer,
    NeedsReading,
    Part,
    Probe,
    ReadCells,
    RecordArrived,
    RecordDecision,
    Response,
    ScanContainer,
    Stimulus,
    Tick,
    Trigger,
    TriggerPolicy,
    TriggerResult,
    Verdict,
    Wave,
    WaveEnded,
    with_triggers,
)
from headgate.events import ContainerId, UpdateMessage
from headgate.learning import Values, elements_of, updates_of
from headgate.replay import UNKNOWN, RecordedTables, RecordedUpdate

_KIND = "witness"
_Keys = Callable[[npt.NDArray[np.int64]], Sequence[tuple[bytes, bytes]]]
"""Returns row and column of the cells in slots."""


class ContainerState(Struct, frozen=True, eq=False):
    """A container at one moment."""

    elements: npt.NDArray[np.int64]
    """Numbers of its elements, as the container's ``Elements`` give them, shape (n,)."""
    values: Values
    """x of each, shape (n,)."""
    count: int
    """n, as the engine counts it."""


class Elements:
    """Numbers the elements of a container in the order in which they were first seen."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, bytes, bytes], int] = {}
        self._by_slot: dict[str, tuple[int, npt.NDArray[np.int64]]] = {}
        """By table, the layout of the grid and the number of the element in each slot, or -1."""

    def state(self, parts: Sequence[Part]) -> ContainerState:
        """Return a container as its parts have it now."""
        numbers, values = [np.empty(0, np.int64)], [np.empty(0)]
        for cells, _ in parts:
            columns = cells.columns
            slots = columns.slots
            numbers.append(self._numbered(cells.table, columns.grid.layout, slots, columns.keys))
            values.append(columns.doubles(slots))
        return ContainerState(np.concatenate(numbers), np.concatenate(values), elements_of(parts))

    def _numbered(
        self, table: str, layout: int, slots: npt.NDArray[np.int64], keys: _Keys
    ) -> npt.NDArray[np.int64]:
        known, by_slot = self._by_slot.get(table, (layout, np.empty(0, np.int64)))
        if known != layout:
            by_slot = np.empty(0, np.int64)
        extent = int(slots.max(initial=-1)) + 1
        if extent > len(by_slot):
            by_slot = np.concatenate((by_slot, np.full(extent - len(by_slot), -1, np.int64)))
        new = slots[by_slot[slots] < 0]
        if len(new):
            numbers = self._numbers
            by_slot[new] = [
                numbers.setdefault((table, row, column), len(numbers)) for row, column in keys(new)
            ]
        self._by_slot[table] = layout, by_slot
        return by_slot[slots]


class _Watching(TriggerPolicy):
    """Watches containers and never runs."""

    kind: ClassVar[str] = _KIND

    def __init__(self, containers: Sequence[ContainerId]) -> None:
        self.parts: dict[str, Sequence[Part]] = {}
        """By container, as they were shown last."""
        self.updates: dict[str, int | None] = {}
        """By container, σ in the last wave; None where nobody counted all of them."""
        self.needs = Needs(
            tuple(ContainerWatch(container, Detail.VALUES) for container in containers),
            Evaluation(action_end=True),
            tuple(Probe(str(container), (container,)) for container in containers),
        )

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        """Return ``NeedsReading`` where values are not known, else that it waits to be asked."""
        result = self.explain(inputs, now)
        if inputs.unsettled and not inputs.unscanned:
            return NeedsReading(result)
        return NeedsAnswer(b"", result)

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:  # noqa: ARG002 -- the interface
        """Return that it never runs."""
        return TriggerResult(reached=False, words="it only watches")

    def heard(self, event: Heard, inputs: Moment) -> Sequence[Response]:
        """Count the updates of a wave that has ended, or take the containers as they are now."""
        match event:
            case Wave():
                for probe in self.needs.probes:
                    parts = inputs.probe(probe.name)
                    complete = not any(pending.uncounted for _, pending in parts)
                    self.updates[probe.name] = updates_of(parts) if complete else None
                    inputs.reset(probe.name)
            case Advice():
                self.parts = {probe.name: inputs.probe(probe.name) for probe in self.needs.probes}
            case _:
                pass
        return ()


class Witness:
    """An engine with the containers and the inputs of a dataflow, and nothing that would run.

    Args:
        spec: the dataflow.
        containers: those of which states are asked for, none of them opaque.
        partitions: how many each topic has.
        tables: what is written there, kept up to date by whoever feeds this.
        readable: whether a table holds what the last write of each cell says.
    """

    def __init__(
        self,
        spec: DataflowSpec,
        containers: Sequence[str],
        partitions: Mapping[str, int],
        tables: RecordedTables,
        readable: Callable[[str], bool],
    ) -> None:
        watched = tuple(map(ContainerId, containers))
        inputs = tuple(action for action in spec.actions if action.role is ActionRole.INPUT)
        taken = {action.name for action in spec.actions}
        self._name = next(
            name for n in range(len(taken) + 1) if (name := f"{_KIND}{n}") not in taken
        )
        action = ActionSpec(
            self._name,
            after=tuple(each.name for each in inputs),
            reads=watched,
            trigger=Trigger(_KIND, {}),
        )
        self._policy = _Watching(watched)
        self._engine = Engine(
            replace(spec, actions=(*inputs, action), significance=None),
            policies=with_triggers({_KIND: lambda *_: {self._name: self._policy}}),
        )
        self._containers = {each.id: each.container for each in spec.containers}
        self._partitions = partitions
        self._tables = tables
        self._readable = readable
        self._elements = {container: Elements() for container in containers}
        self._now = 0.0
        self.gaps: set[str] = set()
        """What it has said of missing updates."""

    @property
    def updates(self) -> Mapping[str, int | None]:
        """By container, σ in the last wave; None where nobody counted all of them."""
        return self._policy.updates

    def begin(self, now: float) -> None:
        """Have containers scanned, on tables as they are now."""
        self._handle(Tick(now))

    def take(self, update: RecordedUpdate, message: UpdateMessage) -> None:
        """Take a record, after the tables have."""
        count = self._partitions[update.topic]
        place = update.topic, update.partition, update.offset
        self._handle(RecordArrived(self._later(update.time), *place, message, count))

    def end_wave(self, time: float, inputs: tuple[str, ...], number: int) -> None:
        """Have a wave end; ``time`` is that of whoever decided, in Unix seconds."""
        self._handle(WaveEnded(self._later(time), inputs, number, time))

    def state(self, container: str) -> ContainerState | str:
        """Return a container as it is now, or why it is not known."""
        asked = Consulted(self._now, self._name, _KIND, b"", "")
        self._handle(asked)  # what is to be read is read after it
        self._handle(asked)
        parts = self._policy.parts.get(container, ())
        if not parts or not all(cells.scans.complete for cells, _ in parts):
            return f"`{container}` was not read yet"
        if any(cells.reads.unsettled for cells, _ in parts):
            return f"values of `{container}` are not known"
        found = self._elements[container].state(parts)
        if np.isnan(found.values).any():
            return f"`{container}` has values that its codec cannot read"
        if self._has_expired(container):
            return f"cells of `{container}` have expired, which no event says"
        return found

    def _has_expired(self, container: str) -> bool:
        """Return whether cells of the container are held here that HBase may not show any more."""
        within = self._containers[ContainerId(container)]
        for table in within.tables:
            gone = set(self._tables.expired(table, self._now))
            if gone and any(cell in gone for cell, _ in self._tables.cells(within, table)):
                return True
        return False

    def _later(self, time: float) -> float:
        self._now = max(self._now, time)
        return self._now

    def _handle(self, stimulus: Stimulus) -> None:
        self._now = stimulus.now
        for instruction in self._engine.handle(stimulus):
            if isinstance(instruction, ScanContainer):
                self._scan(instruction)
            elif isinstance(instruction, ReadCells):
                self._read(instruction)
            elif isinstance(instruction, RecordDecision) and _says_gap(instruction):
                self.gaps.add(instruction.decision.words)

    def _scan(self, scan: ScanContainer) -> None:
        found = [
            (cell, value)
            for cell, value in self._tables.cells(self._containers[scan.container], scan.table)
            if cell[1] >= scan.start
        ]
        rows = [cell[1] for cell, _ in found]
        self._handle(
            ContainerScanned(
                self._now,
                scan.container,
                scan.table,
                rows,
                [cell[2] for cell, _ in found],
                [value for _, value in found] if scan.values else (),
                marked=frozenset(rows),
                start=scan.start,
            )
        )

    def _read(self, read: ReadCells) -> None:
        if not self._readable(read.table):
            return
        known = [
            (row, column, value)
            for row, column in zip(read.rows, read.columns, strict=True)
            if (cell := (read.table, row, column)) not in self._tables.guessed
            and (value := self._tables.value(cell)) is not UNKNOWN
        ]
        if known:
            rows, columns, values = zip(*known, strict=True)
            self._handle(CellsRead(self._now, read.container, read.table, rows, columns, values))


def _says_gap(instruction: RecordDecision) -> bool:
    return instruction.decision.kind is DecisionKind.GAP
