"""Errors of Kafka: whether a broker refuses for good, or nobody answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException

from headgate.agent.errors import KafkaRefused, Unreachable


def is_refusal(error: KafkaException) -> bool:
    """Return whether a broker has answered, and would answer so again."""
    cause = error.args[0]
    # Errors of librdkafka itself, as that nobody answers, have numbers below 0.
    return bool(cause.code() > 0 and not cause.retriable())


def refused(bootstrap: str, error: KafkaException) -> KafkaRefused:
    """Return the agent's own error for a refusal by the Kafka at some servers."""
    return KafkaRefused(
        f"Kafka at {bootstrap} refuses what the agent asks for: {error.args[0].str()}; allow it to "
        "this agent's user, or correct kafka.replication and kafka.partitions"
    )


@contextmanager
def asking(bootstrap: str, why: Callable[[KafkaException], str]) -> Iterator[None]:
    """Raise the agent's own errors for those of Kafka.

    Args:
        bootstrap: Kafka's servers.
        why: returns why nobody answers, in words.

    Raises:
        KafkaRefused: a broker refuses, and would refuse again.
        Unreachable: no broker answers.
    """
    try:
        yield
    except KafkaException as error:
        if is_refusal(error):
            raise refused(bootstrap, error) from error
        raise Unreachable(f"Kafka at {bootstrap} does not answer: {why(error)}") from error
