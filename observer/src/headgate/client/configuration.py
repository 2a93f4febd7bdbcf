"""The drop-in client's configuration: one TOML file, or variables of the environment alone."""

from __future__ import annotations

import re
import socket
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from headgate.client.swap import CONFIG_VARIABLE
from headgate.events import Origin, decode_origin
from headgate.observer import (
    Acknowledge,
    JournalSettings,
    KafkaSettings,
    ObserverConfig,
    OrderSettings,
)
from headgate.settings import ConfigurationError, Places, load

ENVIRONMENT_PREFIX = "HEADGATE_CLIENT_"
"""``[kafka] bootstrap`` is overridden by ``HEADGATE_CLIENT_KAFKA_BOOTSTRAP``."""

RUN_VARIABLE = "HEADGATE_ORIGIN"
"""Names the run that a program of Headgate's belongs to, as the origin attribute does."""

_NAME = r"^[A-Za-z0-9._\-]*$"
_CURE = (
    f"{CONFIG_VARIABLE} names a TOML file, or {ENVIRONMENT_PREFIX}KAFKA_BOOTSTRAP alone says where "
    "Kafka is"
)

Seconds = Annotated[float, Meta(gt=0)]


class ClientJournal(JournalSettings, frozen=True, forbid_unknown_fields=True):
    """The journal of an observer; the directory need not be named."""

    directory: str = ""
    """For all processes that share the configuration; empty takes one in the user's state."""


class ClientOrigin(Struct, frozen=True, forbid_unknown_fields=True):
    """Who the program is: an action of a dataflow, or a named writer."""

    dataflow: str = ""
    action: str = ""
    writer: str = ""


class ClientConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be configured of the drop-in client."""

    kafka: KafkaSettings
    journal: ClientJournal = field(default_factory=ClientJournal)
    name: Annotated[str, Meta(max_length=80, pattern=_NAME)] = ""
    """Unique among observers and stable, as theirs; empty takes the host's and the journal's."""
    order: OrderSettings = field(default_factory=OrderSettings)
    origin: ClientOrigin = field(default_factory=ClientOrigin)
    """Whose the program's writes are; empty: nobody's."""
    lease_seconds: Seconds = 10.0
    start_seconds: Annotated[float, Meta(ge=0)] = 5.0
    """How long the first write waits for Kafka; then events wait for it in the journal."""
    shutdown_seconds: Seconds = 10.0
    """How long the program's end waits for requests under way and undelivered events."""


def load_client_config(environment: Mapping[str, str]) -> ClientConfig:
    """Return the configuration that the environment names and overrides.

    Raises:
        ConfigurationError: it cannot be used.
    """
    named = environment.get(CONFIG_VARIABLE)
    overriding = {key: value for key, value in environment.items() if key != CONFIG_VARIABLE}
    try:
        return load(
            ClientConfig,
            Path(named) if named else None,
            overriding,
            prefix=ENVIRONMENT_PREFIX,
            check=_check,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"headgate.client: {error} ({_CURE})") from error


def _check(config: ClientConfig, places: Places) -> None:
    origin = config.origin
    if origin.writer and (origin.dataflow or origin.action):
        raise places.problem(("origin",), "set dataflow (with or without action) or writer")
    if origin.action and not origin.dataflow:
        raise places.problem(("origin",), "an action belongs to a dataflow; set dataflow too")
    if config.journal.segment_bytes > config.journal.limit_bytes:
        path = ("journal", "segment_bytes")
        raise places.problem(path, "is above 'journal.limit_bytes'; lower it")
    if config.kafka.acknowledge is not Acknowledge.JOURNAL:
        raise places.problem(
            ("kafka", "acknowledge"),
            "inside a program replies wait for the journal only; remove the key, or send the "
            "program through an observer",
        )


def observer_config(config: ClientConfig, environment: Mapping[str, str]) -> ObserverConfig:
    """Return the configuration of the observer inside the program."""
    journal = config.journal
    directory = journal.directory
    if not directory:
        state = environment.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
        directory = str(Path(state, "headgate", "clients", config.name or "default"))
    return ObserverConfig(
        name=config.name or _default_name(Path(directory)),
        kafka=config.kafka,
        journal=JournalSettings(
            directory,
            journal.limit_bytes,
            journal.segment_bytes,
            journal.fsync,
            journal.fsync_seconds,
            journal.when_full,
            journal.block_seconds,
        ),
        lease_seconds=config.lease_seconds,
        shutdown_seconds=config.shutdown_seconds,
    )


def program_origin(config: ClientConfig, environment: Mapping[str, str]) -> Origin | None:
    """Return who the program is; None where nothing says it.

    A program that Headgate starts finds its run in the environment. The run counts, unless the
    configuration names somebody else.

    Raises:
        ConfigurationError: the environment's origin cannot be read.
    """
    configured = config.origin
    given = environment.get(RUN_VARIABLE)
    if given:
        try:
            run = decode_origin(given.encode())
        except ValueError as error:
            raise ConfigurationError(
                f"headgate.client: {RUN_VARIABLE} cannot be used ({error}); leave it as Headgate "
                "sets it, or unset it"
            ) from error
        same_action = configured.action in ("", run.action)
        if not configured.writer and configured.dataflow in ("", run.dataflow) and same_action:
            return run
    if not configured.dataflow and not configured.writer:
        return None
    return Origin(configured.dataflow, configured.action, "", 0, configured.writer)


def _default_name(directory: Path) -> str:
    host = re.sub(r"[^A-Za-z0-9._\-]", "-", socket.gethostname())[:60]
    return f"{host}-{zlib.crc32(str(directory.absolute()).encode()):08x}"
