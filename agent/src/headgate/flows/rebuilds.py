"""The stages that an edit of a dataflow rebuilds, or the reason why the edit is refused."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headgate.engine import Unrebuildable, edits_between, reading_of, rebuilt_together
from headgate.flows.dataflow import Dataflow


class Rebuilds(Struct, frozen=True):
    """Consequences of an edit for states that do not fit what their stages read now."""

    why: Mapping[str, str]
    """Reason why a stage is rebuilt, in words, by stage."""
    shown_anew: Mapping[str, frozenset[str]]
    """Tables that are shown as a whole to the next run of a step, by step."""
    refused: str = ""
    """Why the edit cannot be gone on with, and what helps; empty where it can."""


def rebuilds_between(old: Dataflow, new: Dataflow) -> Rebuilds:
    """Return which stages an edit has rebuilt, if those that are in both dataflows have run.

    Args:
        old: the dataflow before the edit.
        new: after it.
    """
    known = {action.name for action in old.spec.actions}
    begun = {action.name for action in new.spec.actions if action.name in known}
    edits = edits_between(reading_of(old.spec), reading_of(new.spec), begun)
    flows = {action.name: action.stage for action in new.spec.actions if action.stage is not None}
    why: dict[str, str] = {}
    for stage, words in edits.contradicted.items():
        try:
            together = rebuilt_together(stage, flows, with_sources=True)
        except Unrebuildable as error:
            refused = f"stage `{stage}` cannot go on after this edit, since {words}; {error}"
            return Rebuilds({}, edits.shown_anew, refused)
        for one in together:
            why.setdefault(one, words if one == stage else f"it is rebuilt with `{stage}`")
    return Rebuilds(why, edits.shown_anew)
