"""What holds for all tests."""

from hypothesis import settings

# How long an example takes says more about the machine than about the code; pytest's own time limit
# ends what hangs.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")
