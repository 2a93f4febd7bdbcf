"""The target ``stage``: an incremental stage, a Python object, run by whatever runs steps."""

from __future__ import annotations

from headgate.flows.grammar.kinds import Key, Single
from headgate.flows.launchers.kind import Target
from headgate.flows.launchers.step import ENTRY


def _why_not(value: str) -> tuple[str, str]:
    if ".py" in value or "/" in value:
        problem = "a stage is an object of a module, not a file"
    else:
        problem = "this is not `module:name`"
    return problem, "write the module, a colon, the name of the stage in it: `stages:counts`"


STAGE = Target(
    "stage",
    Key(
        Single("`module:name`", pattern=ENTRY, why_not=_why_not),
        "an incremental stage, a `headgate.incremental.Stage`; run as a step is",
    ),
)
