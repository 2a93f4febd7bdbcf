"""Restores faults that were mended, one by one, and looks whether the worlds find them.

``python tests/faults/run.py --seconds 600 20 23`` applies ``20-*.patch`` and ``23-*.patch``, each
to a copy of the sources, and lets the worlds that a patch names search with seeds 1 to 5. It prints
a table: fault, world, seed, seconds of the processor, or that it was missed. Without numbers: all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SOURCES = ("observer/src", "agent/src")
TESTS = "tests"
SEEDS = (1, 2, 3, 4, 5)


class Fault(Struct, frozen=True):
    """A fault as a patch, with what it says of itself above the difference."""

    path: Path
    number: str
    words: str
    worlds: tuple[str, ...]


def faults() -> list[Fault]:
    """Return all faults, in their order."""
    return [_read(path) for path in sorted(HERE.glob("*.patch"))]


def _read(path: Path) -> Fault:
    head = path.read_text().partition("\ndiff ")[0].splitlines()
    said = dict(line.partition(": ")[::2] for line in head)
    number = path.name.partition("-")[0]
    return Fault(path, number, said["fault"], tuple(said["worlds"].split()))


def applies(fault: Fault, root: Path = ROOT) -> str:
    """Return what is wrong with a patch that does not apply any more; empty where nothing is."""
    command = ("git", "apply", "--check", str(fault.path))
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.stderr


def _restored(fault: Fault, directory: Path) -> None:
    for source in (*SOURCES, TESTS):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / source, directory / source, ignore=ignored)
    # Not inside a repository, or git would look for the paths in that.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(directory.parent)}
    command = ("git", "apply", str(fault.path))
    subprocess.run(command, cwd=directory, env=environment, check=True)


def found(fault: Fault, seeds: Iterable[int], seconds: float) -> Iterator[str]:
    """Yield a line for each seed and world that has searched, the last of what has found it."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        _restored(fault, directory)
        path = os.pathsep.join(str(directory / source) for source in SOURCES)
        environment = {**os.environ, "PYTHONPATH": path}
        for seed in seeds:
            for world in fault.worlds:
                program = str(directory / TESTS / "worlds" / "run.py")
                command = (sys.executable, program, world, "--seed", str(seed))
                done = subprocess.run(
                    (*command, "--seconds", f"{seconds:g}"),
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if done.returncode not in (0, 1) or done.stderr:
                    raise RuntimeError(f"{fault.path.name}: {done.stderr[-2000:]}")
                yield f"{world} | {seed} | {done.stdout.strip()[:200]}"
                if done.returncode == 1:
                    return


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("numbers", nargs="*", help="of faults; all when none is named")
    parser.add_argument("--seconds", type=float, default=600.0, help="of the processor, for a seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    options = parser.parse_args()
    chosen = [f for f in faults() if not options.numbers or f.number in options.numbers]
    print("fault | what | world | seed | found")
    met: dict[str, bool] = {}
    for fault in chosen:
        last = list(found(fault, options.seeds, options.seconds))[-1]
        hit = "| found after" in last
        met[fault.number] = met.get(fault.number, False) or hit
        print(f"{fault.number} | {fault.words} | {last if hit else 'missed: ' + last}", flush=True)
    print(f"{sum(met.values())} of {len(met)} found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
