"""Replays of what Kafka still has of a dataflow's past."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from headgate.agent.configuration import KafkaOptions
from headgate.agent.errors import Refused
from headgate.agent.history.recordings import Recordings
from headgate.engine import ActionRole, DataflowSpec, PolicyFactory
from headgate.flows import Dataflow, parse_dataflow
from headgate.replay import (
    Candidate,
    Difference,
    ModelKey,
    RecordedModels,
    Recording,
    ReplayReport,
    UnknownModel,
    differences,
    in_order,
    recorded_models,
    replay,
    untrained,
)

ModelSource = Callable[[str, Sequence[ModelKey]], Mapping[ModelKey, bytes]]
"""Returns models of a dataflow, as they are stored; raises ``UnknownModel`` where it cannot."""

RECORDED = "as recorded"
"""The label of the bounds under which the record was made."""


class FlowReplay(Struct, frozen=True):
    """A report whose first replay is that of the recorded bounds, and how well it agrees."""

    report: ReplayReport
    disagreement: tuple[Difference, ...]
    """Where the replay of the recorded bounds is not what the agent did; empty is as it should."""


class FlowRecording:
    """One dataflow's past: its definition, and replays under any bounds.

    Args:
        kafka: where it was recorded.
        name: of the dataflow.
        policies: makes trigger policies of all kinds.
        models: where those are by which triggers decided; None where nobody says it.

    Raises:
        RecordingError: it cannot be replayed; the message says why.
        Unreachable: Kafka does not answer.
        DataflowErrors: this version does not read the definition that was submitted.
    """

    def __init__(
        self,
        kafka: KafkaOptions,
        name: str,
        policies: PolicyFactory,
        models: ModelSource | None = None,
    ) -> None:
        self._recordings = Recordings(kafka)
        self._policies = policies
        self._source = models
        self.recording: Recording = self._recordings.open(name)
        self._definitions = {
            place: parse_dataflow(source, f"{name}, as submitted", profile, name)
            for place, (source, profile) in self.recording.definitions.items()
        }
        self.dataflow: Dataflow = self._definitions[0]

    def triggered(self, kind: str) -> tuple[str, ...]:
        """Return the steps that have had triggers of a kind."""
        specs = (flow.spec for flow in self._definitions.values())
        return tuple(dict.fromkeys(a.name for spec in specs for a in spec.triggered(kind)))

    def _models(self) -> RecordedModels:
        wanted = recorded_models(self.recording)
        name = self.recording.dataflow
        if wanted and self._source is None:
            raise UnknownModel(
                f"models decided when steps of {name!r} ran, and nobody has said where they are"
            )
        stored = self._source(name, wanted) if wanted and self._source is not None else {}
        return RecordedModels(self.recording, stored)

    def replay(self, others: Mapping[str, DataflowSpec]) -> FlowReplay:
        """Return replays under the recorded bounds and under others, by label.

        Raises:
            Refused: a specification has other steps or containers than the recorded one, or
                outputs bounded by other errors than the recorded models were fitted to.
            RecordingError: Kafka has not all that is needed any more, or a model is not at hand.
            Unreachable: Kafka does not answer.
        """
        for label, spec in others.items():
            self._check(label, spec)
        models = self._models()
        for label, spec in others.items():
            misfit = models.misfit(spec)
            if misfit:
                raise Refused(f"{label}: {misfit}")
        changes = {place: flow.spec for place, flow in self._definitions.items() if place}
        candidates = [Candidate(RECORDED, self.dataflow.spec, changes)]
        name = self.recording.dataflow
        candidates += [Candidate(label, replace(s, name=name)) for label, s in others.items()]
        tables = dict.fromkeys(
            table
            for flow in self._definitions.values()
            for watched in flow.spec.containers
            for table in watched.container.tables
        )
        with self._recordings.updates(self.recording, tables) as history:
            decisions = self.recording.decisions
            events = in_order(decisions, history.partitions, history.fetch)
            partitions, policies = history.partitions, self._policies
            report = replay(self.recording, events, partitions, candidates, policies, models)
        recorded, *rest = report.replays
        missed = tuple(filter(None, (untrained(replayed, recorded) for replayed in rest)))
        report = replace(report, warnings=(*report.warnings, *missed))
        return FlowReplay(report, differences(recorded, self.recording))

    def _check(self, label: str, spec: DataflowSpec) -> None:
        recorded = self.dataflow.spec
        steps = {a.name for a in recorded.actions if a.role is ActionRole.STEP}
        strange = sorted({a.name for a in spec.actions if a.role is ActionRole.STEP} ^ steps)
        if strange:
            names = ", ".join(repr(name) for name in strange)
            raise Refused(
                f"{label} and the recorded dataflow {recorded.name!r} do not have the same steps: "
                f"{names} is in one alone; a replay may change bounds, not steps"
            )
        tables = {t for w in recorded.containers for t in w.container.tables}
        unknown = sorted({t for w in spec.containers for t in w.container.tables} - tables)
        if unknown:
            names = ", ".join(repr(name) for name in unknown)
            raise Refused(
                f"{label} watches table {names}, of which {recorded.name!r} recorded nothing"
            )
