"""Making headgate's data sources known to a Spark session."""

from __future__ import annotations

import os
import sys
from pkgutil import iter_modules
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headgate.spark.remote import is_remote
from headgate.spark.source.datasource import HBaseSource
from headgate.spark.source.updates_source import UpdatesSource

_FOUND_BY_SPARK: Final = "pyspark_"
"""How modules are called in which Spark looks for data sources by itself."""


def register_sources(spark: SparkSession) -> None:
    """Make the formats ``headgate`` and ``headgate_updates`` known to the session.

    Executors need headgate installed with its extra ``spark``, too.
    """
    if not is_remote(spark) and not _may_be_found():
        _spare_search(spark)
    spark.dataSource.register(HBaseSource)
    spark.dataSource.register(UpdatesSource)


def _may_be_found() -> bool:
    """Return whether there is a module that Spark's own search would look into."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [*sys.path, *(folder for folder in named if folder)]
    return any(info.name.startswith(_FOUND_BY_SPARK) for info in iter_modules(path))


def _spare_search(spark: SparkSession) -> None:
    """Have Spark know of the sources that its search would find: of none.

    Before the first source is registered Spark starts a Python process to search for others: a
    second of a processor at the start of each session.
    """
    java: Any = spark._jvm  # noqa: SLF001 - there is no other way to it
    try:
        manager = _module(java, "org.apache.spark.sql.execution.datasources.DataSourceManager")
        if manager.dataSourceBuilders().isEmpty():
            nothing = java.scala.Option.apply(
                _module(java, "scala.collection.immutable.Map").empty()
            )
            getattr(manager, "dataSourceBuilders_$eq")(nothing)
    except (Py4JError, TypeError) as error:
        # Another Spark has another place for it, and searches.
        print(f"Spark searches for data sources: {error}", file=sys.stderr)


def _module(java: Any, name: str) -> Any:
    """Return an object of Scala's."""
    return getattr(getattr(java, f"{name}$"), "MODULE$")
