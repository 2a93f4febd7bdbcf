"""The trigger that an action names in place of bounds, and its settings."""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from typing import Any, Final

from headgate.engine import (
    NAMED_TRIGGERS,
    DataflowSpec,
    SpecificationError,
    Trigger,
    make_policy,
)
from headgate.flows.grammar.kinds import ANY_TEXT, Anything, Either, Key, MapOf, RecordOf, Single
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.tree import Mapping, Scalar, Tree, plain_value

_WORDS: Final = ", ".join(f"`{name}`" for name in NAMED_TRIGGERS)
_SETTINGS: Final = MapOf(Anything(), "the trigger's settings", ANY_TEXT, "setting")

TRIGGER: Final = Key(
    Either(
        f"{_WORDS}, or a trigger with its settings",
        (
            Single(_WORDS, words=NAMED_TRIGGERS),
            RecordOf(
                "the trigger",
                {name: Key(_SETTINGS, "its settings by name") for name in NAMED_TRIGGERS},
                one_of=NAMED_TRIGGERS,
            ),
        ),
    ),
    "what decides when the action runs, in place of `when`",
)


def read_trigger(tree: Tree | None) -> Trigger | None:
    """Return the trigger that a matched action names; None where it names none."""
    match tree:
        case Scalar(text=name):
            return Trigger(name)
        case Mapping(entries=entries) if entries:
            name, entry = next(iter(entries.items()))
            plain = plain_value(entry.value)
            settings: dict[str, Any] = plain if isinstance(plain, dict) else {}
            return Trigger(name, settings)
        case _:
            return None


def check_triggers(
    spec: DataflowSpec, trees: AbstractMapping[str, Mapping], findings: Findings
) -> None:
    """Note what keeps the triggers that actions name from being made, such as a missing setting.

    Args:
        spec: of the dataflow.
        trees: of its actions.
        findings: where errors go.
    """
    for action in spec.actions:
        entry = trees[action.name].entries.get("trigger")
        if action.trigger is None or entry is None:
            continue
        if spec.significance is not None and action.name in spec.significance.actions:
            findings.error(
                entry.key.at,
                f"`significance` searches for what `{action.name}` waits for",
                "remove the trigger, or name an output that the action does not lead to",
            )
            continue
        try:
            make_policy(spec, action)
        except SpecificationError as error:
            for problem in error.problems:
                findings.error(entry.key.at, problem, "correct the trigger's settings")
