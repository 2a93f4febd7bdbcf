"""Whose updates count, and how those are found that went round the observers: the three modes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from headgate.flows.grammar.kinds import ANY_TEXT, Either, Key, ListOf, RecordOf, Single
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.quantities import duration_seconds
from headgate.flows.grammar.tree import Entry, Items, Mapping, Scalar
from headgate.flows.grammar.values import DURATION_VALUE


class Mode(StrEnum):
    """Who is expected to write the tables of a dataflow (paper: dataflow isolation)."""

    NORMAL = "normal"
    """All writes go through observers; everybody's count."""
    OBSERVER = "observer"
    """Some go round them: the tables are scanned for these."""
    ISOLATION = "isolation"
    """Only writes of the dataflow's own actions, and of the feeders that it declares, count."""


class FoundBy(StrEnum):
    """By what a scan finds the rows that were written since the last one."""

    TIMES = "times"
    """Timestamps of the cells: nothing is asked of the writers."""
    NOTIFY = "notify"
    """The cell ``hg:all``, which observers set, and which writers that go round them set too."""


class Deletes(StrEnum):
    """What becomes of deletes that went round, where only numbers of updates are bounded."""

    IGNORED = "ignored"
    """Which elements there are is not known there, so none is missed."""
    COUNTED = "counted"
    """The keys of all elements are kept, and compared by each scan of everything."""


class ScanSpec(Struct, frozen=True):
    """How the tables of a dataflow in observer mode are scanned. Times are in seconds."""

    every: float = 10.0
    """From the end of one scan for writes to the start of the next."""
    whole: float = 3600.0
    """Between two scans of everything, which find what was deleted."""
    by: FoundBy = FoundBy.TIMES
    deletes: Deletes = Deletes.IGNORED


_FEEDER = Single("a writer, a dataflow, or `dataflow/action`", pattern=ANY_TEXT)

MODE_KEYS = {
    "mode": Key(
        Single("`normal`, `observer` or `isolation`", words=tuple(Mode)),
        "whether writes are looked for that went round the observers (`observer`), or only the "
        "dataflow's own writes count (`isolation`); default `normal`",
    ),
    "scans": Key(
        RecordOf(
            "the scans",
            {
                "every": Key(DURATION_VALUE, "time between two scans for writes; default 10 s"),
                "whole": Key(
                    DURATION_VALUE, "time between two scans of everything, for deletes; default 1 h"
                ),
                "by": Key(
                    Single("`times` or `notify`", words=tuple(FoundBy)),
                    "what marks the rows that were written: timestamps, or the column `hg:all`",
                ),
                "deletes": Key(
                    Single("`counted` or `ignored`", words=tuple(Deletes)),
                    "whether scans of everything count what is gone, or dated wrongly, where only "
                    "numbers of updates are bounded too: keys of all elements are then kept; "
                    "default `ignored`",
                ),
            },
        ),
        "how tables are scanned in mode `observer`",
    ),
    "feeders": Key(
        Either(
            "a writer or a list of writers",
            (_FEEDER, ListOf(_FEEDER, "a list of writers")),
        ),
        "whose writes count too in mode `isolation`: writers, dataflows, or `dataflow/action`",
    ),
}
"""The keys of a dataflow file that are about modes."""


def read_mode(tree: Mapping, findings: Findings) -> tuple[Mode, ScanSpec, tuple[str, ...]]:
    """Return the mode, its scans and its feeders that a matched file describes."""
    written = tree.get("mode")
    mode = Mode(written.text) if isinstance(written, Scalar) else Mode.NORMAL
    for key, needed in (("scans", Mode.OBSERVER), ("feeders", Mode.ISOLATION)):
        entry = tree.entries.get(key)
        if isinstance(entry, Entry) and mode is not needed:
            findings.error(
                entry.key.at,
                f"`{key}` says nothing in mode `{mode.value}`",
                f"write `mode: {needed.value}`, or remove it",
            )
    return mode, _scans(tree.get("scans")), _feeders(tree.get("feeders"))


def _scans(written: object) -> ScanSpec:
    if not isinstance(written, Mapping):
        return ScanSpec()
    every, whole, by, deletes = (written.get(k) for k in ("every", "whole", "by", "deletes"))
    return ScanSpec(
        _seconds(every) if isinstance(every, Scalar) else ScanSpec().every,
        _seconds(whole) if isinstance(whole, Scalar) else ScanSpec().whole,
        FoundBy(by.text) if isinstance(by, Scalar) else FoundBy.TIMES,
        Deletes(deletes.text) if isinstance(deletes, Scalar) else Deletes.IGNORED,
    )


def _seconds(written: Scalar) -> float:
    value = written.value
    return duration_seconds(value if isinstance(value, int | float | str) else written.text)


def _feeders(written: object) -> tuple[str, ...]:
    match written:
        case Scalar():
            return (written.text,)
        case Items(values=values):
            return tuple(one.text for one in values if isinstance(one, Scalar))
        case _:
            return ()
