"""Writes under way at the same time, and the rows in which they meet."""

import random

import pytest

from headgate.observer.recording.in_flight import InFlightWrite, InFlightWrites


def departed(in_flight: InFlightWrites, intent: int, rows: list[bytes]) -> InFlightWrite:
    in_flight_write = InFlightWrite(intent)
    in_flight.begin(in_flight_write)
    in_flight.identify(in_flight_write, rows)
    return in_flight_write


def test_writes_of_one_row_at_the_same_time_are_both_ambiguous() -> None:
    in_flight = InFlightWrites()
    first = departed(in_flight, 0, [b"a", b"b"])
    second = departed(in_flight, 1, [b"b", b"c"])
    assert first.ambiguous == second.ambiguous == {b"b"}


def test_writes_one_after_the_other_are_not() -> None:
    in_flight = InFlightWrites()
    first = departed(in_flight, 0, [b"a"])
    in_flight.end(first)
    second = departed(in_flight, 1, [b"a"])
    assert first.ambiguous == second.ambiguous == set()


def test_writes_of_different_rows_are_not() -> None:
    in_flight = InFlightWrites()
    assert departed(in_flight, 0, [b"a"]).ambiguous == departed(in_flight, 1, [b"b"]).ambiguous


def test_a_write_that_outlasts_two_others_overlaps_with_both() -> None:
    in_flight = InFlightWrites()
    long = departed(in_flight, 0, [b"a", b"b"])
    for intent, row in ((1, b"a"), (2, b"b")):
        in_flight.end(departed(in_flight, intent, [row]))
    assert long.ambiguous == {b"a", b"b"}


def test_the_lowest_flight_is_the_oldest_that_has_not_landed() -> None:
    in_flight = InFlightWrites()
    first = departed(in_flight, 3, [b"a"])
    departed(in_flight, 5, [b"b"])
    assert in_flight.lowest() == 3
    in_flight.end(first)
    assert in_flight.lowest() == 5


@pytest.mark.parametrize("seed", range(20))
def test_every_row_that_two_writes_under_way_share_is_ambiguous(seed: int) -> None:
    chance = random.Random(seed)
    keys = [b"%02d" % number for number in range(40)]
    in_flight = InFlightWrites()
    under_way: list[tuple[InFlightWrite, set[bytes]]] = []
    shared: dict[int, set[bytes]] = {}
    for intent in range(300):
        begin = chance.randrange(len(keys))
        rows = {
            "one": [keys[begin]],
            "range": keys[begin : begin + 6],
            "anywhere": chance.sample(keys, 4),
            "unknown": [],
        }[chance.choice(["one", "range", "anywhere", "unknown"])]
        in_flight_write = departed(in_flight, intent, rows)
        shared[intent] = set()
        for other, others in under_way:
            common = others.intersection(rows)
            shared[intent] |= common
            shared[other.intent] |= common
        under_way.append((in_flight_write, set(rows)))
        while len(under_way) > chance.randrange(1, 8):
            landed, _ = under_way.pop(chance.randrange(len(under_way)))
            in_flight.end(landed)
            assert landed.ambiguous == shared[landed.intent]


class _Counted(bytes):
    """A row that counts how often rows are looked up."""

    looked_up = 0

    def __hash__(self) -> int:
        _Counted.looked_up += 1
        return super().__hash__()


def test_a_batch_looks_up_its_own_rows_however_many_batches_linger() -> None:
    """A restart of a Thrift server breaks all of a loader's batches at once."""

    def lookups(lingering: int) -> int:
        in_flight = InFlightWrites()
        for intent in range(lingering):
            rows: list[bytes] = [_Counted(b"%d-%d" % (intent, row)) for row in range(50)]
            in_flight.linger(departed(in_flight, intent, rows))
        batch: list[bytes] = [_Counted(b"9-%d" % row) for row in range(50)]
        before = _Counted.looked_up
        departed(in_flight, lingering, batch)
        return _Counted.looked_up - before

    assert lookups(500) == lookups(10)
