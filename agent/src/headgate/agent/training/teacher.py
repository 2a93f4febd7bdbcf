"""Synchronous states of containers, rebuilt from what was recorded: what models are trained on.

SmartFlux, section 3: in training every step runs in every wave. What no step writes is taken as it
is when a wave ends, what a step writes as it is when its run of the wave has finished. Where runs
outlast waves every step runs as often as it can: a wave that ends while a run is under way is left
out, with its updates counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from headgate.agent.training.doubts import Doubts, shows_last_writes
from headgate.agent.training.witness import ContainerState, Witness
from headgate.engine import (
    DataflowSpec,
    DecisionKind,
    Deliveries,
    RecordArrived,
    counted_part,
)
from headgate.events import Gap, TableChange, UpdateBatch, UpdateMessage, updates_topic
from headgate.learning import ContainerHistory, Graph, ServiceWaves, opaque_containers
from headgate.replay import RecordedTables, RecordedUpdate, Recording, ReplayedDecision, Write

_OUTLASTED: Final = "it ended while a run on an earlier wave was under way"


class Wanted(Struct, frozen=True):
    """Which waves are to be taught."""

    last: int
    """The newest that may be among them, by its own number."""
    waves: int
    """How many there should be, one after the other."""
    first: int = 1
    """The oldest that is looked at."""
    since: int = 0
    """Position of the decision before which the dataflow was another."""
    reach: int = 0
    """How many waves lie between two that are taught at most; 0 for any number."""


class LeftOut(Struct, frozen=True):
    """A wave that cannot be learned from, and why."""

    wave: int
    reason: str


class Lesson(Struct, frozen=True, eq=False):
    """The newest stretch of synchronous waves that is long enough, else the longest."""

    waves: tuple[int, ...]
    """Their numbers, rising. Between two of them are only waves that ended while a run of the
    stretch was under way."""
    histories: Mapping[str, ContainerHistory]
    """By container: of the outputs, and of all from which they are predicted."""
    left_out: tuple[LeftOut, ...]
    """Waves that were asked for and are in no stretch."""

    @property
    def words(self) -> str:
        """How many waves are left out and why; empty where none is."""
        reasons = Counter(each.reason for each in self.left_out)
        told = "; ".join(f"{count} for this: {why}" for why, count in reasons.most_common())
        return f"{len(self.left_out)} waves are left out, {told}" if told else ""


def teach_service(
    recording: Recording,
    events: Iterable[RecordedUpdate | ReplayedDecision],
    partitions: Mapping[str, int],
    spec: DataflowSpec,
    graph: Graph,
    outputs: Sequence[str],
    wanted: Wanted,
) -> dict[str, ServiceWaves]:
    """Return the waves in which outputs were made, by output; the arguments are those of ``teach``.

    An output is made by a run of its step before which all steps above it have run on the same
    wave. So it is what it would be if every step ran in every wave, and so is what it was made of.
    """
    teacher = _Teacher(recording, partitions, spec, graph, outputs, wanted)
    for event in events:
        teacher.hear(event)
    return {output: teacher.service(output) for output in outputs}


class _Wave(Struct):
    """What is known of a wave."""

    time: float
    """Its own, in Unix seconds."""
    doubt: str = ""
    """Why it cannot be learned from."""
    states: dict[str, ContainerState] = {}
    updates: dict[str, int] = {}
    """Of sources."""
    ran: set[str] = set()


def teach(
    recording: Recording,
    events: Iterable[RecordedUpdate | ReplayedDecision],
    partitions: Mapping[str, int],
    spec: DataflowSpec,
    graph: Graph,
    outputs: Sequence[str],
    wanted: Wanted,
) -> Lesson:
    """Return the waves that are synchronous for some outputs.

    Args:
        recording: what is known of the dataflow's past.
        events: its updates and decisions, as ``in_order`` yields them.
        partitions: how many each topic has.
        spec: the dataflow.
        graph: of the steps that its learned triggers decide on.
        outputs: those whose writers, with all before them, have to run in a wave.
        wanted: which waves.
    """
    teacher = _Teacher(recording, partitions, spec, graph, outputs, wanted)
    for event in events:
        teacher.hear(event)
    return teacher.lesson()


class _Teacher:
    def __init__(
        self,
        recording: Recording,
        partitions: Mapping[str, int],
        spec: DataflowSpec,
        graph: Graph,
        outputs: Sequence[str],
        wanted: Wanted,
    ) -> None:
        opaque = opaque_containers(spec)
        self._graph = graph
        needed = dict.fromkeys(c for o in outputs for c in (*graph.above(o), o))
        self._containers = [container for container in needed if container not in opaque]
        self._sources = [c for c in self._containers if c in graph.sources]
        self._steps = {
            step: tuple(c for c in self._containers if graph.writers.get(c) == step)
            for output in outputs
            for step in (*graph.ancestors[graph.writers[output]], graph.writers[output])
        }
        self._wanted = wanted
        self._spec = spec
        self._partitions = partitions
        self._all = RecordedTables()
        """With what strangers wrote: scans find that too."""
        self._own = self._all if spec.feeders is None else RecordedTables()
        self._deliveries = Deliveries()
        self._overlaid: set[str] = set()
        """Tables in which an older version of a cell may stand."""
        watched = [each for each in spec.containers if each.id in needed]
        self._doubts = Doubts(watched, self._all)
        self._witness = Witness(
            spec,
            self._containers,
            partitions,
            self._own,
            lambda table: table not in self._overlaid,
        )
        self._heard: dict[tuple[str, int, str], int] = {}
        """By topic, partition and observer, the last wave before its newest message."""
        self._announced: list[str] = []
        """Gaps that the agent has decided on, of records that are still to come or of none."""
        self._waves: dict[int, _Wave] = {}
        self._moment = 0
        """Position of the first decision that is still to come."""
        numbers: list[int] = []
        for place in recording.waves:
            number = recording.decisions[place].wave
            numbers.append(number or (numbers[-1] if numbers else 0) + 1)
        self._numbers = dict(zip(recording.waves, numbers, strict=True))
        self._runs = _Runs(recording, graph, self._steps, numbers)

    # -- what was recorded

    def hear(self, event: RecordedUpdate | ReplayedDecision) -> None:
        """Take the next update or decision."""
        if isinstance(event, RecordedUpdate):
            self._take(event)
            return
        place, self._moment = self._moment, self._moment + 1
        if place == 0:
            self._doubts.raise_on(
                self._overlaid,
                "cells were written with timestamps of their own before the dataflow was submitted",
                uncounted=False,
            )
            self._witness.begin(event.time)
        match event.kind:
            case DecisionKind.WAVE_ENDED:
                self._end_wave(place, event)
            case DecisionKind.FINISHED:
                self._finish(event)
            case DecisionKind.SCANNED:
                self._lose_what_was_announced()
                self._doubts.scanned(event)
                self._own.set_ttls(event.table, event.ttls)
            case DecisionKind.GAP:
                self._announced.append(event.words)
            case _:
                pass

    @property
    def _tables(self) -> tuple[str, ...]:
        return tuple(t for each in self._spec.containers for t in each.container.tables)

    def _lose(self, tables: Iterable[str], words: str) -> None:
        self._doubts.raise_on(tables, words, uncounted=True)

    def _lose_what_was_announced(self) -> None:
        """Doubt all tables for the gaps that no record shows: lost observers, deleted records."""
        for words in self._announced:
            if words not in self._witness.gaps:
                self._lose(self._tables, words)
        self._announced.clear()

    def _take(self, update: RecordedUpdate) -> None:
        begun = self._moment > 0
        if update.message is None:
            words = f"a record of topic {update.topic} could not be decoded"
            self._lose((t for t in self._tables if updates_topic(t) == update.topic), words)
            return
        message = self._unseen(update, update.message)
        if message is not None:
            self._write(update, message)
        if begun:
            self._witness.take(update, update.message)

    def _unseen(self, update: RecordedUpdate, message: UpdateMessage) -> UpdateMessage | None:
        record = RecordArrived(update.time, update.topic, update.partition, update.offset, message)
        if not self._deliveries.first(record):
            return None
        missed = self._deliveries.missed(record)
        source = update.topic, update.partition, message.observer
        if missed and self._moment:
            words = f"{missed} messages of observer {message.observer!r} are missing"
            self._lose((t for t in self._tables if updates_topic(t) == update.topic), words)
            for number, wave in self._waves.items():
                if number > self._heard.get(source, 0):  # it shows only now that they were missing
                    wave.doubt = wave.doubt or words
        self._heard[source] = max(self._waves, default=0)
        return self._deliveries.unseen(record)

    def _write(self, update: RecordedUpdate, message: UpdateMessage) -> None:
        writes: list[Write] = []
        match message:
            case UpdateBatch():
                if not shows_last_writes(message):
                    self._overlaid.add(message.table)
                writes = self._all.apply(message)
                own = counted_part(message, self._spec)
                if self._own is not self._all and own is not None:
                    self._own.apply(own)
            case TableChange():
                place = update.partition, self._partitions[update.topic]
                writes = self._all.change(message, *place)
                if self._own is not self._all:
                    self._own.change(message, *place)
            case Gap():
                self._lose((message.table,), f"an observer let writes pass: {message.reason}")
            case _:
                pass
        self._doubts.written(writes)

    # -- waves

    def _end_wave(self, place: int, decision: ReplayedDecision) -> None:
        self._lose_what_was_announced()
        self._witness.end_wave(decision.time, decision.inputs, self._numbers[place])
        number = self._numbers[place]
        time = decision.time if decision.wave_time is None else decision.wave_time
        wave = self._waves[number] = _Wave(time)
        if not self._asked(number):
            return
        if place < self._wanted.since:
            wave.doubt = "the dataflow was another then"
            return
        for source in self._sources:
            counted = self._witness.updates.get(source)
            if counted is None:
                wave.doubt = wave.doubt or f"nobody counted all updates of `{source}`"
            else:
                wave.updates[source] = counted
            self._look(wave, source)

    def _asked(self, number: int) -> bool:
        return self._wanted.first <= number <= self._wanted.last

    def _finish(self, decision: ReplayedDecision) -> None:
        self._lose_what_was_announced()
        number = self._runs.waves.get(decision.run, 0)
        wave = self._waves.get(number)
        if wave is None or not self._asked(number):
            return
        wave.ran.add(decision.action)
        for container in () if wave.doubt else self._steps[decision.action]:
            self._look(wave, container)

    def _look(self, wave: _Wave, container: str) -> None:
        state = self._witness.state(container)
        words = self._doubts.on(container)
        if words or isinstance(state, str):
            wave.doubt = wave.doubt or words or str(state)
        else:
            wave.states[container] = state

    # -- what comes of it

    def lesson(self) -> Lesson:
        """Return what can be learned from."""
        first = max(self._wanted.first, min(self._waves, default=self._wanted.first))
        reasons = {n: self._reason(n, self._steps) for n in range(first, self._wanted.last + 1)}
        stretches: list[list[int]] = [[]]
        too_far: list[int] = []
        reach = self._wanted.reach
        for number, reason in reasons.items():
            if reason:
                if reason != _OUTLASTED:
                    stretches.append([])
                continue
            last = stretches[-1][-1] if stretches[-1] else number
            if 0 < reach < number - last:
                too_far += range(last + 1, number)
                stretches.append([])
            stretches[-1].append(number)
        words = f"runs take longer than `horizon`, which is {reach} waves: raise it"
        reasons.update(dict.fromkeys(too_far, words))
        long = [each for each in stretches if len(each) >= self._wanted.waves]
        chosen = long[-1] if long else max(reversed(stretches), key=len, default=[])
        chosen = chosen[-self._wanted.waves :]
        left_out = tuple(LeftOut(number, reason) for number, reason in reasons.items() if reason)
        histories = {c: self._history(c, chosen) for c in self._containers} if chosen else {}
        return Lesson(tuple(chosen), histories, left_out)

    def service(self, output: str) -> ServiceWaves:
        """Return the waves in which an output was made."""
        graph = self._graph
        writer = graph.writers[output]
        steps = (*graph.ancestors[writer], writer)
        first = max(self._wanted.first, min(self._waves, default=1))
        asked = range(first, min(self._wanted.last, max(self._waves, default=0)) + 1)
        chosen = [n for n in asked if not self._reason(n, steps)]
        updates = {c: [self._updates(n, c) for n in asked] for c in self._sources}
        unknown = np.zeros(len(asked), np.bool_)
        for each in updates.values():
            unknown |= np.array([count is None for count in each], np.bool_)
        places = np.array([n - asked.start for n in chosen], np.int64)
        containers = [c for c in (*graph.above(output), output) if c in self._containers]
        return ServiceWaves(
            np.array(chosen, np.int64),
            {c: self._history(c, chosen) for c in containers} if chosen else {},
            {
                c: np.cumsum([count or 0 for count in each], dtype=np.int64)[places]
                for c, each in updates.items()
            },
            unknown.cumsum()[places],
        )

    def _updates(self, number: int, source: str) -> int | None:
        wave = self._waves.get(number)
        return None if wave is None else wave.updates.get(source)

    def _reason(self, number: int, steps: Iterable[str]) -> str:
        """Return why a wave cannot be learned from; empty where it can."""
        wave = self._waves.get(number)
        if wave is None:
            return "no end of the wave was recorded"
        idle = [step for step in steps if step not in wave.ran]
        if wave.doubt or not idle:
            return wave.doubt
        if self._runs.outlasted(number, idle):
            return _OUTLASTED
        return f"{' and '.join(f'`{step}`' for step in idle)} did not run"

    def _history(self, container: str, chosen: Sequence[int]) -> ContainerHistory:
        states = [self._waves[number].states[container] for number in chosen]
        known = np.unique(np.concatenate([state.elements for state in states]))
        values = np.zeros((len(states), len(known)))
        for row, state in zip(values, states, strict=True):
            row[np.searchsorted(known, state.elements)] = state.values
        waves = [self._waves[number] for number in chosen]
        numbers = np.array(chosen, np.int64)
        between = range(chosen[0], chosen[-1] + 1)
        updates = [self._updates(number, container) or 0 for number in between]
        return ContainerHistory(
            values,
            np.array([state.count for state in states], np.int64),
            np.array([wave.updates.get(container, 0) for wave in waves], np.int64),
            np.array([wave.time for wave in waves]),
            numbers,
            np.cumsum(updates, dtype=np.int64)[numbers - chosen[0]],
        )


class _Runs:
    """The runs of some steps, and the waves that they were on.

    Args:
        recording: in which they are.
        graph: of the steps, predecessors first.
        steps: whose runs they are.
        numbers: of the waves that have ended, in their order.
    """

    def __init__(
        self, recording: Recording, graph: Graph, steps: Collection[str], numbers: Sequence[int]
    ) -> None:
        self.waves: dict[str, int] = {}
        """Number of the wave that each run was on, by run, where it is known."""
        self._wave_ends = dict(zip(numbers, recording.waves, strict=True))
        """Position of the decision with which each wave ended."""
        self._makers = {
            each.name: {graph.writers[c] for c in each.reads if c in graph.writers} & set(steps)
            for each in graph.steps
            if each.name in steps
        }
        self._others = {step: self._awaited_by(step, graph) for step in self._makers}
        """Steps for whose runs on an earlier wave each step may have to wait."""
        self._ends: dict[str, dict[int, int]] = {}
        """End of the run on each wave, by step and wave; rising."""
        for step, makers in self._makers.items():
            ends = self._ends.setdefault(step, {})
            for run in recording.runs.get(step, ()):
                number = run.on or (numbers[run.wave - 1] if run.wave else 0)
                if not run.on and any(self._made(m, run.launched) != number for m in makers):
                    number = 0  # it was on what the steps before it had made, of whichever wave
                if number:
                    self.waves[run.run] = number
                if number and run.ended is not None:
                    ends[number] = run.ended

    def _awaited_by(self, step: str, graph: Graph) -> set[str]:
        read_with = {
            maker for makers in self._makers.values() if step in makers for maker in makers
        }
        found = {name for maker in read_with for name in (*graph.ancestors[maker], maker)}
        return (found | {step}) & self._makers.keys()

    def _made(self, step: str, moment: int) -> int:
        """Return the wave of the last run of a step that had ended before a moment; 0: none had."""
        return max((n for n, ended in self._ends[step].items() if ended < moment), default=0)

    def outlasted(self, number: int, idle: Collection[str]) -> bool:
        """Return whether steps did not run on a wave as runs on earlier ones were under way."""
        for step in idle:
            if self._makers[step] & set(idle):
                continue
            came = [self._ends[maker][number] for maker in self._makers[step]]
            ready = max((self._wave_ends[number], *came))
            if not any(self._is_at_work(each, number, ready) for each in self._others[step]):
                return False
        return True

    def _is_at_work(self, step: str, number: int, moment: int) -> bool:
        """Return whether a run of a step on a wave before one ended after a moment."""
        ends = self._ends[step]
        before = max((wave for wave in ends if wave < number), default=0)
        return bool(before) and ends[before] > moment
