"""Topics of observers: whether they are there, and keep what they must."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from headgate.events import updates_topic
from headgate.observer.doctor.findings import Finding, FindingVerdict, ok, problem

KAFKA_SECONDS: Final = 10.0
"""For how long an answer of a broker is waited for."""

_SHORT_RETENTION: Final = 24 * 3600.0


def control_topic(admin: AdminClient, step: str, topic: str, partitions: int) -> Finding:
    """Return whether the control topic keeps what is said, in its order."""
    policy = _topic_settings(admin, [topic]).get(topic, {}).get("cleanup.policy", "unknown")
    if partitions != 1:
        return problem(
            step, f"has {partitions} partitions, so that its order is lost", "make it with one"
        )
    if "compact" not in policy:
        cure = f"kafka-configs --alter --entity-type topics --entity-name {topic} "
        return problem(
            step,
            f"has cleanup.policy={policy}: watch lists would be deleted with age",
            f"{cure}--add-config cleanup.policy=compact",
        )
    return ok(step, f"one partition, cleanup.policy={policy}")


def update_topics(admin: AdminClient, tables: tuple[str, ...]) -> Iterator[Finding]:
    """Yield of each watched table whether its topic is there, and for how long events are kept."""
    topics = {updates_topic(table): table for table in tables}
    there = admin.list_topics(timeout=KAFKA_SECONDS).topics
    settings = _topic_settings(admin, [topic for topic in topics if topic in there])
    for topic, table in topics.items():
        step = f"topic {topic}"
        if topic not in there:
            text = f"is not there, although {table} is watched"
            cure = "an observer makes it: is one alive, and may it create topics?"
            yield problem(step, text, cure)
            continue
        partitions = counted(len(there[topic].partitions), "partition")
        kept = settings.get(topic, {}).get("retention.ms")
        if kept is None:
            text = f"{partitions}; its retention may not be read"
            yield Finding(step, FindingVerdict.NOTE, text)
        elif 0 <= int(kept) < _SHORT_RETENTION * 1000:
            text = f"{partitions}, but events are kept for {int(kept) / 3_600_000:.1f} h only"
            cure = "an agent that is away for longer must scan: raise retention.ms to a day or more"
            yield problem(step, text, cure)
        else:
            days = "for ever" if int(kept) < 0 else f"for {int(kept) / 86_400_000:.0f} days"
            yield ok(step, f"{partitions}, events are kept {days}")


def _topic_settings(admin: AdminClient, topics: list[str]) -> dict[str, dict[str, str]]:
    """Return the settings of topics; a topic whose settings may not be read is left out."""
    if not topics:
        return {}
    asked = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics],
        request_timeout=KAFKA_SECONDS,
    )
    found = {}
    for resource, future in asked.items():
        try:
            entries = future.result(timeout=KAFKA_SECONDS)
        except KafkaException:
            continue  # what is left out is reported as unknown
        found[resource.name] = {name: str(entry.value) for name, entry in entries.items()}
    return found


def counted(number: int, noun: str) -> str:
    """Return a number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
