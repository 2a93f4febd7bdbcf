"""What a stage sends to a topic: each committed row once, in order, whoever is killed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import pytest
from mortal_files import Killed
from scripted_runs import ScriptedRun
from scripted_topics import OUT, Orders, ScriptedSession, Sent, passing, values

from headgate.engine import RunPurpose, TopicSpec
from headgate.incremental import InputFlow, Stage, StageError, UnsentIncrement
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import Manifest, Sending, read_manifest
from headgate.incremental.topics import sending
from headgate.incremental.topics.sending import SentPosition, first_unsent, send
from headgate.spark import RecordsUnavailable, decode_result

TOPIC = "shop.sums"
GROUP = f"headgate/flow/pass/{OUT}"


@pytest.fixture
def sums(orders: Orders) -> Orders:
    """A stage that has what it reads sent to another topic."""
    orders.kafka.make(TOPIC, 3)
    orders.sinks[OUT] = TopicSpec(TOPIC, key="order")
    return orders


def sent(sums: Orders) -> list[Sent]:
    return sums.kafka.sent_to.get(TOPIC, [])


def numbers(sums: Orders) -> list[int]:
    return [row["n"] for row in values(sent(sums))]


def manifest_of(sums: Orders, run: ScriptedRun) -> Manifest:
    named = decode_result(run.result)
    assert named is not None
    return read_manifest(FileStore.at(sums.flow.path), named.manifest)


def test_rows_of_a_committed_run_are_messages_with_what_they_are_of(sums: Orders) -> None:
    sums.put(0, 1, 2)
    sums.run()
    sums.run()
    sums.put(1, 3)
    sums.run()
    first, second, third = sent(sums)
    assert values(sent(sums)) == [{"order": f"o{n}", "n": n} for n in (1, 2, 3)]
    assert [one.key for one in (first, second, third)] == [b"o1", b"o2", b"o3"]
    assert [(one.increment, one.row, one.whole) for one in (first, second, third)] == [
        (1, 0, True),
        (1, 1, True),
        (3, 0, False),
    ]
    assert first.flow == f"flow/pass/{OUT}"
    assert sums.kafka.positions[GROUP, TOPIC] == SentPosition(3, 1, 1)


def test_a_key_is_a_column_of_what_leaves_the_stage_and_all_its_parts(sums: Orders) -> None:
    named = Stage(
        "named",
        inputs={"orders": InputFlow()},
        outputs={"named": {"name": "string"}},
        translate=lambda _, flows: {"named": [{"name": flows["orders"][0]["order"] * 2}]},
    )
    sums.stage = sums.stage.fused(after={OUT: named})
    sums.sinks[OUT] = TopicSpec(TOPIC, key="name")
    sums.put(0, 1)
    sums.run()
    [message] = sent(sums)
    assert message.key == b"o1o1"
    assert values([message]) == [{"name": "o1o1"}]


def test_nothing_is_sent_before_the_commit(sums: Orders) -> None:
    sums.put(0, 1)
    sums.attempt()
    assert sent(sums) == []


def test_what_a_commit_could_not_send_the_next_run_does_before_it_sends_its_own(
    sums: Orders,
) -> None:
    sums.put(0, 1)
    sums.flow.commit(sums.attempt())  # and whoever committed is gone
    sums.put(0, 2)
    run = sums.attempt()
    assert numbers(sums) == [1]
    sums.flow.commit(run)
    for follow in run.following:
        follow()
    assert numbers(sums) == [1, 2]


def test_who_comes_late_needs_nothing_of_what_is_sent(sums: Orders) -> None:
    sums.put(0, 1)
    run = sums.attempt()
    sums.flow.commit(run)
    store = FileStore.at(sums.flow.path)
    [each] = manifest_of(sums, run).sendings
    send(each, store, sums.kafka)
    for ref in each.files:
        store.remove(ref.name)
    send(each, store, sums.kafka)
    assert numbers(sums) == [1]


def test_upkeep_between_commit_and_sending_keeps_what_is_to_be_sent(sums: Orders) -> None:
    sums.put(0, 1)
    run = sums.attempt()
    sums.flow.commit(run)
    manifest = manifest_of(sums, run)
    assert {ref.name for each in manifest.sendings for ref in each.files} <= manifest.names
    # As upkeep writes it: what the epoch put out is gone from the outputs.
    assert manifest.outputs[OUT]
    left = Manifest(
        manifest.stage,
        manifest.code,
        manifest.epoch,
        manifest.match,
        manifest.buckets,
        sendings=manifest.sendings,
    )
    assert {ref.name for ref in manifest.outputs[OUT]} <= left.names
    for _ in range(20):  # through several collections
        sums.put(0, 2)
        sums.run()
    assert numbers(sums) == [1, *[2] * 20]


@pytest.mark.parametrize("death", ["before", "after"])
@pytest.mark.parametrize("part", range(4))
def test_a_sender_that_is_killed_is_gone_on_from(
    sums: Orders, monkeypatch: pytest.MonkeyPatch, death: str, part: int
) -> None:
    monkeypatch.setattr(sending, "PART_ROWS", 2)
    sums.put(0, *range(7))
    sums.kafka.dies = [*[""] * part, death]
    with pytest.raises(Killed):
        sums.run()
    assert len(sent(sums)) == min(7, 2 * part + 2 * (death == "after"))
    sums.run()
    assert numbers(sums) == list(range(7))
    assert [one.row for one in sent(sums)] == list(range(7))


def test_parts_are_bounded_by_bytes_too(sums: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PART_BYTES", 50)
    sums.put(0, *range(7))
    sums.kafka.dies = ["", "before"]
    with pytest.raises(Killed):
        sums.run()
    assert 0 < len(sent(sums)) < 7


def test_a_sender_of_before_sends_nothing_after_its_successor(sums: Orders) -> None:
    sums.put(0, 1)
    late = sums.attempt()
    sums.flow.commit(late)
    sums.put(0, 2)
    sums.run()
    for follow in late.following:
        follow()
    assert numbers(sums) == [1, 2]


def test_a_sender_that_was_taken_over_in_between_is_fenced_off(
    sums: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "PART_ROWS", 1)
    sums.put(0, 1, 2, 3)
    run = sums.attempt()
    sums.flow.commit(run)
    [each] = manifest_of(sums, run).sendings
    store = FileStore.at(sums.flow.path)
    messages = sending._messages

    def overtaken(of: Sending, at: FileStore) -> Iterator[object]:
        for row, message in enumerate(messages(of, at)):
            if row == 1:
                monkeypatch.setattr(sending, "_messages", messages)
                send(each, store, sums.kafka)
            yield message

    monkeypatch.setattr(sending, "_messages", overtaken)
    with pytest.raises(UnsentIncrement):
        send(each, store, sums.kafka)
    assert numbers(sums) == [1, 2, 3]


def test_what_another_has_sent_before_the_take_over_is_not_sent_again(sums: Orders) -> None:
    sums.put(0, 1)
    run = sums.attempt()
    sums.flow.commit(run)
    [each] = manifest_of(sums, run).sendings
    store = FileStore.at(sums.flow.path)
    session = sums.kafka.session

    def late(identity: str, topic: str) -> ScriptedSession:
        patch.undo()
        send(each, store, sums.kafka)
        return session(identity, topic)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums.kafka, "session", late)
        send(each, store, sums.kafka)
    assert numbers(sums) == [1]


def test_what_cannot_be_sent_fails_the_next_run_and_not_the_one_that_is_committed(
    sums: Orders,
) -> None:
    sums.put(0, 1)
    run = sums.attempt()
    sums.flow.commit(run)

    def refuse(*_: object) -> None:
        message = "no"
        raise UnsentIncrement(message)

    def be_away(*_: object) -> None:
        message = "nobody answers"
        raise RecordsUnavailable(message)

    for name, trouble in (("session", refuse), ("sent", be_away)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sums.kafka, name, trouble)
            with pytest.raises(UnsentIncrement):
                sums.attempt()
    sums.run()
    assert numbers(sums) == [1]


def test_a_position_that_kafka_has_forgotten_is_sent_again_and_can_be_told(sums: Orders) -> None:
    sums.put(0, 1)
    sums.run()
    sums.kafka.positions.clear()
    sums.run()
    assert [(one.increment, one.row) for one in sent(sums)] == [(1, 0), (1, 0)]


def test_a_rebuild_sends_all_anew_and_says_so(sums: Orders) -> None:
    sums.put(0, 1)
    sums.run()
    sums.put(0, 2)
    sums.run(RunPurpose.REBUILD)
    assert [
        (row["n"], one.whole) for one, row in zip(sent(sums), values(sent(sums)), strict=True)
    ] == [
        (1, True),
        (1, True),
        (2, True),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_readers_see_each_committed_row_once_and_in_order_whatever_happens(
    sums: Orders, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Attempts that never commit, commits without sending, killed senders, zombies of all ages."""
    chance = random.Random(seed)
    monkeypatch.setattr(sending, "PART_ROWS", chance.randrange(1, 4))
    given: list[int] = []
    zombies: list[ScriptedRun] = []
    for n in range(30):
        come = [10 * n + k for k in range(chance.randrange(4))]
        given += come
        sums.put(0, *come)
        sums.kafka.dies = [chance.choice(["", "", "before", "after"]) for _ in range(3)]
        with suppress(Killed, UnsentIncrement):
            run = sums.attempt()
            if chance.random() < 0.3:
                continue
            sums.flow.commit(run)
            zombies.append(run)
        with suppress(Killed, UnsentIncrement):
            for follow in chance.choice(zombies).following if zombies else ():
                follow()
    sums.kafka.dies = []
    sums.run()
    sums.run()
    assert numbers(sums) == given


# -- what is refused


def test_a_key_that_the_flow_has_not_is_an_error(sums: Orders) -> None:
    sums.sinks[OUT] = TopicSpec(TOPIC, key="price")
    with pytest.raises(StageError, match=r"`price`.* has order string, n int64"):
        sums.run()
    sums.stage = passing({"order": "string", "n": "double"})
    sums.sinks[OUT] = TopicSpec(TOPIC, key="n")
    with pytest.raises(StageError, match="name a column of text, bytes or whole numbers"):
        sums.run()


def test_a_topic_that_is_not_there_is_an_error_before_anything_is_done(sums: Orders) -> None:
    sums.sinks[OUT] = TopicSpec("nowhere")
    with pytest.raises(StageError, match="no topic nowhere"):
        sums.run()


def test_a_row_that_nobody_could_send_fails_its_own_run(sums: Orders) -> None:
    sums.put(0, 1, 2)
    sums.kafka.largest = 1040
    with pytest.raises(StageError, match=r"row 0 of flow.*max\.message\.bytes"):
        sums.run()
    sums.kafka.largest = 1060
    sums.run()
    assert numbers(sums) == [1, 2]


def test_increments_of_an_earlier_dataflow_of_that_name_are_not_taken_for_its_own(
    sums: Orders,
) -> None:
    sums.kafka.positions[GROUP, TOPIC] = SentPosition(1, 1, 1)
    sums.put(0, 1)
    with pytest.raises(StageError, match=r"earlier dataflow of this name.*--delete --group"):
        sums.run()
    assert sums.run() == []  # its number is above that
    assert numbers(sums) == [1]


@pytest.mark.parametrize(
    ("known", "begin"),
    [
        (None, 0),
        (SentPosition(4, 9, 9), 0),
        (SentPosition(5, 2, 0), 2),
        (SentPosition(6, 0, 9), 0),
    ],
)
def test_what_is_left_follows_from_what_is_known(known: SentPosition | None, begin: int) -> None:
    each = Sending(TOPIC, GROUP, 5, "flow/pass", OUT, "", whole=False, files=())
    assert first_unsent(each, known) == begin
