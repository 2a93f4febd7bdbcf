"""A runnable that keeps flows together by framing key, as a temporal join needs it."""

from __future__ import annotations

from headgate.engine.stages.connector import Take
from headgate.engine.stages.runnables.runnable import (
    Flows,
    PureRunnable,
    RunnableState,
    Waits,
    listed,
    oldest_keys,
    unread,
)


class Aligned(PureRunnable):
    """Of those that wait longest, the ones with the smallest key are read and removed together.

    So a flow that has nothing for a day does not fall behind the others (BIPS, section 2.6). Keys
    are compared as numbers, or as text such as ``2024-05-01``.
    """

    def judge(self, flows: Flows, state: RunnableState) -> Take | Waits:
        """Return those with the smallest key, once every flow has an increment."""
        found = unread(flows)
        empty = tuple(name for name in flows if name not in found)
        if empty:
            return Waits(f"an increment of {listed(empty)}: its key may be the smallest", empty)
        keys = oldest_keys(flows)
        numbers = {name: key for name, key in keys.items() if isinstance(key, int)}
        words = {name: key for name, key in keys.items() if isinstance(key, str)}
        if numbers and words:
            return Waits(
                f"framing keys that can be compared: those of {listed(tuple(numbers))} are "
                f"numbers, those of {listed(tuple(words))} are text; give both the same framing",
                (),
            )
        aligned = _smallest(numbers) or _smallest(words)
        return Take.oldest(aligned, state)


def _smallest(keys: dict[str, int] | dict[str, str]) -> tuple[str, ...]:
    least = min(keys.values(), default=None)
    return tuple(name for name, key in keys.items() if key == least)
