"""Waves that end by themselves, by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contradiction import require

from headgate.flows import WaveEnd

if TYPE_CHECKING:
    from agents.life import AgentLife


WAVES_LATE = 50.0  # seconds by which a wave may be late, beside twice its period


class WaveWatch:
    """Looks whether what was written is followed by the end of a wave in time."""

    def __init__(self, life: AgentLife) -> None:
        self._life = life
        self._world = life.world
        self._unwaved: tuple[int, float] | None = None
        """How many waves there were when something was written, and when that was."""
        self._quiet_since = 0.0

    def written(self) -> None:
        """Note that something was written which a wave must follow."""
        quiet = self._world.dataflow.waves.end is WaveEnd.QUIET
        if self._unwaved is None:
            self._unwaved = (self._life.agent.waves(), self._world.lived)
        elif quiet:
            self._unwaved = (self._unwaved[0], self._world.lived)

    def disturbed(self, at: float) -> None:
        """Have waves be in time again from some moment on, if nothing else comes."""
        self._quiet_since = max(self._quiet_since, at)

    def check(self) -> None:
        """A wave that is due ends, whoever has the dataflow."""
        waves = self._world.dataflow.waves
        if self._unwaved is None or waves.seconds is None:
            return
        known, since = self._unwaved
        if self._life.agent.waves() > known:
            self._unwaved = None
            return
        passed = self._world.lived - max(since, self._quiet_since)
        words = f"nothing has ended a wave for {passed:.0f} s, {waves}"
        require(holds=passed <= 2 * waves.seconds + WAVES_LATE, words=words)
