"""The process above several workers: starts them, starts them again, and speaks for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog
import uvloop
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headgate.observer.admin import AdminServer, ObserverHealth
from headgate.observer.config import ObserverConfig
from headgate.observer.recording.journal_errors import JournalError, JournalInUse
from headgate.observer.starting import ObserverAddresses, StartError
from headgate.observer.upstreams.pool import UpstreamView, merged
from headgate.observer.workers.aggregation import aggregate, ended_totals
from headgate.observer.workers.channel import (
    FROM_WORKER,
    Begin,
    Changed,
    Channel,
    Ready,
    Reconfigure,
    StatusRequest,
    WorkerStatus,
)
from headgate.observer.workers.division import share
from headgate.observer.workers.recovery import recover_left_behind
from headgate.settings import ConfigurationError, parse_address, set_log_level, write_address

_log = structlog.get_logger("headgate.observer.workers.supervisor")

_FIRST_BACKOFF = 0.25  # seconds until an ended worker is started again; doubled each time
_LONGEST_BACKOFF = 15.0
_STEADY_SECONDS = 30.0  # after which a worker that ends is not one that cannot start
_ANSWER_SECONDS = 3.0  # that a worker may take to say how it is
_LOOK_SECONDS = 5.0  # between two looks at whether a worker still answers
_HANG_SECONDS = 15.0
"""Seconds of silence after which a worker counts as hung; its longest turn takes a few seconds."""
_KILL_SECONDS = 5.0  # beyond shutdown_seconds, until a worker that does not end is killed
_PORT_SECONDS = 5.0  # until the workers of a supervisor that was killed have left the port
_RETRY_SECONDS = 0.1


class WorkerSlot:
    """A place for a worker process, and the process that has it now."""

    def __init__(self, number: int, config: ObserverConfig) -> None:
        """Have no process yet."""
        self.number = number
        self.config = config
        """In effect, or for the next start."""
        self.process: asyncio.subprocess.Process | None = None
        self.channel: Channel | None = None
        self.ready = asyncio.Event()
        self.restarts = 0
        self.metrics = b""
        """What it said last."""
        self.trouble = "it is starting"
        """Why it does not serve, in words."""
        self._requests = 0
        self._awaited: dict[int, asyncio.Future[WorkerStatus | None]] = {}
        self._wanted: ObserverConfig | None = None
        self._heard_at = 0.0
        """When it last said anything, by the loop's clock."""
        self._speaks = False
        """True once the process has said anything."""

    async def start(self, *, admin: str, as_json: bool) -> None:
        """Start a process."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003 - the standard library's
        with theirs:
            handle = theirs.fileno()
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "headgate.observer.workers.worker",
                str(handle),
                pass_fds=[handle],
                stdin=asyncio.subprocess.DEVNULL,
            )
        self._speaks = False
        self._heard_at = asyncio.get_running_loop().time()
        self.channel = await Channel.over(ours)
        self.channel.send(Begin(self.number, self.config, admin, as_json))
        if self._wanted is not None:
            self.channel.send(Reconfigure(self._wanted))

    async def listen(self) -> None:
        """Take what the process says until it ends."""
        assert self.channel is not None  # noqa: S101 - it was started
        while (message := await self.channel.receive(FROM_WORKER)) is not None:
            self._speaks = True
            self._heard_at = asyncio.get_running_loop().time()
            match message:
                case Ready():
                    self.ready.set()
                    self.trouble = "it does not answer"
                case Changed(config):
                    self.config = config
                case WorkerStatus():
                    waiting = self._awaited.pop(message.number, None)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(message)
        self.channel.close()
        self.ready.clear()
        for waiting in self._awaited.values():
            if not waiting.done():
                waiting.set_result(None)
        self._awaited.clear()

    async def status(self) -> WorkerStatus | None:
        """Return how the worker is; None if it does not say."""
        if not self.ready.is_set():
            return None
        return await self._ask()

    async def _ask(self) -> WorkerStatus | None:
        if self.channel is None:
            return None
        self._requests += 1
        number = self._requests
        waiting: asyncio.Future[WorkerStatus | None] = asyncio.get_running_loop().create_future()
        self._awaited[number] = waiting
        self.channel.send(StatusRequest(number))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                status = await waiting
        except TimeoutError:
            self._awaited.pop(number, None)
            return None
        if status is not None:
            self.metrics = status.metrics
        return status

    async def end_if_hung(self, seconds: float) -> None:
        """End the process if it has not answered for so many seconds; it may take longer to start.

        One that is stopped, or whose loop stands still, holds clients that nobody serves.
        """
        await self._ask()
        patience = seconds if self._speaks else self.config.start_seconds + seconds
        silent = asyncio.get_running_loop().time() - self._heard_at
        if silent > patience and self.process is not None and self.process.returncode is None:
            _log.error(
                "a worker hangs: it is ended",
                number=self.number,
                process=self.process.pid,
                silent_seconds=round(silent, 1),
            )
            self.signal(signal.SIGKILL)

    def reconfigure(self, config: ObserverConfig) -> None:
        """Let the process, or the next one, change to another configuration."""
        self._wanted = config
        if self.channel is not None:
            self.channel.send(Reconfigure(config))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if there is one."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)


class Supervisor:
    """Keeps ``workers`` processes on the same addresses."""

    def __init__(self, config: ObserverConfig, *, as_json: bool) -> None:
        """Supervise nothing yet."""
        self._config = config
        self._as_json = as_json
        self._listen = {
            name: listener.listen
            for name, listener in (("thrift1", config.thrift1), ("thrift2", config.thrift2))
            if listener is not None
        }
        self._state = "starting"
        self._workers: list[WorkerSlot] = []
        self._ended = b""
        self._failure = ""
        self._stopping = asyncio.Event()
        self._admin = AdminServer(self._metrics, self._health, self._upstreams)
        self.addresses = ObserverAddresses()

    def stop(self) -> None:
        """Ask for a clean end."""
        self._stopping.set()

    async def run(self, ready: Callable[[ObserverAddresses], None]) -> None:
        """Supervise until ``stop``; ``ready`` is called once all workers accept clients.

        Raises:
            StartError: a worker did not get ready.
            JournalError: the journal is another observer's.
        """
        await recover_left_behind(self._config)
        with contextlib.ExitStack() as held:
            held.enter_context(_lock(Path(self._config.journal.directory)))
            for name, address in self._listen.items():
                holder = held.enter_context(await _reserve(name, address))
                self._listen[name] = write_address(*holder.getsockname()[:2])
                setattr(self.addresses, name, self._listen[name])
            await self._open_admin()
            try:
                await self._supervise(ready)
            finally:
                await self._admin.close()

    async def _open_admin(self) -> None:
        try:
            found = await self._admin.start(*parse_address(self._config.admin))
        except OSError as error:
            raise StartError(
                f"admin address {self._config.admin}: {error.strerror or error}; choose another"
            ) from error
        self.addresses.admin = write_address(*found)

    async def _supervise(self, ready: Callable[[ObserverAddresses], None]) -> None:
        self._workers = [
            WorkerSlot(number, share(self._config, number, self._listen))
            for number in range(1, self._config.workers + 1)
        ]
        for worker in self._workers:
            await worker.start(admin=self.addresses.admin, as_json=self._as_json)
        async with asyncio.TaskGroup() as tasks:
            keepers = [tasks.create_task(self._keep(worker)) for worker in self._workers]
            started = tasks.create_task(self._start(ready))
            watches = [tasks.create_task(self._watch(worker)) for worker in self._workers]
            await self._stopping.wait()
            self._state = "ending"
            for task in (started, *watches):
                task.cancel()
            await self._end_all(keepers)
        if self._failure:
            raise StartError(self._failure)

    async def _start(self, ready: Callable[[ObserverAddresses], None]) -> None:
        await asyncio.gather(*(worker.ready.wait() for worker in self._workers))
        self._state = "serving"
        ready(self.addresses)
        _log.info("serving", workers=len(self._workers), **self.addresses.by_name())

    async def _keep(self, worker: WorkerSlot) -> None:
        loop = asyncio.get_running_loop()
        backoff = _FIRST_BACKOFF
        while True:
            began = loop.time()
            await worker.listen()
            assert worker.process is not None  # noqa: S101 - it was started
            worker.trouble = _describe_end(await worker.process.wait())
            if worker.metrics:
                self._ended = ended_totals([self._ended, worker.metrics])
                worker.metrics = b""
            if self._stopping.is_set():
                return
            if self._state == "starting":
                self._failure = f"worker {worker.number} could not start: {worker.trouble}"
                self.stop()
                return
            if loop.time() - began > _STEADY_SECONDS:
                backoff = _FIRST_BACKOFF
            _log.error(
                "a worker has ended: it is started again",
                number=worker.number,
                reason=worker.trouble,
                seconds=backoff,
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(backoff):
                    await self._stopping.wait()
                    return
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
            worker.restarts += 1
            await worker.start(admin=self.addresses.admin, as_json=self._as_json)
            if self._stopping.is_set():
                worker.signal(signal.SIGTERM)

    async def _watch(self, worker: WorkerSlot) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await worker.end_if_hung(_HANG_SECONDS)

    async def _end_all(self, keepers: list[asyncio.Task[None]]) -> None:
        seconds = max(worker.config.shutdown_seconds for worker in self._workers) + _KILL_SECONDS
        for worker in self._workers:
            worker.signal(signal.SIGTERM)
        _, remaining = await asyncio.wait(keepers, timeout=seconds)
        if remaining:
            _log.error("workers did not end: they are killed", workers=len(remaining))
            for worker in self._workers:
                worker.signal(signal.SIGKILL)

    # -- what is asked of all

    async def _statuses(self) -> list[WorkerStatus | None]:
        return await asyncio.gather(*(worker.status() for worker in self._workers))

    async def _metrics(self) -> bytes:
        await self._statuses()
        running = GaugeMetricFamily(
            "headgate_observer_workers",
            "Workers that accept clients.",
            value=sum(worker.ready.is_set() for worker in self._workers),
        )
        restarts = CounterMetricFamily(
            "headgate_observer_worker_restarts",
            "Workers started again after an unexpected end.",
            value=sum(worker.restarts for worker in self._workers),
        )
        live = {worker.number: worker.metrics for worker in self._workers if worker.metrics}
        return aggregate(live, self._ended, (running, restarts))

    async def _health(self) -> ObserverHealth:
        reasons: list[str] = []
        serving = False
        for worker, status in zip(self._workers, await self._statuses(), strict=True):
            if status is None:
                reasons.append(f"worker {worker.number}: {worker.trouble}")
                continue
            serving = serving or status.health.serving
            reasons += (f"worker {worker.number}: {reason}" for reason in status.health.reasons)
        return ObserverHealth(serving and self._state == "serving", self._state, tuple(reasons))

    async def _upstreams(self) -> dict[str, tuple[UpstreamView, ...]]:
        return merged(each.upstreams for each in await self._statuses() if each is not None)

    def reload(self, load: Callable[[], ObserverConfig]) -> None:
        """Let all workers change to the configuration that ``load`` returns."""
        try:
            config = load()
        except ConfigurationError as error:
            _log.error("configuration not reloaded: the old one stays", reason=str(error))
            return
        if config.workers != self._config.workers:
            _log.error("a key was changed that needs a restart: its old value stays", key="workers")
        set_log_level(config.log_level)
        # Where an address was changed, the workers say that it needs a restart.
        unchanged = {
            name: address
            for name, address in self._listen.items()
            if (listener := getattr(config, name)) is not None
            and listener.listen == getattr(self._config, name).listen
        }
        for worker in self._workers:
            worker.reconfigure(share(config, worker.number, unchanged))


def _describe_end(code: int) -> str:
    if code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with exit code {code}; its log says why"


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Hold the directory, so that no other observer takes it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(
            f"journal {directory}: {error.strerror}; name a directory that can be written"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise JournalInUse(
            f"journal {directory} is in use by another observer; end it, or give this one "
            "its own [journal] directory"
        ) from error
    finally:
        os.close(handle)


async def _reserve(name: str, address: str) -> socket.socket:
    """Return a socket that holds an address for the workers without listening.

    Raises:
        StartError: somebody else has it.
    """
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PORT_SECONDS
    while True:
        try:
            if port:
                # Without SO_REUSEPORT, or another observer's address would be shared unnoticed.
                _bind(host, port, shared=False).close()
            return _bind(host, port, shared=True)
        except OSError as error:
            if loop.time() > deadline:
                raise StartError(
                    f"[{name}] listen = {address}: {error.strerror or error}; "
                    "choose another address"
                ) from error
            await asyncio.sleep(_RETRY_SECONDS)


def _bind(host: str, port: int, *, shared: bool) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(place)
    except OSError:
        bound.close()
        raise
    return bound


def supervise(
    config: ObserverConfig,
    ready: Callable[[ObserverAddresses], None],
    load: Callable[[], ObserverConfig],
    *,
    as_json: bool,
) -> None:
    """Run ``config.workers`` processes until SIGTERM or SIGINT, then end them cleanly.

    SIGHUP lets them change to the configuration that ``load`` returns.

    Raises:
        StartError: something needed at start did not come.
        JournalError: the journal cannot be used.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_supervise(config, ready, load, as_json=as_json))


async def _supervise(
    config: ObserverConfig,
    ready: Callable[[ObserverAddresses], None],
    load: Callable[[], ObserverConfig],
    *,
    as_json: bool,
) -> None:
    supervisor = Supervisor(config, as_json=as_json)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop)
    loop.add_signal_handler(signal.SIGHUP, supervisor.reload, load)
    await supervisor.run(ready)
