"""A recording replayed under any number of bounds in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from headgate.engine import (
    ActionRole,
    DataflowSpec,
    DecisionKind,
    Deliveries,
    PolicyFactory,
    RecordArrived,
    UserMetric,
)
from headgate.events import Gap, TableChange, UpdateBatch, UpdateMessage
from headgate.replay.models import RecordedModels, refuse_metrics_of_users
from headgate.replay.outcome import Replayed
from headgate.replay.outputs import RecordedOutput
from headgate.replay.recording import NotRecorded, Recording, ReplayedDecision
from headgate.replay.replayer import RecordedState, Replayer
from headgate.replay.stream import RecordedUpdate
from headgate.replay.tables import ContainerExtent, RecordedTables, Write


class Candidate(Struct, frozen=True):
    """Bounds to replay: a dataflow of the same steps and containers.

    ``changes`` holds specifications by the position of the decision from which on each holds, where
    the replay is to follow what was submitted meanwhile.
    """

    label: str
    spec: DataflowSpec
    changes: Mapping[int, DataflowSpec] = {}


class ReplayReport(Struct, frozen=True):
    """Replays of one recording, in the order of the candidates."""

    dataflow: str
    replays: tuple[Replayed, ...]
    updates: int
    """Cells in all updates that were replayed."""
    seconds: float
    """From the submission to the last update or decision."""
    warnings: tuple[str, ...]


def replay(
    recording: Recording,
    events: Iterable[RecordedUpdate | ReplayedDecision],
    partitions: Mapping[str, int],
    candidates: Sequence[Candidate],
    policies: PolicyFactory,
    models: RecordedModels | None = None,
) -> ReplayReport:
    """Return what the dataflow would have done under each candidate's bounds.

    Args:
        recording: what is known of its past.
        events: its updates and decisions, as ``in_order`` yields them.
        partitions: how many each topic has.
        candidates: the bounds.
        policies: makes trigger policies of all kinds that the dataflow has.
        models: by which it was decided on; None where nothing was.

    Raises:
        NotRecorded: events leave out what a candidate needs.
        UnknownModel: a model was recorded and there are none.
    """
    for candidate in candidates:
        for spec in (candidate.spec, *candidate.changes.values()):
            _refuse_code_of_users(spec)
    known = models or RecordedModels(recording, {})
    return _Replaying(recording, partitions, candidates, policies, known).run(events)


def _refuse_code_of_users(spec: DataflowSpec) -> None:
    for action in spec.actions:
        if action.stage is not None and action.stage.runnable.kind == "python":
            raise NotRecorded(
                f"action {action.name!r} has the runnable {action.stage.runnable.setting!r}, which "
                "a replay cannot ask; replay dataflows whose runnables are headgate's own"
            )
        for bound in action.bounds:
            if bound.value is not None and isinstance(bound.value.metric, UserMetric):
                raise NotRecorded(
                    f"bound {bound.name!r} of action {action.name!r} has the metric "
                    f"{bound.value.metric.entry!r}, which a replay cannot ask; replay dataflows "
                    "whose bounds have metrics of headgate's alone"
                )
    refuse_metrics_of_users(spec)


class _Replaying:
    def __init__(
        self,
        recording: Recording,
        partitions: Mapping[str, int],
        candidates: Sequence[Candidate],
        policies: PolicyFactory,
        models: RecordedModels,
    ) -> None:
        self._recording = recording
        self._partitions = partitions
        spec = candidates[0].spec
        self._name = spec.name
        self._tables = RecordedTables()
        self._outputs = _outputs(spec)
        self._past = RecordedState(
            recording, self._tables, self._outputs, partitions, policies, models
        )
        self._containers = {watched.id: watched.container for watched in spec.containers}
        self._deliveries = Deliveries()
        self._replayers = [Replayer(c.label, c.spec, self._past, c.changes) for c in candidates]
        self._scanned: set[tuple[str, str]] = set()
        self._steps = {a.name for a in spec.actions if a.role is ActionRole.STEP}
        self._updates = 0
        self._unread = 0
        self._anonymous = 0
        self._last = recording.decisions[0].time
        self._expiring: set[str] = set()
        """Tables of which cells have expired that no event has deleted."""

    def run(self, events: Iterable[RecordedUpdate | ReplayedDecision]) -> ReplayReport:
        for event in events:
            self._last = max(self._last, event.time)
            if self._past.moment:
                for replayer in self._replayers:
                    replayer.pass_time(event.time)
            if isinstance(event, ReplayedDecision):
                self._reach(event)
            else:
                self._take(event)
        self._note_expired(self._last)
        for replayer in self._replayers:
            replayer.settle()
            replayer.measure()
        replays = tuple(replayer.outcome() for replayer in self._replayers)
        return ReplayReport(
            dataflow=self._recording.dataflow,
            replays=replays,
            updates=self._updates,
            seconds=self._last - self._recording.decisions[0].time,
            warnings=(*self._warnings(), *self._unseen_runs(replays)),
        )

    def _reach(self, decision: ReplayedDecision) -> None:
        self._note_expired(decision.time)
        place = self._past.moment
        # A run that somebody asked for is launched here and now: its own decision is to come yet.
        self._past.moment = place if decision.kind == DecisionKind.LAUNCHED else place + 1
        if decision.kind == DecisionKind.SCANNED:
            self._check_scan(decision)
            self._tables.set_ttls(decision.table, decision.ttls)
        for replayer in self._replayers:
            if place == 0:
                replayer.begin()
            else:
                replayer.reach(place, decision)
        self._past.moment = place + 1

    def _note_expired(self, now: float) -> None:
        tables = {table for each in self._containers.values() for table in each.tables}
        self._expiring.update(t for t in tables - self._expiring if self._tables.expired(t, now))

    def _check_scan(self, decision: ReplayedDecision) -> None:
        container = next((c for i, c in self._containers.items() if i == decision.container), None)
        if container is None:
            return
        held = sum(
            1
            for (_, row, _), _ in self._tables.cells(container, decision.table)
            if decision.start <= row and (decision.stop is None or row < decision.stop)
        )
        if decision.cells > held:
            raise NotRecorded(
                f"table {decision.table!r} held {decision.cells} cells of container "
                f"{decision.container!r} when it was scanned, and events hold {held}: the others "
                "were written before an observer watched the table, or past it, so no replay can "
                "know them; record anew on tables that were watched from their creation"
            )

    def _take(self, update: RecordedUpdate) -> None:
        begun = self._past.moment > 0
        if begun:
            self._past.positions[update.topic][update.partition] = update.offset + 1
        if update.message is None:
            self._unread += begun
            return
        message = self._unseen(update, update.message)
        if message is None:
            return
        writes: list[Write] = []
        match message:
            case UpdateBatch():
                writes = self._tables.apply(message)
                self._note_rewriting(message, writes)
                self._updates += len(writes) if begun else 0
            case TableChange():
                count = self._partitions[update.topic]
                writes = self._tables.change(message, update.partition, count)
            case Gap():
                self._unread += begun
            case _:
                return
        for output in self._outputs.values():
            output.take(writes)
        if begun:
            for replayer in self._replayers:
                replayer.take(update, message, writes)

    def _unseen(self, update: RecordedUpdate, message: UpdateMessage) -> UpdateMessage | None:
        record = RecordArrived(update.time, update.topic, update.partition, update.offset, message)
        return self._deliveries.unseen(record) if self._deliveries.first(record) else None

    def _note_rewriting(self, batch: UpdateBatch, writes: Iterable[Write]) -> None:
        rewriting = self._past.rewriting
        actions = [
            r.origin.action if r.origin is not None and r.origin.dataflow == self._name else ""
            for r in batch.requests
        ]
        if all(action in rewriting or action not in self._steps for action in actions):
            return
        for number, _, before, after in writes:
            if before == after and actions[number] in self._steps:
                rewriting.add(actions[number])

    def _warnings(self) -> Iterable[str]:
        recording = self._recording
        if self._unread or recording.gaps:
            yield (
                f"{self._unread + recording.gaps} gaps in the record: the agent read tables again, "
                "and a replay cannot"
            )
        if self._tables.guesses:
            yield (
                f"after {self._tables.guesses} updates no event tells what HBase shows (outcome or "
                "order unknown, a deleted version, timestamps near each other): the agent read "
                "those cells, and a replay takes what is likeliest"
            )
        if self._expiring:
            named = ", ".join(sorted(self._expiring))
            yield (
                f"cells of {named} have expired by the time to live of their family, which no "
                "event says: the agent noticed, and a replay keeps them"
            )
        if recording.given_up:
            names = ", ".join(dict.fromkeys(recording.given_up))
            yield f"runs of {names} failed for good; a replay takes every run to commit"

    def _unseen_runs(self, replays: Iterable[Replayed]) -> Iterable[str]:
        """Yield the runs of which triggers with models hear something else than they would have."""
        for replayer, replayed in zip(self._replayers, replays, strict=True):
            steps = {action.name for action in replayer.spec.triggered(self._past.models.kind)}
            unseen = {
                step.action: count
                for step in replayed.steps
                if step.action in steps and (count := sum(not run.recorded for run in step.runs))
            }
            if unseen:
                told = ", ".join(f"{count} of `{action}`" for action, count in unseen.items())
                yield (
                    f"{replayed.label}: runs are not recorded, {told}: they show again what was "
                    "recorded last, so errors that audits and runs would have found there are "
                    "missed"
                )


def _outputs(spec: DataflowSpec) -> dict[tuple[str, str], RecordedOutput]:
    extents = {watched.id: ContainerExtent(watched) for watched in spec.containers}
    return {
        (action.name, container): RecordedOutput(extents[container])
        for action in spec.actions
        if action.role is ActionRole.STEP
        for container in action.writes
    }
