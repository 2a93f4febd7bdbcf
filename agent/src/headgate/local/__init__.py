"""The local stack: a real HBase with both Thrift servers and Kafka, for development and tests.

``LocalStack().up()`` starts what is missing and returns the addresses; everything it needs but
Java is fetched once, pinned by checksum.
"""

from headgate.local.errors import (
    ChecksumMismatchError,
    ConfigurationMissingError,
    InstanceBusyError,
    InstanceNameError,
    JarsUnavailableError,
    JavaUnfitError,
    LocalStackError,
    NoFreePortError,
    PartFailedError,
    RecordDamagedError,
)
from headgate.local.java import find_java
from headgate.local.places import default_cache, default_home
from headgate.local.processes.parts import Part
from headgate.local.processes.processes import Lifetime, ProcessIdentity
from headgate.local.processes.processes import start as start_process
from headgate.local.progress import Listener, Progress
from headgate.local.stack import (
    Address,
    Addresses,
    LocalStack,
    PartState,
    PartStatus,
    StackStatus,
)
from headgate.settings import Java

__all__ = [
    "Address",
    "Addresses",
    "ChecksumMismatchError",
    "ConfigurationMissingError",
    "InstanceBusyError",
    "InstanceNameError",
    "JarsUnavailableError",
    "Java",
    "JavaUnfitError",
    "Lifetime",
    "Listener",
    "LocalStack",
    "LocalStackError",
    "NoFreePortError",
    "Part",
    "PartFailedError",
    "PartState",
    "PartStatus",
    "ProcessIdentity",
    "Progress",
    "RecordDamagedError",
    "StackStatus",
    "default_cache",
    "default_home",
    "find_java",
    "start_process",
]
