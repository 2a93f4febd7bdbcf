"""An engine whose scans are answered in stretches of rows, when the test says so."""

from __future__ import annotations

from typing import Any

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    ContainerScanned,
    Count,
    DataflowSpec,
    Engine,
    EngineTester,
    Metric,
    RecordArrived,
    Restarted,
    SavedEngine,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    WatchedContainer,
)
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Gap,
    Item,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    partition_of,
)

IN = ContainerId("in")
TOLD = [b"r%02d" % i for i in range(0, 20, 2)]
"""Rows that are written through observers."""
HIDDEN = [b"r%02d" % i for i in range(1, 20, 2)]
"""Rows that are changed behind them."""
COLUMNS = [b"f:a", b"f:b", b"g:a"]
SHAPES = {
    "table": (Item("in"),),
    "column": (Item("in", b"f", b"a"),),
    "rows": (Item("in", start=b"r03", stop=b"r15"),),
}
BOUNDS = {
    "keys": Bound("k", IN, sequence=SequenceBound(1e6, SequenceUnit.PERCENT)),
    "values": Bound(
        "k",
        IN,
        sequence=SequenceBound(1e9, SequenceUnit.PERCENT, distinct=True),
        value=ValueBound(Metric.ABSOLUTE, 1e9),
    ),
}


def specification(detail: str, shape: str, count: Count) -> DataflowSpec:
    bound = BOUNDS[detail]
    return DataflowSpec(
        "flow",
        (WatchedContainer(Container(IN, SHAPES[shape]), count=count),),
        (
            ActionSpec("a", ActionRole.INPUT, writes=(IN,)),
            ActionSpec("b", after=("a",), reads=(IN,), bounds=(bound,)),
        ),
    )


class World(EngineTester):
    """An engine whose scans are answered when the test says so; it can crash."""

    def __init__(self, spec: DataflowSpec) -> None:
        self.question: ScanContainer | None = None
        self.read: ContainerScanned | None = None
        """Rows that were read and have not been taken in yet."""
        self.records: list[RecordArrived] = []
        self.told = 0
        self.saved: tuple[bytes | SavedEngine, int] = (b"", 0)
        self._segments: dict[tuple[str, int], bytes] = {}
        self._numbers = 0
        super().__init__(spec, answering=False, partitions=2)
        self.save()

    def handle(self, stimulus: Any) -> list[Any]:
        if isinstance(stimulus, RecordArrived):
            self.records.append(stimulus)
        told = super().handle(stimulus)
        for one in told:
            if isinstance(one, ScanContainer):
                self.question, self.read = one, None
        return told

    @property
    def cells(self) -> Any:
        return self.engine.cells[IN, "in"]

    def save(self, *, logged: bool = False) -> None:
        state: bytes | SavedEngine
        if logged:
            checkpoint = self.engine.checkpoint(-1)
            for segment in checkpoint.log.written:
                self._segments[segment.stream, segment.number] = segment.data
            kept = [
                self._segments[one.stream, number]
                for one in checkpoint.log.kept
                for number in range(one.first, one.end)
            ]
            state = SavedEngine(checkpoint.head, checkpoint.log.kept, kept)
        else:
            state = self.engine.snapshot()
        self.saved = (state, len(self.records))

    def crash(self) -> None:
        """Go on from what was saved; what came since comes again."""
        state, known = self.saved
        since, self.records = self.records[known:], self.records[:known]
        self.question = self.read = None
        self._numbers += 1000
        self.engine = Engine(self.spec, state, log_number=self._numbers)
        self.handle(Restarted(self.now))
        for record in since:
            self.handle(record)

    def look(self, stop: bytes | None = None) -> None:
        """Read the rows that were asked for."""
        if self.question is not None:
            later = None if stop is not None and stop <= self.question.start else stop
            read = self.answer(self.question, later)
            assert isinstance(read, ContainerScanned)
            self.read = read

    def take(self) -> None:
        """Have the engine take the rows that were read."""
        read, self.read = self.read, None
        if read is not None:
            self.question = None
            self.handle(read)

    def end_scans(self) -> None:
        for _ in range(5):
            self.look()
            self.take()
            if self.question is None:
                return
        raise AssertionError("scans follow scans")

    def hide(self, row: bytes, column: bytes, value: bytes | None) -> None:
        """Change a cell behind the observers."""
        if value is None:
            self.tables["in"].pop((row, column), None)
        else:
            self.tables["in"][row, column] = value

    def delete_row(self, row: bytes, family: bytes = b"") -> None:
        for key in [k for k in self.tables["in"] if k[0] == row and k[1].startswith(family)]:
            del self.tables["in"][key]
        self._intents += 1
        sequence = self._sequences.get(("in", 0), 0)
        self._sequences["in", 0] = sequence + 1
        kind = UpdateKind.DELETE_FAMILY if family else UpdateKind.DELETE_ROW
        request = RequestPart(self._intents, "deleteAllRow", Outcome.APPLIED, self.now, 1)
        batch = UpdateBatch(
            VERSION, "tester", 1, sequence, self._intents, "in", (request,), bytes([kind]),
            (row,), (family,), (-1,), (None,),
        )  # fmt: skip
        self.publish("in", batch)

    def doubt(self, row: bytes, column: bytes, kind: UpdateKind = UpdateKind.PUT) -> None:
        """Have an observer not know whether it changed a cell, which it did not."""
        self._intents += 1
        partition = partition_of(row, 2)
        sequence = self._sequences.get(("in", partition), 0)
        self._sequences["in", partition] = sequence + 1
        request = RequestPart(self._intents, "mutateRow", Outcome.UNKNOWN, self.now, 1)
        batch = UpdateBatch(
            VERSION, "tester", 1, sequence, self._intents, "in", (request,),
            bytes([kind]), (row,), (column,), (-1,), (b"9" if kind is UpdateKind.PUT else None,),
        )  # fmt: skip
        self.publish("in", batch, partition=partition)

    def truncate(self) -> None:
        self.tables["in"].clear()
        self._intents += 1
        for partition in range(2):
            sequence = self._sequences.get(("in", partition), 0)
            self._sequences["in", partition] = sequence + 1
            change = (TableChangeKind.TRUNCATED, Outcome.APPLIED, self.now)
            self.publish(
                "in",
                TableChange(VERSION, "tester", 1, sequence, self._intents, "in", *change),
                partition=partition,
            )

    def lose(self) -> None:
        self.publish("in", Gap(VERSION, "other", 1, 0, "in", 5.0, 9.0, "Kafka was down"))

    def contents(self) -> dict[tuple[bytes, bytes], float | bytes]:
        found: dict[tuple[bytes, bytes], float | bytes] = self.cells.columns.contents()
        return found

    def present(self) -> dict[tuple[bytes, bytes], float | bytes]:
        """What the engine is to know."""
        values = self.cells.columns.values is not None
        return {
            key: float(value) if values else 1.0
            for key, value in self.tables["in"].items()
            if self.cells.matcher.has(*key)
        }

    @property
    def counted(self) -> int:
        (pending,) = self.cells.watchers.pendings
        return int(pending.updates)
