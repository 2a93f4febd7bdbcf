"""What is said on the control topic, handed to those in the observer that it concerns."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from headgate.events import Gate, ObserverLease
from headgate.observer.control.barriers import BarrierResponder
from headgate.observer.control.gates import WriteGates
from headgate.observer.control.lease import LeaseRenewer
from headgate.observer.control.state import ControlState
from headgate.observer.control.table_patterns import TablePatterns
from headgate.observer.control.topic import Heard
from headgate.observer.publishing.publisher import Publisher

_BARRIER_SECONDS: Final = 60.0  # agents ask again long before for what they still wait for


class Hearing:
    """Applies the messages of the control topic, in their order."""

    def __init__(
        self,
        observer: str,
        caught_up: asyncio.Event,
        *,
        control: ControlState,
        gates: WriteGates,
        barriers: BarrierResponder,
        lease: LeaseRenewer,
        publisher: Publisher,
    ) -> None:
        """Apply them for an observer; ``caught_up`` is set once all earlier ones were heard."""
        self._observer = observer
        self._caught_up = caught_up
        self._control = control
        self._gates = gates
        self._barriers = barriers
        self._lease = lease
        self._publisher = publisher

    def hear(self, heard: Heard) -> None:
        """Apply what was said."""
        oldest = time.time() - _BARRIER_SECONDS
        for said, message in heard:
            barrier = self._control.apply(message, self._observer)
            if isinstance(message, Gate):
                # By the clock of who said it: this host's may be set meanwhile.
                live = self._caught_up.is_set() and said > 0
                self._gates.apply(message, message.until - (said if live else time.time()))
            # Somebody may wait for one that was asked for while no observer was there to hear it.
            if barrier is not None and (self._caught_up.is_set() or said >= oldest):
                self._barriers.answer(barrier)
            if isinstance(message, ObserverLease):
                passed = max(0.0, time.time() - said) if said > 0 else 0.0
                self._lease.hear(message, message.seconds - passed)
        self._gates.tend()
        for table in self._control.watched:
            self._publisher.prepare(table, values=self._control.wants_values(table))
        # One that no list names any more may still be watched for its name.
        self._publisher.publish_values(self._control.wants_values)

    def watch_by_pattern(self, patterns: TablePatterns) -> None:
        """Have other tables watched for their names."""
        self._control.patterns = patterns
        self._publisher.publish_values(self._control.wants_values)
