"""What trigger policies ask: carried to who works it out, and the answer back to the engine."""

from __future__ import annotations

from collections.abc import Callable

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.state import RuntimePort
from headgate.engine import Consult, Consulted


class Consultations:
    """Carries questions and answers."""

    def __init__(self, port: RuntimePort, context: RuntimeContext) -> None:
        self._port = port
        self._context = context

    def ask(self, consult: Consult) -> None:
        """Have a question worked out; the engine hears of it in any case, later."""
        answer = self.answers(consult.action, consult.kind)
        adviser = self._context.advisers.get(consult.kind)
        if adviser is None:
            answer(None, f"nobody answers what a trigger {consult.kind!r} asks")
            return
        try:
            adviser.answer(consult.question, answer)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the engine waits for an answer
            answer(None, f"{type(error).__name__}: {error}")

    def answers(self, action: str, kind: str) -> Callable[[bytes | None, str], None]:
        """Return where the answer to an action's trigger goes, from any thread.

        Its arguments are the answer, None where there is none, and the reason why.
        """

        def answer(found: bytes | None, reason: str) -> None:
            self._context.post(lambda now: self._answer(action, kind, found, reason, now))

        return answer

    def _answer(self, action: str, kind: str, found: bytes | None, reason: str, now: float) -> None:
        self._port.handle(Consulted(now, action, kind, found, reason))
        self._port.settle()
