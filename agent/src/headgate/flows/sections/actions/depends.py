"""Files that an action's code reads: the key ``depends`` of an action."""

from __future__ import annotations

from typing import Final

from headgate.flows.grammar.kinds import Either, Key, ListOf
from headgate.flows.grammar.tree import Mapping, scalars_of
from headgate.flows.grammar.values import text_value
from headgate.flows.sections.actions.agent_key import AgentKey
from headgate.flows.sections.section import Draft

_FILE: Final = text_value("the path of a file")


def _read(tree: Mapping, draft: Draft) -> tuple[str, ...]:
    findings, actions = draft.findings, draft.entries("actions")
    files: dict[str, None] = {}
    for one in scalars_of(tree.get("depends")):
        path = one.text.strip()
        if not path or path.endswith("/") or "://" in path:
            findings.error(
                one.at,
                f"`{one.text}` is no path of a file",
                "write the path of each file, from the directory of the dataflow file on",
            )
        elif path in actions:
            findings.error(
                one.at,
                f"`{path}` is an action, and `depends` names files",
                f"did you mean `after: {path}`? Write `./{path}` for a file of that name",
            )
        elif path in files:
            findings.error(one.at, f"`{path}` is named twice", "remove one of them")
        files[path] = None
    return tuple(files)


DEPENDS: Final = AgentKey(
    "depends",
    Key(
        Either("a file, or a list of files", (_FILE, ListOf(_FILE, "a list of files"))),
        "files that its code reads besides modules; their contents are part of what it "
        "computes. Paths begin at the dataflow file",
    ),
    _read,
    "`depends`, from its next attempt",
)
