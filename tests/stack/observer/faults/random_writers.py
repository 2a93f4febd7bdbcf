"""Clients of both dialects that write by seed, and what each was told of its writes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any

import happybase
import thriftpy2
from msgspec import Struct
from thriftpy2.rpc import make_client

import headgate.client

ONE = thriftpy2.load(
    str(Path(happybase.__file__).with_name("Hbase.thrift")), module_name="tests_one_thrift"
)
TWO = thriftpy2.load(
    str(Path(headgate.client.__file__).with_name("hbase2.thrift")), module_name="faults_two_thrift"
)
ROWS = 8  # few, so that writers meet in them


class State(Enum):
    BEGUN = auto()
    ACKNOWLEDGED = auto()
    DECLINED = auto()
    """The check of a checkAndPut did not hold."""
    REFUSED = auto()
    """Answered with an IOError."""
    BROKEN = auto()
    """The connection broke before an answer came."""
    LEFT = auto()
    """The client did not wait any longer; the observer may still have heard the answer."""


class Cell(Struct, frozen=True):
    """A cell that one write of one client puts, counts or appends to, or deletes."""

    row: bytes
    column: bytes
    value: bytes | None
    timestamp: int = -1

    @property
    def key(self) -> tuple[bytes, bytes, bool]:
        return self.row, self.column, self.value is None


class Write(Struct):
    method: str
    cells: list[Cell]
    state: State = State.BEGUN


Call = Callable[[Any], Any]


class RandomWriter(threading.Thread):
    """A client of both dialects that writes one request after the other until it is told to end."""

    def __init__(
        self,
        number: int,
        seed: int,
        table: str,
        thrift1: tuple[str, int],
        thrift2: tuple[str, int],
        done: threading.Event,
    ) -> None:
        super().__init__(name=f"writer-{number}")
        self._number = number
        self._rng = random.Random(seed * 100 + number)
        self._table = table.encode()
        self._addresses = {1: thrift1, 2: thrift2}
        self._done = done
        self._clients: dict[int, Any] = {}
        self._seconds = self._rng.choice([1.5, 20.0, 20.0])
        self.writes: list[Write] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            number = 0
            while not self._done.is_set():
                number += 1
                self._write(number)
                time.sleep(self._rng.choice([0, 0, 0.002, 0.01]))
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error
        finally:
            for client in self._clients.values():
                client.close()

    def _write(self, number: int) -> None:
        dialect, write, call = self._invent(number)
        client = self._clients.get(dialect)
        if client is None:
            service = ONE.Hbase if dialect == 1 else TWO.THBaseService
            try:
                client = make_client(
                    service, *self._addresses[dialect], timeout=round(1000 * self._seconds)
                )
            except Exception:  # noqa: BLE001 - nobody is there: nothing was sent
                time.sleep(0.05)
                return
            self._clients[dialect] = client
        self.writes.append(write)
        began = time.monotonic()
        try:
            answer = call(client)
        except (ONE.IOError, ONE.IllegalArgument, TWO.TIOError):
            write.state = State.REFUSED
        except Exception:  # noqa: BLE001 - however the connection breaks
            waited = time.monotonic() - began
            write.state = State.LEFT if waited > 0.9 * self._seconds else State.BROKEN
            del self._clients[dialect]
            client.close()
        else:
            write.state = State.DECLINED if answer is False else State.ACKNOWLEDGED

    def _invent(self, number: int) -> tuple[int, Write, Call]:
        rng, table = self._rng, self._table
        size = rng.choice([1, 20, 20, 200, 3000])

        def cell(at: int = 0, timestamp: int = -1) -> Cell:
            column = b"f:%d-%d-%d" % (self._number, number, at)
            value = b"%d-%d-%d." % (self._number, number, at) + b"x" * rng.randrange(size)
            return Cell(b"row-%d" % rng.randrange(ROWS), column, value, timestamp)

        def value_of(each: Cell) -> Any:
            qualifier = each.column.removeprefix(b"f:")
            return TWO.TColumnValue(family=b"f", qualifier=qualifier, value=each.value)

        def put_of(each: Cell) -> Any:
            return TWO.TPut(row=each.row, columnValues=[value_of(each)])

        def mutation(each: Cell) -> Any:
            return ONE.Mutation(
                isDelete=each.value is None, column=each.column, value=each.value or b""
            )

        match rng.randrange(13):
            case 0 | 1 | 2:
                put = cell()
                return (
                    1,
                    Write("mutateRow", [put]),
                    lambda c: c.mutateRow(table, put.row, [mutation(put)], {}),
                )
            case 3:
                put = cell(timestamp=1_000 + number)
                return (
                    1,
                    Write("mutateRowTs", [put]),
                    lambda c: c.mutateRowTs(table, put.row, [mutation(put)], put.timestamp, {}),
                )
            case 4 | 5:
                puts = [cell(at) for at in range(rng.randrange(2, 12))]
                batches = [ONE.BatchMutation(row=p.row, mutations=[mutation(p)]) for p in puts]
                return 1, Write("mutateRows", puts), lambda c: c.mutateRows(table, batches, {})
            case 6:
                put = cell()
                return 2, Write("put", [put]), lambda c: c.put(table, put_of(put))
            case 7:
                puts = [cell(at) for at in range(rng.randrange(2, 12))]
                many = [put_of(p) for p in puts]
                return 2, Write("putMultiple", puts), lambda c: c.putMultiple(table, many)
            case 8:
                put = cell()
                count = Cell(put.row, put.column, number.to_bytes(8, "big"))
                return (
                    1,
                    Write("atomicIncrement", [count]),
                    lambda c: c.atomicIncrement(table, count.row, count.column, number),
                )
            case 9:
                put = cell()
                appended = TWO.TAppend(row=put.row, columns=[value_of(put)])
                return 2, Write("append", [put]), lambda c: c.append(table, appended)
            case 10:
                put = cell()
                return (
                    2,
                    Write("checkAndPut", [put]),
                    lambda c: c.checkAndPut(table, put.row, b"f", b"none", b"no", put_of(put)),
                )
            case _:
                return self._invent_delete(cell(), mutation)

    def _invent_delete(self, put: Cell, mutation: Callable[[Cell], Any]) -> tuple[int, Write, Call]:
        """Delete a column that this client has put before and no other write touches."""
        table = self._table
        deleted = {each.key[:2] for w in self.writes for each in w.cells if each.value is None}
        there = [
            each
            for w in self.writes[-50:]
            if w.state is State.ACKNOWLEDGED
            for each in w.cells
            if each.value is not None and each.key[:2] not in deleted
        ]
        if not there:
            call: Call = lambda c: c.mutateRow(table, put.row, [mutation(put)], {})  # noqa: E731
            return 1, Write("mutateRow", [put]), call
        chosen = self._rng.choice(there)
        gone = Cell(chosen.row, chosen.column, None)
        match self._rng.randrange(3):
            case 0:
                return (
                    1,
                    Write("deleteAll", [gone]),
                    lambda c: c.deleteAll(table, gone.row, gone.column, {}),
                )
            case 1:
                put = Cell(gone.row, put.column, put.value)
                both = [mutation(put), mutation(gone)]
                return (
                    1,
                    Write("mutateRow", [put, gone]),
                    lambda c: c.mutateRow(table, gone.row, both, {}),
                )
            case _:
                column = TWO.TColumn(family=b"f", qualifier=gone.column.removeprefix(b"f:"))
                delete = TWO.TDelete(row=gone.row, columns=[column])
                return (
                    2,
                    Write("deleteSingle", [gone]),
                    lambda c: c.deleteSingle(table, delete),
                )
