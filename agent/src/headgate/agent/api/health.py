"""What probes say of an agent, from what is the matter with it: without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from headgate.agent.api.messages import Health, Liveness

_WELL: Final = "ok"


def liveness(stuck: Sequence[str]) -> Liveness:
    """Return whether the agent can get on by itself; HBase that is away is not for it to mend.

    Args:
        stuck: what is the matter with each dataflow whose loop does not turn.
    """
    return Liveness("stuck" if stuck else _WELL, "; ".join(stuck))


def health(
    trouble: str | None, stuck: Sequence[str], dataflows: int, observers: Iterable[str]
) -> Health:
    """Return how the agent is.

    Args:
        trouble: what keeps it from working; None when all is well.
        stuck: what is the matter with each dataflow whose loop does not turn.
        dataflows: how many run here.
        observers: those that are alive.
    """
    found = [*filter(None, [trouble]), *stuck]
    status = "impaired" if found else _WELL
    return Health(status, "; ".join(found), dataflows, tuple(observers))


def code_of(probe: Liveness | Health) -> int:
    """Return the HTTP status by which a probe's caller takes the agent for well or not."""
    return 200 if probe.status == _WELL else 503
