"""The agent's configuration: one TOML file, each key overridden by an environment variable."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from headgate.agent.roles import Role
from headgate.events import CONTROL_TOPIC, MACHINES_TOPIC, canonical_table, table_problem
from headgate.flows import LAUNCHER_KINDS
from headgate.settings import (
    Places,
    ServerTls,
    UpstreamTls,
    is_loopback,
    load,
    parse,
    parse_address,
    state_folder,
)

ENVIRONMENT_PREFIX = "HEADGATE_AGENT_"
"""``[kafka] bootstrap`` is overridden by ``HEADGATE_AGENT_KAFKA_BOOTSTRAP``."""


def environment_of_steps() -> dict[str, str]:
    """Return this process's environment for what users wrote: without the agent's own variables.

    There are passwords among those.
    """
    return {
        name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)
    }


AUDITED = ("change", "change refused")
"""Lines of the log about requests that change something; none of them is ever left out."""

DEFAULT_API = "127.0.0.1:7680"
"""Where the API listens, and where the command line looks for it."""

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1)]


class HBase(Struct, frozen=True, forbid_unknown_fields=True):
    """Where tables are read and where state is kept."""

    thrift2: Text
    """``host:port`` of an observer's Thrift2 listener, so that what steps write is seen."""
    state_table: Text = "headgate"
    """Holds dataflows, their state and their runs; created at the first start."""

    def __post_init__(self) -> None:
        """Bring the table's name to its one spelling."""
        force_setattr(self, "state_table", canonical_table(self.state_table))


class KafkaOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The Kafka that updates come from. ``properties`` are librdkafka's own (TLS, SASL ...)."""

    bootstrap: Text
    """Servers, ``host:port`` separated by commas."""
    partitions: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Of a table's topic, when the agent creates it."""
    replication: Count = 1
    group: Text = "headgate-agents"
    """The consumer group by which dataflows are spread over agents."""
    control_topic: Text = CONTROL_TOPIC
    """Shared with the observers."""
    longest_retention_days: Annotated[float, Meta(ge=0)] = 30.0
    """To which agents may raise ``retention.ms`` of a topic whose updates runs still need."""
    properties: dict[str, str | int | float | bool] = {}

    def __repr__(self) -> str:
        """Leave the values of the properties out: there are passwords among them."""
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__[:-1])
        return f"KafkaOptions({', '.join(shown)}, properties={sorted(self.properties)})"


def _state_path() -> Path:
    return state_folder() / "agent"


class Workers(Struct, frozen=True, forbid_unknown_fields=True):
    """The processes in which steps run."""

    python: Text = sys.executable
    directory: str = ""
    """Where they run and leave their logs; a directory of the user's state where empty."""
    start_seconds: Seconds = 120.0
    """How long a worker may take until its Spark session is warm."""
    idle_seconds: Annotated[float, Meta(ge=0)] = 1800.0
    """After how long without a run a session ends; 0: it stays."""
    metric_seconds: Seconds = 10.0
    """How long a metric of a dataflow's own may take."""
    runnable_seconds: Seconds = 10.0
    """How long a runnable of a dataflow's own may take."""
    spares: Annotated[int, Meta(ge=0, le=100)] = 0
    """Warm sessions kept ready for dataflows that are taken over or submitted."""
    spare_spark: dict[str, str] = {}
    """Settings with which spares are started, as dataflows have them in ``spark``."""

    @property
    def path(self) -> Path:
        """The directory, whether configured or not."""
        return Path(self.directory).expanduser() if self.directory else _state_path()

    @property
    def stages(self) -> Path:
        """Where stages keep their files whose dataflow does not say it."""
        return self.path / ".stages"

    @property
    def revisions(self) -> Path:
        """The file with the highest revision seen of each dataflow, beside their folders."""
        return self.path / ".revisions.sqlite"


class Connect(Struct, frozen=True, forbid_unknown_fields=True):
    """Steps on a Spark Connect server."""

    remote: str = ""
    """``sc://host:port``, where a dataflow names no other."""


class Submit(Struct, frozen=True, forbid_unknown_fields=True):
    """Steps by ``spark-submit``, where a dataflow says nothing else."""

    program: str = ""
    """``spark-submit`` itself; that of the steps' interpreter's own PySpark where empty."""
    master: str = ""
    deploy_mode: str = ""
    conf: dict[str, str] = {}


class Airflow(Struct, frozen=True, forbid_unknown_fields=True):
    """DAG runs, through the REST API of Airflow 3."""

    url: str = ""
    """``http://host:port``, where a dataflow names no other."""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        """Leave the password out."""
        return f"Airflow(url={self.url!r}, user={self.user!r})"


class Launchers(Struct, frozen=True, forbid_unknown_fields=True):
    """How steps are run that don't run in a warm session, and how many of all at a time."""

    allowed: tuple[str, ...] = LAUNCHER_KINDS
    """What dataflows may use."""
    roots: tuple[Text, ...] = ()
    """Directories under which those of dataflows must lie, and what they name; empty: anywhere."""
    concurrency: Count = 16
    """Attempts under way at a time, over all dataflows of the agent."""
    connect: Connect = Connect()
    submit: Submit = Submit()
    airflow: Airflow = Airflow()

    def __post_init__(self) -> None:
        """Refuse names of kinds that don't exist."""
        for name in self.allowed:
            if name not in LAUNCHER_KINDS:
                message = f"launchers.allowed knows {', '.join(LAUNCHER_KINDS)}, not {name!r}"
                raise ValueError(message)


class BarrierOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Waiting until everything that observers forwarded has been consumed."""

    repeat_seconds: Seconds = 1.0
    """After which a barrier that did not pass is asked for again."""
    grace_seconds: Annotated[float, Meta(ge=0)] = 30.0
    """How long to wait for an observer whose lease ended without a goodbye."""


class ScanOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Scans: first ones, those after a loss, and those of dataflows in observer mode."""

    cells: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
    """Of a container in memory at once when the engine has it scanned; a row is read whole."""
    bytes: Annotated[int, Meta(ge=1)] = 32 * 1024 * 1024
    """Of such cells; what is reached first ends the stretch between two barriers."""
    rows: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    """Read between two barriers when tables are scanned in observer mode."""
    window: Annotated[int, Meta(ge=1000)] = 2_000_000
    """Cells of a table's topic in memory, about 250 bytes each, until a scan has met them."""
    clock_skew_seconds: Annotated[float, Meta(ge=0)] = 5.0
    """By how much the clocks of region servers and agents may differ."""


class CellMemory(Struct, frozen=True, forbid_unknown_fields=True):
    """Where cells are remembered, for percentages and value bounds."""

    memory: Annotated[int, Meta(ge=1000)] = 5_000_000
    """Cells of a dataflow in memory, about 200 bytes each; those beyond are on disk."""
    directory: str = ""
    """Where; a directory of the user's state where empty. Nothing in it outlasts the agent."""
    saved_whole: Annotated[int, Meta(ge=0)] = 10_000
    """Cells of a dataflow up to which its whole state is saved in its row each time; of more, what
    has changed is saved beside the row."""

    @property
    def path(self) -> Path:
        """The directory, whether configured or not."""
        return Path(self.directory).expanduser() if self.directory else _state_path() / "cells"


class Resources(Struct, frozen=True, forbid_unknown_fields=True):
    """How busy the machines are on which steps run; by it limits given as intervals move."""

    every_seconds: Seconds = 5.0
    """How often samples go to dataflows."""
    own: bool = True
    """Whether the agent's own host is one of them, as it is where steps run in warm sessions."""
    topic: Text = MACHINES_TOPIC
    """Where sensors publish."""
    machines: tuple[Text, ...] = ("*",)
    """Names of the machines whose sensors count, with ``*`` and ``?``."""
    spark: tuple[Text, ...] = ()
    """Spark drivers whose executors count, where no sensor runs: ``http://driver:4040``."""


class CertificateGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose a client's certificate is; exactly one of the last three says which ones are meant."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._@-]{1,100}$")]
    role: Role
    common_name: str = ""
    dns: str = ""
    uri: str = ""

    @property
    def patterns(self) -> tuple[tuple[str, str], ...]:
        """What is said of the certificate, each with its kind."""
        named = (("commonName", self.common_name), ("DNS", self.dns.lower()), ("URI", self.uri))
        return tuple((kind, value) for kind, value in named if value)


class ApiAccess(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may ask the API for what."""

    token_file: str = ""
    """The agents' own token, and after it those that are taken beside it; where empty, one in the
    user's state folder, which the first agent makes and commands of the same user find."""
    tokens: str = ""
    """A file with the hashed tokens of other callers, each with a role."""
    certificates: tuple[CertificateGrant, ...] = ()
    """Client certificates, each with a role; for those of ``tls.client_ca``."""
    hosts: tuple[Text, ...] = ()
    """Names by which the API may be called, besides those of this machine to itself and the hosts
    of ``api`` and ``advertise``."""
    proxied: bool = False
    """Whether a proxy in front has TLS and keeps strangers away."""
    open_probes: bool = True
    """Whether probes and metrics are for everybody."""
    body_bytes: Annotated[int, Meta(ge=1024, le=1 << 26)] = 1 << 20
    """Of the longest body that is taken."""
    connections: Annotated[int, Meta(ge=10)] = 1000
    """Connections at a time. Beyond them the one gives way that has waited longest without a
    request."""
    request_seconds: Seconds = 10.0
    """How long the head of a request may take to arrive."""


class TrainingOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Training of models, and how much is kept of it."""

    seconds: Seconds = 3600.0
    """How long a training may take."""
    kept_waves: Count = 8760
    """Of a dataflow, whose pairs the knowledge table keeps; a year, where waves are hours."""
    kept_models: Annotated[int, Meta(ge=3)] = 10
    """Of an output, that the knowledge table keeps. One may be trained and not be used any more,
    while the one before it decides, and a checkpoint still names the one before that."""


class AgentConfiguration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of ``headgate agent``."""

    hbase: HBase
    kafka: KafkaOptions
    workers: Workers = Workers()
    launchers: Launchers = Launchers()
    barriers: BarrierOptions = BarrierOptions()
    scans: ScanOptions = ScanOptions()
    resources: Resources = Resources()
    cells: CellMemory = CellMemory()
    training: TrainingOptions = TrainingOptions()
    access: ApiAccess = ApiAccess()
    tls: ServerTls | None = None
    """TLS of the API."""
    peers: UpstreamTls = UpstreamTls()
    """TLS to the API of other agents, where theirs has it."""
    name: str = ""
    """How leases call this agent; the host's name and the process where empty."""
    api: str = DEFAULT_API
    """``host:port`` on which the HTTP API listens; port 0 takes a free one."""
    advertise: str = ""
    """The API's address as other agents reach it; where it listens, if empty. With
    ``https://`` before it, where it is a proxy that has TLS."""
    key_file: str = ""
    """The key that all agents share, one a line where one follows another: the first signs what the
    state table holds, and each is believed. One of the user's own, made at need, where empty."""
    lease_seconds: Seconds = 10.0
    """How long a dataflow waits for an agent that was lost before another takes over."""
    checkpoint_seconds: Seconds = 5.0
    """The longest time between two checkpoints while updates arrive."""
    start_seconds: Seconds = 60.0
    """How long HBase and Kafka may take to be there at start."""
    submit_seconds: Seconds = 60.0
    """How long a submit waits until its watches are in effect."""
    shutdown_seconds: Annotated[float, Meta(ge=0)] = 10.0
    """How long running steps may take at the end before they are stopped."""
    history: Count = 200
    """Runs kept and shown, per dataflow."""
    dataflow_threads: Count = 32
    """Most threads that carry dataflows: so many may wait for HBase or Kafka before others do."""

    @property
    def owner(self) -> str:
        """The name in leases, unlike that of any other agent process."""
        return self.name or f"{socket.gethostname()}-{os.getpid()}"


def load_configuration(path: Path | None, environment: Mapping[str, str]) -> AgentConfiguration:
    """Return what the file says, with what the environment overrides.

    Args:
        path: the TOML file; None where variables say everything.
        environment: all variables of the process.

    Raises:
        ConfigurationError: it cannot be read or used; the message says where and what to do.
    """
    return load(AgentConfiguration, path, environment, prefix=ENVIRONMENT_PREFIX, check=_check)


def parse_configuration(
    text: str, source: str, environment: Mapping[str, str]
) -> AgentConfiguration:
    """Return the configuration in a TOML text; ``source`` is its name in messages.

    Raises:
        ConfigurationError: it cannot be used.
    """
    return parse(
        AgentConfiguration, text, source, environment, prefix=ENVIRONMENT_PREFIX, check=_check
    )


def _check(configuration: AgentConfiguration, places: Places) -> None:
    places.check_address(("hbase", "thrift2"), configuration.hbase.thrift2)
    if problem := table_problem(configuration.hbase.state_table):
        raise places.problem(("hbase", "state_table"), problem)
    places.check_address(("api",), configuration.api)
    if configuration.advertise:
        places.check_address(("advertise",), configuration.advertise.removeprefix("https://"))
    host, _ = parse_address(configuration.api)
    if configuration.tls is None and not configuration.access.proxied and not is_loopback(host):
        raise places.problem(
            ("api",),
            f"other hosts reach {host}, and whoever may submit a dataflow runs code here; set "
            "certificate and key under [tls], or access.proxied = true where a proxy in front has "
            "TLS and keeps strangers away; or listen on 127.0.0.1",
        )
    _check_tls(configuration, places)


def _check_tls(configuration: AgentConfiguration, places: Places) -> None:
    tls, peers = configuration.tls, configuration.peers
    if tls is not None and not tls.client_ca:
        for key in ("require_client_certificate", "client_crl"):
            if getattr(tls, key):
                raise places.problem(
                    ("tls", key), "clients are not asked for certificates; add client_ca to [tls]"
                )
    if bool(peers.certificate) != bool(peers.key):
        raise places.problem(("peers",), "certificate and key belong together; set both or none")
    for number, grant in enumerate(configuration.access.certificates):
        here = ("access", "certificates", str(number))
        if len(grant.patterns) != 1:
            raise places.problem(
                here, "set exactly one of common_name, dns and uri: by it certificates are known"
            )
        if tls is None or not tls.client_ca:
            raise places.problem(
                here, "clients are not asked for certificates; add client_ca to [tls]"
            )
