"""A process ends when it is told to, whatever its threads are doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from headgate.agent.ending import ASKING, Ending

WAIT = 30.0  # seconds after which a test has failed

# A thread takes the signal, as the system may have any thread do, while the main one waits.
TAKEN_BY_ANOTHER = """
import signal, sys, threading, time
from headgate.agent.ending import Ending

def take():
    time.sleep(0.2)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

with Ending() as ending:
    threading.Thread(target=take, daemon=True).start()
    assert ending.wait()
    print("signalled" if ending.signalled else "by itself")
"""
# Each step of the main thread on its way through the wait is met by a signal: what runs there then
# must need nothing that the thread holds.
AT_EACH_STEP = """
import os, signal, sys
from headgate.agent.ending import Ending

def heard(step):
    def trace(frame, event, argument):
        nonlocal step
        frame.f_trace_opcodes = True
        if event == "opcode":
            step -= 1
            if step == 0:
                os.kill(os.getpid(), signal.SIGTERM)
        return trace

    with Ending() as ending:
        sys.settrace(trace)
        asked = ending.wait(0.01)
        sys.settrace(None)
        return step > 0 or asked or ending.wait(0), step > 0

for step in range(1, 1000):
    right, over = heard(step)
    assert right, step
    if over:
        break
print(step)
"""


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT, check=True
    ).stdout.strip()


def test_a_signal_that_another_thread_takes_wakes_the_main_one() -> None:
    assert run(TAKEN_BY_ANOTHER) == "signalled"


def test_a_signal_at_any_step_of_the_wait_is_heard() -> None:
    assert int(run(AT_EACH_STEP)) > 5


@pytest.mark.parametrize("number", ASKING)
def test_signals_ask_for_the_end_and_are_handed_back(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in ASKING]
    with Ending() as ending:
        assert not ending.wait(0)
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert ending.wait(WAIT)
        assert ending.wait(WAIT)  # it stays so
        assert ending.signalled
    assert [signal.getsignal(each) for each in ASKING] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_what_ends_by_itself_is_told_from_a_signal() -> None:
    with Ending() as ending:
        thread = threading.Thread(target=ending.begin)
        thread.start()
        assert ending.wait(WAIT)
        thread.join()
        os.kill(os.getpid(), signal.SIGTERM)
        assert not ending.signalled


def test_who_asks_without_end_is_never_held_up() -> None:
    with Ending() as ending:
        for _ in range(100_000):
            ending.begin()
        os.kill(os.getpid(), signal.SIGTERM)
        assert ending.wait(WAIT)


def test_nobody_asks() -> None:
    with Ending() as ending:
        began = time.monotonic()
        assert not ending.wait(0.05)
        assert time.monotonic() - began >= 0.05
