"""A job: an attempt that is a process of its own, and the directory by which it is known.

The directory is the whole memory of a job. An agent that was killed and started again finds there
what runs, and so does the process that runs the job.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from headgate.flows import JobLauncher
from headgate.spark import StepEnded, StepRequest


class JobKey(Struct, frozen=True, order=True):
    """One attempt of one run."""

    run: str
    attempt: int


class Job(Struct, frozen=True):
    """What is to be done, complete: whoever has it needs nothing else.

    ``directory`` is the dataflow file's, ``python`` the interpreter of steps, ``holder`` the name
    under which the attempt claims its run, the same however often its runner is started.
    """

    request: StepRequest
    launcher: JobLauncher
    directory: str
    python: str
    holder: str
    password: str = ""
    """Of Airflow's user."""
    user: str = ""
    submit_program: str = ""

    @property
    def key(self) -> JobKey:
        """The attempt."""
        return JobKey(self.request.run, self.request.attempt)


_DESCRIPTION: Final = "job.json"
_REQUEST: Final = "request.json"
_LOCK: Final = "attendant"
_CLAIMED: Final = "claimed"
_ENDED: Final = "ended.json"
_LOG: Final = "output.log"
_CODE: Final = "code"


class JobFiles:
    """The files of one job. Only its owner's user may read them: they hold passwords."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def request(self) -> Path:
        """The request alone, for whatever is run."""
        return self.directory / _REQUEST

    @property
    def log(self) -> Path:
        """All that is printed."""
        return self.directory / _LOG

    @property
    def code(self) -> Path:
        """Where the hash of the code is noted that is run."""
        return self.directory / _CODE

    def code_hash(self) -> str:
        """Return the hash of the code that is run; empty where none was noted."""
        try:
            return self.code.read_text()
        except FileNotFoundError:
            return ""

    def create(self, job: Job) -> None:
        """Write the description; a job that is described already stays what it is."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What is run neither claims its run nor commits it; it may name what the commit names.
        request = msgspec.structs.replace(job.request, ledger_proof=b"")
        self._write(_REQUEST, msgspec.json.encode(request))
        self._write(_DESCRIPTION, msgspec.json.encode(job))

    def job(self) -> Job | None:
        """Return the description; None where none was written to its end."""
        try:
            return msgspec.json.decode(
                (self.directory / _DESCRIPTION).read_bytes(), type=Job, strict=False
            )
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def note_claim(self) -> None:
        """Note that the run is claimed, which is its start."""
        self._write(_CLAIMED, b"")

    @property
    def claimed(self) -> bool:
        """Whether the run was claimed."""
        return (self.directory / _CLAIMED).exists()

    def end(self, ended: StepEnded) -> None:
        """Note how the job ended, for certain and for good."""
        self._write(_ENDED, msgspec.json.encode(ended))

    def ended(self) -> StepEnded | None:
        """Return how the job ended; None while it is under way, or where nobody knows."""
        try:
            return msgspec.json.decode((self.directory / _ENDED).read_bytes(), type=StepEnded)
        except FileNotFoundError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        path = self.directory / name
        new = path.with_name(f".{name}.new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        new.replace(path)

    # -- who runs it -----------------------------------------------------------------------------

    def lock(self) -> int | None:
        """Take the lock on the job and return its file descriptor; None where it is taken.

        The lock is held by whoever has the descriptor open, so that it is free as soon as the
        process that inherited it has ended, however that happened.
        """
        descriptor = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def note_runner(self, descriptor: int) -> None:
        """Write this process's id where ``runner`` finds it."""
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)

    def runner(self) -> int | None:
        """Return the id of the runner, also of its process group; None before it wrote it."""
        try:
            written = (self.directory / _LOCK).read_text()
        except FileNotFoundError:
            return None
        return int(written) if written else None

    @property
    def locked(self) -> bool:
        """Whether a process runs the job."""
        if not (self.directory / _LOCK).exists():
            return False
        descriptor = self.lock()
        if descriptor is None:
            return True
        os.close(descriptor)
        return False
