"""What a stage's commit names: its manifest, and the increments that the run has made.

Whoever learns of a commit from the ledger alone can so tell what was produced.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from headgate.engine import Produced

_MARK: Final = "stage:1"
"""Begins the result of a stage, with the version of what comes after it."""
_FLOW: Final = "#"
"""Before the flow in an increment's name; neither names of manifests nor of flows have it."""


class IncrementName(Struct, frozen=True):
    """What the reader of an increment needs: the maker's manifest, and the flow."""

    manifest: str
    flow: str

    def __str__(self) -> str:
        return f"{self.manifest}{_FLOW}{self.flow}"


def parse_increment_name(name: str) -> IncrementName:
    """Return what an increment's name says.

    Raises:
        ValueError: it is none.
    """
    manifest, _, flow = name.partition(_FLOW)
    if not manifest or not flow or _FLOW in flow:
        message = f"{name!r} is no name of an increment: a manifest, `{_FLOW}` and a flow"
        raise ValueError(message)
    return IncrementName(manifest, flow)


class StageResult(Struct, frozen=True):
    """What a run of a stage has made."""

    manifest: str
    """The name of the manifest that says all of its state and its outputs."""
    rows: dict[str, int] = {}
    """By output flow that others may read, those of its increment."""

    def encoded(self) -> str:
        """Return the text that the run's commit names.

        Raises:
            ValueError: a name has a character that separates parts.
        """
        parts = [_MARK, self.manifest, *(f"{flow}={rows}" for flow, rows in self.rows.items())]
        text = " ".join(parts)
        if decode_result(text) != self:
            message = f"{self} has a name that cannot stand in what a commit names"
            raise ValueError(message)
        return text

    @property
    def produced(self) -> tuple[Produced, ...]:
        """The increments, as the engine hears of them; one for each flow, empty ones too.

        A stage that waits for all its inputs would otherwise wait for ever (BIPS, section 2.2).
        """
        return tuple(
            Produced(flow, str(IncrementName(self.manifest, flow)), None, rows)
            for flow, rows in self.rows.items()
        )


def decode_result(result: str) -> StageResult | None:
    """Return what a stage has named; None where no stage has named it."""
    mark, _, rest = result.partition(" ")
    manifest, *flows = rest.split(" ")
    if mark != _MARK or not manifest or _FLOW in manifest:
        return None
    rows: dict[str, int] = {}
    for part in flows:
        flow, _, count = part.partition("=")
        if not flow or _FLOW in flow or flow in rows or not (count.isascii() and count.isdigit()):
            return None
        rows[flow] = int(count)
    return StageResult(manifest, rows)
