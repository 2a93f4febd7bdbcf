"""When a session that does nothing ends, and when it starts again. Pure: times come in."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

_LEAST_LEAD: Final = 5.0
"""Seconds: the least by which a session starts ahead of its run, however soon it was warm."""
_LEAD: Final = 2.0
"""Times as long as the last start took: the next one may meet a busier machine."""


def lead_of(took: float) -> float:
    """Return how many seconds ahead of a run a session starts that took so many to get warm."""
    return max(_LEAST_LEAD, _LEAD * took)


class Rest(Struct, frozen=True):
    """For how long a session may do nothing. All times are seconds of one monotonic clock."""

    idle: float
    """Seconds without a run after which a session ends; 0: it stays."""

    def ends(self, since: float, due: float | None, lead: float) -> float | None:
        """Return when a session ends; None where it stays as things stand.

        Args:
            since: when it was warm, or its last run ended.
            due: when the next run is foreseen, if one is.
            lead: how many seconds ahead of a run a session is to start.
        """
        if not self.idle:
            return None
        at = since + self.idle
        if due is not None and due - lead <= at:
            # It would have to be there by then: what does not run is waited for once more.
            return max(since, due) + self.idle
        return at

    def starts(self, since: float, due: float | None, lead: float) -> float | None:
        """Return when a session that ended starts again unasked; None where nothing is foreseen.

        Args:
            since: when it ended.
            due: when the next run is foreseen; what has passed by then is none.
            lead: how many seconds ahead of a run a session is to start.
        """
        if due is None or due <= since:
            return None
        return max(since, due - lead)
