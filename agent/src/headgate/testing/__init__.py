"""Kits for the tests of those who write steps, triggers and metrics.

``StepTester`` runs a step of a dataflow file over tables in memory: no HBase, Kafka or agent.
``EngineTester`` has a dataflow decide on writes by a scripted clock: no Spark either.
"""

from headgate.engine import EngineTester, launched
from headgate.testing.steps import StepTester
from headgate.testing.tables import MemoryTables

__all__ = ["EngineTester", "MemoryTables", "StepTester", "launched"]
