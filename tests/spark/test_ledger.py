"""One attempt of a run commits, however claims and commits fall between each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.client import ConnectionFailed
from headgate.events import Origin
from headgate.spark import (
    Claimed,
    Committed,
    Free,
    LedgerError,
    LostClaim,
    NamedResults,
    ResultError,
    RunKey,
    RunLedger,
)
from headgate.spark.ledger import RESULT_CHARACTERS, checked_result, until_answered

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

    def put(
        self,
        table: str,
        rows: Iterable[tuple[bytes, Mapping[bytes, bytes]]],
        *,
        origin: Origin | None = None,
    ) -> int:
        self.proofs.append(b"" if origin is None else origin.proof)
        written = list(rows)
        for row, cells in written:
            self.rows.setdefault(row, {}).update(cells)
        return len(written)


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


def test_a_commit_decides_what_it_names(ledger: RunLedger) -> None:
    ledger.commit(KEY, ledger.claim(KEY, 1, 10, "a"), "manifest-1")

    assert ledger.state(KEY) == Committed(1, 10, "a", "manifest-1")


def test_a_commit_of_the_version_before_names_nothing(
    ledger: RunLedger, table: ScriptedTable
) -> None:
    stored = b'{"type":"committed","attempt":1,"token":10,"holder":"a"}'
    table.rows[KEY.row] = {STATE: stored}

    assert ledger.state(KEY) == Committed(1, 10, "a", "")


def test_a_commit_is_read_by_the_version_before(ledger: RunLedger, table: ScriptedTable) -> None:
    class Before(msgspec.Struct, tag="committed"):
        attempt: int
        token: int
        holder: str

    ledger.commit(KEY, ledger.claim(KEY, 1, 10, "a"), "manifest-1")

    assert msgspec.json.decode(table.rows[KEY.row][STATE], type=Before).attempt == 1


def test_a_commit_whose_reply_was_lost_is_found_taken_with_what_it_named(
    ledger: RunLedger, table: ScriptedTable
) -> None:
    claim = ledger.claim(KEY, 1, 10, "a")
    table.lose_reply = {table.calls}
    with pytest.raises(ConnectionFailed):
        ledger.commit(KEY, claim, "manifest-1")

    assert ledger.commit(KEY, claim, "manifest-1").result == "manifest-1"


def test_a_commit_cannot_be_repeated_under_another_name(ledger: RunLedger) -> None:
    claim = ledger.claim(KEY, 1, 10, "a")
    first = ledger.commit(KEY, claim, "manifest-1")

    with pytest.raises(LostClaim) as lost:
        ledger.commit(KEY, claim, "manifest-2")
    assert lost.value.state == ledger.state(KEY) == first


def test_a_zombie_learns_what_its_successor_named_and_changes_nothing(ledger: RunLedger) -> None:
    zombie = ledger.claim(KEY, 1, 10, "a")
    done = ledger.commit(KEY, ledger.claim(KEY, 2, 11, "b"), "manifest-2")

    with pytest.raises(LostClaim) as lost:
        ledger.commit(KEY, zombie, "manifest-1")
    assert lost.value.state == ledger.state(KEY) == done
    assert done.result == "manifest-2"


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


# -- what is named -------------------------------------------------------------------------------


def test_of_several_results_the_last_counts_attempt_by_attempt(table: ScriptedTable) -> None:
    results = NamedResults(table, "headgate", b"signature")
    assert results.named(KEY, 10) == ""
    results.name(KEY, 10, "early")
    results.name(KEY, 11, "of the next attempt")
    results.name(KEY, 10, "späte\nZeile")

    assert results.named(KEY, 10) == "späte\nZeile"
    assert results.named(KEY, 11) == "of the next attempt"
    assert table.proofs == [b"signature"] * 3


def test_what_programs_name_is_not_in_the_row_that_decides(table: ScriptedTable) -> None:
    NamedResults(table, "headgate").name(KEY, 10, "manifest-1")

    assert KEY.row not in table.rows
    assert RunLedger(table, "headgate").state(KEY) == Free()


@pytest.mark.parametrize("value", [b"\xff", b"x" * (RESULT_CHARACTERS + 1)])
def test_a_row_of_results_that_no_run_wrote_is_named(table: ScriptedTable, value: bytes) -> None:
    table.rows[KEY.result_row] = {b"run:result-10": value}

    with pytest.raises(LedgerError, match="result/flow/step/run-1"):
        NamedResults(table, "headgate").named(KEY, 10)


@pytest.mark.parametrize(
    ("wrong", "flaw"),
    [
        ("x" * (RESULT_CHARACTERS + 1), "has 8,193"),
        (b"bytes", "type bytes"),
        (None, "type NoneType"),
        ("\ud83d", "surrogate"),
    ],
)
def test_what_no_commit_can_name_is_refused_in_words(wrong: object, flaw: str) -> None:
    with pytest.raises(ResultError, match=flaw):
        checked_result(wrong)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=RESULT_CHARACTERS))
def test_any_text_is_named_as_it_is(text: str) -> None:
    table = ScriptedTable()
    ledger, results = RunLedger(table, "headgate"), NamedResults(table, "headgate")
    results.name(KEY, 10, checked_result(text))
    ledger.commit(KEY, ledger.claim(KEY, 1, 10, "a"), results.named(KEY, 10))

    assert ledger.state(KEY) == Committed(1, 10, "a", text)


@pytest.mark.parametrize(("lost", "answered"), [(0, True), (3, True), (4, False)])
def test_what_may_be_repeated_is_while_no_reply_comes(
    monkeypatch: pytest.MonkeyPatch, lost: int, answered: bool
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("headgate.spark.ledger.time.sleep", pauses.append)
    left = [lost]

    def step() -> Any:
        if left[0]:
            left[0] -= 1
            raise ConnectionFailed("no reply")
        return "done"

    if answered:
        assert until_answered(step) == "done"
    else:
        with pytest.raises(ConnectionFailed):
            until_answered(step)
    assert len(pauses) == min(lost, 3)
