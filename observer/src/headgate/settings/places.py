"""Where in a TOML text, or in which variable, each key of a configuration was set."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headgate.settings.addresses import parse_address

Path = tuple[str, ...]
"""A key with its tables, from the top; an element of an array by its number."""

_HEADER = re.compile(r"^\s*(\[\[?)\s*([A-Za-z0-9_.\-]+)\s*\]")
_KEY = re.compile(r"^\s*\"?([A-Za-z0-9_.\-]+)\"?\s*=")


class ConfigurationError(ValueError):
    """The configuration cannot be used; the message names the file, the line and the cure."""


def dotted(path: Path) -> str:
    """Return a path as it is written in messages: ``rules[0].table``."""
    text = ""
    for part in path:
        if part.isdigit():
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


class Places:
    """The line or the variable of each key that was set."""

    def __init__(self, text: str, source: str) -> None:
        """Find the lines of a TOML text; ``source`` is its name in messages."""
        self._source = source
        self._places: dict[Path, str] = {}
        for path, line in _lines(text):
            self._places.setdefault(path, f"{source}:{line}")

    def override(self, path: Path, variable: str) -> None:
        """Note that a variable of the environment sets a key."""
        self._places[path] = f"environment: {variable}"

    def at(self, path: Path) -> str:
        """Return the place of a key, or of the innermost table around it that has one."""
        while path and path not in self._places:
            path = path[:-1]
        return self._places.get(path, self._source)

    def problem(self, path: Path, text: str) -> ConfigurationError:
        """Return the error that says what is wrong with a key (or, with (), with all of it)."""
        what = f"{dotted(path)!r}: {text}" if path else text
        return ConfigurationError(f"{self.at(path)}: {what}")

    def check_address(self, path: Path, address: str) -> None:
        """Require ``host:port``.

        Raises:
            ConfigurationError: it is none.
        """
        try:
            parse_address(address)
        except ValueError as error:
            raise self.problem(path, str(error)) from error


def _lines(text: str) -> Iterator[tuple[Path, int]]:
    table: Path = ()
    counts: dict[Path, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = tuple(header[2].split("."))
            if header[1] == "[[":
                yield table, number
                count = counts.get(table, 0)
                counts[table] = count + 1
                table = (*table, str(count))
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, *key[1].split(".")), number
