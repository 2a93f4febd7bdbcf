"""One training: from a recording to models, pairs and a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from headgate.agent.history.recordings import Recordings
from headgate.agent.training.pairs import wave_pairs
from headgate.agent.training.stored import Demand, UnusablePairs, output_pairs_of, rows_of
from headgate.agent.training.task import RefitTask, StoredTask, Task, Trained, pack_pairs, unpack
from headgate.agent.training.teacher import Lesson, Wanted, teach, teach_service
from headgate.agent.training.user_metrics import ask_users_metrics
from headgate.engine import DataflowSpec, SpecificationError
from headgate.flows import DataflowErrors, parse_dataflow
from headgate.learning import (
    RECENT_WAVES,
    ErrorMetric,
    Fitted,
    Graph,
    LearnedSettings,
    Step,
    Target,
    decode_model,
    encode_model,
    fit,
    fit_on,
    graph_of,
    learned_actions,
    levels_of,
    measured_pairs,
    opaque_containers,
    refit,
    service_labels,
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

Events = Iterable[RecordedUpdate | ReplayedDecision]
"""Updates and decisions, as ``in_order`` yields them."""

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

    def work(recording: Recording, events: Events, partitions: Mapping[str, int]) -> Trained:
        return learn(task, recording, events, partitions)

    return _of_recording(task.spec, task.outputs, recordings, work)


def refit_models(task: RefitTask, recordings: Recordings) -> Trained:
    """Return what comes of fitting models anew to what Kafka has of their service.

    Raises:
        AgentError: Kafka does not answer, or the pairs of training do not do.
        SpecificationError: the dataflow has no learned triggers.
    """

    def work(recording: Recording, events: Events, partitions: Mapping[str, int]) -> Trained:
        return learn_from_service(task, recording, events, partitions)

    return _of_recording(task.spec, task.models, recordings, work)


def _of_recording(
    spec: DataflowSpec,
    outputs: Iterable[str],
    recordings: Recordings,
    work: Callable[[Recording, Events, Mapping[str, int]], Trained],
) -> Trained:
    try:
        recording = recordings.open(spec.name)
        tables = dict.fromkeys(t for w in spec.containers for t in w.container.tables)
        with recordings.updates(recording, tables) as history:
            events = in_order(recording.decisions, history.partitions, history.fetch)
            return work(recording, events, history.partitions)
    except RetentionPassed as error:
        return _nothing(outputs, f"{error}{_KEEP}")
    except RecordingError as error:
        return _nothing(outputs, str(error))


def learn_from_service(
    task: RefitTask, recording: Recording, events: Events, partitions: Mapping[str, int]
) -> Trained:
    """Return models fitted anew to the waves after those of their training.

    Args:
        task: what was asked for.
        recording: what is known of the dataflow's past.
        events: its updates and decisions, as ``in_order`` yields them.
        partitions: how many each topic has.

    Raises:
        UnusablePairs: the pairs of training do not do.
        UnusableModel: a model does not.
        SpecificationError: the dataflow has no learned triggers.
    """
    _, graph = learned_by(task.spec)
    models = {output: decode_model(data) for output, data in task.models.items()}
    pairs = [unpack(one) for one in task.pairs]
    own = {output: [one for one in pairs if one.key.output == output] for output in models}
    training = {output: rows_of(own[output], model) for output, model in models.items()}
    submitted = round(1000 * recording.decisions[0].time)
    # Pairs that were taken in are of waves of another submission: then all waves are service.
    trained = max((one.key.wave for one in pairs if one.key.submitted == submitted), default=0)
    changed = max((task.since.get(output, 1) for output in models), default=1)
    first = max(1, trained + 1, task.last - RECENT_WAVES + 1, changed)
    wanted = Wanted(task.last, 0, first, _since(recording, task.spec))
    service = teach_service(recording, events, partitions, task.spec, graph, tuple(models), wanted)
    found: dict[str, bytes] = {}
    reasons: dict[str, str] = {}
    for output, model in models.items():
        known = service[output]
        labels = service_labels(model, known) if len(known.numbers) else {}
        if not any(len(each.logs) for each in labels.values()):
            reasons[output] = (
                f"no two waves from wave {first} on are known in which `{output}` was made, "
                f"at most {model.horizon} apart"
            )
            continue
        upstream = graph.upstream(output)
        found[output] = encode_model(refit(model, training[output], labels, upstream=upstream))
    waves = max((len(each.numbers) for each in service.values()), default=0)
    return Trained(found, reasons, waves, task.last)


def learn(
    task: Task,
    recording: Recording,
    events: Events,
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
        max(1, task.since, task.last - _LOOK_BACK * task.waves + 1),
        _since(recording, task.spec),
        settings.horizon,
    )
    lesson = teach(recording, events, partitions, task.spec, graph, task.outputs, wanted)
    if not lesson.waves:
        return _nothing(
            task.outputs, lesson.words or "no wave was recorded that could be learned from"
        )
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
    targets = _targets(settings, [output for output in task.outputs if output not in unknown])
    if not targets:
        waves = len(lesson.waves)
        return Trained(
            {},
            unknown,
            waves,
            lesson.waves[-1],
            lesson.words,
            failures=failures,
            first=lesson.waves[0],
        )
    fitted = fit(numeric, measured, targets)
    models, reasons = _of(fitted)
    pairs = wave_pairs(
        task.spec.name,
        recording.decisions[0].time,
        lesson.waves,
        numeric,
        targets,
        measured,
    )
    return Trained(
        models,
        unknown
        | {
            output: "; ".join(filter(None, (why, failures.get(output))))
            for output, why in reasons.items()
        },
        len(lesson.waves),
        lesson.waves[-1],
        lesson.words,
        fitted.report,
        tuple(map(pack_pairs, pairs)),
        failures,
        lesson.waves[0],
    )


def demands_of(spec: DataflowSpec, outputs: Sequence[str]) -> dict[str, Demand]:
    """Return what pairs a training of some outputs takes.

    Raises:
        SpecificationError: the dataflow has no learned triggers.
        UnusablePairs: no pairs that are kept say what an output is learned from.
    """
    settings, graph = learned_by(spec)
    numeric = _numeric(spec, graph, outputs)
    found = {}
    for output in outputs:
        metric = settings.outputs[output].metric
        if not isinstance(metric, ErrorMetric) or not settings.has_labels_of_service(output):
            raise UnusablePairs(
                f"`{output}` is learned from what users' metrics say or from changes that "
                "accumulate, and pairs are kept without these; train it on a recording"
            )
        found[output] = Demand(metric, tuple(numeric.above(output)), settings.horizon)
    return found


def learn_stored(task: StoredTask) -> Trained:
    """Return what comes of a training on stored pairs.

    Raises:
        UnusablePairs: see ``output_pairs_of``.
        SpecificationError: the dataflow has no learned triggers.
    """
    settings, graph = learned_by(task.spec)
    pairs = [unpack(one) for one in task.pairs]
    known = {
        output: output_pairs_of([p for p in pairs if p.key.output == output], settings.horizon)
        for output in task.outputs
    }
    fitted = fit_on(
        _numeric(task.spec, graph, task.outputs), known, _targets(settings, task.outputs)
    )
    return Trained(
        *_of(fitted), fitted.report.waves, max(p.key.wave for p in pairs), report=fitted.report
    )


def _targets(settings: LearnedSettings, outputs: Sequence[str]) -> list[Target]:
    return [
        Target(output, known.metric, known.bound, known.confidence, changes=known.changes)
        for output in outputs
        if (known := settings.outputs.get(output)) is not None
    ]


def _of(fitted: Fitted) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return models as bytes, and by output why there is none."""
    models = {output: encode_model(model) for output, model in fitted.models.items()}
    reasons = {each.output: each.words for each in fitted.report.outputs}
    return models, {output: why for output, why in reasons.items() if output not in models}


def _nothing(outputs: Iterable[str], reason: str) -> Trained:
    return Trained(reasons=dict.fromkeys(outputs, reason), left_out=reason)


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
