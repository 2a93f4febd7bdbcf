"""The run ledger in the real HBase."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headgate.client import Thrift2Connection
from headgate.spark import LEDGER_FAMILY, Claimed, Committed, LostClaim, RunKey, RunLedger

if TYPE_CHECKING:
    from conftest import RunningStack

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def table(stack: RunningStack) -> str:
    return stack.table("ledger", [LEDGER_FAMILY])


@pytest.fixture
def ledger(stack: RunningStack, table: str) -> Iterator[RunLedger]:
    with Thrift2Connection(*stack.thrift2) as connection:
        yield RunLedger(connection, table)


def test_a_run_is_claimed_taken_over_and_committed_once(ledger: RunLedger) -> None:
    key = RunKey("flow", "step", "taken-over")
    stale = ledger.claim(key, 1, 10, "a")
    claim = ledger.claim(key, 2, 11, "b")

    with pytest.raises(LostClaim):
        ledger.commit(key, stale)
    ledger.commit(key, claim)
    with pytest.raises(LostClaim):
        ledger.claim(key, 3, 12, "c")
    assert ledger.state(key) == Committed(2, 11, "b")


@pytest.mark.parametrize("round_", range(10))
def test_of_racing_claimers_one_commits(
    stack: RunningStack, table: str, ledger: RunLedger, round_: int
) -> None:
    key = RunKey("flow", "step", f"race-{round_}")
    start = threading.Barrier(4)
    committed: list[int] = []

    def attempt(token: int) -> None:
        with Thrift2Connection(*stack.thrift2) as connection:
            own = RunLedger(connection, table)
            start.wait()
            try:
                own.commit(key, own.claim(key, token, token, str(token)))
            except LostClaim:
                return
            committed.append(token)

    threads = [threading.Thread(target=attempt, args=(token,)) for token in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(committed) == 1
    assert ledger.state(key) == Committed(committed[0], committed[0], str(committed[0]))


def test_two_claimers_with_one_token_do_not_both_get_it(
    stack: RunningStack, table: str, ledger: RunLedger
) -> None:
    key = RunKey("flow", "step", "one-token")
    start = threading.Barrier(2)
    claimed: list[str] = []

    def claim(holder: str) -> None:
        with Thrift2Connection(*stack.thrift2) as connection:
            own = RunLedger(connection, table)
            start.wait()
            try:
                own.claim(key, 1, 10, holder)
            except LostClaim:
                return
            claimed.append(holder)

    threads = [threading.Thread(target=claim, args=(holder,)) for holder in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(claimed) == 1
    assert ledger.state(key) == Claimed(1, 10, claimed[0])
