"""Whose turn it is in a shared session, and who is to blame for its end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.agent.launchers.warm.pool_turns import PooledRun, PoolTurns

A, B, C, D = (PooledRun(name, "run") for name in "abcd")


def test_runs_are_side_by_side() -> None:
    turns = PoolTurns()
    assert turns.ask(A) == (A,)
    assert turns.ask(B) == (B,)
    assert turns.within == (A, B)


def test_who_was_alone_has_ended_the_session() -> None:
    turns = PoolTurns()
    turns.ask(A)
    turns.ask(B)
    turns.over(B)
    end = turns.ended()
    assert (end.culprit, end.suspects, end.others) == (A, (), ())
    assert turns.ask(A) == (A,)
    assert turns.ask(B) == (B,)  # and that A failed keeps nobody waiting


def test_a_session_that_ends_with_nothing_in_it_is_nobodys_fault() -> None:
    assert PoolTurns().ended().culprit is None


def test_of_several_each_comes_back_alone() -> None:
    turns = PoolTurns()
    for run in (A, B):
        turns.ask(run)
    end = turns.ended()
    assert (end.culprit, end.suspects, end.others) == (None, (A, B), ())

    assert turns.ask(A) == (A,)
    assert turns.ask(C) == ()  # it might be taken for the culprit
    assert turns.ask(B) == ()
    assert turns.over(A) == (C,)
    assert turns.over(C) == (B,)
    assert turns.ask(D) == ()
    assert turns.ended().culprit == B
    assert turns.ask(A) == (A,)
    assert turns.ask(D) == (D,)


def test_a_suspect_waits_until_the_others_are_over() -> None:
    turns = PoolTurns()
    for run in (A, B):
        turns.ask(run)
    turns.ended()
    assert turns.ask(C) == (C,)
    assert turns.ask(A) == ()
    assert turns.ask(D) == ()  # who came later does not overtake
    assert turns.over(C) == (A,)
    assert turns.over(A) == (D,)


def test_whose_sake_a_session_was_ended_for_is_known() -> None:
    turns = PoolTurns()
    for run in (A, B):
        turns.ask(run)
    end = turns.ended(A)
    assert (end.culprit, end.suspects, end.others) == (A, (), (B,))
    assert turns.ask(B) == (B,)
    assert turns.ask(C) == (C,)


def test_who_only_waited_is_no_suspect() -> None:
    turns = PoolTurns()
    for run in (A, B):
        turns.ask(run)
    turns.ended()
    turns.ask(A)
    turns.ask(C)
    end = turns.ended()
    assert (end.culprit, end.suspects, end.others) == (A, (), (C,))


def test_who_does_not_want_in_any_more_keeps_nobody_waiting() -> None:
    turns = PoolTurns()
    for run in (A, B):
        turns.ask(run)
    turns.ended()
    turns.ask(C)
    turns.ask(A)
    turns.ask(D)
    assert turns.over(A) == (D,)


@given(
    crasher=st.sampled_from([A, B, C, D]),
    order=st.permutations([A, B, C, D]),
    choices=st.lists(st.integers(0, 99), min_size=60, max_size=60),
)
def test_only_the_run_that_ends_sessions_is_ever_blamed(
    crasher: PooledRun, order: list[PooledRun], choices: list[int]
) -> None:
    turns = PoolTurns()
    wanting, blamed, done = list(order), 0, set()
    for choice in choices:
        within = turns.within
        if wanting and (choice % 3 or not within):
            turns.ask(wanting.pop(0))
        elif crasher in within and choice % 2:
            end = turns.ended()
            assert end.culprit in (None, crasher)
            blamed += end.culprit is not None
            back = [*end.suspects, *end.others, *([crasher] if end.culprit else [])]
            wanting += back if blamed < 3 else [run for run in back if run != crasher]
        elif within:
            run = within[choice % len(within)]
            if run != crasher:
                turns.over(run)
                done.add(run)
    while wanting or turns.within:
        if wanting:
            turns.ask(wanting.pop(0))
        for run in turns.within:
            turns.over(run)
            done.add(run)
    assert done >= {A, B, C, D} - {crasher}
