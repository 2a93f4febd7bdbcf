"""Making headgate's data sources known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headgate.spark.source.datasource import HBaseSource
from headgate.spark.source.updates_source import UpdatesSource


def register_sources(spark: SparkSession) -> None:
    """Make the formats ``headgate`` and ``headgate_updates`` known to the session.

    Executors need headgate installed with its extra ``spark``, too.
    """
    spark.dataSource.register(HBaseSource)
    spark.dataSource.register(UpdatesSource)
