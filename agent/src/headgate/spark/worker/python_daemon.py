"""The process that Spark forks its Python workers from, with what they all need imported.

Spark ends workers that were idle for a minute, and its own daemon imports nothing, so that the next
job's workers import everything anew, each for itself: 1.1 s of a processor per worker, and a job of
0.9 s takes 4.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

_IMPORTED: Final = (
    "numpy",
    "pandas",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.fs",
    "pyarrow.ipc",
    "pyspark.worker",
    "headgate.spark.source.datasource",
)
"""What starts no thread before it is used: a fork has only the thread that forked. Names, as an
import of this module says nothing of what is imported for the workers."""


def main() -> None:
    """Import it, and fork workers until Spark ends."""
    for name in _IMPORTED:
        import_module(name)
    # Workers collect garbage after each task. What is here is none, and is not copied to be seen.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
