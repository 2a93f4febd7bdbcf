"""``headgate token``: a token with which somebody may ask the agents."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headgate.agent import Role, TokenEntry, hash_of, new_token, read_entries
from headgate.cli.json_document import JsonOption, print_document
from headgate.settings import ConfigurationError


def token(
    name: Annotated[str, typer.Argument(help="Who is to have it, as the audit calls them.")],
    *,
    role: Annotated[
        Role,
        typer.Option(
            help="What it allows: read; operate: pause, run, retry ...; define: submit and update, "
            "which is to run any code as the agent's user."
        ),
    ] = Role.READ,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="The agents' access.tokens, to which its hash is added."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make a token: prints it once; agents know it by its hash.

    Agents read their file of tokens again when it has changed. Whoever has the token shows it in
    HEADGATE_TOKEN, or from a file with --token-file.
    """
    made = new_token()
    try:
        entry = msgspec.convert(
            {"name": name, "role": role.value, "sha256": hash_of(made)}, TokenEntry
        )
        if file is not None:
            _add(entry, file)
    except (msgspec.ValidationError, ConfigurationError, OSError) as error:
        words = str(error)
        if isinstance(error, msgspec.ValidationError):
            words = f"{name!r} names nobody: take letters, digits, '.', '_', '@' and '-'"
        sys.stderr.write(f"headgate token: {words}\n")
        raise typer.Exit(1) from error
    if json:
        print_document({"token": made, "entry": msgspec.to_builtins(entry)})
        return
    if file is None:
        typer.echo(f"Add to the file that access.tokens names:\n{_written(entry)}", err=True)
    typer.echo(made)


def _written(entry: TokenEntry) -> str:
    return (
        f'[[tokens]]\nname = "{entry.name}"\nrole = "{entry.role.value}"\n'
        f'sha256 = "{entry.sha256}"\n'
    )


def _add(entry: TokenEntry, file: Path) -> None:
    before = ""
    mode = 0o644
    if file.exists():
        read_entries(file)
        before = file.read_text(encoding="utf-8").rstrip() + "\n\n"
        mode = file.stat().st_mode & 0o777
    # Agents read the file as it is now or as it was, never half of it.
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        draft.write_text(before.lstrip() + _written(entry), encoding="utf-8")
        draft.chmod(mode)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
