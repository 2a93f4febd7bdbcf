"""What an engine asks of tables, and what it is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.engine import CellsRead, ContainerScanned, ReadCells, ScanBegun, ScanContainer
from headgate.events import ContainerId

if TYPE_CHECKING:
    from engine.life import EngineLife


class Questions:
    """Scans and reads that an engine has asked for and has no answer to yet."""

    def __init__(self, life: EngineLife) -> None:
        self._life = life
        self._chance = life.chance
        self._store = life.store
        self._questions: dict[tuple[str, ContainerId, str], ScanContainer | ReadCells] = {}

    @property
    def places(self) -> list[tuple[str, ContainerId, str]]:
        """Kind, container and table of each question that waits for its answer."""
        return list(self._questions)

    def ask(self, question: ScanContainer | ReadCells) -> None:
        """Take a question, instead of an earlier one about the same."""
        self._questions[type(question).__name__, question.container, question.table] = question

    def forget(self) -> None:
        """Have whoever asked be gone."""
        self._questions.clear()

    def answer(self) -> None:
        """A scan, or a read, that was asked for has come to its end."""
        if not self._questions:
            return
        self.answer_one(self._chance.choice((1, 3, 1 << 20)), self._chance.choice((0, 0, 1)))

    def answer_one(self, most: int, writes: int) -> None:
        """Answer with so many rows at most, while so many writes happen."""
        place = self._chance.choice(list(self._questions))
        question = self._questions[place]
        if isinstance(question, ReadCells):
            known = self._store.tables.get(question.table, {})
            keys = zip(question.rows, question.columns, strict=True)
            values = [known.get(key) for key in keys]
            del self._questions[place]
            where = (question.container, question.table, question.rows, question.columns)
            self._life.handle(CellsRead(self._store.now, *where, values))
            return
        self._store.mark((question.table,))
        self._life.delivery.deliver_all()
        if self._questions.get(place) is not question:
            return
        self._life.handle(
            ScanBegun(self._store.now, question.container, question.table, question.start)
        )
        answer = self._scan(question, most)
        for _ in range(writes):
            self._life.writing.write()  # while the barrier behind the scan is awaited
        self._store.mark((question.table,))
        self._life.delivery.deliver_all()
        if self._questions.get(place) is question:
            del self._questions[place]
            self._life.handle(_handed_over(answer, self._store.now))

    def _scan(self, question: ScanContainer, most: int) -> ContainerScanned:
        truth = self._life.oracle.truth(question.container, question.table)
        keys = sorted(key for key in truth if key[0] >= question.start)
        rows = sorted({row for row, _ in keys})
        stop = rows[most] if len(rows) > most else None
        keys = [key for key in keys if stop is None or key[0] < stop]
        return ContainerScanned(
            self._store.now,
            question.container,
            question.table,
            [row for row, _ in keys],
            [column for _, column in keys],
            [truth[key] for key in keys] if question.values else [],
            marked=frozenset(self._life.writing.own_rows.get(question.table, ())),
            start=question.start,
            stop=stop,
        )


def _handed_over(answer: ContainerScanned, now: float) -> ContainerScanned:
    """Return an answer as it is handed over now."""
    return ContainerScanned(now, *(getattr(answer, name) for name in answer.__struct_fields__[1:]))
