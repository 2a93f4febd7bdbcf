"""A put of a known kind is decided unread as it is decided after being read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scene import put

from headgate.events import Container, ContainerId, Gate, Item, Origin
from headgate.hbase import Dialect, Request, Write, read_request
from headgate.observer.sessions.write_rules import (
    FORWARD,
    Facts,
    Forward,
    JournalAndForward,
    judge,
    judge_known,
)
from headgate.wire import MessageReader

ORIGIN = Origin("flow", "step", "run-7", 3)
CONTAINER = Container(ContainerId("c"), (Item("t"),))
GATE = Gate(2, "flow", "step", "kappa", (CONTAINER,), 1000.0, 1)


@dataclass
class Control:
    watched: bool
    fence: int | None

    def is_watched(self, table: str) -> bool:
        return self.watched

    def fence_above(self, origin: Origin) -> int | None:
        return self.fence


@dataclass
class Gates:
    holds: bool
    closed: dict[str, tuple[Gate, ...]] = field(default_factory=dict)

    def in_the_way(self, write: Write, writers: Iterable[Origin | None]) -> Gate | None:
        return GATE if self.closed and self.holds else None


@dataclass
class Order:
    strict: bool
    deletes: bool

    @property
    def holds(self) -> bool:
        return self.strict and self.deletes

    def seconds_to_wait(self, write: Write) -> float:
        return 0.001 if self.holds else 0.0


def request() -> Request:
    reader = MessageReader()
    reader.feed(put(b"r"))
    message = reader.next_message()
    assert message is not None
    return read_request(Dialect.THRIFT1, message)


PUT = request()
controls = st.builds(Control, st.booleans(), st.sampled_from([None, 4]))
gates = st.builds(Gates, st.booleans(), st.sampled_from([{}, {"t": (GATE,)}]))
orders = st.none() | st.builds(Order, st.booleans(), st.booleans())
facts = st.builds(
    Facts,
    control=controls,
    gates=gates,
    origin=st.sampled_from([None, ORIGIN]),
    order=orders,
)


@given(facts)
def test_a_known_put_is_decided_as_if_it_had_been_read(known: Facts) -> None:
    decided = judge_known(PUT.tables, known)
    assert decided is None or decided == judge(PUT, known)


@pytest.mark.parametrize("watched", [True, False])
def test_an_unhindered_put_goes_on_by_the_watch_list(watched: bool) -> None:
    decided = judge_known(("t",), Facts(Control(watched, None), Gates(holds=False)))
    assert decided == (JournalAndForward(("t",)) if watched else Forward())
    assert (decided is FORWARD) is not watched


@pytest.mark.parametrize(
    "hindrance",
    [
        Facts(Control(True, None), Gates(holds=False, closed={"t": (GATE,)})),
        Facts(Control(True, 4), Gates(holds=False), origin=ORIGIN),
        Facts(Control(True, None), Gates(holds=False), order=Order(strict=True, deletes=True)),
    ],
    ids=["gate", "fence", "delete"],
)
def test_a_put_that_something_may_hold_or_refuse_is_left_to_be_read(hindrance: Facts) -> None:
    assert judge_known(("t",), hindrance) is None
