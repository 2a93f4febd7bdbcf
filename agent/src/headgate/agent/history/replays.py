"""Replays of what Kafka still has of a dataflow's past."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from headgate.agent.configuration import KafkaOptions
from headgate.agent.errors import Refused
from headgate.agent.history.recordings import Recordings
from headgate.engine import ActionRole, DataflowSpec
from headgate.flows import Dataflow, parse_dataflow
from headgate.replay import (
    Candidate,
    Difference,
    Recording,
    ReplayReport,
    differences,
    in_order,
    replay,
)

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

    Raises:
        RecordingError: it cannot be replayed; the message says why.
        Unreachable: Kafka does not answer.
        DataflowErrors: this version does not read the definition that was submitted.
    """

    def __init__(self, kafka: KafkaOptions, name: str) -> None:
        self._recordings = Recordings(kafka)
        self.recording: Recording = self._recordings.open(name)
        self._definitions = {
            place: parse_dataflow(source, f"{name}, as submitted", profile, name)
            for place, (source, profile) in self.recording.definitions.items()
        }
        self.dataflow: Dataflow = self._definitions[0]

    def replay(self, others: Mapping[str, DataflowSpec]) -> FlowReplay:
        """Return replays under the recorded bounds and under others, by label.

        Raises:
            Refused: a specification has other steps or containers than the recorded one.
            RecordingError: Kafka has not all that is needed any more.
            Unreachable: Kafka does not answer.
        """
        for label, spec in others.items():
            self._check(label, spec)
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
            report = replay(self.recording, events, history.partitions, candidates)
        return FlowReplay(report, differences(report.replays[0], self.recording))

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
