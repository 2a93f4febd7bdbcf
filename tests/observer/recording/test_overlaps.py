import random

import pytest

from headgate.observer.recording.overlaps import Flight, TableFlights


def departed(flights: TableFlights, intent: int, rows: list[bytes]) -> Flight:
    flight = Flight(intent)
    flights.depart(flight)
    flights.identify(flight, rows)
    return flight


def test_writes_of_one_row_at_the_same_time_are_both_ambiguous() -> None:
    flights = TableFlights()
    first = departed(flights, 0, [b"a", b"b"])
    second = departed(flights, 1, [b"b", b"c"])
    assert first.ambiguous == second.ambiguous == {b"b"}


def test_writes_one_after_the_other_are_not() -> None:
    flights = TableFlights()
    first = departed(flights, 0, [b"a"])
    flights.land(first)
    second = departed(flights, 1, [b"a"])
    assert first.ambiguous == second.ambiguous == set()


def test_writes_of_different_rows_are_not() -> None:
    flights = TableFlights()
    assert departed(flights, 0, [b"a"]).ambiguous == departed(flights, 1, [b"b"]).ambiguous


def test_a_write_that_outlasts_two_others_overlaps_with_both() -> None:
    flights = TableFlights()
    long = departed(flights, 0, [b"a", b"b"])
    for intent, row in ((1, b"a"), (2, b"b")):
        flights.land(departed(flights, intent, [row]))
    assert long.ambiguous == {b"a", b"b"}


def test_the_lowest_flight_is_the_oldest_that_has_not_landed() -> None:
    flights = TableFlights()
    first = departed(flights, 3, [b"a"])
    departed(flights, 5, [b"b"])
    assert flights.lowest() == 3
    flights.land(first)
    assert flights.lowest() == 5


@pytest.mark.parametrize("seed", range(20))
def test_every_row_that_two_writes_under_way_share_is_ambiguous(seed: int) -> None:
    chance = random.Random(seed)
    keys = [b"%02d" % number for number in range(40)]
    flights = TableFlights()
    under_way: list[tuple[Flight, set[bytes]]] = []
    shared: dict[int, set[bytes]] = {}
    for intent in range(300):
        begin = chance.randrange(len(keys))
        rows = {
            "one": [keys[begin]],
            "range": keys[begin : begin + 6],
            "anywhere": chance.sample(keys, 4),
            "unknown": [],
        }[chance.choice(["one", "range", "anywhere", "unknown"])]
        flight = departed(flights, intent, rows)
        shared[intent] = set()
        for other, others in under_way:
            common = others.intersection(rows)
            shared[intent] |= common
            shared[other.intent] |= common
        under_way.append((flight, set(rows)))
        while len(under_way) > chance.randrange(1, 8):
            landed, _ = under_way.pop(chance.randrange(len(under_way)))
            flights.land(landed)
            assert landed.ambiguous == shared[landed.intent]
