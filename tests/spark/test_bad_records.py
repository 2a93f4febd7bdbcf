"""A record that nobody can read keeps no step from running: everything counts as changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from headgate.events import (
    VERSION,
    Gap,
    Outcome,
    RequestPart,
    UpdateBatch,
    encode_update,
    updates_topic,
)
from headgate.spark.changes import ChangedCells
from headgate.spark.kafka import ranges
from headgate.spark.kafka.ranges import OffsetRange
from headgate.spark.kafka.updates import UpdateReader
from headgate.spark.views import ContainerView

TOPIC = updates_topic("t")
GOOD = UpdateBatch(VERSION, "o", 1, 0, 0, "t", (), b"", (), (), (), ())


class Log:
    """A consumer of one partition."""

    def __init__(self, values: list[bytes | None]) -> None:
        self._left = list(enumerate(values))

    def __call__(self, _: object) -> Log:
        return self

    def assign(self, _: object) -> None:
        pass

    def unassign(self) -> None:
        pass

    def consume(self, *_: object) -> list[object]:
        return []

    def poll(self, _: float) -> object:
        offset, value = self._left.pop(0)
        return SimpleNamespace(
            partition=lambda: 0, offset=lambda: offset, error=lambda: None, value=lambda: value
        )


@pytest.mark.parametrize("bad", [None, b"", b"damaged", b"\xc1"])
def test_a_record_that_cannot_be_read_is_a_gap(
    monkeypatch: pytest.MonkeyPatch, bad: bytes | None
) -> None:
    good = encode_update(GOOD)
    monkeypatch.setattr(ranges, "Consumer", Log([good, bad, good]))
    found = [r.message for r in UpdateReader("k", {}).read([OffsetRange(TOPIC, 0, 0, 3)])]
    assert [type(message) for message in found] == [UpdateBatch, Gap, UpdateBatch]
    gap = found[1]
    assert isinstance(gap, Gap)
    assert "offset 1 cannot be read" in gap.reason


def test_a_message_that_makes_no_sense_names_nothing() -> None:
    view = cast("ContainerView", SimpleNamespace(has=lambda row, column: True))
    changed = ChangedCells(view)
    part = RequestPart(1, "put", Outcome.APPLIED, 1.0, 1)
    nonsense = (bytes([200]), (b"r",), (b"f:v",), (-1,), (b"1",))
    changed.add(UpdateBatch(VERSION, "o", 1, 0, 0, "t", (part,), *nonsense), 0)
    assert changed.everything
