"""What a definition says, as people give it, and what another one would change: without I/O."""

from __future__ import annotations

from msgspec import Struct, UnsetType

from headgate.agent.api.messages import SubmitRequest, UpdateRequest
from headgate.agent.state.sealed import Definition
from headgate.flows import Change, ChangeKind


class DefinitionContent(Struct, frozen=True):
    """A definition without its name, number and time: two of the same content run alike."""

    source: str
    directory: str
    profile: str | None
    shadow: bool


def content_of(definition: Definition) -> DefinitionContent:
    """Return what a saved definition says."""
    return DefinitionContent(
        definition.source, definition.directory, definition.profile, definition.shadow
    )


def submitted(body: SubmitRequest, profile: str | None) -> DefinitionContent:
    """Return what a submit defines, with the profile that was found for it."""
    return DefinitionContent(body.source, body.directory, profile, body.shadow)


def updated(old: DefinitionContent, body: UpdateRequest) -> DefinitionContent:
    """Return what an update makes of a definition: what it does not name stays."""
    return DefinitionContent(
        old.source if body.source is None else body.source,
        old.directory if body.directory is None else body.directory,
        old.profile if isinstance(body.profile, UnsetType) else body.profile,
        old.shadow if body.shadow is None else body.shadow,
    )


def listed_changes(
    old: DefinitionContent, new: DefinitionContent, found: tuple[Change, ...]
) -> tuple[Change, ...]:
    """Return what an update changes, given what was found in the dataflows themselves."""
    if new.shadow == old.shadow:
        return found
    words = "it decides and launches nothing" if new.shadow else "it launches from now"
    return (*found, Change(ChangeKind.CHANGED, "shadow mode", words))
