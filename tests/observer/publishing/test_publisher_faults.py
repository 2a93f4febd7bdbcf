"""Whatever deliveries fail, nothing is lost, settled early or behind a mark asked for later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.events import BarrierMark, Gap, Outcome, UpdateBatch, UpdateKind, partition_of
from headgate.observer.publishing.deliveries import DeliveryFailure, FailureKind
from headgate.observer.publishing.ended import EndedWrite

PARTITIONS = 2
ROWS = [b"row%d" % i for i in range(6)]
TOO_LARGE = DeliveryFailure(FailureKind.TOO_LARGE, "too large")
FAILURES = [
    DeliveryFailure(kind, kind.name)
    for kind in (FailureKind.OTHER, FailureKind.TOPIC, FailureKind.FATAL)
]

writes = st.lists(st.integers(0, len(ROWS) - 1), min_size=1, max_size=5, unique=True)
steps = st.one_of(
    st.tuples(st.just("write"), writes),
    st.tuples(st.just("write"), writes),
    st.tuples(st.just("mark"), st.none()),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("wait"), st.none()),
    st.tuples(st.just("deliver"), st.integers(0, PARTITIONS - 1)),
    st.tuples(st.just("deliver"), st.integers(0, PARTITIONS - 1)),
    st.tuples(
        st.just("fail"), st.tuples(st.integers(0, PARTITIONS - 1), st.sampled_from(FAILURES))
    ),
)


class Broker:
    """Takes the messages of a bench's producer in order, or lets them fail."""

    def __init__(self, bench: Any, limit: int) -> None:
        self._producer = bench.producer
        self._limit = limit

    def take(self, partition: int, failure: DeliveryFailure | None = None) -> None:
        """Decide on the first message of a partition; what is too large fails in any case."""
        sent = self._producer.sent
        at = next((i for i, each in enumerate(sent) if each.partition == partition), None)
        if at is None:
            return
        if failure is None and len(sent[at].value) > self._limit:
            failure = TOO_LARGE
        if failure is None:
            self._producer.deliver(at)
            return
        self._producer.fail(failure, at)
        if failure.kind is FailureKind.FATAL:
            # The client gives up all that it has.
            while sent:
                self._producer.fail(DeliveryFailure(FailureKind.OTHER, "purged"))

    def take_all(self) -> None:
        while self._producer.sent:
            self.take(self._producer.sent[0].partition)


def write(intent: int, rows: list[bytes]) -> EndedWrite:
    count = len(rows)
    return EndedWrite(
        intent,
        "mutateRows",
        Outcome.APPLIED,
        float(intent),
        None,
        bytes([UpdateKind.PUT]) * count,
        rows,
        [b"f:q"] * count,
        [-1] * count,
        [b"x" * 200] * count,
    )


def cells_of(batch: UpdateBatch) -> list[tuple[int, bytes]]:
    rows = iter(batch.rows)
    return [(part.intent, next(rows)) for part in batch.requests for _ in range(part.cells)]


@given(script=st.lists(steps, max_size=60), limit=st.sampled_from([450, 900, 1 << 20]))
def test_however_deliveries_fail_all_is_told_in_its_place(make_bench, script, limit) -> None:
    bench = make_bench()
    publisher, broker = bench.publisher, Broker(bench, limit)
    publisher.prepare("t", values=True)
    publisher.topic_ready("t", PARTITIONS)
    expected: dict[int, set[tuple[int, bytes]]] = {}
    before: dict[str, set[tuple[int, bytes]]] = {}
    settled: list[int] = []

    def delivered(partition: int) -> list[Any]:
        return bench.producer.log(partition)

    def seen() -> set[tuple[int, bytes]]:
        logs = [each for partition in range(PARTITIONS) for each in delivered(partition)]
        return {cell for each in logs if isinstance(each, UpdateBatch) for cell in cells_of(each)}

    def settle(intents: Sequence[int]) -> None:
        for intent in intents:
            assert expected[intent] <= seen(), "settled before Kafka had it"
        settled.extend(intents)

    publisher._deliveries._settle = settle
    for action, detail in script:
        match action:
            case "write":
                intent = len(expected)
                rows = [ROWS[number] for number in detail]
                expected[intent] = {(intent, row) for row in rows}
                publisher.add("t", write(intent, rows))
            case "mark":
                name = f"mark {len(before)}"
                before[name] = set().union(*expected.values())
                publisher.mark("t", name)
            case "flush":
                publisher.flush()
            case "wait":
                bench.timers.run()
            case "deliver":
                broker.take(detail)
            case "fail":
                broker.take(*detail)
    for _ in range(100):
        publisher.flush()
        broker.take_all()
        bench.timers.run()
        if publisher.idle:
            break

    assert publisher.idle
    assert not publisher._deliveries._open_parts
    assert sorted(settled) == sorted(expected)
    assert seen() == set().union(*expected.values())
    for partition in range(PARTITIONS):
        agree(delivered(partition), partition, before)


def agree(log: list[Any], partition: int, before: dict[str, set[tuple[int, bytes]]]) -> None:
    """Check the order of one partition's messages, as a reader sees them."""
    so_far: list[tuple[int, bytes]] = []
    newest: dict[bytes, int] = {}
    unannounced = False
    marks = []
    for message in log:
        match message:
            case UpdateBatch():
                for intent, row in cells_of(message):
                    assert partition_of(row, PARTITIONS) == partition
                    unannounced |= intent < newest.get(row, 0)
                    newest[row] = max(intent, newest.get(row, 0))
                    so_far.append((intent, row))
            case Gap():
                unannounced = False
            case BarrierMark():
                assert not unannounced, "a reader believes in an order that was not kept"
                mine = {each for each in before[message.id] if in_partition(each, partition)}
                assert mine <= set(so_far), "a write came after a mark asked for later"
                marks.append(message.id)
    assert not unannounced
    assert len(so_far) == len(set(so_far)), "told twice"
    assert marks == list(before)


def in_partition(cell: tuple[int, bytes], partition: int) -> bool:
    return partition_of(cell[1], PARTITIONS) == partition
