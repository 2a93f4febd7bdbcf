"""Whether a submitted dataflow has started, from looks at it and the seconds waited."""

from __future__ import annotations

from itertools import islice, pairwise

import msgspec
import pytest
from msgspec.structs import replace

from headgate.agent.api.starting import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    NO_OBSERVER,
    has_started,
    not_started_by,
    pauses,
    require_patience,
    silent_starter,
    watches,
)
from headgate.agent.dataflow.views import Phase
from headgate.agent.errors import Refused, Unreachable
from headgate.agent.ownership.flow_rows import ELSEWHERE, NOT_RUN, WAITING, FlowRow

ROW = FlowRow("air", 1, 0.0, "two", "two:1", 9.0, 1, here=False, state=WAITING, words="no observer")
LIMIT = 60.0
NOT_YET = "dataflow air is saved but does not run yet: {}; it starts by itself when that changes"


def started(row: FlowRow, waited: float = 0.0, *, limit: float = LIMIT, observed=True) -> bool:
    return has_started(row, waited, limit, observed=observed)


@pytest.mark.parametrize("state", [Phase.RUNNING.value, Phase.PAUSED.value, ELSEWHERE])
def test_it_has_started_where_its_watches_are_in_effect_or_another_agent_has_it(
    state: str,
) -> None:
    assert started(replace(ROW, state=state))
    assert started(replace(ROW, state=state), 1e9, observed=False)


@pytest.mark.parametrize("state", sorted(NOT_RUN))
def test_it_is_refused_where_it_cannot_run(state: str) -> None:
    with pytest.raises(Refused) as caught:
        started(replace(ROW, state=state, words="sign it"))
    assert str(caught.value) == "dataflow air cannot run: sign it"


@pytest.mark.parametrize("state", [WAITING, Phase.STARTING.value, Phase.STOPPING.value])
@pytest.mark.parametrize(
    ("waited", "limit", "observed", "waits"),
    [
        (0.0, LIMIT, True, True),
        (LIMIT, LIMIT, True, True),
        (LIMIT + 0.01, LIMIT, True, False),
        (NO_OBSERVER, LIMIT, False, True),
        (NO_OBSERVER + 0.01, LIMIT, False, False),
        (NO_OBSERVER + 0.01, LIMIT, True, True),
        # A limit below the time that observers have is a limit all the same.
        (2.0, 2.0, False, True),
        (2.01, 2.0, False, False),
    ],
)
def test_it_is_waited_for_until_the_limit_and_less_long_without_an_observer(
    state: str, waited: float, limit: float, observed: bool, waits: bool
) -> None:
    row = replace(ROW, state=state)
    if waits:
        assert not started(row, waited, limit=limit, observed=observed)
        return
    with pytest.raises(Unreachable) as caught:
        started(row, waited, limit=limit, observed=observed)
    assert str(caught.value) == NOT_YET.format("no observer")


def test_the_state_is_the_reason_where_there_are_no_words() -> None:
    with pytest.raises(Unreachable) as caught:
        started(replace(ROW, state="starting", words=""), LIMIT + 1)
    assert str(caught.value) == NOT_YET.format("starting")


def test_an_owner_is_waited_for_until_the_limit() -> None:
    require_patience(ROW, not_started_by(ROW), LIMIT, LIMIT)
    with pytest.raises(Unreachable) as caught:
        require_patience(ROW, not_started_by(ROW), LIMIT + 0.01, LIMIT)
    assert str(caught.value) == NOT_YET.format("agent two has not started it")


def test_an_owner_that_does_not_answer_is_named_with_its_address() -> None:
    assert silent_starter(ROW, OSError("refused")) == "agent two does not answer at two:1: refused"


@pytest.mark.parametrize("phase", Phase)
def test_watches_are_in_effect_where_their_owner_says_so(phase: Phase) -> None:
    answer = msgspec.json.encode({"status": {"phase": phase}})
    assert watches(answer, found=True) is (phase in {Phase.RUNNING, Phase.PAUSED})
    assert not watches(answer, found=False)


def test_an_error_of_the_owner_is_no_view() -> None:
    assert not watches(b'{"error": "it is with no agent"}', found=False)
    assert not watches(b"<html>502 Bad Gateway</html>", found=False), "of a proxy in between"


def test_pauses_lengthen_up_to_the_longest() -> None:
    found = list(islice(pauses(), 30))
    assert found[0] == FIRST_PAUSE
    assert found[1] == pytest.approx(1.5 * FIRST_PAUSE)
    assert all(a < b for a, b in pairwise(found) if b < LONGEST_PAUSE)
    assert found[-1] == LONGEST_PAUSE == max(found)
