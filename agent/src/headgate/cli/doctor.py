"""``headgate doctor``: why a client does not get through, or its writes make no events."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headgate.cli.observer_tail import (
    ConfigOption,
    ControlTopicOption,
    KafkaOption,
    PropertyOption,
    default_config,
    kafka_place,
)
from headgate.events import canonical_table
from headgate.observer import (
    ConfigurationError,
    Diagnosis,
    Finding,
    FindingVerdict,
    Question,
    TlsFiles,
    load_config,
)

_SIGNS = {
    FindingVerdict.OK: typer.style("ok  ", fg=typer.colors.GREEN),
    FindingVerdict.NOTE: typer.style("--  ", fg=typer.colors.CYAN),
    FindingVerdict.PROBLEM: typer.style("FAIL", fg=typer.colors.RED, bold=True),
}


def doctor(
    *,
    config: ConfigOption = None,
    thrift: Annotated[
        list[str] | None,
        typer.Option("--thrift", help="host:port that a client is pointed at; repeatable."),
    ] = None,
    kafka: KafkaOption = None,
    kafka_property: PropertyOption = None,
    control_topic: ControlTopicOption = None,
    write: Annotated[
        str | None,
        typer.Option(
            help="table:family in which a cell is written through the observer, waited for as an "
            "event, and deleted."
        ),
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(help="Authority of servers' certificates (PEM), for TLS.")
    ] = None,
    cert: Annotated[Path | None, typer.Option(help="Client certificate (PEM), for TLS.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each finding.")
    ] = False,
) -> None:
    """Look at connections, Kafka, topics and the journal step by step; say what to do.

    Name an observer's file, or an address, or both. The exit code is 0 only if all is well.
    """
    tls = TlsFiles(*(str(file) if file else "" for file in (ca, cert, key)))
    problems = 0
    for finding in _findings(config, thrift, kafka, kafka_property, control_topic, write, tls):
        problems += finding.verdict is FindingVerdict.PROBLEM
        if as_json:
            typer.echo(msgspec.json.encode(finding).decode())
            continue
        typer.echo(f"{_SIGNS[finding.verdict]} {finding.step}: {finding.text}")
        if finding.cure:
            typer.echo(f"     -> {finding.cure}")
    if not as_json:
        said = f"{problems} problem{'' if problems == 1 else 's'}" if problems else "all is well"
        typer.echo(f"\n{said}")
    if problems:
        raise typer.Exit(1)


def _findings(
    config: Path | None,
    thrift: list[str] | None,
    kafka: str | None,
    kafka_property: list[str] | None,
    control_topic: str | None,
    write: str | None,
    tls: TlsFiles,
) -> Iterator[Finding]:
    path = config
    lying = default_config()
    if path is None and not thrift and not kafka:
        path = lying
        if path is None:
            raise typer.BadParameter(
                "name an observer's file with --config, or an address with --thrift host:port"
            )
    elif path is None and lying is not None:
        text = f"{lying} of this directory is left out: it may be another observer's"
        cure = f"if it is of this one, name it: --config {lying}"
        yield Finding("configuration", FindingVerdict.NOTE, text, cure)
    loaded = None
    if path is not None:
        try:
            loaded = load_config(path, os.environ)
        except ConfigurationError as error:
            cure = "correct it; what depends on it is not looked at"
            yield Finding("configuration", FindingVerdict.PROBLEM, str(error), cure)
        else:
            yield Finding(
                "configuration", FindingVerdict.OK, f"{path} describes observer {loaded.name}"
            )
    place = None
    if loaded is not None or kafka:
        readable = path if loaded is not None else None
        try:
            place = kafka_place(readable, kafka, kafka_property, control_topic)
        except ConfigurationError as error:
            yield Finding("kafka", FindingVerdict.PROBLEM, str(error), "correct the option")
    question = Question(loaded, tuple(thrift or ()), place, _cell(write), tls)
    yield from Diagnosis(question).findings()


def _cell(write: str | None) -> tuple[str, str] | None:
    if write is None:
        return None
    table, colon, family = write.rpartition(":")
    if not (colon and table and family):
        raise typer.BadParameter(f"--write {write}: write it as table:family")
    return canonical_table(table), family
