"""Where messages go: topics, partitions, and compaction keys."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from headgate.events import (
    CONTROL_TOPIC,
    DECISIONS_TOPIC,
    FLOWS_TOPIC,
    BarrierRequest,
    Fence,
    ObserverLease,
    WatchList,
    control_key,
    partition_of,
    table_of,
    updates_topic,
)

TABLES = st.text(min_size=1, max_size=300).filter(lambda table: table.isprintable())
ALIKE = st.text(alphabet="ab._-:é", min_size=1, max_size=6)


@given(TABLES)
@example("x" * 1000)
@example("é" * 200)
def test_a_topic_is_legal_in_kafka(table):
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,249}", updates_topic(table))


@given(TABLES | ALIKE, TABLES | ALIKE)
@example("a.b", "a_b")
@example("a:b", "a_3ab")
@example("x" * 1000, "x" * 1001)
@example("x" * 1000 + "a", "x" * 1000 + "b")
def test_two_tables_never_meet_in_a_topic(one, other):
    # Kafka takes "." and "_" for equal where it names metrics, and refuses such a pair of topics.
    meet = updates_topic(one).replace(".", "_") == updates_topic(other).replace(".", "_")

    assert meet == (one == other)


@given(TABLES | ALIKE)
@example("ns:sensor_1.é")
def test_a_topic_tells_its_table_unless_it_is_hashed(table):
    topic = updates_topic(table)
    assert table_of(topic) == (None if "__" in topic else table)


@given(st.text(max_size=30) | st.text(alphabet="_0aF.", max_size=8))
@example("_ff")
@example("_")
@example("a_3A")
def test_what_no_table_has_for_a_topic_tells_none(name):
    assert table_of(name) is None
    told = table_of("headgate.updates." + name)
    assert told is None or updates_topic(told) == "headgate.updates." + name


@given(TABLES)
def test_a_hashed_topic_never_meets_a_plain_one(table):
    hashed = updates_topic(table + "x" * 300)

    assert hashed != updates_topic(hashed.removeprefix("headgate.updates."))


@given(TABLES | ALIKE)
def test_no_table_has_one_of_headgates_own_topics(table):
    assert updates_topic(table) not in {CONTROL_TOPIC, FLOWS_TOPIC, DECISIONS_TOPIC}


def test_a_plain_name_stands_for_itself():
    assert updates_topic("air-quality2") == "headgate.updates.air-quality2"


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_row_lies_in_one_of_the_partitions(row, partitions):
    assert 0 <= partition_of(row, partitions) < partitions


def test_a_row_stays_in_its_partition_in_every_version():
    rows = (b"", b"r", b"detector-0001", b"\x00\xff")

    assert [partition_of(row, 8) for row in rows] == [0, 5, 7, 2]


def test_rows_spread_over_partitions():
    counts = [0] * 8
    for number in range(8000):
        counts[partition_of(b"detector-%05d" % number, 8)] += 1

    assert 800 < min(counts) <= max(counts) < 1200


def test_only_messages_that_replace_each_other_share_a_key():
    assert control_key(WatchList(1, "d", 1, ())) == control_key(WatchList(1, "d", 2, ()))
    assert control_key(Fence(1, "d", "a", 1)) == control_key(Fence(1, "d", "a", 2))
    assert control_key(ObserverLease(1, "o", 1, 1.0, {})) == control_key(
        ObserverLease(1, "o", 1, 2.0, {}, ended=True)
    )


def test_messages_about_different_things_have_different_keys():
    messages = (
        WatchList(1, "d", 1, ()),
        WatchList(1, "e", 1, ()),
        Fence(1, "d", "a", 1),
        Fence(1, "d", "b", 1),
        Fence(1, "e", "a", 1),
        BarrierRequest(1, "b", (), "d"),
        ObserverLease(1, "o", 1, 1.0, {}),
        ObserverLease(1, "o", 2, 1.0, {}),
        ObserverLease(1, "p", 1, 1.0, {}),
    )

    assert len({control_key(message) for message in messages}) == len(messages)
