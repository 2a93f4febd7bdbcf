"""Events as ``headgate observer tail`` shows them."""

from __future__ import annotations

import json

import msgspec
import pytest

from headgate.events import (
    NO_TTL,
    BarrierMark,
    BarrierRequest,
    Container,
    ContainerId,
    ControlMessage,
    Fence,
    Gap,
    Gate,
    Item,
    ObserverLease,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    Watch,
    WatchList,
)
from headgate.observer.reading.event_lines import (
    LineFormatter,
    NoteLine,
    UpdateLine,
    control_line,
    update_lines,
)

NOON = 1_769_860_800.25
ORIGIN = Origin("air", "index", "run-1", 4)


def batch(*parts: RequestPart, kinds: list[UpdateKind], **changes) -> UpdateBatch:
    count = len(kinds)
    fields = {
        "version": 1,
        "observer": "o1",
        "epoch": 7,
        "sequence": 0,
        "watermark": 0,
        "table": "t",
        "requests": parts,
        "kinds": bytes(kinds),
        "rows": tuple(b"r%d" % i for i in range(count)),
        "columns": (b"f:a",) * count,
        "timestamps": (-1,) * count,
        "values": (b"v",) * count,
    }
    return UpdateBatch(**{**fields, **changes})


def part(cells: int, **changes) -> RequestPart:
    fields = {
        "intent": 12,
        "method": "mutateRows",
        "outcome": Outcome.APPLIED,
        "received": NOON,
        "cells": cells,
    }
    return RequestPart(**{**fields, **changes})


def shown(message: UpdateMessage, *, values: bool = False) -> list[UpdateLine | NoteLine]:
    return list(update_lines(message, "t", (3, 99), NOON, values=values))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain-09 ~", "plain-09 ~"),
        (b"\x00\xff\n\x1b", "\\x00\\xFF\\x0A\\x1B"),
        (b"back\\slash", "back\\x5Cslash"),
        ("ü".encode(), "ü"),
        (b"", ""),
    ],
)
def test_text_stays_readable_and_all_else_is_escaped(data: bytes, text: str) -> None:
    message = batch(part(1), kinds=[UpdateKind.PUT])
    (line,) = shown(msgspec.structs.replace(message, rows=(data,)))

    assert isinstance(line, UpdateLine)
    assert line.row == text


def test_each_cell_of_each_request_is_a_line_with_its_own_facts() -> None:
    first = part(2, ambiguous=(1,), origin=ORIGIN)
    second = part(1, intent=13, outcome=Outcome.UNKNOWN, method="deleteAll")
    kinds = [UpdateKind.PUT, UpdateKind.PUT, UpdateKind.DELETE_COLUMN]
    lines = [msgspec.to_builtins(line) for line in shown(batch(first, second, kinds=kinds))]
    assert [line["row"] for line in lines] == ["r0", "r1", "r2"]
    assert [line["intent"] for line in lines] == [12, 12, 13]
    assert [line["kind"] for line in lines] == ["put", "put", "delete-column"]
    assert [line["outcome"] for line in lines] == ["applied", "applied", "unknown"]
    assert [line["ambiguous"] for line in lines] == [False, True, False]
    named = {"dataflow": "air", "action": "index", "run": "run-1", "token": 4}
    assert [line["origin"] for line in lines] == [named, named, None]
    assert (lines[0]["partition"], lines[0]["offset"]) == (3, 99)
    assert lines[0]["time"] == "2026-01-31T12:00:00.250+00:00"


def test_every_object_has_the_same_fields_and_the_cells_own_timestamp() -> None:
    kinds = [UpdateKind.PUT, UpdateKind.PUT, UpdateKind.DELETE_COLUMN]
    message = batch(part(3), kinds=kinds, timestamps=(0, -1, 1_769_860_800_250))
    lines = [json.loads(msgspec.json.encode(line)) for line in shown(message)]
    assert [line["timestamp"] for line in lines] == [0, None, 1_769_860_800_250]
    assert len({tuple(line) for line in lines}) == 1
    assert {"value", "origin", "ambiguous", "recovered"} <= set(lines[0])


def test_times_to_live_and_increments_by_zero_are_shown() -> None:
    kinds = [UpdateKind.PUT, UpdateKind.INCREMENT]
    lines = shown(
        batch(
            part(2, ttls=(9000, NO_TTL), zero_increments=(1,)), kinds=kinds, values=(b"v", bytes(8))
        ),
        values=True,
    )
    assert [line.ttl for line in lines if isinstance(line, UpdateLine)] == [9000, None]
    assert [line.zero_increment for line in lines if isinstance(line, UpdateLine)] == [False, True]
    assert LineFormatter().line(lines[0]).endswith("= v for 9000 ms")
    assert LineFormatter().line(lines[1]).endswith("= 0 by 0")


def test_a_writer_outside_of_all_dataflows_is_called_by_its_name() -> None:
    origin = Origin("", "", "", 0, writer="etl")
    (line,) = shown(batch(part(1, origin=origin), kinds=[UpdateKind.PUT]))
    assert "  etl  " in LineFormatter().line(line)
    assert json.loads(msgspec.json.encode(line))["origin"] == {"writer": "etl"}


def test_values_are_shown_only_when_asked_for() -> None:
    message = batch(part(1), kinds=[UpdateKind.PUT])
    (without,), (with_value,) = shown(message), shown(message, values=True)
    assert isinstance(without, UpdateLine)
    assert isinstance(with_value, UpdateLine)
    assert (without.value, with_value.value) == (None, "v")


def test_a_counter_is_shown_as_a_number_and_a_put_of_its_size_as_bytes() -> None:
    value = (-5).to_bytes(8, "big", signed=True)
    kinds = [UpdateKind.INCREMENT, UpdateKind.PUT]
    counter, put = shown(batch(part(2), kinds=kinds, values=(value, value)), values=True)
    assert isinstance(counter, UpdateLine)
    assert isinstance(put, UpdateLine)
    assert counter.value == "-5"
    assert put.value == "\\xFF" * 7 + "\\xFB"


def test_a_kind_of_a_newer_observer_is_shown_by_its_number() -> None:
    message = msgspec.structs.replace(batch(part(1), kinds=[UpdateKind.PUT]), kinds=b"\xc8")
    (line,) = shown(message)
    assert line.kind == "kind-200"


def test_what_concerns_a_whole_table_is_told_in_words() -> None:
    head = (1, "o1", 7, 0)
    change = TableChange(
        *head, 5, "t", TableChangeKind.FAMILY_DROPPED, Outcome.APPLIED, NOON, family="f"
    )
    gap = Gap(*head, "t", NOON - 60, NOON, "the journal was full")
    told = [line for m in (change, gap, BarrierMark(*head, "b-1", 1)) for line in shown(m)]
    assert [line.kind for line in told] == ["table", "gap", "barrier"]
    texts = [line.text for line in told if isinstance(line, NoteLine)]
    assert texts[0] == "family-dropped, family f: applied"
    assert texts[1].startswith("the journal was full: some writes from ")
    assert texts[2] == "mark b-1"


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        (
            WatchList(1, "air", 3, (Watch("t"), Watch("u"))),
            "watch",
            "dataflow air, revision 3, watches t, u",
        ),
        (WatchList(1, "air", 4, ()), "watch", "dataflow air, revision 4, watches nothing any more"),
        (BarrierRequest(1, "b-1", ("t", "u"), "agent-1"), "barrier", "agent-1 asks for b-1"),
        (
            Fence(1, "air", "index", 4),
            "fence",
            "air/index: tokens below 4 are refused",
        ),
        (
            Gate(
                1, "air", "index", "b", (Container(ContainerId("c"), (Item("t"),)),), NOON, 1, True
            ),
            "gate",
            "bound b of air/index is open",
        ),
        (
            ObserverLease(1, "o1", 7, 10.0, {}, "127.0.0.1:1"),
            "lease",
            "lives for 10 s more, admin address 127.0.0.1:1",
        ),
        (ObserverLease(1, "o1", 7, 10.0, {}, ended=True), "lease", "has ended cleanly"),
    ],
)
def test_each_control_message_is_told_in_words(
    message: ControlMessage, kind: str, text: str
) -> None:
    line = control_line(message, NOON)
    assert isinstance(line, NoteLine)
    assert (line.kind, line.text) == (kind, text)


def test_nothing_from_outside_reaches_the_terminal_unescaped() -> None:
    evil = "t\x1b[2J"
    origin = Origin(evil, evil, evil, 1)
    message = batch(
        part(1, origin=origin),
        kinds=[UpdateKind.PUT],
        table=evil,
        rows=(evil.encode(),),
        columns=(evil.encode(),),
        values=(evil.encode(),),
    )
    gap = Gap(1, evil, 1, 1, evil, NOON, NOON, evil)
    lines = [*shown(message, values=True), *shown(gap)]
    lines.append(control_line(WatchList(1, evil, 1, (Watch(evil),)), 0))
    formatter = LineFormatter()
    assert all("\x1b" not in formatter.line(line) for line in lines)


def test_a_long_value_is_cut_in_a_line_and_whole_in_json() -> None:
    (line,) = shown(batch(part(1), kinds=[UpdateKind.PUT], values=(b"x" * 500,)), values=True)
    assert "(500 characters)" in LineFormatter().line(line)
    assert len(LineFormatter().line(line)) < 220
    assert json.loads(msgspec.json.encode(line))["value"] == "x" * 500


def test_columns_stand_below_one_another_as_wide_as_what_came_so_far() -> None:
    formatter = LineFormatter()
    kinds = [UpdateKind.PUT]
    (long,) = shown(batch(part(1), kinds=kinds, rows=(b"a-rather-long-row",)))
    (short,) = shown(batch(part(1), kinds=kinds, rows=(b"r",)))
    wide, narrow = formatter.line(long), formatter.line(short)
    assert wide.index("f:a") == narrow.index("f:a")
    assert formatter.headings().index("column") == wide.index("f:a")


@pytest.mark.parametrize("moment", [1e300, -1e300, float("inf"), float("nan"), 1e12, -1e12])
def test_a_time_that_no_calendar_has_is_shown_as_it_is(moment: float) -> None:
    messages: list[UpdateMessage] = [
        batch(part(1, received=moment), kinds=[UpdateKind.PUT]),
        TableChange(1, "o", 1, 1, 1, "t", TableChangeKind.DROPPED, Outcome.APPLIED, moment),
    ]
    formatter = LineFormatter()
    for message in messages:
        (line,) = shown(message)
        assert f"@{moment:g}" in formatter.line(line)
