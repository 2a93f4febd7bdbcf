"""Dataflows of every kind, and edits of them, by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec.structs import replace

from headgate.engine import (
    ActionRole,
    ActionSpec,
    AdjustmentSpec,
    Bound,
    BoundReached,
    Codec,
    CodecName,
    Condition,
    Count,
    DataflowSpec,
    Evaluation,
    FirstChanges,
    Interval,
    Limit,
    Metric,
    RetryPolicy,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    WatchedContainer,
    all_of,
    at_least_one,
    majority,
)
from headgate.events import Container, ContainerId, Item

NAME = "flow"
INPUTS = ("t", "u")
"""Tables that are fed from outside."""
OUTPUT = "v"
"""The table that steps write."""
TABLES = (*INPUTS, OUTPUT)
FAMILIES = (b"f:", b"g:")
COLUMNS = (b"f:a", b"f:b", b"g:a")
ROWS = tuple(b"r%02d" % n for n in range(24))
SHAPES = {
    "whole": (Item("t"),),
    "family": (Item("t", b"f"),),
    "column": (Item("t", b"f", b"a"),),
    "range": (Item("t", b"f", None, ROWS[4], ROWS[15]),),
    "columns": (Item("t", b"f", b"a"), Item("t", b"g", b"a")),
    "tables": (Item("t", b"g"), Item("u", b"f")),
    "other": (Item("u"),),
    "output": (Item(OUTPUT),),
}
CODECS = (CodecName.UTF8, CodecName.UTF8, CodecName.INT64, CodecName.FLOAT64, CodecName.JSON)
RARE_CODECS = tuple(name for name in CodecName if name not in CODECS)


def dataflow(chance: random.Random) -> DataflowSpec:
    """Return a dataflow with an input and one to three steps."""
    codec = Codec(chance.choice((*CODECS, chance.choice(RARE_CODECS))), "v")
    watched = [
        WatchedContainer(Container(ContainerId(name), items), codec, chance.choice(list(Count)))
        for name, items in SHAPES.items()
    ]
    fed = tuple(ContainerId(name) for name in SHAPES if name != "output")
    actions = [ActionSpec("feed", ActionRole.INPUT, writes=fed)]
    for number in range(chance.randint(1, 3)):
        actions.append(_step(chance, f"step-{number}", [a.name for a in actions], codec.name))
    feeders = ("collector",) if chance.random() < 0.2 else None
    every = chance.choice((5.0, 40.0))
    return DataflowSpec(
        NAME,
        tuple(watched),
        tuple(actions),
        AdjustmentSpec(every=every, window=40.0, confirmations=1, reversal=1.0, steps=4),
        feeders=feeders,
        keeps_keys=chance.random() < 0.2,
    )


def edited(spec: DataflowSpec, chance: random.Random) -> DataflowSpec:
    """Return the dataflow with other bounds of some steps, or another way to count."""
    actions = list(spec.actions)
    codec = spec.containers[0].codec
    for place, action in enumerate(actions):
        if action.role is ActionRole.STEP and chance.random() < 0.6:
            other = _step(chance, action.name, list(action.after), codec.name)
            actions[place] = replace(other, after=action.after, reads=action.reads)
    containers = spec.containers
    if chance.random() < 0.2:
        containers = tuple(replace(w, count=chance.choice(list(Count))) for w in containers)
    return replace(spec, actions=tuple(actions), containers=containers)


def _step(chance: random.Random, name: str, before: Sequence[str], codec: CodecName) -> ActionSpec:
    places = [c for c in SHAPES if c != "output" or len(before) > 1]
    bounds = tuple(
        _bound(chance, f"k{n}", chance.choice(places), codec) for n in range(chance.randint(1, 3))
    )
    evaluation = Evaluation(write=True)
    if chance.random() < 0.25:
        evaluation = Evaluation(action_end=True, write=chance.random() < 0.5)
    elif chance.random() < 0.2:
        evaluation = Evaluation(every=chance.choice((7.0, 90.0)), write=chance.random() < 0.5)
    return ActionSpec(
        name,
        after=tuple(chance.sample(before, chance.randint(1, min(2, len(before))))),
        reads=tuple(dict.fromkeys(bound.container for bound in bounds)),
        writes=(ContainerId("output"),) if chance.random() < 0.8 else (ContainerId("family"),),
        bounds=bounds,
        condition=_condition(chance, [bound.name for bound in bounds]),
        evaluation=evaluation,
        own=chance.random() < 0.3,
        retry=RetryPolicy(chance.randint(1, 3), 1.0, 8.0),
        first_changes=chance.choice(
            (FirstChanges.SNAPSHOT, FirstChanges.SNAPSHOT, FirstChanges.NONE)
        ),
    )


def _condition(chance: random.Random, names: list[str]) -> Condition | None:
    mixed = BoundReached(names[0]) | BoundReached(names[-1]) & BoundReached(names[len(names) // 2])
    return chance.choice((None, all_of(names), at_least_one(names), majority(names), mixed))


def _bound(chance: random.Random, name: str, container: str, codec: CodecName) -> Bound:
    time = sequence = value = None
    while time is None and sequence is None and value is None:
        if chance.random() < 0.35:
            time = _limit(chance, (5.0, 60.0, 400.0))
        if chance.random() < 0.5:
            percent = chance.random() < 0.5
            unit = SequenceUnit.PERCENT if percent else SequenceUnit.UPDATES
            some = (float(chance.randint(1, 120)),) if percent else (1.0, 3.0, 12.0, 40.0)
            sequence = SequenceBound(_limit(chance, some), unit, chance.random() < 0.4)
        if chance.random() < 0.5:
            value = _value(chance, codec)
    return Bound(name, ContainerId(container), time, sequence, value, chance.random() < 0.3)


def _value(chance: random.Random, codec: CodecName) -> ValueBound:
    metric = chance.choice(list(Metric))
    if codec is CodecName.OPAQUE:
        metric = Metric.CHANGED
    some = (1.0, 40.0, 700.0) if metric is Metric.ABSOLUTE else (0.05, 0.4, 1.5)
    constant = 5.0 if metric is Metric.AGAINST else None
    return ValueBound(metric, _limit(chance, some), constant)


def _limit(chance: random.Random, some: tuple[float, ...]) -> Limit:
    limit = chance.choice(some)
    return (
        Interval(max(1.0, limit / 2) if limit >= 1 else limit / 2, limit * 4)
        if chance.random() < 0.35
        else limit
    )
