"""The policies that headgate comes with, and how others are added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headgate.engine.spec.dataflow import ActionSpec, DataflowSpec, SpecificationError
from headgate.engine.triggers.bounds.policy import Bounded
from headgate.engine.triggers.policy import PolicyFactory, TriggerPolicy
from headgate.engine.triggers.significance.policy import searched
from headgate.engine.triggers.synchrony import Synchronous

PolicyMaker = Callable[[DataflowSpec, Sequence[ActionSpec]], Mapping[str, TriggerPolicy]]
"""Makes the policies of those actions of a dataflow that name its kind of trigger."""


def policies_of(
    spec: DataflowSpec, makers: Mapping[str, PolicyMaker] | None = None
) -> dict[str, TriggerPolicy]:
    """Return the policies of a dataflow's actions, by name; that of an input is never asked.

    An action that names no trigger has what its bounds say: limits that are searched for, bounds,
    or strict synchrony.

    Raises:
        SpecificationError: an action names a trigger that nobody makes.
    """
    makers = makers or {}
    searches = {} if spec.significance is None else searched(spec, spec.significance)
    named: dict[str, list[ActionSpec]] = {}
    found: dict[str, TriggerPolicy] = {}
    for action in spec.actions:
        if action.trigger is not None:
            named.setdefault(action.trigger.kind, []).append(action)
        elif action.name in searches:
            found[action.name] = searches[action.name]
        elif action.effective_condition is not None:
            found[action.name] = Bounded(action)
        else:
            found[action.name] = Synchronous(action)
    for kind, actions in named.items():
        if kind not in makers:
            there = ", ".join(map(repr, makers)) or "none"
            raise SpecificationError(
                tuple(
                    f"action {a.name!r}: nobody makes a trigger {kind!r}; there is {there}: name "
                    "one of them, or none for what its bounds say"
                    for a in actions
                )
            )
        found.update(makers[kind](spec, actions))
    return found


def with_triggers(makers: Mapping[str, PolicyMaker]) -> PolicyFactory:
    """Return a factory that knows these kinds of triggers, too."""
    return lambda spec: policies_of(spec, makers)
