"""Checkpoints as cells of a dataflow's row: a head, and the engine's snapshot in chunks."""

from __future__ import annotations

import zlib

import msgspec
from msgspec import Struct

from headgate.agent.errors import DamagedState
from headgate.agent.ports import BadRecord
from headgate.agent.state.cell_values import UnreadableCell, read_cell
from headgate.engine import Kept, LogChange
from headgate.events import Cut

CHUNK = 1 << 20
"""Bytes of a snapshot in one cell: HBase handles cells of this size well, larger ones badly."""

STATE_HEAD = b"state:meta"
"""The column that says what belongs to a checkpoint; empty where there is none."""

_encode = msgspec.msgpack.Encoder().encode


class FlowProgress(Struct, frozen=True):
    """How far a dataflow has come, beside the engine's snapshot.

    ``waves`` were asked for, of which all up to ``settled`` are done; ``unsettled`` are those whose
    barrier has not passed yet, each with its input actions. ``start`` is where reading began.
    """

    next_record: int = 0
    waves: int = 0
    settled: int = 0
    unsettled: tuple[tuple[int, tuple[str, ...]], ...] = ()
    start: Cut = Cut()
    watching: bool = False
    """Whether its watches have been in effect."""
    paused: bool = False
    reconciled: float = 0.0
    """When all was last scanned for what no update said, in Unix seconds."""
    notified: tuple[str, ...] = ()
    """Tables with a notify column that was asked for."""
    consumed: int = 0
    """Cells of all updates consumed so far."""
    quarantined: dict[str, str] = {}
    runs: dict[str, int] = {}
    """Committed runs by action."""
    skipped: dict[str, int] = {}
    """Evaluations after which nothing ran, by action."""
    lost_epochs: dict[str, tuple[int, ...]] = {}
    """Observers' epochs that are lost for good, and of which what is missing was looked for."""
    decisions: tuple[bytes, ...] = ()
    """Those that Kafka may not have."""
    moved: tuple[str, ...] = ()
    """Tables whose rows are in other partitions than they were, and are still to be read again."""
    set_aside: int = 0
    """Records that were left out."""
    bad_records: tuple[BadRecord, ...] = ()
    """The newest of them, the newest first."""
    new_input: bool = False
    """Whether input was consumed since the last wave ended."""
    wave_due: float | None = None
    """When the wave ends by itself, in Unix seconds."""
    turns: dict[str, int] = {}
    """Waves of input that ended before an action, directly or by way of others, by action."""
    wave_times: dict[int, float] = {}
    """Waves' own times in Unix seconds, by number: of the last wave, and of unsettled ones."""
    training: bytes = b""
    """Report of the last training of models, as its author writes it; empty without one."""


class SavedState(Struct, frozen=True):
    """A checkpoint: the engine's snapshot, its cut, and the service's own progress."""

    snapshot: bytes
    cut: Cut
    progress: FlowProgress
    log: LogChange = LogChange()
    """What of the engine's log belongs to the snapshot, and what has changed in it."""


class _Meta(Struct, frozen=True):
    saved: float
    chunks: int
    size: int
    checksum: int
    cut: Cut
    progress: FlowProgress
    kept: tuple[Kept, ...] = ()


def _chunk(number: int) -> bytes:
    return b"state:snapshot.%05d" % number


def state_cells(state: SavedState, now: float) -> dict[bytes, bytes]:
    """Return the cells of a checkpoint that is saved at ``now`` (Unix seconds).

    Segments of the engine's log are not among them: its head names those that belong to it.
    """
    snapshot = state.snapshot
    chunks = [snapshot[i : i + CHUNK] for i in range(0, len(snapshot), CHUNK)]
    checksum = zlib.crc32(snapshot)
    size = len(snapshot)
    kept = state.log.kept
    meta = _Meta(now, len(chunks), size, checksum, state.cut, state.progress, kept)
    cells = {STATE_HEAD: _encode(meta)}
    cells |= {_chunk(number): chunk for number, chunk in enumerate(chunks)}
    return cells


def state_in(name: str, columns: dict[bytes, bytes]) -> SavedState | None:
    """Return the checkpoint in a dataflow's row; None where there is none.

    Raises:
        DamagedState: it is not whole.
    """
    if not columns.get(STATE_HEAD):
        return None
    try:
        meta = read_cell(columns[STATE_HEAD], _Meta)
    except UnreadableCell as error:
        raise DamagedState(name, f"its head cannot be read ({error})") from error
    snapshot = b"".join(columns.get(_chunk(number), b"") for number in range(meta.chunks))
    if len(snapshot) != meta.size or zlib.crc32(snapshot) != meta.checksum:
        raise DamagedState(name, f"its snapshot is not the one of {meta.size} bytes")
    return SavedState(snapshot, meta.cut, meta.progress, LogChange(kept=meta.kept))
