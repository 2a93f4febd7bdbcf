"""Messages of the topics as people read them: one line for each cell or mark, or JSON objects."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from headgate.events import (
    NO_TTL,
    BarrierMark,
    BarrierRequest,
    ControlMessage,
    Fence,
    Gap,
    Gate,
    ObserverLease,
    OriginText,
    Outcome,
    RequestPart,
    TableChange,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    WatchList,
    origin_text,
    printable_key,
)

HEADINGS: Final = ("time", "table", "row", "column", "kind", "outcome", "origin", "observer")
_VALUE_LENGTH: Final = 60  # characters of a value in a line; JSON has the whole
_KINDS: Final = {kind: kind.name.lower().replace("_", "-") for kind in UpdateKind}
_COUNTER_BYTES: Final = 8


class UpdateLine(Struct, frozen=True, tag_field="event", tag="update", kw_only=True):
    r"""An update of one cell. Row, column and value are texts of keys, unprintables as ``\xNN``.

    ``time`` (UTC, ISO 8601) is when the observer had the request. ``timestamp`` is the cell's, in
    ms, where the client gave one; None: HBase did, by its own clock. ``ambiguous``: another request
    wrote the row meanwhile, so HBase's order is not known. ``ttl`` is the cell's time to live in
    ms, None where the client gave none. ``zero_increment``: an increment by 0, as clients read
    counters.
    """

    time: str
    table: str
    row: str
    column: str
    kind: str
    outcome: str
    method: str
    observer: str
    epoch: int
    intent: int
    partition: int
    offset: int
    value: str | None = None
    timestamp: int | None = None
    ambiguous: bool = False
    recovered: bool = False
    origin: OriginText | None = None
    ttl: int | None = None
    zero_increment: bool = False

    def columns(self) -> tuple[str, ...]:
        """Return the line's columns as in ``HEADINGS``, and the value if it is shown."""
        marks = ("?" if self.ambiguous else "") + (" recovered" if self.recovered else "")
        value = ""
        if self.value is not None:
            value = f"= {self.value[:_VALUE_LENGTH]}"
            if len(self.value) > _VALUE_LENGTH:
                value += f"… ({len(self.value)} characters)"
        if self.ttl is not None:
            value += f" for {self.ttl} ms"
        if self.zero_increment:
            value += " by 0"
        return (
            _clock(self.time),
            self.table,
            self.row,
            self.column or "(all)",
            self.kind,
            self.outcome + marks,
            _writer(self.origin),
            self.observer,
            value.lstrip(),
        )


class NoteLine(Struct, frozen=True, tag_field="event", tag="note", kw_only=True):
    """Something else than an update of a cell, in words."""

    time: str
    kind: str
    """``table``, ``gap``, ``barrier``, ``lease``, ``watch``, ``fence`` …"""
    table: str
    observer: str
    epoch: int
    text: str

    def sentence(self) -> str:
        """Return the line's text."""
        about = ", ".join(filter(None, (self.observer, self.table)))
        return f"{_clock(self.time)}  [{self.kind}] {f'{about}: ' if about else ''}{self.text}"


Line = UpdateLine | NoteLine


def _clock(time: str) -> str:
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError):
        return time  # beyond what a calendar holds


def _iso(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"@{seconds:g}"


def _writer(origin: OriginText | None) -> str:
    if origin is None:
        return "-"
    return _plain(origin.writer or f"{origin.dataflow}/{origin.action}")


def _plain(text: str) -> str:
    """Return text without what would move a terminal's cursor."""
    return text if text.isprintable() else printable_key(text.encode("utf-8", "surrogateescape"))


def update_lines(
    message: UpdateMessage, table: str, place: tuple[int, int], written: float, *, values: bool
) -> Iterator[Line]:
    """Yield the lines of a message of a table's topic.

    Args:
        message: what was read.
        table: the table of the topic; marks do not name it.
        place: partition and offset.
        written: when Kafka took the message, in Unix seconds; requests have times of their own.
        values: whether the values of cells are shown.
    """
    match message:
        case UpdateBatch():
            yield from _cell_lines(message, place, values=values)
        case TableChange():
            family = f", family {_plain(message.family)}" if message.family else ""
            text = f"{message.kind}{family}: {message.outcome}"
            yield _note(message, "table", table, message.received, text)
        case Gap():
            text = (
                f"{_plain(message.reason)}: some writes from {_clock(_iso(message.since))} to "
                f"{_clock(_iso(message.until))} may have no events"
            )
            yield _note(message, "gap", table, written, text)
        case BarrierMark():
            yield _note(message, "barrier", table, written, f"mark {_plain(message.id)}")


def _note(
    message: TableChange | Gap | BarrierMark, kind: str, table: str, at: float, text: str
) -> NoteLine:
    return NoteLine(
        time=_iso(at),
        kind=kind,
        table=_plain(table),
        observer=_plain(message.observer),
        epoch=message.epoch,
        text=text,
    )


class _Marks(Struct, frozen=True):
    """Facts that a request gives about one cell beside the batch's columns; see ``RequestPart``."""

    ambiguous: bool
    zero_increment: bool
    ttl: int


def _cell_lines(batch: UpdateBatch, place: tuple[int, int], *, values: bool) -> Iterator[Line]:
    first = 0
    for part in batch.requests:
        unsure, zeros = set(part.ambiguous), set(part.zero_increments)
        for at in range(part.cells):
            marks = _Marks(at in unsure, at in zeros, part.ttl(at))
            yield _cell_line(batch, part, first + at, place, marks, values=values)
        first += part.cells


def _cell_line(
    batch: UpdateBatch,
    part: RequestPart,
    at: int,
    place: tuple[int, int],
    marks: _Marks,
    *,
    values: bool,
) -> UpdateLine:
    kind = _kind(batch.kinds[at])
    value = batch.values[at]
    timestamp = batch.timestamps[at]
    return UpdateLine(
        time=_iso(part.received),
        table=_plain(batch.table),
        row=printable_key(batch.rows[at]),
        column=printable_key(batch.columns[at]),
        kind=_KINDS[kind] if kind is not None else f"kind-{batch.kinds[at]}",
        outcome=str(part.outcome),
        method=part.method,
        observer=_plain(batch.observer),
        epoch=batch.epoch,
        intent=part.intent,
        partition=place[0],
        offset=place[1],
        value=_value(kind, value) if values and value is not None else None,
        timestamp=timestamp if timestamp >= 0 else None,
        ambiguous=marks.ambiguous and part.outcome is Outcome.APPLIED,
        recovered=batch.recovered,
        origin=None if part.origin is None else origin_text(part.origin),
        ttl=None if marks.ttl == NO_TTL else marks.ttl,
        zero_increment=marks.zero_increment,
    )


def _kind(number: int) -> UpdateKind | None:
    try:
        return UpdateKind(number)
    except ValueError:
        return None  # of a newer observer


def _value(kind: UpdateKind | None, value: bytes) -> str:
    counter = kind in (UpdateKind.INCREMENT, UpdateKind.INCREMENT_DELTA)
    if counter and len(value) == _COUNTER_BYTES:
        return str(int.from_bytes(value, "big", signed=True))
    return printable_key(value)


def control_line(message: ControlMessage, written: float) -> Line:
    """Return the line of a message of the control topic; ``written`` is in Unix seconds."""
    tables, observer, epoch = "", "", 0
    match message:
        case WatchList():
            kind = "watch"
            names = ", ".join(watch.table for watch in message.watches) or "nothing any more"
            text = f"dataflow {message.dataflow}, revision {message.revision}, watches {names}"
        case BarrierRequest():
            kind, tables = "barrier", ", ".join(message.tables)
            text = f"{message.requester} asks for {message.id}"
        case Fence():
            kind = "fence"
            text = f"{message.dataflow}/{message.action}: tokens below {message.token} are refused"
        case Gate():
            kind = "gate"
            tables = ", ".join(
                dict.fromkeys(table for each in message.containers for table in each.tables)
            )
            state = "is open" if message.released else f"is closed to {_clock(_iso(message.until))}"
            text = f"bound {message.bound} of {message.dataflow}/{message.action} {state}"
        case ObserverLease():
            kind, observer, epoch = "lease", message.observer, message.epoch
            text = "has ended cleanly" if message.ended else f"lives for {message.seconds:g} s more"
            if message.address:
                text += f", admin address {message.address}"
    return NoteLine(
        time=_iso(written),
        kind=kind,
        table=_plain(tables),
        observer=_plain(observer),
        epoch=epoch,
        text=_plain(text),
    )


class LineFormatter:
    """Pads lines so that columns stand below one another as far as their texts allow."""

    def __init__(self) -> None:
        """Begin with columns as wide as their headings need."""
        self._widths = [12, 10, 12, 10, 13, 9, 8, 8]

    _WIDEST = 32

    def headings(self) -> str:
        """Return the line above all."""
        return self._padded(HEADINGS)

    def line(self, line: Line) -> str:
        """Return a line's text; a column that needs more room keeps it for those that follow."""
        if isinstance(line, NoteLine):
            return line.sentence()
        columns = line.columns()
        for number, text in enumerate(columns[: len(self._widths)]):
            if self._widths[number] < len(text) <= self._WIDEST:
                self._widths[number] = len(text)
        return self._padded(columns)

    def _padded(self, columns: tuple[str, ...]) -> str:
        padded = [text.ljust(width) for text, width in zip(columns, self._widths, strict=False)]
        return "  ".join([*padded, *columns[len(self._widths) :]]).rstrip()
