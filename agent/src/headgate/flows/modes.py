"""Whose updates count: the modes of a dataflow."""

from __future__ import annotations

from enum import StrEnum

from headgate.flows.kinds import ANY_TEXT, Either, Key, ListOf, Single
from headgate.flows.problems import Findings
from headgate.flows.tree import Entry, Items, Mapping, Scalar


class Mode(StrEnum):
    """Who is expected to write the tables of a dataflow (paper: dataflow isolation)."""

    NORMAL = "normal"
    """All writes go through observers; everybody's count."""
    ISOLATION = "isolation"
    """Only writes of the dataflow's own actions, and of the feeders that it declares, count."""


_FEEDER = Single("a writer, a dataflow, or `dataflow/action`", pattern=ANY_TEXT)

MODE_KEYS = {
    "mode": Key(
        Single("`normal` or `isolation`", words=tuple(Mode)),
        "`isolation`: only writes of the dataflow's own actions and of its feeders count",
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


def read_mode(tree: Mapping, findings: Findings) -> tuple[Mode, tuple[str, ...]]:
    """Return the mode and its feeders that a matched file describes."""
    written = tree.get("mode")
    mode = Mode(written.text) if isinstance(written, Scalar) else Mode.NORMAL
    entry = tree.entries.get("feeders")
    if isinstance(entry, Entry) and mode is not Mode.ISOLATION:
        findings.error(
            entry.key.at,
            f"`feeders` says nothing in mode `{mode.value}`",
            "write `mode: isolation`, or remove it",
        )
    return mode, _feeders(tree.get("feeders"))


def _feeders(written: object) -> tuple[str, ...]:
    match written:
        case Scalar():
            return (written.text,)
        case Items(values=values):
            return tuple(one.text for one in values if isinstance(one, Scalar))
        case _:
            return ()
