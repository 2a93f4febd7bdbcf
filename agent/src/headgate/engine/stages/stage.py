"""The flows of one stage: what waits for it, what it made, and what its runnable remembers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headgate.engine.protocol.increments import FlowTaken, Increment, Produced
from headgate.engine.protocol.runnables import (
    RunnableAnswer,
    RunnableQuestion,
    decode_runnable_answer,
)
from headgate.engine.protocol.work import Advance, Maintain, Rebuild, RunPurpose, Work
from headgate.engine.spec.stages import ActionFlows, RunnableSpec
from headgate.engine.stages.connector import (
    Connector,
    FlowView,
    Frame,
    Remembered,
    Take,
)
from headgate.engine.stages.runnables.python import heard
from headgate.engine.stages.runnables.runnable import Answered


class StageState(Struct, frozen=True):
    """What is saved of a stage; see ``Stage``."""

    connectors: dict[str, Connector]
    made: dict[str, int]
    remembered: dict[str, int | str]
    runnable: RunnableSpec
    held_since: float | None = None
    wanted: RunPurpose = RunPurpose.ADVANCE
    awaited: tuple[str, ...] = ()
    questions: int = 0
    asked: RunnableQuestion | None = None
    answered: Answered | None = None


class Stage:
    """The flows of an action."""

    __slots__ = (
        "answered",
        "asked",
        "awaited",
        "connectors",
        "held_since",
        "made",
        "questions",
        "remembered",
        "spec",
        "wanted",
    )

    def __init__(self, spec: ActionFlows) -> None:
        self.spec = spec
        self.connectors = {name: Connector(source) for name, source in spec.inputs.items()}
        """By input flow, what waits."""
        self.made = dict.fromkeys(spec.outputs, 0)
        """By output flow, how many increments were ever made: the index of the next."""
        self.remembered: Remembered = {}
        """What its policy remembers from run to run."""
        self.held_since: float | None = None
        """When it was found to be due and held, in Unix seconds."""
        self.wanted = RunPurpose.ADVANCE
        """What its next run is for."""
        self.awaited: frozenset[str] = frozenset()
        """Input flows whose makers are rebuilt before it: nothing else of them is read any more."""
        self.questions = 0
        """How many its runnable was ever asked: the number of the last."""
        self.asked: RunnableQuestion | None = None
        """The question to its runnable that is not answered yet."""
        self.answered: Answered | None = None
        """The last that was answered; None where none was since the last run."""

    @property
    def flows(self) -> dict[str, FlowView]:
        """What waits on each input flow."""
        return {name: connector.view() for name, connector in self.connectors.items()}

    def begin(self, take: Take) -> Advance | Rebuild:
        """Have a run take what its policy wants; return its work."""
        wanted, self.wanted = self.wanted, RunPurpose.ADVANCE
        self.held_since = None
        before = dict(self.remembered)
        taken = self._take(take)
        return Rebuild(taken) if wanted is RunPurpose.REBUILD else Advance(taken, before)

    def maintain(self) -> Maintain:
        """Return the work of a run that only maintains the state."""
        wanted, self.wanted = self.wanted, RunPurpose.ADVANCE
        return Maintain(wholly=wanted is RunPurpose.COMPACT)

    def _take(self, take: Take) -> dict[str, FlowTaken]:
        taken: dict[str, FlowTaken] = {}
        for name, portion in take.portions.items():
            self.connectors[name], taken[name] = self.connectors[name].take(portion)
        self.remembered = dict(take.state)
        self.asked = self.answered = None
        return taken

    def ask(self, question: RunnableQuestion) -> RunnableQuestion:
        """Have an answer to a question to its runnable awaited; return it with its number."""
        self.questions += 1
        self.asked = replace(question, number=self.questions)
        return self.asked

    def answer(self, answer: bytes | None, reason: str) -> bool:
        """Take what its runnable has answered, or why it has not; return whether it was awaited.

        What answers another question than the last one is left aside.
        """
        asked = self.asked
        if asked is None:
            return False
        if answer is None:
            said = RunnableAnswer(asked.number, failure=f"could not be asked: {reason}")
        else:
            try:
                said = decode_runnable_answer(answer)
            except msgspec.MsgspecError as error:
                failure = f"has an answer that cannot be read: {error}"
                said = RunnableAnswer(asked.number, failure=failure)
        if said.number != asked.number:
            return False
        self.asked, self.answered = None, heard(asked, said)
        return True

    @property
    def failure(self) -> str:
        """Why its runnable said nothing of use when it was asked last, with a traceback."""
        if self.answered is None or not self.answered.answer.failure:
            return ""
        words = f"`{self.answered.question.entry}` {self.answered.answer.failure}"
        return "\n".join(filter(None, (words, self.answered.answer.traceback)))

    def frames(self, most: int) -> dict[str, tuple[Frame, ...]]:
        """Return by input flow the oldest increments that wait, no more than so many."""
        return {name: connector.frames(most) for name, connector in self.connectors.items()}

    def rebuild(self, awaited: Iterable[str]) -> None:
        """Have the next run begin with nothing, once all of these flows have come anew."""
        self.wanted = RunPurpose.REBUILD
        self.awaited = frozenset(awaited)
        self.asked = self.answered = None
        self.remembered = {}
        for name in self.awaited:
            self.connectors[name] = Connector(self.connectors[name].source)

    def everything(self) -> Take:
        """Return what a run takes that begins with nothing: of each flow the oldest frame."""
        return Take.oldest((name for name, view in self.flows.items() if view.waiting), {})

    def deliver(self, name: str, increments: Iterable[Increment], purpose: RunPurpose) -> None:
        """Queue what a run has made; nothing where another run will make all of it anew."""
        if name not in self.awaited:
            self.connectors[name] = self.connectors[name].enqueue(increments)
        elif purpose is RunPurpose.REBUILD:
            self.connectors[name] = Connector(self.connectors[name].source).enqueue(increments)
            self.awaited -= {name}

    def give_back(self, work: Work) -> None:
        """Put back what a run took that has come to nothing, and what was remembered before.

        Nothing is put back while the state is to be made anew: then all increments come again.
        """
        if self.wanted is RunPurpose.REBUILD:
            return
        for name, part in work.taken.items():
            if name in self.connectors:
                self.connectors[name] = self.connectors[name].restore(part)
        match work:
            case Advance(remembered_before=before):
                self.remembered = before
            case Rebuild():
                self.wanted, self.remembered = RunPurpose.REBUILD, {}

    def number(self, produced: Iterable[Produced]) -> dict[str, list[Increment]]:
        """Return what a run has made, by output flow, numbered on from what was made before.

        What it has made for flows that it does not have any more is left out.
        """
        made: dict[str, list[Increment]] = {}
        for one in produced:
            index = self.made.get(one.flow)
            if index is not None:
                self.made[one.flow] = index + 1
                increment = Increment(one.name, index, one.rows, one.key)
                made.setdefault(one.flow, []).append(increment)
        return made

    def save(self) -> StageState:
        """Return what a stage needs to go on."""
        return StageState(
            dict(self.connectors),
            dict(self.made),
            dict(self.remembered),
            self.spec.runnable,
            self.held_since,
            self.wanted,
            tuple(sorted(self.awaited)),
            self.questions,
            self.asked,
            self.answered,
        )

    def load(self, saved: StageState) -> None:
        """Go on from what was saved, as far as flows and runnable are still the same."""
        same = {
            name: connector
            for name, connector in saved.connectors.items()
            if name in self.connectors and self.connectors[name].source == connector.source
        }
        self.connectors |= same
        self.made |= {name: made for name, made in saved.made.items() if name in self.made}
        if saved.runnable == self.spec.runnable:
            self.remembered = saved.remembered
            self.asked, self.answered = saved.asked, saved.answered
        self.questions = saved.questions
        self.held_since = saved.held_since
        self.wanted = saved.wanted
        self.awaited = frozenset(saved.awaited) & same.keys()
