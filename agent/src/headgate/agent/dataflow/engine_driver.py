"""Between the engine and the world: stimuli in, instructions out, a checkpoint before a launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

import structlog

from headgate.agent.dataflow.consultations import Consultations
from headgate.agent.dataflow.decisions import Decisions
from headgate.agent.dataflow.runs.attempts import Attempts
from headgate.agent.dataflow.state import FlowState
from headgate.agent.dataflow.suspects import Suspects
from headgate.agent.dataflow.tables.gates import Gates
from headgate.agent.dataflow.tables.scans import EngineScans
from headgate.agent.dataflow.waves import Waves
from headgate.agent.parts import Part
from headgate.engine import (
    Consult,
    DecisionKind,
    Instruction,
    Launch,
    NotifyAt,
    Quarantine,
    ReadCells,
    RecordArrived,
    RecordDecision,
    ResourcesSampled,
    RunFinished,
    RunRehearsed,
    RunStarted,
    ScanBegun,
    ScanContainer,
    Stimulus,
    Tick,
)

log = structlog.get_logger("headgate.agent.flow")


class EngineDriver(Part):
    """Has the engine take stimuli, and carries its instructions out in their order."""

    def __init__(
        self,
        state: FlowState,
        decisions: Decisions,
        attempts: Attempts,
        scans: EngineScans,
        consultations: Consultations,
        gates: Gates,
        waves: Waves,
        suspects: Suspects,
        save: Callable[[float], None],
    ) -> None:
        self._state = state
        self._decisions = decisions
        self._attempts = attempts
        self._scans = scans
        self._consultations = consultations
        self._gates = gates
        self._waves = waves
        self._suspects = suspects
        self._save = save
        self._tick_at: float | None = None

    def due(self) -> list[float]:
        """Return when the engine is to hear that time has passed, in Unix seconds, if it is."""
        return [] if self._tick_at is None else [self._tick_at]

    def tick(self, now: float) -> None:
        """Have the engine hear that time has passed, if that is due."""
        if self._tick_at is not None and now >= self._tick_at:
            self._tick_at = None
            self.handle(Tick(now))

    def handle(self, stimulus: Stimulus) -> None:
        """Have the engine take a stimulus, save, and carry its instructions out."""
        now = stimulus.now
        instructions = self._state.engine.handle(stimulus)
        launching = self._prepare(instructions, now)
        if launching or _is_saved_at_once(stimulus):
            self._save(now)
        self._carry_out(instructions, now)

    def arrive(
        self, arrived: list[RecordArrived], note: Callable[[RecordArrived], None], now: float
    ) -> None:
        """Have the engine take records; one checkpoint comes before all that they launch.

        Each is noted when it was taken, and is not in the list any more.
        """
        if not arrived:
            return
        instructions: list[Instruction] = []
        launching = False
        while arrived:
            try:
                taken, instructed = self._state.engine.arrive(arrived)
                for record in arrived[:taken]:
                    note(record)
            except (OSError, MemoryError):
                raise  # a full disk is no record's fault
            except Exception as error:
                self._suspects.blame(arrived, error)
                raise
            del arrived[:taken]
            launching |= self._prepare(instructed, now)
            instructions += instructed
            self._state.dirty = True
        if launching:
            self._save(now)
        self._carry_out(instructions, now)

    def _prepare(self, instructions: Sequence[Instruction], now: float) -> bool:
        """Note what is to be done; return whether a checkpoint must come before it."""
        launching = False
        for instruction in instructions:
            match instruction:
                case Launch():
                    self._attempts.prepare(instruction, now)
                    launching = True
                case NotifyAt():
                    # Not in its turn: a launch may find that its run is over, and the engine,
                    # which hears that at once, asks for another time meanwhile.
                    self._tick_at = instruction.time
                case Quarantine():
                    self._state.quarantined[instruction.action] = instruction.reason
                case RecordDecision():
                    decision = instruction.decision
                    self._decisions.take(decision)
                    if decision.kind is DecisionKind.GAP:
                        self._waves.note_input(decision.time)
                case _:
                    pass
        return launching

    def _carry_out(self, instructions: Sequence[Instruction], now: float) -> None:
        for instruction in instructions:
            match instruction:
                case Launch():
                    self._attempts.launch(instruction, now)
                case ScanContainer():
                    self._scans.scan(instruction, now)
                case ReadCells():
                    self._scans.read(instruction)
                case Consult():
                    self._consultations.ask(instruction)
                case Quarantine():
                    log.warning(
                        "quarantined",
                        dataflow=self._state.name,
                        action=instruction.action,
                        reason=instruction.reason,
                    )
                case RecordDecision():
                    self._decisions.send()
                case NotifyAt():
                    pass
                case _:
                    assert_never(instruction)
        self._gates.follow(now)


def _is_saved_at_once(stimulus: Stimulus) -> bool:
    """Return whether a stimulus must not be forgotten by an agent that ends before its next save.

    Records are read again, samples come again, scans are asked for again; of an attempt that has
    begun, and of a run that has committed, its ledger knows; what is rehearsed is so again.
    """
    if isinstance(stimulus, RunStarted):
        return stimulus.recovered
    return not isinstance(stimulus, _COMES_AGAIN)


_COMES_AGAIN = RecordArrived | Tick | ResourcesSampled | ScanBegun | RunFinished | RunRehearsed
