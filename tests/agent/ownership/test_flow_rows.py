"""A dataflow's row: its state, from its lease, from what runs here and from what failed here."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from headgate.agent.dataflow.views import FlowStatus, Phase
from headgate.agent.errors import Refused, Unreachable
from headgate.agent.ownership.flow_rows import (
    ELSEWHERE,
    FAILED,
    NOT_RUN,
    WAITING,
    FlowRow,
    FlowRows,
    LocalView,
    listed_row,
    set_aside_row,
)
from headgate.agent.ports import WorkerState
from headgate.agent.state.sealed import Definition, Lease, Owner, RowState, SetAside
from headgate.agent.state.store import Listing, Listings

OWN = Owner("one", "1", "one:1")
OTHER = Owner("two", "1", "two:1")
BEFORE = Owner("one", "0", "one:1")
"""This agent's name in an earlier process."""
NOW = 100.0
DEFINITION = Definition("air", "text", ".", 7, 5.0, "eager", shadow=True)
WORKER = WorkerState(ready=True, words="warm")
STATUS = FlowStatus(
    "air", Phase.PAUSED, "by somebody", 7, 3, WORKER, (), waves=0, settled=0, lag=0, consumed=0
)


def listing(owner: Owner | None, left: float = 9.0) -> Listing:
    return Listing(DEFINITION, Lease(3, owner, 50.0), "", left if owner is not None else 0.0)


NOBODYS, OWN_LEASE, OTHERS = listing(None), listing(OWN), listing(OTHER)


@pytest.mark.parametrize(
    ("listed", "view", "state", "words"),
    [
        (NOBODYS, LocalView(), WAITING, "no agent has it yet"),
        (listing(OTHER, 0.0), LocalView(), WAITING, "no agent has it yet"),
        (listing(OWN, 0.0), LocalView(), WAITING, "no agent has it yet"),
        (OWN_LEASE, LocalView(), WAITING, "this agent is taking it over"),
        (listing(BEFORE), LocalView(), ELSEWHERE, "with agent one"),
        (OTHERS, LocalView(), ELSEWHERE, "with agent two"),
        (OWN_LEASE, LocalView(here=True, status=STATUS), "paused", "by somebody"),
        (NOBODYS, LocalView(here=True, status=STATUS), "paused", "by somebody"),
        (OWN_LEASE, LocalView(here=True, silence="it is busy"), WAITING, "it is busy"),
        (NOBODYS, LocalView(broken="too old"), FAILED, "too old"),
        (OTHERS, LocalView(broken="too old"), FAILED, "too old"),
        (OWN_LEASE, LocalView(here=True, broken="too old"), FAILED, "too old"),
    ],
)
def test_what_runs_or_failed_here_counts_before_what_the_lease_says(
    listed: Listing, view: LocalView, state: str, words: str
) -> None:
    row = listed_row(listed, view, OWN, NOW)
    assert (row.state, row.words, row.here) == (state, words, view.here)


@pytest.mark.parametrize(
    ("listed", "owner", "address", "until"),
    [
        (OTHERS, "two", "two:1", NOW + 9.0),
        (OWN_LEASE, "one", "one:1", NOW + 9.0),
        (listing(OTHER, 0.0), "", "", 0.0),
        (NOBODYS, "", "", 0.0),
    ],
)
def test_an_owner_is_one_only_while_its_lease_runs(
    listed: Listing, owner: str, address: str, until: float
) -> None:
    assert listed_row(listed, LocalView(), OWN, NOW) == FlowRow(
        "air",
        7,
        5.0,
        owner,
        address,
        until,
        3,
        here=False,
        state=listed_row(listed, LocalView(), OWN, NOW).state,
        words=listed_row(listed, LocalView(), OWN, NOW).words,
        profile="eager",
        shadow=True,
    )


ASIDE = SetAside("air", RowState.OUTDATED, "submit it again", 7, 5.0)


def test_a_row_that_is_set_aside_says_why_and_what_helps() -> None:
    assert set_aside_row(ASIDE, OWN, here=False) == FlowRow(
        "air", 7, 0.0, "", "", 0.0, 0, here=False, state="outdated", words="submit it again"
    )


def test_what_runs_on_beside_a_row_that_is_set_aside_is_this_agents() -> None:
    row = set_aside_row(ASIDE, OWN, here=True)
    assert (row.here, row.owner, row.address) == (True, "one", "one:1")
    assert row.words == "submit it again; what runs here is what was there before"


def test_what_is_not_run_is_named_by_its_state() -> None:
    assert {"failed", "damaged", "unsigned", "outdated"} == NOT_RUN


class Asked:
    """What runs here, and how often its threads were asked."""

    def __init__(self, *hosted: str, broken: str | None = None, answer: Any = STATUS) -> None:
        self.asked: list[str] = []
        self._answer = answer
        leases = SimpleNamespace(
            hosted=lambda name: SimpleNamespace(name=name) if name in hosted else None,
            broken=lambda _: broken,
        )
        self.rows = FlowRows(OWN, cast("Any", leases), self._status)

    async def _status(self, flow: Any) -> FlowStatus:
        self.asked.append(flow.name)
        if isinstance(self._answer, Exception):
            raise self._answer
        return cast("FlowStatus", self._answer)


def test_a_thread_is_asked_where_the_dataflow_runs_here() -> None:
    asked = Asked("air")
    row = asyncio.run(asked.rows.row(OWN_LEASE))
    assert (asked.asked, row.state, row.here) == (["air"], "paused", True)


@pytest.mark.parametrize("asked", [Asked(), Asked(broken="too old")])
def test_no_thread_is_asked_where_it_does_not(asked: Asked) -> None:
    row = asyncio.run(asked.rows.row(OTHERS))
    assert (asked.asked, row.here) == ([], False)


def test_a_thread_that_begins_as_its_dataflow_is_found_broken_is_not_asked() -> None:
    asked = Asked("air", broken="too old")
    row = asyncio.run(asked.rows.row(OWN_LEASE))
    assert (asked.asked, row.state, row.here) == ([], FAILED, True)


@pytest.mark.parametrize("error", [Unreachable("HBase is away"), Refused("it has been stopped")])
def test_a_thread_that_does_not_answer_says_why(error: Exception) -> None:
    row = asyncio.run(Asked("air", answer=error).rows.row(OWN_LEASE))
    assert (row.state, row.words, row.here) == (WAITING, str(error), True)


def test_all_rows_are_listed_by_name() -> None:
    zoo = replace(OTHERS, definition=replace(DEFINITION, name="zoo"))
    found = Listings((zoo, OWN_LEASE), (replace(ASIDE, name="bog"), replace(ASIDE, name="ant")))
    rows = asyncio.run(Asked("bog").rows.every(found))
    assert [(row.name, row.here) for row in rows] == [
        ("air", False),
        ("ant", False),
        ("bog", True),
        ("zoo", False),
    ]
