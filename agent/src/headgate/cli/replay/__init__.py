"""``headgate replay``: what other bounds would have saved and cost."""

from headgate.cli.replay.commands import ConfigOption, KafkaOption, kafka_of, outcome, replay

__all__ = ["ConfigOption", "KafkaOption", "kafka_of", "outcome", "replay"]
