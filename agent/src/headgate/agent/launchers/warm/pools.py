"""Sessions that several dataflows share: each has a seat in one, and runs apart from the others."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

import structlog
from msgspec import Struct, structs

from headgate.agent.launchers.warm.pool_turns import PooledRun, PoolTurns, SessionEnd
from headgate.agent.launchers.warm.spares import SpareSessions
from headgate.spark import (
    Ending,
    SessionWorker,
    StartSession,
    StepEnded,
    StepRequest,
    StepStarted,
    WorkerFailed,
    WorkerGone,
    WorkerReady,
    WorkerReply,
)

log = structlog.get_logger("headgate.agent.pool")

_GRACE: Final = 5.0
"""Seconds for a step to let go when its run is cancelled, before the session ends with it."""

Calls = list[Callable[[], None]]
"""Callbacks to call once the pool's lock is free."""


class Occupant(Struct, frozen=True):
    """A dataflow that has a seat, and its callbacks.

    ``on_reply`` and ``on_exit`` are called as by a ``SessionWorker``. ``on_displaced`` is called
    before ``on_exit``, with the reason, where the attempt was lost by no fault of its own.
    """

    dataflow: str
    directory: Path
    on_reply: Callable[[WorkerReply], None]
    on_exit: Callable[[int], None]
    on_displaced: Callable[[str], None]


class Seat:
    """A dataflow's part of a shared session; to the dataflow it looks like a worker of its own.

    Args:
        pool: the session's.
        number: unlike that of all other seats of the agent.
        occupant: whose it is.
    """

    def __init__(self, pool: Pool, number: int, occupant: Occupant) -> None:
        self._pool = pool
        self.occupant = occupant
        self.space = f"{number}-{occupant.dataflow}"
        """Names it to the worker."""
        self.request: StepRequest | None = None
        """The attempt that is in the session, or waits for its turn."""
        self.leaving = False
        """Whether its attempt is to end, and the seat with it."""
        self.left = threading.Event()

    @property
    def log(self) -> Path:
        """The file with what the session's process printed for nobody's run."""
        return self._pool.log

    @property
    def pid(self) -> int:
        """The session's process; 0 where there is none any more."""
        return self._pool.pid

    def submit(self, request: StepRequest) -> None:
        """See ``SessionWorker``; it may have to wait for its turn."""
        self._pool.submit(self, request)

    def kill(self) -> None:
        """Have the attempt end, and the seat with it; ``stop`` sees to it."""
        self._pool.leave(self)

    def stop(self, seconds: float) -> None:
        """Give the seat up; nothing of it is left when this returns.

        A step that does not let go in some seconds ends the session, for all that have a seat.
        """
        self._pool.leave(self)
        if not self.left.wait(max(seconds, self._pool.grace)):
            self._pool.end_for(self)
            self.left.wait()
        self._pool.settle(seconds)


class Pool:
    """One shared session, started when somebody takes a seat and ended when nobody has one.

    Args:
        name: the pool's.
        start: the session's configuration.
        directory: where it runs.
        python: its interpreter.
        spares: sessions that are warm already.
        grace: seconds for a step to let go when its run is cancelled.
    """

    def __init__(
        self,
        name: str,
        start: StartSession,
        directory: Path,
        python: str,
        spares: SpareSessions | None,
        grace: float = _GRACE,
    ) -> None:
        self.log = directory / "worker.log"
        """Of the session's process; a spare's lies where that was started."""
        self._directory = directory
        self._name = name
        self._start = start
        self._python = python
        self._spares = spares
        self.grace = grace
        self._lock = threading.RLock()
        self._seats: dict[str, Seat] = {}
        self._turns = PoolTurns()
        self._worker: SessionWorker | None = None
        self._generation = 0
        """Of the session: what one says that has ended is nobody's any more."""
        self._from_spare = False
        self._ready: WorkerReady | None = None
        self._unfit: WorkerFailed | None = None
        self._ended_for: PooledRun | None = None
        self._numbers = itertools.count(1)
        self._retired: list[SessionWorker] = []

    @property
    def pid(self) -> int:
        """The session's process; 0 where there is none."""
        worker = self._worker
        return 0 if worker is None else worker.pid

    def sit(self, occupant: Occupant) -> Seat:
        """Return a seat, in a session that is started where there is none.

        Raises:
            OSError: its process cannot be started.
            WorkerGone: it ended at once.
        """
        with self._lock:
            if self._worker is None:
                self._begin()
            seat = Seat(self, next(self._numbers), occupant)
            self._seats[seat.space] = seat
            ready = self._ready
        if ready is not None:
            occupant.on_reply(ready)
        return seat

    def submit(self, seat: Seat, request: StepRequest) -> None:
        """Hand an attempt to the session when its turn comes.

        Raises:
            WorkerGone: the seat was given up.
        """
        with self._lock:
            if self._worker is None or seat.space not in self._seats or seat.leaving:
                message = f"the session of pool {self._name} has ended; its log is {seat.log}"
                raise WorkerGone(message)
            directory = str(seat.occupant.directory)
            seat.request = structs.replace(request, space=seat.space, directory=directory)
            self._admit(self._turns.ask(_key(seat)))

    def leave(self, seat: Seat) -> None:
        """Have a seat's attempt end, and give the seat up when it has."""
        calls: Calls = []
        with self._lock:
            if seat.leaving or seat.space not in self._seats:
                return
            seat.leaving = True
            request, worker = seat.request, self._worker
            if request is None or _key(seat) not in self._turns.within or worker is None:
                calls = self._vacate(seat)
            else:
                with suppress(WorkerGone):  # its end, reported to all seats, is on the way
                    worker.cancel(request.run, request.attempt, seat.space)
        _carry_out(calls)

    def end_for(self, seat: Seat) -> None:
        """End the session for the sake of a seat whose step does not let go."""
        with self._lock:
            if seat.space not in self._seats or self._worker is None:
                return
            self._ended_for = _key(seat) if seat.request is not None else None
            worker = self._worker
            log.warning("a step does not let go", pool=self._name, dataflow=seat.occupant.dataflow)
        worker.kill()

    def settle(self, seconds: float) -> None:
        """Wait for the end of sessions that nobody has a seat in."""
        with self._lock:
            retired, self._retired = self._retired, []
        for worker in retired:
            worker.stop(seconds)

    # -- the session -----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._generation += 1
        generation = self._generation
        self._ready = self._unfit = self._ended_for = None
        on_reply = partial(self._reply, generation)
        on_exit = partial(self._exit, generation)
        worker = None
        if self._spares is not None:
            worker = self._spares.take(
                self._start, self._directory, on_reply=on_reply, on_exit=on_exit
            )
        self._from_spare = worker is not None
        # The lock is held: nothing is taken of what it says before it is known.
        self._worker = worker or SessionWorker(
            self._start, self._directory, on_reply=on_reply, on_exit=on_exit, python=self._python
        )
        self.log = self._worker.log

    def _admit(self, runs: tuple[PooledRun, ...]) -> None:
        by_key = {_key(seat): seat for seat in self._seats.values() if seat.request is not None}
        for run in runs:
            request = by_key[run].request
            if request is None or self._worker is None:
                continue
            try:
                self._worker.submit(request)
            except WorkerGone:
                return  # its end, reported to all seats, is on the way

    def _vacate(self, seat: Seat) -> Calls:
        """Give a seat up whose attempt, if it had one, has ended; the lock is held."""
        del self._seats[seat.space]
        if seat.request is not None:
            self._admit(self._turns.over(_key(seat)))
        worker = self._worker
        if worker is not None:
            if self._seats:
                with suppress(WorkerGone):  # nothing of it is left, then
                    worker.close_space(seat.space)
            else:
                self._worker = None
                self._retired.append(worker)
        return [partial(seat.occupant.on_exit, 0), seat.left.set]

    def _reply(self, generation: int, reply: WorkerReply) -> None:
        calls: Calls = []
        with self._lock:
            if generation != self._generation:
                return
            match reply:
                case WorkerReady():
                    self._ready = reply
                    calls = [partial(s.occupant.on_reply, reply) for s in self._seats.values()]
                case WorkerFailed():
                    self._unfit = reply
                case StepStarted(space=space):
                    seat = self._seats.get(space)
                    if seat is not None:
                        calls = [partial(seat.occupant.on_reply, reply)]
                case StepEnded(space=space):
                    seat = self._seats.get(space)
                    if seat is not None:
                        calls = self._step_ended(seat, reply)
        _carry_out(calls)

    def _step_ended(self, seat: Seat, reply: StepEnded) -> Calls:
        calls: Calls = []
        if not seat.leaving or reply.ending in {Ending.COMMITTED, Ending.UNCERTAIN}:
            calls.append(partial(seat.occupant.on_reply, reply))
        key = _key(seat)
        if seat.leaving:
            return calls + self._vacate(seat)
        seat.request = None
        self._admit(self._turns.over(key))
        return calls

    def _exit(self, generation: int, status: int) -> None:
        with self._lock:
            if generation != self._generation or self._worker is None:
                return
            self._worker = None
            end = self._turns.ended(self._ended_for)
            seats = list(self._seats.values())
            self._seats.clear()
            unfit, warm = self._unfit, self._ready is not None
            spare_unfit = self._from_spare and not warm
            if spare_unfit:
                self._spares = None  # one of these settings is not for a session that has started
        log.info("the session of a pool ended", pool=self._name, status=status, end=end)
        for seat in seats:
            key = _key(seat) if seat.request is not None else None
            words = None if seat.leaving else self._displaced(key, end, seats)
            if spare_unfit:
                words = "a spare session did not take the pool's settings; another is started"
            elif unfit is not None:
                seat.occupant.on_reply(unfit)
            if words is not None:
                seat.occupant.on_displaced(words)
            seat.occupant.on_exit(status)
            seat.left.set()

    def _displaced(self, key: PooledRun | None, end: SessionEnd, seats: list[Seat]) -> str | None:
        if key is None or key == end.culprit:
            return None
        names = {_key(s): s.occupant.dataflow for s in seats if s.request is not None}
        if key in end.suspects:
            among = ", ".join(sorted(names[run] for run in end.suspects))
            return (
                f"the session of pool {self._name} ended while runs of {among} were in it, and "
                "nobody knows which of them ended it: each is begun again, alone in the session"
            )
        by = f" by a run of {names[end.culprit]}" if end.culprit in names else ""
        return f"the session of pool {self._name} was ended{by}: it is begun again"


class SessionPools:
    """The pools of an agent, by name and configuration.

    Args:
        directory: where their sessions run, each in a folder of its own.
        python: their interpreter.
        spares: sessions that are warm already.
    """

    def __init__(self, directory: Path, python: str, spares: SpareSessions | None) -> None:
        self._directory = directory
        self._python = python
        self._spares = spares
        self._lock = threading.Lock()
        self._pools: dict[bytes, Pool] = {}

    def sit(self, start: StartSession, occupant: Occupant) -> Seat:
        """Return a seat in the session of the pool that ``start`` names.

        Raises:
            OSError: its process cannot be started.
            WorkerGone: it ended at once.
        """
        # Of one name with other settings, which only a race can bring about, is another session.
        key = repr((start.pool, sorted(start.conf.items()), start.python_path)).encode()
        with self._lock:
            pool = self._pools.get(key)
            if pool is None:
                directory = self._directory / f"{quote(start.pool, safe='')}-{len(self._pools)}"
                pool = Pool(start.pool, start, directory, self._python, self._spares)
                self._pools[key] = pool
        return pool.sit(occupant)


def _key(seat: Seat) -> PooledRun:
    assert seat.request is not None  # noqa: S101 - asked for only where there is one
    return PooledRun(seat.occupant.dataflow, seat.request.run)


def _carry_out(calls: Calls) -> None:
    for call in calls:
        call()
