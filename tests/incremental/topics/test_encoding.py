"""Rows as messages: JSON objects that a topic's readers, stages among them, read as those rows."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import TopicSpec
from headgate.incremental.topics import encoding
from headgate.incremental.topics.decoding import TopicMessage, batches_of
from headgate.incremental.topics.encoding import is_key, outgoing


def sent(table: pa.Table, key: str = "") -> list[tuple[bytes | None, Any]]:
    return [(one.key, json.loads(one.value)) for one in outgoing(table.to_batches(), key)]


def test_a_row_is_an_object_and_a_column_of_it_the_key() -> None:
    table = pa.table({"k": ["a", None, ""], "n": [1, 2, None]})
    assert sent(table, "k") == [
        (b"a", {"k": "a", "n": 1}),
        (None, {"k": None, "n": 2}),
        (b"", {"k": "", "n": None}),
    ]
    assert [key for key, _ in sent(table)] == [None] * 3
    assert [key for key, _ in sent(table, "n")] == [b"1", b"2", None]
    assert sent(pa.table({"k": [b"\xff"]}), "k")[0] == (b"\xff", {"k": "/w=="})


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (float("nan"), pa.float64(), None),
        (2**64 - 1, pa.uint64(), 2**64 - 1),
        (Decimal("1.50"), pa.decimal128(9, 2), "1.50"),
        (date(2020, 1, 2), pa.date32(), "2020-01-02"),
        (time(3, 4, 5), pa.time32("s"), "03:04:05"),
        (1_577_934_245_000_678, pa.timestamp("us"), "2020-01-02T03:04:05.000678"),
        (1_577_934_245_000_000_001, pa.timestamp("ns"), "2020-01-02T03:04:05.000000001"),
        (datetime(2020, 1, 2, tzinfo=UTC), pa.timestamp("s", "UTC"), "2020-01-02T00:00:00Z"),
        ([1, 2], pa.list_(pa.int8()), [1, 2]),
        ({"a": {"b": "x"}}, pa.struct({"a": pa.struct({"b": pa.string()})}), {"a": {"b": "x"}}),
        ({"a": 0}, pa.struct({"a": pa.timestamp("us")}), {"a": "1970-01-01T00:00:00"}),
    ],
)
def test_values_are_as_json_has_them(value: Any, kind: pa.DataType, said: Any) -> None:
    [(_, row)] = sent(pa.table({"v": pa.array([value], kind)}))
    assert row == {"v": said}


def test_which_columns_may_be_keys() -> None:
    assert all(map(is_key, (pa.string(), pa.large_binary(), pa.uint8(), pa.int64())))
    assert not any(map(is_key, (pa.float64(), pa.bool_(), pa.list_(pa.int8()), pa.date32())))


OLDEST = datetime(1700, 1, 1, tzinfo=UTC).replace(tzinfo=None)
NEWEST = datetime(2200, 1, 1, tzinfo=UTC).replace(tzinfo=None)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


ROWS = st.fixed_dictionaries(
    {
        "k": st.none() | texts,
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "b": st.none() | st.booleans(),
        "at": st.none() | st.datetimes(OLDEST, NEWEST),
        "day": st.none() | st.dates(OLDEST.date(), NEWEST.date()),
    }
)


@given(st.lists(ROWS, max_size=3))
def test_what_is_sent_is_read_as_it_was(rows: list[dict[str, Any]]) -> None:
    columns = {
        "k": "string",
        "n": "int64",
        "x": "double",
        "b": "bool",
        "at": "timestamp[us]",
        "day": "date32",
    }
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])
    messages = [
        TopicMessage(0, at, 0, one.key, one.value)
        for at, one in enumerate(outgoing(pa.Table.from_pylist(rows, schema).to_batches(), "k"))
    ]
    spec = TopicSpec("t", columns, "k")
    assert [row for batch in batches_of(spec, messages) for row in batch.to_pylist()] == rows


def test_large_batches_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_ROWS", 3)
    table = pa.table({"n": list(range(8))})
    assert [row["n"] for _, row in sent(table.slice(1))] == list(range(1, 8))
