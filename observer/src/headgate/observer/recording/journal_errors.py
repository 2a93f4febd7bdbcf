"""Why a journal cannot be used, or does not take a request."""


class JournalError(Exception):
    """The journal cannot be used; the message names the directory and the cure."""


class JournalInUse(JournalError):
    """Another observer holds the directory."""


class JournalFull(Exception):
    """The journal has reached its limit: Kafka does not take events as fast as they come."""


class TableFull(JournalFull):
    """No more events of one table are kept, whatever room there is: the message says why."""
