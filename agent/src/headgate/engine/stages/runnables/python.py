"""A runnable in Python: a function of the user's, asked outside the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from headgate.engine.protocol.runnables import (
    LARGEST_STATE,
    SHOWN_INCREMENTS,
    HowMany,
    RunnableAnswer,
    RunnableQuestion,
    WaitingFlow,
    WaitingIncrement,
)
from headgate.engine.stages.connector import Portion, Take
from headgate.engine.stages.runnables.runnable import (
    Answered,
    Asks,
    Fails,
    Finding,
    Runnable,
    Waiting,
    Waits,
    listed,
    unread,
)

_STATE: Final = "json"
"""The name under which its state is remembered."""


class PythonRunnable(Runnable):
    """A function is asked whenever something is unread and what it has said does not hold any more.

    What it has said to read holds as long as what it was shown still waits in front, whatever has
    come behind: or else a stage whose inputs never rest would never run. That nothing may run, or a
    failure, holds until anything else waits.
    """

    def __init__(self, entry: str) -> None:
        self.entry = entry
        """``module:function``."""

    def find(self, waiting: Waiting) -> Finding:
        """Return what the function has said to do with what waits, or have it asked."""
        if not unread(waiting.flows):
            names = tuple(waiting.flows)
            return Waits(f"an increment of {listed(names, 'or')}", names)
        question, answered = self._question(waiting), waiting.answered
        if answered is None or not _still_waits(answered.question, question):
            return Asks(question)
        answer = answered.answer
        portions = {} if answer.failure else dict(portions_of(answered.question, answer))
        if portions:
            return Take(portions, {_STATE: answer.state})
        if replace(answered.question, number=question.number) != question:
            return Asks(question)
        if answer.failure:
            return Fails(f"`{self.entry}` {answer.failure}")
        return Waits(
            f"more than waits, of which `{self.entry}` reads nothing", tuple(waiting.flows)
        )

    def _question(self, waiting: Waiting) -> RunnableQuestion:
        frames = waiting.frames(SHOWN_INCREMENTS)
        flows = {
            name: WaitingFlow(
                tuple(WaitingIncrement(f.name, f.index, f.key, f.rows) for f in frames[name]),
                view.waiting,
                view.waiting - view.unread,
            )
            for name, view in waiting.flows.items()
        }
        return RunnableQuestion(0, self.entry, flows, str(waiting.remembered.get(_STATE, "null")))


def _still_waits(asked: RunnableQuestion, now: RunnableQuestion) -> bool:
    """Return whether all that was asked about is as it was, but for what came behind it."""
    return (asked.entry, asked.state, asked.flows.keys()) == (
        now.entry,
        now.state,
        now.flows.keys(),
    ) and all(
        flow.read == now.flows[name].read
        and flow.increments == now.flows[name].increments[: len(flow.increments)]
        for name, flow in asked.flows.items()
    )


def portions_of(
    question: RunnableQuestion, answer: RunnableAnswer
) -> Iterator[tuple[str, Portion]]:
    """Yield what an answer takes, by flow, of what was asked about."""
    for name, flow in question.flows.items():
        start, stop = _span(answer.reads, name, flow)
        removed = stop if answer.removes is None else _span(answer.removes, name, flow)[1]
        if stop > start or removed:
            yield name, Portion(start, stop, removed)


def _span(counts: Mapping[str, HowMany], name: str, flow: WaitingFlow) -> tuple[int, int]:
    match counts.get(name, 0):
        case "all":
            return 0, len(flow.increments)
        case int() as number:
            return 0, number
        case start, stop:
            return start, stop


def heard(question: RunnableQuestion, answer: RunnableAnswer) -> Answered:
    """Return a question as answered: what cannot be done becomes a failure."""
    failure = answer.failure or next(_problems(question, answer), "")
    if failure and failure != answer.failure:
        answer = RunnableAnswer(answer.number, failure=failure)
    return Answered(question, answer)


def _problems(question: RunnableQuestion, answer: RunnableAnswer) -> Iterator[str]:
    """Yield, in words that follow the function's name, what is wrong with an answer.

    Each expects that those before it have found nothing.
    """
    size = len(answer.state.encode())
    if size > LARGEST_STATE:
        yield (
            f"returned a state of {size} bytes, of {LARGEST_STATE} at most: each checkpoint has "
            "it; keep what is large in the state of the stage"
        )
    removes = answer.removes or {}
    for name in sorted({*answer.reads, *removes} - question.flows.keys()):
        yield f"names `{name}`, which is no input flow; there are {listed(tuple(question.flows))}"
    for name, count in removes.items():
        if isinstance(count, tuple):
            yield f"removes {list(count)} of `{name}`: only the oldest can be removed, a number"
    for name, flow in question.flows.items():
        for verb, counts in (("reads", answer.reads), ("removes", removes)):
            start, stop = _span(counts, name, flow)
            if not 0 <= start <= stop:
                yield f"{verb} {counts[name]!r} of `{name}`, which is no number of increments"
            if stop > len(flow.increments):
                yield (
                    f"{verb} {stop} increments of `{name}`, of which {len(flow.increments)} are "
                    "there"
                )
        start = _span(answer.reads, name, flow)[0]
        if start > max(flow.read, _span(removes, name, flow)[1]):
            yield (
                f"reads `{name}` from {start} on, and those before were neither read before nor "
                "are removed by name"
            )
    portions = dict(portions_of(question, answer))
    flows = question.flows
    if portions and all(max(p.stop, p.removed) <= flows[n].read for n, p in portions.items()):
        yield "reads only what was read before, which would go on for ever"
