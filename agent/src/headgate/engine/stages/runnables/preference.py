"""A runnable that prefers some flows to others, by ratio and without starving any."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.engine.stages.connector import Take
from headgate.engine.stages.runnables.runnable import (
    Flows,
    PureRunnable,
    RunnableState,
    Waits,
    listed,
    number_in,
    unread,
)


class Prefer(PureRunnable):
    """One increment of one flow is read at a time; by rounds, each flow has a number of turns.

    With ``{"queries": 4, "updates": 1}`` four queries come before an update (BIPS, section 5.2). A
    flow that has nothing is passed over, so that nobody waits for it; one that has something waits
    for the turns that the others have in two rounds, at most.
    """

    def __init__(self, turns: Mapping[str, int]) -> None:
        self.turns = dict(sorted(turns.items(), key=lambda one: -one[1]))
        """By flow, the most preferred first."""

    def judge(self, flows: Flows, state: RunnableState) -> Take | Waits:
        """Return the first flow with an increment that has turns left in this round."""
        found = [name for name in self.turns if name in unread(flows)]
        if not found:
            return Waits(f"an increment of {listed(tuple(flows), 'or')}", tuple(flows))
        used = {name: number_in(state, name) for name in state if name in self.turns}
        left = [name for name in found if used.get(name, 0) < self.turns[name]]
        if not left:
            used, left = {}, found
        chosen = left[0]
        return Take.oldest((chosen,), {**used, chosen: used.get(chosen, 0) + 1})
