"""How far a part has come that puts its data in order before it answers, by its log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec


class RecoveryState(msgspec.Struct, frozen=True):
    """How far a recovery has come.

    Attributes:
        steps: Lines of the log that each stand for some work done; it grows while work goes on.
        done: How many logs are whole again, of ``total``; 0 of 0 before they are counted.
        ended: Nothing is left to recover.
    """

    steps: int = 0
    done: int = 0
    total: int = 0
    ended: bool = False

    @property
    def is_under_way(self) -> bool:
        """Say whether it has begun and not ended."""
        return self.steps > 0 and not self.ended


class RecoveryLog(msgspec.Struct, frozen=True):
    """What a part's log says while it recovers.

    Attributes:
        step: Stands in each line that is about a piece of the work.
        counted: A line that says how much is done of how much.
        ended: Stands in the line after which nothing is left.
    """

    step: bytes
    counted: re.Pattern[bytes]
    ended: bytes

    def state(self, log: Path) -> RecoveryState:
        """Return how far it has come by now; nothing has begun where there is no log."""
        try:
            text = log.read_bytes()
        except FileNotFoundError:
            return RecoveryState()
        counts = self.counted.findall(text)
        done, total = counts[-1] if counts else (0, 0)
        return RecoveryState(text.count(self.step), int(done), int(total), self.ended in text)


KAFKA_RECOVERY: Final = RecoveryLog(
    step=b"[LogLoader partition=",
    counted=re.compile(rb"\((\d+)/(\d+) completed in "),
    ended=b"LogManager: Loaded ",
)
"""After an end in disorder Kafka reads every log that it had not flushed, before it listens."""
