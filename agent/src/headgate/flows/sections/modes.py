"""Whose updates count, and how those are found that went round the observers: the three modes."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from headgate.flows.grammar.kinds import ANY_TEXT, Either, Key, ListOf, RecordOf, Single
from headgate.flows.grammar.quantities import duration_seconds
from headgate.flows.grammar.tree import Mapping, Scalar, Tree, number_or_text, scalars_of
from headgate.flows.grammar.values import DURATION_VALUE
from headgate.flows.sections.changes import Setting, Version, always
from headgate.flows.sections.section import Draft, Section


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


def _read_mode(written: Tree | None, _: Draft) -> Mode:
    return Mode(written.text) if isinstance(written, Scalar) else Mode.NORMAL


def _from_to(old: Version[Mode], new: Version[Mode]) -> str:
    return f"{old.value.value} → {new.value.value}; what was counted is kept"


MODE: Final = Section(
    "mode",
    Key(
        Single("`normal`, `observer` or `isolation`", words=tuple(Mode)),
        "whether writes are looked for that went round the observers (`observer`), or only the "
        "dataflow's own writes count (`isolation`); default `normal`",
    ),
    _read_mode,
    difference=Setting(_from_to, lambda version: (version.value, version.spec.feeders)),
)


def _require(mode: Mode, key: str, draft: Draft) -> None:
    """Note a key that has no meaning in the file's mode."""
    entry = draft.tree.entries.get(key)
    if entry is not None and draft[MODE] is not mode:
        draft.findings.error(
            entry.key.at,
            f"`{key}` says nothing in mode `{draft[MODE].value}`",
            f"write `mode: {mode.value}`, or remove it",
        )


def _read_scans(written: Tree | None, draft: Draft) -> ScanSpec:
    _require(Mode.OBSERVER, "scans", draft)
    if not isinstance(written, Mapping):
        return ScanSpec()
    every, whole, by, deletes = (written.get(k) for k in ("every", "whole", "by", "deletes"))
    return ScanSpec(
        duration_seconds(number_or_text(every)) if isinstance(every, Scalar) else ScanSpec().every,
        duration_seconds(number_or_text(whole)) if isinstance(whole, Scalar) else ScanSpec().whole,
        FoundBy(by.text) if isinstance(by, Scalar) else FoundBy.TIMES,
        Deletes(deletes.text) if isinstance(deletes, Scalar) else Deletes.IGNORED,
    )


SCANS: Final = Section(
    "scans",
    Key(
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
    _read_scans,
    give=lambda scans, spec: replace(spec, keeps_keys=scans.deletes is Deletes.COUNTED),
    difference=Setting(always("from the next one")),
)


def _read_feeders(written: Tree | None, draft: Draft) -> tuple[str, ...] | None:
    """Return whose writes count besides the dataflow's own; None where everybody's do."""
    _require(Mode.ISOLATION, "feeders", draft)
    if draft[MODE] is not Mode.ISOLATION:
        return None
    return tuple(one.text for one in scalars_of(written))


_FEEDER: Final = Single("a writer, a dataflow, or `dataflow/action`", pattern=ANY_TEXT)

FEEDERS: Final = Section(
    "feeders",
    Key(
        Either(
            "a writer or a list of writers",
            (_FEEDER, ListOf(_FEEDER, "a list of writers")),
        ),
        "whose writes count too in mode `isolation`: writers, dataflows, or `dataflow/action`",
    ),
    _read_feeders,
    give=lambda feeders, spec: replace(spec, feeders=feeders),
)
