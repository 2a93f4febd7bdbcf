"""An observer inside a program that writes to HBase itself: the same journal, in a thread."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog
from msgspec.structs import replace

from headgate.events import Origin
from headgate.observer.config import ObserverConfig
from headgate.observer.embedded.shared_loop import SharedLoop
from headgate.observer.embedded.slots import abandoned_slots, slot_directory, slots_to_take
from headgate.observer.embedded.writes import EmbeddedWrite, EmbeddedWrites, read
from headgate.observer.recording.journal_errors import JournalInUse
from headgate.observer.service import Observer
from headgate.observer.starting import ObserverAddresses
from headgate.wire import Message

_log = structlog.get_logger("headgate.observer.embedded.observer")

_TEND_SECONDS: Final = 0.1

_DRAIN_SHARE: Final = 0.5  # of the time for a clean end: requests under way may take that long
_JOIN_SECONDS: Final = 5.0  # beyond the time for a clean end
_FOREVER: Final = 1e9


class ObserverEnded(RuntimeError):
    """The observer takes no more writes: begin another."""


class _ProgramObserver(Observer):
    """An observer without listeners, in a process that is not its own."""

    def __init__(self, config: ObserverConfig, origin: Origin | None, *, strict: bool) -> None:
        super().__init__(config)
        self.embedded_writes = EmbeddedWrites(
            control=self._control,
            recorder=self._recorder,
            admission=self._admission,
            gates=self._gates,
            notify=self._notify,
            metrics=self._metrics,
            soon=self._loop.call_soon_threadsafe,
            later=lambda seconds, call: self._loop.call_soon_threadsafe(
                self._loop.call_later, seconds, call
            ),
            origin=origin,
            strict=strict,
        )
        self.ending = False
        self._loop.call_soon(self._tend_while_starting)

    async def _open_admin(self) -> None:
        """Open no port in somebody's program."""

    def _tune_process(self) -> None:
        """Leave the process as its program wants it."""

    def _tend_while_starting(self) -> None:
        """Let the journal take writes while Kafka is not there yet."""
        if self._state == "starting" and not self.ending:
            self._admission.tend()
            self._admission.sync_if_due()
            self._loop.call_later(_TEND_SECONDS, self._tend_while_starting)

    def _traffic(self) -> tuple[EmbeddedWrites]:
        return (self.embedded_writes,)

    def begin_without_kafka(self) -> None:
        """Take every table as watched, until the control topic has been read."""
        if self._state == "starting":
            self._control.lost()

    async def _shut_down(self) -> None:
        self.ending = True
        deadline = self._loop.time() + self._config.shutdown_seconds * _DRAIN_SHARE
        while len(self.embedded_writes) and self._loop.time() < deadline:
            await asyncio.sleep(_TEND_SECONDS / 2)
        self.embedded_writes.end()
        await super()._shut_down()

    def abandon(self) -> None:
        """Let go of the journal in a forked child."""
        self._journal.abandon()


class EmbeddedObserver:
    """An observer in a thread of this process.

    Any thread may pass writes through it. Its name is the configured one and a number, its journal
    a directory of that number below the configured one: as many processes of a program as there are
    at once share a configuration.
    """

    def __init__(
        self,
        config: ObserverConfig,
        *,
        patience_seconds: float,
        origin: Origin | None = None,
        strict: bool = False,
    ) -> None:
        """Open a journal and begin to connect to Kafka.

        Args:
            config: without listeners; ``start_seconds`` has no meaning.
            patience_seconds: how long writes wait for Kafka at the start. After that they go on,
                with every table treated as watched, until the journal is full.
            origin: whose the writes are that name none themselves.
            strict: whether writes wait until no delete that was answered before can hide them.

        Raises:
            JournalError: no journal can be opened below the directory.
        """
        self._config = replace(config, start_seconds=_FOREVER)
        self._root = Path(config.journal.directory)
        self._patience = patience_seconds
        self._origin = origin
        self._strict = strict
        self._loop = SharedLoop()
        self._observer: _ProgramObserver | None = None
        self._adopting: _ProgramObserver | None = None
        self._begun = threading.Event()
        self._serving = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="headgate-client", daemon=True)
        self._thread.start()
        self._begun.wait()
        if self._observer is None:
            assert self._failure is not None  # noqa: S101 - one of both is there
            raise self._failure

    # -- the program's side

    @property
    def ended(self) -> bool:
        """Whether it takes no more writes."""
        return not self._thread.is_alive() or self._observer is None or self._observer.ending

    def begin(self, message: Message) -> EmbeddedWrite:
        """Take a Thrift1 request that may change cells; return once it may be sent or is refused.

        Raises:
            ObserverEnded: it takes no more.
        """
        if not self._serving.is_set() and not self._serving.wait(self._patience):
            self._begin_without_kafka()
        # A large request takes long to be read, in which the loop and other threads go on.
        asked = read(message)
        with self._loop.lock:
            observer = self._observer
            if observer is None or self.ended:
                raise ObserverEnded("the observer in this program has ended")
            try:
                embedded = observer.embedded_writes.begin(asked)
            except BaseException:
                # A signal's exception came in the middle: the next epoch clears up.
                self._give_up(observer)
                raise
        if embedded.decided is not None:
            try:
                embedded.decided.wait()
            except BaseException:
                self.cancel(embedded)
                raise
        return embedded

    def _begin_without_kafka(self) -> None:
        with self._loop.lock:
            if self._observer is not None and not self._serving.is_set():
                _log.warning(
                    "Kafka is not there: every table is treated as watched, events wait in the "
                    "journal",
                    kafka=self._config.kafka.bootstrap,
                    journal=str(self._root),
                )
                self._observer.begin_without_kafka()
                # Later writes do not wait again.
                self._serving.set()

    def answered(self, embedded: EmbeddedWrite, reply: Message | None) -> None:
        """Take the reply to a request that was sent; None: its connection broke."""
        with self._loop.lock:
            if self._observer is not None:
                self._observer.embedded_writes.answered(embedded, reply)

    def cancel(self, embedded: EmbeddedWrite) -> None:
        """Take back a request of which nothing was sent."""
        with self._loop.lock:
            if self._observer is not None:
                self._observer.embedded_writes.cancel(embedded)

    def stop(self) -> None:
        """End: what is under way is answered, events are delivered or stay in the journal."""
        observer = self._observer
        if observer is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(observer.stop)
            self._thread.join(self._config.shutdown_seconds + _JOIN_SECONDS)

    def _give_up(self, observer: _ProgramObserver) -> None:
        observer.ending = True
        self._loop.call_soon_threadsafe(observer.stop)

    # -- forks

    def before_fork(self) -> None:
        """Bring the thread to rest."""
        self._loop.lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._loop.lock.release()

    def after_fork_in_child(self) -> None:
        """Let go of what is the parent's, and keep it from ever being destroyed here.

        Kafka's client would wait for threads that the child does not have.
        """
        for observer in (self._observer, self._adopting):
            if observer is not None:
                observer.abandon()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    # -- the thread's side

    def _run(self) -> None:
        try:
            with self._loop.lock, asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._main())
        except BaseException as error:  # noqa: BLE001 - raised at the program's next write
            self._failure = error
            if self._begun.is_set():
                _log.exception("the observer in this program ended: the next write begins another")
        finally:
            observer = self._observer
            if observer is not None:
                observer.ending = True
                with self._loop.lock:
                    observer.embedded_writes.abort()
            self._begun.set()
            self._serving.set()

    async def _main(self) -> None:
        observer = self._take_slot()
        self._observer = observer
        self._begun.set()
        self._loop.call_later(0.0, self._adopt)
        await observer.run(self._ready)

    def _ready(self, _addresses: ObserverAddresses) -> None:
        self._serving.set()

    def _take_slot(self) -> _ProgramObserver:
        for slot in slots_to_take(self._root):
            try:
                return _ProgramObserver(self._config_of(slot), self._origin, strict=self._strict)
            except JournalInUse:
                continue
        raise AssertionError("there is always another slot")

    def _config_of(self, slot: int) -> ObserverConfig:
        journal = replace(self._config.journal, directory=str(slot_directory(self._root, slot)))
        return replace(self._config, name=f"{self._config.name}.{slot}", journal=journal)

    def _adopt(self) -> None:
        """Publish what processes that were killed have left, in a thread that lasts as long."""
        if self._adopting is None:
            slots = abandoned_slots(self._root)
            if slots:
                threading.Thread(
                    target=self._adopt_slots, args=(slots,), name="headgate-adoption", daemon=True
                ).start()
        self._loop.call_later(self._config.lease_seconds, self._adopt)

    def _adopt_slots(self, slots: list[int]) -> None:
        for slot in slots:
            try:
                asyncio.run(self._adopt_slot(slot))
            except JournalInUse:
                continue
            except Exception as error:  # noqa: BLE001 - it is tried again
                _log.warning("what a process left is not published yet", reason=str(error))

    async def _adopt_slot(self, slot: int) -> None:
        observer = self._adopting = _ProgramObserver(
            self._config_of(slot), self._origin, strict=self._strict
        )
        try:
            await observer.run(_stopping(observer))
        finally:
            self._adopting = None


def _stopping(observer: Observer) -> Callable[[ObserverAddresses], None]:
    return lambda _addresses: observer.stop()
