"""The observer's configuration: one TOML file, each key overridable from the environment."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from headgate.events import CONTROL_TOPIC

ENVIRONMENT_PREFIX = "HEADGATE_OBSERVER_"
"""``[journal] limit_bytes`` is overridden by ``HEADGATE_OBSERVER_JOURNAL_LIMIT_BYTES``."""

_MIB = 1 << 20
_TABLE = re.compile(r"^\s*\[\s*([A-Za-z0-9_.\-]+)\s*\]")
_KEY = re.compile(r"^\s*\"?([A-Za-z0-9_.\-]+)\"?\s*=")

Seconds = Annotated[float, Meta(gt=0)]
Bytes = Annotated[int, Meta(gt=0)]


class ConfigurationError(ValueError):
    """The configuration cannot be used; the message names the file, the line and the cure."""


class Fsync(StrEnum):
    """When the journal reaches the disk itself: for loss of power, not for a killed process."""

    ALWAYS = "always"
    """Before each request is forwarded; requests of one moment share a sync."""
    INTERVAL = "interval"
    """Every ``fsync_seconds``."""
    NEVER = "never"
    """When the operating system does."""


class WhenFull(StrEnum):
    """What happens to writes while the journal has no room because Kafka does not take events."""

    BLOCK = "block"
    """They wait ``block_seconds``, then get an IOError that clients retry."""
    PASS = "pass"  # noqa: S105 - a policy, not a password
    """They go on without events; the gap is announced, so that agents reconcile."""


class Check(StrEnum):
    """What a health check asks of an HBase Thrift server."""

    PING = "ping"
    """A call that the Thrift server answers by itself: HBase has no work with it."""
    HBASE = "hbase"
    """The names of the tables, which it asks HBase for."""
    CONNECT = "connect"
    """Only that it takes a connection; one that hangs is not noticed."""


class HealthChecks(Struct, frozen=True, forbid_unknown_fields=True):
    """How an upstream is found to be well or ill while no client tells."""

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


class Listener(Struct, frozen=True, forbid_unknown_fields=True):
    """One address for clients and the HBase Thrift servers behind it; each is ``host:port``."""

    listen: str
    upstream: str | tuple[str, ...]
    """One server or several; a text may name several too, with commas between."""
    health: HealthChecks = field(default_factory=HealthChecks)

    @property
    def upstreams(self) -> tuple[str, ...]:
        """The servers' addresses, in the order in which they were written."""
        written = self.upstream.split(",") if isinstance(self.upstream, str) else self.upstream
        return tuple(address.strip() for address in written)


class Kafka(Struct, frozen=True, forbid_unknown_fields=True):
    """Where events go. ``properties`` are librdkafka's own (TLS, SASL ...), passed through."""

    bootstrap: str
    partitions: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Of a table's topic, when the observer creates it."""
    replication: Annotated[int, Meta(ge=1)] = 1
    linger_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.005
    """How long events wait for others to share a message with."""
    control_topic: str = CONTROL_TOPIC
    properties: dict[str, str | int | float | bool] = {}


class Journal(Struct, frozen=True, forbid_unknown_fields=True):
    """The local log that makes events survive a crash of the observer."""

    directory: str
    limit_bytes: Bytes = 512 * _MIB
    segment_bytes: Bytes = 32 * _MIB
    fsync: Fsync = Fsync.INTERVAL
    fsync_seconds: Seconds = 0.1
    when_full: WhenFull = WhenFull.BLOCK
    block_seconds: Annotated[float, Meta(ge=0)] = 10.0


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client may send; more is refused before memory is taken."""

    message_bytes: Bytes = 64 * _MIB
    container_elements: Annotated[int, Meta(gt=0)] = 1_000_000
    nesting: Annotated[int, Meta(gt=0, le=200)] = 32
    string_bytes: Bytes = 64 * _MIB


class ObserverConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that ``headgate observer`` can be told."""

    name: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._\-]+$")]
    """Stable across restarts and unique among observers: it is a part of every event's identity."""
    kafka: Kafka
    journal: Journal
    thrift1: Listener | None = None
    thrift2: Listener | None = None
    admin: str = "127.0.0.1:0"
    """Address of ``/metrics`` and ``/healthz``; port 0 takes a free one."""
    lease_seconds: Seconds = 10.0
    start_seconds: Seconds = 60.0
    """How long Kafka and HBase may take to be there at start."""
    shutdown_seconds: Seconds = 20.0
    """How long requests under way and undelivered events may take at the end."""
    connect_seconds: Seconds = 10.0
    limits: Limits = field(default_factory=Limits)


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` (or ``[v6]:port``).

    Raises:
        ValueError: the text is no such address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        message = f"{text!r} is no address; write it as host:port, as in 127.0.0.1:9090"
        raise ValueError(message)
    return host.removeprefix("[").removesuffix("]"), int(port)


def load_config(path: Path, environment: Mapping[str, str]) -> ObserverConfig:
    """Return the configuration in the file, with what the environment overrides.

    Raises:
        ConfigurationError: it cannot be read or used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"{path}: cannot be read ({reason}); name the file with --config"
        raise ConfigurationError(message) from error
    return parse_config(text, str(path), environment)


def parse_config(text: str, source: str, environment: Mapping[str, str]) -> ObserverConfig:
    """Return the configuration in a TOML text; ``source`` is its name in messages.

    Raises:
        ConfigurationError: it cannot be used.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{source}: not valid TOML: {error}"
        raise ConfigurationError(message) from error
    lines = _lines(text)
    _check_keys(content, ObserverConfig, (), source, lines)
    overridden = _override(content, environment)
    try:
        config = msgspec.convert(content, ObserverConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(_explain(error, source, lines, overridden)) from error
    _check_meaning(config, source, lines)
    return config


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of each table and key, by path."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = tuple(header[1].split("."))
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *key[1].split(".")), number)
    return found


def _at(source: str, lines: Mapping[tuple[str, ...], int], path: tuple[str, ...]) -> str:
    while path and path not in lines:
        path = path[:-1]
    return f"{source}:{lines[path]}" if path else source


_TABLES: dict[type[Struct], dict[str, type[Struct]]] = {
    ObserverConfig: {
        "kafka": Kafka,
        "journal": Journal,
        "limits": Limits,
        "thrift1": Listener,
        "thrift2": Listener,
    },
    Listener: {"health": HealthChecks},
}
"""The keys of each struct that hold a struct themselves: tables of the file."""


def _structs(kind: type[Struct]) -> dict[str, type[Struct] | None]:
    """Return the keys of a struct, each with the struct that it holds, if it holds one."""
    inner = _TABLES.get(kind, {})
    return {name: inner.get(name) for name in kind.__struct_fields__}


def _paths(kind: type[Struct]) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key that holds a value."""
    for key, inner in _structs(kind).items():
        if inner is None:
            yield (key,)
        else:
            yield from ((key, *path) for path in _paths(inner))


def _check_keys(
    content: Mapping[str, Any],
    kind: type[Struct],
    path: tuple[str, ...],
    source: str,
    lines: Mapping[tuple[str, ...], int],
) -> None:
    known = _structs(kind)
    for key, value in content.items():
        here = (*path, key)
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            cure = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
            message = f"{_at(source, lines, here)}: unknown key {'.'.join(here)!r}; {cure}"
            raise ConfigurationError(message)
        inner = known[key]
        if inner is not None:
            if not isinstance(value, dict):
                name = ".".join(here)
                message = f"{_at(source, lines, here)}: {name!r} must be a table: [{name}]"
                raise ConfigurationError(message)
            _check_keys(value, inner, here, source, lines)


def _override(content: dict[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """Put the environment's values into the content; return the variable of each dotted path."""
    variables = {
        ENVIRONMENT_PREFIX + "_".join(path).upper(): path
        for path in _paths(ObserverConfig)
        if path != ("kafka", "properties")
    }
    used: dict[str, str] = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable not in variables:
            close = difflib.get_close_matches(variable, variables, n=1)
            cure = f"did you mean {close[0]}?" if close else "remove it"
            message = f"environment: {variable} overrides no key of the configuration; {cure}"
            raise ConfigurationError(message)
        path = variables[variable]
        target = content
        for part in path[:-1]:
            target = target.setdefault(part, {})
        target[path[-1]] = value
        used[".".join(path)] = variable
    return used


def _explain(
    error: msgspec.ValidationError,
    source: str,
    lines: Mapping[tuple[str, ...], int],
    overridden: Mapping[str, str],
) -> str:
    text = str(error)
    described, _, place = text.partition(" - at `$")
    path = tuple(part for part in place.rstrip("`").split(".") if part)
    missing = re.match(r"Object missing required field `(\w+)`", described)
    if missing:
        path = (*path, missing[1])
        table = ".".join(path[:-1])
        where = f"under [{table}]" if table else "at the top"
        return f"{_at(source, lines, path)}: {'.'.join(path)!r} is missing; add it {where}"
    name = ".".join(path)
    if name in overridden:
        return f"environment: {overridden[name]}: {described}; correct the variable"
    return f"{_at(source, lines, path)}: {name!r}: {described}; correct the value"


def _check_meaning(
    config: ObserverConfig, source: str, lines: Mapping[tuple[str, ...], int]
) -> None:
    if config.thrift1 is None and config.thrift2 is None:
        message = f"{source}: nothing to listen on; add a table [thrift1] or [thrift2]"
        raise ConfigurationError(message)
    addresses: list[tuple[tuple[str, ...], str]] = [(("admin",), config.admin)]
    for name, listener in (("thrift1", config.thrift1), ("thrift2", config.thrift2)):
        if listener is not None:
            addresses.append(((name, "listen"), listener.listen))
            place = _at(source, lines, (name, "upstream"))
            if not listener.upstreams:
                message = f"{place}: '{name}.upstream' names no server; add one as host:port"
                raise ConfigurationError(message)
            for upstream, times in Counter(listener.upstreams).items():
                addresses.append(((name, "upstream"), upstream))
                if times > 1:
                    message = f"{place}: '{name}.upstream' names {upstream} twice; remove one"
                    raise ConfigurationError(message)
    for path, address in addresses:
        try:
            parse_address(address)
        except ValueError as error:
            message = f"{_at(source, lines, path)}: {'.'.join(path)!r}: {error}"
            raise ConfigurationError(message) from error
    if config.journal.segment_bytes > config.journal.limit_bytes:
        place = _at(source, lines, ("journal", "segment_bytes"))
        message = f"{place}: 'journal.segment_bytes' is above 'journal.limit_bytes'; lower it"
        raise ConfigurationError(message)
