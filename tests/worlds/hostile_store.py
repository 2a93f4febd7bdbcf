"""Tables, the observers that tell of writes to them, and the topics in which they tell.

What stands in the tables is the truth. Of each write the store knows what became of its telling:
told, told twice, told late, told by nobody; and where a reader can first notice that it was not.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from msgspec import structs

from headgate.events import (
    MORE_PARTITIONS,
    VERSION,
    BarrierMark,
    Gap,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    partition_of,
    updates_topic,
)

Key = tuple[bytes, bytes]


class Fate(Enum):
    """What becomes of the telling of a write, or of the write itself."""

    TOLD = auto()
    LATE = auto()
    """It waits in the observer's producer."""
    LOST = auto()
    """The message is gone; a later one of the same observer shows that one is missing."""
    UNKNOWN = auto()
    """Done, and nobody heard that it was."""
    REFUSED = auto()
    """Not done, and nobody heard that it was not."""
    PASSED = auto()
    """Let through without a message; the observer says so afterwards."""


@dataclass(frozen=True)
class Cell:
    """One cell of a write; ``column`` is ``family:`` or empty where more than one goes."""

    row: bytes
    column: bytes
    kind: UpdateKind = UpdateKind.PUT
    value: bytes | None = None


@dataclass(eq=False)
class Missing:
    """Cells of which no message tells, and where the topic shows that one is missing."""

    table: str
    cells: tuple[Cell, ...]
    shown: tuple[str, int, int] | None = None
    """Topic, partition and offset of the message that shows it; None until there is one."""
    said: int | None = None
    """At which step of the world somebody was told without a message; None until then."""


@dataclass(eq=False)
class Observer:
    """One observer's epoch: what it has told, what it is about to tell."""

    name: str
    epoch: int
    intents: int = 0
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    late: list[tuple[int, UpdateBatch]] = field(default_factory=list)
    unshown: list[tuple[str, int, Missing]] = field(default_factory=list)
    """Topic and partition in which something is missing, and what."""
    partitions: int = 0
    """Over how many it spreads rows; 0: over all that there are."""


class HostileStore:
    """What stands, what was told of it, and by whom.

    Args:
        chance: makes every choice.
        partitions: of each topic, at first.
        observers: how many there are at a time.
    """

    def __init__(self, chance: random.Random, partitions: int, observers: int) -> None:
        self.chance = chance
        self.partitions = partitions
        self.now = 1_000_000.0
        self.tables: dict[str, dict[Key, bytes]] = {}
        self.topics: dict[str, list[list[UpdateMessage | None]]] = {}
        """Messages by topic and partition; None where Kafka has deleted one."""
        self.observers = [Observer(f"observer-{n}", 1) for n in range(observers)]
        self.missing: list[Missing] = []
        self.uncertain: dict[str, set[Key]] = {}
        """Cells of each table of which some message did not say what became of them."""
        self.disordered = False
        """Whether two observers told of a row in another order than it was written in."""

    def topic(self, name: str) -> list[list[UpdateMessage | None]]:
        """Return a topic's partitions."""
        known = self.topics.get(name)
        if known is None:
            known = self.topics[name] = [[] for _ in range(self.partitions)]
        return known

    # -- writes ----------------------------------------------------------------------------------

    def spread(self, observer: Observer) -> int:
        """Return over how many partitions an observer spreads rows."""
        return observer.partitions or self.partitions

    def write(
        self,
        table: str,
        cells: Sequence[Cell],
        fate: Fate,
        origin: Origin | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Write cells in one request through an observer, any where none is given."""
        observer = observer or self.chance.choice(self.observers)
        if fate in (Fate.LOST, Fate.PASSED) and not self._would_be_missed(observer, table):
            fate = Fate.TOLD
        self._note_order(observer, table, cells)
        if fate is not Fate.REFUSED:
            self.apply(table, cells)
        if fate in (Fate.UNKNOWN, Fate.REFUSED):
            self._doubt(table, cells)
        if fate is Fate.PASSED:
            self._pass(observer, table, cells)
            return
        unknown = fate in (Fate.UNKNOWN, Fate.REFUSED)
        outcome = Outcome.UNKNOWN if unknown else Outcome.APPLIED
        observer.intents += 1
        parts: dict[int, list[Cell]] = {}
        for cell in cells:
            parts.setdefault(partition_of(cell.row, self.spread(observer)), []).append(cell)
        for partition, part in parts.items():
            batch = self._batch(observer, table, part, outcome, origin)
            if fate is Fate.LOST:
                self._lose(observer, table, partition, part)
            elif fate is Fate.LATE or observer.late:
                observer.late.append((partition, batch))  # in the order of its requests
            else:
                self._publish(observer, partition, batch)

    def write_unseen(self, table: str, cells: Sequence[Cell]) -> None:
        """Write cells round all observers."""
        self.apply(table, cells)
        self._doubt(table, cells)

    def _note_order(self, writer: Observer, table: str, cells: Sequence[Cell]) -> None:
        """Note cells of which another observer is still to tell of an earlier write.

        Which of them exist then nobody knows who does not know their values.
        """
        rows = {cell.row for cell in cells}
        for observer in self.observers:
            for _, batch in observer.late if observer is not writer else ():
                late = [] if batch.table != table else zip(batch.rows, batch.columns, strict=True)
                for row, column in late:
                    if row in rows:
                        kinds = [Cell(row, column)] + [cell for cell in cells if cell.row == row]
                        self.disordered = True
                        self._doubt(table, kinds)

    def apply(self, table: str, cells: Iterable[Cell]) -> None:
        """Have cells stand in a table, or stand there no more; nobody tells."""
        known = self.tables.setdefault(table, {})
        for cell in cells:
            if cell.kind is UpdateKind.PUT and cell.value is not None:
                known[cell.row, cell.column] = cell.value
            else:
                for key in list(covered(known, cell)):
                    known.pop(key, None)

    def _doubt(self, table: str, cells: Iterable[Cell]) -> None:
        doubted = self.uncertain.setdefault(table, set())
        for cell in cells:
            doubted.add((cell.row, cell.column))
            doubted.update(covered(self.tables.get(table, {}), cell))

    def _batch(
        self,
        observer: Observer,
        table: str,
        cells: Sequence[Cell],
        outcome: Outcome,
        origin: Origin | None,
    ) -> UpdateBatch:
        part = RequestPart(observer.intents, "mutateRows", outcome, self.now, len(cells), 0, origin)
        head = (VERSION, observer.name, observer.epoch, 0, 0, table)
        return UpdateBatch(
            *head,
            (part,),
            bytes(cell.kind for cell in cells),
            tuple(cell.row for cell in cells),
            tuple(cell.column for cell in cells),
            (-1,) * len(cells),
            tuple(cell.value for cell in cells),
        )

    # -- what becomes of messages ----------------------------------------------------------------

    def _publish(
        self, observer: Observer, partition: int, message: UpdateBatch, *, recovered: bool = False
    ) -> None:
        topic = updates_topic(message.table)
        told = _again(message, 0 if recovered else self._number(observer, topic, partition))
        if recovered:
            told = _recovered(told)
        else:
            self._show(observer, topic, partition)
        self.topic(topic)[partition].append(told)

    def _number(self, observer: Observer, topic: str, partition: int) -> int:
        number = observer.sequences.get((topic, partition), 0)
        observer.sequences[topic, partition] = number + 1
        return number

    def _show(self, observer: Observer, topic: str, partition: int) -> None:
        """The next message of this observer in this partition shows what is missing before it."""
        offset = len(self.topic(topic)[partition])
        for place in [p for p in observer.unshown if p[:2] == (topic, partition)]:
            place[2].shown = place[2].shown or (topic, partition, offset)
            observer.unshown.remove(place)

    def _would_be_missed(self, observer: Observer, table: str) -> bool:
        """Return whether readers know the observer from before in all partitions."""
        topic = updates_topic(table)
        known = all((topic, p) in observer.sequences for p in range(self.spread(observer)))
        return (known or observer.epoch > 1) and not observer.late

    def _lose(self, observer: Observer, table: str, partition: int, cells: Sequence[Cell]) -> None:
        topic = updates_topic(table)
        self._number(observer, topic, partition)
        missing = Missing(table, tuple(cells))
        self.missing.append(missing)
        observer.unshown.append((topic, partition, missing))

    def _pass(self, observer: Observer, table: str, cells: Sequence[Cell]) -> None:
        topic = updates_topic(table)
        spread = self.spread(observer)
        for partition in {partition_of(cell.row, spread) for cell in cells}:
            part = tuple(c for c in cells if partition_of(c.row, spread) == partition)
            self._show(observer, topic, partition)
            offset = len(self.topic(topic)[partition])
            self.missing.append(Missing(table, part, (topic, partition, offset)))
            number = self._number(observer, topic, partition)
            head = (VERSION, observer.name, observer.epoch, number)
            gap = Gap(*head, table, self.now - 1.0, self.now, "Kafka was away")
            self.topic(topic)[partition].append(gap)

    def flush(self, observer: Observer, most: int = 1 << 30) -> None:
        """Have an observer tell what waits in it, in its order."""
        for partition, batch in observer.late[:most]:
            self._publish(observer, partition, batch)
        del observer.late[:most]

    def repeat(self, table: str) -> None:
        """Have an observer tell again of what it has told, as when Kafka's answer was lost."""
        observer = self.chance.choice(self.observers)
        partition = self.chance.randrange(self.partitions)
        told = [
            m
            for m in self.topic(updates_topic(table))[partition]
            if isinstance(m, UpdateBatch)
            and (m.observer, m.epoch) == (observer.name, observer.epoch)
        ]
        if told and not observer.late:
            recovered = self.chance.random() < 0.5
            self._publish(observer, partition, self.chance.choice(told[-4:]), recovered=recovered)

    def mark(self, tables: Iterable[str]) -> None:
        """Have all observers tell what waits, and mark all partitions, as at a barrier."""
        for observer in self.observers:
            self.mark_as(observer, tables, "mark")

    def mark_as(self, observer: Observer, tables: Iterable[str], name: str) -> None:
        """Have an observer tell what waits, and mark the partitions that it knows."""
        self.flush(observer)
        for table in tables:
            topic = updates_topic(table)
            self.topic(topic)
            for partition in range(self.spread(observer)):
                self._mark(observer, topic, partition, name)

    def _mark(self, observer: Observer, topic: str, partition: int, name: str = "mark") -> None:
        self._show(observer, topic, partition)
        head = (VERSION, observer.name, observer.epoch, self._number(observer, topic, partition))
        mark = BarrierMark(*head, name, self.spread(observer))
        self.topic(topic)[partition].append(mark)

    def change_table(self, table: str, kind: TableChangeKind, family: bytes = b"") -> None:
        """Change a table through an observer."""
        observer = self.chance.choice(self.observers)
        for each in self.observers:
            self.flush(each)
        known = self.tables.setdefault(table, {})
        if kind in (TableChangeKind.TRUNCATED, TableChangeKind.FAMILY_DROPPED):
            for key in [k for k in known if k[1].startswith(family)]:
                del known[key]
        observer.intents += 1
        topic = updates_topic(table)
        for partition in range(self.spread(observer)):
            self._show(observer, topic, partition)
            number = self._number(observer, topic, partition)
            head = (VERSION, observer.name, observer.epoch, number, observer.intents, table)
            change = TableChange(*head, kind, Outcome.APPLIED, self.now, family.decode())
            self.topic(topic)[partition].append(change)

    # -- ends ------------------------------------------------------------------------------------

    def restart(self, observer: Observer) -> None:
        """End an observer's epoch as a crash does; the next tells what its journal holds."""
        for topic, partition, _ in list(observer.unshown):
            # Of what is missing at an epoch's very end only the leases' sequences tell.
            self._mark(observer, topic, partition)
        for partition, batch in observer.late:
            self._publish(observer, partition, batch, recovered=True)
        self._succeed(observer)

    def lose_host(self, observer: Observer) -> list[Missing]:
        """End an observer for good, and return what it had not told and nobody else will show."""
        untold = [missing for _, _, missing in observer.unshown]
        for _, batch in observer.late:
            untold.append(Missing(batch.table, tuple(_cells(batch))))
        self.missing += [one for one in untold if one not in self.missing]
        self._succeed(observer)
        return untold

    def _succeed(self, observer: Observer) -> None:
        place = self.observers.index(observer)
        self.observers[place] = Observer(observer.name, observer.epoch + 1)

    def delete_records(self, topic: str, partition: int, until: int) -> None:
        """Have Kafka delete the records of a partition before an offset."""
        self.topic(topic)[partition][:until] = [None] * until

    def kept_from(self, topic: str, partition: int) -> int:
        """Return the first offset of a partition that Kafka still has."""
        log = self.topic(topic)[partition]
        return next((at for at, message in enumerate(log) if message is not None), len(log))

    def grow(self, partitions: int) -> None:
        """Give every topic more partitions; observers spread rows over them from when they know."""
        for observer in self.observers:
            observer.partitions = self.spread(observer)
        for topic in self.topics.values():
            topic += [[] for _ in range(partitions - len(topic))]
        self.partitions = partitions

    def follow(self, observer: Observer, tables: Iterable[str]) -> None:
        """Have an observer spread the rows of tables over all partitions, and say so in each."""
        if self.spread(observer) < self.partitions:
            self.flush(observer)
            observer.partitions = 0
            self.mark_as(observer, tables, MORE_PARTITIONS)


def covered(known: Iterable[Key], cell: Cell) -> Iterator[Key]:
    """Yield the keys that a cell of a write is about."""
    if cell.kind in (UpdateKind.PUT, UpdateKind.DELETE_COLUMN):
        yield (cell.row, cell.column)
        return
    for key in known:
        if key[0] == cell.row and key[1].startswith(cell.column):
            yield key


def _cells(batch: UpdateBatch) -> Iterator[Cell]:
    for row, column, kind, value in zip(
        batch.rows, batch.columns, batch.kinds, batch.values, strict=True
    ):
        yield Cell(row, column, UpdateKind(kind), value)


def _again(batch: UpdateBatch, sequence: int) -> UpdateBatch:
    return structs.replace(batch, sequence=sequence)


def _recovered(batch: UpdateBatch) -> UpdateBatch:
    return structs.replace(batch, recovered=True)
