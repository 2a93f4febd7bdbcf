"""``--json``: the result of a command as one document, for programs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def print_document(content: Any) -> None:
    """Print what msgspec can encode as one indented JSON document."""
    typer.echo(msgspec.json.format(msgspec.json.encode(content)).decode())
