"""One input under watch: it may be taken or refused, but not crash, hang or fill the memory."""

from __future__ import annotations

import signal
import time
import tracemalloc
from collections.abc import Callable
from types import FrameType

from msgspec import Struct

HANG_SECONDS = 5.0  # of the processor, for one input of at most 64 KiB
KEPT_BYTES = 8 << 20  # that an input may take, however small
BYTES_PER_BYTE = 512  # that each of its bytes may take beyond that: a list of small objects
_TRACED = 8  # of so many inputs, one has its memory measured: that makes it slower


class Target(Struct, frozen=True):
    """What is fuzzed.

    Attributes:
        check: takes an input; asserts what must hold for it.
        refusals: the only exceptions that may come out of it.
        seeds: inputs to begin with.
    """

    name: str
    check: Callable[[bytes], None]
    refusals: tuple[type[Exception], ...]
    seeds: Callable[[], list[bytes]]


class Finding(Exception):
    """An input that shows a defect."""

    def __init__(self, target: str, data: bytes, reason: str) -> None:
        super().__init__(f"{target}: {reason}; the input is {data.hex()}")
        self.data = data


class Hang(BaseException):
    """Raised inside of what hangs; nothing there may catch it."""


def _hangs(_signal: int, _frame: FrameType | None) -> None:
    raise Hang


class Watch:
    """Gives inputs to one target, and counts what becomes of them."""

    def __init__(self, target: Target, hang_seconds: float = HANG_SECONDS) -> None:
        self._target = target
        self._hang_seconds = hang_seconds
        self.taken = 0
        self.refused = 0
        self.slowest = 0.0
        """Seconds of the processor that one input took."""
        self.largest = 0
        """Bytes that one input took at a time, of those measured."""
        signal.signal(signal.SIGVTALRM, _hangs)

    @property
    def executions(self) -> int:
        return self.taken + self.refused

    def run(self, data: bytes) -> None:
        """Give one input to the target.

        Raises:
            Finding: it crashed, hung, took too much memory, or something did not hold.
        """
        traced = self.executions % _TRACED == 0
        if traced:
            tracemalloc.start()
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, self._hang_seconds)
        try:
            self._target.check(data)
        except self._target.refusals:
            self.refused += 1
        except Hang as error:
            text = f"no end after {self._hang_seconds:g} s"
            raise Finding(self._target.name, data, text) from error
        except Exception as error:
            raise Finding(self._target.name, data, f"{type(error).__name__}: {error}") from error
        else:
            self.taken += 1
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self.slowest = max(self.slowest, time.process_time() - begun)
            if traced:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                self.largest = max(self.largest, peak)
        if traced and peak > KEPT_BYTES + BYTES_PER_BYTE * len(data):
            text = f"{peak} bytes of memory for an input of {len(data)}"
            raise Finding(self._target.name, data, text)
