"""The three dataflows of a piece, their steps, and what their outputs have to be.

No step copies its input, so that a value that stands where another belongs is seen.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

Rows = dict[bytes, bytes]
FEEDER = "collector"
"""Who feeds the dataflow in mode ``isolation``."""
ENDS = (b"", b"", b"", b"", b"\xff", b"\x00\x80", b"\\x41", "\u00e9 (1.5)".encode())
"""Ends of rows, so that some rows are no text, and some look like an escape."""


@dataclass(frozen=True)
class Flow:
    """A dataflow of one action.

    Attributes:
        name: of the dataflow; its tables are named after it.
        action: which it has.
        limit: updates after which it runs, at first.
    """

    name: str
    action: str
    limit: int

    @property
    def input(self) -> str:
        """The table it reads."""
        return f"{self.name}-input"

    @property
    def output(self) -> str:
        """The table it writes."""
        return f"{self.name}-output"

    @property
    def counts(self) -> str:
        """The table that its action beside writes, where it has one."""
        return f"{self.name}-counts"


CHANGING = Flow("changing", "reverse", 60)
SUMMING = Flow("summing", "sum", 80)
OWNING = Flow("owning", "extremes", 60)
ALL = (CHANGING, SUMMING, OWNING)

STEPS = '''
import json
import os

def reverse(run):
    """Reverse what changed; note what was shown, for whoever looks whether that was all."""
    changed = run.changes("input", kind="string")
    shown = sorted({row.row for row in changed.select("row").collect()})
    note = {
        "run": run.id, "attempt": run.attempt, "rows": shown,
        "since": {t: list(p) for t, p in run.since.offsets.items()},
        "cut": {t: list(p) for t, p in run.cut.offsets.items()},
    }
    line = (json.dumps(note) + "\\n").encode()
    handle = os.open(run.parameters["notes"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line)  # in one call: a step that is killed leaves no half of a line
    finally:
        os.close(handle)
    reversed_ = changed.selectExpr("row", "if(deleted, null, reverse(value)) as v")
    run.write(reversed_, "output")
'''

COMMAND = """
import json, os, sys
from pathlib import Path
from headgate.client import ScanRange, Thrift2Connection
from headgate.events import Origin
sys.path.insert(0, sys.argv[1])
from soaking.dataflows import EXPECTED, as_rows

flow = os.environ["HEADGATE_DATAFLOW"]
request = json.loads(Path(os.environ["HEADGATE_RUN"]).read_text())
origin = Origin(request["dataflow"], request["action"], request["run"], request["token"])
host, port = os.environ["HEADGATE_THRIFT2"].split(":")
with Thrift2Connection(host, int(port), timeout=60.0) as connection:
    read = lambda end: as_rows(
        connection.scan(f"{flow}-{end}", ScanRange(columns=(b"f:v",)))
    )
    wanted, there = EXPECTED[flow](read("input")), read("output")
    new = [(row, {b"f:v": value}) for row, value in wanted.items() if there.get(row) != value]
    gone = [row for row in there if row not in wanted]
    if new:
        connection.put(f"{flow}-output", new, origin=origin)
    if gone:
        connection.delete(f"{flow}-output", gone, origin=origin)
"""


def as_rows(scanned: object) -> Rows:
    """Return the values of ``f:v`` by row."""
    return {row: cells[b"f:v"] for row, cells in scanned if b"f:v" in cells}  # type: ignore[attr-defined]


def reversed_rows(rows: Rows) -> Rows:
    """Return what ``changing`` has to write, from what it reads."""
    return {row: value.decode()[::-1].encode() for row, value in rows.items()}


def _groups(rows: Rows) -> dict[bytes, list[int]]:
    groups: dict[bytes, list[int]] = defaultdict(list)
    for row, value in rows.items():
        groups[b"group-" + row[-1:]].append(int(value))
    return groups


def sums(rows: Rows) -> Rows:
    """Return what ``summing`` has to write: by the last character of a row, the sum."""
    return {group: b"%d" % sum(values) for group, values in _groups(rows).items()}


def extremes(rows: Rows) -> Rows:
    """Return what ``owning`` has to write: likewise, how many there are and the greatest."""
    found = _groups(rows).items()
    return {group: b"%d" % (len(values) * 10**9 + max(values)) for group, values in found}


COUNT = """
import os, sys
from headgate.client import ScanRange, Thrift2Connection

tables = sys.argv[1:]
host, port = os.environ["HEADGATE_THRIFT2"].split(":")
with Thrift2Connection(host, int(port), timeout=60.0) as connection:
    rows = sum(1 for table in tables[1:] for _ in connection.scan(table, ScanRange()))
    connection.put(tables[0], [(b"n", {b"f:v": b"%d" % rows})])
"""


def row_of(writer: str, number: int) -> bytes:
    """Return a writer's row of a number."""
    return f"{writer}-{number:04}".encode() + ENDS[number % len(ENDS)]


EXPECTED = {"changing": reversed_rows, "summing": sums, "owning": extremes}


def write_steps(folder: Path) -> None:
    """Put the code of the steps where the dataflows look for it."""
    (folder / "soak_steps.py").write_text(STEPS)
    (folder / "soak_command.py").write_text(COMMAND)
    (folder / "soak_count.py").write_text(COUNT)


_READS = ("output", "input, output")
_BOUNDS = (
    "output: {sequence: 30}",
    "output: {sequence: 20 %}",
    "output: {value: {changed: 10%}}",
)
EXTRAS = len(_READS) * len(_BOUNDS)
"""Forms that an action beside a dataflow's own may have."""


def extra_words(flow: Flow, extra: int) -> str:
    """Return what a form of the action beside is."""
    return f"{flow.name}: reads {_READS[extra % 2]} when {_BOUNDS[extra // 2]}"


def _extra(extra: int, flow: Flow) -> str:
    tables = {"output": flow.output, "input, output": f'{flow.input}", "{flow.output}'}
    reads = _READS[extra % 2]
    return f"""  counting:
    command: ["{sys.executable}", soak_count.py, "{flow.counts}", "{tables[reads]}"]
    timeout: 60 s
    reads: [{reads}]
    writes: counts
    when: {{{_BOUNDS[extra // 2]}}}
    retries: {{attempts: 100, backoff: [1 s, 5 s]}}
"""


def text(flow: Flow, limit: int, folder: Path, here: Path, extra: int | None = None) -> str:
    """Return the dataflow file, with another limit than it had at first.

    Args:
        flow: whose.
        limit: updates after which its action runs.
        folder: of what its action notes.
        here: the folder of this package.
        extra: the form of the action beside, one of ``EXTRAS``; None where there is none.
    """
    codec = "opaque" if flow is CHANGING else "number"
    mode = {
        CHANGING: "",
        SUMMING: "mode: observer\nscans: {every: 2 s, whole: 30 s}",
        OWNING: f"mode: isolation\nfeeders: {FEEDER}",
    }[flow]
    step = (
        f'step: soak_steps:{flow.action}\n    parameters: {{notes: "{folder / "notes.jsonl"}"}}'
        if flow is CHANGING
        else f'command: ["{sys.executable}", soak_command.py, "{here}"]\n    timeout: 60 s'
    )
    container, action = "", ""
    if extra is not None:
        container = f'  counts: {{table: {flow.counts}, column: "f:v", codec: number}}\n'
        action = _extra(extra, flow)
    return f"""
name: {flow.name}
{mode}
containers:
  input: {{table: {flow.input}, column: "f:v", codec: {codec}}}
  output: {{table: {flow.output}, column: "f:v", codec: {codec}}}
{container}actions:
  feed: {{input: input}}
  {flow.action}:
    {step}
    reads: input
    writes: output
    when: {{input: {{sequence: {limit}}}}}
    evaluate: write
    retries: {{attempts: 100, backoff: [1 s, 5 s]}}
{action}spark: {{spark.sql.shuffle.partitions: 1}}
"""
