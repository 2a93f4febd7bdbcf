"""The agent's configuration: one TOML file, each key overridden by an environment variable."""

from __future__ import annotations

import difflib
import os
import re
import socket
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from headgate.agent.errors import ConfigurationError
from headgate.events import CONTROL_TOPIC

ENVIRONMENT_PREFIX = "HEADGATE_AGENT_"
"""``[kafka] bootstrap`` is overridden by ``HEADGATE_AGENT_KAFKA_BOOTSTRAP``."""
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


class Kafka(Struct, frozen=True, forbid_unknown_fields=True):
    """Where updates come from. ``properties`` are librdkafka's own (TLS, SASL ...)."""

    bootstrap: Text
    """Servers, ``host:port`` separated by commas."""
    partitions: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Of a table's topic, when the agent creates it."""
    replication: Count = 1
    group: Text = "headgate-agents"
    """The consumer group by which dataflows are spread over agents."""
    control_topic: Text = CONTROL_TOPIC
    """Shared with the observers."""
    properties: dict[str, str | int | float | bool] = {}


class Workers(Struct, frozen=True, forbid_unknown_fields=True):
    """The processes in which steps run."""

    python: Text = sys.executable
    directory: str = ""
    """Where they run and leave their logs; a directory of the user's state where empty."""
    start_seconds: Seconds = 120.0
    """How long a worker may take until its Spark session is warm."""

    @property
    def path(self) -> Path:
        """The directory, whether configured or not."""
        if self.directory:
            return Path(self.directory).expanduser()
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        return Path(state).expanduser() / "headgate" / "agent"


class Barriers(Struct, frozen=True, forbid_unknown_fields=True):
    """Waiting until everything that observers forwarded has been consumed."""

    repeat_seconds: Seconds = 1.0
    """After which a barrier that did not pass is asked for again."""
    grace_seconds: Annotated[float, Meta(ge=0)] = 30.0
    """How long to wait for an observer whose lease ended without a goodbye."""


class AgentConfiguration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that ``headgate agent`` can be told."""

    hbase: HBase
    kafka: Kafka
    workers: Workers = Workers()
    barriers: Barriers = Barriers()
    name: str = ""
    """How leases call this agent; the host's name and the process where empty."""
    api: str = DEFAULT_API
    """``host:port`` on which the HTTP API listens; port 0 takes a free one."""
    advertise: str = ""
    """The API's address as other agents reach it; where it listens, if empty."""
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

    @property
    def owner(self) -> str:
        """The name in leases, unlike that of any other agent process."""
        return self.name or f"{socket.gethostname()}-{os.getpid()}"


_SECTIONS: dict[str, type[Struct]] = {
    "hbase": HBase,
    "kafka": Kafka,
    "workers": Workers,
    "barriers": Barriers,
}
_HEADER = re.compile(r"^\s*\[\s*([A-Za-z0-9_.\-]+)\s*\]")
_KEY = re.compile(r"^\s*\"?([A-Za-z0-9_.\-]+)\"?\s*=")


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        ValueError: the text is no such address.
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise ValueError(f"{text!r} is no address; write it as host:port, as in 127.0.0.1:9190")
    return host.removeprefix("[").removesuffix("]"), int(port)


def load_configuration(path: Path | None, environment: Mapping[str, str]) -> AgentConfiguration:
    """Return what the file says, with what the environment overrides.

    Args:
        path: the TOML file; None where variables say everything.
        environment: all variables of the process.

    Raises:
        ConfigurationError: it cannot be read or used; the message says where and what to do.
    """
    if path is None:
        return parse_configuration("", "the environment alone", environment)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read ({error.strerror or error}); name the file with --config"
        ) from error
    return parse_configuration(text, str(path), environment)


def parse_configuration(
    text: str, source: str, environment: Mapping[str, str]
) -> AgentConfiguration:
    """Return the configuration in a TOML text; ``source`` is its name in messages.

    Raises:
        ConfigurationError: it cannot be used.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{source}: not valid TOML: {error}") from error
    places = {path: f"{source}:{line}" for path, line in _lines(text)}
    for path in _paths(content):
        if path not in _KNOWN and path[:2] != ("kafka", "properties"):
            near = difflib.get_close_matches(path[-1], [known[-1] for known in _KNOWN], n=1)
            here = [known[-1] for known in _KNOWN if known[:-1] == path[:-1]]
            cure = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(here)}"
            where = places.get(path, source)
            raise ConfigurationError(f"{where}: unknown key {'.'.join(path)!r}; {cure}")
    _override(content, environment, places)
    try:
        configuration = msgspec.convert(content, AgentConfiguration, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(_explain(error, source, places)) from error
    for path, address in (
        (("hbase", "thrift2"), configuration.hbase.thrift2),
        (("api",), configuration.api),
    ):
        try:
            parse_address(address)
        except ValueError as error:
            where = places.get(path, source)
            raise ConfigurationError(f"{where}: {'.'.join(path)!r}: {error}") from error
    return configuration


def _known() -> Iterator[tuple[str, ...]]:
    for name in AgentConfiguration.__struct_fields__:
        yield (name,)
        if section := _SECTIONS.get(name):
            for key in section.__struct_fields__:
                yield (name, key)


_KNOWN = tuple(_known())


def _paths(content: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, value in content.items():
        yield (key,)
        if isinstance(value, dict) and key in _SECTIONS:
            for inner in value:
                yield (key, inner)


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = tuple(header[1].split("."))
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, *key[1].split(".")), number


def _override(
    content: dict[str, Any], environment: Mapping[str, str], places: dict[tuple[str, ...], str]
) -> None:
    variables = {
        ENVIRONMENT_PREFIX + "_".join(path).upper(): path
        for path in _KNOWN
        if path[-1] not in _SECTIONS and path != ("kafka", "properties")
    }
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        path = variables.get(variable)
        if path is None:
            near = difflib.get_close_matches(variable, variables, n=1)
            cure = f"did you mean {near[0]}?" if near else "remove it"
            raise ConfigurationError(f"environment: {variable} overrides no key; {cure}")
        target = content
        for part in path[:-1]:
            target = target.setdefault(part, {})
        target[path[-1]] = value
        places[path] = f"environment: {variable}"


def _explain(
    error: msgspec.ValidationError, source: str, places: Mapping[tuple[str, ...], str]
) -> str:
    described, _, place = str(error).partition(" - at `$")
    path = tuple(part for part in place.rstrip("`").split(".") if part)
    if missing := re.match(r"Object missing required field `(\w+)`", described):
        path = (*path, missing[1])
        where = f"under [{path[0]}]" if len(path) > 1 or path[0] in _SECTIONS else "at the top"
        example = {"hbase": 'thrift2 = "host:port"', "kafka": 'bootstrap = "host:port"'}
        cure = example.get(path[0], f"{path[-1]} = …")
        return f"{source}: {'.'.join(path)!r} is missing; add {cure} {where}"
    where = places.get(path, source)
    return f"{where}: {'.'.join(path)!r}: {described}; correct the value"
