"""Stages: any trigger says when one runs, its runnable says what is read (BIPS, section 2.6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import ClassVar

from msgspec.structs import replace

from headgate.engine.protocol.runnables import RunnableQuestion
from headgate.engine.spec.conditions import ConditionResult, GroupResult, TriggerResult
from headgate.engine.spec.dataflow import ActionSpec, Evaluation
from headgate.engine.stages.connector import Take
from headgate.engine.stages.runnables.runnable import (
    Asks,
    Fails,
    Finding,
    Runnable,
    Waits,
    listed,
)
from headgate.engine.stages.stage import Stage
from headgate.engine.triggers.policy import (
    Heard,
    Inputs,
    Moment,
    Needs,
    Nothing,
    Response,
    RunNow,
    TriggerPolicy,
    Verdict,
)


class WheneverRunnable(TriggerPolicy):
    """Of a stage with no predecessors, bounds or trigger: it may run at any time."""

    kind: ClassVar[str] = "runnable"

    def __init__(self, spec: ActionSpec) -> None:
        self.needs = Needs(moments=spec.evaluation or Evaluation())

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:  # noqa: ARG002 -- the interface
        """Return that it is reached."""
        return _ANY_TIME


_ANY_TIME = TriggerResult(reached=True, words="it may run at any time")


class TakesIncrements(ABC):
    """A facet of trigger policies: it decides which increments a run takes of the input flows."""

    @property
    @abstractmethod
    def stage(self) -> Stage:
        """The flows of the action, on which it decides."""

    @property
    @abstractmethod
    def trigger(self) -> TriggerPolicy:
        """The policy that says when, whose other facets are those of the action."""

    @abstractmethod
    def needs_more(self) -> Collection[str]:
        """Return the input flows of which more must come before the action can run."""

    @abstractmethod
    def take(self) -> Take | RunnableQuestion:
        """Return which increments a run reads and removes, or what has to be answered first."""


def trigger_of(policy: TriggerPolicy) -> TriggerPolicy:
    """Return what says when an action runs, with all facets: its policy, or its trigger's."""
    return policy.trigger if isinstance(policy, TakesIncrements) else policy


class StagePolicy(TriggerPolicy, TakesIncrements):
    """Runs when the trigger of the stage says so, and its runnable finds what to read.

    To the trigger it makes no difference: what it needs, hears, saves and asks passes through, and
    the engine asks itself for its facets.
    """

    def __init__(self, trigger: TriggerPolicy, runnable: Runnable, stage: Stage) -> None:
        self._trigger = trigger
        self._runnable = runnable
        self._stage = stage
        self._fed = bool(stage.spec.inputs)
        """False if it has no input flows; with no other trigger it then has to be asked for."""
        self.needs = trigger.needs

    @property
    def kind(self) -> str:
        """That of the trigger."""
        return self._trigger.kind

    @property
    def stage(self) -> Stage:
        """The flows of the action."""
        return self._stage

    @property
    def trigger(self) -> TriggerPolicy:
        """What says when."""
        return self._trigger

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        """Return what the trigger says; but what it runs for has to be there.

        ``RunNow`` also where the runnable has to be asked first: then ``take`` is the question.
        """
        verdict = self._trigger.judge(inputs, now)
        found = self._find()
        result = self._together(verdict.result, found)
        if isinstance(verdict, RunNow) and not isinstance(found, Take | Asks):
            return Nothing(result)
        return replace(verdict, result=result)

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:
        """Return how far both are."""
        return self._together(self._trigger.explain(inputs, now), self._find())

    def needs_more(self) -> Collection[str]:
        """Return what the runnable waits for."""
        found = self._find()
        return found.flows if isinstance(found, Waits) else ()

    def take(self) -> Take | RunnableQuestion:
        """Return what the runnable finds; nothing where it finds that it cannot run."""
        match self._find():
            case Take() as take:
                return take
            case Asks(question):
                return question
            case _:
                return Take(state=self._stage.remembered)

    def _find(self) -> Finding:
        if not self._fed and isinstance(self._trigger, WheneverRunnable):
            return Waits(
                "somebody to ask for it: it has no input flows, bounds or predecessors", ()
            )
        return self._runnable.find(self._stage)

    def _together(self, result: ConditionResult, found: Finding) -> ConditionResult:
        if not self._fed and not isinstance(self._trigger, WheneverRunnable):
            return result
        flows = _flow_result(self._stage, found)
        if isinstance(self._trigger, WheneverRunnable):
            return flows
        return GroupResult("and", 2, result.reached and flows.reached, (result, flows))

    # -- what passes through

    def heard(self, event: Heard, inputs: Moment) -> Sequence[Response]:
        """Have the trigger hear it."""
        return self._trigger.heard(event, inputs)

    def save(self) -> bytes:
        """Return what the trigger keeps."""
        return self._trigger.save()

    def load(self, saved: bytes) -> None:
        """Have the trigger go on."""
        self._trigger.load(saved)


def _flow_result(stage: Stage, found: Finding) -> TriggerResult:
    unread: dict[str, float | str | None] = {n: v.unread for n, v in stage.flows.items()}
    match found:
        case Waits(needed):
            words = f"{needed} is waited for"
            return TriggerResult(reached=False, words=words, missing=needed, data=unread)
        case Fails(words):
            missing = f"a runnable that says what is read: {words}"
            return TriggerResult(reached=False, words=words, missing=missing, data=unread)
        case Asks(question):
            # It counts as due: those that it holds, or that hold it, are not to wait for a word.
            words = f"`{question.entry}` is to say what is read"
            return TriggerResult(reached=True, words=words, data=unread)
        case Take() as take:
            return TriggerResult(reached=True, words=_taken_words(take), data=unread)


def _taken_words(take: Take) -> str:
    reads = take.reads
    if all(take.portions[name].stop == 1 for name in reads):
        return f"an increment of {listed(reads)} waits" if reads else "nothing is read"
    portions = (f"{(one := take.portions[name]).stop - one.start} of `{name}`" for name in reads)
    return f"increments wait: {', '.join(portions)}"
