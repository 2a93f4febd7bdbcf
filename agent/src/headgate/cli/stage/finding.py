"""Which state a command is about: as an agent says it, or in a folder that was named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import typer
from msgspec import Struct

from headgate.cli.flow.asking import ask, fail
from headgate.incremental import StateError, StoredState, unknown_words

LocationOption = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="LOCATION",
        help="Where the dataflow's stages keep their files (a folder, or a URI): no agent is "
        "asked then.",
    ),
]
ManifestOption = Annotated[
    str | None,
    typer.Option(
        "--manifest",
        metavar="NAME",
        help="Which state, by its manifest; the one that the last run has committed, or with "
        "--state the newest there.",
    ),
]


class FoundState(Struct, frozen=True, eq=False):
    """The state of a stage, and what an agent says of the stage; None where none was asked."""

    stored: StoredState | None
    """None where the stage has none yet, or it cannot be read from here."""
    status: Any | None = None
    trouble: str = ""
    """Why it cannot be read."""


def stage_statuses(dataflow: str, agent: str | None, *, json: bool) -> list[Any]:
    """Return what an agent says of all stages of a dataflow; end the command where it has none."""
    listed: list[Any] = ask("GET", f"/v1/flows/{quote(dataflow, safe='')}/stages", agent, json=json)
    if not listed:
        fail(f"dataflow {dataflow} has no stages", json=json)
    return listed


def stage_status(dataflow: str, action: str, agent: str | None, *, json: bool) -> Any:
    """Return what an agent says of a stage; end the command where there is no such stage."""
    listed = stage_statuses(dataflow, agent, json=json)
    found = next((status for status in listed if status["action"] == action), None)
    if found is None:
        known = ", ".join(status["action"] for status in listed)
        fail(f"dataflow {dataflow} has no stage {action!r}, but {known}", json=json)
    return found


def found_state(dataflow: str, status: Any, manifest: str | None = None) -> FoundState:
    """Return the state that an agent says a stage has, or why it cannot be read from here."""
    name = manifest or status["manifest"]
    if not name:
        return FoundState(None, status, "it has no state yet: no run of it has committed")
    location = status["location"]
    try:
        return FoundState(StoredState(location, dataflow, status["action"], name), status)
    except (StateError, OSError, ValueError) as error:
        words = str(error)
        if "://" not in location:
            words += (
                " [a path of the machine where steps run: there this command finds it, and "
                "everywhere where `state` of the dataflow is a place that all can reach]"
            )
        return FoundState(None, status, words)


def unknown_writes(dataflow: str, answer: Any) -> dict[str, list[str]]:
    """Return in words what a rebuild leaves in tables, as nobody knows of it, by stage.

    Args:
        dataflow: whose stages are rebuilt.
        answer: what an agent says of the rebuild.
    """
    found = {}
    for action, manifest in answer.get("manifests", {}).items():
        containers = answer["written"][action]
        status = {"action": action, "manifest": manifest, "location": answer["location"]}
        if words := list(_unknown(found_state(dataflow, status), containers)):
            found[action] = words
    return found


def _unknown(state: FoundState, containers: Sequence[str]) -> Iterator[str]:
    if state.stored is None:
        yield (
            f"it cannot be said here whether all is known that it wrote to {', '.join(containers)},"
            f" since its state cannot be read: {state.trouble}. The log of the run says it"
        )
        return
    manifest = state.stored.manifest
    for flow in containers:
        known = manifest.written.get(flow)
        if known is None and flow in manifest.schemas:
            yield (
                f"nothing is known of what it has written to `{flow}`, since an earlier version "
                "kept no account: it stays where nothing is written now; remove it if nobody is to "
                "read it"
            )
        elif known is not None and known.since:
            yield unknown_words(flow, known.since)


def required_state(
    dataflow: str,
    action: str,
    location: str | None,
    manifest: str | None,
    agent: str | None,
    *,
    json: bool,
) -> StoredState:
    """Return the state of a stage; end the command where there is none, or it is damaged."""
    if location is None:
        status = stage_status(dataflow, action, agent, json=json)
        found = found_state(dataflow, status, manifest)
        if found.stored is None:
            fail(f"the state of {action} of {dataflow} cannot be read: {found.trouble}", json=json)
        return found.stored
    try:
        return StoredState(location, dataflow, action, manifest or "")
    except (StateError, OSError, ValueError) as error:
        fail(str(error), json=json)
