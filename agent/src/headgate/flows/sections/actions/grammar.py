"""What an action may say: the grammar of one entry of the section ``actions``."""

from __future__ import annotations

from typing import Final

from headgate.engine import FirstChanges
from headgate.flows.grammar.kinds import Either, Key, ListOf, MapOf, Numbers, RecordOf, Single
from headgate.flows.grammar.quantities import DURATION
from headgate.flows.grammar.values import DURATION_VALUE, NAME, TRUTH_VALUE, names_value, text_value
from headgate.flows.sections.actions.bound_keys import BOUND
from headgate.flows.sections.actions.declared import AGENT_KEYS, DESCRIPTION
from headgate.flows.sections.actions.launching import LAUNCHED, LAUNCHING
from headgate.flows.sections.actions.stages import STAGE_KEYS, STAGE_NEEDED
from headgate.flows.sections.actions.triggers import TRIGGER

_EVERY = rf"every {DURATION}"
"""Pattern of a period, such as ``every 5 min``."""

_BACKOFF = Either(
    "a duration or [first, longest]",
    (
        DURATION_VALUE,
        ListOf(DURATION_VALUE, "two durations, [first, longest]", at_least=2, at_most=2),
    ),
)
_EVALUATION = Single(
    "`write`, `action-end` or `every 30 s`", pattern=_EVERY, words=("write", "action-end")
)

_KEYS: Final = {
    "input": Key(
        names_value("a container", "containers"),
        "fed from outside: the containers that it fills",
    ),
    **LAUNCHING,
    DESCRIPTION.name: DESCRIPTION.key,
    "after": Key(
        names_value("an action", "actions"),
        "actions that must have run before; default those that write what this one reads",
    ),
    "reads": Key(
        names_value("a container", "containers"),
        "containers that it reads; those that its bounds watch are read in any case",
    ),
    "writes": Key(names_value("a container", "containers"), "containers that it writes"),
    **STAGE_KEYS,
    "when": Key(
        MapOf(BOUND, "bounds by name", NAME, "bound", at_least=1),
        "bounds on containers; without any it runs each time its predecessors have run",
    ),
    "combine": Key(
        text_value("`all`, `at-least-one`, `majority` or an expression"),
        "which bounds must be reached: `all` (default), `at-least-one`, `majority`, or an "
        "expression such as `a or b and (c or d)`",
    ),
    "trigger": TRIGGER,
    "evaluate": Key(
        Either(
            f"{_EVALUATION.what}, or a list of them",
            (_EVALUATION, ListOf(_EVALUATION, "a list of evaluation times")),
        ),
        "when bounds are looked at; default `action-end`, or `write` where no action precedes",
    ),
    "own": Key(TRUTH_VALUE, "whether the action's own writes to what it watches count"),
    "retries": Key(
        Either(
            "a number of attempts, or `attempts` with `backoff`",
            (
                Single("a number of attempts", numbers=Numbers(above=0, at_most=100, whole=True)),
                RecordOf(
                    "retries",
                    {
                        "attempts": Key(
                            Single(
                                "a number of attempts from 1 to 100",
                                numbers=Numbers(above=0, at_most=100, whole=True),
                            ),
                            "attempts in all, before the action is quarantined",
                        ),
                        "backoff": Key(
                            _BACKOFF,
                            "wait before the second attempt, doubled up to the longest",
                        ),
                    },
                ),
            ),
        ),
        "how often a failed run is tried, before the action is quarantined",
    ),
    "timeout": Key(DURATION_VALUE, "longest time that one attempt may take"),
    "first_changes": Key(
        Single("`snapshot` or `none`", words=tuple(FirstChanges)),
        "what the first run is shown by `run.changes` of a container: all that is there "
        "(`snapshot`, default), or what was written since the submit (`none`)",
    ),
} | {one.name: one.key for one in AGENT_KEYS}

_BESIDE_INPUT: Final = {"input", DESCRIPTION.name, *LAUNCHED, *STAGE_KEYS}
_LAUNCH_ONLY: Final = ("launcher", "parameters")

STEP_ONLY: Final = (
    *(key for key in _KEYS if key not in {*_BESIDE_INPUT, *_LAUNCH_ONLY}),
    *_LAUNCH_ONLY,
)
"""Keys of an action that mean nothing on one that is fed from outside."""

ACTION: Final = RecordOf(
    "the action",
    _KEYS,
    one_of=("input", *LAUNCHED),
    apart=(*(("input", key) for key in STEP_ONLY), ("trigger", "when"), ("trigger", "combine")),
    needs=STAGE_NEEDED,
    cures={
        "bounds": "did you mean `when`? Bounds stand there",
        "depends_on": "did you mean `after`?",
        "function": "did you mean `step`?",
        "inputs": "did you mean `in`, for flows, or `reads`, for containers?",
        "outputs": "did you mean `out`, for flows, or `writes`, for containers?",
    },
)
