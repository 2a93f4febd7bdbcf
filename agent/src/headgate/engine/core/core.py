"""What all parts of an engine work on: state, instructions, clocks and policies."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.actions.action import Action, ActionMoment
from headgate.engine.actions.state import EngineState
from headgate.engine.core.clocks import Clocks
from headgate.engine.core.output import Output
from headgate.engine.protocol.instructions import Consult, DecisionKind
from headgate.engine.protocol.runnables import (
    PYTHON_RUNNABLE,
    RunnableQuestion,
    encode_runnable,
)
from headgate.engine.triggers.policy import Adopted, Ask, AskAgain, Heard, Response


class Policies:
    """The policies of a dataflow's actions."""

    def __init__(self, state: EngineState, output: Output, clocks: Clocks) -> None:
        self._state = state
        self._output = output
        self._clocks = clocks
        self.to_ask: dict[str, str] = {}
        """Actions that policies want evaluated, and what was awaited."""

    def take_actions_to_ask(self) -> dict[str, str]:
        """Return ``to_ask``, and have it empty."""
        found, self.to_ask = self.to_ask, {}
        return found

    def all_hear(self, event: Heard) -> None:
        """Have all hear of an event, successors first."""
        for action in reversed(self._state.actions.values()):
            self.hear(action, event)

    def hear(self, action: Action, event: Heard) -> None:
        """Have one hear of an event, and do what it wants done about it."""
        self._respond(action, action.policy.heard(event, self._moment(action)))

    def ask(self, action: Action, question: bytes) -> None:
        """Have a question of a policy answered outside the engine."""
        self._output.add(Consult(action.name, action.policy.kind, question))

    def ask_runnable(self, action: Action, question: RunnableQuestion) -> None:
        """Have a question to the runnable of a stage answered outside the engine."""
        self._output.add(Consult(action.name, PYTHON_RUNNABLE, encode_runnable(question)))

    def _moment(self, action: Action) -> ActionMoment:
        return ActionMoment(action, self._state.now, lambda: self._state.cut)

    def _respond(self, action: Action, responses: Iterable[Response]) -> None:
        for response in responses:
            if isinstance(response, Ask):
                self.ask(action, response.question)
            elif isinstance(response, AskAgain):
                self.to_ask.setdefault(response.action, response.words)
            elif isinstance(response, Adopted):
                kind, versions = DecisionKind.ADOPTED, response.versions
                self._output.decide(kind, response.words, action, versions=versions)
            else:
                moved = self._state.actions[response.action]
                self._output.decide(DecisionKind.ADJUSTED, response.words, moved)
                self._clocks.set(moved)


class Core:
    """One engine's state, and what reads and changes all of it.

    Attributes:
        state: everything that a snapshot saves.
        output: instructions that are not returned yet.
        clocks: when each action is to be looked at.
        policies: the trigger policies of the actions.
    """

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.output = Output(state)
        self.clocks = Clocks(state)
        self.policies = Policies(state, self.output, self.clocks)
