"""One attempt of a run commits, however claims and commits fall between each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

from headgate.client import ConnectionFailed
from headgate.events import Origin
from headgate.spark import Claimed, Committed, Free, LedgerError, LostClaim, RunKey, RunLedger

KEY = RunKey("flow", "step", "run-1")
STATE = b"run:state"


class ScriptedTable:
    """A table in memory; ``before`` runs ahead of the call with its number, counted from 0."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[bytes, bytes]] = {}
        self.before: dict[int, Callable[[], object]] = {}
        self.lose_reply: set[int] = set()
        self.calls = 0
        self.proofs: list[bytes] = []

    def _call(self) -> int:
        number = self.calls
        self.calls += 1
        self.before.pop(number, lambda: None)()
        return number

    def get(self, table: str, row: bytes, columns: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        self._call()
        return dict(self.rows.get(row, {}))

    def check_and_put(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes | None,
        put: Mapping[bytes, bytes],
        *,
        origin: Origin | None = None,
    ) -> bool:
        self.proofs.append(b"" if origin is None else origin.proof)
        number = self._call()
        held = self.rows.get(row, {}).get(column) == expected
        if held:
            self.rows.setdefault(row, {}).update(put)
        if number in self.lose_reply:
            raise ConnectionFailed("no reply")
        return held


@pytest.fixture
def table() -> ScriptedTable:
    return ScriptedTable()


@pytest.fixture
def ledger(table: ScriptedTable) -> RunLedger:
    return RunLedger(table, "headgate")


def test_a_run_that_nobody_claimed_is_free(ledger: RunLedger) -> None:
    assert ledger.state(KEY) == Free()


def test_a_claim_is_seen_with_attempt_and_token(ledger: RunLedger) -> None:
    ledger.claim(KEY, 1, 10, "a")

    assert ledger.state(KEY) == Claimed(1, 10, "a")


def test_a_commit_is_seen_and_final(ledger: RunLedger) -> None:
    ledger.commit(KEY, ledger.claim(KEY, 1, 10, "a"))

    assert ledger.state(KEY) == Committed(1, 10, "a")
    with pytest.raises(LostClaim, match="attempt 1 committed it"):
        ledger.claim(KEY, 2, 11, "b")


def test_a_higher_token_takes_over(ledger: RunLedger) -> None:
    ledger.claim(KEY, 1, 10, "a")

    assert ledger.claim(KEY, 2, 11, "b") == Claimed(2, 11, "b")


@pytest.mark.parametrize("token", [9, 10])
def test_a_token_that_is_not_higher_cannot_claim(ledger: RunLedger, token: int) -> None:
    ledger.claim(KEY, 1, 10, "a")

    with pytest.raises(LostClaim, match="attempt 1 claimed it with token 10"):
        ledger.claim(KEY, 2, token, "b")


def test_a_stale_claim_cannot_commit(ledger: RunLedger) -> None:
    stale = ledger.claim(KEY, 1, 10, "a")
    ledger.claim(KEY, 2, 11, "b")

    with pytest.raises(LostClaim, match="attempt 2 claimed it with token 11"):
        ledger.commit(KEY, stale)
    assert ledger.state(KEY) == Claimed(2, 11, "b")


def test_a_claim_that_was_never_made_cannot_commit(ledger: RunLedger) -> None:
    with pytest.raises(LostClaim, match="nobody has claimed it"):
        ledger.commit(KEY, Claimed(1, 10, "a"))


def test_a_claim_whose_reply_was_lost_can_be_repeated(
    ledger: RunLedger, table: ScriptedTable
) -> None:
    table.lose_reply = {1}
    with pytest.raises(ConnectionFailed):
        ledger.claim(KEY, 1, 10, "a")

    assert ledger.claim(KEY, 1, 10, "a") == Claimed(1, 10, "a")


def test_a_commit_whose_reply_was_lost_can_be_repeated(
    ledger: RunLedger, table: ScriptedTable
) -> None:
    claim = ledger.claim(KEY, 1, 10, "a")
    table.lose_reply = {table.calls}
    with pytest.raises(ConnectionFailed):
        ledger.commit(KEY, claim)

    assert ledger.commit(KEY, claim) == Committed(1, 10, "a")


def test_two_holders_of_one_token_do_not_both_get_it(ledger: RunLedger) -> None:
    ledger.claim(KEY, 1, 10, "a")

    with pytest.raises(LostClaim):
        ledger.claim(KEY, 1, 10, "b")


@pytest.mark.parametrize("moment", range(8))
@pytest.mark.parametrize("rival_commits", [False, True])
@pytest.mark.parametrize("rival_token", [9, 10, 11])
def test_a_rival_at_any_moment_leaves_one_commit_at_most(
    table: ScriptedTable, moment: int, rival_commits: bool, rival_token: int
) -> None:
    committed: list[int] = []

    def attempt(number: int, token: int, holder: str, *, commits: bool) -> None:
        own = RunLedger(table, "headgate")
        try:
            claim = own.claim(KEY, number, token, holder)
            if commits:
                own.commit(KEY, claim)
                committed.append(token)
        except LostClaim:
            return

    table.before[moment] = lambda: attempt(2, rival_token, "b", commits=rival_commits)
    attempt(1, 10, "a", commits=True)

    state = RunLedger(table, "headgate").state(KEY)
    assert len(committed) <= 1
    assert isinstance(state, Committed) == (len(committed) == 1)
    assert not isinstance(state, Committed) or [state.token] == committed


def test_runs_whose_names_hold_slashes_do_not_meet() -> None:
    assert RunKey("a/b", "c", "d").row != RunKey("a", "b/c", "d").row


def test_a_row_that_no_ledger_wrote_is_named(ledger: RunLedger, table: ScriptedTable) -> None:
    table.rows[KEY.row] = {STATE: b"something"}

    with pytest.raises(LedgerError, match="run/flow/step/run-1"):
        ledger.state(KEY)


def test_each_move_carries_the_proof_that_an_agent_gave(table: ScriptedTable) -> None:
    ledger = RunLedger(table, "headgate", b"signature")
    ledger.commit(KEY, ledger.claim(KEY, 1, 7, "one"))
    assert table.proofs == [b"signature", b"signature"]
