"""Records of writes whose connection broke, kept for as long as HBase may still do them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

from headgate.events import Outcome, UpdateBatch
from headgate.hbase import Dialect, read_request
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.recorder import Recorder
from headgate.wire import MessageReader, MessageType, StructWriter, Transport, write_message

MIB = 1 << 20


def put(row: bytes, value: bytes) -> bytes:
    mutation = StructWriter().binary(2, b"f:q").binary(3, value).end()
    body = StructWriter().binary(1, b"t").binary(2, row).structs(3, [mutation]).end()
    return write_message(Transport.BUFFERED, "mutateRow", MessageType.CALL, 0, body)


def test_their_rows_are_kept_and_not_their_values(tmp_path: Path, bench: Any) -> None:
    publisher, timers = bench.publisher, bench.timers
    journal = Journal(tmp_path, limit_bytes=1 << 30, segment_bytes=1 << 20)
    publisher._deliveries._settle = journal.settle_all
    aftermath: list[tuple[float, Any]] = []
    recorder = Recorder(
        journal=journal,
        publisher=publisher,
        metrics=Metrics(),
        clock=lambda: 1.0,
        soon=lambda _call: None,
        later=lambda seconds, call: aftermath.append((seconds, call)),
    )
    publisher.prepare("t", values=True)
    publisher.topic_ready("t", 1)

    def write(row: bytes, size: int, *, broken: bool) -> None:
        reader = MessageReader()
        reader.feed(put(row, b"x" * size))
        message = reader.next_message()
        assert message is not None
        journalled = recorder.begin(Dialect.THRIFT1, read_request(Dialect.THRIFT1, message), ("t",))
        recorder.work()
        if broken:
            recorder.end(journalled, None)
        else:
            recorder.cancel(journalled)
        recorder.work()

    tracemalloc.start()
    try:
        for number in range(20):
            write(b"row %d" % number, MIB, broken=True)
            publisher.flush()
            timers.run()
            bench.producer.deliver_all()
        assert tracemalloc.get_traced_memory()[0] < 5 * MIB
    finally:
        tracemalloc.stop()
    log = [each for each in bench.producer.log(0) if isinstance(each, UpdateBatch)]
    assert {part.outcome for each in log for part in each.requests} == {Outcome.UNKNOWN}
    # A later write of such a row is ambiguous until HBase has given them up.
    write(b"row 7", 1, broken=True)
    for _, call in aftermath:
        call()
    write(b"row 7", 1, broken=True)
    publisher.flush()
    timers.run()
    bench.producer.deliver_all()
    log = [each for each in bench.producer.log(0) if isinstance(each, UpdateBatch)]
    parts = [part.ambiguous for each in log[20:] for part in each.requests]
    assert parts == [(0,), ()]
