"""The workflow that a dataflow was imported from: the section ``oozie`` of a dataflow file."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from headgate.flows.grammar.kinds import Key, MapOf, RecordOf
from headgate.flows.grammar.tree import Mapping, Tree, entries_of, text_of
from headgate.flows.grammar.values import NAME, name_value, text_value
from headgate.flows.sections.section import Draft, Section


class OozieOrigin(Struct, frozen=True):
    """The workflow that a dataflow was imported from, and the branches taken in its decisions."""

    workflow: str
    """The XML text, without what Headgate adds to workflows."""
    decisions: dict[str, str] = {}


def _read(written: Tree | None, _: Draft) -> OozieOrigin | None:
    if not isinstance(written, Mapping):
        return None
    taken = entries_of(written.get("decisions"))
    return OozieOrigin(
        text_of(written.get("workflow")), {name: text_of(one.value) for name, one in taken.items()}
    )


OOZIE: Final = Section(
    "oozie",
    Key(
        RecordOf(
            "the workflow",
            {
                "workflow": Key(
                    text_value("the XML of a workflow"),
                    "the Oozie workflow that this was imported from, without its bounds",
                    required=True,
                ),
                "decisions": Key(
                    MapOf(name_value("a branch"), "branches by decision", NAME, "decision"),
                    "by decision, the branch that was taken at the import, or `all`",
                ),
            },
        ),
        "written by `headgate flow import`, read by `headgate flow export`",
    ),
    _read,
)
