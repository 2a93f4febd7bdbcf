"""The observer's configuration: one TOML file, each key overridable from the environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from headgate.events import CONTROL_TOPIC, canonical_table, table_problem
from headgate.settings import (
    ConfigurationError,
    LogFormat,
    LogLevel,
    Places,
    ServerTls,
    UpstreamTls,
    agent_tables,
    canonical_address,
    canonical_network,
    is_loopback,
    load,
    parse,
    parse_address,
    read_keys,
)

ENVIRONMENT_PREFIX = "HEADGATE_OBSERVER_"
"""``[journal] limit_bytes`` is overridden by ``HEADGATE_OBSERVER_JOURNAL_LIMIT_BYTES``."""

UNKNOWN_WRITER = "unknown"
"""In rules and metrics, who has neither certificate nor port nor says who it is."""

_MIB = 1 << 20
_MAX_NAME = 100  # characters: every message carries it

Seconds = Annotated[float, Meta(gt=0)]
Bytes = Annotated[int, Meta(gt=0)]


class Fsync(StrEnum):
    """When the journal reaches the disk itself: for loss of power, not for a killed process."""

    ALWAYS = "always"
    """Before each request is forwarded; requests of one moment share a sync."""
    INTERVAL = "interval"
    """Every ``fsync_seconds``."""
    NEVER = "never"
    """When the operating system does."""


class Acknowledge(StrEnum):
    """What a client that is answered may rely on."""

    JOURNAL = "journal"
    """Its write's events survive whatever happens to processes."""
    KAFKA = "kafka"
    """Kafka has its write's events: they survive the loss of the observer's host too."""


class WhenFull(StrEnum):
    """What happens to writes while the journal has no room because Kafka does not take events."""

    BLOCK = "block"
    """They wait ``block_seconds``, then get an IOError that clients retry."""
    PASS = "pass"  # noqa: S105 - a policy, not a password
    """They go on without events; the gap is announced, so that agents reconcile."""


class Scheduling(StrEnum):
    """When the kernel lets a process run whose time has come."""

    AUTO = "auto"
    """``BATCH`` while several requests are under way at a time, else ``NORMAL``."""
    BATCH = "batch"
    """When the processor is free or its turn has come: it works on more at once, for less time."""
    NORMAL = "normal"
    """At once, in the place of whatever runs there."""


class Check(StrEnum):
    """What a health check asks of an HBase Thrift server."""

    PING = "ping"
    """A call that the Thrift server answers by itself: HBase has no work with it."""
    HBASE = "hbase"
    """The names of the tables, which it asks HBase for."""
    CONNECT = "connect"
    """Only that it takes a connection; one that hangs is not noticed."""


class HealthChecks(Struct, frozen=True, forbid_unknown_fields=True):
    """How an upstream is found to be well or ill, whether clients use it or not."""

    check: Check = Check.PING
    interval_seconds: Seconds = 5.0
    timeout_seconds: Seconds = 3.0
    """For one check as a whole; a server that takes longer hangs."""
    rise: Annotated[int, Meta(ge=1)] = 2
    """Checks in a row that an unhealthy upstream must pass until clients go there again."""
    fall: Annotated[int, Meta(ge=1)] = 3
    """Checks in a row that a healthy one must fail until they do not."""
    hung_seconds: Seconds = 60.0
    """How long a request may be under way at an upstream that hangs, until it is cut off."""


class UpstreamTransport(StrEnum):
    """How messages to an upstream are delimited."""

    AUTO = "auto"
    """As the client does it: requests go on as they came."""
    FRAMED = "framed"
    BUFFERED = "buffered"


class UpstreamProtocol(StrEnum):
    """How values for an upstream are written."""

    AUTO = "auto"
    """As the client does it."""
    BINARY = "binary"
    COMPACT = "compact"


class Tls(ServerTls, frozen=True, forbid_unknown_fields=True):
    """TLS to a listener's clients."""

    handshake_seconds: Seconds = 10.0


class Identity(Struct, frozen=True, forbid_unknown_fields=True):
    """Who writes: an action of a dataflow, or a named writer; and what else it may claim to be."""

    dataflow: str = ""
    action: str = ""
    writer: str = ""
    claims: tuple[str, ...] = ()
    """Patterns of origins that the client may name in its requests beside its own."""


class ClientCertificate(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose a client's certificate is; exactly one of the three names says which ones are meant."""

    common_name: str = ""
    dns: str = ""
    uri: str = ""
    dataflow: str = ""
    action: str = ""
    writer: str = ""
    claims: tuple[str, ...] = ()


class Allow(StrEnum):
    """What may be done with a table; each includes what stands before it."""

    NOTHING = "nothing"
    READ = "read"
    WRITE = "write"
    DEFINE = "define"
    """Creating, changing and deleting tables too."""


class AccessRule(Struct, frozen=True, forbid_unknown_fields=True):
    """What some origins may do with some tables."""

    allow: Allow
    origin: str = "*"
    """Pattern of ``dataflow/action``, of a writer's name, or of ``unknown``."""
    tables: tuple[str, ...] = ("*",)
    """Patterns of tables."""


class AccessSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Which origin may do what with which table; the first rule that fits decides."""

    default: Allow = Allow.DEFINE
    """Where no rule fits."""
    claims: tuple[str, ...] = ("*",)
    """Patterns of origins that clients may name that have neither certificate nor port."""
    certificates: tuple[ClientCertificate, ...] = ()
    rules: tuple[AccessRule, ...] = ()
    state_tables: tuple[str, ...] = ("headgate",)
    """The agents' ``hbase.state_table``: who may change it decides what agents run. The knowledge
    table beside each is guarded with it."""
    agents: tuple[str, ...] = ()
    """Writers, known by certificate or listener, that are agents."""
    agents_key_file: str = ""
    """The agents' ``key_file``: who has signed a change with it is an agent."""

    def __post_init__(self) -> None:
        """Bring the names of state tables to their one spelling."""
        force_setattr(self, "state_tables", tuple(map(canonical_table, self.state_tables)))

    @property
    def agent_tables(self) -> tuple[str, ...]:
        """The state tables and the knowledge tables beside them."""
        return agent_tables(self.state_tables)

    @property
    def guards_state(self) -> bool:
        """Whether there is a way to know agents, so that others can be kept from their tables."""
        return bool(self.agents or self.agents_key_file)


KEEP_ALIVE_SECONDS: Final = 20.0
"""A third of the time after which HBase's Thrift servers close a quiet connection."""


class OrderSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules for the order in which answered writes become visible."""

    strict: bool = False
    """True if a write waits until no delete that was answered before can hide it (2 ms)."""


class Listener(Struct, frozen=True, forbid_unknown_fields=True):
    """One address for clients and the HBase Thrift servers behind it; each is ``host:port``."""

    listen: str
    upstream: str | tuple[str, ...]
    """One server or several; a text may name several too, with commas between."""
    upstream_transport: UpstreamTransport = UpstreamTransport.AUTO
    upstream_protocol: UpstreamProtocol = UpstreamProtocol.AUTO
    upstream_keep_alive_seconds: Annotated[float, Meta(ge=0)] = KEEP_ALIVE_SECONDS
    """Quiet seconds after which a connection to a server gets a cheap call, where the client needs
    that very connection; 0: never. HBase's servers close one after 60 quiet seconds."""
    health: HealthChecks = field(default_factory=HealthChecks)
    order: OrderSettings = field(default_factory=OrderSettings)
    networks: tuple[str, ...] = ()
    """From where clients may connect, as in 10.0.0.0/8; empty: from everywhere."""
    origin: Identity | None = None
    """Who writes through this listener, where no certificate says otherwise."""
    tls: Tls | None = None
    upstream_tls: UpstreamTls | None = None

    @property
    def upstreams(self) -> tuple[str, ...]:
        """The servers' addresses in their one spelling, in the order in which they were written."""
        written = self.upstream.split(",") if isinstance(self.upstream, str) else self.upstream
        return tuple(canonical_address(address.strip()) for address in written)


class KafkaSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where events go. ``properties`` are librdkafka's own (TLS, SASL ...), passed through."""

    bootstrap: str
    partitions: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Of a table's topic, when the observer creates it: each costs a request to Kafka in every
    ``linger_seconds`` in which some of its rows are written."""
    replication: Annotated[int, Meta(ge=1)] = 1
    linger_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.012
    """How long events wait for others to share a message with."""
    acknowledge: Acknowledge = Acknowledge.JOURNAL
    """Whether replies to watched writes wait until Kafka has the events."""
    acknowledge_seconds: Seconds = 30.0
    """How long they do; then the connection is closed, and the client knows nothing for sure."""
    control_topic: str = CONTROL_TOPIC
    properties: dict[str, str | int | float | bool] = {}

    def __repr__(self) -> str:
        """Leave the values of the properties out: there are passwords among them."""
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__[:-1])
        return f"KafkaSettings({', '.join(shown)}, properties={sorted(self.properties)})"


class JournalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The local log that makes events survive a crash of the observer."""

    directory: str
    limit_bytes: Bytes = 512 * _MIB
    segment_bytes: Bytes = 32 * _MIB
    fsync: Fsync = Fsync.INTERVAL
    fsync_seconds: Seconds = 0.1
    when_full: WhenFull = WhenFull.BLOCK
    block_seconds: Annotated[float, Meta(ge=0)] = 10.0


class LimitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client may send; more is refused before memory is taken."""

    message_bytes: Bytes = 64 * _MIB
    container_elements: Annotated[int, Meta(gt=0)] = 1_000_000
    nesting: Annotated[int, Meta(gt=0, le=200)] = 32
    string_bytes: Bytes = 64 * _MIB
    connections: Annotated[int, Meta(ge=0)] = 10_000
    """Of clients, in one process; 0 for as many as there are descriptors."""
    idle_seconds: Annotated[float, Meta(ge=0)] = 0.0
    """How long a client may hold a connection without a request; 0 for ever."""
    request_seconds: Annotated[float, Meta(ge=0)] = 120.0
    """How long a request may take to arrive, or its reply to be taken; 0 for ever."""
    waiting_bytes: Bytes = 96 * _MIB
    """Bytes of incomplete or waiting requests, over all connections. Replies that clients do not
    take may use as many more."""


class GateSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to writes that a reached bound blocks."""

    hold_seconds: Annotated[float, Meta(ge=0)] = 5.0
    """How long they wait for the gate to open; then they get an IOError that clients retry."""


class Watching(Struct, frozen=True, forbid_unknown_fields=True):
    """Tables whose writes are published though no dataflow watches them."""

    tables: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    """Patterns. What fits later is watched from its first write on."""


class ObserverConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be configured of ``headgate observer``."""

    name: Annotated[str, Meta(min_length=1, max_length=_MAX_NAME, pattern=r"^[A-Za-z0-9._\-]+$")]
    """Stable across restarts and unique among observers: it is a part of every event's identity."""
    kafka: KafkaSettings
    journal: JournalSettings
    thrift1: Listener | None = None
    thrift2: Listener | None = None
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """Processes that share the addresses; each is an observer of its own."""
    scheduling: Scheduling = Scheduling.AUTO
    admin: str = "127.0.0.1:0"
    """Address of ``/metrics`` and ``/healthz``; port 0 takes a free one."""
    log_level: LogLevel = LogLevel.INFO
    """The least weight of the lines that are written."""
    log_format: LogFormat = LogFormat.TEXT
    lease_seconds: Seconds = 10.0
    start_seconds: Seconds = 60.0
    """How long Kafka and HBase may take to be there at start."""
    shutdown_seconds: Seconds = 20.0
    """How long requests under way and undelivered events may take at the end."""
    connect_seconds: Seconds = 10.0
    admin_public: bool = False
    """Whether ``admin`` may be an address that other hosts reach."""
    access: AccessSettings | None = None
    watch: Watching = field(default_factory=Watching)
    limits: LimitSettings = field(default_factory=LimitSettings)
    gates: GateSettings = field(default_factory=GateSettings)


def load_config(path: Path, environment: Mapping[str, str]) -> ObserverConfig:
    """Return the configuration in the file, with what the environment overrides.

    Raises:
        ConfigurationError: it cannot be read or used.
    """
    return load(ObserverConfig, path, environment, prefix=ENVIRONMENT_PREFIX, check=_check)


def parse_config(text: str, source: str, environment: Mapping[str, str]) -> ObserverConfig:
    """Return the configuration in a TOML text; ``source`` is its name in messages.

    Raises:
        ConfigurationError: it cannot be used.
    """
    return parse(ObserverConfig, text, source, environment, prefix=ENVIRONMENT_PREFIX, check=_check)


def check_config(config: ObserverConfig, source: str) -> None:
    """Check a configuration that no file holds as it is; ``source`` is its name in messages.

    Raises:
        ConfigurationError: a start would refuse it.
    """
    _check(config, Places("", source))


def _check(config: ObserverConfig, places: Places) -> None:
    """Raise the error of the first value that its type alone does not show to be wrong."""
    if config.thrift1 is None and config.thrift2 is None:
        raise places.problem((), "nothing to listen on; add a table [thrift1] or [thrift2]")
    _check_admin(config, places)
    if config.access is not None:
        _check_access(config.access, places)
        _check_agents(config.access, config, places)
    for name, listener in (("thrift1", config.thrift1), ("thrift2", config.thrift2)):
        if listener is not None:
            _check_security(name, listener, places)
            places.check_address((name, "listen"), listener.listen)
            here = (name, "upstream")
            if not listener.upstreams:
                raise places.problem(here, "it names no server; add one as host:port")
            for upstream, times in Counter(listener.upstreams).items():
                places.check_address(here, upstream)
                if times > 1:
                    raise places.problem(here, f"it names {upstream} twice; remove one")
    longest = _MAX_NAME - len(f"-{config.workers}")
    if config.workers > 1 and len(config.name) > longest:
        raise places.problem(
            ("name",), f"each worker adds its number to it; take at most {longest} characters"
        )
    if config.journal.segment_bytes > config.journal.limit_bytes:
        raise places.problem(
            ("journal", "segment_bytes"), "it is above 'journal.limit_bytes'; lower it"
        )
    if config.kafka.acknowledge is Acknowledge.KAFKA and config.journal.when_full is WhenFull.PASS:
        raise places.problem(
            ("kafka", "acknowledge"),
            "no write can pass without events when each is answered only with them; "
            'set journal.when_full = "block"',
        )


def _check_admin(config: ObserverConfig, places: Places) -> None:
    places.check_address(("admin",), config.admin)
    host, _ = parse_address(config.admin)
    if not config.admin_public and not is_loopback(host):
        raise places.problem(
            ("admin",),
            f"other hosts reach {host}, and there is no password on the metrics; use 127.0.0.1, "
            "or set admin_public = true where the network keeps strangers away",
        )


def _check_security(name: str, listener: Listener, places: Places) -> None:
    for number, network in enumerate(listener.networks):
        try:
            canonical_network(network)
        except ValueError as error:
            here = (name, "networks", str(number))
            raise places.problem(here, f"{error}; write it as 10.0.0.0/8") from error
    tls, upstream_tls = listener.tls, listener.upstream_tls
    if tls is not None and tls.require_client_certificate and not tls.client_ca:
        raise places.problem(
            (name, "tls", "require_client_certificate"),
            f"nothing says which certificates are good; add client_ca under [{name}.tls]",
        )
    if tls is not None and tls.client_crl and not tls.client_ca:
        raise places.problem(
            (name, "tls", "client_crl"),
            f"clients are not asked for certificates; add client_ca under [{name}.tls]",
        )
    if upstream_tls is not None and bool(upstream_tls.certificate) != bool(upstream_tls.key):
        raise places.problem(
            (name, "upstream_tls"), "certificate and key belong together; set both or none"
        )
    if listener.origin is not None:
        _check_identity(listener.origin, (name, "origin"), places)


def _check_access(access: AccessSettings, places: Places) -> None:
    for number, table in enumerate(access.state_tables):
        if problem := table_problem(table):
            raise places.problem(("access", "state_tables", str(number)), problem)
    for number, certificate in enumerate(access.certificates):
        here = ("access", "certificates", str(number))
        named = (certificate.common_name, certificate.dns, certificate.uri)
        if sum(map(bool, named)) != 1:
            raise places.problem(
                here, "set exactly one of common_name, dns and uri: by it certificates are known"
            )
        _check_identity(certificate, here, places)
    for number, rule in enumerate(access.rules):
        if not rule.tables:
            place = ("access", "rules", str(number), "tables")
            raise places.problem(place, 'it names no table; write ["*"] for all')


def _check_agents(access: AccessSettings, config: ObserverConfig, places: Places) -> None:
    """Find agents that nobody could be, and a key that cannot be read."""
    listeners = [each.origin for each in (config.thrift1, config.thrift2) if each is not None]
    known = {each.writer for each in (*access.certificates, *listeners) if each is not None}
    for number, agent in enumerate(access.agents):
        if not agent or agent not in known:
            raise places.problem(
                ("access", "agents", str(number)),
                f"nobody is known as writer {agent!r}: no certificate and no listener bears it; "
                "add an entry of [[access.certificates]] with it",
            )
    if access.agents_key_file:
        try:
            read_keys(Path(access.agents_key_file).expanduser())
        except ConfigurationError as error:
            raise places.problem(("access", "agents_key_file"), str(error)) from error


def _check_identity(
    identity: Identity | ClientCertificate, here: tuple[str, ...], places: Places
) -> None:
    if bool(identity.writer) == bool(identity.dataflow):
        raise places.problem(
            here, "set either dataflow (with or without action) or writer: who is it that writes?"
        )
    if identity.action and not identity.dataflow:
        raise places.problem(here, "an action belongs to a dataflow; set dataflow too")
    if "/" in identity.dataflow:
        raise places.problem((*here, "dataflow"), "a dataflow's name has no '/'")
    if "/" in identity.writer or identity.writer == UNKNOWN_WRITER:
        raise places.problem(
            (*here, "writer"), f"a writer's name has no '/' and is not {UNKNOWN_WRITER!r}"
        )
