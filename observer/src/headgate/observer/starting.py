"""What whoever starts an observer learns: where it can be reached, or why it could not begin."""

from __future__ import annotations


class StartError(RuntimeError):
    """The observer cannot begin to serve; the message says what is missing and where."""


class ObserverAddresses:
    """Where the observer can be reached; ``host:port`` each, empty where there is none."""

    def __init__(self) -> None:
        self.thrift1 = ""
        self.thrift2 = ""
        self.admin = ""

    def by_name(self) -> dict[str, str]:
        """Return those that there are, by name."""
        found = {"thrift1": self.thrift1, "thrift2": self.thrift2, "admin": self.admin}
        return {name: address for name, address in found.items() if address}

    def line(self) -> str:
        """Return the line that says that clients are accepted."""
        return " ".join(["ready", *(f"{name}={at}" for name, at in self.by_name().items())])
