"""What agents and workers say to each other, whatever carries it.

Messages are JSON, one a line. Requests go to the worker's standard input, replies come back on a
file descriptor of their own, so that nothing a step prints can be taken for a reply.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from headgate.engine import (
    FilesSpec,
    OnChange,
    OnUndecodable,
    RunPurpose,
    TopicSpec,
    WatchedContainer,
)
from headgate.events import Cut, KeyForm, Origin
from headgate.flows import ActionIdentity, RunIdentity
from headgate.spark.ledger import RunKey


class Thrift2Address(Struct, frozen=True):
    """Where HBase is read and written: an observer's Thrift2 listener."""

    host: str
    port: int


class KafkaAddress(Struct, frozen=True):
    """Which Kafka a run reads and writes, and by which names it is known there."""

    bootstrap: str
    """``host:port`` separated by commas."""
    properties: dict[str, str | int | float | bool] = {}
    """librdkafka's own, for TLS and SASL."""
    owner: str = "headgate"
    """What names of its transactions and groups begin with: that of the table with the run ledger,
    as others who share the Kafka may have a dataflow of the same name."""


class StartSession(Struct, frozen=True, tag="start"):
    """First message to a worker: start Spark with this configuration."""

    conf: dict[str, str] = {}
    python_path: tuple[str, ...] = ()
    """Directories that Spark's own Python workers import from."""
    pool: str = ""
    """Of the dataflows that share the session; empty where it is one dataflow's own."""


class AdoptSession(Struct, frozen=True, tag="adopt"):
    """The session, started for nobody yet, is a dataflow's from now; ``WorkerReady`` follows."""

    directory: str
    """Where the worker leaves logs from now on."""
    conf: dict[str, str] = {}
    """Settings of Spark SQL, over those that it was started with."""
    python_path: tuple[str, ...] = ()
    """As in ``StartSession``."""


class StageRequest(Struct, frozen=True):
    """What one attempt of a run of a stage has to know besides."""

    location: str
    """Where all stages of the dataflow keep their files: a path, or a URI."""
    increments: dict[str, tuple[str, ...]] = {}
    """By input flow that other stages make, the names of those that it reads, the oldest first."""
    outputs: tuple[str, ...] = ()
    """Output flows that others may read: the run makes an increment of each."""
    needed: tuple[str, ...] = ()
    """Names of increments of this action that others may still read."""
    on_change: OnChange = OnChange.REFUSE
    """What becomes of a state that another version of the stage wrote."""
    purpose: RunPurpose = RunPurpose.ADVANCE
    """What the run is for."""
    sources: dict[str, FilesSpec | TopicSpec] = {}
    """By input flow that is in files or a topic, where it is."""
    sinks: dict[str, FilesSpec | TopicSpec] = {}
    """By output flow that goes to files or a topic, where it goes."""
    containers: dict[str, str] = {}
    """Hash of the cells, codec and keys of a container, by container."""
    others: dict[str, str] = {}
    """The manifest that the last run of each other stage has committed that writes to containers,
    by stage."""


class StepRequest(Struct, frozen=True, tag="step"):
    """One attempt of one run of a step, with all that the step may ask for."""

    dataflow: str
    action: str
    run: str
    attempt: int
    token: int
    """Fencing token: above that of every earlier attempt of any run of this action."""
    entry: str
    """``module:function``; the function takes a ``Run``."""
    hbase: Thrift2Address
    kafka: str
    """Bootstrap servers, ``host:port`` separated by commas."""
    python_path: tuple[str, ...] = ()
    """Directories searched for the module before all others."""
    parameters: dict[str, Any] = {}
    containers: tuple[WatchedContainer, ...] = ()
    cut: Cut = Cut()
    since: Cut = Cut()
    ledger: str = "headgate"
    """Name of the table with the run ledger."""
    kafka_properties: dict[str, str | int | float | bool] = {}
    """librdkafka's own, for TLS and SASL."""
    on_undecodable: dict[str, OnUndecodable] = {}
    """By container, where it is another than ``NULL``."""
    ledger_proof: bytes = b""
    """The agent's, by which observers let its worker write to the run's row of the ledger."""
    space: str = ""
    """In which it runs, apart from what others of a pool do; empty: the worker's only one."""
    directory: str = ""
    """Where its log goes; the worker's own directory where empty."""
    previous: str = ""
    """The result of the action's last committed run that had one."""
    result_proof: bytes = b""
    """The agent's, by which observers let a program of its own keep what its run names."""
    stage: StageRequest | None = None
    """What it has besides where the action is a stage."""
    dated: bytes = b""
    """Versions and markers that clients have dated ahead, as of the cut; see ``encode_dated``."""
    keys: dict[str, KeyForm] = {}
    """Form of rows and qualifiers, by container; ``TEXT`` where none is stated."""
    computes: ActionIdentity | None = None
    """Identity of what it computes, by the dataflow file; None where the agent does not say it."""
    depends: dict[str, str] = {}
    """Files that its code reads: paths from the root, by the path that the dataflow file has."""

    @property
    def key(self) -> RunKey:
        """The run in the ledger."""
        return RunKey(self.dataflow, self.action, self.run)

    @property
    def kafka_address(self) -> KafkaAddress:
        """The Kafka of the agent that launched it."""
        return KafkaAddress(self.kafka, self.kafka_properties, self.ledger)

    @property
    def origin(self) -> Origin:
        """What the step's writes carry."""
        return Origin(self.dataflow, self.action, self.run, self.token)


class CancelStep(Struct, frozen=True, tag="cancel"):
    """Stop an attempt: its Spark jobs are cancelled, and it neither writes nor commits any more."""

    run: str
    attempt: int
    space: str = ""


class CloseSpace(Struct, frozen=True, tag="close"):
    """Forget a space with its modules, temporary views and settings; no attempt runs in it."""

    space: str


class WorkerReady(Struct, frozen=True, tag="ready"):
    """The session is warm."""

    pid: int
    spark: str
    """Spark's version."""
    seconds: float
    """How long it took to start."""


class WorkerFailed(Struct, frozen=True, tag="unfit"):
    """The session did not start, or a message could not be read; the worker ends."""

    reason: str
    detail: str


class StepStarted(Struct, frozen=True, tag="started"):
    """The attempt has claimed its run and calls the step."""

    run: str
    attempt: int
    space: str = ""


class Ending(StrEnum):
    """How an attempt ended."""

    COMMITTED = "committed"
    LOST_CLAIM = "lost-claim"
    """Another attempt holds or has committed the run."""
    FAILED = "failed"
    """The step raised, or something that it needs did not answer. Nothing is committed."""
    CANCELLED = "cancelled"
    UNCERTAIN = "uncertain"
    """The commit got no reply, or its worker failed beside the step: the ledger knows whether it
    took place."""


class StepEnded(Struct, frozen=True, tag="ended"):
    """The attempt is over."""

    run: str
    attempt: int
    ending: Ending
    seconds: float
    """From the request's arrival until now."""
    rows_read: int = 0
    """Rows that the driver handed to the step; what executors read by themselves is not in it."""
    rows_written: int = 0
    reason: str = ""
    """The error in one line; empty where committed."""
    detail: str = ""
    """The traceback, or the server's own text."""
    log: str = ""
    """The file with everything that the step printed."""
    undecoded: int = 0
    """Values that the driver read for the step and that their codec could not."""
    undecodable: str = ""
    """The first of them, in words."""
    code: str = ""
    """SHA-256 (hexadecimal) of the modules of steps that the process had read by then; of all that
    went along where it ran in a cluster."""
    space: str = ""
    """As in the request."""
    result: str = ""
    """What the commit has named; empty where not committed."""
    final: bool = False
    """True if another attempt would fail in the same way: the error is not ``repeatable``."""
    identity: RunIdentity = RunIdentity()
    """Identity of what it computed; without hashes where it failed before that was known."""


WorkerMessage = StartSession | AdoptSession | StepRequest | CancelStep | CloseSpace
WorkerReply = WorkerReady | WorkerFailed | StepStarted | StepEnded

_encoder = msgspec.json.Encoder()
_messages: msgspec.json.Decoder[WorkerMessage] = msgspec.json.Decoder(WorkerMessage)
_replies: msgspec.json.Decoder[WorkerReply] = msgspec.json.Decoder(WorkerReply)


def encode_line(message: WorkerMessage | WorkerReply) -> bytes:
    """Return the message as one line, its end included."""
    return _encoder.encode(message) + b"\n"


def decode_message(line: bytes) -> WorkerMessage:
    """Return the message to a worker in a line.

    Raises:
        msgspec.MsgspecError: the line is no such message.
    """
    return _messages.decode(line)


def decode_reply(line: bytes) -> WorkerReply:
    """Return a worker's reply in a line.

    Raises:
        msgspec.MsgspecError: the line is no such reply.
    """
    return _replies.decode(line)
