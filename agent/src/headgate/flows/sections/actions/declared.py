"""Actions as a file declares them: everything that the agent needs besides the specification."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from headgate.engine import OnChange
from headgate.flows.grammar.kinds import Key
from headgate.flows.grammar.tree import Mapping, Tree, entries_of, text_of
from headgate.flows.grammar.values import text_value
from headgate.flows.launchers import Launcher
from headgate.flows.sections.actions.agent_key import AgentKey
from headgate.flows.sections.actions.depends import DEPENDS
from headgate.flows.sections.actions.launching import LAUNCHER
from headgate.flows.sections.actions.stages import ON_CHANGE
from headgate.flows.sections.section import Draft

DESCRIPTION: Final = AgentKey(
    "description",
    Key(text_value("a text"), "for people"),
    lambda tree, _: text_of(tree.get("description")),
)

AGENT_KEYS: Final[tuple[AgentKey[Any], ...]] = (DESCRIPTION, ON_CHANGE, LAUNCHER, DEPENDS)
"""All of them; each is a field of ``DeclaredAction``."""


class DeclaredAction(Struct, frozen=True):
    """What a file says of an action besides what the engine decides on."""

    launcher: Launcher | None = None
    """How it is run; None where it is fed from outside."""
    description: str = ""
    """A text for people."""
    on_change: OnChange = OnChange.REFUSE
    """What becomes of a stage's state that another version of it wrote."""
    depends: tuple[str, ...] = ()
    """Files that its code reads; paths as written, relative to the dataflow file's directory."""


def declared_actions(written: Tree | None, draft: Draft) -> dict[str, DeclaredAction]:
    """Return the actions of a file, by name."""
    return {
        name: DeclaredAction(**{one.name: one.read(entry.value, draft) for one in AGENT_KEYS})
        for name, entry in entries_of(written).items()
        if isinstance(entry.value, Mapping)
    }
