"""Kits for the tests of those who write steps, stages, triggers and metrics.

``StepTester`` and ``StageTester`` run steps and stages of a dataflow file over tables in memory: no
HBase, Kafka or agent. ``EngineTester`` has a dataflow decide on writes by a scripted clock; it
needs no Spark either.
"""

from headgate.engine import EngineTester, launched
from headgate.testing.stages import StageTester
from headgate.testing.steps import StepTester
from headgate.testing.tables import MemoryTables

__all__ = ["EngineTester", "MemoryTables", "StageTester", "StepTester", "launched"]
