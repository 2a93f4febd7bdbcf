"""Stages: any trigger says when one runs, its runnable says what is read (BIPS, section 2.6)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from msgspec.structs import replace

from headgate.engine.connectors.connector import Take
from headgate.engine.spec.conditions import ConditionResult, GroupResult, TriggerResult
from headgate.engine.spec.dataflow import ActionSpec, Bound, Evaluation
from headgate.engine.triggers.policy import (
    Inputs,
    Limits,
    Moment,
    Needs,
    Nothing,
    PolicyReport,
    Response,
    RunNow,
    TriggerPolicy,
    Verdict,
    Wave,
)
from headgate.engine.triggers.runnables.runnable import Runnable, Waits, listed


class WheneverRunnable(TriggerPolicy):
    """Of a stage with no predecessors, bounds or trigger: it may run at any time."""

    kind: ClassVar[str] = "runnable"

    def __init__(self, spec: ActionSpec) -> None:
        self.needs = Needs(moments=spec.evaluation or Evaluation())

    def judge(self, inputs: Inputs, now: float) -> Verdict:  # noqa: ARG002 -- the interface
        """Return ``RunNow``."""
        return RunNow(_ANY_TIME)


_ANY_TIME = TriggerResult(reached=True, words="it may run at any time")


class StagePolicy(TriggerPolicy):
    """Runs when the trigger of the stage says so, and its runnable finds what to read.

    To the trigger it makes no difference: what it needs, hears, saves and asks passes through.
    """

    def __init__(self, trigger: TriggerPolicy, runnable: Runnable, *, fed: bool) -> None:
        self._trigger = trigger
        self._runnable = runnable
        self._fed = fed
        """Whether the stage has input flows; if not, and no other trigger, it has to be asked."""
        self.needs = trigger.needs
        self.blocking = trigger.blocking
        self.adjustable: tuple[Bound, ...] = trigger.adjustable

    @property
    def kind(self) -> str:
        """That of the trigger."""
        return self._trigger.kind

    @property
    def trigger(self) -> TriggerPolicy:
        """What says when."""
        return self._trigger

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        """Return what the trigger says; but what it runs for has to be there."""
        verdict = self._trigger.judge(inputs, now)
        take = self._answer(inputs)
        result = self._together(verdict.result, inputs, take)
        if not isinstance(verdict, RunNow):
            return replace(verdict, result=result)
        if isinstance(take, Waits):
            return Nothing(result)
        return replace(verdict, result=result, take=take)

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:
        """Return how far both are."""
        return self._together(self._trigger.explain(inputs, now), inputs, self._answer(inputs))

    def needs_more(self, inputs: Inputs) -> Collection[str]:
        """Return what the runnable waits for."""
        answer = self._answer(inputs)
        return answer.flows if isinstance(answer, Waits) else ()

    def take(self, inputs: Inputs) -> Take:
        """Return what the runnable finds; nothing where it finds that it cannot run."""
        answer = self._answer(inputs)
        return Take(state=inputs.remembered) if isinstance(answer, Waits) else answer

    def _answer(self, inputs: Inputs) -> Take | Waits:
        if not self._fed and isinstance(self._trigger, WheneverRunnable):
            return Waits(
                "somebody to ask for it: it has no input flows, bounds or predecessors", ()
            )
        return self._runnable.judge(inputs.flows, inputs.remembered)

    def _together(
        self, result: ConditionResult, inputs: Inputs, answer: Take | Waits
    ) -> ConditionResult:
        if not self._fed and not isinstance(self._trigger, WheneverRunnable):
            return result
        flows = _flow_result(inputs, answer)
        if isinstance(self._trigger, WheneverRunnable):
            return flows
        return GroupResult("and", 2, result.reached and flows.reached, (result, flows))

    def _of_trigger(self, result: ConditionResult) -> ConditionResult:
        """Return the trigger's part of a result that was put together."""
        if not self._fed or isinstance(self._trigger, WheneverRunnable):
            return result
        return result.parts[0] if isinstance(result, GroupResult) else result

    # -- what passes through

    def stays_idle(self, inputs: Inputs, now: float, wait_until: float | None) -> bool:
        """Return what the trigger says."""
        return self._trigger.stays_idle(inputs, now, wait_until)

    def report(self) -> PolicyReport | None:
        """Return what the trigger says."""
        return self._trigger.report()

    def versions(self) -> Mapping[str, str]:
        """Return what the trigger says."""
        return self._trigger.versions()

    def times(self, inputs: Inputs) -> Sequence[float]:
        """Return what the trigger says."""
        return self._trigger.times(inputs)

    def holding(self, inputs: Inputs) -> tuple[str, ...]:
        """Return what the trigger says."""
        return self._trigger.holding(inputs)

    def held_by(self, result: ConditionResult) -> tuple[str, ...]:
        """Return what the trigger says of its part of the result."""
        return self._trigger.held_by(self._of_trigger(result))

    def adjust(self, limits: Limits) -> None:
        """Have the trigger take other limits."""
        self._trigger.adjust(limits)

    def begun(self) -> Sequence[Response]:
        """Have the trigger hear it."""
        return self._trigger.begun()

    def launched(self, inputs: Moment) -> Sequence[Response]:
        """Have the trigger hear it."""
        return self._trigger.launched(inputs)

    def committed(self, inputs: Moment) -> Sequence[Response]:
        """Have the trigger hear it."""
        return self._trigger.committed(inputs)

    def failed(self, inputs: Moment) -> Sequence[Response]:
        """Have the trigger hear it."""
        return self._trigger.failed(inputs)

    def wave_ended(self, wave: Wave, inputs: Moment) -> Sequence[Response]:
        """Have the trigger hear it."""
        return self._trigger.wave_ended(wave, inputs)

    def answered(self, answer: bytes | None, reason: str, inputs: Moment) -> Sequence[Response]:
        """Have the trigger hear it."""
        return self._trigger.answered(answer, reason, inputs)

    def save(self) -> bytes:
        """Return what the trigger keeps."""
        return self._trigger.save()

    def load(self, saved: bytes) -> None:
        """Have the trigger go on."""
        self._trigger.load(saved)


def _flow_result(inputs: Inputs, answer: Take | Waits) -> TriggerResult:
    unread: dict[str, float | str | None] = {n: v.unread for n, v in inputs.flows.items()}
    if isinstance(answer, Waits):
        words = f"{answer.words} is waited for"
        return TriggerResult(reached=False, words=words, missing=answer.words, data=unread)
    words = f"an increment of {listed(answer.reads)} waits" if answer.reads else "nothing is read"
    return TriggerResult(reached=True, words=words, data=unread)
