"""Synchronous states of containers, rebuilt from what was recorded: what models are trained on.

SmartFlux, section 3: in training every step runs in every wave. What no step writes is taken as it
is when a wave ends, what a step writes as it is when its run of the wave has finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

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


class LeftOut(Struct, frozen=True):
    """A wave that cannot be learned from, and why."""

    wave: int
    reason: str


class Lesson(Struct, frozen=True, eq=False):
    """The newest stretch of synchronous waves that is long enough, else the longest."""

    waves: tuple[int, ...]
    """Their numbers, one after the other."""
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
        self._run_waves = {
            run.run: numbers[run.wave - 1]
            for step in self._steps
            for run in recording.runs.get(step, ())
            if run.wave
        }
        """The wave on which each run was launched."""

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
        number = self._run_waves.get(decision.run, 0)
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
        good = [number for number, reason in reasons.items() if not reason]
        stretches = [
            [number for _, number in group]
            for _, group in groupby(enumerate(good), lambda pair: pair[1] - pair[0])
        ]
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
        return f"{' and '.join(f'`{step}`' for step in idle)} did not run"

    def _history(self, container: str, chosen: Sequence[int]) -> ContainerHistory:
        states = [self._waves[number].states[container] for number in chosen]
        known = np.unique(np.concatenate([state.elements for state in states]))
        values = np.zeros((len(states), len(known)))
        for row, state in zip(values, states, strict=True):
            row[np.searchsorted(known, state.elements)] = state.values
        waves = [self._waves[number] for number in chosen]
        return ContainerHistory(
            values,
            np.array([state.count for state in states], np.int64),
            np.array([wave.updates.get(container, 0) for wave in waves], np.int64),
            np.array([wave.time for wave in waves]),
        )
