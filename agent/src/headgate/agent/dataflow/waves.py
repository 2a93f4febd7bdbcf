"""Waves of input: when they end, and when everything that follows has settled."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

from headgate.agent.dataflow.continuations import EndOfWave
from headgate.agent.dataflow.decisions import Decisions
from headgate.agent.dataflow.runs.attempts import Attempts
from headgate.agent.dataflow.state import FlowState, RuntimePort
from headgate.agent.dataflow.views import WaveStatus
from headgate.agent.errors import Refused
from headgate.agent.parts import Part
from headgate.agent.state.saved_state import FlowProgress
from headgate.engine import DecisionKind, WaveEnded, counted_part
from headgate.events import TableChange, UpdateBatch
from headgate.flows import WaveEnd
from headgate.settings import shell_word

_KEPT = 100


class Waves(Part):
    """Ends waves and says when they are settled."""

    def __init__(
        self,
        state: FlowState,
        port: RuntimePort,
        decisions: Decisions,
        attempts: Attempts,
        progress: FlowProgress,
    ) -> None:
        self._state = state
        self._port = port
        self._decisions = decisions
        self._attempts = attempts
        self.number = progress.waves
        """Waves that were asked for."""
        self.settled = progress.settled
        """Up to which all are settled."""
        self._unsettled = progress.unsettled
        """Those whose barrier has not passed yet, each with its input actions."""
        self._new_input = progress.new_input
        """Whether input was consumed since the last wave ended."""
        self.due_at = progress.wave_due
        """When the wave ends by itself, in Unix seconds."""
        self.turns = Counter(progress.turns)
        """Waves of input that ended before an action, directly or by way of others, by action."""
        self.times = dict(progress.wave_times)
        """Waves' own times in Unix seconds, by number: of the last one, and of unsettled ones."""
        self._marked: deque[tuple[int, tuple[str, ...]]] = deque(maxlen=_KEPT)
        """The newest waves and their input actions."""
        self._waiters: list[tuple[int, Callable[[WaveStatus], None]]] = []

    def saved(self) -> dict[str, object]:
        """Return fields of ``FlowProgress``."""
        return {
            "waves": self.number,
            "settled": self.settled,
            "unsettled": self._unsettled,
            "new_input": self._new_input,
            "wave_due": self.due_at,
            "turns": dict(self.turns),
            "wave_times": self.times,
        }

    # -- what people ask

    def mark(self, actions: Sequence[str], now: float, time: float | None = None) -> int:
        """End a wave of input and return its number.

        Args:
            actions: input actions whose wave ends; all of them, where none is named.
            now: Unix seconds.
            time: the wave's own, in Unix seconds; ``now`` where None. It stays what it was at the
                mark, whenever the barrier passes and whoever goes on.

        Raises:
            Refused: a name is no input action.
        """
        inputs = self._state.inputs
        for action in actions:
            if action not in inputs:
                known = ", ".join(inputs) or "none"
                raise Refused(
                    f"{action!r} is no input action of {self._state.name}; it has: {known}"
                )
        chosen = tuple(actions) or inputs
        self.times = {number: self.times[number] for number, _ in self._unsettled}
        self.number += 1
        self.times[self.number] = now if time is None else time
        self._unsettled = (*self._unsettled, (self.number, chosen))
        self._new_input = False
        self._marked.append((self.number, chosen))
        self._port.save(now)
        self._await_input(self.number, chosen, now)
        return self.number

    def when_settled(self, wave: int, on_settled: Callable[[WaveStatus], None]) -> None:
        """Call ``on_settled`` when the wave is settled, which may be at once.

        Raises:
            Refused: no such wave was asked for.
        """
        if not 0 < wave <= self.number:
            raise Refused(f"{self._state.name} has no wave {wave}; the last one is {self.number}")
        self._waiters.append((wave, on_settled))
        self.settle()

    def status(self, wave: int) -> WaveStatus:
        """Return how a wave stands now."""
        if wave <= self.settled:
            return WaveStatus(wave, settled=True, troubles=self._troubles(wave))
        return WaveStatus(wave, settled=False, waiting=self._attempts.unrest() or "its barrier")

    def _troubles(self, wave: int) -> tuple[str, ...]:
        """Return what keeps steps from answering a wave, each with its cure."""
        name = self._state.name
        found = []
        if self._state.paused:
            found.append(f"{name} is paused; `headgate flow resume {shell_word(name)}` goes on")
        found += [
            f"`{action}` is in quarantine ({reason}); "
            f"`headgate flow retry {shell_word(name)} {shell_word(action)}` lets it out and runs it"
            for action, reason in self._state.quarantined.items()
        ]
        inputs = dict(self._marked).get(wave, self._state.inputs)
        for action in self._state.engine.actions.values():
            spec = action.spec
            if action.has_run or action.requested or action.run is not None:
                continue
            if action.name in inputs:
                found.append(
                    f"nothing has come from input `{action.name}` yet, so nothing starts what "
                    "comes after it"
                )
            elif not (action.is_input or spec.after or action.parts or spec.evaluation):
                found.append(
                    f"nothing starts `{action.name}`; "
                    f"`headgate flow run {shell_word(name)} {shell_word(action.name)}` does"
                )
        return tuple(found)

    # -- how they end

    def resume(self, now: float) -> None:
        """Await the input of waves again that were asked for before a restart."""
        for number, actions in self._unsettled:
            self.times.setdefault(number, now)  # of a state that was saved without times
            self._await_input(number, actions, now)

    def _await_input(self, number: int, actions: tuple[str, ...], now: float) -> None:
        end = EndOfWave(number, actions, self.times[number])
        self._port.ask(end, self._state.tables_written(actions), now)

    def ended(self, end: EndOfWave, now: float) -> None:
        """Have actions evaluated on a wave, all input of which was consumed."""
        self._unsettled = tuple(wave for wave in self._unsettled if wave[0] != end.number)
        inputs = self._state.inputs  # the dataflow may have changed since the mark
        ended = tuple(a for a in end.actions if a in inputs)
        words = f"wave {end.number} ended"
        kind = DecisionKind.WAVE_ENDED
        self._decisions.publish(now, kind, words, wave=end.number, wave_time=end.time, inputs=ended)
        self.turns.update(self._state.engine.followers(ended))
        self._port.handle(WaveEnded(now, ended, end.number, end.time))
        self.settle()

    def due(self) -> list[float]:
        """Return when the wave ends by itself, in Unix seconds, if it does."""
        return [] if self.due_at is None else [self.due_at]

    def tick(self, now: float) -> None:
        """End the wave if its time has come."""
        if self.due_at is None or now < self.due_at:
            return
        self.due_at = None
        if self._new_input and self._state.inputs:
            self.mark((), now)
        self.schedule(now)

    def move_times(self, by: float) -> None:
        """Have the wave end so many seconds later."""
        if self.due_at is not None:
            self.due_at += by

    def schedule(self, now: float) -> None:
        """Find when the wave ends by itself, if nothing more comes."""
        waves = self._state.dataflow.waves
        self.due_at = None
        due = waves.end is WaveEnd.EVERY or (waves.end is WaveEnd.QUIET and self._new_input)
        if due and waves.seconds is not None and self._state.inputs:
            self.due_at = now + waves.seconds

    def resume_schedule(self, now: float) -> None:
        """Wait on for the end of the wave that was under way when the agent before this ended."""
        former = self.due_at
        self.schedule(now)
        if former is not None and self.due_at is not None:
            self.due_at = min(former, self.due_at)

    # -- what they hear

    def note_input(self, now: float) -> None:
        """Note that something of the wave was consumed, or is missing."""
        self._new_input = True
        if self._state.dataflow.waves.end is WaveEnd.QUIET:
            self.schedule(now)

    def note_updates(self, batch: UpdateBatch, now: float) -> None:
        """Note updates that were consumed, if they are input."""
        state = self._state
        if self._new_input and state.dataflow.waves.end is not WaveEnd.QUIET:
            return  # noted before
        inputs = state.inputs
        if batch.table not in state.tables_written(inputs):
            return
        counted = counted_part(batch, state.dataflow.spec)
        origins = [r.origin for r in counted.requests] if counted is not None else []
        steps = {a.name for a in state.dataflow.spec.actions} - set(inputs)
        if all(o is not None and o.dataflow == state.name and o.action in steps for o in origins):
            return
        self.note_input(now)

    def note_change(self, change: TableChange, now: float) -> None:
        """Note that a table has changed, if input is written there."""
        if change.table in self._state.tables_written(self._state.inputs):
            self.note_input(now)

    def settle(self) -> None:
        """Have waves settle whose consequences have come to rest, and answer who waits for them."""
        if self.settled < self.number and self._attempts.unrest() is None:
            evaluated = min((number for number, _ in self._unsettled), default=self.number + 1)
            if evaluated - 1 > self.settled:
                self.settled = evaluated - 1
                self._state.dirty = True
        waiting = []
        for wave, on_settled in self._waiters:
            if wave <= self.settled:
                on_settled(self.status(wave))
            else:
                waiting.append((wave, on_settled))
        self._waiters = waiting
