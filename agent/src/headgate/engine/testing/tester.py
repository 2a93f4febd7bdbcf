"""An engine with a scripted clock and an imagined store: decisions without services.

``EngineTester`` writes to tables that exist only in memory, publishes each write as an observer
would, answers scans and reads, and collects what the engine wants. Nothing in it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headgate.engine.actions.factory import policies_of
from headgate.engine.core.engine import Engine
from headgate.engine.protocol.increments import Produced
from headgate.engine.protocol.instructions import (
    Consult,
    Decision,
    Instruction,
    Launch,
    NotifyAt,
    ReadCells,
    RecordDecision,
    ScanContainer,
)
from headgate.engine.protocol.runnables import (
    PYTHON_RUNNABLE,
    RunnableAnswer,
    RunnableQuestion,
    decode_runnable_question,
    encode_runnable,
)
from headgate.engine.protocol.stimuli import (
    CellsRead,
    ClockMoved,
    CompactionRequested,
    Consulted,
    ContainerScanned,
    RebuildRequested,
    RecordArrived,
    Released,
    ResourceSample,
    ResourcesSampled,
    Restarted,
    RunFailed,
    RunFinished,
    RunRequested,
    RunStarted,
    Stimulus,
    Tick,
    WaveEnded,
)
from headgate.engine.spec.dataflow import DataflowSpec
from headgate.engine.spec.references import Resource
from headgate.engine.testing.invariants import check_invariants
from headgate.engine.triggers.policy import PolicyFactory
from headgate.events import (
    Origin,
    Outcome,
    RequestPart,
    UpdateMessage,
    partition_of,
    updates_topic,
    written_batch,
)

Row = Mapping[bytes, bytes | None]
"""Values by ``family:qualifier``; None deletes the column."""

_MOST_AT_ONCE = 1000
"""Ticks of one moment, after which an engine is taken for one that asks for them for ever."""


class EngineTester:
    """Drives an engine by what people do: write, end waves, finish runs, let time pass.

    Args:
        spec: the dataflow.
        now: where the clock starts, in Unix seconds.
        partitions: of every topic.
        answering: whether scans and reads are answered at once, from the imagined tables.
        check: looks at the engine after every stimulus; it takes longer than the engine itself.
        policies: makes the trigger policies, where others are tried than those of headgate.
        runnable: answers at once what runnables in Python are asked; nobody does where None.
    """

    def __init__(
        self,
        spec: DataflowSpec,
        *,
        now: float = 1_000_000.0,
        partitions: int = 1,
        answering: bool = True,
        check: Callable[[Engine], None] = check_invariants,
        policies: PolicyFactory = policies_of,
        runnable: Callable[[RunnableQuestion], RunnableAnswer] | None = None,
    ) -> None:
        self.spec = spec
        self.now = now
        self.partitions = partitions
        self.answering = answering
        self.engine = Engine(spec, policies=policies)
        self._policies = policies
        self._check = check
        self.runnable = runnable
        self.tables: dict[str, dict[tuple[bytes, bytes], bytes]] = {}
        self.instructions: list[Instruction] = []
        self.notify_at: float | None = None
        self._offsets: dict[tuple[str, int], int] = {}
        self._sequences: dict[tuple[str, int], int] = {}
        self._intents = 0
        self.handle(Tick(self.now))

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        """Hand a stimulus to the engine; return what it wants, after scans and reads."""
        wanted: list[Instruction] = []
        waiting: list[Stimulus] = [stimulus]
        while waiting:
            for instruction in self.engine.handle(waiting.pop(0)):
                wanted.append(instruction)
                if isinstance(instruction, NotifyAt):
                    self.notify_at = instruction.time
                elif self.answering and isinstance(instruction, ScanContainer | ReadCells):
                    waiting.append(self.answer(instruction))
                elif self.runnable is not None and isinstance(instruction, Consult):
                    waiting.append(self._said(instruction, self.runnable))
        self.instructions += wanted
        self._check(self.engine)
        return wanted

    def _said(
        self, consult: Consult, runnable: Callable[[RunnableQuestion], RunnableAnswer]
    ) -> Consulted:
        answer = encode_runnable(runnable(decode_runnable_question(consult.question)))
        return Consulted(self.now, consult.action, consult.kind, answer)

    def questions(self) -> list[RunnableQuestion]:
        """Return what runnables in Python were asked so far."""
        return [
            decode_runnable_question(i.question)
            for i in self.instructions
            if isinstance(i, Consult) and i.kind == PYTHON_RUNNABLE
        ]

    def say(self, action: str, answer: RunnableAnswer) -> list[Instruction]:
        """Answer what the runnable of an action was asked."""
        return self.handle(Consulted(self.now, action, PYTHON_RUNNABLE, encode_runnable(answer)))

    def answer(
        self, question: ScanContainer | ReadCells, stop: bytes | None = None
    ) -> ContainerScanned | CellsRead:
        """Return what a scan, to before the row ``stop``, or a read of imagined tables finds."""
        table = self.tables.get(question.table, {})
        if isinstance(question, ReadCells):
            values = [table.get(key) for key in zip(question.rows, question.columns, strict=True)]
            return CellsRead(
                self.now,
                question.container,
                question.table,
                question.rows,
                question.columns,
                values,
            )
        matcher = self.engine.cells[question.container, question.table].matcher
        found = [
            (row, column)
            for row, column in sorted(table)
            if matcher.has(row, column) and row >= question.start and (stop is None or row < stop)
        ]
        return ContainerScanned(
            self.now,
            question.container,
            question.table,
            [row for row, _ in found],
            [column for _, column in found],
            [table[key] for key in found] if question.values else [],
            start=question.start,
            stop=stop,
        )

    def write(
        self, table: str, rows: Mapping[bytes, Row], *, by: str | None = None
    ) -> list[Instruction]:
        """Write rows in one request, maybe as a step of the dataflow; return what comes of it."""
        known = self.tables.setdefault(table, {})
        wanted: list[Instruction] = []
        active = self.engine.actions[by].run if by is not None else None
        run = active.run if active is not None else "run"
        origin = None if by is None else Origin(self.spec.name, by, run, 1)
        parts: dict[int, list[tuple[bytes, bytes, bytes | None]]] = {}
        for row, columns in rows.items():
            for column, value in columns.items():
                parts.setdefault(partition_of(row, self.partitions), []).append(
                    (row, column, value)
                )
                if value is None:
                    known.pop((row, column), None)
                else:
                    known[row, column] = value
        self._intents += 1
        for partition, cells in sorted(parts.items()):
            sequence = self._sequences.get((table, partition), 0)
            self._sequences[table, partition] = sequence + 1
            request = RequestPart(
                self._intents, "mutateRows", Outcome.APPLIED, self.now, len(cells), origin=origin
            )
            message = written_batch(table, request, cells, observer="tester", sequence=sequence)
            wanted += self.publish(table, message, partition=partition)
        return wanted

    def publish(
        self, table: str, message: UpdateMessage, *, partition: int = 0
    ) -> list[Instruction]:
        """Append a message to a partition of the table's topic; return what comes of it."""
        offset = self._offsets.get((table, partition), 0)
        self._offsets[table, partition] = offset + 1
        topic = updates_topic(table)
        return self.handle(
            RecordArrived(self.now, topic, partition, offset, message, self.partitions)
        )

    def wave(self, *actions: str, number: int = 0, time: float | None = None) -> list[Instruction]:
        """End the wave of these input actions."""
        return self.handle(WaveEnded(self.now, actions, number, time))

    def finish(self, action: str, *produced: Produced, result: str = "") -> list[Instruction]:
        """Let the active run of the action start and commit, with what it has made and named."""
        run, attempt = self._active(action)
        started = self.handle(RunStarted(self.now, action, run, attempt))
        finished = RunFinished(self.now, action, run, attempt, result, produced)
        return started + self.handle(finished)

    def fail(self, action: str, reason: str = "it failed") -> list[Instruction]:
        """Let the active attempt of the action fail."""
        run, attempt = self._active(action)
        return self.handle(RunFailed(self.now, action, run, attempt, reason))

    def _active(self, action: str) -> tuple[str, int]:
        run = self.engine.actions[action].run
        if run is None:
            raise LookupError(f"{action!r} has no active run")
        return run.run, run.attempt

    def sample(self, machine: str = "host", **used: float) -> list[Instruction]:
        """Report how busy a machine is: ``cpu=95``."""
        measured = {Resource(name): amount for name, amount in used.items()}
        sample = ResourceSample(machine, self.now, measured)
        return self.handle(ResourcesSampled(self.now, (sample,)))

    def request(self, action: str) -> list[Instruction]:
        """Ask for a run."""
        return self.handle(RunRequested(self.now, action))

    def rebuild(self, action: str, *, with_sources: bool = False) -> list[Instruction]:
        """Ask for the state of a stage to be made anew."""
        return self.handle(RebuildRequested(self.now, action, with_sources))

    def compact(self, action: str, *, wholly: bool = True) -> list[Instruction]:
        """Ask for the state of a stage in fewer files."""
        return self.handle(CompactionRequested(self.now, action, wholly))

    def release(self, action: str) -> list[Instruction]:
        """Let the action out of quarantine."""
        return self.handle(Released(self.now, action))

    def pass_time(self, seconds: float) -> list[Instruction]:
        """Let time pass; ticks come exactly when the engine asked for them."""
        until = self.now + seconds
        wanted: list[Instruction] = []
        at_once = 0
        while self.notify_at is not None and self.notify_at <= until:
            at_once = at_once + 1 if self.notify_at <= self.now else 0
            if at_once > _MOST_AT_ONCE:
                raise AssertionError(f"ticks without end at {self.now}")
            self.now = max(self.now, self.notify_at)
            wanted += self.handle(Tick(self.now))
        self.now = until
        return wanted

    def leap(self, seconds: float) -> list[Instruction]:
        """Set the clock ahead, or back; no time passes."""
        self.now += seconds
        return self.handle(ClockMoved(self.now, seconds))

    def restart(self) -> list[Instruction]:
        """Go on with an engine made from a snapshot."""
        self.engine = Engine(self.spec, self.engine.snapshot(), policies=self._policies)
        self.notify_at = None  # it was the former engine that asked
        return self.handle(Restarted(self.now))

    def launches(self, action: str | None = None) -> list[Launch]:
        """Return the launches so far, of one action or of all."""
        return [
            i
            for i in self.instructions
            if isinstance(i, Launch) and (action is None or i.action == action)
        ]

    def decisions(self) -> list[Decision]:
        """Return the decisions so far."""
        return [i.decision for i in self.instructions if isinstance(i, RecordDecision)]


def launched(instructions: Iterable[Instruction]) -> list[str]:
    """Return the names of the actions launched, in order."""
    return [i.action for i in instructions if isinstance(i, Launch)]
