"""Learned triggers: a step runs when an output below it would be too far from what it should be.

SmartFlux, sections 2 and 3, with two differences that were measured. The error that is bounded is
that of the output against the synchronous dataflow, not that of each step against its own input;
and decisions are taken in stages, each from the freshest container in front of the output. A step
that runs has its stale ancestors run first, so that what is shown is the output of one wave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, assert_never

import msgspec
from msgspec import Struct

from headgate.engine import (
    ActionSpec,
    Adopted,
    Adopts,
    Advice,
    Ask,
    AskAgain,
    ConditionResult,
    ContainerWatch,
    DataflowSpec,
    Detail,
    Evaluation,
    Heard,
    Inputs,
    MetricQuestion,
    Moment,
    Needs,
    NeedsAnswer,
    NeedsReading,
    Nothing,
    Notice,
    PolicyReport,
    Reports,
    Response,
    RunFirst,
    RunNow,
    TriggerPolicy,
    TriggerResult,
    Verdict,
    Wave,
    launch_order,
)
from headgate.events import ContainerId
from headgate.learning.envelope import UnusableModel
from headgate.learning.predictor import Model, decode_model
from headgate.learning.triggers.above import wave_probe
from headgate.learning.triggers.consultation import (
    Lost,
    Measure,
    Measured,
    Models,
    ModelsWanted,
    Question,
    Refit,
    Train,
    decode_answer,
    encode_question,
)
from headgate.learning.triggers.flow import LearnedFlow, StepState
from headgate.learning.triggers.metering import counted_elements, updates_of
from headgate.learning.triggers.outputs import BoundedOutput
from headgate.learning.triggers.settings import LEARNED
from headgate.learning.triggers.wishes import Seen, Wish

Data = dict[str, float | str | None]


class _Look(Struct, frozen=True, eq=False):
    """What is wished of an output, as it is seen from what a step reads."""

    output: BoundedOutput
    seen: Seen
    wish: Wish


class Learned(TriggerPolicy, Reports, Adopts):
    """A step above a bounded output, or the one that writes it."""

    kind: ClassVar[str] = LEARNED

    def __init__(self, spec: ActionSpec, flow: LearnedFlow) -> None:
        self.name = spec.name
        self.state = StepState()
        self._flow = flow
        self._rested = False
        """True once the probes that are not needed rest."""
        self._reads = next(s.reads for s in flow.graph.steps if s.name == spec.name)
        self._writes = tuple(o for o in flow.outputs if flow.graph.writers[o] == spec.name)
        self._sources = tuple(c for c in flow.updates if flow.first_readers[c] == spec.name)
        for output in self._writes:
            self.state.outputs[output] = flow.outputs[output].state
        measured = {c for o in flow.outputs.values() for c in o.above.names}
        self.needs = Needs(
            tuple(
                ContainerWatch(ContainerId(c), Detail.VALUES if c in measured else Detail.COUNTS)
                for c in dict.fromkeys(self._reads)
            ),
            Evaluation(action_end=True),
            tuple(flow.probes_of(spec.name)),
        )

    # -- decisions

    def judge(self, inputs: Inputs, now: float) -> Verdict:  # noqa: ARG002 -- the interface
        """Return ``RunNow`` where an output at or below the step has to be made.

        Other verdicts: ``RunFirst`` where steps before it are of an older wave, ``NeedsReading``
        where values are not known, ``NeedsAnswer`` where users' metrics say what has changed.
        """
        flow, state = self._flow, self.state
        wave = flow.wave_at_hand(self.name)
        if not flow.wave.number or state.version >= wave.number:
            return Nothing(self._nothing_new())
        other = flow.held_by(self.name)
        state.held = other is not None
        if other is not None:
            words = f"`{other}` still runs on wave {state.version}, which this has run on"
            return Nothing(_unreached(words, "its end"))
        if inputs.unsettled and not inputs.unscanned:
            return NeedsReading(_unreached("values are not known", "their values"))
        running = self._running_before(inputs)
        if running:
            words = f"{' and '.join(f'`{name}`' for name in running)} runs on this wave"
            return Nothing(_unreached(words, "its end"))
        asked = self._impact_questions(inputs, wave)
        if asked:
            result = _unreached("users' metrics compute impacts", "their answers")
            return NeedsAnswer(encode_question(Measure(asked)), result)
        looks = self._looks(inputs, wave)
        wish = _together(looks)
        self._go_by(looks, wave)
        if not wish.wanted:
            return Nothing(_result(wish))
        stale = flow.stale_before(self.name, wave.number)
        if stale:
            # Of a wave before the last nothing more can be made: all begins anew on the last.
            stale = flow.stale_before(self.name, flow.wave.number)
            for name in (*stale, self.name):
                flow.members[name].state.demanded = flow.wave.number
            words = f"{wish.words}; {' and '.join(f'`{n}`' for n in stale)} first"
            missing = f"{' and '.join(f'`{n}`' for n in stale)} to run on this wave"
            return RunFirst(stale, _unreached(words, missing, wish.data))
        return RunNow(_result(wish, wave))

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:  # noqa: ARG002 -- the interface
        """Return what it would say, changing nothing."""
        wave = self._flow.wave_at_hand(self.name)
        if not self._flow.wave.number or self.state.version >= wave.number:
            return self._nothing_new()
        return _result(_together(self._looks(inputs, wave)))

    def _nothing_new(self) -> TriggerResult:
        if not self._flow.wave.number:
            return _unreached("no wave has ended", "the end of a wave")
        return _unreached("it has run in this wave", "the next wave")

    def _running_before(self, inputs: Inputs) -> list[str]:
        """Return the predecessors that are at work: at the end of each this one is judged."""
        members = self._flow.members
        known = [name for name in inputs.predecessors if name in members]
        return [name for name in known if members[name].state.running]

    def _seen(self, wave: Wave) -> Iterator[tuple[BoundedOutput, Seen]]:
        """Yield the outputs at and below the step, and from where each is looked at."""
        flow = self._flow
        fresh = tuple(c for c in self._reads if flow.is_fresh(c, wave.number))
        certain = any(flow.is_certain(c, wave.number) for c in fresh)
        for name in flow.below[self.name]:
            at_work = flow.is_at_work(name, wave.number)
            yield flow.outputs[name], Seen(fresh, wave, flow.version(name), certain, at_work)

    def _impact_questions(self, inputs: Inputs, wave: Wave) -> list[MetricQuestion]:
        """Return what users' metrics are to be asked before it can be judged."""
        if self.state.demanded == wave.number:
            return []
        return [
            question
            for output, seen in self._seen(wave)
            for question in output.impact_questions(seen, inputs)
        ]

    def _looks(self, inputs: Inputs, wave: Wave) -> list[_Look]:
        """Return how the outputs at and below the step look; none where it is to run anyway."""
        if self.state.demanded == wave.number:
            return []
        seen_outputs = self._seen(wave)
        return [_Look(output, seen, output.wish(seen, inputs)) for output, seen in seen_outputs]

    def _go_by(self, looks: Sequence[_Look], wave: Wave) -> None:
        """Have outputs judged as they look."""
        flow = self._flow
        for look in looks:
            look.output.judge(look.wish, wave.number)
        certain = any(look.seen.certain for look in looks)
        if certain and any(look.wish.wanted and not look.wish.audited for look in looks):
            for name in (*flow.graph.ancestors[self.name], self.name):
                flow.members[name].state.certain = wave.number

    # -- what it hears

    def heard(self, event: Heard, inputs: Moment) -> Sequence[Response]:
        """Go on: with a wave, a run, or an answer."""
        match event:
            case Notice.BEGUN:
                return self._begun()
            case Notice.LAUNCHED:
                return self._launched(inputs)
            case Notice.COMMITTED:
                return self._committed(inputs)
            case Notice.GIVEN_UP:
                return self._given_up(inputs)
            case Wave():
                return self._wave_ended(event, inputs)
            case Advice():
                answer = event.answer
                return self._unanswered(event.reason) if answer is None else self._answered(answer)
            case _:
                assert_never(event)

    def _begun(self) -> Sequence[Response]:
        """Ask for the models by which the outputs of this step were decided on, and for errors."""
        wanted = {
            name: self._flow.outputs[name].state.model
            for name in self._writes
            if self._flow.outputs[name].state.model and self._flow.outputs[name].model is None
        }
        models = (Ask(encode_question(ModelsWanted(wanted))),) if wanted else ()
        for name in self._writes:
            self._flow.outputs[name].begun()
        return (*models, *_ask_metrics(self._flow.outputs[o].resumed() for o in self._writes))

    def _wave_ended(self, wave: Wave, inputs: Moment) -> Sequence[Response]:
        """Take note of the wave; ask for a model where there was enough to learn from."""
        flow, state = self._flow, self.state
        for name in self._writes:
            flow.outputs[name].wave_over(state.wave, flow)
        if not self._rested:
            self._rested = True
            flow.bases.rest(self.name, inputs)
        for container in self._sources:
            flow.bases.source_changes(container, state.wave, inputs)
        flow.begin(wave)
        state.wave, state.time = flow.wave.number, flow.wave.time
        for container in self._sources:
            probe = wave_probe(container)
            parts = inputs.probe(probe)
            flow.updates[container] = state.updates[container] = updates_of(parts)
            present = counted_elements(parts)
            for counts in (flow.counts, state.counts):
                counts.pop(container, None)
                if present is not None:
                    counts[container] = present
            inputs.reset(probe)
        return tuple(Ask(encode_question(each)) for each in self._questions(flow.wave.number))

    def _questions(self, number: int) -> Iterator[Question]:
        """Yield what models are to be trained or fitted anew, and note that they were asked for."""
        flow = self._flow
        outputs = [flow.outputs[name] for name in self._writes]
        wanted = [output for output in outputs if output.wants_model(number)]
        by_change: dict[int, list[str]] = {}
        for output in wanted:
            output.ask(number)
            by_change.setdefault(flow.first_of_world((output.name,)), []).append(output.name)
        for since, names in by_change.items():
            yield Train(tuple(names), number, flow.settings.waves, since)
        refitted = [output for output in outputs if output.wants_refit(number)]
        for output in refitted:
            output.ask_refit(number)
        if refitted:
            firsts = {output.name: flow.first_of_world((output.name,)) for output in refitted}
            yield Refit({output.name: output.state.model for output in refitted}, number, firsts)

    def _launched(self, inputs: Moment) -> Sequence[Response]:
        """Take note that a run begins, and on which wave."""
        state, wave = self.state, self._flow.wave_at_hand(self.name)
        state.launched, state.launched_time, state.running = wave.number, wave.time, True
        bases = self._flow.bases
        bases.launched(self.name, inputs)
        start = partial(bases.start, self.name, wave=wave.number)
        for name in self._writes:
            self._flow.outputs[name].launched(inputs, wave.number, start)
        return ()

    def _committed(self, inputs: Moment) -> Sequence[Response]:
        """Take what the run has made, and how far it was from what was shown before."""
        state = self.state
        version = state.version = state.launched
        state.version_time, state.running = state.launched_time, False
        self._flow.bases.committed(self.name, inputs)
        outputs = map(self._flow.outputs.__getitem__, self._writes)
        asked = _ask_metrics([output.committed(inputs, version) for output in outputs])
        return (*asked, *self._held())

    def _given_up(self, inputs: Moment) -> Sequence[Response]:
        """Take note that nobody knows what the outputs of the step are of."""
        self.state.running = False
        self._flow.bases.failed(self.name, inputs)
        for name in self._writes:
            self._flow.outputs[name].failed()
        return self._held()

    def _held(self) -> Sequence[Response]:
        """Return which steps may have waited for the end of this one's run."""
        held = (name for name, member in self._flow.members.items() if member.state.held)
        return tuple(AskAgain(name, f"end of `{self.name}`") for name in held)

    def _unanswered(self, reason: str) -> Sequence[Response]:
        """Take note that there are no models, and no amounts by users' metrics."""
        for own in map(self._flow.outputs.__getitem__, self._writes):
            own.state.words = reason
            own.end_training()
            own.state.renewal.awaited = False
        for name in self._flow.below[self.name]:
            self._flow.outputs[name].unanswered(reason)
        return ()

    def _answered(self, answer: bytes) -> Sequence[Response]:
        """Take models, or why there are none, and amounts that users' metrics have computed."""
        found = decode_answer(answer)
        if isinstance(found, Measured):
            for said in found.answers:
                for name in self._flow.below[self.name]:
                    self._flow.outputs[name].measured(said)
            return ()
        outputs = self._flow.outputs
        return [
            adopted
            for name, sent in found.outputs.items()
            if name in outputs
            for adopted in self._taken(outputs[name], sent, found)
        ]

    def _taken(
        self, output: BoundedOutput, sent: bytes | Lost, answer: Models
    ) -> Iterator[Adopted]:
        """Have a model decide, or go on without it; yield which, for whoever replays this.

        Args:
            output: that it is of.
            sent: the model, or why there is none.
            answer: in which it came.
        """
        before, wave = output.state.model, self._flow.wave.number
        instead, first = answer.instead.get(output.name), answer.waves[0]
        found = _decoded(sent)
        if 0 < first < self._flow.first_of_world((output.name,)):
            found = Lost(f"it was learned from wave {first} on, before a change of the world")
        if not isinstance(found, Lost) and (why := output.why_not(found[1])):
            found = Lost(why)
        if instead is not None:
            output.use_refitted(found, instead, wave)
            if output.state.model == before:
                return
        elif isinstance(found, Lost):
            output.lose(found.reason)
            yield Adopted({output.name: ""}, found.reason)
            return
        else:
            output.use(*found, wave)
            output.state.waves = answer.waves if first else output.state.waves
        version = output.state.model
        yield Adopted({output.name: version}, f"model {version} decides on `{output.name}`")

    # -- what people see, and what is kept

    def first_of_world(self, outputs: Sequence[str]) -> int:
        """Return the first wave that models of these outputs may be learned from."""
        return self._flow.first_of_world(outputs)

    @property
    def models(self) -> tuple[str, ...]:
        """Versions of the models by which the outputs are decided on that it writes."""
        return tuple(state.model for state in self.state.outputs.values() if state.model)

    def versions(self) -> Mapping[str, str]:
        """Return the models that decide on the outputs at the step and below, where there are."""
        outputs = self._flow.outputs
        below = (outputs[name] for name in self._flow.below[self.name])
        return {output.name: output.state.model for output in below if output.model is not None}

    def report(self) -> PolicyReport:
        """Return how the outputs at the step and below are decided on; audits of its own only."""
        flow = self._flow
        reports = {
            name: flow.outputs[name].report(flow.wave.number)
            if name in self._writes
            else flow.outputs[name].prediction(flow.wave.number)
            for name in flow.below[self.name]
        }
        words = "\n".join(f"`{name}`: {said.words}." for name, said in reports.items())
        return PolicyReport(words, {name: said.data for name, said in reports.items()})

    def save(self) -> bytes:
        """Return the state of the step and of its outputs."""
        return msgspec.msgpack.encode(self.state)

    def load(self, saved: bytes) -> None:
        """Go on from what was saved; outputs that are bounded no more are left out."""
        self.state = msgspec.msgpack.decode(saved, type=StepState)
        flow = self._flow
        if self.state.wave > flow.wave.number:
            flow.wave = Wave(self.state.wave, self.state.time)
        flow.updates.update({c: n for c, n in self.state.updates.items() if c in flow.updates})
        flow.counts.update({c: n for c, n in self.state.counts.items() if c in flow.updates})
        kept = {}
        for name in self._writes:
            output = flow.outputs[name]
            kept[name] = self.state.outputs.get(name, output.state)
            output.load(kept[name])
        self.state.outputs = kept


def _ask_metrics(questions: Iterable[MetricQuestion | None]) -> Sequence[Response]:
    """Return what users' metrics have to be asked."""
    asked = [question for question in questions if question is not None]
    return (Ask(encode_question(Measure(asked))),) if asked else ()


def _together(looks: Sequence[_Look]) -> Wish:
    """Return whether a step is to run, for which these outputs are looked at."""
    if not looks:
        return Wish(wanted=True, words="a step after it waits for what it makes of this wave")
    wishes = [look.wish for look in looks]
    wanted = [wish for wish in wishes if wish.wanted]
    words = "; ".join(wish.words for wish in wanted or wishes)
    return Wish(bool(wanted), words, (wanted or wishes)[0].data)


def _decoded(said: bytes | Lost) -> tuple[bytes, Model] | Lost:
    if isinstance(said, Lost):
        return said
    try:
        return said, decode_model(said)
    except UnusableModel as error:
        return Lost(str(error))


def _unreached(words: str, missing: str, data: Data | None = None) -> TriggerResult:
    return TriggerResult(reached=False, words=words, missing=missing, data=data or {})


def _result(wish: Wish, launched_on: Wave | None = None) -> TriggerResult:
    missing = "" if wish.wanted else "a wave that changes more"
    data = wish.data if launched_on is None else {**wish.data, "wave": float(launched_on.number)}
    return TriggerResult(wish.wanted, wish.words, missing, data)


def learned(spec: DataflowSpec, actions: Sequence[ActionSpec]) -> Mapping[str, TriggerPolicy]:
    """Return the policies of the actions that a dataflow's bounded outputs decide on.

    Raises:
        SpecificationError: see ``LearnedFlow``.
    """
    flow = LearnedFlow(spec, actions)
    named = {action.name: action for action in actions}
    policies = {
        name: Learned(named[name], flow) for name in launch_order(spec.actions) if name in named
    }
    flow.members.update(policies)
    return policies
