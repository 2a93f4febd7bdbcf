"""Random dataflows, bounds, updates and waves of updates."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal

from hypothesis import strategies as st

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    BoundReached,
    Codec,
    CodecName,
    Condition,
    Count,
    DataflowSpec,
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

EDGES = [2**63 - 1, -(2**63), 10**308, -(10**308)]
"""What a type's least and largest values are, where somebody writes them by mistake."""
CLOSE: list[int | Decimal] = [
    *(2**53, 2**53 + 1, -(2**53) - 1, 1_700_000_000_000_000_000, 1_700_000_000_000_000_001),
    *(Decimal("0.1"), Decimal("0.10000000000000000001"), Decimal("3.14159265358979323846264338")),
]
"""Numbers of which several are one and the same double: identifiers, nanoseconds, decimals."""
Number = int | Decimal
ROWS = [b"r%d" % i for i in range(7)]
COLUMNS = [b"f:a", b"f:b", b"g:a"]
TABLES = {"in": "t-in", "one": "t-one", "two": "t-two"}
CONTAINERS = {
    "whole": lambda table: (Item(table),),
    "family": lambda table: (Item(table, b"f"),),
    "column": lambda table: (Item(table, b"f", b"a"),),
    "range": lambda table: (Item(table, b"f", None, b"r2", b"r5"),),
    "columns": lambda table: (Item(table, b"f", b"a"), Item(table, b"g", b"a")),
    "tables": lambda table: (Item(table, b"f", b"a"), Item("t-in", b"f", b"b")),
}


@dataclass(frozen=True)
class Update:
    """One cell of one request; ``request`` tells requests apart."""

    request: int
    writer: str | None
    table: str
    row: bytes
    column: bytes
    value: Number | None


@st.composite
def bounds(draw: st.DrawFn, name: str, container: str, codec: CodecName) -> Bound:
    sequence = value = None
    limit: float
    kinds = draw(st.sampled_from(["sequence", "value", "both"]))
    if kinds != "value":
        unit = draw(st.sampled_from(SequenceUnit))
        limit = draw(st.sampled_from([1, 2, 5, 9] if unit == "updates" else [15, 50, 100, 160]))
        sequence = SequenceBound(float(limit), unit, draw(st.booleans()))
    if kinds != "sequence":
        metric = draw(st.sampled_from([*[Metric.CHANGED] * 4, *Metric]))
        if codec is CodecName.OPAQUE:
            metric = Metric.CHANGED
        limit = draw(st.sampled_from([0.2, 0.5, 1.0] if metric != "absolute" else [1.0, 4.0]))
        constant = 5.0 if metric is Metric.AGAINST else None
        value = ValueBound(metric, limit, constant)
    return Bound(name, ContainerId(container), None, sequence, value)


def conditions(names: list[str]) -> st.SearchStrategy[Condition | None]:
    expression = BoundReached(names[0]) | BoundReached(names[-1]) & BoundReached(
        names[len(names) // 2]
    )
    return st.sampled_from([None, all_of(names), at_least_one(names), majority(names), expression])


@st.composite
def dataflows(draw: st.DrawFn) -> DataflowSpec:
    watched = {}
    for table in TABLES.values():
        for shape, items in CONTAINERS.items():
            name = f"{table}/{shape}"
            codec = Codec(draw(st.sampled_from([CodecName.UTF8, CodecName.UTF8, CodecName.OPAQUE])))
            count = draw(st.sampled_from(Count))
            container = Container(ContainerId(name), items(table))
            watched[name] = WatchedContainer(container, codec, count)
    actions = [ActionSpec("in", ActionRole.INPUT, writes=(ContainerId("t-in/whole"),))]
    after = {"one": ("in",), "two": draw(st.sampled_from([("one",), ("in",), ("in", "one")]))}
    after["three"] = draw(st.sampled_from([("one", "two"), ("two",), ("in", "two")]))
    for name, before in after.items():
        number = draw(st.sampled_from([0, 1, 2, 3]))
        made = []
        for i in range(number):
            table = TABLES[draw(st.sampled_from(before))]
            place = f"{table}/{draw(st.sampled_from(sorted(CONTAINERS)))}"
            made.append(draw(bounds(f"k{i}", place, watched[place].codec.name)))
        condition = draw(conditions([b.name for b in made])) if made else None
        actions.append(
            ActionSpec(
                name,
                after=before,
                bounds=tuple(made),
                condition=condition,
                own=draw(st.booleans()),
                retry=RetryPolicy(attempts=2, first=1.0, maximum=1.0),
            )
        )
    used = {b.container for a in actions for b in a.bounds} | {ContainerId("t-in/whole")}
    containers = tuple(watched[name] for name in sorted(used))
    return DataflowSpec("flow", containers, tuple(actions))


def _waves(numbers: st.SearchStrategy[Number]) -> st.SearchStrategy[list[list[Request]]]:
    cells = st.dictionaries(
        st.tuples(st.sampled_from(ROWS), st.sampled_from(COLUMNS)),
        st.one_of(st.none(), numbers, numbers),
        min_size=1,
        max_size=8,
    )
    requests = st.tuples(st.sampled_from(["t-in", "t-in", "t-one", "t-two"]), cells)
    first_wave = st.tuples(st.just("t-in"), cells).map(lambda request: [request])
    return st.tuples(first_wave, st.lists(st.lists(requests, max_size=4), max_size=6)).map(
        lambda parts: [parts[0], *parts[1]]
    )


Request = tuple[str, dict[tuple[bytes, bytes], Number | None]]
waves = st.one_of(
    _waves(st.one_of(st.integers(0, 5), st.integers(0, 5), st.sampled_from(EDGES + CLOSE))),
    _waves(st.sampled_from(CLOSE)),
    _waves(st.sampled_from(CLOSE[:2])),
)
chances = st.integers(0, 2**32).map(random.Random)
