"""One training: from a recording to models, pairs and a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from headgate.agent.history.recordings import Recordings
from headgate.agent.training.pairs import wave_pairs
from headgate.agent.training.task import Task, Trained, pack
from headgate.agent.training.teacher import Lesson, Wanted, teach
from headgate.agent.training.user_metrics import ask_users_metrics
from headgate.engine import DataflowSpec, SpecificationError
from headgate.flows import DataflowErrors, parse_dataflow
from headgate.learning import (
    Graph,
    LearnedSettings,
    Step,
    Target,
    encode_model,
    fit,
    graph_of,
    learned_actions,
    levels_of,
    measured_pairs,
    opaque_containers,
    settings_of,
)
from headgate.replay import (
    RecordedUpdate,
    Recording,
    RecordingError,
    ReplayedDecision,
    RetentionPassed,
    in_order,
)

_LOOK_BACK: Final = 4
"""Times as many waves are looked at as there should be, for a stretch without holes."""
_KEEP: Final = (
    "; agents keep topics for as long as dataflows with learned triggers need, up to "
    "kafka.longest_retention_days: raise that, and retention.ms, to more than the training takes"
)


def learned_by(spec: DataflowSpec) -> tuple[LearnedSettings, Graph]:
    """Return the settings of a dataflow's learned triggers, and the graph of their steps.

    Raises:
        SpecificationError: it has none, or such that make no sense.
    """
    actions = learned_actions(spec)
    if not actions:
        raise SpecificationError(
            (f"dataflow {spec.name!r} has no learned triggers; bound an output under `learned`",)
        )
    settings = settings_of(actions)
    return settings, graph_of(spec, actions, tuple(settings.outputs))


def train(task: Task, recordings: Recordings) -> Trained:
    """Return what comes of a training on what Kafka has.

    Raises:
        AgentError: Kafka does not answer.
        SpecificationError: the dataflow has no learned triggers, or metrics that nobody computes.
    """
    try:
        recording = recordings.open(task.spec.name)
        tables = dict.fromkeys(t for w in task.spec.containers for t in w.container.tables)
        with recordings.updates(recording, tables) as history:
            events = in_order(recording.decisions, history.partitions, history.fetch)
            return learn(task, recording, events, history.partitions)
    except RetentionPassed as error:
        return _nothing(task, f"{error}{_KEEP}")
    except RecordingError as error:
        return _nothing(task, str(error))


def learn(
    task: Task,
    recording: Recording,
    events: Iterable[RecordedUpdate | ReplayedDecision],
    partitions: Mapping[str, int],
) -> Trained:
    """Return what comes of a training on a recording.

    Args:
        task: what was asked for.
        recording: what is known of the dataflow's past.
        events: its updates and decisions, as ``in_order`` yields them.
        partitions: how many each topic has.

    Raises:
        SpecificationError: the dataflow has no learned triggers, or metrics that nobody computes.
    """
    settings, graph = learned_by(task.spec)
    wanted = Wanted(
        task.last,
        task.waves,
        max(1, task.last - _LOOK_BACK * task.waves + 1),
        _since(recording, task.spec),
    )
    lesson = teach(recording, events, partitions, task.spec, graph, task.outputs, wanted)
    if not lesson.waves:
        return _nothing(task, lesson.words or "no wave was recorded that could be learned from")
    return _fitted(task, recording, lesson, settings, graph)


def _fitted(
    task: Task, recording: Recording, lesson: Lesson, settings: LearnedSettings, graph: Graph
) -> Trained:
    numeric = _numeric(task.spec, graph, task.outputs)
    measured = {
        container: measured_pairs(history, settings.horizon, levels_of(history.values))
        for container, history in lesson.histories.items()
    }
    asked = ask_users_metrics(task.metrics, lesson.histories, settings, graph, task.outputs)
    unknown, failures = asked.unknown, asked.failures
    measured = {container: asked.shown(container, pairs) for container, pairs in measured.items()}
    targets = [
        Target(output, known.metric, known.bound, known.confidence, changes=known.changes)
        for output in task.outputs
        if (known := settings.outputs.get(output)) is not None and output not in unknown
    ]
    if not targets:
        waves = len(lesson.waves)
        return Trained({}, unknown, waves, lesson.waves[-1], lesson.words, failures=failures)
    fitted = fit(numeric, measured, targets)
    pairs = wave_pairs(
        task.spec.name,
        recording.decisions[0].time,
        lesson.waves,
        numeric,
        targets,
        measured,
    )
    return Trained(
        {output: encode_model(model) for output, model in fitted.models.items()},
        unknown
        | {
            each.output: "; ".join(filter(None, (each.words, failures.get(each.output))))
            for each in fitted.report.outputs
            if each.output not in fitted.models
        },
        len(lesson.waves),
        lesson.waves[-1],
        lesson.words,
        fitted.report,
        tuple(map(pack, pairs)),
        failures,
    )


def _nothing(task: Task, reason: str) -> Trained:
    return Trained(reasons=dict.fromkeys(task.outputs, reason), left_out=reason)


def _numeric(spec: DataflowSpec, graph: Graph, outputs: Sequence[str]) -> Graph:
    """Return a graph whose steps read what has numbers: nothing is predicted from the rest.

    A step that reads nothing else runs in every wave, so that what it writes is as good as input:
    it is left out, unless it writes one of the outputs.
    """
    opaque = opaque_containers(spec)
    steps = [
        Step(step.name, tuple(c for c in step.reads if c not in opaque), step.writes)
        for step in graph.steps
    ]
    return Graph([step for step in steps if step.reads or set(step.writes) & set(outputs)])


def _since(recording: Recording, spec: DataflowSpec) -> int:
    """Return the decision from which on the dataflow had the steps and containers of now."""
    since = 0
    former: DataflowSpec | None = None
    for place, (source, profile) in sorted(recording.definitions.items()):
        try:
            found = parse_dataflow(source, "as submitted", profile, spec.name).spec
        except DataflowErrors:
            found = None  # an older version wrote it: its steps may have been others
        if place and (found is None or former is None or _shape(found) != _shape(former)):
            since = place
        former = found
    return since


def _shape(spec: DataflowSpec) -> DataflowSpec:
    """Return a dataflow without what decides when its steps run."""
    bare = tuple(
        replace(action, bounds=(), condition=None, trigger=None, evaluation=None)
        for action in spec.actions
    )
    return replace(spec, actions=bare, adjustment=None, significance=None)
