"""HBase's Thrift1 and Thrift2: which method does what, and what a request has done.

``read_request`` reads a request once: its method, its tables, what it writes in columns of cells,
and who wrote. What HBase could read otherwise it refuses. ``judge`` says by the reply what the
request has done.
"""

from headgate.hbase.dialects import dialect_of
from headgate.hbase.methods import METHODS, Dialect, Effect, Method, ResultKind, TableIn, method_of
from headgate.hbase.notify import NOTIFIABLE, Notifiable, Room, lacks_notify_family, with_notify
from headgate.hbase.outcomes import Judgement, Verdict, is_void, judge
from headgate.hbase.patterns import Pattern, Patterns
from headgate.hbase.reading import Reading, Request, decode_request, read_request
from headgate.hbase.reads import columns_read, reads_cells
from headgate.hbase.replies import io_error_reply
from headgate.hbase.requests import Cells, SchemaChange, Write
from headgate.hbase.tables import table_name

__all__ = [
    "METHODS",
    "NOTIFIABLE",
    "Cells",
    "Dialect",
    "Effect",
    "Judgement",
    "Method",
    "Notifiable",
    "Pattern",
    "Patterns",
    "Reading",
    "Request",
    "ResultKind",
    "Room",
    "SchemaChange",
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
    "read_request",
    "reads_cells",
    "table_name",
    "with_notify",
]
