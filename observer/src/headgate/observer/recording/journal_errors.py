"""Why a journal cannot be used, or does not take a request."""


class JournalError(Exception):
    """The journal cannot be used; the message names the directory and the cure."""


class JournalInUse(JournalError):
    """Another observer holds the directory."""


class JournalFull(Exception):
    """The journal has reached its limit: Kafka does not take events as fast as they come."""


class TablesFull(JournalFull):
    """Nobody knows which tables are watched, and too many were written to meanwhile."""
