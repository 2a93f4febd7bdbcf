"""Gauges and counters that an observer's parts expose to Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from headgate.observer.control.gates import WriteGates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.publishing.kafka import KafkaProducer
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.recording.admission import WriteAdmission
from headgate.observer.recording.journal import Journal
from headgate.observer.sessions.acknowledgement import Acknowledgements
from headgate.observer.tuning import is_compiled


def expose_process(
    metrics: Metrics, loop: asyncio.AbstractEventLoop, serving: Callable[[], bool]
) -> None:
    """Show whether the process serves clients, how it runs, and how much its loop has to do."""
    metrics.gauge("serving", "1 while clients are served.", lambda: float(serving()))
    metrics.gauge(
        "compiled",
        "1 where the hot path is compiled, 0 where it is interpreted.",
        lambda: float(is_compiled()),
    )
    metrics.gauge("tasks", "Tasks of the event loop.", lambda: len(asyncio.all_tasks(loop)))


def expose_journal(metrics: Metrics, journal: Journal, limit_bytes: Callable[[], int]) -> None:
    """Show how full the journal is, and how far behind Kafka."""
    metrics.gauge("journal_bytes", "Bytes of the journal on disk.", lambda: journal.size)
    metrics.gauge(
        "journal_limit_bytes",
        "Bytes that the journal may have.",
        limit_bytes,
    )
    metrics.gauge(
        "journal_unsettled_requests",
        "Journalled requests whose events Kafka has not acknowledged.",
        lambda: journal.unsettled,
    )
    metrics.gauge(
        "journal_oldest_seconds",
        "Age of the oldest of them.",
        lambda: journal.oldest_age(time.time()),
    )


def expose_deliveries(metrics: Metrics, publisher: Publisher, producer: KafkaProducer) -> None:
    """Show what is on its way to Kafka, and how long that takes."""
    metrics.gauge(
        "undelivered_messages",
        "Messages that Kafka has not acknowledged.",
        lambda: publisher.undelivered,
    )
    metrics.gauge(
        "undelivered_oldest_seconds",
        "For how long the oldest message that Kafka was sent waits for its acknowledgement.",
        producer.oldest_age,
    )
    metrics.histogram(
        "delivery_seconds",
        "From sending a message to Kafka to the acknowledgement of all replicas.",
        producer.delivery,
    )
    metrics.counter("messages", "Messages that Kafka acknowledged.", lambda: publisher.published)
    metrics.counter(
        "delivery_failures",
        "Deliveries to Kafka that failed and were repeated.",
        lambda: publisher.failures,
    )


def expose_control(metrics: Metrics, control: ControlState, notify: NotifyColumns) -> None:
    """Show what the control topic has said, and which writes got the notify cells it asks for."""
    _expose_notify_columns(metrics, notify)
    metrics.gauge(
        "control_topic_lost",
        "1 while the control topic cannot be read and every table is treated as watched.",
        lambda: float(control.everything),
    )
    metrics.gauge("watched_tables", "Tables in watch lists.", lambda: len(control.watched))


def expose_held_writes(
    metrics: Metrics,
    admission: WriteAdmission,
    gates: WriteGates,
    acknowledgements: Acknowledgements | None,
) -> None:
    """Show the writes that wait for something, and what became of those that waited."""
    _expose_admission(metrics, admission)
    _expose_gates(metrics, gates)
    _expose_acknowledgements(metrics, acknowledgements)


def _expose_admission(metrics: Metrics, admission: WriteAdmission) -> None:
    """Show the writes that the journal had no room for."""
    metrics.counter(
        "blocked_writes",
        "Writes refused because the journal had no room.",
        lambda: admission.blocked,
    )
    metrics.counter(
        "passed_writes", "Writes that went by without events.", lambda: admission.passed
    )


def _expose_gates(metrics: Metrics, gates: WriteGates) -> None:
    """Show which gates are closed, and what became of the writes that they held."""
    metrics.gauge("gates_closed", "Gates that are closed.", lambda: gates.closed_gates)
    metrics.gauge("held_writes", "Writes that a gate holds now.", lambda: gates.held)
    metrics.counter("gate_closings", "How often a gate was closed.", lambda: gates.closings)
    metrics.counter(
        "refused_at_gates", "Writes that a gate held as long as allowed.", lambda: gates.refused
    )
    metrics.counter(
        "dropped_at_gates",
        "Writes whose client was gone while a gate held them.",
        lambda: gates.dropped,
    )
    metrics.histogram("held_seconds", "How long a gate held a write.", gates.held_seconds)


def _expose_notify_columns(metrics: Metrics, notify: NotifyColumns) -> None:
    """Show which writes got their notify cells."""
    metrics.counter("marked_writes", "Writes that were given notify cells.", lambda: notify.marked)
    metrics.counter(
        "unmarked_writes",
        "Writes that went on without the notify cells that their table asks for.",
        lambda: notify.unmarked,
    )
    metrics.gauge(
        "unmarked_tables",
        "Tables whose notify columns are asked for and not set.",
        lambda: len(notify.stopped),
    )


def _expose_acknowledgements(metrics: Metrics, held: Acknowledgements | None) -> None:
    """Show the replies that wait for Kafka, if any do."""
    metrics.gauge(
        "writes_waiting_for_kafka",
        "Writes whose reply waits until Kafka has their events.",
        lambda: 0 if held is None else len(held),
    )
    metrics.counter(
        "unacknowledged_closes",
        "Connections closed because Kafka did not have a write's events in time.",
        lambda: 0 if held is None else held.expired,
    )
