"""Tries mutants one after the other, each with the tests that reach it, the fastest first."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import psutil
import pytest
from operators import Mutant, mutated
from reach import Reach
from trial import LiveFunctions, alone, run_until_failure, teller, without_shrinking

LEAST_SECONDS = 10.0
"""Of the processor, given to every test, however fast it is."""
TIMES_AS_LONG = 10
"""What a test may take of its own time before its mutant is held to hang."""
TIMES_WAITING = 5
"""How many times as long it may take by the clock: the machine may be busy with other things."""
SECONDS_TO_IMPORT = 60.0


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: killed, timeout, survived, open (tests left out) or untested."""

    mutant: Mutant
    status: str
    test: str
    ran: int
    left_out: int
    seconds: float


@dataclass
class _Trial:
    mutant: Mutant
    tests: list[str]
    left_out: int
    pid: int
    pipe: int
    begin: float
    begun: float
    """When what runs just now has begun."""
    deadline: float
    temporary: Path
    heard: bytes = b""
    test: str = ""
    ran: int = 0
    status: str = ""
    limit: float = SECONDS_TO_IMPORT
    """Of what runs, seconds of the processor; it has had ``worked`` of them before."""
    worked: float = 0.0
    process: subprocess.Popen[bytes] | None = None


@dataclass
class Trials:
    """A plugin of pytest that tries mutants instead of running the tests that were collected.

    Args:
        root: The project's folder.
        reach: Which tests reach what.
        budget: Seconds of tests that a mutant gets; the slowest ones beyond are left out.
        jobs: Mutants at once.
        until: Moment of the monotonic clock after which no mutant is begun.
        tell: Called with each outcome.
    """

    root: Path
    reach: Reach
    mutants: list[Mutant]
    budget: float
    jobs: int
    until: float
    folder: Path
    tell: Callable[[Outcome], None]
    _killers: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _running: dict[int, _Trial] = field(default_factory=dict)
    _items: dict[str, pytest.Item] = field(default_factory=dict)
    _imported: set[str] = field(default_factory=set)
    _begun: int = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        without_shrinking(session.items)
        self._items = {item.nodeid: item for item in session.items}
        self._config = session.config
        self._live = LiveFunctions([str(self.root / path) for path in self._paths()])
        waiting = list(reversed(self.mutants))
        with selectors.DefaultSelector() as selector:
            try:
                while waiting or self._running:
                    while waiting and len(self._running) < self.jobs:
                        if time.monotonic() > self.until:
                            waiting.clear()
                            break
                        self._begin(waiting.pop(), selector)
                    self._listen(selector)
            finally:
                for trial in self._running.values():
                    self._end(trial)
        return True

    def _paths(self) -> Iterable[str]:
        return {mutant.path for mutant in self.mutants}

    def tests(self, mutant: Mutant) -> tuple[list[str], int]:
        """Return the tests that a mutant gets, and how many more reach it."""
        reach, path = self.reach, mutant.path
        names = reach.of(path, *mutant.lines) or reach.of(path, *mutant.statement)
        if not self._is_function(mutant):
            # What only looks at what a module defines executes nothing of it that was recorded.
            beside = [name for name in reach.tests if _nearness(name, path)]
            beside.sort(key=lambda name: (-_nearness(name, path), reach.seconds(name)))
            names = names + beside + reach.of_folder(path[: path.rfind("/") + 1])
        names = [name for name in dict.fromkeys(names) if name in self._items]
        near = self._killers[f"{path}:{mutant.scope}"]
        far = dict(self._killers[path].most_common(10))
        order = sorted(names, key=lambda name: (name not in near, name not in far))
        chosen: list[str] = []
        seconds = 0.0
        for name in order:
            seconds += reach.seconds(name)
            if seconds <= self.budget or not chosen:
                chosen.append(name)
        return chosen, len(names) - len(chosen)

    def _is_function(self, mutant: Mutant) -> bool:
        if mutant.key in self._imported:
            return False
        return mutant.in_function and not self.reach.is_imported(mutant.path, *mutant.lines)

    def _begin(self, mutant: Mutant, selector: selectors.BaseSelector) -> None:
        tests, left_out = self.tests(mutant)
        if not tests:
            self.tell(Outcome(mutant, "untested", "", 0, 0, 0.0))
            return
        self._begun += 1
        temporary = self.folder / f"{os.getpid()}-{self._begun}"
        reading, writing = os.pipe()
        begin = time.monotonic()
        trial = _Trial(
            mutant,
            tests,
            left_out,
            pid=0,
            pipe=reading,
            begin=begin,
            begun=begin,
            deadline=begin + SECONDS_TO_IMPORT,
            temporary=temporary,
        )
        if self._is_function(mutant):
            trial.pid = self._forked(mutant, tests, writing, temporary)
        else:
            trial.process = self._started(mutant, tests, writing, temporary)
            trial.pid = trial.process.pid
        os.close(writing)
        self._running[reading] = trial
        selector.register(reading, selectors.EVENT_READ)

    def _forked(self, mutant: Mutant, tests: list[str], writing: int, temporary: Path) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            path = self.root / mutant.path
            source = path.read_text()
            tell = teller(writing)
            try:
                is_another = self._live.change(str(path), source, mutated(source, mutant.position))
            except LookupError:
                tell("elsewhere")
                return 0
            if is_another:
                alone(temporary, self._config)
                run_until_failure([self._items[name] for name in tests], tell)
            else:
                tell("survived")  # the compiler makes the same of both
        finally:
            os._exit(0)

    def _started(
        self, mutant: Mutant, tests: list[str], writing: int, temporary: Path
    ) -> subprocess.Popen[bytes]:
        names = temporary.with_suffix(".tests")
        names.parent.mkdir(parents=True, exist_ok=True)
        names.write_text(json.dumps(tests))
        order = {
            "pipe": writing,
            "path": str(self.root / mutant.path),
            "position": mutant.position,
            "tests": str(names),
            "temporary": str(temporary),
        }
        command = [sys.executable, str(Path(__file__).parent / "trial.py"), json.dumps(order)]
        return subprocess.Popen(command, cwd=self.root, pass_fds=[writing])

    def _listen(self, selector: selectors.BaseSelector) -> None:
        now = time.monotonic()
        wait = min((each.deadline - now for each in self._running.values()), default=0.0)
        for key, _ in selector.select(max(wait, 0.0)):
            trial = self._running[key.fd]
            data = os.read(key.fd, 1 << 16)
            self._hear(trial, data)
            if not data or trial.status:
                self._finish(trial, selector, trial.status or "crash")
        for trial in list(self._running.values()):
            if time.monotonic() > trial.deadline and not self._goes_on(trial):
                self._finish(trial, selector, "timeout")

    def _hear(self, trial: _Trial, data: bytes) -> None:
        *lines, trial.heard = (trial.heard + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode().partition(" ")
            if word == "test":
                trial.test = rest
                trial.ran += 1
                trial.limit = max(LEAST_SECONDS, TIMES_AS_LONG * self.reach.seconds(rest))
                trial.worked, trial.begun = _worked(trial.pid), time.monotonic()
                trial.deadline = trial.begun + trial.limit
            else:
                trial.status = word
                trial.test = rest

    def _goes_on(self, trial: _Trial) -> bool:
        """Give a test that was kept waiting for a processor what it has not had of its time."""
        now = time.monotonic()
        left = trial.limit - (_worked(trial.pid) - trial.worked)
        trial.deadline = min(now + left, trial.begun + TIMES_WAITING * trial.limit)
        return trial.deadline > now

    def _finish(self, trial: _Trial, selector: selectors.BaseSelector, status: str) -> None:
        selector.unregister(trial.pipe)
        del self._running[trial.pipe]
        self._end(trial)
        mutant = trial.mutant
        if status == "elsewhere":
            self._imported.add(mutant.key)
            self._begin(mutant, selector)
            return
        if status == "crash":
            status = "killed"
        if status in {"killed", "timeout"}:
            self._killers[mutant.path][trial.test] += 1
            self._killers[f"{mutant.path}:{mutant.scope}"][trial.test] += 1
        elif status == "survived" and trial.left_out:
            status = "open"
        seconds = round(time.monotonic() - trial.begin, 2)
        self.tell(Outcome(mutant, status, trial.test, trial.ran, trial.left_out, seconds))

    def _end(self, trial: _Trial) -> None:
        for send in (os.killpg, os.kill):
            try:
                send(trial.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if trial.process:
            trial.process.wait()
        else:
            os.waitpid(trial.pid, 0)
        os.close(trial.pipe)
        shutil.rmtree(trial.temporary, ignore_errors=True)
        trial.temporary.with_suffix(".tests").unlink(missing_ok=True)


def _nearness(test: str, path: str) -> int:
    """Return how many folders of its room, and its name, a module has in common with tests."""
    *folders, module = path.partition("/headgate/")[2].split("/")
    *places, file = test.partition("::")[0].split("/")[1:]
    beside = zip(folders, places, strict=False)
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], beside)))
    return shared + (shared > 0 and file == f"test_{module}")


def _worked(pid: int) -> float:
    """Return how many seconds of the processor a process has had."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
