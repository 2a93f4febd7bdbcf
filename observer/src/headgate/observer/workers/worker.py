"""One of several observers on one port, in a process that a supervisor has started.

``python -m headgate.observer.workers.worker FD``: FD is one end of the channel to the supervisor.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys

import structlog
import uvloop

from headgate.observer.recording.journal_errors import JournalError, JournalInUse
from headgate.observer.service import Observer
from headgate.observer.starting import ObserverAddresses, StartError
from headgate.observer.workers.channel import (
    TO_WORKER,
    Begin,
    Changed,
    Channel,
    Ready,
    Reconfigure,
    StatusRequest,
    WorkerStatus,
)
from headgate.settings import ConfigurationError, configure_log

_log = structlog.get_logger("headgate.observer.workers.worker")

_LOCK_SECONDS = 0.1  # between looks at whether an earlier worker has let go of the journal


class WorkerObserver(Observer):
    """Shares its port with other workers, and its admin address with the supervisor."""

    _reuse_port = True

    def report_at(self, admin: str) -> None:
        """Publish to agents the supervisor's address."""
        self.addresses.admin = admin

    async def _open_admin(self) -> None:
        """Leave it to the supervisor, which asks over the channel."""

    def status(self, request: StatusRequest) -> WorkerStatus:
        """Return how this worker is."""
        return WorkerStatus(request.number, self._metrics.text(), self.health(), self.upstreams())


async def _take_journal(begin: Begin) -> WorkerObserver:
    """Return an observer, as soon as an orphan of an earlier supervisor has let go."""
    deadline = asyncio.get_running_loop().time() + begin.config.start_seconds
    while True:
        try:
            return WorkerObserver(begin.config)
        except JournalInUse as error:
            if asyncio.get_running_loop().time() > deadline:
                raise
            _log.warning("waiting for the journal", reason=str(error))
            await asyncio.sleep(_LOCK_SECONDS)


async def _work(connection: socket.socket) -> None:
    channel = await Channel.over(connection)
    begin = await channel.receive(TO_WORKER)
    if not isinstance(begin, Begin):
        return
    configure_log(
        as_json=begin.as_json,
        level=begin.config.log_level,
        fields={"observer": begin.config.name, "worker": begin.number},
    )
    loop = asyncio.get_running_loop()
    # The supervisor reads the file; a hang-up is meant for it.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    observer = await _take_journal(begin)
    observer.report_at(begin.admin)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, observer.stop)

    def ready(_addresses: ObserverAddresses) -> None:
        channel.send(Ready())

    listening = loop.create_task(_listen_to_supervisor(channel, observer))
    try:
        await observer.run(ready)
    finally:
        listening.cancel()


async def _listen_to_supervisor(channel: Channel, observer: WorkerObserver) -> None:
    while (message := await channel.receive(TO_WORKER)) is not None:
        match message:
            case StatusRequest():
                channel.send(observer.status(message))
            case Reconfigure(config):
                observer.reload(lambda config=config: config)  # type: ignore[misc]
                channel.send(Changed(observer.reconfiguration.config))
    _log.warning("the supervising process is gone: ending")
    observer.stop()


def _main() -> int:
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.setblocking(False)  # noqa: FBT003 - the standard library's
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_work(connection))
    except (ConfigurationError, JournalError, StartError) as error:
        sys.stderr.write(f"headgate observer: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
