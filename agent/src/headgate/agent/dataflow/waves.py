"""Waves of input: when they end, and when everything that follows has settled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headgate.agent.dataflow.purposes import EndOfWave
from headgate.agent.dataflow.standing import Standing
from headgate.agent.dataflow.views import WaveStatus
from headgate.agent.errors import Refused
from headgate.engine import DecisionKind, WaveEnded, counted_part
from headgate.events import TableChange, UpdateBatch
from headgate.flows import WaveEnd


class Waves(Standing):
    """Ends waves and tells when they are settled."""

    def mark(self, actions: Sequence[str], now: float) -> int:
        """End a wave of input (of all input actions, where none is named) and return its number.

        Raises:
            Refused: a name is no input action.
        """
        inputs = self._inputs()
        for action in actions:
            if action not in inputs:
                known = ", ".join(inputs) or "none"
                raise Refused(f"{action!r} is no input action of {self.name}; it has: {known}")
        chosen = tuple(actions) or inputs
        number = self._progress.waves + 1
        self._progress = msgspec.structs.replace(
            self._progress, waves=number, unsettled=(*self._progress.unsettled, (number, chosen))
        )
        self._new_input = False
        self._marked.append((number, chosen))
        self._save(now)
        self._end_wave(number, chosen, now)
        return number

    def when_settled(self, wave: int, told: Callable[[WaveStatus], None]) -> None:
        """Call ``told`` when the wave is settled, which may be at once.

        Raises:
            Refused: no such wave was asked for.
        """
        if not 0 < wave <= self._progress.waves:
            raise Refused(f"{self.name} has no wave {wave}; the last one is {self._progress.waves}")
        self._waiters.append((wave, told))
        self._settle()

    def wave_status(self, wave: int) -> WaveStatus:
        """Return how a wave stands now."""
        if wave <= self._progress.settled:
            return WaveStatus(wave, settled=True, troubles=self._troubles(wave))
        return WaveStatus(wave, settled=False, waiting=self._unrest() or "its barrier")

    def _troubles(self, wave: int) -> tuple[str, ...]:
        """Return what keeps steps from answering a wave, each with its cure."""
        name = self.name
        found = []
        if self._progress.paused:
            found.append(f"{name} is paused; `headgate flow resume {name}` goes on")
        found += [
            f"`{action}` is in quarantine ({reason}); `headgate flow retry {name} {action}` lets "
            "it out and runs it"
            for action, reason in self._quarantined.items()
        ]
        inputs = dict(self._marked).get(wave, self._inputs())
        for action in self._engine.actions.values():
            spec = action.spec
            if action.has_run or action.requested or action.run is not None:
                continue
            if action.name in inputs:
                found.append(
                    f"nothing has come from input `{action.name}` yet, so nothing starts what "
                    "comes after it"
                )
            elif not (action.is_input or spec.after or spec.bounds or spec.evaluation):
                found.append(
                    f"nothing starts `{action.name}`; `headgate flow run {name} {action.name}` does"
                )
        return tuple(found)

    def _end_wave(self, number: int, actions: tuple[str, ...], now: float) -> None:
        self._ask(EndOfWave(number, actions), self._tables_written(actions), now)

    def _wave_ended(self, end: EndOfWave, now: float) -> None:
        left = tuple(wave for wave in self._progress.unsettled if wave[0] != end.number)
        self._progress = msgspec.structs.replace(self._progress, unsettled=left)
        inputs = self._inputs()  # the dataflow may have changed since the mark
        ended = tuple(a for a in end.actions if a in inputs)
        words = f"wave {end.number} ended"
        self._tell(now, DecisionKind.WAVE_ENDED, words, wave=end.number, inputs=ended)
        self._turns.update(self._engine.followers(ended))
        self._handle(WaveEnded(now, ended))
        self._settle()

    def _schedule_wave(self, now: float) -> None:
        """Find when the wave ends by itself, if nothing more comes."""
        waves = self._dataflow.waves
        self._wave_at = None
        due = waves.end is WaveEnd.EVERY or (waves.end is WaveEnd.QUIET and self._new_input)
        if due and waves.seconds is not None and self._inputs():
            self._wave_at = now + waves.seconds

    def _resume_wave(self, now: float) -> None:
        """Wait on for the end of the wave that was under way when the agent before this ended."""
        former = self._wave_at
        self._schedule_wave(now)
        if former is not None and self._wave_at is not None:
            self._wave_at = min(former, self._wave_at)

    def _note_input(self, now: float) -> None:
        """Take note that something of the wave was consumed, or is missing."""
        self._new_input = True
        if self._dataflow.waves.end is WaveEnd.QUIET:
            self._schedule_wave(now)

    def _note_updates(self, batch: UpdateBatch, now: float) -> None:
        if self._new_input and self._dataflow.waves.end is not WaveEnd.QUIET:
            return  # noted before
        inputs = self._inputs()
        if batch.table not in self._tables_written(inputs):
            return
        counted = counted_part(batch, self._dataflow.spec)
        origins = [r.origin for r in counted.requests] if counted is not None else []
        steps = {a.name for a in self._dataflow.spec.actions} - set(inputs)
        if all(o is not None and o.dataflow == self.name and o.action in steps for o in origins):
            return
        self._note_input(now)

    def _note_change(self, change: TableChange, now: float) -> None:
        if change.table in self._tables_written(self._inputs()):
            self._note_input(now)

    def _wave_due(self, now: float) -> None:
        self._wave_at = None
        if self._new_input and self._inputs():
            self.mark((), now)
        self._schedule_wave(now)

    def _settle(self) -> None:
        progress = self._progress
        if progress.settled < progress.waves and self._unrest() is None:
            evaluated = min(
                (number for number, _ in progress.unsettled), default=progress.waves + 1
            )
            if evaluated - 1 > progress.settled:
                self._progress = msgspec.structs.replace(progress, settled=evaluated - 1)
                self._dirty = True
        waiting = []
        for wave, told in self._waiters:
            if wave <= self._progress.settled:
                told(self.wave_status(wave))
            else:
                waiting.append((wave, told))
        self._waiters = waiting
