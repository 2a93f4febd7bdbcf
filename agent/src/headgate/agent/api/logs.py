"""What attempts printed, as the API shows it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from headgate.agent.state.run_records import RunRecord

LONGEST = 1 << 20
"""Bytes of a log's end that are shown: a page of the API, not a way to carry files."""


class LogView(Struct, frozen=True):
    """The end of an attempt's log."""

    run: RunRecord
    file: str
    """On the host of the agent; empty where it has none."""
    text: str
    whole: bool


def read_log(run: RunRecord, path: Path | None, lines: int) -> LogView:
    """Return the last lines of a log, as far as they lie in its last ``LONGEST`` bytes."""
    if path is None:
        return LogView(run, "", "", whole=True)
    with path.open("rb") as log:
        size = log.seek(0, 2)
        log.seek(max(0, size - LONGEST))
        found = log.read().decode(errors="backslashreplace").splitlines()
    return LogView(
        run,
        str(path),
        "\n".join(found[-lines:]),
        whole=size <= LONGEST and len(found) <= lines,
    )
