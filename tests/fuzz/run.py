"""Fuzzes what reads bytes from outside: ``python tests/fuzz/run.py --seconds 600 compact framer``.

With atheris installed inputs are found by the coverage that they reach; without it they are damaged
ones, the same for the same ``--seed``. Those that reach more are kept in ``--corpus``, where the
next run begins. The first finding ends a target, with the input that shows it. Seconds are of the
processor, so that a busy machine does not make a run say less.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import mutation
from watch import HANG_SECONDS, Finding, Watch

MOST_MEMORY = 4 << 30  # bytes of address space: the machine must survive what is found
INSTRUMENTED = (
    "headgate.wire",
    "headgate.hbase",
    "headgate.events",
    "headgate.observer.reading.event_lines",
    "headgate.observer.sessions.replies",
)
LONGEST = 1 << 14  # bytes of an input: larger ones find the same, later


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("targets", nargs="*", help="all when none is named")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a processor, a target")
    parser.add_argument("--executions", type=int, default=10_000_000, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("coverage", "mutation"), help="default: as installed")
    parser.add_argument("--corpus", type=Path, default=Path(".cache/fuzz"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


class Clocks:
    """Seconds since it was made: of the wall's clock and of this process's processor time."""

    def __init__(self) -> None:
        self._wall, self._processor = time.monotonic(), time.process_time()

    @property
    def wall(self) -> float:
        return time.monotonic() - self._wall

    @property
    def processor(self) -> float:
        return time.process_time() - self._processor


def by_mutation(name: str, options: argparse.Namespace) -> int:
    from targets import TARGETS

    watch = Watch(TARGETS[name])
    seeds = TARGETS[name].seeds()
    clocks = Clocks()
    try:
        for data in (*seeds, *_kept(options.corpus / name)):
            watch.run(data)
        for data in mutation.inputs(seeds, options.seed):
            if watch.executions >= options.executions:
                break
            if clocks.processor >= options.seconds:
                break
            watch.run(data)
    except Finding as finding:
        return _found(finding, name, options.corpus)
    _report(name, watch, clocks)
    return 0


def _kept(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("*"))]


def _report(name: str, watch: Watch, clocks: Clocks) -> None:
    print(
        f"{name}: {watch.executions} inputs in {clocks.wall:.0f} s ({clocks.processor:.0f} s of a "
        f"processor), {watch.refused} refused, no finding; slowest {watch.slowest * 1000:.1f} ms, "
        f"largest {watch.largest >> 10} KiB",
        flush=True,
    )


def _found(finding: Finding, name: str, corpus: Path) -> int:
    place = corpus / "findings" / f"{name}-{hashlib.sha256(finding.data).hexdigest()[:16]}"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(finding.data)
    print(f"FINDING {finding}; kept in {place}", flush=True)
    cause = finding.__cause__
    if cause is not None:
        sys.excepthook(type(cause), cause, cause.__traceback__)
    return 1


def by_coverage(name: str, options: argparse.Namespace) -> int:
    """Fuzz in a process of its own, for libFuzzer ends the one that it runs in."""
    (options.corpus / name).mkdir(parents=True, exist_ok=True)
    (options.corpus / "findings").mkdir(exist_ok=True)
    command = [sys.executable, __file__, name, "--inside", "--engine", "coverage"]
    command += ["--corpus", str(options.corpus), "--seconds", str(options.seconds)]
    command += ["--executions", str(options.executions), "--seed", str(options.seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", done.stdout)
    last = told[-1] if told else ("0", "0", "0")
    coverage = "; {} edges, {} features, {} inputs kept".format(*last)
    for line in done.stdout.splitlines():
        if line.startswith(f"{name}: "):
            print(line + coverage, flush=True)
    if done.returncode:
        print(done.stdout[-4000:], flush=True)
    return done.returncode


def fuzz_inside(name: str, options: argparse.Namespace) -> None:
    import atheris

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from targets import TARGETS

    watch = Watch(TARGETS[name])
    folder = options.corpus / name
    for data in TARGETS[name].seeds():
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
    clocks = Clocks()

    def one(data: bytes) -> None:
        try:
            watch.run(data)
        except Finding as finding:
            _found(finding, name, options.corpus)
            raise
        if clocks.processor >= options.seconds or watch.executions >= options.executions:
            _report(name, watch, clocks)
            os._exit(0)  # libFuzzer takes any other end for a crash

    flags = [
        f"-max_len={LONGEST}",
        f"-seed={options.seed}",
        f"-timeout={HANG_SECONDS * 12:.0f}",
        f"-rss_limit_mb={MOST_MEMORY >> 21}",
        f"-artifact_prefix={options.corpus / 'findings' / name}-",
    ]
    atheris.Setup([sys.argv[0], *flags, str(folder)], one)
    atheris.Fuzz()


def main() -> int:
    options = arguments()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    if options.inside:
        fuzz_inside(options.targets[0], options)
        return 0
    from targets import TARGETS

    unknown = set(options.targets) - TARGETS.keys()
    if unknown:
        print(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
        return 2
    engine = options.engine
    if engine is None:
        engine = "coverage" if importlib.util.find_spec("atheris") else "mutation"
    run = by_coverage if engine == "coverage" else by_mutation
    print(f"inputs by {engine}, {options.seconds:g} s of a processor for each target", flush=True)
    return max([run(name, options) for name in options.targets or TARGETS])


if __name__ == "__main__":
    sys.exit(main())
