"""HBase's Thrift1 and Thrift2: which method does what, and what a request has done.

``method_of`` and ``peek_table`` cost next to nothing and tell whether a request is worth decoding;
``decode_request`` turns it into columns of cells, and ``judge`` says by its reply what it has done.
"""

from headgate.hbase.decoding import decode_request, peek_origins
from headgate.hbase.dialects import dialect_of
from headgate.hbase.methods import METHODS, Answer, Dialect, Effect, Method, TableIn, method_of
from headgate.hbase.notify import NOTIFIABLE, Notifiable, Room, lacks_notify_family, with_notify
from headgate.hbase.outcomes import Judgement, Verdict, is_void, judge
from headgate.hbase.patterns import Pattern, Patterns
from headgate.hbase.reads import columns_read, reads_cells
from headgate.hbase.replies import io_error_reply
from headgate.hbase.requests import Cells, Definition, Write
from headgate.hbase.tables import peek_table, peek_tables, require_unambiguous, table_name

__all__ = [
    "METHODS",
    "NOTIFIABLE",
    "Answer",
    "Cells",
    "Definition",
    "Dialect",
    "Effect",
    "Judgement",
    "Method",
    "Notifiable",
    "Pattern",
    "Patterns",
    "Room",
    "TableIn",
    "Verdict",
    "Write",
    "columns_read",
    "decode_request",
    "dialect_of",
    "io_error_reply",
    "is_void",
    "judge",
    "lacks_notify_family",
    "method_of",
    "peek_origins",
    "peek_table",
    "peek_tables",
    "reads_cells",
    "require_unambiguous",
    "table_name",
    "with_notify",
]
