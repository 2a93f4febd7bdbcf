"""The target ``step``: a Python function, which several kinds of launcher run."""

from __future__ import annotations

import re

from headgate.flows.grammar.kinds import Key, Single
from headgate.flows.launchers.kind import Target

_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
ENTRY = rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*:{_IDENTIFIER}"
"""Pattern of what is in a Python module: ``module:name``."""


def _why_not(value: str) -> tuple[str, str]:
    if ".py" in value or "/" in value:
        return "a step is a function, not a file", "write `module:function`, such as `steps:zones`"
    if ":" not in value:
        return "the function is missing", f"write `module:function`, such as `{_as_step(value)}`"
    return "this is not `module:function`", "write the module, a colon, the function: `steps:zones`"


def _as_step(value: str) -> str:
    module, _, function = value.rpartition(".")
    candidate = f"{module}:{function}" if module else f"steps:{value}"
    return candidate if re.fullmatch(ENTRY, candidate) else "steps:zones"


STEP = Target(
    "step",
    Key(
        Single("`module:function`", pattern=ENTRY, why_not=_why_not),
        "a Python function that takes the run; in a warm Spark session unless `launcher` differs",
    ),
)
