"""The worker of an agent of a script: attempts that write through the observer, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.agent.ports import AttemptDisplaced, Report, WorkerLost
from headgate.flows import Launcher
from headgate.spark import (
    Claimed,
    Ending,
    LostClaim,
    StageResult,
    StartSession,
    StepEnded,
    StepRequest,
    StepStarted,
)

if TYPE_CHECKING:
    from simulation.world import World


def result_of(request: StepRequest) -> str:
    """Return what an attempt's commit names: every attempt something of its own."""
    if request.stage is not None:
        rows = dict.fromkeys(request.stage.outputs, request.attempt)
        return StageResult(f"{request.action}/{request.run}-{request.attempt}", rows).encoded()
    return f"state of {request.run}-{request.attempt}"


class ScriptedWorker:
    """Runs one attempt at a time; it outlives its agent."""

    def __init__(self, world: World, report: Callable[[Report], None]) -> None:
        self.sessions: list[StartSession | None] = []
        """What its workers were to be started with, after the first."""
        self.expected: list[float | None] = []
        """Seconds until the next run, each time they were told."""
        self._world = world
        self._report = report
        self._request: StepRequest | None = None
        self._attempt: Iterator[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether an attempt is under way."""
        return self._attempt is not None

    def step(self) -> bool:
        """Let the attempt do one thing."""
        if self._attempt is None:
            return False
        if next(self._attempt, self) is self:
            self._attempt = None
        return True

    def kill(self) -> None:
        """End the worker; its agent hears of it."""
        request, self._request, self._attempt = self._request, None, None
        if request is not None:
            self._report(WorkerLost(request.run, request.attempt, "it was killed"))

    def displace(self, reason: str) -> None:
        """End the worker for what somebody else has done in it."""
        request, self._request, self._attempt = self._request, None, None
        if request is not None:
            self._report(AttemptDisplaced(request.run, request.attempt, reason))

    def _run(self, request: StepRequest) -> Iterator[None]:
        world = self._world
        world.point()
        try:
            claim = world.ledger.claim(request.key, request.attempt, request.token, "worker")
        except LostClaim as error:
            self._end(request, Ending.LOST_CLAIM, str(error))
            return
        self._report(StepStarted(request.run, request.attempt))
        yield
        while request.action in world.hanging:
            yield
        if world.failing.get(request.action, 0):
            world.failing[request.action] -= 1
            self._end(request, Ending.FAILED, "it was told to fail")
            return
        yield from self._write(request, claim)

    def _write(self, request: StepRequest, claim: Claimed) -> Iterator[None]:
        world = self._world
        action = next(a for a in world.dataflow.spec.actions if a.name == request.action)
        items = [
            item
            for watched in world.dataflow.spec.containers
            if watched.id in action.writes
            for item in watched.container.items
        ]
        for item in items:
            for row in (b"a", b"b"):
                world.point()
                column = (item.family or b"c") + b":" + (item.qualifier or b"v")
                value = str(request.token).encode()
                if not world.write(item.table, row, column, value, request.origin):
                    self._end(request, Ending.FAILED, "the observer refused the write")
                    return
                yield
        world.point()
        try:
            world.ledger.commit(request.key, claim, result_of(request))
        except LostClaim as error:
            self._end(request, Ending.LOST_CLAIM, str(error))
            return
        world.commits.append(request)
        yield
        world.point()
        self._end(request, Ending.COMMITTED, "")

    def _end(self, request: StepRequest, ending: Ending, reason: str) -> None:
        self._request = None
        detail = f"Traceback: {reason}" if reason else ""
        result = result_of(request) if ending is Ending.COMMITTED else ""
        which = (request.run, request.attempt, ending, 0.0)
        self._report(StepEnded(*which, reason=reason, detail=detail, result=result))

    # -- as the runtime sees it ------------------------------------------------------------------

    def start(self, request: StepRequest, by: Launcher, directory: str) -> None:
        """See ``Launcher``."""
        del by, directory
        self._world.point()
        self._request = request
        self._attempt = self._run(request)

    def use(self, start: StartSession | None) -> None:
        """See ``Launcher``."""
        self.sessions.append(start)

    def expect(self, seconds: float | None) -> None:
        """See ``Launcher``."""
        self.expected.append(seconds)

    def recover(self, run: str, attempt: int) -> bool:
        """See ``Launcher``; its workers end with it."""
        del run, attempt
        return False

    def cancel(self, run: str, attempt: int, reason: str) -> None:
        """See ``Launcher``."""
        del run, attempt, reason
        self.kill()

    def cancel_all(self, reason: str) -> None:
        """See ``Launcher``."""
        del reason

    def log(self, action: str, run: str, attempt: int) -> Path | None:
        """See ``Launcher``; nothing is printed."""
        del action, run, attempt
        return None

    def close(self) -> None:
        """See ``Launcher``."""
        self._request = self._attempt = None
