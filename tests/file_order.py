"""In which order the files of tests are handed to the processes of a run of pytest by xdist."""

from __future__ import annotations

from collections.abc import Iterable

from xdist.scheduler import LoadFileScheduling

FRAGILE = (
    "tests/stack/observer/faults/test_faults.py",
    "tests/stack/observer/faults/test_outages.py",
    "tests/stack/agent/faults/test_outages.py",
)
"""Files whose tests kill parts of a stack. One process has them all, one after the other: the stack
then starts once, which takes 20 s of a processor."""

LONG = (
    *FRAGILE,
    "tests/stack/test_demo.py",
    "tests/stack/agent/stages/test_stages.py",
    "tests/stack/agent/bounds/test_learned.py",
    "tests/stack/test_local_stack.py",
    "tests/stack/spark/test_worker.py",
    "tests/stack/agent/test_agent.py",
    "tests/stack/agent/faults/test_conservation.py",
    "tests/examples/linear_road/test_steps.py",
    "tests/worlds/test_worlds.py",
)
"""Files of more than a minute and a half, the longest first: at the end of a run one process would
be alone with them."""


def in_order(files: Iterable[str]) -> list[str]:
    """Return each file once: the long ones first, then those of the real stack among the others.

    Tests of the stack wait for something most of the time, the others compute: side by side they
    leave no processor idle, and one after the other they do by turns. The mixture is of numbers of
    files, and holds to the end.
    """
    found = list(dict.fromkeys(files))
    long = [name for name in LONG if name in found]
    rest = [name for name in found if name not in long]
    place = dict[str, float]()
    for waiting in (True, False):
        kind = [name for name in rest if name.startswith("tests/stack/") is waiting]
        place |= {name: (number + 1) / len(kind) for number, name in enumerate(kind)}
    return long + sorted(rest, key=place.__getitem__)


def unit_of(name: str) -> str:
    """Return the file by which the process is chosen that has a file's tests: mostly itself."""
    return FRAGILE[0] if name in FRAGILE else name


class Scheduling(LoadFileScheduling):
    """Hands each file to one process, and all of ``FRAGILE`` to the same."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(super()._split_scope(nodeid))
