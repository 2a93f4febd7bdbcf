"""Whether a submitted dataflow has started, or is waited for: decisions without I/O.

Seconds waited are those of a clock that never leaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headgate.agent.dataflow.views import Phase
from headgate.agent.errors import Refused, Unreachable
from headgate.agent.ownership.flow_rows import ELSEWHERE, NOT_RUN, FlowRow

NO_OBSERVER: Final = 10.0
"""Seconds a submit waits for a first observer before it says that there is none."""
FIRST_PAUSE: Final = 0.02
"""Seconds until the second look at a dataflow: most have started by then."""
LONGEST_PAUSE: Final = 0.5
"""Seconds between two looks at one that starts slowly."""

_WATCHING: Final = (Phase.RUNNING, Phase.PAUSED)


def pauses() -> Iterator[float]:
    """Yield the seconds between looks at something that takes a moment, or a minute."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(LONGEST_PAUSE, pause * 1.5)


def has_started(row: FlowRow, waited: float, limit: float, *, observed: bool) -> bool:
    """Return whether this agent's wait is over: the watches are in effect, or another has it.

    Args:
        row: the dataflow's, now.
        waited: seconds since it was saved.
        limit: seconds to wait at most.
        observed: whether any observer is alive, without which no watch takes effect.

    Raises:
        Refused: it cannot run.
        Unreachable: it has not started in time.
    """
    if row.state in _WATCHING or row.state == ELSEWHERE:
        return True
    if row.state in NOT_RUN:
        raise Refused(f"dataflow {row.name} cannot run: {row.words}")
    longest = limit if observed else min(limit, NO_OBSERVER)
    require_patience(row, row.words or row.state, waited, longest)
    return False


def require_patience(row: FlowRow, reason: str, waited: float, limit: float) -> None:
    """See that a dataflow that has not started, for a reason, may be waited for.

    Raises:
        Unreachable: it was for too long.
    """
    if waited > limit:
        raise Unreachable(
            f"dataflow {row.name} is saved but does not run yet: {reason}; it starts by itself "
            "when that changes"
        )


def watches(answer: bytes, *, found: bool) -> bool:
    """Return whether a dataflow's watches are in effect, by its owner's answer.

    Args:
        answer: where the owner has found it, JSON, a view of the dataflow.
        found: whether it has.
    """
    return found and msgspec.json.decode(answer)["status"]["phase"] in _WATCHING


def not_started_by(row: FlowRow) -> str:
    """Return the reason to wait where the owner answers."""
    return f"agent {row.owner} has not started it"


def silent_starter(row: FlowRow, reason: object) -> str:
    """Return the reason to wait where the owner does not answer."""
    return f"agent {row.owner} does not answer at {row.address}: {reason}"
