"""What holds for all tests."""

import signal

from hypothesis import settings

# How long an example takes says more about the machine than about the code; pytest's own time limit
# ends what hangs.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")

# A shell starts what runs in the background with Ctrl-C ignored, and every child inherits that;
# tests that interrupt a command need it as a person at a terminal has it.
signal.signal(signal.SIGINT, signal.default_int_handler)
