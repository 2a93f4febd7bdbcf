"""What users say of learned triggers: bounded outputs, and how much is tried for certainty."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from headgate.engine import (
    ActionRole,
    ActionSpec,
    CodecName,
    DataflowSpec,
    SpecificationError,
    Trigger,
    UserMetric,
    launch_order,
)
from headgate.learning.impact import Changes, ErrorMetric, OutputMetric
from headgate.learning.simulation import Graph, Step

LEARNED: Final = "learned"
"""The kind of these triggers."""


class OutputSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How far an output that people see may be from what it would be."""

    bound: float
    """Of ε, above 0."""
    metric: OutputMetric = ErrorMetric.RELATIVE
    confidence: float = 0.95
    """Share of the waves in which it shall be within the bound, between ½ and 1."""
    changes: Changes = Changes.CANCEL


class LearnedSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What the triggers of a dataflow go by."""

    outputs: dict[str, OutputSettings]
    """By container."""
    audit: float = 0.05
    """Share of the skips that run all the same, so that the confidence is measured."""
    waves: int = 336
    """Synchronous waves after which a model is tried."""
    horizon: int = 24
    """Waves after which an output is made again, whatever is predicted."""
    impacts: dict[str, str] = {}
    """By container above an output, the user's metric (``module:Class``) that gives a further
    feature of it."""
    refit: int = 336
    """Waves after which a model is fitted anew to what service has shown, sooner after training; 0:
    never."""
    retrain: int = 0
    """Waves after which an output is made in every wave again, so that its model is trained anew;
    0: never."""

    def has_labels_of_service(self, output: str) -> bool:
        """Return whether two runs of an output show what a skip between them would have cost.

        Not where a user's metric measures it or a container above it, as nobody asks that about
        pairs of runs; nor where changes accumulate over waves in which nothing ran.
        """
        known = self.outputs[output]
        plain = isinstance(known.metric, ErrorMetric) and known.changes is Changes.CANCEL
        return plain and not self.impacts


def trigger_of(settings: LearnedSettings) -> Trigger:
    """Return the trigger that each action above a bounded output has."""
    plain: dict[str, Any] = msgspec.to_builtins(settings)
    return Trigger(LEARNED, plain)


def learned_actions(spec: DataflowSpec) -> tuple[ActionSpec, ...]:
    """Return the actions of a dataflow with learned triggers."""
    return spec.triggered(LEARNED)


def user_metrics(spec: DataflowSpec) -> tuple[UserMetric, ...]:
    """Return the users' metrics of a dataflow's errors and impacts, each once.

    Raises:
        SpecificationError: see ``settings_of``.
    """
    actions = learned_actions(spec)
    if not actions:
        return ()
    settings = settings_of(actions)
    errors = (o.metric for o in settings.outputs.values() if isinstance(o.metric, UserMetric))
    return tuple(dict.fromkeys((*errors, *map(UserMetric, settings.impacts.values()))))


def opaque_containers(spec: DataflowSpec) -> frozenset[str]:
    """Return the containers without numbers: nothing is predicted from them."""
    return frozenset(str(w.id) for w in spec.containers if w.codec.name is CodecName.OPAQUE)


def settings_of(actions: Sequence[ActionSpec]) -> LearnedSettings:
    """Return the settings that actions with learned triggers share.

    Raises:
        SpecificationError: they have none, others, or such that make no sense.
    """
    found = [action.trigger.settings for action in actions if action.trigger is not None]
    names = ", ".join(repr(action.name) for action in actions)
    if not found or any(one != found[0] for one in found):
        raise SpecificationError((f"actions {names}: learned triggers share their settings",))
    try:
        settings = msgspec.convert(found[0], LearnedSettings)
    except msgspec.ValidationError as error:
        raise SpecificationError((f"actions {names}: learned trigger: {error}",)) from error
    problems = []
    if not settings.outputs:
        problems.append("`learned` bounds no output; name one with its error, such as `index: 5%`")
    for name, output in settings.outputs.items():
        if not 0 < output.bound < math.inf:
            problems.append(f"output {name!r}: an error above 0 bounds it, not {output.bound:g}")
        whole = output.metric is ErrorMetric.RELATIVE and output.changes is Changes.CANCEL
        if whole and output.bound >= 1:
            problems.append(f"output {name!r}: with an error of 100 % it need never be made")
        if not 0.5 <= output.confidence < 1:
            problems.append(
                f"output {name!r}: a confidence lies between 50 % and 100 %, not at "
                f"{100 * output.confidence:g} %"
            )
    if not 0 <= settings.audit < 1:
        problems.append(f"audit: a share of the skips from 0 to 1, not {settings.audit:g}")
    if settings.waves < 1 or settings.horizon < 1:
        problems.append("waves and horizon are whole numbers from 1 on")
    for name, waves in (("refit", settings.refit), ("retrain", settings.retrain)):
        if waves < 0:
            problems.append(f"{name}: a number of waves, or 0 for never, not {waves}")
    if 0 < settings.retrain <= settings.waves:
        problems.append(
            f"retrain: with a training of {settings.waves} waves after every {settings.retrain} "
            "hardly a step would be skipped; give more waves than `waves`"
        )
    if problems:
        raise SpecificationError(tuple(problems))
    return settings


def graph_of(spec: DataflowSpec, actions: Sequence[ActionSpec], outputs: Sequence[str]) -> Graph:
    """Return the steps that learned triggers decide on, predecessors first.

    What a step reads of its own output is left out: it has to make of its input what it would make
    from scratch.

    Raises:
        SpecificationError: an output is written by none of them or has no numbers, or the actions
            do not follow each other as their containers do.
    """
    named = {action.name: action for action in actions}
    order = [named[name] for name in launch_order(spec.actions) if name in named]
    steps = [
        Step(a.name, tuple(str(c) for c in a.reads if c not in a.writes), tuple(map(str, a.writes)))
        for a in order
    ]
    try:
        graph = Graph(steps)
    except ValueError as error:
        raise SpecificationError((f"`learned`: {error}",)) from error
    codecs = {watched.id: watched.codec for watched in spec.containers}
    problems = [
        f"output {output!r}: no step writes it; name the step in whose `writes` it is"
        for output in outputs
        if output not in graph.writers
    ]
    problems += [
        f"output {watched.id!r} holds no numbers; give it a codec such as `number`"
        for watched in spec.containers
        if watched.id in outputs and codecs[watched.id].name is CodecName.OPAQUE
    ]
    problems += [problem for action in order for problem in _order_problems(action, spec)]
    if problems:
        raise SpecificationError(tuple(problems))
    return graph


def _order_problems(action: ActionSpec, spec: DataflowSpec) -> Iterator[str]:
    """Yield why an action would not be asked about in every wave in which its input is new."""
    writers = {
        other.name
        for other in spec.actions
        if other.name != action.name and set(other.writes) & set(action.reads)
    }
    cure = "leave `after` out: it then follows those whose output it reads"
    for name in sorted(writers - set(action.after)):
        yield f"action {action.name!r} reads what {name!r} makes and does not come after it; {cure}"
    for name in sorted(set(action.after) - writers):
        yield (
            f"action {action.name!r} comes after {name!r} and reads nothing that it makes: where "
            f"that does not run nobody would ask about it; {cure}"
        )


def decided_on(actions: Sequence[ActionSpec], outputs: Sequence[str]) -> tuple[str, ...]:
    """Return the steps that write bounded outputs and those above them, in the order given."""
    named = {action.name: action for action in actions}
    writers: dict[str, list[str]] = {}
    for action in actions:
        for container in action.writes:
            writers.setdefault(container, []).append(action.name)
    found: set[str] = set()
    waiting = [name for output in outputs for name in writers.get(output, ())]
    while waiting:
        name = waiting.pop()
        if name in found or named[name].role is ActionRole.INPUT:
            continue
        found.add(name)
        waiting += (w for c in named[name].reads for w in writers.get(c, ()) if w != name)
    return tuple(action.name for action in actions if action.name in found)
