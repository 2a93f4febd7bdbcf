"""Carries out what happens, and ends it when its time has come."""

from __future__ import annotations

import heapq
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

import psutil
from confluent_kafka import KafkaException

from headgate.client import Thrift2Connection
from headgate.local import LocalStackError, Part
from soaking import dataflows, hostile, topics
from soaking.happenings import FLOWS, OBSERVERS, PARTS, Happening, Kind
from soaking.stand import Stand, Trouble
from soaking.writers import BROKEN, Write

Tell = Callable[..., None]
HOUR = 3600
HUGE = 2 << 20  # bytes of a value; Kafka takes messages of 1 MiB
LIMITS = (20, 150)
_LOOK = 0.05
_ASK = 60.0
_NOTHING_STARTED = "it has started nothing"


@dataclass(order=True)
class _Due:
    at: float
    number: int
    end: Callable[[], object] = field(compare=False)


class Disturber:
    """Does to a stand what was drawn.

    It starts processes, which end with the thread that does so: one that lives as long as they
    are needed has to call it.

    Args:
        stand: what is disturbed.
        tell: is told of everything.
        clock: tells seconds.
        sleep: waits for some.

    Attributes:
        happened: what was done, with the moment at which it really began.
        limits: of each dataflow, as they were set last.
        extras: what its action beside is, by dataflow; None where it has none.
        written: rows that it wrote itself and that were acknowledged.
    """

    def __init__(
        self,
        stand: Stand,
        tell: Tell,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.happened: list[Happening] = []
        self.written: list[Write] = []
        self.limits = {flow.name: flow.limit for flow in dataflows.ALL}
        self.extras: dict[str, int | None] = dict.fromkeys(self.limits)
        self._poisoned: set[dataflows.Flow] = set()
        self._stand = stand
        self._tell = tell
        self._away: set[str] = set()
        self._due: list[_Due] = []
        self._threads: list[threading.Thread] = []
        self._clock = clock
        self._sleep = sleep
        self._began = clock()

    def _now(self) -> float:
        return self._clock() - self._began

    def run(self, plan: tuple[Happening, ...], seconds: float) -> None:
        """Do all of it, each at its time, and return after so many seconds, or a little later."""
        self._began = self._clock()
        left = list(plan)
        while self._now() < seconds:
            while left and left[0].at <= self._now():
                self._begin(left.pop(0))
            self._end_what_is_due()
            self._sleep(_LOOK)
        for each in left:
            self._tell(skipped=each.kind, at=each.at, why="the piece was over")

    def _end_what_is_due(self) -> None:
        while self._due and self._due[0].at <= self._now():
            heapq.heappop(self._due).end()

    def heal(self) -> None:
        """End all that lasts, and have everything run.

        Raises:
            Trouble: the stack does not come back.
        """
        self._due.clear()
        for name in self._stand.clocks:
            self._stand.clocks[name].move(0)
        self._let_parts_go_on()
        self._stack_up()
        for flow in tuple(self._poisoned):
            self._cure(flow)
        for service in self._stand.services.values():
            service.signal(signal.SIGCONT)
            for process in service.descendants():
                _signal(process, signal.SIGCONT)
            service.start()
        self._away.clear()
        for thread in self._threads:
            thread.join(_ASK)

    def _begin(self, one: Happening) -> None:
        moment = self._now()
        if one.target in self._away and one.kind is not Kind.CLOCK:
            self._tell(skipped=one.kind, at=round(moment, 1), target=one.target, why="it is away")
            return
        try:
            note = self._ACTS[one.kind](self, one)
        except (KafkaException, *BROKEN) as error:
            note = f"failed: {type(error).__name__}: {str(error)[:200]}"
        done = Happening(round(moment, 1), one.kind, one.target, one.lasts, one.number)
        self.happened.append(done)
        self._tell(
            happened=one.kind,
            at=done.at,
            drawn=one.at,
            target=one.target,
            lasts=one.lasts,
            note=note,
        )

    def _later(self, seconds: float, end: Callable[[], object]) -> None:
        heapq.heappush(self._due, _Due(self._now() + seconds, len(self._due), end))

    def _beside(self, act: Callable[[], None]) -> None:
        thread = threading.Thread(target=act, daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(thread)
        thread.start()

    # -- processes

    def _kill(self, one: Happening) -> str:
        service = self._stand.services[one.target]
        service.kill()
        self._away.add(one.target)

        def again() -> None:
            self._away.discard(one.target)
            service.start()

        self._later(one.lasts, again)
        return f"life {service.lives}"

    def _worker(self, one: Happening) -> psutil.Process | None:
        """Return one of the processes that the target has started; None where there is none."""
        there = sorted(self._stand.services[one.target].descendants(), key=lambda each: each.pid)
        return there[one.number % len(there)] if there else None

    def _kill_worker(self, one: Happening) -> str:
        victim = self._worker(one)
        if victim is None:
            return _NOTHING_STARTED
        with suppress(psutil.NoSuchProcess):
            words = " ".join(victim.cmdline())[:60]
            victim.kill()
            return words
        return "it had ended"

    def _stop_worker(self, one: Happening) -> str:
        victim = self._worker(one)
        if victim is None:
            return _NOTHING_STARTED
        if not _signal(victim, signal.SIGSTOP):
            return "it had ended"
        self._later(one.lasts, lambda: _signal(victim, signal.SIGCONT))
        return f"{victim.pid}"

    def _stop(self, one: Happening) -> str:
        service = self._stand.services[one.target]
        service.signal(signal.SIGSTOP)
        self._away.add(one.target)

        def again() -> None:
            self._away.discard(one.target)
            service.signal(signal.SIGCONT)

        self._later(one.lasts, again)
        return f"life {service.lives}"

    # -- what it stands on

    def _stop_part(self, one: Happening) -> str:
        if self._away & set(PARTS):
            return "skipped: another part is away"
        for pid in self._stand.part_pids(one.target):
            psutil.Process(pid).send_signal(signal.SIGSTOP)
        self._away.add(one.target)
        self._later(one.lasts, self._let_parts_go_on)
        return ""

    def _let_parts_go_on(self) -> None:
        for part in PARTS:
            for pid in self._stand.part_pids(part):
                with suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).send_signal(signal.SIGCONT)
            self._away.discard(part)

    def _kill_part(self, one: Happening) -> str:
        if self._away & set(PARTS):
            return "skipped: another part is away"
        self._stand.stack.kill(Part(one.target))
        self._away.add(one.target)

        def again() -> None:
            self._stack_up()
            self._away.discard(one.target)

        self._later(one.lasts, again)
        return ""

    def _stack_up(self) -> None:
        began = self._now()
        try:
            self._stand.stack.up()
        except LocalStackError as error:
            self._tell(trouble=str(error)[:500], at=round(self._now(), 1))
            try:
                self._stand.stack.up()
            except LocalStackError as again:
                raise Trouble(f"the stack does not come back: {again}") from again
        self._tell(stack="up", at=round(self._now(), 1), took=round(self._now() - began, 1))

    # -- what it is told

    def _add_partition(self, one: Happening) -> str:
        flow = dataflows.ALL[FLOWS.index(one.target)]
        return topics.add_partition(self._stand.addresses.kafka, flow.input)

    def _put_tombstone(self, one: Happening) -> str:
        flow = dataflows.ALL[FLOWS.index(one.target)]
        return topics.put_tombstone(self._stand.addresses.kafka, flow.input, one.number)

    def _poison(self, one: Happening) -> str:
        flow = dataflows.ALL[FLOWS.index(one.target)]
        if self._poisoned:
            return "skipped: another topic takes none"
        note = topics.poison(self._stand.addresses.kafka, flow.input)
        self._poisoned.add(flow)
        self._later(one.lasts, lambda: self._beside(lambda: self._cure(flow)))
        return note

    def _cure(self, flow: dataflows.Flow) -> None:
        """Have Kafka take the messages of a topic again, as soon as Kafka is there."""
        deadline = self._clock() + _ASK * 5
        while True:
            try:
                topics.cure(self._stand.addresses.kafka, flow.input)
                break
            except KafkaException as error:
                if self._clock() > deadline:
                    raise Trouble(f"the topic of {flow.input} stays as it is: {error}") from error
        self._poisoned.discard(flow)
        self._tell(cured=flow.input, at=round(self._now(), 1))

    def _edit_limits(self, one: Happening) -> str:
        flow = dataflows.ALL[FLOWS.index(one.target)]
        limit = random.Random(one.number).randint(*LIMITS)
        self.limits[flow.name] = limit
        self._beside(lambda: self._update(flow, "limits"))
        return f"sequence: {limit}"

    def _edit(self, one: Happening) -> str:
        flow = dataflows.ALL[FLOWS.index(one.target)]
        forms: list[int | None] = [None, *range(dataflows.EXTRAS)]
        forms.remove(self.extras[flow.name])
        extra = self.extras[flow.name] = random.Random(one.number).choice(forms)
        self._beside(lambda: self._update(flow, "edit"))
        return "no action beside" if extra is None else dataflows.extra_words(flow, extra)

    def _update(self, flow: dataflows.Flow, what: str) -> None:
        stand = self._stand
        source = dataflows.text(
            flow, self.limits[flow.name], stand.folder, stand.here, self.extras[flow.name]
        )
        try:
            stand.ask("POST", f"/v1/flows/{flow.name}/update", {"source": source}, _ASK)
        except Trouble as error:
            self._tell(refused=what, target=flow.name, why=str(error)[:300])

    def _move_clock(self, one: Happening) -> str:
        seconds = random.Random(one.number).choice((-HOUR, HOUR, -HOUR // 10, HOUR // 10))
        clock = self._stand.clocks[one.target]
        clock.move(seconds)
        self._later(one.lasts, lambda: clock.move(0))
        return f"{seconds:+d} s"

    def _attack(self, one: Happening) -> str:
        number = OBSERVERS.index(one.target)
        address = self._stand.thrift1[number]
        self._beside(lambda: _ignored(hostile.attack(address, one.number, one.lasts)))
        return hostile.FORMS[one.number % len(hostile.FORMS)].__name__

    def _write_huge_row(self, one: Happening) -> str:
        value = b"%d-" % one.number + b"x" * HUGE
        row = b"huge-0000"
        host, port = self._stand.thrift2[0]
        with Thrift2Connection(host, port, timeout=30.0) as connection:
            connection.put(dataflows.CHANGING.input, [(row, {b"f:v": value})])
        self.written.append((row, value))
        return f"{len(value)} bytes"

    _ACTS: ClassVar[dict[Kind, Callable[[Disturber, Happening], str]]] = {
        Kind.KILL: _kill,
        Kind.OUTAGE: _kill,
        Kind.KILL_WORKER: _kill_worker,
        Kind.STOP: _stop,
        Kind.STOP_WORKER: _stop_worker,
        Kind.STOP_PART: _stop_part,
        Kind.KILL_PART: _kill_part,
        Kind.PARTITIONS: _add_partition,
        Kind.TOMBSTONE: _put_tombstone,
        Kind.LIMITS: _edit_limits,
        Kind.EDIT: _edit,
        Kind.POISON: _poison,
        Kind.CLOCK: _move_clock,
        Kind.HOSTILE: _attack,
        Kind.HUGE_ROW: _write_huge_row,
    }


def _signal(process: psutil.Process, number: signal.Signals) -> bool:
    """Send a process a signal; tell whether it was there."""
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def _ignored(_: object) -> None:
    """What a hostile client did is told before it begins."""
