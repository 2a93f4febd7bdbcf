"""Requests that are like earlier ones, understood without being read again."""

from __future__ import annotations

from typing import Final, final

from headgate.events import UpdateKind
from headgate.hbase.decoding import decode_request, peek_origins
from headgate.hbase.methods import METHODS, Dialect, Effect, Method, TableIn
from headgate.hbase.reads import ColumnPlace, column_at, column_places, reads_cells
from headgate.hbase.requests import COLON, Cells, Write
from headgate.hbase.tables import peek_table
from headgate.wire import Layout, Message, MessageType, ProtocolError, layout_of

_PUT: Final = int(UpdateKind.PUT)
_LONGEST: Final = 1024
"""Bytes of a request that is worth remembering: with longer ones reading is not what costs."""
_ALIKE: Final = 4
"""Patterns for one length: each costs a comparison."""
_MOST: Final = 2048
"""Patterns of one listener: with about 1 KiB each."""
_TRIED: Final = 16 * 1024
"""Lengths and methods of which one request was seen."""

# Puts of one cell: the method, and its strings before those of the cell.
_PUTS: Final = {Dialect.THRIFT1: "mutateRow", Dialect.THRIFT2: "put"}


@final
class Pattern:
    """A kind of request: its method, its table, and where a put has its cell."""

    __slots__ = (
        "_column",
        "_family",
        "_places",
        "_row",
        "_value",
        "answered",
        "asked",
        "columns",
        "layout",
        "method",
        "name",
        "table",
        "tables",
        "timestamp",
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
        self.columns: dict[bytes, int] = {}
        """Columns that requests of this kind named since they were counted, and how many did."""
        self.whole_rows = False
        """Whether they read cells and name no columns."""
        self._places: list[ColumnPlace] = []
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
        places = self._places
        if not places:
            return
        columns = self.columns
        if len(places) == 1:
            name = column_at(raw, places[0])
            columns[name] = columns.get(name, 0) + 1
            return
        for name in {column_at(raw, place) for place in places}:
            columns[name] = columns.get(name, 0) + 1

    def learn_read(self, dialect: Dialect, message: Message) -> None:
        """Find the columns that a read names in its bytes."""
        self._places = column_places(dialect, message)
        self.whole_rows = not self._places and reads_cells(dialect, self.name)

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
        """Find the cell of a put in its bytes; tell whether there is no doubt about it."""
        cells = write.cells
        parts = self.layout.strings[1:]
        if (
            len(cells.kinds) != 1
            or cells.kinds[0] != _PUT
            or write.others
            or write.ambiguous
            or len({raw[begin:end] for begin, end in parts}) != len(parts)
        ):
            return False
        self.writes = True
        self._row, *column, self._value = parts
        self._column = column[-1]
        if len(column) > 1:
            self._family = column[0]
        self.timestamp = cells.timestamps[0]
        return self.put(raw) == write


class Patterns:
    """The kinds of request that came more than once to one listener."""

    def __init__(self, dialect: Dialect) -> None:
        """Begin with none."""
        self._dialect = dialect
        self._methods = METHODS[dialect]
        self._by_length: list[list[Pattern]] = [[] for _ in range(_LONGEST + 1)]
        self._count = 0
        self._seen: set[tuple[int, str]] = set()

    def find(self, data: bytes) -> Pattern | None:
        """Return the kind of the one whole request that the bytes are; None: it must be read."""
        length = len(data)
        if length > _LONGEST:
            return None
        for pattern in self._by_length[length]:
            if pattern.layout.fits(data):
                return pattern
        return None

    def consider(self, message: Message) -> None:
        """Remember the kind of a request that was read, if it comes for the second time."""
        raw = message.raw
        length = len(raw)
        if length > _LONGEST or self._count >= _MOST or message.type is not MessageType.CALL:
            return
        key = (length, message.name)
        if key not in self._seen:
            if len(self._seen) < _TRIED:
                self._seen.add(key)
            return
        known = self._by_length[length]
        if len(known) >= _ALIKE or self.find(raw) is not None:
            return
        pattern = self._learn(message)
        if pattern is not None:
            self._count += 1
            known.append(pattern)

    def _learn(self, message: Message) -> Pattern | None:
        method = self._methods.get(message.name)
        if method is None:
            return None
        raw = message.raw
        dialect = self._dialect
        try:
            if method.effect is Effect.READ:
                if method.table is TableIn.NOWHERE:
                    layout = layout_of(message, fixed=0, numbers=True)
                    return None if layout is None else Pattern(layout, method, None)
                layout = layout_of(message, fixed=1, numbers=True)
                if method.table is not TableIn.FIELD or layout is None:
                    return None
                pattern = Pattern(layout, method, peek_table(dialect, message))
                pattern.learn_read(dialect, message)
                return pattern if _begins_with_table(pattern, message) else None
            if message.name != _PUTS[dialect] or peek_origins(dialect, message):
                return None
            layout = layout_of(message, fixed=1, numbers=False)
            if layout is None or len(layout.strings) != (4 if dialect is Dialect.THRIFT1 else 5):
                return None
            write = decode_request(dialect, message)
            pattern = Pattern(layout, method, write.table)
            if (
                isinstance(write, Write)
                and _begins_with_table(pattern, message)
                and pattern.learn_put(raw, write)
            ):
                return pattern
        except ProtocolError:
            return None  # HBase refuses it in its own words
        return None


def _begins_with_table(pattern: Pattern, message: Message) -> bool:
    """Tell whether the string whose contents are compared is field 1: the table."""
    begin = pattern.layout.body
    return (
        message.raw.startswith(b"\x0b\x00\x01", begin)
        and bool(pattern.layout.strings)
        and pattern.layout.strings[0][0] == begin + 7
    )
