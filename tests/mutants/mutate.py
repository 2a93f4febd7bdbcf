"""Changes the program in small ways and lists the changes that no test notices.

``python tests/mutants/mutate.py --seed 7 --count 500 engine replay``: a sample of 500 mutants of
two rooms, chosen by the seed. Outcomes are kept in ``.cache/mutants``; what was begun with a seed
goes on where it stopped, and survivors are tried again when tests that reach them have changed.
Files of the project are never written: a mutant lives in the memory of the process that tests it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import os
import shutil
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from operators import Mutant, mutants
from reach import Reach, recorded
from trial import QUIET
from trials import Outcome, Trials

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "engine": "agent/src/headgate/engine",
    "replay": "agent/src/headgate/replay",
    "hbase": "observer/src/headgate/hbase",
    "recording": "observer/src/headgate/observer/recording",
    "sessions": "observer/src/headgate/observer/sessions",
}
TESTS = [
    "tests/engine",
    "tests/replay",
    "tests/hbase",
    "tests/observer/control",
    "tests/observer/embedded",
    "tests/observer/publishing",
    "tests/observer/recording",
    "tests/observer/sessions",
]
"""What holds a room is tested beside it: those of the rooms, and of their nearest neighbours."""
NOTICED = {"killed", "timeout"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", help=f"all when none is named: {', '.join(ROOMS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000, help="mutants, of all rooms together")
    parser.add_argument("--least", type=int, default=200, help="mutants of each room")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at once")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tests a mutant")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin none afterwards")
    parser.add_argument("--matching", default="", help="of the sample, only keys that contain this")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "mutants")
    chosen = parser.parse_args()
    for room in chosen.rooms:
        if room not in ROOMS:
            parser.error(f"{room} is none of {', '.join(ROOMS)}")
    return chosen


def sample(found: dict[str, list[Mutant]], seed: int, count: int, least: int) -> list[Mutant]:
    """Return ``count`` mutants, at least so many of each room, the rest by the rooms' sizes.

    A mutant's rank depends on nothing but the seed and its key, so an edit elsewhere moves no
    other in or out, and a sample that ends early is one of all rooms.
    """
    spare = {room: max(0, len(each) - least) for room, each in found.items()}
    more = max(0, count - sum(min(least, len(each)) for each in found.values()))
    share = min(1.0, more / max(1, sum(spare.values())))
    ranked: list[tuple[float, Mutant]] = []
    for room, each in found.items():
        chosen = sorted(each, key=lambda mutant: _rank(seed, mutant))
        chosen = chosen[: min(least, len(each)) + round(spare[room] * share)]
        ranked += [(nth / len(chosen), mutant) for nth, mutant in enumerate(chosen)]
    return [mutant for _, mutant in sorted(ranked, key=lambda pair: (pair[0], pair[1].key))]


def _rank(seed: int, mutant: Mutant) -> bytes:
    return hashlib.sha256(f"{seed} {mutant.key}".encode()).digest()


def equivalent(path: Path) -> dict[str, str]:
    """Return mutants that no test can tell from the program, with the reason."""
    listed = tomllib.loads(path.read_text()).get("equivalent", [])
    return {each["mutant"]: each["reason"] for each in listed}


def outdated(listed: Iterable[str], found: dict[str, list[Mutant]]) -> list[str]:
    """Return what is listed of these rooms and is not found there."""
    keys = {mutant.key for each in found.values() for mutant in each}
    folders = tuple(f"{ROOMS[room]}/" for room in found)
    return [key for key in listed if key.startswith(folders) and key not in keys]


@dataclass
class Outcomes:
    """What is known of mutants, one line of a file each; the last line of a mutant holds."""

    path: Path
    parts: dict[str, str]
    reach: Reach
    budget: float
    known: dict[str, dict]

    @classmethod
    def read(
        cls, path: Path, parts: dict[str, str], reach: Reach, budget: float = math.inf
    ) -> Outcomes:
        known = {}
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # the last line of a run that was ended while it wrote
                known[entry["mutant"]] = entry
        return cls(path, parts, reach, budget, known)

    def of(self, mutant: Mutant) -> dict | None:
        """What holds still: not of other code, nor unnoticed by other or fewer tests than now."""
        entry = self.known.get(mutant.key)
        if entry is None or entry["code"] != self.parts[mutant.key]:
            return None
        if entry["status"] == "open" and entry["budget"] < self.budget:
            return None
        if entry["status"] not in NOTICED and entry["tests"] != self._tests(mutant):
            return None
        return entry

    def add(self, outcome: Outcome) -> None:
        mutant = outcome.mutant
        entry = {
            "mutant": mutant.key,
            "place": mutant.place,
            "status": outcome.status,
            "test": outcome.test,
            "ran": outcome.ran,
            "left_out": outcome.left_out,
            "budget": self.budget,
            "seconds": outcome.seconds,
            "code": self.parts[mutant.key],
            "tests": self._tests(mutant),
        }
        self.known[mutant.key] = entry
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def _tests(self, mutant: Mutant) -> str:
        names = self.reach.of(mutant.path, *mutant.lines)
        names = names or self.reach.of(mutant.path, *mutant.statement)
        files = sorted({name.partition("::")[0] for name in names})
        digest = hashlib.sha256("\n".join(sorted(names)).encode())
        for name in files:
            digest.update((ROOT / name).read_bytes())
        return digest.hexdigest()[:16]


def _parts(found: Iterable[Mutant]) -> dict[str, str]:
    """For each mutant, what its top-level statement says now."""
    digests: dict[str, dict[int, str]] = {}
    parts = {}
    for mutant in found:
        if mutant.path not in digests:
            tree = ast.parse((ROOT / mutant.path).read_text())
            digests[mutant.path] = {
                line: hashlib.sha256(ast.dump(each).encode()).hexdigest()[:16]
                for each in tree.body
                for line in range(each.lineno, (each.end_lineno or each.lineno) + 1)
            }
        parts[mutant.key] = digests[mutant.path].get(mutant.lines[0], "")
    return parts


def report(chosen: list[Mutant], outcomes: Outcomes, known_equivalent: dict[str, str]) -> int:
    """Print what became of the sample; return how many mutants are left to look at."""
    table: dict[str, Counter[str]] = {room: Counter() for room in ROOMS}
    left = []
    for mutant in chosen:
        entry = outcomes.of(mutant)
        status = entry["status"] if entry else "not tried"
        if status not in {*NOTICED, "not tried"} and mutant.key in known_equivalent:
            status = "equivalent"
        table[_room(mutant.path)][status] += 1
        if status in {"survived", "open", "untested"}:
            left.append((mutant.place, status, mutant.key))
    columns = ("killed", "timeout", "equivalent", "survived", "open", "untested", "not tried")
    print(f"\n{'':10}", *(f"{name:>10}" for name in columns))
    for room, counted in table.items():
        if counted:
            print(f"{room:10}", *(f"{counted[name]:>10}" for name in columns))
    for place, status, key in sorted(left):
        print(f"{status}: {place}: {key}")
    return len(left)


def _room(path: str) -> str:
    return next(room for room, folder in ROOMS.items() if path.startswith(f"{folder}/"))


def main() -> int:
    options = arguments()
    rooms = options.rooms or list(ROOMS)
    compiled = [str(path) for room in rooms for path in (ROOT / ROOMS[room]).rglob("*.so")]
    if compiled:
        print(f"{compiled[0]} is compiled, so no mutant would be executed: remove *.so first")
        return 2
    found = {room: _found(ROOT / ROOMS[room]) for room in rooms}
    chosen = sample(found, options.seed, options.count, options.least)
    options.cache.mkdir(parents=True, exist_ok=True)
    sources = sorted(
        str(path.relative_to(ROOT)) for room in ROOMS for path in (ROOT / ROOMS[room]).rglob("*.py")
    )
    reach = recorded(ROOT, sources, TESTS, options.cache / "reach.json")
    outcomes = Outcomes.read(
        options.cache / f"outcomes-{options.seed}.jsonl", _parts(chosen), reach, options.budget
    )
    chosen = [mutant for mutant in chosen if options.matching in mutant.key]
    ignored = equivalent(Path(__file__).with_name("equivalent.toml"))
    for key in outdated(ignored, found):
        print(f"equivalent.toml lists what is no mutant any more: {key}")
    todo = [each for each in chosen if outcomes.of(each) is None and each.key not in ignored]
    if todo:
        _try(todo, outcomes, options)
    return 1 if report(chosen, outcomes, ignored) else 0


def _found(folder: Path) -> list[Mutant]:
    return [
        mutant
        for path in sorted(folder.rglob("*.py"))
        for mutant in mutants(path.read_text(), str(path.relative_to(ROOT)))
    ]


def _try(todo: list[Mutant], outcomes: Outcomes, options: argparse.Namespace) -> None:
    begin = time.monotonic()
    done = Counter[str]()

    def tell(outcome: Outcome) -> None:
        outcomes.add(outcome)
        done[outcome.status] += 1
        if outcome.status not in NOTICED:
            print(f"{outcome.status}: {outcome.mutant.place}: {outcome.mutant.key}", flush=True)
        if sum(done.values()) % 50 == 0:
            seconds = time.monotonic() - begin
            print(
                f"{sum(done.values())} of {len(todo)} in {seconds:.0f} s: {dict(done)}", flush=True
            )

    folder = options.cache / f"work-{os.getpid()}"
    trials = Trials(
        root=ROOT,
        reach=outcomes.reach,
        mutants=todo,
        budget=options.budget,
        jobs=options.jobs,
        until=begin + 60 * options.minutes,
        folder=folder,
        tell=tell,
    )
    base = f"--basetemp={folder / 'own'}"
    flags = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-o",
        "timeout=0",
        *QUIET,
        "--no-header",
        base,
    ]
    folder.mkdir()
    try:
        pytest.main([*flags, *outcomes.reach.files()], [trials])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.exit(main())
