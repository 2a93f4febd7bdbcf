"""A world in memory around a runtime: tables, topics, an observer and a worker that move by hand.

``World`` survives the agents in it. A test makes runtimes, lets one thing happen at a time with
``step``, and may end an agent or a worker between any two of them.
"""

from simulation.agent import ScriptedAgent
from simulation.rows import SEALS, MemoryRows
from simulation.timed import TimedScanStore, TimedStore
from simulation.world import World

__all__ = ["SEALS", "MemoryRows", "ScriptedAgent", "TimedScanStore", "TimedStore", "World"]
