"""Records of attempts, the newest first: which are to be saved, and which to be deleted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.parts import Part
from headgate.agent.state.run_records import RunOutcome, RunRecord
from headgate.agent.state.saved_state import FlowProgress
from headgate.flows import RunIdentity
from headgate.spark import RunKey


class RunHistory(Part):
    """The records of one dataflow's attempts.

    Args:
        name: of the dataflow.
        context: the ports, and how many records are kept.
        progress: as it was saved.
        records: those that were saved.
    """

    def __init__(
        self,
        name: str,
        context: RuntimeContext,
        progress: FlowProgress,
        records: Iterable[RunRecord],
    ) -> None:
        self._name = name
        self._context = context
        self._next = progress.next_record
        before = tuple(records)
        self.records: deque[RunRecord] = deque(before[: context.history], maxlen=context.history)
        """The newest first."""
        self._changed: dict[int, RunRecord] = {}
        self._given_up: dict[int, RunKey] = {}
        """Records that are too old, by number, and their runs."""
        self._forgettable: dict[int, RunKey | None] = {}
        """Those of them that can go; None where another record of the run is kept."""
        for old in before[context.history :]:
            self._give_up(old)

    def saved(self) -> dict[str, object]:
        """Return fields of ``FlowProgress``."""
        return {"next_record": self._next}

    @property
    def changed(self) -> tuple[RunRecord, ...]:
        """Records that are to be saved."""
        return tuple(self._changed.values())

    def add(self, **fields: Any) -> RunRecord:
        """Begin the record of an attempt, of which all fields are given but its number."""
        record = RunRecord(number=self._next, **fields)
        self._next += 1
        oldest = self.records[-1] if len(self.records) == self.records.maxlen else None
        self.records.appendleft(record)
        self._changed[record.number] = record
        if oldest is not None:
            self._give_up(oldest)
        return record

    def change(self, record: RunRecord, **changes: Any) -> RunRecord:
        """Return a record with other fields; it is saved if it is still kept."""
        new = msgspec.structs.replace(record, **changes)
        for place, known in enumerate(self.records):
            if known.number == new.number:
                self.records[place] = new
                self._changed[new.number] = new
                break
        return new

    def lose_unfinished(self, now: float) -> None:
        """Note that attempts of the agent before this one came to nothing here."""
        for record in tuple(self.records):
            if record.outcome in {RunOutcome.WAITING, RunOutcome.RUNNING}:
                reason = "its agent ended before it did"
                self.change(record, outcome=RunOutcome.LOST, ended=now, reason=reason)

    def last(self) -> dict[str, RunRecord]:
        """Return the newest record of each action."""
        found: dict[str, RunRecord] = {}
        for record in self.records:
            found.setdefault(record.action, record)
        return found

    def identities(self) -> dict[str, RunIdentity]:
        """Return what the newest run of each action computed of which that is known."""
        found: dict[str, RunIdentity] = {}
        for record in self.records:
            if record.identity.hash:
                found.setdefault(record.action, record.identity)
        return found

    def _give_up(self, old: RunRecord) -> None:
        """Have a record that is too old deleted, and what the ledger has of its run.

        Until the next checkpoint the ledger alone may know that a run has committed. So neither
        goes before a checkpoint in which the run is over; and no launch waits for it.
        """
        self._changed.pop(old.number, None)
        self._given_up[old.number] = RunKey(self._name, old.action, old.run)

    def were_saved(self, is_active: Callable[[RunKey], bool]) -> None:
        """Note a checkpoint: what was given up of runs that are over in it can go."""
        self._changed.clear()
        for number, key in tuple(self._given_up.items()):
            if not is_active(key):
                del self._given_up[number]
                kept = any(record.run == key.run for record in self.records)
                self._forgettable[number] = None if kept else key

    def forget_old(self) -> None:
        """Delete what was given up and can go."""
        old, self._forgettable = self._forgettable, {}
        for key in dict.fromkeys(old.values()):
            if key is not None:
                self._context.ledger.forget(key)
        if old:
            self._context.store.trim(old)
