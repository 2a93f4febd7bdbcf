"""Clients in other languages: HBase's own for Thrift2, which is Java."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headgate.events import Outcome, UpdateBatch, UpdateKind
from headgate.local import default_cache, find_java
from headgate.local.jars import JarStore, read_lock
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = pytest.mark.stack

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("ThriftConnectionProgram.java")

# It is a short program: compiling it well takes longer than running it.
_QUICK = ("-XX:TieredStopAtLevel=1", "-Xshare:auto")

SAID = """\
get one
scan r1
scan r2
scan r3
increment 5
append one+
check true
check false
"""


@pytest.fixture(scope="module")
def java() -> list[str]:
    """Return the command that compiles and runs a Java file with HBase's client."""
    program = str(find_java().program)
    modules = subprocess.run(
        [program, "--list-modules"], capture_output=True, text=True, check=True
    ).stdout
    if "jdk.compiler@" not in modules:
        pytest.skip(f"{program} is no JDK: it has no compiler (jdk.compiler) for a Java file")
    jars = JarStore(default_cache()).provide(
        read_lock(ROOT / "hbase-conf" / "hbase"), lambda _progress: None
    )
    return [program, *_QUICK, "-cp", ":".join(map(str, jars)), str(PROGRAM)]


def test_a_java_client_works_through_the_observer(stack, subscriber, java, tmp_path: Path) -> None:
    table = stack.table("java")
    config = ObserverConfig(
        name="o1",
        thrift2=Listener("127.0.0.1:0", str(stack.thrift2)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
    )
    with ObserverProcess(config, tmp_path / "o1") as observer:
        subscriber.watch(table)
        host, port = observer.thrift2
        ran = subprocess.run(
            [*java, host, str(port), "buffered", "binary", table],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.stdout == SAID, ran.stderr
        messages = subscriber.read(table, subscriber.barrier(table))
    batches = [m for part in messages for m in part if isinstance(m, UpdateBatch)]
    found = [
        (part.method, UpdateKind(kind), row, value)
        for batch in batches
        for part, cells in _by_request(batch)
        for kind, row, value in cells
    ]
    assert sorted(found, key=lambda cell: (cell[2], cell[0])) == [
        ("increment", UpdateKind.INCREMENT, b"n", (5).to_bytes(8, "big")),
        ("append", UpdateKind.APPEND, b"r1", b"one+"),
        ("put", UpdateKind.PUT, b"r1", b"one"),
        ("checkAndMutate", UpdateKind.PUT, b"r2", b"checked"),
        ("putMultiple", UpdateKind.PUT, b"r2", b"two"),
        ("deleteSingle", UpdateKind.DELETE_ROW, b"r3", None),
        ("putMultiple", UpdateKind.PUT, b"r3", b"three"),
    ]
    assert {part.outcome for batch in batches for part in batch.requests} == {Outcome.APPLIED}
    assert dict(stack.happybase().table(table).scan()) == {
        b"n": {b"f:n": (5).to_bytes(8, "big")},
        b"r1": {b"f:a": b"one+"},
        b"r2": {b"f:a": b"checked"},
    }


def _by_request(batch: UpdateBatch):
    """Yield each request of a batch with kind, row and value of its cells."""
    cells = iter(zip(batch.kinds, batch.rows, batch.values, strict=True))
    for part in batch.requests:
        yield part, [next(cells) for _ in range(part.cells)]
