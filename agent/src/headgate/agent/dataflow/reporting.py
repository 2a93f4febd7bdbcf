"""How a dataflow stands, for people and for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.agent.dataflow.standing import Standing
from headgate.agent.dataflow.views import ActionStatus, FlowExplanation, FlowStatus, Phase
from headgate.agent.kafka.read_counts import container_reads
from headgate.agent.state.store import RunRecord
from headgate.engine import BoundResult, ConditionResult, GroupResult, Role
from headgate.events import updates_topic

_NEEDS = 30.0  # seconds after which it is looked at anew what runs need of Kafka


class Reporting(Standing):
    """Says how the dataflow stands."""

    def explain(self, now: float) -> FlowExplanation:
        """Return the engine's explanation, with the reads of what it watches."""
        explained = self._engine.explain(now)
        reads_of = self._around.observers.reads
        return FlowExplanation(
            **{name: getattr(explained, name) for name in explained.__struct_fields__},
            reads=tuple(
                container_reads(watched.container, reads_of)
                for watched in self._dataflow.spec.containers
            ),
        )

    def status(self, now: float) -> FlowStatus:
        """Return how the dataflow stands."""
        last: dict[str, RunRecord] = {}
        for record in self.records:
            last.setdefault(record.action, record)
        return FlowStatus(
            name=self.name,
            phase=self.phase,
            words=self._words(now),
            revision=self.definition.revision,
            epoch=self.epoch,
            worker=self._worker,
            actions=tuple(
                ActionStatus(
                    action.name,
                    action.role.value,
                    self._action_state(action.name),
                    self._runs[action.name],
                    self._not_needed(action.name),
                    last.get(action.name),
                )
                for action in self._dataflow.spec.actions
            ),
            waves=self._progress.waves,
            settled=self._progress.settled,
            lag=sum(self._feed.lag().values()) if self._feed else 0,
            consumed=self._consumed,
            shadow=self.definition.shadow,
            profile=self.definition.profile,
            set_aside=self._progress.set_aside,
            bad_records=self._progress.bad_records,
        )

    def measure(self, now: float) -> None:
        """Set the gauges: lag, savings, how full bounds are, and what Kafka is soon to delete."""
        measures = self._around.measures
        measures.session_warm.replace({(): int(self._worker.ready)})
        lag = self._feed.lag() if self._feed else {}
        measures.lag.replace({(topic, str(part)): count for (topic, part), count in lag.items()})
        steps = [spec.name for spec in self._dataflow.spec.actions if spec.role is Role.STEP]
        measures.runs_saved.replace({(name,): self._not_needed(name) for name in steps})
        used = self._retention_used(now)
        measures.retention_used.replace({(topic,): share for topic, share in used.items()})
        measures.bound_fill.replace(
            {
                (explained.action, bound.bound, vector.dimension.value): vector.value / vector.limit
                for explained in self._engine.explain(now).actions
                for bound in _bounds(explained.result)
                for vector in bound.vectors
                if vector.value is not None and vector.limit
            }
        )

    def _retention_used(self, now: float) -> dict[str, float]:
        """Return, by topic, the age of what next runs need there, as a part of its retention."""
        ages = self._ages(now)
        kept = self._around.retention.kept
        return {
            topic: ages.get(topic, 0.0) / (kept(topic) or seconds)
            for topic, seconds in self._retention.items()
        }

    def _ages(self, now: float) -> dict[str, float]:
        """Return how old, in seconds, the oldest update is that next runs need, by topic.

        The next run of an action is shown what changed since the last that was not rehearsed was
        launched; all that stands, for which nothing is needed of Kafka, where updates were lost
        since.
        """
        ages: dict[str, float] = {}
        position = self._position()
        spec = self._dataflow.spec
        for action in spec.actions:
            known = self._engine.actions[action.name]
            if known.seen_at is None:
                continue
            for topic in {updates_topic(table) for table in spec.tables(action)}:
                since, until = known.seen.offsets.get(topic, ()), position.offsets.get(topic, ())
                if since != until and not known.seen.has_lost(topic):
                    ages[topic] = max(ages.get(topic, 0.0), now - known.seen_at)
        return ages

    def _tell_needs(self, now: float) -> None:
        self._needs_at = now + _NEEDS
        self._around.retention.need(self._ages(now))

    def _words(self, now: float) -> str:
        slow = self._barriers.words(now)
        if slow:
            return slow
        for table in self._tables():
            trouble = self._around.scanner.trouble(table)
            if trouble is not None:
                return f"table {table!r} cannot be read, and is tried again: {trouble}"
        if self._quarantined:
            names = ", ".join(self._quarantined)
            return (
                f"in quarantine: {names}; `headgate flow release {self.name}` lets them run again"
            )
        if self.definition.shadow:
            return "shadow mode: it decides and launches nothing"
        if self._unplaced:
            return (
                "waits for its turn: as many attempts are under way on this agent as "
                "`launchers.concurrency` allows"
            )
        if self._session_is_busy and not self._worker.ready:
            return f"worker: {self._worker.words}"
        if self.phase is Phase.PAUSED:
            return "paused: updates are counted, nothing runs"
        if self._progress.bad_records:
            bad = self._progress.bad_records[0]
            return (
                f"records set aside: {self._progress.set_aside}, the last in {bad.topic}, "
                f"partition {bad.partition}, offset {bad.offset}: {bad.reason}"
            )
        return ""


def _bounds(result: ConditionResult | None) -> Iterator[BoundResult]:
    if isinstance(result, BoundResult):
        yield result
    elif isinstance(result, GroupResult):
        for part in result.parts:
            yield from _bounds(part)
