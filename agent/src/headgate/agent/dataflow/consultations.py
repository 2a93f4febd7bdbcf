"""What trigger policies ask: carried to who works it out, and the answer back to the engine."""

from __future__ import annotations

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.state import RuntimePort
from headgate.engine import Consult, Consulted


class Consultations:
    """Carries questions and answers; it knows what none of them means."""

    def __init__(self, port: RuntimePort, context: RuntimeContext) -> None:
        self._port = port
        self._context = context

    def ask(self, consult: Consult) -> None:
        """Have a question worked out; the engine hears of it in any case, later."""

        def answer(found: bytes | None, reason: str) -> None:
            self._context.post(lambda now: answered(found, reason, now))

        def answered(found: bytes | None, reason: str, now: float) -> None:
            self._port.handle(Consulted(now, consult.action, consult.kind, found, reason))
            self._port.settle()

        adviser = self._context.advisers.get(consult.kind)
        if adviser is None:
            answer(None, f"nobody answers what a trigger {consult.kind!r} asks")
            return
        try:
            adviser.answer(consult.question, answer)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the engine waits for an answer
            answer(None, f"{type(error).__name__}: {error}")
