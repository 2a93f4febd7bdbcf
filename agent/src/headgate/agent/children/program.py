"""The child's side: a program that answers frames.

Programs that are run as files import this module, so it loads nothing of the agent.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from headgate.agent.children.frames import read_frame, write_frame


@contextmanager
def answers() -> Iterator[BinaryIO]:
    """Lend the stream to the parent. What the process prints goes to its error output instead."""
    with os.fdopen(os.dup(1), "wb") as stream:
        os.dup2(2, 1)
        yield stream


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer questions of users' code until nobody asks any more.

    The first argument of the process limits how long a question may take, in seconds: the process
    ends itself then, should its parent be dead. The other arguments are directories of the user's
    modules.

    Args:
        answer: returns the answer to a question.
    """
    with answers() as stream:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the agent's
        seconds, *roots = sys.argv[1:]
        sys.path[:0] = roots
        while True:
            try:
                question = read_frame(sys.stdin.buffer)
            except EOFError:
                return
            signal.setitimer(signal.ITIMER_REAL, float(seconds))
            said = answer(question)
            signal.setitimer(signal.ITIMER_REAL, 0)
            write_frame(stream, said)
