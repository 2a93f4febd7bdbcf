"""The watermark of messages: no request below it appears later for the first time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from published import TIMEOUT, batches, row_in, write

from headgate.events import UpdateBatch


def test_the_watermark_is_not_above_what_shares_its_message(ready) -> None:
    ready.unfinished = 6
    ready.publisher.add("t", write(5, [row_in(0)]))
    ready.publisher.add("t", write(3, [row_in(0, 1)]))
    ready.timers.run()
    batch = ready.producer.sent[0].message
    assert isinstance(batch, UpdateBatch)
    assert batch.watermark == 3


def test_the_watermark_is_not_above_what_is_under_way(ready) -> None:
    ready.unfinished = 2
    ready.publisher.add("t", write(5, [row_in(0)]))
    ready.timers.run()
    batch = ready.producer.sent[0].message
    assert isinstance(batch, UpdateBatch)
    assert batch.watermark == 2


@given(
    order=st.permutations(range(8)),
    flushes=st.sets(st.integers(0, 7)),
    failing=st.lists(st.booleans(), max_size=12),
)
def test_no_intent_first_appears_behind_a_watermark_above_it(
    make_bench, order: list[int], flushes: set[int], failing: list[bool]
) -> None:
    bench = make_bench()
    bench.publisher.prepare("t", values=True)
    bench.publisher.topic_ready("t", 2)
    running = set(order)
    script = iter(failing)
    for step, intent in enumerate(order):
        running.discard(intent)
        bench.unfinished = min(running, default=8)
        bench.publisher.add("t", write(intent, [b"a%d" % intent, b"b%d" % intent]))
        if step in flushes:
            bench.publisher.flush()
            while bench.producer.sent and next(script, False):
                # All that is under way fails, as when the broker is gone for long.
                for _ in range(len(bench.producer.sent)):
                    bench.producer.fail(TIMEOUT)
                bench.timers.run()
    bench.publisher.flush()
    for _ in range(20):
        bench.producer.deliver_all()
        bench.timers.run()
    assert sorted(bench.settled) == list(range(8))
    for partition in range(2):
        highest = -1
        seen = set()
        for batch in batches(bench.producer.log(partition)):
            for part in batch.requests:
                assert part.intent >= highest
                assert part.intent not in seen
                seen.add(part.intent)
            highest = max(highest, batch.watermark)
