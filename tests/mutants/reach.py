"""Which tests execute which lines, and how long each takes: recorded once, renewed file by file."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from coverage import Coverage
from coverage.numbits import numbits_to_nums
from trial import QUIET, SameExamples

AT_IMPORT = ""
"""The test that stands for what is executed before any test."""


@dataclass
class TestReach:
    """One test that passes: seconds of the processor, and the lines it executes of each file."""

    __test__ = False

    seconds: float
    lines: dict[str, frozenset[int]] = field(default_factory=dict)


@dataclass
class Reach:
    """What is known of all tests, by their ids."""

    tests: dict[str, TestReach]
    at_import: dict[str, frozenset[int]]
    _index: dict[str, dict[int, set[str]]] = field(default_factory=dict)

    def of(self, path: str, first: int, last: int) -> list[str]:
        """Tests that execute one of these lines, the fastest first."""
        index = self._index.get(path)
        if index is None:
            index = self._index[path] = defaultdict(set)
            for name, each in self.tests.items():
                for line in each.lines.get(path, ()):
                    index[line].add(name)
        lines = range(first, last + 1)
        return self._by_seconds(set().union(*(index.get(line, ()) for line in lines)))

    def of_folder(self, folder: str) -> list[str]:
        """Tests that execute any line of a file or below a folder/, the fastest first."""
        return self._by_seconds(
            name
            for name, each in self.tests.items()
            if any(path.startswith(folder) for path in each.lines)
        )

    def files(self) -> list[str]:
        """The files that hold a test, in their order."""
        return sorted({name.partition("::")[0] for name in self.tests})

    def is_imported(self, path: str, first: int, last: int) -> bool:
        """Whether one of these lines is executed before any test is."""
        return not self.at_import.get(path, frozenset()).isdisjoint(range(first, last + 1))

    def seconds(self, name: str) -> float:
        return self.tests[name].seconds

    def _by_seconds(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=lambda name: (self.tests[name].seconds, name))


def recorded(root: Path, sources: list[str], folders: list[str], store: Path) -> Reach:
    """Return the reach of the tests in ``folders``.

    Only files are run again that are new or whose text, or a source that they reached, has changed.

    Raises:
        RuntimeError: a run of the tests wrote nothing.
    """
    known: dict[str, dict[str, object]] = {}
    if store.exists():
        known = json.loads(store.read_text())
    files = sorted(
        str(path.relative_to(root))
        for folder in folders
        for path in (
            [root / folder] if folder.endswith(".py") else (root / folder).rglob("test_*.py")
        )
    )
    digests = {path: _digest(root / path) for path in (*sources, *files)}
    stale = [name for name in files if _is_stale(known.get(name), name, digests)]
    if stale:
        print(f"recording what {len(stale)} of {len(files)} test files reach", flush=True)
        fresh = store.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        store.parent.mkdir(parents=True, exist_ok=True)
        order = json.dumps({"root": str(root), "sources": sources, "files": stale})
        command = [sys.executable, str(Path(__file__)), str(fresh), order]
        subprocess.run(command, cwd=root, check=False)
        if not fresh.exists():
            raise RuntimeError(f"the tests could not be run: see above; {' '.join(stale[:3])} …")
        known.update(json.loads(fresh.read_text()))
        fresh.unlink()
        for name in stale:
            entry = known.setdefault(name, {"tests": {}, "import": {}})
            reached = {path for lines in _all_lines(entry) for path in lines}
            entry["digests"] = {path: digests[path] for path in (name, *sorted(reached))}
        store.write_text(json.dumps({name: known[name] for name in files}))
    return _reach([known[name] for name in files])


def _is_stale(entry: dict | None, name: str, digests: dict[str, str]) -> bool:
    if entry is None:
        return True
    return any(digests.get(path) != digest for path, digest in entry["digests"].items())


def _all_lines(entry: dict) -> Iterator[dict[str, str]]:
    yield entry["import"]
    for each in entry["tests"].values():
        yield each["lines"]


def _reach(entries: list[dict]) -> Reach:
    tests = {}
    at_import: defaultdict[str, frozenset[int]] = defaultdict(frozenset)
    for entry in entries:
        for name, each in entry["tests"].items():
            lines = {path: _numbers(mask) for path, mask in each["lines"].items()}
            tests[name] = TestReach(each["seconds"], lines)
        for path, mask in entry["import"].items():
            at_import[path] |= _numbers(mask)
    return Reach(tests, dict(at_import))


def _numbers(mask: str) -> frozenset[int]:
    return frozenset(numbits_to_nums(bytes.fromhex(mask)))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class Recorder:
    """A plugin of pytest that gives each test a context of its own."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        begin = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(time.process_time() - begin, 4)
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or (report.skipped and not hasattr(report, "wasxfail")):
            self.failed.add(report.nodeid)


def record(root: Path, sources: list[str], files: list[str], into: Path) -> None:
    """Run ``files`` and write what each of their tests that passed has reached."""
    paths = {str(root / path): path for path in sources}
    coverage = Coverage(data_file=None, config_file=False, include=list(paths))
    coverage.start()
    recorder = Recorder(coverage)
    pytest.main(
        ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *QUIET, *files],
        [recorder, SameExamples()],
    )
    coverage.stop()
    data = coverage.get_data()
    written: dict[str, dict] = {name: {"tests": {}, "import": {}} for name in files}
    for name, seconds in recorder.seconds.items():
        if name not in recorder.failed:
            entry = written[name.partition("::")[0]]
            entry["tests"][name] = {"seconds": seconds, "lines": {}}
    for full in data.measured_files():
        masks: defaultdict[str, int] = defaultdict(int)
        for line, contexts in data.contexts_by_lineno(full).items():
            for context in contexts:
                masks[context] |= 1 << line
        for context, mask in masks.items():
            text = mask.to_bytes(mask.bit_length() // 8 + 1, "little").hex()
            if context == AT_IMPORT:
                for entry in written.values():
                    entry["import"][paths[full]] = text
            elif context in recorder.seconds and context not in recorder.failed:
                written[context.partition("::")[0]]["tests"][context]["lines"][paths[full]] = text
    into.write_text(json.dumps(written))


if __name__ == "__main__":
    order = json.loads(sys.argv[2])
    record(Path(order["root"]), order["sources"], order["files"], Path(sys.argv[1]))
