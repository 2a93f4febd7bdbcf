"""What an update of a dataflow changes, and what becomes of the state of each part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.flows.dataflow import SECTIONS, Dataflow
from headgate.flows.identity import RunIdentity
from headgate.flows.launchers import SessionLauncher
from headgate.flows.rebuilds import rebuilds_between
from headgate.flows.sections.changes import Change, ChangeKind, Parts, Setting, Version
from headgate.settings import shell_word


def changes(old: Dataflow, new: Dataflow) -> tuple[Change, ...]:
    """Return what differs between two versions of a dataflow: its parts, then its settings."""
    return (
        *_of_sections(Parts, old, new),
        *_rebuilds(old, new),
        *_profile(old, new),
        *_of_sections(Setting, old, new),
    )


def _of_sections(
    kind: type[Parts[Any]] | type[Setting[Any]], old: Dataflow, new: Dataflow
) -> Iterator[Change]:
    for section in SECTIONS:
        if isinstance(section.difference, kind):
            before, after = (_version(section.name, one) for one in (old, new))
            yield from section.difference.changes(section.name, before, after)


def _version(section: str, dataflow: Dataflow) -> Version[Any]:
    return Version(getattr(dataflow, section, None), dataflow.spec)


def _profile(old: Dataflow, new: Dataflow) -> Iterator[Change]:
    if old.profile != new.profile:
        words = f"{old.profile or 'none'} → {new.profile or 'none'}"
        yield Change(ChangeKind.CHANGED, "profile", words)


def _rebuilds(old: Dataflow, new: Dataflow) -> Iterator[Change]:
    """Yield what becomes of states that are not those of what is read now."""
    rebuilds = rebuilds_between(old, new)
    for name, why in rebuilds.why.items():
        words = f"rebuilt from all that its inputs hold, since {why}"
        yield Change(ChangeKind.CHANGED, f"state of `{name}`", words)
    for name, tables in rebuilds.shown_anew.items():
        named = ", ".join(f"`{table}`" for table in sorted(tables))
        words = f"what it reads of {named} is another; its next run is shown everything there"
        yield Change(ChangeKind.CHANGED, f"action `{name}`", words)


def edited_code(
    dataflow: Dataflow,
    ran: Mapping[str, RunIdentity],
    now: Mapping[str, RunIdentity],
    *,
    reloaded: bool,
) -> Iterator[Change]:
    """Yield the actions whose code, or files that it depends on, were edited since they ran.

    Args:
        dataflow: as it is now.
        ran: what the newest run of each action computed, where that is known.
        now: what each action would compute with what is on disk now.
        reloaded: whether the Spark session is replaced by another one.
    """
    for name in (action.name for action in dataflow.spec.actions):
        if name not in ran or name not in now:
            continue
        differing = now[name].differing(ran[name])
        if "code" in differing:
            words = "on disk it is another than what the newest run read"
            if not isinstance(dataflow.launchers[name], SessionLauncher):
                after = "the next run reads it"
            elif reloaded:
                after = "the new Spark session reads it"
            else:
                after = (
                    "a Spark session goes on with what it has read: "
                    f"`headgate flow update {shell_word(dataflow.name)} --reload` starts another"
                )
            yield Change(ChangeKind.CHANGED, f"code of `{name}`", f"{words}; {after}")
        if "files" in differing and dataflow.actions[name].depends:
            words = "one of them is another than in the newest run; the next run reads it"
            yield Change(ChangeKind.CHANGED, f"files that `{name}` depends on", words)
