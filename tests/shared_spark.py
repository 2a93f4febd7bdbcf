"""One Spark session for all tests of a process: a JVM's start costs seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[1] / "examples"

SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "1",
    # A handful of rows costs less than compiling Java for the plan that they go through.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of this process; who changes its settings sets them back.

    Variables of the environment would go on to whatever is tested later: they are taken back once
    the JVM, which hands them to Spark's Python processes, has them.
    """
    from headgate.spark.worker.worker import session_of

    inherited = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        # Functions in Python run in processes of their own, which import the examples too.
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(EXAMPLES), inherited))))
        session = session_of(SETTINGS)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
