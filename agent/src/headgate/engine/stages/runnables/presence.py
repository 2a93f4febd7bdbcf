"""Runnables that look only at whether something waits: on all flows, or on any."""

from __future__ import annotations

from headgate.engine.stages.connector import Take
from headgate.engine.stages.runnables.runnable import (
    Flows,
    PureRunnable,
    RunnableState,
    Waits,
    listed,
    unread,
)


class RunnableAll(PureRunnable):
    """One unread increment of each flow is read and removed: the default (BIPS, section 2.6).

    A stage without input flows can always run.
    """

    def judge(self, flows: Flows, state: RunnableState) -> Take | Waits:
        """Return one of each, once all have one."""
        found = unread(flows)
        if len(found) == len(flows):
            return Take.oldest(found, state)
        empty = tuple(name for name in flows if name not in found)
        return Waits(f"an increment of {listed(empty)}", empty)


class RunnableAny(PureRunnable):
    """One unread increment is read and removed of each flow that has one."""

    def judge(self, flows: Flows, state: RunnableState) -> Take | Waits:
        """Return one of each that has one."""
        found = unread(flows)
        if found:
            return Take.oldest(found, state)
        return Waits(f"an increment of {listed(tuple(flows), 'or')}", tuple(flows))
