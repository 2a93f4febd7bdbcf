"""Small dataflows that tests of the engine share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    Codec,
    Count,
    DataflowSpec,
    EngineTester,
    WatchedContainer,
)
from headgate.events import Container, ContainerId, Item

IN = ContainerId("in")
OUT = ContainerId("out")

Pair = Callable[..., EngineTester]


@pytest.fixture
def pair() -> Pair:
    """Return a maker of testers: input ``a`` feeds table ``in`` and step ``b`` watches it.

    Keyword arguments are those of the step, and of the container: ``items``, ``codec``, ``count``.
    """

    def make(
        *bounds: Bound,
        items: tuple[Item, ...] = (Item("in"),),
        codec: Codec | None = None,
        count: Count = Count.ROWS,
        partitions: int = 1,
        answering: bool = True,
        **step: Any,
    ) -> EngineTester:
        watched = WatchedContainer(Container(IN, items), codec or Codec(), count)
        spec = DataflowSpec(
            "flow",
            (watched,),
            (
                ActionSpec("a", ActionRole.INPUT, writes=(IN,)),
                ActionSpec("b", after=("a",), reads=(IN,), bounds=bounds, **step),
            ),
        )
        return EngineTester(spec, partitions=partitions, answering=answering)

    return make


@pytest.fixture
def chain() -> Callable[..., EngineTester]:
    """Return a maker of testers of a -> b -> c; ``c`` watches table ``out``, which ``b`` writes."""

    def make(*bounds: Bound, b: dict[str, Any] | None = None, **c: Any) -> EngineTester:
        spec = DataflowSpec(
            "flow",
            (
                WatchedContainer(Container(IN, (Item("in"),))),
                WatchedContainer(Container(OUT, (Item("out"),))),
            ),
            (
                ActionSpec("a", ActionRole.INPUT, writes=(IN,)),
                ActionSpec("b", after=("a",), reads=(IN,), writes=(OUT,), **(b or {})),
                ActionSpec("c", after=("b",), reads=(OUT,), bounds=bounds, **c),
            ),
        )
        return EngineTester(spec)

    return make


@pytest.fixture
def rows() -> Callable[..., dict[bytes, dict[bytes, bytes | None]]]:
    """Return a maker of rows r0, r1, ... with one value in column ``f:x``."""

    def make(number: int, value: float | None = 1, *, first: int = 0):
        written = None if value is None else b"%g" % value
        return {b"r%d" % i: {b"f:x": written} for i in range(first, first + number)}

    return make
