"""What programs that run users' code have in common: questions in, answers out, one by one.

Both are frames of a length and a message. It is imported by files that are run by themselves, and
loads nothing of the agent.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable
from typing import Final

LENGTH: Final = struct.Struct(">Q")
"""What a frame begins with: the bytes of its message."""


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer what comes by the standard input until nobody asks any more.

    Arguments of the process are the seconds after which code that does not end is ended with the
    process, should nobody be there any more who ends it, and the directories of the user's modules.
    What code prints goes to the error output.

    Args:
        answer: returns the answer to a question.
    """
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the agent's
        seconds, *roots = sys.argv[1:]
        sys.path[:0] = roots
        questions = sys.stdin.buffer
        while len(head := questions.read(LENGTH.size)) == LENGTH.size:
            question = questions.read(LENGTH.unpack(head)[0])
            signal.setitimer(signal.ITIMER_REAL, float(seconds))
            said = answer(question)
            signal.setitimer(signal.ITIMER_REAL, 0)
            answers.write(LENGTH.pack(len(said)) + said)
            answers.flush()
