"""Requests that are like earlier ones, understood without being read again."""

from __future__ import annotations

from typing import Final, final

from headgate.events import UpdateKind
from headgate.hbase.methods import Dialect, Effect, Method, TableIn
from headgate.hbase.reading import Request
from headgate.hbase.reads import ColumnPlace, column_at, column_places, reads_cells
from headgate.hbase.requests import COLON, Cells, Write
from headgate.wire import Layout, Message, MessageType, layout_of

_PUT: Final = int(UpdateKind.PUT)
_LONGEST: Final = 1024
"""Bytes of a request that is worth remembering: with longer ones reading is not what costs."""
_ALIKE: Final = 4
"""Patterns for one length: each costs a comparison, and about 1 KiB."""
_TRIED: Final = 16 * 1024
"""Lengths and methods of which one request was seen, before it is forgotten which."""

# Puts of one cell, as clients write them: the bytes before each string of theirs, up to its length.
# Field 1 is the table; a list has one struct; isDelete may be left out.
_TEXT_1: Final = b"\x0b\x00\x01"
_TEXT_2: Final = b"\x0b\x00\x02"
_TEXT_3: Final = b"\x0b\x00\x03"
_LIST_2: Final = b"\x0f\x00\x02\x0c\x00\x00\x00\x01"
_LIST_3: Final = b"\x0f\x00\x03\x0c\x00\x00\x00\x01"
_STRUCT_2: Final = b"\x0c\x00\x02"
_IS_PUT: Final = b"\x02\x00\x01\x00"
_PUTS: Final = {
    (Dialect.THRIFT1, "mutateRow"): (
        (_TEXT_1, _TEXT_2, _LIST_3 + _TEXT_2, _TEXT_3),
        (_TEXT_1, _TEXT_2, _LIST_3 + _IS_PUT + _TEXT_2, _TEXT_3),
    ),
    (Dialect.THRIFT1, "mutateRows"): (
        (_TEXT_1, _LIST_2 + _TEXT_1, _LIST_2 + _TEXT_2, _TEXT_3),
        (_TEXT_1, _LIST_2 + _TEXT_1, _LIST_2 + _IS_PUT + _TEXT_2, _TEXT_3),
    ),
    (Dialect.THRIFT2, "put"): (
        (_TEXT_1, _STRUCT_2 + _TEXT_1, _LIST_2 + _TEXT_1, _TEXT_2, _TEXT_3),
    ),
    (Dialect.THRIFT2, "putMultiple"): (
        (_TEXT_1, _LIST_2 + _TEXT_1, _LIST_2 + _TEXT_1, _TEXT_2, _TEXT_3),
    ),
}


@final
class Pattern:
    """A kind of request: its method, its table, and where a put has its cell."""

    __slots__ = (
        "_column",
        "_columns",
        "_family",
        "_named",
        "_named_again",
        "_named_at",
        "_named_end",
        "_named_in",
        "_places",
        "_row",
        "_value",
        "answered",
        "asked",
        "layout",
        "method",
        "name",
        "table",
        "tables",
        "timestamp",
        "used",
        "whole_rows",
        "writes",
    )

    def __init__(self, layout: Layout, method: Method, table: str | None) -> None:
        self.layout = layout
        self.method = method
        self.name = method.name
        self.table = table
        """None where the request names none."""
        self.tables: tuple[str, ...] = () if table is None else (table,)
        self.asked = 0
        """Requests of this kind that came, since they were counted."""
        self.answered = 0
        """Those that ended with an answer since then."""
        self._columns: dict[bytes, int] = {}
        """Columns that requests of this kind named since they were taken, and how many did."""
        self._named = self._named_in = b""
        """The bytes in which the last of them named its columns, and all of its bytes."""
        self._named_at = self._named_end = self._named_again = 0
        self.whole_rows = False
        """Whether they read cells and name no columns."""
        self._places: list[ColumnPlace] = []
        self.used = True
        """Whether a request of this kind came since another one was learned."""
        self.timestamp = -1
        self.writes = False
        """Whether requests of this kind put one cell; then its parts lie as follows."""
        self._row = self._family = self._column = self._value = (0, 0)

    def message(self, raw: bytes) -> Message:
        """Return a request of this kind as the message that reading it would have given."""
        layout = self.layout
        seqid = layout.sequence_number(raw)
        return Message(raw, layout.body, self.name, MessageType.CALL, seqid, layout.transport)

    def note_columns(self, raw: bytes) -> None:
        """Count the columns that a read of this kind names, each once."""
        # Nearly always those of the one before: then their names need not be taken out.
        if raw.startswith(self._named, self._named_at):
            self._named_again += 1
        else:
            self._settle_columns()
            self._named_in = raw
            self._named = raw[self._named_at : self._named_end]
            self._named_again = 1

    def take_columns(self) -> dict[bytes, int]:
        """Return how many reads named each column since the last call."""
        self._settle_columns()
        columns, self._columns = self._columns, {}
        return columns

    def _settle_columns(self) -> None:
        again, self._named_again = self._named_again, 0
        if not again:
            return
        columns = self._columns
        for name in {column_at(self._named_in, place) for place in self._places}:
            columns[name] = columns.get(name, 0) + again

    def learn_read(self, dialect: Dialect, message: Message) -> None:
        """Find the columns that a read names in its bytes."""
        self._places = places = column_places(dialect, message)
        self.whole_rows = not places and reads_cells(dialect, self.name)
        if places:
            self._named_at = min(
                [min(begin, at) if at >= 0 else begin for begin, _, at, _ in places]
            )
            self._named_end = max([max(end, behind) for _, end, _, behind in places])
            self._named = message.raw[self._named_at : self._named_end]
            self._named_in = message.raw

    def cell(self, raw: bytes) -> tuple[bytes, bytes, bytes] | None:
        """Return row, column and value of a request that puts one cell.

        None where it must be decoded after all, for what it says need not be one cell.
        """
        begin, end = self._column
        column = raw[begin:end]
        begin, end = self._family
        if end:
            column = raw[begin:end] + b":" + column
        elif COLON not in column:
            return None
        begin, end = self._row
        row = raw[begin:end]
        begin, end = self._value
        return row, column, raw[begin:end]

    def put(self, raw: bytes) -> Write | None:
        """Return the write in a request of this kind; None where it must be decoded after all."""
        cell = self.cell(raw)
        if cell is None:
            return None
        row, column, value = cell
        assert self.table is not None  # noqa: S101 - puts name theirs
        cells = Cells(bytearray(1), [row], [column], [self.timestamp], [value])
        return Write(self.name, self.table, cells)

    def learn_put(self, raw: bytes, write: Write) -> bool:
        """Note where a put has its cell; return whether that is certain.

        The strings stand where ``_PUTS`` says, so that each is what it is by its field.
        """
        cells = write.cells
        if len(cells.kinds) != 1 or cells.kinds[0] != _PUT:
            return False
        self.writes = True
        _, self._row, *column, self._value = self.layout.strings
        self._column = column[-1]
        if len(column) > 1:
            self._family = column[0]
        self.timestamp = cells.timestamps[0]
        return self.put(raw) == write


class Patterns:
    """The kinds of request that came more than once to one listener."""

    LONGEST: Final = _LONGEST

    def __init__(self, dialect: Dialect) -> None:
        """Begin with none."""
        self._dialect = dialect
        self._by_length: list[list[Pattern]] = [[] for _ in range(_LONGEST + 1)]
        self._seen: set[tuple[int, str]] = set()

    def find(self, data: bytes) -> Pattern | None:
        """Return the kind of the one whole request that the bytes are; None: it must be read."""
        length = len(data)
        if length > _LONGEST:
            return None
        for pattern in self._by_length[length]:
            if pattern.layout.fits(data):
                pattern.used = True
                return pattern
        return None

    def consider(self, request: Request) -> None:
        """Remember the kind of a request that was read, if it comes for the second time.

        What is not asked for gives way: clients may send as many kinds as they like.
        """
        raw = request.message.raw
        length = len(raw)
        if length > _LONGEST or request.method.effect is Effect.UNKNOWN:
            return
        key = (length, request.method.name)
        if key not in self._seen:
            if len(self._seen) >= _TRIED:
                self._seen.clear()
            self._seen.add(key)
            return
        if self.find(raw) is not None:
            return
        pattern = self._learn(request)
        if pattern is None:
            return
        known = self._by_length[length]
        if len(known) < _ALIKE:
            known.append(pattern)
            return
        for at, old in enumerate(known):
            if not old.used:
                known[at] = pattern
                return
        # The next one takes the place of what is not used until then.
        for old in known:
            old.used = False

    def _learn(self, request: Request) -> Pattern | None:
        message, method = request.message, request.method
        if method.effect is Effect.READ:
            if method.table is TableIn.NOWHERE:
                layout = layout_of(message, fixed=0, numbers=True)
                return None if layout is None else Pattern(layout, method, None)
            layout = layout_of(message, fixed=1, numbers=True)
            if method.table is not TableIn.FIELD or layout is None:
                return None
            if not _begins_with_table(layout, message):
                return None
            pattern = Pattern(layout, method, request.tables[0])
            pattern.learn_read(self._dialect, message)
            return pattern
        forms = _PUTS.get((self._dialect, method.name))
        write = request.change
        if forms is None or not isinstance(write, Write) or write.origins or write.origin_error:
            return None
        layout = layout_of(message, fixed=1, numbers=False)
        if layout is None or not any(_is_written(layout, message.raw, form) for form in forms):
            return None
        pattern = Pattern(layout, method, write.table)
        return pattern if pattern.learn_put(message.raw, write) else None


def _begins_with_table(layout: Layout, message: Message) -> bool:
    """Return whether the string whose contents are compared is field 1: the table."""
    begin = layout.body
    return (
        message.raw.startswith(_TEXT_1, begin)
        and bool(layout.strings)
        and layout.strings[0][0] == begin + 7
    )


def _is_written(layout: Layout, raw: bytes, form: tuple[bytes, ...]) -> bool:
    """Return whether a request has these strings only, and these bytes before each of them."""
    if len(layout.strings) != len(form):
        return False
    at = layout.body
    for (begin, end), before in zip(layout.strings, form, strict=True):
        if raw[at : begin - 4] != before:
            return False
        at = end
    return True
