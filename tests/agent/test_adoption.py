"""What the thread that takes dataflows over says of rows that it does not believe."""

from __future__ import annotations

from structlog.testing import capture_logs

from headgate.agent.adoption import Doubts
from headgate.agent.sealed import Definition, Lease, RowState, SetAside
from headgate.agent.store import Listing, Listings

NOTHING = Listings((), ())
FORGED = Listings((), (SetAside("evil", RowState.UNSIGNED, "sign it"),))
DOUBTFUL = Listings(
    (Listing(Definition("flow", "", ".", 1, 0.0), Lease(1, None, 0.0), "no agent signed it"),), ()
)


def said(doubts: Doubts, *found: Listings) -> list[tuple[str, str, str]]:
    """Return what is logged of some looks at the table."""
    with capture_logs() as lines:
        for listings in found:
            doubts.found(listings)
    return [(line["dataflow"], line["state"], line["reason"]) for line in lines]


def test_a_row_that_is_set_aside_is_logged_once_while_it_stands() -> None:
    told = [("evil", "unsigned", "sign it")]
    assert said(Doubts(), FORGED, FORGED, FORGED) == told
    assert said(Doubts(), FORGED, NOTHING, FORGED) == 2 * told


def test_a_lease_that_is_not_believed_is_logged_once_while_it_stands() -> None:
    assert said(Doubts(), DOUBTFUL, DOUBTFUL) == [("flow", "lease", "no agent signed it")]


def test_what_is_set_aside_is_counted_by_why_and_no_longer_than_it_stands() -> None:
    doubts = Doubts()
    none = {"damaged": 0, "unsigned": 0, "outdated": 0, "lease": 0}
    doubts.found(FORGED)
    assert doubts.counts() == none | {"unsigned": 1}
    doubts.found(DOUBTFUL)
    assert doubts.counts() == none | {"lease": 1}
    doubts.found(NOTHING)
    assert doubts.counts() == none
