"""How a dataflow stands, for people and for Prometheus, and what it needs of Kafka."""

from __future__ import annotations

from headgate.agent.dataflow.consumption import Consumption
from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.continuations import Continuation
from headgate.agent.dataflow.decisions import Decisions
from headgate.agent.dataflow.runs.attempts import Attempts
from headgate.agent.dataflow.runs.history import RunHistory
from headgate.agent.dataflow.state import FlowState
from headgate.agent.dataflow.views import ActionStatus, FlowExplanation, FlowStatus, Phase
from headgate.agent.dataflow.waves import Waves
from headgate.agent.kafka.barriers import Barriers
from headgate.agent.kafka.read_counts import container_reads
from headgate.agent.parts import Part
from headgate.agent.policies import TRIGGER_KINDS
from headgate.agent.ports import ReadsRecord
from headgate.engine import ActionRole, Reports, RunPurpose, leaves
from headgate.events import DECISIONS_TOPIC, updates_topic
from headgate.settings import shell_word

_NEEDS = 30.0  # seconds after which it is looked at anew what runs need of Kafka


class Reporting(Part):
    """Says how the dataflow stands."""

    def __init__(
        self,
        state: FlowState,
        context: RuntimeContext,
        barriers: Barriers[Continuation],
        history: RunHistory,
        decisions: Decisions,
        attempts: Attempts,
        waves: Waves,
        consumption: Consumption,
    ) -> None:
        self._state = state
        self._context = context
        self._barriers = barriers
        self._history = history
        self._decisions = decisions
        self._attempts = attempts
        self._waves = waves
        self._consumption = consumption
        self._needs_at = 0.0

    def explain(self, now: float) -> FlowExplanation:
        """Return the engine's explanation, with the reads of what it watches."""
        explained = self._state.engine.explain(now)
        reads_of = self._context.observers.reads
        return FlowExplanation(
            **{name: getattr(explained, name) for name in explained.__struct_fields__},
            reads=tuple(
                container_reads(watched.container, reads_of)
                for watched in self._state.dataflow.spec.containers
                if watched.id not in self._state.dataflow.outside
            ),
            identities=self._history.identities(),
        )

    def status(self, now: float) -> FlowStatus:
        """Return how the dataflow stands."""
        state = self._state
        last = self._history.last()
        flows = self._flows()
        return FlowStatus(
            name=state.name,
            phase=state.phase,
            words=self._words(now),
            revision=state.definition.revision,
            epoch=state.epoch,
            worker=self._attempts.worker,
            actions=tuple(
                ActionStatus(
                    action.name,
                    action.role.value,
                    self._attempts.action_state(action.name),
                    self._attempts.committed_runs[action.name],
                    self._not_needed(action.name),
                    last.get(action.name),
                    flows.get(action.name, ""),
                    ""
                    if (stage := state.engine.stages.get(action.name)) is None
                    else stage.failure,
                    action.name,
                )
                for action in state.dataflow.spec.actions
            ),
            waves=self._waves.number,
            settled=self._waves.settled,
            lag=sum(self._consumption.lag().values()),
            consumed=self._consumption.cells,
            shadow=state.definition.shadow,
            profile=state.definition.profile,
            set_aside=self._consumption.set_aside,
            bad_records=self._consumption.bad_records,
            wave_time=self._waves.times.get(self._waves.number),
        )

    def _flows(self) -> dict[str, str]:
        """Return, by stage, what waits for it and who holds it, in words."""
        words: dict[str, str] = {}
        engine = self._state.engine
        for action in self._state.dataflow.spec.actions:
            stage = engine.stages.get(action.name)
            if stage is None:
                continue
            known = engine.stage_flows(action.name)
            parts = [
                f"{flow.unread} of {flow.backlog} increments of `{flow.flow}` ({flow.source}) wait"
                for flow in known.flows
                if flow.unread
            ]
            if known.held_by:
                holders = " and ".join(f"`{name}`" for name in known.held_by)
                parts.append(f"held by {holders}")
            if stage.wanted is not RunPurpose.ADVANCE:
                parts.append(f"asked for: {stage.wanted}")
            words[action.name] = "; ".join(parts)
        return words

    def _not_needed(self, action: str) -> int:
        """Return how many runs of an action its bounds, or those before it, have saved.

        Waves that ended before it, without a run of it: in one wave it may be evaluated several
        times. Of one that is evaluated at writes or by the clock, or before which no wave ends:
        evaluations after which nothing had to run.
        """
        known = self._state.engine.actions[action]
        turns = self._waves.turns[action]
        if known.moments.write or known.moments.every is not None or not turns:
            return self._decisions.skipped[action]
        under_way = known.run is not None
        return max(0, turns - self._attempts.committed_runs[action] - under_way)

    def measure(self, now: float) -> None:
        """Set the gauges: lag, savings, how full bounds are, and what Kafka is soon to delete."""
        metrics = self._context.metrics
        metrics.session_warm.replace({(): int(self._attempts.worker.ready)})
        lag = self._consumption.lag()
        metrics.lag.replace({(topic, str(part)): count for (topic, part), count in lag.items()})
        actions = self._state.dataflow.spec.actions
        steps = [spec.name for spec in actions if spec.role is ActionRole.STEP]
        metrics.runs_saved.replace({(name,): self._not_needed(name) for name in steps})
        used = self.retention_used(now)
        metrics.retention_used.replace({(topic,): share for topic, share in used.items()})
        metrics.bound_fill.replace(
            {
                (explained.action, bound.bound, vector.dimension.value): fill
                for explained in self._state.engine.explain(now).actions
                for bound in (() if explained.result is None else leaves(explained.result))
                for vector in bound.vectors
                if (fill := vector.fill) is not None
            }
        )

        self._measure_triggers()

    def _measure_triggers(self) -> None:
        """Set the gauges of those kinds of triggers that have some."""
        triggers = [action.trigger for action in self._state.engine.actions.values()]
        for known in TRIGGER_KINDS:
            if known.measure is not None:
                own = (one for one in triggers if one.kind == known.kind)
                reports = (one.report() for one in own if isinstance(one, Reports))
                known.measure(self._context.metrics, reports)

    # -- retention

    def tick(self, now: float) -> None:
        """Have Kafka keep what next runs need, if it is time to look."""
        if now >= self._needs_at:
            self._needs_at = now + _NEEDS
            ages, recorded = self._ages(now), self._record_ages(now)
            topics = ages.keys() | recorded.keys()
            self._context.retention.need(
                {topic: max(ages.get(topic, 0.0), recorded.get(topic, 0.0)) for topic in topics}
            )

    def move_times(self, by: float) -> None:
        """Look so many seconds later."""
        self._needs_at += by

    def retention_used(self, now: float) -> dict[str, float]:
        """Return, by topic, the age of what next runs need there, as a part of its retention."""
        ages = self._ages(now)
        kept = self._context.retention.kept
        return {
            topic: ages.get(topic, 0.0) / (kept(topic) or seconds)
            for topic, seconds in self._consumption.retention.items()
        }

    def _ages(self, now: float) -> dict[str, float]:
        """Return how old, in seconds, the oldest update is that next runs need, by topic.

        The next run of an action is shown what changed since the last that was not rehearsed was
        launched; all that stands, for which nothing is needed of Kafka, where updates were lost
        since.
        """
        ages: dict[str, float] = {}
        position = self._state.position
        spec = self._state.dataflow.spec
        for action in spec.actions:
            known = self._state.engine.actions[action.name]
            if known.seen_at is None:
                continue
            for topic in {updates_topic(table) for table in spec.tables(action)}:
                since, until = known.seen.offsets.get(topic, ()), position.offsets.get(topic, ())
                if since != until and not known.seen.has_lost(topic):
                    ages[topic] = max(ages.get(topic, 0.0), now - known.seen_at)
        return ages

    def _record_ages(self, now: float) -> dict[str, float]:
        """Return how old, in seconds, the record is that advisers read, by topic.

        It is read from the submission of the dataflow on.
        """
        readers = (a for a in self._context.advisers.values() if isinstance(a, ReadsRecord))
        if not any(adviser.reads_record() for adviser in readers):
            return {}
        topics = (DECISIONS_TOPIC, *map(updates_topic, self._state.tables))
        return dict.fromkeys(topics, max(0.0, now - self._state.definition.submitted))

    # -- words

    def _words(self, now: float) -> str:
        state = self._state
        slow = self._barriers.words(now)
        if slow:
            return slow
        for table in state.tables:
            trouble = self._context.scanner.trouble(table)
            if trouble is not None:
                return f"table {table!r} cannot be read, and is tried again: {trouble}"
        if state.quarantined:
            names = ", ".join(state.quarantined)
            command = f"headgate flow release {shell_word(state.name)}"
            return f"in quarantine: {names}; `{command}` lets them run again"
        if state.definition.shadow:
            return "shadow mode: it decides and launches nothing"
        if self._attempts.unplaced:
            return (
                "waits for its turn: as many attempts are under way on this agent as "
                "`launchers.concurrency` allows"
            )
        if self._attempts.session_is_busy and not self._attempts.worker.ready:
            return f"worker: {self._attempts.worker.words}"
        if state.phase is Phase.PAUSED:
            return "paused: updates are counted, nothing runs"
        if self._consumption.bad_records:
            bad = self._consumption.bad_records[0]
            return (
                f"records set aside: {self._consumption.set_aside}, the last in {bad.topic}, "
                f"partition {bad.partition}, offset {bad.offset}: {bad.reason}"
            )
        return ""
