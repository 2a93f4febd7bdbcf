"""What the tables of reply states promise, in whatever order events come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headgate.observer.sessions.reply_states import (
    ALL_ANSWERED,
    ANSWERED,
    ASSUMED,
    AT_ONCE,
    BEGUN,
    BROKEN,
    CALL_MARKED,
    CONNECTION_LOST,
    EXCEPTION,
    EXCHANGE,
    FRAMED,
    IN_SYNC,
    MARK_FOUND,
    MARK_LOST,
    PASSAGE,
    REPLY_ASSUMED,
    REPLY_BEGAN,
    RESYNCING,
    STREAM,
    TRACK_LOST,
    UNKNOWN,
    UNTRACKED,
    WAITING,
    WHOLE,
)

MACHINES: list[tuple[Mapping[Any, Mapping[Any, Any]], Any]] = [
    (STREAM, IN_SYNC),
    (PASSAGE, AT_ONCE),
    (EXCHANGE, WAITING),
]


def reached(state: Any) -> set[Any]:
    """Return the states that events may lead to from this one, which is among them."""
    found, todo = set(), [state]
    while todo:
        state = todo.pop()
        if state not in found:
            found.add(state)
            todo += state.after.values()
    return found


@pytest.mark.parametrize(("table", "first"), MACHINES, ids=["stream", "passage", "exchange"])
def test_every_state_is_in_its_table_and_is_reached_from_the_first(table, first) -> None:
    assert reached(first) == set(table)
    assert all(state.after is table[state] for state in table)


def test_only_a_found_mark_restores_synchronisation() -> None:
    ways = [(state, event) for state in STREAM for event in state.after if state is not IN_SYNC]
    back = [(state, event) for state, event in ways if state.after[event] is IN_SYNC]
    assert back == [(RESYNCING, MARK_FOUND)]


def test_a_mark_that_is_lost_leaves_the_end_of_replies_assumed() -> None:
    losing = [state for state in STREAM if MARK_LOST in state.after]
    assert RESYNCING in losing
    assert {state.after[MARK_LOST] for state in losing} == {ASSUMED}


def test_a_call_can_be_marked_wherever_only_a_mark_helps() -> None:
    for state in STREAM:
        if state.needs_mark:
            # A reply that has begun is assumed to be over first: a request comes behind it.
            behind = state.after[REPLY_ASSUMED]
            assert behind.after[CALL_MARKED] is RESYNCING


def test_a_framed_stream_assumes_nothing_and_is_never_marked() -> None:
    framed = reached(FRAMED)
    assert framed == {FRAMED, UNTRACKED}
    assert not any(state.needs_mark for state in framed)
    assert all(state.earlier_over for state in framed)


def test_a_stream_whose_lengths_were_contradicted_is_never_tracked_again() -> None:
    assert FRAMED.after[TRACK_LOST] is UNTRACKED
    assert reached(UNTRACKED) == {UNTRACKED}


def test_replies_go_back_whole_until_nothing_is_in_flight() -> None:
    assert {event for event, state in WHOLE.after.items() if state is not WHOLE} == {ALL_ANSWERED}


def test_replies_that_are_parsed_are_parsed_until_nothing_is_in_flight_or_matched() -> None:
    back = [event for state in PASSAGE for event in state.after if state.after[event] is AT_ONCE]
    assert set(back) == {ALL_ANSWERED, TRACK_LOST}


def test_a_request_whose_reply_has_begun_was_answered_however_the_connection_ends() -> None:
    assert WAITING.after[REPLY_BEGAN] is BEGUN
    assert set(BEGUN.after.values()) == {ANSWERED, EXCEPTION}
    assert BEGUN.after[CONNECTION_LOST] is ANSWERED
    assert BEGUN.after[TRACK_LOST] is ANSWERED


def test_a_request_without_a_reply_is_broken_or_unknown() -> None:
    assert WAITING.after[CONNECTION_LOST] is BROKEN
    assert WAITING.after[TRACK_LOST] is UNKNOWN
    assert REPLY_ASSUMED not in WAITING.after


def test_the_last_states_are_the_outcomes_that_are_counted() -> None:
    last = {state.name for state in EXCHANGE if not state.after}
    assert last == {"answered", "exception", "broken", "untracked"}


def test_what_cannot_happen_has_no_entry() -> None:
    with pytest.raises(KeyError, match="REPLY_BEGAN"):
        RESYNCING.after[REPLY_BEGAN]
