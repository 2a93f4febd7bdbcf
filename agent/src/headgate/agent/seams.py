"""What a runtime asks of the world besides Kafka and the state table: narrow interfaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from headgate.events import Container
from headgate.spark import (
    RunKey,
    RunState,
    StartSession,
    StepEnded,
    StepRequest,
    StepStarted,
)


class WorkerLost(Struct, frozen=True):
    """The worker ended, or never came up, while an attempt was with it."""

    run: str
    attempt: int
    reason: str
    detail: str = ""


class WorkerState(Struct, frozen=True):
    """How the worker stands, in words; ``ready`` when its session is warm."""

    ready: bool
    words: str
    pid: int | None = None


Report = StepStarted | StepEnded | WorkerLost | WorkerState


class Launcher(Protocol):
    """Runs one attempt at a time; what happens to it is reported from another thread."""

    def start(self, request: StepRequest) -> None:
        """Begin an attempt as soon as the worker is warm; does not wait."""

    def use(self, start: StartSession | None) -> None:
        """Have a worker of another configuration, none if None, as soon as nothing is with it."""

    def kill(self, reason: str) -> None:
        """End the worker with whatever it does (``WorkerLost`` follows); a new one is started."""

    def close(self) -> None:
        """End the worker for good; nothing of it is left when this returns."""


class Ledger(Protocol):
    """Where attempts claim and commit runs."""

    def state(self, key: RunKey) -> RunState:
        """Return where a run stands."""

    def forget(self, key: RunKey) -> None:
        """Delete what is known of a run that can not come back."""


class Cells(Struct, frozen=True):
    """Columns of equal length; ``values`` may be empty where none were asked for."""

    rows: Sequence[bytes]
    columns: Sequence[bytes]
    values: Sequence[bytes | None]


class Scanner(Protocol):
    """Reads tables in threads of its own and hands the result to ``done`` there."""

    def scan(
        self, container: Container, table: str, *, values: bool, done: Callable[[Cells], None]
    ) -> None:
        """Read all cells of the container's part in the table."""

    def read(
        self,
        table: str,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        done: Callable[[Cells], None],
    ) -> None:
        """Read the newest values of cells, in their order; None where there is none."""
