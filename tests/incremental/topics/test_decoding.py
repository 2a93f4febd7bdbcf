"""Messages as rows: every one a JSON object, or the run says which one is not."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import TOPIC_METADATA, OnUndecodable, TopicSpec
from headgate.incremental import UnusableMessage
from headgate.incremental.topics import decoding
from headgate.incremental.topics.decoding import TopicMessage, batches_of

COLUMNS = {"key": "string", "n": "int64"}


def message(value: object, offset: int = 0, key: bytes | None = None) -> TopicMessage:
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return TopicMessage(3, offset, 1_700_000_000_000 + offset, key, data)


def rows(spec: TopicSpec, *messages: TopicMessage) -> list[dict[str, Any]]:
    return [row for batch in batches_of(spec, messages) for row in batch.to_pylist()]


def test_declared_columns_are_read_and_others_left_out() -> None:
    spec = TopicSpec("t", {"key": "string", "at": "timestamp[ms]", "x": "double", "on": "bool"})
    value = {"key": "ü", "at": "2020-01-02T03:04:05.678", "x": 1, "on": True, "more": {"a": [1]}}
    [row, empty] = rows(spec, message(value), message({"key": None}, 1))
    assert (row["key"], row["x"], row["on"]) == ("ü", 1.0, True)
    assert row["at"].isoformat() == "2020-01-02T03:04:05.678000"
    assert empty == {"key": None, "at": None, "x": None, "on": None}


def test_where_a_message_stands_is_a_column_if_it_is_asked_for() -> None:
    spec = TopicSpec("t", {"n": "int64", **TOPIC_METADATA})
    [_, row] = rows(spec, message({"n": 1, "_offset": 99}, 7), message({"n": 2}, 8))
    assert (row["n"], row["_partition"], row["_offset"]) == (2, 3, 8)
    assert row["_timestamp"].isoformat() == "2023-11-14T22:13:20.008000"


def test_a_key_is_that_of_the_message() -> None:
    spec = TopicSpec("t", COLUMNS, "key")
    found = rows(spec, message({"key": "no", "n": 1}, 0, b"k"), message({"n": 2}, 1))
    assert found == [{"key": "k", "n": 1}, {"key": None, "n": 2}]
    by_number = TopicSpec("t", {"key": "int32"}, "key")
    assert rows(by_number, message({}, 0, b"-12")) == [{"key": -12}]


def test_empty_messages_are_left_out_unless_a_column_says_which_they_are() -> None:
    given = (message({"n": 1}, 0, b"a"), message(None, 1, b"a"), message({"n": 3}, 2, b"b"))
    assert rows(TopicSpec("t", COLUMNS, "key"), *given) == [
        {"key": "a", "n": 1},
        {"key": "b", "n": 3},
    ]
    spec = TopicSpec("t", {**COLUMNS, "_tombstone": "bool"}, "key")
    assert rows(spec, *given) == [
        {"key": "a", "n": 1, "_tombstone": False},
        {"key": "a", "n": None, "_tombstone": True},
        {"key": "b", "n": 3, "_tombstone": False},
    ]
    assert rows(spec, given[1]) == [{"key": "a", "n": None, "_tombstone": True}]


DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (b"", "offset 5: "),
        (b"{", "offset 5: "),
        (b"[1]", "offset 5: "),
        (b"null", "offset 5: "),
        (b'{"n": 1}{"n": 2}', "offset 5: "),
        (b'{"n": 1}\n{"n": 2}', "offset 5: "),
        (b'{"n": 1,\n', "offset 5: "),
        (b"\xff\xfe", "offset 5: "),
        (DEEP, "offset 5: "),
        (b'{"n": "x"}', "offset 5, column `n`: "),
        (b'{"n": 1.5}', "offset 5, column `n`: "),
        (b'{"n": 99999999999999999999}', "offset 5, column `n`: "),
        (b'{"key": 1, "n": 1}', "offset 5, column `key`: "),
        (b'{"key": "\xff", "n": 1}', "offset 5, column `key`: "),
        (b'{"n": 1, "n": 2}', "offset 5, column `n`: "),
    ],
)
def test_a_message_that_is_not_what_is_declared_is_named(value: bytes, where: str) -> None:
    good = [message({"key": "k", "n": n}, n) for n in range(12)]
    given = [*good[:5], message(value, 5), *good[6:]]
    with pytest.raises(UnusableMessage, match="topic t, partition 3, ") as error:
        rows(TopicSpec("t", COLUMNS), *given)
    assert where in str(error.value)
    assert "on_undecodable: skip" in str(error.value)

    said: list[str] = []
    skipping = TopicSpec("t", COLUMNS, on_undecodable=OnUndecodable.SKIP)
    left = [r["n"] for batch in batches_of(skipping, given, said.append) for r in batch.to_pylist()]
    assert left == [n for n in range(12) if n != 5]
    assert [where in one for one in said] == [True]


@pytest.mark.parametrize("key", [b"x", b"1.5", b"1_0", b"", b"99999999999", b"\xff"])
def test_a_key_that_is_no_number_is_named(key: bytes) -> None:
    with pytest.raises(UnusableMessage, match="offset 0, column `key`"):
        rows(TopicSpec("t", {"key": "int32", "n": "int64"}, "key"), message({"n": 1}, 0, key))


def test_messages_that_only_together_are_objects_are_none() -> None:
    cut = [message(b'{"n": 1', 0), message(b'} {"n":', 1), message(b"2}{}", 2)]
    with pytest.raises(UnusableMessage, match="offset 0"):
        rows(TopicSpec("t", COLUMNS), *cut)


def test_of_many_that_are_left_out_some_are_said() -> None:
    said: list[str] = []
    spec = TopicSpec("t", COLUMNS, on_undecodable=OnUndecodable.SKIP)
    [batch] = batches_of(spec, [message(b"x", n) for n in range(100)], said.append)
    assert batch.num_rows == 0
    assert len(said) == 20
    assert "more are left out unsaid" in said[-1]


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_ROWS", 3)
    given = [message({"n": n}, n) for n in range(8)]
    sizes = [batch.num_rows for batch in batches_of(TopicSpec("t", COLUMNS), given)]
    assert sizes == [3, 3, 2]
    monkeypatch.setattr(decoding, "_BYTES", 10)
    large = [message({"n": 1, "x": "y" * 20}, n) for n in range(3)]
    assert [b.num_rows for b in batches_of(TopicSpec("t", COLUMNS), large)] == [1, 1, 1]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(
    st.lists(
        st.none() | st.fixed_dictionaries({"key": st.none() | texts, "n": st.integers(-5, 5)}),
        max_size=20,
    ),
    st.integers(0, 2),
)
def test_rows_are_those_of_their_messages(
    objects: list[dict[str, Any] | None], indent: int
) -> None:
    spec = TopicSpec("t", {**COLUMNS, "_offset": "int64", "_tombstone": "bool"})
    given = [
        message(None if one is None else json.dumps(one, indent=indent or None).encode(), at)
        for at, one in enumerate(objects)
    ]
    expected = [
        {**(one or {"key": None, "n": None}), "_offset": at, "_tombstone": one is None}
        for at, one in enumerate(objects)
    ]
    assert rows(spec, *given) == expected


def test_batches_have_the_declared_schema() -> None:
    spec = TopicSpec("t", {"n": "int8", "_offset": "int64"})
    [batch] = batches_of(spec, [message({"n": 1})])
    assert batch.schema == pa.schema([("n", pa.int8()), ("_offset", pa.int64())])
