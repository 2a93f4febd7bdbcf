"""Updates delivered twice count once; messages that never came are noticed."""

import pytest
from msgspec.structs import replace

from headgate.engine import (
    Bound,
    DecisionKind,
    Evaluation,
    Launch,
    PartitionReset,
    RecordArrived,
    RecordDecision,
    RetryPolicy,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    SpecificationChanged,
    TopicsOpened,
)
from headgate.engine.intake import duplicates
from headgate.events import (
    GONE,
    VERSION,
    BarrierMark,
    Container,
    ContainerId,
    Cut,
    Gap,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    updates_topic,
)

IN = ContainerId("in")

ASIDE = Container(ContainerId("aside"), (Item("aside"),))
BOUND = Bound("k", IN, sequence=SequenceBound(99))
PERCENT = Bound("k", IN, sequence=SequenceBound(9900, SequenceUnit.PERCENT))


def batch(*intents: int, sequence: int = 0, watermark: int = 0, piece: int = 0) -> UpdateBatch:
    """Each request writes one row, named after its intent."""
    return UpdateBatch(
        VERSION,
        "o",
        1,
        sequence,
        watermark,
        "in",
        tuple(RequestPart(n, "put", Outcome.APPLIED, 1.0, 1, piece) for n in intents),
        bytes(len(intents)),
        tuple(b"%d" % n for n in intents),
        (b"f:x",) * len(intents),
        (-1,) * len(intents),
        (b"1",) * len(intents),
    )


def count(tester) -> float:
    return tester.engine.explain(0).actions[1].result.parts[0].vectors[0].value


def test_what_the_imagined_store_publishes_is_in_sequence(pair, rows):
    tester = pair(BOUND, partitions=2)
    for _ in range(3):
        tester.write("in", rows(8))
    assert {source.sequence for *_, source in tester.engine.state.deliveries.sources} == {3}
    tester.publish("in", replace(batch(99, sequence=4), observer="tester"))
    assert tester.decisions()[-1].kind is DecisionKind.GAP


def test_a_record_read_again_counts_once(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(1, 2))
    tester.handle(RecordArrived(tester.now, updates_topic("in"), 0, 0, batch(1, 2)))
    assert count(tester) == 2


def test_a_request_published_again_counts_once(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(1, 2))
    tester.publish("in", batch(2, 3, sequence=1))
    assert count(tester) == 3


def test_below_the_watermark_everything_was_seen(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(5))
    tester.publish("in", batch(6, sequence=1, watermark=6))
    tester.publish("in", batch(3, 5, 7, sequence=2))
    assert count(tester) == 3


def test_a_watermark_covers_the_message_that_carries_it_only_afterwards(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(1, 2, watermark=3))
    tester.publish("in", batch(1, 2, sequence=1, watermark=3))
    assert count(tester) == 2


@pytest.mark.parametrize("requests", [1, 3])
def test_only_what_lies_above_the_watermark_is_remembered(pair, requests):
    tester = pair(BOUND)
    for i in range(100):
        first = requests * i
        some = range(first, first + requests)
        tester.publish("in", batch(*some, sequence=i, watermark=first))
    ((*_, source),) = tester.engine.state.deliveries.sources
    assert len(source.seen) == requests


def test_pieces_of_one_request_all_count(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(1))
    tester.publish("in", batch(1, sequence=1, piece=1))
    tester.publish("in", batch(1, sequence=2, piece=1))
    assert count(tester) == 2


def test_another_epoch_of_the_observer_is_another_source(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(1))
    tester.publish("in", replace(batch(1), epoch=2))
    assert count(tester) == 2


def test_what_a_crashed_observer_had_published_is_not_counted_again(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(1))
    tester.publish("in", replace(batch(1, 2), recovered=True))
    assert count(tester) == 2


def test_a_jump_of_the_sequence_is_a_gap_that_is_scanned(pair):
    tester = pair(PERCENT)
    tester.publish("in", batch(1))
    told = tester.publish("in", batch(5, sequence=4))
    assert any(isinstance(i, ScanContainer) for i in told)
    assert tester.decisions()[-1].kind == DecisionKind.GAP
    assert tester.decisions()[-1].words.startswith("3 messages of observer 'o' are missing")


def test_messages_lost_at_the_head_of_a_new_epoch_are_a_gap(pair):
    tester = pair(BOUND, partitions=2)
    tester.publish("in", batch(1))
    told = tester.publish("in", replace(batch(1, sequence=2), epoch=2), partition=1)
    (gap,) = [i.decision for i in told if isinstance(i, RecordDecision)][:1]
    assert gap.kind is DecisionKind.GAP
    assert gap.words.startswith("2 messages of observer 'o' are missing")


def test_the_head_of_an_epoch_that_began_before_the_topic_was_read_is_no_gap(pair):
    tester = pair(BOUND, partitions=2)
    tester.publish("in", replace(batch(1, sequence=5), epoch=2))
    tester.publish("in", replace(batch(1, sequence=7), epoch=2), partition=1)
    tester.publish("in", replace(batch(2), recovered=True))
    tester.publish("in", replace(batch(2, sequence=6), epoch=2))
    assert tester.decisions() == []


def test_observers_that_begin_new_epochs_for_ever_leave_nothing_behind(pair):
    tester = pair(BOUND, partitions=4)
    for epoch in range(1, 500):
        for partition in range(4):
            message = replace(batch(epoch), epoch=epoch, observer="restarts")
            tester.publish("in", message, partition=partition)
            message = replace(batch(epoch), observer=f"pod-{epoch}")
            tester.publish("in", message, partition=partition)
    assert count(tester) == 2 * 4 * 499
    assert len(list(tester.engine.state.deliveries.sources)) <= 4 * 64
    tester.publish("in", replace(batch(498, 499), epoch=499, observer="restarts"))
    tester.publish("in", replace(batch(498), epoch=498, observer="restarts", recovered=True))
    assert count(tester) == 2 * 4 * 499 + 1


@pytest.mark.parametrize("bound", [BOUND, PERCENT], ids=["updates", "percent"])
@pytest.mark.parametrize("restart", [False, True])
def test_what_a_gap_may_have_hidden_counts_whatever_its_number(pair, bound, restart):
    tester = pair(bound)
    tester.publish("in", batch(1))
    tester.tables["in"] = {(b"1", b"f:x"): b"1"}
    tester.publish("in", batch(1, sequence=4, watermark=9))
    if restart:
        tester.restart()
    (launch,) = [i for i in tester.wave("a") if isinstance(i, Launch)]
    assert "nobody knows how many" in launch.cause.words
    tester.finish("b")
    assert [i for i in tester.wave("a") if isinstance(i, Launch)] == []


def test_a_gap_is_evaluated_at_once_where_writes_are(pair):
    tester = pair(BOUND, evaluation=Evaluation(write=True))
    tester.publish("in", batch(1))
    told = tester.publish("in", Gap(VERSION, "o", 1, 1, "in", 5.0, 9.0, "Kafka was down"))
    assert [i.action for i in told if isinstance(i, Launch)] == ["b"]


def test_a_run_that_fails_for_good_gives_back_that_updates_are_missing(pair):
    tester = pair(BOUND, retry=RetryPolicy(attempts=1))
    tester.publish("in", batch(1))
    tester.publish("in", Gap(VERSION, "o", 1, 1, "in", 5.0, 9.0, "Kafka was down"))
    assert [i.action for i in tester.wave("a") if isinstance(i, Launch)] == ["b"]
    tester.fail("b")
    assert [i.action for i in tester.release("b") if isinstance(i, Launch)] == ["b"]


def test_the_first_sequence_seen_is_no_gap(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(5, sequence=40))
    assert tester.decisions() == []


def test_marks_and_recovered_messages_make_no_gap(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(1))
    tester.publish("in", BarrierMark(VERSION, "o", 1, 1, "id", 1))
    tester.publish("in", replace(batch(2, sequence=77), recovered=True))
    tester.publish("in", batch(3, sequence=2))
    assert tester.decisions() == []


def test_an_announced_gap_finds_what_changed_by_a_scan(pair):
    tester = pair(PERCENT)
    tester.tables["in"] = {(b"new", b"f:x"): b"1", (b"1", b"f:x"): b"1"}
    tester.publish("in", batch(1))
    tester.publish("in", Gap(VERSION, "o", 1, 1, "in", 5.0, 9.0, "Kafka was down"))
    assert count(tester) == 100 * 2 / 2


def reset(tester, partition: int = 0):
    return tester.handle(PartitionReset(tester.now, updates_topic("in"), partition))


def again(tester, offset: int, *intents: int) -> None:
    """Deliver a record at an offset that Kafka has given before."""
    message = batch(*intents, sequence=intents[0])
    tester.handle(RecordArrived(tester.now, updates_topic("in"), 0, offset, message))


def test_a_topic_that_was_made_again_is_read_from_its_beginning(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(1))
    tester.publish("in", batch(2, sequence=2))
    reset(tester)
    again(tester, 0, 3)
    again(tester, 1, 4)
    assert count(tester) == 4
    assert tester.engine.cut.position(updates_topic("in"), 0) == 2


def test_deleted_records_are_looked_for_by_a_scan(pair):
    tester = pair(PERCENT)
    tester.publish("in", batch(1))
    assert [i for i in reset(tester) if isinstance(i, ScanContainer)] != []
    (gap,) = [d for d in tester.decisions() if d.kind is DecisionKind.GAP]
    assert "before they were read" in gap.words


def test_a_run_whose_updates_were_deleted_learns_that_some_are_missing(pair):
    tester = pair(Bound("k", IN, sequence=SequenceBound(2)))
    topic = updates_topic("in")
    tester.publish("in", batch(1, 2))
    tester.wave("a")
    tester.finish("b")
    reset(tester)
    again(tester, 0, 3, 4)
    (launch,) = [i for i in tester.wave("a") if isinstance(i, Launch)]
    assert launch.since.position(topic, 0) == GONE
    assert launch.cut.position(topic, 0) == 1


def test_so_does_a_run_under_way_in_its_next_attempt(pair):
    tester = pair(Bound("k", IN, sequence=SequenceBound(2)))
    topic = updates_topic("in")
    tester.publish("in", batch(1, 2))
    tester.wave("a")
    reset(tester)
    tester.fail("b")
    (launch,) = [i for i in tester.pass_time(600.0) if isinstance(i, Launch)]
    assert launch.since.position(topic, 0) == GONE


def test_a_reset_survives_a_restart(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(1, 2))
    reset(tester)
    tester.restart()
    again(tester, 0, 3)
    assert count(tester) == 3


def without_reading(tester):
    """Have the dataflow not read its table for a while."""
    spec = tester.spec
    bound = Bound("k", ASIDE.id, sequence=SequenceBound(99))
    other = [replace(watched, container=ASIDE) for watched in spec.containers[:1]]
    actions = [
        replace(action, reads=(), writes=(), bounds=(bound,) if action.bounds else ())
        for action in spec.actions
    ]
    elsewhere = replace(spec, containers=tuple(other), actions=tuple(actions))
    tester.handle(SpecificationChanged(tester.now, elsewhere))
    tester.handle(SpecificationChanged(tester.now, spec))


def test_what_an_observer_published_while_nobody_read_is_no_gap(pair):
    tester = pair(BOUND)
    tester.publish("in", batch(1, sequence=0))
    without_reading(tester)
    tester.publish("in", batch(9, sequence=8))
    assert not [d for d in tester.decisions() if d.kind is DecisionKind.GAP]


def test_a_topic_made_again_while_nobody_read_it_is_read_from_where_it_begins(pair):
    tester = pair(BOUND)
    topic = updates_topic("in")
    for intent in range(1, 5):
        tester.publish("in", batch(intent, sequence=intent))
    without_reading(tester)
    tester.handle(TopicsOpened(tester.now, Cut({topic: (0,)})))
    again(tester, 0, 5)
    assert count(tester) == 5  # what was counted before the two edits counts on
    assert tester.engine.cut.position(topic, 0) == 1


def test_a_new_epoch_is_compared_with_what_its_own_topic_had_alone(monkeypatch):
    # With those of all topics, a restart of an observer of 1,000 tables took minutes.
    compared: list[int] = []
    forget = duplicates._forget_others

    def counted(sources, newest):
        compared.append(len(sources))
        forget(sources, newest)

    monkeypatch.setattr(duplicates, "_forget_others", counted)
    deliveries = duplicates.Deliveries()
    for epoch in (1, 2):
        for table in range(20):
            message = UpdateBatch(
                VERSION, "o", epoch, 0, 0, f"t{table}", (), b"", (), (), (), ()
            )  # fmt: skip
            record = RecordArrived(1.0, updates_topic(f"t{table}"), 0, epoch, message, 1)
            assert deliveries.first(record)
            assert deliveries.missed(record) == 0
    assert max(compared) == 2
    deliveries.close([updates_topic("t0")])
    assert len(list(deliveries.sources)) == 2 * 19
