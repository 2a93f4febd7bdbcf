"""A runnable for loops: a flow that answers to what was read of the others some runs ago."""

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


class Lag(PureRunnable):
    """Run i, from 0 on, reads the next increment of each flow, but of one with lag n the (i−n)th.

    Before that, such a flow is not waited for: so a loop starts. With a lag of 1, increment i is
    read with what the loop has made of increment i−1 (BIPS, section 3.1 and Figure 4: the median).
    Increments are counted as the stage reads them, whenever it was added to the dataflow.
    """

    def __init__(self, lags: Mapping[str, int]) -> None:
        self.lags = dict(lags)
        """By flow, in runs; the others have none."""

    def judge(self, flows: Flows, state: RunnableState) -> Take | Waits:
        """Return what belongs together, once it is there."""
        run = number_in(state, "run")
        wanted = tuple(name for name in flows if run >= self.lags.get(name, 0))
        empty = tuple(name for name in wanted if name not in unread(flows))
        if empty:
            return Waits(f"an increment of {listed(empty)} for its run {run}", empty)
        return Take.oldest(wanted, {"run": min(run + 1, max(self.lags.values()))})
