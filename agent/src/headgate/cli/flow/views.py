"""Dataflows and their runs as text: tables that fit a terminal, what is long below each row."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

_RUNS: Final = 20
"""Of the newest runs, listed."""
_TRACEBACKS: Final = 3
"""Of the newest failures, shown below the runs."""
_LEAST: Final = 8
"""Cells that a column keeps when a table is made narrower."""
_GAP: Final = 2
_INDENT: Final = 4
_HASH: Final = 12
"""Characters of a hash, enough to tell versions apart."""


class Line(Struct, frozen=True):
    """A line, and how it looks (a style of rich's)."""

    text: str
    style: str = ""


class Row(Struct, frozen=True):
    """A row of a table, and what stands below it."""

    cells: tuple[str, ...]
    details: tuple[str, ...] = ()


def table(
    columns: Sequence[str], rows: Sequence[Row], width: int | None, details: str = "details"
) -> Iterator[Line]:
    """Yield the lines of a table, none of them longer than the width.

    Args:
        columns: their headings.
        rows: what is in them. Numbers are put to the right.
        width: cells of the terminal; None puts the details into a last column, however long.
        details: the heading of that column.
    """
    if width is None:
        columns = (*columns, details)
        rows = [Row((*row.cells, " · ".join(row.details))) for row in rows]
    widths = [
        max(cell_len(text) for text in (heading, *(row.cells[at] for row in rows)))
        for at, heading in enumerate(columns)
    ]
    least = [min(width_, max(_LEAST, cell_len(columns[at]))) for at, width_ in enumerate(widths)]
    while width is not None and sum(widths) + _GAP * (len(widths) - 1) > width:
        spare = [have - needed for have, needed in zip(widths, least, strict=True)]
        if not any(spare):
            break
        widths[spare.index(max(spare))] -= 1
    yield Line(_fitted(columns, widths), "bold")
    for row in rows:
        yield Line(_fitted(row.cells, widths))
        if width is None:
            continue
        cut = tuple(
            f"{heading}: {cell}"
            for heading, cell, fits in zip(columns, row.cells, widths, strict=True)
            if cell_len(cell) > fits
        )
        for detail in (*cut, *row.details):
            yield from _wrapped(detail, width)


def _fitted(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for cell, width in zip(cells, widths, strict=True):
        text = cell if cell_len(cell) <= width else set_cell_size(cell, width - 1) + "…"
        padding = " " * (width - cell_len(text))
        parts.append(padding + text if text.isdecimal() else text + padding)
    return (" " * _GAP).join(parts).rstrip()


def _wrapped(text: str, width: int, style: str = "") -> Iterator[Line]:
    for paragraph in text.splitlines():
        for line in textwrap.wrap(
            paragraph,
            max(width, 2 * _INDENT),
            initial_indent=" " * _INDENT,
            subsequent_indent=" " * _INDENT,
            break_on_hyphens=False,
        ):
            yield Line(line, style)


def list_lines(rows: Sequence[Any], width: int | None) -> Iterator[Line]:
    """Yield the list of dataflows, as agents return it."""
    listed = [
        Row(
            (
                row["name"],
                row["state"],
                row["profile"] or "",
                row["owner"] or "none",
                str(row["revision"]),
                when(row["submitted"], width) if row["submitted"] else "",
            ),
            (row["words"],) if row["words"] else (),
        )
        for row in rows
    ]
    columns = ("dataflow", "state", "profile", "agent", "revision", "submitted")
    yield from table(columns, listed, width)


def show_lines(view: Any, width: int | None) -> Iterator[Line]:
    """Yield one dataflow: its actions, its newest runs, and tracebacks of those that failed."""
    flow, status, runs = view["flow"], view["status"], view["runs"]
    time = status.get("wave_time")
    last = "" if time is None else f" (the last of {when(time, None)})"
    head = (
        f"{flow['name']}: {status['phase']}, with agent {flow['owner']}, epoch {status['epoch']}, "
        f"waves {status['settled']} of {status['waves']} settled{last}, "
        f"{status['consumed']} cells consumed, {status['lag']} messages to come"
    )
    yield from _plain(head, width, "bold")
    yield from _plain(f"worker: {status['worker']['words']}", width)
    if status["words"]:
        yield from _plain(status["words"], width, "yellow")
    yield Line("")
    yield from table(
        ("action", "role", "state", "runs", "not needed", "last run"),
        [_action(action, width) for action in status["actions"]],
        width,
        "cause",
    )
    for action in status["actions"]:
        # An agent that has not been updated yet says nothing of runnables.
        if said := action.get("runnable_failure"):
            yield Line("")
            yield from _plain(f"{action['name']}, its runnable:", width, "red")
            for line in said.splitlines():
                yield Line(line)
    if not runs:
        return
    yield Line("")
    yield from table(
        ("launched", "action", "attempt", "outcome", "took"),
        [_run(run, width) for run in runs[:_RUNS]],
        width,
        "run",
    )
    for run in [r for r in runs if r["detail"] and r["outcome"] != "committed"][:_TRACEBACKS]:
        yield Line("")
        head = f"{run['action']}, attempt {run['attempt']} of {run['run']}:"
        yield from _plain(head, width, "red")
        for line in run["detail"].splitlines():
            yield Line(line)


def _plain(text: str, width: int | None, style: str = "") -> Iterator[Line]:
    for line in [text] if width is None else textwrap.wrap(text, width):
        yield Line(line, style)


def _action(action: Any, width: int | None) -> Row:
    last = action["last"]
    cells = (
        action["name"],
        action["role"],
        action["state"],
        str(action["runs"]),
        str(action["skipped"]),
        when(last["launched"], width) if last else "",
    )
    # An agent that has not been updated yet says nothing of flows.
    details = (last["cause"] if last else "", action.get("flows", ""))
    return Row(cells, tuple(filter(None, details)))


def _run(run: Any, width: int | None) -> Row:
    took = ""
    if run["started"] is not None and run["ended"] is not None:
        took = f"{run['ended'] - run['started']:.2f} s"
    cells = (
        when(run["launched"], width),
        run["action"],
        str(run["attempt"]),
        run["outcome"],
        took,
    )
    details = [f"{run['run']}: {run['cause']}"]
    if run["reason"]:
        details.append(run["reason"])
    if made := run.get("made"):
        rows = ", ".join(f"{flow} {count:,}" for flow, count in made.items())
        details.append(f"rows of its increments: {rows}")
    if run.get("undecoded"):
        others = f" and {run['undecoded'] - 1} more" if run["undecoded"] > 1 else ""
        details.append(f"not decoded: {run['undecodable']}{others}")
    if width is None and run.get("code"):
        details.append(f"code {run['code'][:_HASH]}")
    return Row(cells, tuple(details))


def attempt_words(run: Any) -> str:
    """Return which attempt it is, how it ended, and the hash of the code that it ran."""
    code = f", code {run['code'][:_HASH]}" if run.get("code") else ""
    return f"{run['action']}, attempt {run['attempt']} of {run['run']}: {run['outcome']}{code}"


def when(seconds: float, width: int | None) -> str:
    """Return a moment (Unix seconds) in local time; with the year where there is room for it."""
    moment = datetime.fromtimestamp(seconds, UTC).astimezone()
    return moment.strftime("%m-%d %H:%M:%S" if width is not None else "%Y-%m-%d %H:%M:%S")
