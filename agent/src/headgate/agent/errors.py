"""What can go wrong in the agent, each with its cure in the message."""

from __future__ import annotations


class AgentError(Exception):
    """Base of everything the agent raises on purpose."""


class Unreachable(AgentError):
    """HBase or Kafka did not answer within the time the configuration allows."""


class HBaseRefused(AgentError):
    """HBase refuses a request, and would refuse it again."""


class KafkaRefused(AgentError):
    """Kafka refuses a request, and would refuse it again."""


class Fenced(AgentError):
    """Another agent took the dataflow over: this one may neither save nor start anything of it."""


class DamagedState(AgentError):
    """A saved state that does not agree with itself."""

    def __init__(self, dataflow: str, reason: str) -> None:
        super().__init__(
            f"the saved state of dataflow {dataflow} is not whole: {reason}; submit the dataflow "
            "again: it then begins anew, and its steps run once more"
        )


class Held(AgentError):
    """Another agent holds the dataflow's lease."""

    def __init__(self, dataflow: str, owner: str, address: str, until: float) -> None:
        super().__init__(
            f"dataflow {dataflow} is with agent {owner} at {address}; this agent takes over when "
            "its lease ends without renewal"
        )
        self.dataflow = dataflow
        self.owner = owner
        self.address = address
        self.until = until


class UnknownDataflow(AgentError):
    """No dataflow of that name was submitted."""


class Refused(AgentError):
    """A request that can not be carried out as things stand; the message says what would help."""
