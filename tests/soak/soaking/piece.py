"""One piece of the soak, from the start of its stack to its verdict."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil
from free_ports import free_port

from headgate.client import Thrift2Connection
from headgate.events import key_bytes, updates_topic
from soaking import dataflows, topics, verdict
from soaking.alerts import SKIPPED, Prometheus, without_alert, without_cause
from soaking.clocks import Faketime
from soaking.faults import Disturber
from soaking.happenings import Kind, draw
from soaking.samples import Sampler
from soaking.services import wait_until
from soaking.stand import PATIENCE, Stand, Trouble, as_json
from soaking.verdict import MEMORY, STATE, Note, examples, grew, growth
from soaking.writers import (
    COLLECTOR,
    LONGEST_TTL,
    PAUSE,
    TIMEOUT,
    Writer,
    writers,
    writing,
)

_REST = 420.0  # seconds for everything to come to rest after the last happening
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


@dataclass(frozen=True)
class Order:
    """What a piece is to be.

    Attributes:
        seconds: how long writers write and things happen.
        seed: of everything that is drawn.
        kinds: what may happen.
        faketime: what moves clocks, or None where they are left alone.
        home: a folder for everything.
        rules: the folder of the alerts' rules.
        pause: seconds between two requests of one writer.
    """

    seconds: float
    seed: int
    kinds: tuple[Kind, ...]
    faketime: Faketime | None
    home: Path
    rules: Path
    pause: float = PAUSE


@dataclass
class Outcome:
    """What came of a piece: figures, and what must not have been."""

    problems: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


def tell(**words: object) -> None:
    """Print one line of JSON."""
    print(as_json(words), flush=True)


class Piece:
    """A piece; ``run`` may be called once, from a thread that lives until it returns."""

    def __init__(self, order: Order, say: Callable[..., None] = tell) -> None:
        self._order = order
        self._say = say
        self._stand = Stand(order.home, order.faketime)
        self._disturber = Disturber(self._stand, say)
        self._writers: list[Writer] = []
        self._outcome = Outcome()
        self._prometheus: Prometheus | None = None

    def run(self) -> Outcome:
        """Return what came of it; nothing that it started runs any more then, nor if it fails.

        Raises:
            Trouble: it could not begin.
        """
        _adopt_orphans()
        threading.excepthook = self._thread_ended
        try:
            self._stand.up()
            self._first_runs()
            self._live()
        finally:
            threading.excepthook = threading.__excepthook__
            self._end()
        return self._outcome

    def _thread_ended(self, error: threading.ExceptHookArgs) -> None:
        """Tell that a thread of the soak's own ended, so that less was looked at than seems."""
        name = None if error.thread is None else error.thread.name
        self._problem(f"thread {name} ended: {error.exc_value!r}")

    def _first_runs(self) -> None:
        """Have each dataflow run once, so that what it was shown is exact from then on."""
        self._put_first_row(b"0")
        for flow in dataflows.ALL:
            self._stand.ask("POST", f"/v1/flows/{flow.name}/waves", {})
            self._stand.ask("POST", f"/v1/flows/{flow.name}/run", {"action": flow.action})
        for flow in dataflows.ALL:
            expected = dataflows.EXPECTED[flow.name]({b"first-0": b"0"})
            if not wait_until(lambda: self._stand.rows(flow.output) == expected, PATIENCE):  # noqa: B023
                raise Trouble(f"dataflow {flow.name} did not run at all")
        self._say(began=True, seed=self._order.seed, seconds=self._order.seconds)

    def _put_first_row(self, value: bytes) -> None:
        host, port = self._stand.thrift2[0]
        with Thrift2Connection(host, port, timeout=TIMEOUT) as connection:
            for flow in dataflows.ALL:
                connection.put(flow.input, [(b"first-0", {b"f:v": value})], origin=COLLECTOR)

    def _live(self) -> None:
        order = self._order
        self._start_prometheus()
        plan = draw(order.seed, order.seconds, order.kinds)
        self._writers = writers(self._stand, order.seed, order.pause)
        sampler = Sampler(self._stand)
        began = time.time()
        with sampler.running():
            with writing(self._writers):
                self._disturber.run(plan, order.seconds)
            self._say(at=order.seconds, writers="stopped")
            stopped = time.monotonic()
            self._disturber.heal()
            # What expires is no update, so somebody has to write after it.
            time.sleep(max(0.0, stopped + LONGEST_TTL + 1.0 - time.monotonic()))
            self._put_first_row(b"1")
            self._come_to_rest()
        self._check_dataflows()
        self._check_growth(sampler)
        self._check_alerts(began)
        self._tell_figures()

    def _start_prometheus(self) -> None:
        if not Prometheus.there():
            self._outcome.skipped.append(SKIPPED)
            return
        targets = {name: each.probe for name, each in self._stand.services.items()}
        self._prometheus = Prometheus(
            self._order.home / "prometheus", self._order.rules, targets, free_port()
        )

    # -- coming to rest

    def _problem(self, words: str) -> None:
        self._outcome.problems.append(words)
        self._say(problem=words)

    def _come_to_rest(self) -> None:
        for service in self._stand.services.values():
            if not wait_until(service.well, PATIENCE):
                self._problem(f"{service.name} is not well after all was mended: {service.log}")
        for flow in dataflows.ALL:
            source = dataflows.text(flow, 1, self._stand.folder, self._stand.here)
            try:
                self._stand.ask("POST", f"/v1/flows/{flow.name}/update", {"source": source})
                if flow is dataflows.OWNING:
                    # What strangers wrote counts for nothing, and stands in its table all the same.
                    self._await_rest(flow)
                    body = {"action": flow.action}
                    self._stand.ask("POST", f"/v1/flows/{flow.name}/run", body)
                self._await_rest(flow)
            except Trouble as error:
                self._problem(f"{flow.name} does not come to rest: {error}")

    def _await_rest(self, flow: dataflows.Flow) -> None:
        """Wait until a dataflow has consumed everything and runs nothing."""
        said: Any = None

        def rests() -> bool:
            nonlocal said
            number = self._stand.ask("POST", f"/v1/flows/{flow.name}/waves", {})["wave"]
            path = f"/v1/flows/{flow.name}/waves/{number}?wait=60"
            settled = self._stand.ask("GET", path)["settled"]
            said = self._updates(flow)
            return bool(settled and said["pending"] == 0 and said["taken"] == 0)

        if not wait_until(rests, _REST, 1.0):
            raise Trouble(f"updates are left over: {said}")

    def _updates(self, flow: dataflows.Flow) -> dict[str, Any]:
        told = self._stand.ask("GET", f"/v1/flows/{flow.name}/explain")
        (action,) = (each for each in told["actions"] if each["action"] == flow.action)
        (updates,) = action["updates"]
        return dict(updates)

    # -- verdict

    def _check_dataflows(self) -> None:
        for writer in self._writers:
            if writer.error is not None:
                self._problem(f"writer {writer.name} ended: {writer.error!r}")
        for flow in dataflows.ALL:
            try:
                self._check_output(flow)
                self._check_events(flow)
            except Trouble as error:
                self._problem(f"{flow.name}: {error}")

    def _check_output(self, flow: dataflows.Flow) -> None:
        rows = self._stand.rows(flow.input)
        expected = dataflows.EXPECTED[flow.name](rows)
        wrong: list[Any] = []

        def equal() -> bool:
            wrong[:] = verdict.differing(expected, self._stand.rows(flow.output))
            return not wrong

        # What goes round observers is found by a scan of everything, twice a minute.
        if not wait_until(equal, 120.0, 2.0):
            shown = [(row, *(str(value)[:40] for value in values)) for row, *values in wrong]
            self._problem(f"output of {flow.name} is not the recomputation: {examples(shown)}")
        self._outcome.figures[f"{flow.name}: rows"] = len(rows)

    def _check_events(self, flow: dataflows.Flow) -> None:
        through = [each for each in self._writers if each.flow is flow and each.through]
        acknowledged = [write for each in through for write in each.acknowledged]
        if flow is dataflows.CHANGING:
            acknowledged += self._disturber.written
        told = list(topics.read(self._stand.addresses.kafka, flow.input))
        lost = verdict.lost_writes(acknowledged, told)
        if lost:
            shown = [(row, value[:40]) for row, value in lost]
            self._problem(f"acknowledged writes of {flow.name} without event: {examples(shown)}")
        counting = [each for each in through if flow is not dataflows.OWNING or each.origin]
        wanted = sum(each.updates for each in counting)
        counted = self._updates(flow)["counted"]
        if counted < wanted:
            self._problem(f"{flow.name} counted {counted} of {wanted} acknowledged updates")
        self._outcome.figures |= {
            f"{flow.name}: acknowledged": wanted,
            f"{flow.name}: counted": counted,
            f"{flow.name}: cells in events": len(told),
        }
        if flow is dataflows.CHANGING:
            self._check_changes(told)

    def _check_changes(self, told: list[topics.Told]) -> None:
        notes = read_notes(self._stand.folder / "notes.jsonl")
        topic = updates_topic(dataflows.CHANGING.input)
        missed = verdict.missed_rows(topic, told, notes)
        if missed:
            self._problem(f"changed rows that no run.changes had: {examples(missed)}")
        self._outcome.figures["changing: attempts"] = len(notes)

    def _check_growth(self, sampler: Sampler) -> None:
        figures = self._outcome.figures
        judged = {name: growth(samples) for name, samples in sampler.memory.items()}
        for name, found in judged.items():
            if found is not None:
                figures[f"memory of {name}, MiB"] = [
                    round(size / (1 << 20)) for size in (found.first, found.last)
                ]
            if grew(found, MEMORY):
                self._problem(f"memory of {name} grew: {found}")
        for name, samples in sampler.stored.items():
            found = growth(samples)
            figures[name] = [samples[0][1], samples[-1][1]]
            if name.startswith("state") and grew(found, STATE):
                self._problem(f"{name} grew: {found}")
        if not any(judged.values()):
            self._outcome.skipped.append("no process lived for long enough to judge its memory")

    def _check_alerts(self, began: float) -> None:
        if self._prometheus is None:
            return
        try:
            raised = self._prometheus.raised(began, time.time())
        except httpx.HTTPError as error:
            self._problem(f"Prometheus does not tell of alerts: {error!r}")
            return
        self._outcome.figures["alerts"] = [asdict(each) for each in raised]
        happened = self._disturber.happened
        if found := without_cause(raised, happened):
            self._problem(f"alerts without cause: {examples(found)}")
        if missing := without_alert(raised, happened):
            self._problem(f"causes without alert: {examples(missing)}")

    def _tell_figures(self) -> None:
        kinds = [each.kind for each in self._disturber.happened]
        self._outcome.figures |= {
            "happened": {kind: kinds.count(kind) for kind in Kind if kind in kinds},
            "requests": sum(each.requests for each in self._writers),
            "broken requests": sum(each.broken for each in self._writers),
            "lives": {name: each.lives for name, each in self._stand.services.items()},
            "load": os.getloadavg(),
        }

    # -- the end

    def _end(self) -> None:
        if self._prometheus is not None:
            self._prometheus.end()
        statuses = self._stand.down()
        bad = {name: status for name, status in statuses.items() if status != 0}
        if bad:
            self._problem(f"these did not end in order: {bad}")
        _end_descendants()


def read_notes(path: Path) -> list[Note]:
    """Return what the steps noted."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        raw = msgspec.json.decode(line)
        rows = frozenset(key_bytes(row) for row in raw["rows"])
        found.append(Note(raw["run"], raw["attempt"], raw["since"], raw["cut"], rows))
    return found


def _adopt_orphans() -> None:
    """Have what our processes leave behind become ours, so that all of it can be ended."""
    assert threading.current_thread() is threading.main_thread()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)


def _end_descendants() -> None:
    left = psutil.Process().children(recursive=True)
    for each in left:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(left, 10.0)
