"""What the control topic has said so far: watches, fences, barriers to answer."""

from __future__ import annotations

from collections.abc import Callable

from headgate.events import BarrierRequest, ControlMessage, Fence, ObserverLease, Origin, WatchList
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.table_patterns import TablePatterns


class ControlState:
    """The observer's view of the control topic.

    ``watched`` maps each watched table to whether its values are wanted. While the topic is lost
    (``lost()`` until ``found()``), every table counts as watched; so it does from the moment on
    until which it is known that nobody relies on anything newer having been heard.
    """

    def __init__(
        self,
        notify: NotifyColumns | None = None,
        clock: Callable[[], float] = lambda: 0.0,
        patterns: TablePatterns | None = None,
    ) -> None:
        """Begin with nothing watched but what fits ``patterns``.

        ``notify`` gets what lists ask for; ``clock`` is that of ``trusted_until``, in seconds.
        """
        self._notify = notify
        self._clock = clock
        self.patterns = patterns or TablePatterns()
        self.trusted_until = float("inf")
        """When the observer's lease ends, should nothing of it be heard any more. A process that
        was stopped finds that out here, before it looks at what has come meanwhile."""
        self._lists: dict[str, WatchList] = {}
        self._fences: dict[tuple[str, str], int] = {}
        self.watched: dict[str, bool] = {}
        self.everything = False
        """Whether the topic is lost, so that every table is treated as watched."""
        self.own_epoch = 0
        """The highest epoch seen in this observer's leases, when asked for by name."""

    def apply(self, message: ControlMessage, observer: str) -> BarrierRequest | None:
        """Take a message in; return it if it is a barrier, which asks for an answer."""
        match message:
            case WatchList():
                self._watch(message)
            case Fence():
                key = (message.dataflow, message.action)
                self._fences[key] = max(message.token, self._fences.get(key, 0))
            case BarrierRequest():
                return message
            case ObserverLease():
                if message.observer == observer:
                    self.own_epoch = max(self.own_epoch, message.epoch)
        return None

    def _watch(self, message: WatchList) -> None:
        known = self._lists.get(message.dataflow)
        if known is not None and message.revision < known.revision:
            # Of an agent that does not know yet that another has taken over.
            return
        self._lists[message.dataflow] = message
        watched: dict[str, bool] = {}
        for watch_list in self._lists.values():
            for watch in watch_list.watches:
                watched[watch.table] = watch.values or watched.get(watch.table, False)
        self.watched = watched
        if self._notify is not None:
            self._notify.ask(message, self._lists.values())

    @property
    def watch_lists(self) -> tuple[WatchList, ...]:
        """What each dataflow watches, those that watch nothing any more left out."""
        return tuple(each for each in self._lists.values() if each.watches)

    def lost(self) -> None:
        """Note that the topic cannot be read: what is watched may have changed."""
        self.everything = True

    def found(self) -> None:
        """Note that the topic has been read to its end again."""
        self.everything = False

    def is_watched(self, table: str) -> bool:
        """Return whether writes of the table must be published."""
        return (
            table in self.watched
            or self.everything
            or self._clock() > self.trusted_until
            or self.patterns.match(table)
        )

    def is_named(self, table: str) -> bool:
        """Return whether a table is known to be watched, rather than treated as if it were.

        While the topic is lost no name alone is enough: clients invent them.
        """
        return table in self.watched or (not self.everything and self.patterns.match(table))

    def is_named_by_pattern_alone(self, table: str) -> bool:
        """Return whether nothing but its name has a table watched."""
        others = table in self.watched or self.everything or self._clock() > self.trusted_until
        return not others and self.patterns.match(table)

    def wants_values(self, table: str) -> bool:
        """Return whether the values of the table's cells must be published."""
        return self.watched.get(table, True) or self.patterns.match(table)

    def fence_above(self, origin: Origin) -> int | None:
        """Return the fence that the origin's token is below; None if it may write."""
        fence = self._fences.get((origin.dataflow, origin.action))
        return fence if fence is not None and origin.token < fence else None
