"""``headgate observer tail``: events as they come, from Kafka."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headgate.events import CONTROL_TOPIC, BarrierMark, Gap, TableChange
from headgate.observer import (
    BEGINNING,
    NOW,
    Follower,
    FromControl,
    FromTable,
    KafkaPlace,
    KafkaUnavailable,
    LineFormatter,
    NoteLine,
    UnreadableRecord,
    UpdateLine,
    control_line,
    load_config,
    update_lines,
)
from headgate.settings import ConfigurationError, LogLevel, configure_log

_DEFAULT_FILE = Path("observer.toml")
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_REMEMBERED = 10_000  # what stands in every partition of a topic is shown once

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="An observer's TOML file: where Kafka is. Default: observer.toml, if there is one and "
        "no address is named.",
        show_default=False,
    ),
]
KafkaOption = Annotated[
    str | None, typer.Option("--kafka", help="host:port of a broker, instead of the file's.")
]
PropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-property",
        help="librdkafka setting key=value, as security.protocol=SSL; repeatable.",
    ),
]
ControlTopicOption = Annotated[
    str | None, typer.Option(help=f"Control topic, instead of the file's or {CONTROL_TOPIC}.")
]


def tail(
    *,
    config: ConfigOption = None,
    kafka: KafkaOption = None,
    kafka_property: PropertyOption = None,
    control_topic: ControlTopicOption = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            "-t",
            help="Show this table, or all that fit a pattern; repeatable. "
            "Default: all that dataflows watch.",
        ),
    ] = None,
    dataflow: Annotated[
        str | None, typer.Option(help="Show the tables that this dataflow watches.")
    ] = None,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            help="now, beginning, a time as 2026-01-31T12:00 (local, or with an offset), "
            "or how long ago: 10m.",
        ),
    ] = "now",
    values: Annotated[bool, typer.Option("--values", help="Show the values of cells.")] = False,
    control: Annotated[
        bool,
        typer.Option(
            "--control", help="Show barriers, observers' leases, watch lists, fences and gates too."
        ),
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End after so many updates.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each line.")
    ] = False,
) -> None:
    r"""Show the updates of watched tables as they come, one line for each cell.

    Rows, columns and values are shown as HBase's shell does: what is not printable as \xNN. An
    outcome with "?" says that another request wrote the row meanwhile. Ctrl-C ends with a summary.
    """
    configure_log(as_json=as_json, level=LogLevel.WARNING)
    began = time.monotonic()
    printer = _Printer(values=values, control=control, as_json=as_json)
    try:
        place = kafka_place(config, kafka, kafka_property, control_topic)
        follower = Follower(
            place.bootstrap,
            place.properties,
            control_topic=place.control_topic,
            tables=frozenset(table or ()),
            dataflow=dataflow,
            begin=_beginning(begin),
        )
    except (ConfigurationError, KafkaUnavailable) as error:
        typer.echo(f"headgate observer tail: {error}", err=True)
        raise typer.Exit(1) from error
    try:
        _begin(follower, place.control_topic)
        for line in printer.lines(follower):
            printer.show(line)
            if count is not None and printer.updates >= count:
                break
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # Whoever read this has seen enough; nothing can be said on that pipe any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        follower.close()
    typer.echo(printer.summary(time.monotonic() - began), err=True)


def default_config() -> Path | None:
    """Return the file that is meant where nothing is named: observer.toml, if there is one."""
    return _DEFAULT_FILE if _DEFAULT_FILE.exists() else None


def kafka_place(
    config: Path | None,
    bootstrap: str | None,
    properties: list[str] | None,
    control_topic: str | None,
) -> KafkaPlace:
    """Return where Kafka is: from options, and from an observer's file.

    A broker that is named may be another observer's than the file that happens to lie here, whose
    control topic and properties would be wrong: that file is taken only where it is named too.

    Raises:
        ConfigurationError: neither says it, or the file cannot be used.
    """
    path = config or (None if bootstrap else default_config())
    place = KafkaPlace("", {}, CONTROL_TOPIC)
    if path is not None:
        kafka = load_config(path, os.environ).kafka
        place = KafkaPlace(kafka.bootstrap, dict(kafka.properties), kafka.control_topic)
    if not (bootstrap or place.bootstrap):
        raise ConfigurationError(
            "where is Kafka? name a broker with --kafka host:port, or an observer's file with "
            "--config"
        )
    own = {}
    for entry in properties or ():
        key, equals, value = entry.partition("=")
        if not equals:
            raise ConfigurationError(f"--kafka-property {entry}: write it as key=value")
        own[key.strip()] = value.strip()
    return KafkaPlace(
        bootstrap or place.bootstrap,
        {**place.properties, **own},
        control_topic or place.control_topic,
    )


def _beginning(text: str) -> int:
    named: dict[str, int] = {"now": NOW, "beginning": BEGINNING}
    if text in named:
        return named[text]
    if ago := _AGO.fullmatch(text):
        return int((time.time() - float(ago[1]) * _SECONDS[ago[2]]) * 1000)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError as error:
        raise ConfigurationError(
            f"--from {text}: write now, beginning, a time as 2026-01-31T12:00, or 10m for ten "
            "minutes ago"
        ) from error


def _begin(follower: Follower, control_topic: str) -> None:
    """Say what is followed, and why nothing may come."""
    tables = follower.tables
    if not tables:
        said = (
            f"no table is watched yet (control topic {control_topic}); waiting for one: "
            "submit a dataflow, or name tables with --table"
        )
    else:
        shown = ", ".join(tables[:5]) + (f" and {len(tables) - 5} more" if tables[5:] else "")
        said = f"following {shown}; Ctrl-C ends"
    typer.echo(said, err=True)
    unwatched = follower.unwatched
    if unwatched:
        typer.echo(
            f"no dataflow watches {', '.join(unwatched)}: it is published where the observers' "
            "watch.tables name it, and nothing of it otherwise",
            err=True,
        )


class _Printer:
    """Turns what was read into lines, and counts."""

    def __init__(self, *, values: bool, control: bool, as_json: bool) -> None:
        self._values = values
        self._control = control
        self._as_json = as_json
        self._formatter = LineFormatter()
        self._seen: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._tables: set[str] = set()
        self._shown = 0
        self.updates = 0

    def lines(self, follower: Follower) -> Iterator[UpdateLine | NoteLine]:
        """Yield what is to be shown, for ever."""
        known = follower.tables
        for found in follower.follow():
            match found:
                case None:
                    if new := [each for each in follower.tables if each not in known]:
                        typer.echo(f"now following {', '.join(new)} too", err=True)
                    known = follower.tables
                case FromTable():
                    if self._is_due(found):
                        yield from update_lines(
                            found.message,
                            found.table,
                            (found.partition, found.offset),
                            found.written,
                            values=self._values,
                        )
                case FromControl():
                    if self._control:
                        yield control_line(found.message, found.written)
                case UnreadableRecord():
                    place = f"{found.topic} [{found.partition}] at {found.offset}"
                    typer.echo(f"skipped {place}: {found.reason}", err=True)

    def _is_due(self, found: FromTable) -> bool:
        """Return whether to show a message; what stands in every partition is shown once."""
        message = found.message
        key: tuple[object, ...]
        if isinstance(message, BarrierMark):
            if not self._control:
                return False
            key = (found.table, message.observer, message.epoch, message.id)
        elif isinstance(message, TableChange):
            key = (found.table, message.observer, message.epoch, message.intent)
        elif isinstance(message, Gap):
            key = (found.table, message.observer, message.since, message.until, message.reason)
        else:
            return True
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return True

    def show(self, line: UpdateLine | NoteLine) -> None:
        """Print a line."""
        if not self._shown and not self._as_json:
            sys.stdout.write(self._formatter.headings() + "\n")
        self._shown += 1
        if isinstance(line, UpdateLine):
            self.updates += 1
            self._tables.add(line.table)
        text = msgspec.json.encode(line).decode() if self._as_json else self._formatter.line(line)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def summary(self, seconds: float) -> str:
        """Return what was seen, in words."""
        rate = f", {self.updates / seconds:.1f} a second" if self.updates else ""
        tables = f" of {_counted(len(self._tables), 'table')}" if self.updates else ""
        others = self._shown - self.updates
        more = f"; {_counted(others, 'other line')}" if others else ""
        return f"\n{_counted(self.updates, 'update')}{tables} in {seconds:.0f} s{rate}{more}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
