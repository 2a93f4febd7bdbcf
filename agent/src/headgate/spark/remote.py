"""Sessions and frames of Spark Connect."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


def is_remote(one: SparkSession | DataFrame) -> bool:
    """Return whether a session or a frame is one of Spark Connect: it has no JVM here."""
    return type(one).__module__.startswith("pyspark.sql.connect")
