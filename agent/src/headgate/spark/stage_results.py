"""What a stage's commit names: its manifest, and the increments that the run has made.

Whoever learns of a commit from the ledger alone can so tell what was produced.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

from headgate.engine import FramingKey, Produced

_MARK: Final = "stage:1"
"""Begins the result of a stage, with the version of what comes after it."""
_FLOW: Final = "#"
"""Before the flow in an increment's name; neither names of manifests nor of flows have it."""
_FRAME: Final = "@"
"""Before a framing key, in what an increment's name says after the manifest."""
_UPKEEP: Final = "+upkeep"
"""Among the increments, of which none is called so."""


class FramePart(Struct, frozen=True):
    """What an epoch has made for a flow: an increment, or with framing one of several."""

    flow: str
    key: FramingKey | None = None
    """None with the default framing."""

    def __str__(self) -> str:
        match self.key:
            case None:
                return self.flow
            case int():
                return f"{self.flow}{_FRAME}i{self.key}"
            case _:
                return f"{self.flow}{_FRAME}s{quote(self.key, safe='')}"


def parse_frame_part(text: str) -> FramePart:
    """Return what ``str`` of a part says.

    Raises:
        ValueError: it is none.
    """
    flow, mark, written = text.partition(_FRAME)
    key: FramingKey | None = None
    if mark:
        kind, key = written[:1], written[1:]
        key = unquote(key, errors="strict") if kind == "s" else int(key)
    part = FramePart(flow, key)
    if not flow or str(part) != text:
        message = f"{text!r} is no flow, nor a flow with a framing key"
        raise ValueError(message)
    return part


class IncrementName(Struct, frozen=True):
    """What the reader of an increment needs: the maker's manifest, and the flow."""

    manifest: str
    flow: str
    key: FramingKey | None = None

    @property
    def part(self) -> str:
        """By which the manifest knows it: its flow, with its framing key where it has one."""
        return str(FramePart(self.flow, self.key))

    def __str__(self) -> str:
        return f"{self.manifest}{_FLOW}{self.part}"


def parse_increment_name(name: str) -> IncrementName:
    """Return what an increment's name says.

    Raises:
        ValueError: it is none.
    """
    manifest, _, written = name.partition(_FLOW)
    message = f"{name!r} is no name of an increment: a manifest, `{_FLOW}` and a flow"
    if not manifest or _FLOW in written:
        raise ValueError(message)
    try:
        part = parse_frame_part(written)
    except ValueError as error:
        raise ValueError(message) from error
    return IncrementName(manifest, part.flow, part.key)


class StageResult(Struct, frozen=True):
    """What a run of a stage has made."""

    manifest: str
    """The name of the manifest that says all of its state and its outputs."""
    rows: dict[str, int] = {}
    """By increment for others to read, as ``IncrementName.part`` has it: those that it has."""
    upkeep: bool = False
    """Whether files of the state have come to need a run of their own."""

    def encoded(self) -> str:
        """Return the text that the run's commit names.

        Raises:
            ValueError: a name has a character that separates parts.
        """
        parts = [_MARK, self.manifest, *(f"{flow}={rows}" for flow, rows in self.rows.items())]
        text = " ".join([*parts, *([_UPKEEP] if self.upkeep else [])])
        if decode_result(text) != self:
            message = f"{self} has a name that cannot stand in what a commit names"
            raise ValueError(message)
        return text

    @property
    def produced(self) -> tuple[Produced, ...]:
        """The increments, as the engine hears of them; one for each flow, empty ones too.

        A stage that waits for all its inputs would otherwise wait for ever (BIPS, section 2.2).
        With a framing there is one for each key that came.
        """
        parts = [(parse_frame_part(written), rows) for written, rows in self.rows.items()]
        return tuple(
            Produced(
                part.flow, str(IncrementName(self.manifest, part.flow, part.key)), part.key, rows
            )
            for part, rows in parts
        )


def decode_result(result: str) -> StageResult | None:
    """Return what a stage has named; None where no stage has named it."""
    mark, _, rest = result.partition(" ")
    manifest, *flows = rest.split(" ")
    if mark != _MARK or not manifest or _FLOW in manifest:
        return None
    rows: dict[str, int] = {}
    upkeep = flows[-1:] == [_UPKEEP]
    for part in flows[: len(flows) - upkeep]:
        flow, _, count = part.partition("=")
        if not _is_part(flow) or flow in rows or not (count.isascii() and count.isdigit()):
            return None
        rows[flow] = int(count)
    return StageResult(manifest, rows, upkeep)


def _is_part(written: str) -> bool:
    try:
        return _FLOW not in written and bool(parse_frame_part(written))
    except ValueError:
        return False
