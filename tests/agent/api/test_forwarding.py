"""Which agent carries a request out, by the row of its dataflow; the words of each refusal."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headgate.agent.api.forwarding import (
    Removal,
    is_owned_elsewhere,
    owner_address,
    removal,
    silent_owner,
)
from headgate.agent.errors import AgentError, Refused, Unreachable
from headgate.agent.ownership.flow_rows import ELSEWHERE, FAILED, WAITING, FlowRow
from headgate.agent.state.sealed import RowState

OWNED = FlowRow("air", 1, 0.0, "two", "two:1", 9.0, 1, here=False, state=ELSEWHERE, words="w")
HERE = replace(OWNED, owner="one", address="one:1", here=True, state="running")
NOBODYS = replace(OWNED, owner="", address="", state=WAITING)
FAILED_HERE = replace(NOBODYS, state=FAILED, words="the file is old")
SET_ASIDE = [replace(NOBODYS, state=state.value, words="sign it") for state in RowState]

NOT_OWNED = "dataflow air is with no agent at the moment; one takes it over within 7.5 s"
BROKEN = "dataflow air cannot run: the file is old; submit a corrected one"


def address(row: FlowRow, *, forwarded: bool = False) -> str:
    return owner_address(row, forwarded=forwarded, lease_seconds=7.5)


@pytest.mark.parametrize("row", [OWNED, replace(OWNED, state=WAITING)])
def test_the_owner_is_asked(row: FlowRow) -> None:
    assert address(row) == "two:1"


@pytest.mark.parametrize(
    ("row", "forwarded", "error", "words"),
    [
        (OWNED, True, Unreachable, NOT_OWNED),
        (NOBODYS, False, Unreachable, NOT_OWNED),
        (HERE, False, Unreachable, NOT_OWNED),
        (FAILED_HERE, False, Refused, BROKEN),
        (FAILED_HERE, True, Refused, BROKEN),
        (replace(FAILED_HERE, owner="two", address="two:1"), False, Refused, BROKEN),
        *((row, False, Refused, "dataflow air is not run: sign it") for row in SET_ASIDE),
    ],
)
def test_nobody_is_asked(
    row: FlowRow, forwarded: bool, error: type[AgentError], words: str
) -> None:
    with pytest.raises(error) as caught:
        address(row, forwarded=forwarded)
    assert str(caught.value) == words


def test_an_owner_that_does_not_answer_is_named_with_its_address() -> None:
    assert str(silent_owner(OWNED, OSError("refused"))) == (
        "dataflow air is with agent two, which does not answer at two:1: refused; it is taken "
        "over when its lease ends"
    )


@pytest.mark.parametrize(
    ("row", "elsewhere"),
    [(OWNED, True), (HERE, False), (NOBODYS, False), (FAILED_HERE, False), (SET_ASIDE[0], False)],
)
def test_a_submit_is_saved_by_whoever_runs_the_dataflow(row: FlowRow, elsewhere: bool) -> None:
    assert is_owned_elsewhere(row) is elsewhere


@pytest.mark.parametrize(
    ("row", "by"),
    [
        (OWNED, Removal.STOP),
        (HERE, Removal.STOP),
        (NOBODYS, Removal.STOP),
        # What runs here is what was there before: it ends first, whatever the row says.
        (replace(SET_ASIDE[0], here=True, owner="one"), Removal.STOP),
        # Here it could not run, and there it does.
        (replace(FAILED_HERE, owner="two"), Removal.STOP),
        (replace(FAILED_HERE, here=True), Removal.STOP),
        *((row, Removal.DISCARD) for row in SET_ASIDE),
    ],
)
def test_a_row_that_runs_nowhere_is_discarded_and_any_other_stopped(
    row: FlowRow, by: Removal
) -> None:
    assert removal(row) is by


def test_what_cannot_run_cannot_withdraw_its_watches() -> None:
    with pytest.raises(Refused) as caught:
        removal(FAILED_HERE)
    assert str(caught.value) == (
        "dataflow air cannot run: the file is old; submit one that can, then remove"
    )
