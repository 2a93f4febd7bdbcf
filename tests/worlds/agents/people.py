"""What people ask of the agents of a dataflow, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from contradiction import require

from agents.dataflows import STEPS
from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.dataflow.views import WaveStatus
from headgate.agent.errors import Refused
from headgate.engine.actions.runs import RunState

if TYPE_CHECKING:
    from agents.life import AgentLife


class People:
    """Whoever asks for waves and runs, and looks after what failed."""

    def __init__(self, life: AgentLife) -> None:
        self._life = life
        self._chance = life.chance
        self._world = life.world
        self.waves = 0
        """How many waves somebody knows of."""
        self._promised: dict[str, str] = {}
        """Actions of runs that were asked for."""
        self._waiting: dict[str, float] = {}
        """Actions of which a run was asked for that waits, and when."""

    def ask_of(self, what: Callable[[Runtime, float], Any]) -> Any:
        """Ask the newest agent for something; None where there is no answer, or it refuses."""
        found: list[Any] = []
        if self._life.works:
            with suppress(Refused):
                self._life.agent.ask(lambda runtime, now: found.append(what(runtime, now)))
        return found[0] if found else None

    def mark(self) -> None:
        """Somebody marks a wave, and may wait until it has settled."""
        number = self.mark_now()
        if number is not None and self._chance.random() < 0.7:
            told: list[WaveStatus] = []
            self.ask_of(lambda runtime, now: runtime.waves.when_settled(number, told.append))
            agent = self._life.agent
            for _ in range(self._chance.choice((0, 20, 400))):
                if told:
                    break
                self._world.step()
            if told and told[0].settled and agent is self._life.agent and self._life.works:
                self._life.oracle.check_settled(told[0])

    def mark_now(self) -> int | None:
        """Mark a wave; return its number, or None where nobody answers."""
        number = self.ask_of(lambda runtime, now: runtime.waves.mark((), now))
        self.waves = max(self.waves, number or 0)
        return None if number is None else int(number)

    def ask(self) -> None:
        """Somebody asks for a run."""
        action = self._chance.choice([a.name for a in self._life.spec.actions if a.name in STEPS])
        answer = self.ask_of(lambda runtime, now: runtime.commands.run(action, now))
        if answer is None:
            return
        words = f"a run of {action} is parked without a word"
        require(holds=bool(answer.run or answer.waits), words=words)
        if answer.run is not None:
            self._promised[answer.run] = action
        else:
            self._waiting[action] = self._world.lived

    def mend(self) -> None:
        """Somebody looks after what failed."""
        kind = self._chance.choice(("release", "retry", "retry"))
        self.ask_of(lambda runtime, now: getattr(runtime.commands, kind)(None, now))

    def pause(self) -> None:
        """Somebody pauses the dataflow, or resumes it."""
        if self._life.works and self._life.engine.state.paused:
            self.ask_of(lambda runtime, now: runtime.commands.resume(now))
        else:
            self.ask_of(lambda runtime, now: runtime.commands.pause(now))
        self._life.disturbed()

    def cancel(self) -> None:
        """Somebody cancels what runs of an action."""
        action = self._chance.choice(STEPS)
        self.ask_of(lambda runtime, _: runtime.commands.cancel(action))

    def check_answers(self) -> None:
        """Whoever asked for a run or a wave has got it, or is told why not."""
        known = {record.run for record in self._life.runtime.history.records}
        for run, action in self._promised.items():
            require(holds=run in known, words=f"nobody knows of {run}, which was asked for")
            ended = next(r for r in self._life.runtime.history.records if r.run == run).outcome
            words = f"{run} of {action}, which was asked for, is {ended} for ever"
            require(holds=ended not in ("waiting", "running"), words=words)
        for action, asked in self._waiting.items():
            began = any(r.action == action and at >= asked for at, r in self._world.starts)
            state = self._life.engine.actions[action]
            waits = state.requested or state.state is RunState.QUARANTINED or self._life.rehearsed
            words = f"a run of {action} was asked for, and nothing has come of it"
            require(holds=began or waits, words=words)
