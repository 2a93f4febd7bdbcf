"""Stages as people read them: what an agent says, and what the manifest of their state says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa

from headgate.cli.flow.views import Line, Row, table
from headgate.cli.stage.finding import FoundState
from headgate.engine import seconds_words
from headgate.events import Cut
from headgate.incremental import (
    Comparison,
    FilesCursor,
    StoredState,
    TopicCursor,
    files_cursor,
    topic_cursor,
)

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_STEP: Final = 1000
_SHOWN: Final = 5
"""Rows of a group that differs."""


def size_words(size: float) -> str:
    """Return a number of bytes as people read it."""
    unit = 0
    while size >= _STEP and unit < len(_UNITS) - 1:
        size, unit = size / _STEP, unit + 1
    return f"{size:.3g} {_UNITS[unit]}" if unit else f"{int(size)} {_UNITS[0]}"


def state_document(stored: StoredState) -> dict[str, Any]:
    """Return what is told of a state: its manifest, and what that comes to."""
    manifest = stored.manifest
    files = [ref for bucket in manifest.buckets for ref in bucket.files]
    runs = [len(bucket.runs) for bucket in manifest.buckets]
    return {
        "manifest": stored.name,
        "written": stored.written,
        "epoch": manifest.epoch,
        "code": manifest.code,
        "match": manifest.match,
        "previous": manifest.previous,
        "columns": {field.name: str(field.type) for field in stored.columns},
        "rows_written": sum(ref.rows for ref in files),
        "bytes": sum(ref.length for ref in files),
        "buckets": len(manifest.buckets),
        "runs": {"most": max(runs, default=0), "all": sum(runs)},
        "outputs": {
            flow: {
                "columns": _columns(manifest.schemas.get(flow)),
                "rows": sum(ref.rows for ref in refs),
                "bytes": sum(ref.length for ref in refs),
            }
            for flow, refs in manifest.outputs.items()
        },
        "read": {flow: cursor_words(cursor) for flow, cursor in manifest.cursors.items()},
        "published": {
            each.flow: {
                "location": location,
                "increment": each.increment,
                "rows": sum(file.rows for file in each.files),
                "bytes": sum(file.bytes for file in each.files),
            }
            for location, each in manifest.publications.items()
        },
        "sent": {
            each.flow: {
                "topic": each.topic,
                "group": each.identity,
                "increment": each.increment,
                "rows": each.rows,
            }
            for each in manifest.sendings
        },
        "waiting": {
            flow: sum(each.rows for each in units) for flow, units in manifest.waiting.items()
        },
    }


def _columns(serialised: bytes | None) -> dict[str, str]:
    schema = pa.schema([]) if serialised is None else pa.ipc.read_schema(pa.py_buffer(serialised))
    return {field.name: str(field.type) for field in schema}


def cursor_words(cursor: bytes) -> str:
    """Return how far an input flow was read: offsets of topics, the last increment, or files."""
    files = files_cursor(cursor)
    if files is not None:
        return _files_words(files)
    topic = topic_cursor(cursor)
    if topic is not None:
        return _topic_words(topic)
    said = msgspec.msgpack.decode(cursor)
    if isinstance(said, dict) and "last" in said:
        return f"increment {said['last']}" if said["last"] else "nothing yet"
    cut = msgspec.msgpack.decode(cursor, type=Cut)
    topics = (
        f"{topic} to offset {', '.join(map(str, offsets))}"
        for topic, offsets in sorted(cut.offsets.items())
    )
    return "; ".join(topics) or "nothing yet"


def _files_words(cursor: FilesCursor) -> str:
    if not cursor.newest:
        return f"no file of {cursor.location} yet"
    newest = datetime.fromtimestamp(cursor.newest / 1e9, UTC).isoformat(timespec="milliseconds")
    return (
        f"the file of {newest} in {cursor.location}; {len(cursor.read)} known by name, "
        f"{cursor.older} there are older"
    )


def _topic_words(cursor: TopicCursor) -> str:
    offsets = ", ".join(f"{number} to {at}" for number, at in sorted(cursor.offsets.items()))
    return f"topic {cursor.topic}, partitions to offsets: {offsets}"


def stage_lines(found: FoundState, name: str, width: int | None) -> Iterator[Line]:
    """Yield one stage: how it stands, what waits for it, and what its state is."""
    yield Line(name, "bold")
    if found.status is not None:
        yield from _status_lines(found.status, width)
    if found.stored is None:
        yield Line(f"  {found.trouble}", "yellow")
        return
    told = state_document(found.stored)
    age = seconds_words(max(0.0, time.time() - told["written"]))
    yield Line(f"  epoch {told['epoch']}, written {age} ago by version {told['code']!r}")
    yield Line(f"  manifest {told['manifest']}")
    runs = told["runs"]
    yield Line(
        f"  {told['rows_written']} rows in {size_words(told['bytes'])}, tombstones and what newer "
        f"ones hide included; {told['buckets']} buckets, {runs['all']} runs beside their bases, "
        f"{runs['most']} at most of one"
    )
    columns = ", ".join(f"{column} {kind}" for column, kind in told["columns"].items())
    yield Line(f"  state: {columns or 'none'} (matched by {told['match']})")
    for flow, made in told["outputs"].items():
        columns = ", ".join(f"{column} {kind}" for column, kind in made["columns"].items())
        yield Line(f"  out `{flow}`: {columns}; {made['rows']} rows in the last epoch")
    for flow, files in told["published"].items():
        yield Line(
            f"  files of `{flow}`: {files['rows']} rows, {size_words(files['bytes'])} as increment "
            f"{files['increment']} in {files['location']}"
        )
    for flow, sent in told["sent"].items():
        yield Line(
            f"  messages of `{flow}`: {sent['rows']} as increment {sent['increment']} to topic "
            f"{sent['topic']}; group {sent['group']} has how far they were sent"
        )
    for flow, words in told["read"].items():
        waiting = told["waiting"].get(flow, 0)
        unused = f"; {waiting} units of all groups wait for the first group" if waiting else ""
        yield Line(f"  in `{flow}`: read up to {words}{unused}")


def _status_lines(status: Any, width: int | None) -> Iterator[Line]:
    words = status["state"]
    if status["held_by"]:
        words += f", held by {', '.join(status['held_by'])}"
    if status["wanted"] != "advance":
        words += f", asked for: {status['wanted']}"
    if status["awaits"]:
        words += f" after {', '.join(status['awaits'])}"
    yield Line(f"  {words}")
    if status["failure"]:
        yield Line(f"  {status['failure']}", "red")
    waiting = [
        Row(
            (
                each["flow"],
                each["source"],
                str(each["unread"]),
                str(each["waiting"]),
                str(each["rows"]),
                str(each["backlog"]),
            )
        )
        for each in status["flows"]
    ]
    if waiting:
        columns = ("flow", "made by", "unread", "waiting", "rows", "backlog")
        for line in table(columns, waiting, width):
            yield Line(f"  {line.text}", line.style)


def comparison_lines(found: Comparison) -> Iterator[Line]:
    """Yield what came of comparing two states."""
    if not found.different:
        yield Line(f"All of {found.groups} groups are the same in both.")
        return
    for group in found.examples:
        yield Line(f"{group.key!r}", "bold")
        for words, rows in (("is ", group.rows), ("was", group.other)):
            shown = ", ".join(map(_row_words, rows[:_SHOWN])) or "not there"
            more = f", and {len(rows) - _SHOWN} more rows" if len(rows) > _SHOWN else ""
            yield Line(f"  {words} {shown}{more}")
    unseen = found.different - len(found.examples)
    rest = f"; {unseen} of them are not shown" if unseen else ""
    yield Line(f"{found.different} of {found.groups} groups differ{rest}.", "yellow")


def _row_words(row: Mapping[str, Any]) -> str:
    return "(" + ", ".join(f"{name}={value!r:.60}" for name, value in row.items()) + ")"


def row_lines(rows: pa.Table, width: int | None) -> Iterator[Line]:
    """Yield rows of a state as a table."""
    cells = [Row(tuple(map(_cell, row.values()))) for row in rows.to_pylist()]
    yield from table(rows.column_names, cells, width)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
