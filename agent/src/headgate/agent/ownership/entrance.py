"""What an agent makes sure of before it works: an observer before it, a folder and a name alone."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from headgate.agent.configuration import AgentConfiguration, Workers
from headgate.agent.errors import AgentError, Held
from headgate.agent.state.rows import Rows
from headgate.agent.state.sealed import Lease, LeaseRows, Owner, Seals
from headgate.hbase import Dialect
from headgate.observer import ProbeResult, recognise
from headgate.settings import ConfigurationError, parse_address, write_address

log = structlog.get_logger("headgate.agent")

_ASK = 5.0  # seconds for an address to say what it is
_AGAIN = 0.2  # seconds until an address that does not answer is asked again
_REACH = 1.0  # seconds to connect to the API of an agent that should have ended
_MOST_FOLDERS = 1000  # of one user's agents on one host


def require_observer(host: str, port: int, patience: float) -> None:
    """See that an observer's Thrift2 listener answers; HBase behind it may be away.

    Args:
        host: where it should be.
        port: its port.
        patience: seconds for it to be there; whoever needs it says that it is not.

    Raises:
        ConfigurationError: something else answers.
    """
    ending = time.monotonic() + patience
    while True:
        try:
            result = asyncio.run(recognise(host, port, seconds=_ASK))
        except OSError:
            if time.monotonic() > ending:
                return
            time.sleep(_AGAIN)
        else:
            _require(result, write_address(host, port))
            return


def _require(result: ProbeResult, address: str) -> None:
    if result.dialect is Dialect.THRIFT1:
        raise ConfigurationError(
            f"hbase.thrift2: {address} speaks Thrift1, which has no compare-and-set that an agent "
            "could keep its state by; name the Thrift2 listener of an observer"
        )
    if result.observer is None:
        raise ConfigurationError(
            f"hbase.thrift2: at {address} HBase itself answers, with no observer in between: what "
            "steps write would be seen by nobody; name the Thrift2 listener of an observer"
        )


class Folder:
    """The folder in which an agent's workers run, which it shares with no other that lives.

    Args:
        workers: as configured; where no folder is, the first of the user's that is free is taken.

    Raises:
        ConfigurationError: the folder is another agent's, or cannot be used.
    """

    def __init__(self, workers: Workers) -> None:
        self.path = workers.path
        holder = self._claim()
        if holder and workers.directory:
            raise ConfigurationError(
                f"workers.directory: {self.path} is in use by another agent (process {holder}); "
                "give each agent a directory of its own"
            )
        for number in range(2, _MOST_FOLDERS):
            if not holder:
                return
            self.path = workers.path.with_name(f"{workers.path.name}-{number}")
            holder = self._claim()

    def _claim(self) -> str:
        """Lock the folder, until the process ends however it does; return who has it otherwise."""
        file = self.path / ".lock"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # Not inherited: steps that outlive the agent do not hold the folder.
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"workers.directory: {self.path} cannot be used ({error.strerror}); give the "
                "agent's user the right to write there, or name another directory"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode(errors="backslashreplace") or "unknown"
            os.close(descriptor)
            return holder
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._descriptor = descriptor
        return ""

    def close(self) -> None:
        """Let others use it."""
        os.close(self._descriptor)


def with_folder(configuration: AgentConfiguration, path: Path) -> AgentConfiguration:
    """Return a configuration whose workers run in a folder."""
    workers = msgspec.structs.replace(configuration.workers, directory=str(path))
    return msgspec.structs.replace(configuration, workers=workers)


class Presence:
    """An agent's name in the state table: row ``agent/NAME`` has the lease of who is called so.

    Args:
        rows: the state table.
        seals: signs the lease.
        owner: the agent.
        seconds: length of the lease.
        clock: returns seconds, and never leaps.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        rows: Rows,
        seals: Seals,
        owner: Owner,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._leases = LeaseRows(rows, seals, clock)
        self._clock = clock
        self._sleep = sleep
        self._owner = owner
        self._seconds = seconds
        self._row = b"agent/" + owner.name.encode()
        self._epoch: int | None = None

    def begin(self, now: float) -> None:
        """Take the name, by Unix time.

        Where something answers at the address of who has it, that takes as long as a lease: one
        that lives renews its own meanwhile.

        Raises:
            ConfigurationError: another agent that lives is called so.
            Unreachable: the state table does not answer.
        """
        ending = self._clock() + 1.5 * self._seconds
        while True:
            try:
                self._take(now)
            except Held as held:
                if not _reaches(held.address, self._owner.address):
                    log.info("who had this name has ended without a goodbye", address=held.address)
                    return
                if self._clock() > ending:
                    raise ConfigurationError(
                        f"name: another agent is called {self._owner.name!r}, at {held.address}; "
                        "give each agent a name of its own"
                    ) from held
                self._sleep(self._seconds / 4)
            else:
                return

    def renew(self, now: float) -> None:
        """Keep the name, or take it when the lease of an agent that was killed has ended."""
        try:
            if self._epoch is None:
                self._take(now)
            elif not self._leases.renew(self._row, self._lease(self._epoch, now)):
                self._epoch = None
                log.warning(
                    "another agent has this agent's name",
                    name=self._owner.name,
                    cure="give each agent a name of its own, in its key `name`",
                )
        except AgentError as error:
            log.info("name not renewed", name=self._owner.name, reason=str(error))

    def end(self) -> None:
        """Give the name up."""
        try:
            if self._epoch is not None:
                self._leases.renew(self._row, Lease(self._epoch, None, 0.0))
        except AgentError as error:
            log.info("name not given up", name=self._owner.name, reason=str(error))

    def _lease(self, epoch: int, now: float) -> Lease:
        return Lease(epoch, self._owner, now + self._seconds, seconds=self._seconds)

    def _take(self, now: float) -> None:
        what = f"name {self._owner.name}"
        wanted = self._lease(0, now)
        self._epoch = self._leases.take(self._row, what, wanted, now).epoch


def _reaches(address: str, own: str) -> bool:
    if address == own:
        return False  # that is this agent by now
    try:
        with socket.create_connection(parse_address(address.rpartition("/")[2]), _REACH):
            return True
    except (OSError, ValueError):
        return False
