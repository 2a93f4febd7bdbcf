"""Rows and qualifiers of all bytes on the real HBase, Kafka and Spark, by driver and by tasks."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.sql import SparkSession
from random_keys import random_keys

from headgate.client import Thrift2Connection
from headgate.engine import Codec, CodecName, WatchedContainer
from headgate.events import Container, ContainerId, Item, KeyForm, key_bytes
from headgate.incremental import library
from headgate.spark import StageRequest, StepRequest, Thrift2Address
from headgate.spark.containers import servers_of
from headgate.spark.run import DRIVER_BYTES_KEY, DRIVER_ROWS_KEY, Run

if TYPE_CHECKING:
    from conftest import RunningStack

pytestmark = pytest.mark.stack

PATHS = ("driver", "tasks")
QUALIFIERS = (
    b"pm2.5",
    b"temp (C)",
    b"a`b",
    b"x y",
    b"[0]",
    b"a,b",
    b"a",
    b"A",
    b"c0",
    b"row",
    b"column",
    b"f:x",
    b"g:x",
    b"other:x",
    b"\\",
    b"\\x41",
    b"line\nline",
    b'"',
    b"'",
    b"${x}",
    b"*",
    b"\xff\x00\x80",
    "größe °C".encode(),
    b"q" * 1000,
)
"""Names that mean something to Spark's parser, to JSON or to HBase's shell, and ordinary ones."""


@pytest.fixture
def connection(stack: RunningStack) -> Iterator[Thrift2Connection]:
    with Thrift2Connection(*stack.thrift2) as opened:
        yield opened


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Have the driver or tasks read and write; yield which of them."""
    most = "0" if request.param == "tasks" else "1000000000"
    spark.conf.set(DRIVER_ROWS_KEY, most)
    spark.conf.set(DRIVER_BYTES_KEY, most)
    yield request.param
    spark.conf.unset(DRIVER_ROWS_KEY)
    spark.conf.unset(DRIVER_BYTES_KEY)


def run_of(
    stack: RunningStack,
    spark: SparkSession,
    keys: KeyForm = KeyForm.TEXT,
    codec: CodecName = CodecName.OPAQUE,
    stage: StageRequest | None = None,
    **containers: tuple[Item, ...],
) -> Run:
    watched = tuple(
        WatchedContainer(Container(ContainerId(name), items), Codec(codec))
        for name, items in containers.items()
    )
    request = StepRequest(
        "keys", "step", "r", 1, 1, "m:f", Thrift2Address(*stack.thrift2), "k",
        containers=watched, keys=dict.fromkeys(containers, keys), stage=stage,
    )  # fmt: skip
    return Run(spark, request, servers_of(request, cast(Any, nullcontext)), cancelled=lambda: False)


def stored(stack: RunningStack, table: str) -> dict[bytes, dict[bytes, bytes]]:
    """Return a table's rows, over a connection that was not idle meanwhile."""
    with Thrift2Connection(*stack.thrift2) as connection:
        return dict(connection.scan(table))


@pytest.mark.parametrize("keys", KeyForm)
def test_rows_and_columns_of_all_names_are_read_and_written_as_they_are(
    stack: RunningStack,
    spark: SparkSession,
    connection: Thrift2Connection,
    path: str,
    keys: KeyForm,
) -> None:
    source = stack.table(f"keys_in_{path}_{keys}", ["f", "g"])
    target = stack.table(f"keys_out_{path}_{keys}", ["f", "g"])
    rows = random_keys(1, 60)
    columns = [b"f:" + qualifier for qualifier in QUALIFIERS] + [b"g:a", b"g:pm2.5"]
    values = {
        column: [b"%d" % n if (n + at) % 3 else None for n in range(len(rows))]
        for at, column in enumerate(columns)
    }
    connection.put_columns(source, rows, values)
    names = [column.partition(b":") for column in columns]

    def items(table: str) -> tuple[Item, ...]:
        return tuple(Item(table, family, qualifier) for family, _, qualifier in names)

    run = run_of(stack, spark, keys, source=items(source), target=items(target))
    frame = run.read("source")
    run.write(frame, "target")

    assert len(set(frame.columns)) == len(columns) + 1
    assert stored(stack, target) == stored(stack, source)


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ([(b"f", None)], {b"g:": b"3", b"g:z": b"4"}),
        ([(b"f", b"")], {b"f:x": b"1", b"g:": b"3", b"g:z": b"4"}),
        ([(b"f", None), (b"g", b"z")], {b"g:": b"3"}),
        ([(None, None)], {}),
    ],
    ids=["family", "empty qualifier", "family and column", "table"],
)
def test_a_step_deletes_all_that_its_container_is_of_a_row(
    stack: RunningStack,
    spark: SparkSession,
    connection: Thrift2Connection,
    parts: list[tuple[bytes | None, bytes | None]],
    left: dict[bytes, bytes],
) -> None:
    """Of a container that is a family, nothing was deleted once, and nobody said so."""
    table = stack.table(f"keys_deleted_{len(left)}", ["f", "g"])
    cells = {b"f:": b"0", b"f:x": b"1", b"g:": b"3", b"g:z": b"4"}
    connection.put(table, [(b"a", cells), (b"b", cells)])
    run = run_of(stack, spark, c=tuple(Item(table, *part) for part in parts))
    assert run.delete(["a"], "c") == 1
    assert {row: cells for row, cells in stored(stack, table).items() if cells} == {
        **({b"a": left} if left else {}),
        b"b": cells,
    }


def test_each_part_of_a_group_is_read_in_its_own_rows(
    stack: RunningStack, spark: SparkSession, connection: Thrift2Connection, path: str
) -> None:
    table = stack.table(f"keys_group_{path}", ["f"])
    rows = [bytes([number, 0xFF]) for number in range(0x70, 0x90)]
    connection.put_columns(table, rows, {b"f:a": rows, b"f:b": rows})
    parts = (
        Item(table, b"f", b"a", b"\x7a", b"\x85"),
        Item(table, b"f", b"b", b"\x80", b"\x8a"),
    )

    frame = run_of(stack, spark, KeyForm.BINARY, c=parts).read("c").orderBy("row")

    assert [(bytes(r.row), bool(r.a), bool(r.b)) for r in frame.collect()] == [
        (row, b"\x7a" <= row < b"\x85", b"\x80" <= row < b"\x8a") for row in rows[10:26]
    ]


def test_a_group_is_written_in_its_own_rows_alone(
    stack: RunningStack, spark: SparkSession, connection: Thrift2Connection, path: str
) -> None:
    table = stack.table(f"keys_written_{path}", ["f"])
    connection.put_columns(table, [b"a1", b"b1"], {b"f:a": [b"1", b"1"], b"f:b": [b"1", b"1"]})
    before = stored(stack, table)
    parts = Item(table, b"f", b"a", b"a", b"b"), Item(table, b"f", b"b", b"a1", b"a1\0")
    run = run_of(stack, spark, c=parts)

    for row, values, refused in (
        ("b1", "cast(null AS string) a, cast(null AS string) b", "row b1 is not in container 'c'"),
        ("a2", "'2' a, '2' b", "row a2 has a value in column 'f:b'"),
    ):
        with pytest.raises(Exception, match=refused):  # Spark's own, which holds the text
            run.write(spark.sql(f"SELECT '{row}' row, {values}"), "c")
    assert stored(stack, table) == before

    run.write(spark.sql("SELECT 'a1' row, '2' a, cast(null AS string) b"), "c")
    run.write(spark.sql("SELECT 'a2' row, '2' a, cast(null AS string) b"), "c")

    after = {b"a1": {b"f:a": b"2"}, b"a2": {b"f:a": b"2"}, b"b1": before[b"b1"]}
    assert stored(stack, table) == after


TYPES = (
    (CodecName.UTF8, "double", b"7.0"),
    (CodecName.UTF8, "long", b"7"),
    (CodecName.UTF8, "string", b"7"),
    (CodecName.INT64, "long", (7).to_bytes(8, "big")),
    (CodecName.FLOAT64, "double", struct.pack(">d", 7.0)),
    (CodecName.OPAQUE, "binary", b"\xff"),
)


def test_every_type_goes_both_ways_under_every_name(
    stack: RunningStack, spark: SparkSession, connection: Thrift2Connection, path: str
) -> None:
    """Each type has some of the names; nothing of the table changes."""
    table = stack.table(f"keys_types_{path}", ["f", "g"])
    rows = random_keys(2, 5)
    names = [QUALIFIERS[at :: len(TYPES)] for at in range(len(TYPES))]
    for (_, _, value), mine in zip(TYPES, names, strict=True):
        connection.put_columns(table, rows, {b"f:" + q: [value] * len(rows) for q in mine})
    before = stored(stack, table)

    for (codec, kind, _), mine in zip(TYPES, names, strict=True):
        items = tuple(Item(table, b"f", qualifier) for qualifier in mine)
        run = run_of(stack, spark, codec=codec, c=items)
        called = run.read("c").columns[1:]
        frame = run.read("c", types=dict.fromkeys(called, kind))
        run.write(frame, "c")

        assert {field.dataType.simpleString() for field in frame.schema.fields[1:]} == {
            {"long": "bigint"}.get(kind, kind)
        }
    assert stored(stack, table) == before


CHANGES = library.differences("source")


def column_called(name: str) -> bytes:
    """Return the column of a name: one whose qualifier begins with a family has its whole name."""
    column = key_bytes(name)
    return column if column.startswith(b"f:") else b"f:" + column


def round_trip(stack: RunningStack, spark: SparkSession, place: Path, seed: int, rows: int) -> None:
    """Send rows and qualifiers from a table through a stage and a step to other tables."""
    name = f"keys_trip_{seed}_{place.name[-8:]}"
    source, copied = (stack.table(f"{name}_{part}", ["f"]) for part in ("in", "out"))
    keys = random_keys(seed, rows)
    # As many qualifiers as rows, and some that a container declares.
    qualifiers = [b"f:a", b"f:", b"row", *random_keys(seed + 1, rows - 3)]
    declared = qualifiers[:DECLARED]
    cells = {
        row: b"f:" + (qualifiers[at] if at % 2 else declared[at % DECLARED])
        for at, row in enumerate(keys)
    }
    with Thrift2Connection(*stack.thrift2) as connection:
        connection.put(source, ((row, {column: row[:9]}) for row, column in cells.items()))

    def columns(table: str) -> tuple[Item, ...]:
        return tuple(Item(table, b"f", qualifier) for qualifier in declared)

    open_, closed = Item(source, b"f"), columns(source)
    for at, items in enumerate(((open_,), closed)):
        stage = StageRequest(str(place / f"state{at}"))
        target = stack.table(f"{name}_made{at}", ["f"])
        run = run_of(stack, spark, stage=stage, source=items, changes=(Item(target, b"f"),))
        CHANGES(run)
        wanted = {r: c for r, c in cells.items() if at == 0 or c[2:] in declared}
        assert {
            row: column_called(told[b"f:column"].decode())
            for row, told in stored(stack, target).items()
        } == wanted
    run = run_of(stack, spark, source=closed, target=columns(copied))
    run.write(run.read("source"), "target")
    assert stored(stack, copied) == {r: {c: r[:9]} for r, c in cells.items() if c[2:] in declared}


DECLARED = 20
"""Columns that a container declares: Spark reads those only."""


def test_many_rows_and_qualifiers_go_through_a_stage_and_a_step(
    stack: RunningStack, spark: SparkSession, path: str, tmp_path: Path
) -> None:
    assert path in PATHS
    round_trip(stack, spark, tmp_path, 10, 100)


@pytest.mark.soak
def test_a_hundred_thousand_of_them_go_through_a_stage_and_a_step(
    stack: RunningStack, spark: SparkSession, path: str, tmp_path: Path
) -> None:
    assert path in PATHS
    for seed in range(100, 110):
        (tmp_path / str(seed)).mkdir()
        round_trip(stack, spark, tmp_path / str(seed), seed, 10_000)
