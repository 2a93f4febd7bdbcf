"""The kinds of triggers that headgate comes with, and how others are added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headgate.engine.spec.dataflow import (
    ActionSpec,
    DataflowSpec,
    SpecificationError,
    looped_flows,
)
from headgate.engine.stages.policy import StagePolicy, WheneverRunnable
from headgate.engine.stages.runnables.table import make_runnable
from headgate.engine.stages.stage import Stage
from headgate.engine.triggers.bounds.policy import Bounded
from headgate.engine.triggers.policy import PolicyFactory, TriggerPolicy
from headgate.engine.triggers.significance.policy import Searched, searched
from headgate.engine.triggers.synchrony import Synchronous

PolicyMaker = Callable[[DataflowSpec, Sequence[ActionSpec]], Mapping[str, TriggerPolicy]]
"""Makes the policies of those actions of a dataflow that have its kind of trigger."""

MAKERS: dict[str, PolicyMaker] = {
    Synchronous.kind: lambda _, actions: {a.name: Synchronous(a) for a in actions},
    Bounded.kind: lambda _, actions: {a.name: Bounded(a) for a in actions},
    Searched.kind: searched,
    WheneverRunnable.kind: lambda _, actions: {a.name: WheneverRunnable(a) for a in actions},
}


NAMED_TRIGGERS: Final = tuple(
    sorted(MAKERS.keys() - {Bounded.kind, Searched.kind, WheneverRunnable.kind})
)
"""The kinds that an action names; the others are said by bounds, by what change matters, and by
flows alone."""


def _kind_of(spec: DataflowSpec, action: ActionSpec) -> str:
    """Return the trigger that an action names, or what its bounds say."""
    if action.trigger is not None:
        return action.trigger.kind
    if spec.significance is not None and action.name in spec.significance.actions:
        return Searched.kind
    if action.effective_condition is not None:
        return Bounded.kind
    if action.stage is not None and not action.after:
        return WheneverRunnable.kind
    return Synchronous.kind


def policies_of(
    spec: DataflowSpec, makers: Mapping[str, PolicyMaker] = MAKERS
) -> dict[str, TriggerPolicy]:
    """Return the policies of a dataflow's actions, by name; that of an input is never asked.

    Raises:
        SpecificationError: an action names a trigger that nobody makes.
    """
    kinds: dict[str, list[ActionSpec]] = {}
    for action in spec.actions:
        kinds.setdefault(_kind_of(spec, action), []).append(action)
    unknown = [
        f"action {action.name!r}: nobody makes a trigger {kind!r}; name one of "
        f"{', '.join(map(repr, makers))}, or none for what its bounds say"
        for kind, actions in kinds.items()
        for action in actions
        if kind not in makers
    ]
    if unknown:
        raise SpecificationError(tuple(unknown))
    made = (makers[kind](spec, actions) for kind, actions in kinds.items())
    policies = {name: policy for some in made for name, policy in some.items()}
    return {**policies, **_of_stages(spec, spec.actions, policies)}


def _of_stages(
    spec: DataflowSpec, actions: Sequence[ActionSpec], policies: Mapping[str, TriggerPolicy]
) -> dict[str, TriggerPolicy]:
    """Return the policies of those that are stages, which decide besides what is read.

    Raises:
        SpecificationError: a runnable is not in order.
    """
    stages = {a.name: a.stage for a in actions if a.stage is not None}
    looped = looped_flows(spec.actions) if stages else {}
    made: dict[str, TriggerPolicy] = {}
    problems: list[str] = []
    for name, stage in stages.items():
        try:
            runnable = make_runnable(f"action {name!r}", stage, looped[name])
        except SpecificationError as error:
            problems += error.problems
        else:
            made[name] = StagePolicy(policies[name], runnable, Stage(stage))
    if problems:
        raise SpecificationError(tuple(problems))
    return made


def make_policy(spec: DataflowSpec, action: ActionSpec) -> TriggerPolicy:
    """Return the policy of one action, made apart from the others.

    Raises:
        SpecificationError: nobody makes such a trigger, or its settings are not in order.
    """
    kind = _kind_of(spec, action)
    if kind not in MAKERS:
        raise SpecificationError((f"nobody makes a trigger {kind!r}",))
    made = MAKERS[kind](spec, (action,))
    return {**made, **_of_stages(spec, (action,), made)}[action.name]


def with_triggers(makers: Mapping[str, PolicyMaker]) -> PolicyFactory:
    """Return a factory that knows these kinds of triggers, too."""
    return lambda spec: policies_of(spec, {**MAKERS, **makers})
