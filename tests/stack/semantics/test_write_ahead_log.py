"""Facts of HBase's write-ahead log: lines of docs/reference/hbase-semantics.md.

HBase replicates from this log, so what it does not hold no replication peer is ever sent.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import Hbase_thrift  # made by happybase when it is imported
import pytest
import thriftpy2
from thriftpy2.protocol.cybin import TCyBinaryProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.transport import TCyBufferedTransportFactory

from headgate.local import find_java
from headgate.local.jars import JarStore, read_lock
from headgate.local.places import default_cache, find_configuration

pytestmark = pytest.mark.stack

TWO = thriftpy2.load(
    str(Path(__file__).parents[2] / "hbase" / "thrift2.thrift"), module_name="tests_two_thrift"
)
COLUMN = b"f:q"
SKIP_WAL = 1

_PRINTER = "org.apache.hadoop.hbase.wal.WALPrettyPrinter"
_SECONDS = 120

Entry = list[dict[str, Any]]
"""The cells of an entry: ``row``, ``family``, ``qualifier``, ``timestamp``, ``type``, ``value``."""


def entries_of(table: str, stack: Path, scratch: Path) -> list[Entry]:
    """Return the entries of a table in the order of the log, as HBase's own tool prints them."""
    jars = JarStore(default_cache()).provide(
        read_lock(find_configuration() / "hbase"), lambda _: None
    )
    class_path = os.pathsep.join(str(path) for path in (*jars, stack / "conf"))
    java = [str(find_java().program), f"-Djava.io.tmpdir={scratch}", "-XX:TieredStopAtLevel=1"]
    logs = [path for path in (stack / "data" / "hbase" / "WALs").glob("*/*") if _is_log(path)]
    printed = subprocess.run(
        [*java, _PRINTER, "-j", "-p", "-t", table, *map(str, sorted(logs))],
        env={**os.environ, "CLASSPATH": class_path},
        capture_output=True,
        check=False,  # at the end of a log that is still written it fails, after all entries
        timeout=_SECONDS,
        text=True,
    )
    entries: list[Entry] = []
    for line in printed.stdout.splitlines():  # what is between the entries is no JSON
        if line.lstrip(",").startswith('{"'):
            entry, _ = json.JSONDecoder().raw_decode(line.lstrip(","))
            entries.append(entry["actions"])
    assert entries, printed.stderr
    return entries


def _is_log(path: Path) -> bool:
    return not path.name.endswith((".meta", ".crc"))


def put(value: bytes, column: bytes = COLUMN) -> Any:
    return Hbase_thrift.Mutation(column=column, value=value)


def write(one: Any, two: Any, table: bytes) -> None:
    """Send one write of each kind."""
    rows = [b"batch%d" % number for number in range(3)]
    one.mutateRows(table, [Hbase_thrift.BatchMutation(row, [put(b"v")]) for row in rows], {})
    one.atomicIncrement(table, b"increment", COLUMN, 5)
    one.atomicIncrement(table, b"increment", COLUMN, 2)
    for value in (b"a", b"b"):
        appended = TWO.TColumnValue(family=b"f", qualifier=b"q", value=value)
        two.append(table, TWO.TAppend(row=b"append", columns=[appended]))
    assert one.checkAndPut(table, b"check", COLUMN, b"", put(b"new"), {}) is True
    assert one.checkAndPut(table, b"check", COLUMN, b"other", put(b"never"), {}) is False
    one.mutateRow(table, b"row", [put(b"v"), put(b"v", b"g:q")], {})
    one.deleteAllRow(table, b"row", {})
    column = TWO.TColumnValue(family=b"f", qualifier=b"q", value=b"v")
    two.put(table, TWO.TPut(row=b"skips", columnValues=[column], durability=SKIP_WAL))
    assert one.get(table, b"skips", COLUMN, {}), "it is applied"


@pytest.fixture(scope="module")
def entries(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Entry]]:
    connection = stack.happybase()
    two = make_client(
        TWO.THBaseService,
        *stack.thrift2,
        proto_factory=TCyBinaryProtocolFactory(),
        trans_factory=TCyBufferedTransportFactory(),
        timeout=60_000,
    )
    table = stack.table("log", ("f", "g"))
    try:
        write(connection.client, two, table.encode())
        yield entries_of(table, stack.folder, tmp_path_factory.mktemp("printer"))
    finally:
        connection.delete_table(table, disable=True)
        connection.close()
        two.close()


def cells(entries: list[Entry], row: str) -> list[Entry]:
    """Return the entries of one row."""
    return [entry for entry in entries if entry[0]["row"] == row]


def test_a_batch_of_one_region_is_one_entry(entries: list[Entry]) -> None:
    (entry,) = cells(entries, "batch0")
    assert [cell["row"] for cell in entry] == ["batch0", "batch1", "batch2"]


def test_increments_appends_and_checks_are_puts_of_their_results(entries: list[Entry]) -> None:
    for row, results in (
        ("increment", [r"\x00\x00\x00\x00\x00\x00\x00\x05", r"\x00\x00\x00\x00\x00\x00\x00\x07"]),
        ("append", ["a", "ab"]),
        ("check", ["new"]),
    ):
        found = [cell for entry in cells(entries, row) for cell in entry]
        assert [cell["type"] for cell in found] == ["Put"] * len(results)
        assert [cell["value"] for cell in found] == results


def test_a_deleted_row_is_one_dated_marker_for_each_family(entries: list[Entry]) -> None:
    _, deleted = cells(entries, "row")
    assert [(cell["family"], cell["type"]) for cell in deleted] == [
        ("f", "DeleteFamily"),
        ("g", "DeleteFamily"),
    ]
    now = int(cells(entries, "check")[0][0]["timestamp"])
    assert all(abs(int(cell["timestamp"]) - now) < 3_600_000 for cell in deleted)


def test_a_write_that_skips_the_log_is_not_in_it(entries: list[Entry]) -> None:
    assert not cells(entries, "skips")
