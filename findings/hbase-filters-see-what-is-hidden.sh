#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 1 and happybase 1.3.0, measured 2026-11-28.
#
# A scan with a ValueFilter asks for cells that have a value.
# Seen: in a family that keeps several versions it returns the cell with a value that has been overwritten, as if it
# were the present one. A SingleColumnValueFilter looks at the newest version only.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os

import happybase

connection = happybase.Connection("127.0.0.1", int(os.environ["THRIFT1"]))
connection.create_table("t", {"f": {"max_versions": 3}})
table = connection.table("t")
table.put(b"r", {b"f:state": b"open"}, timestamp=1000)
table.put(b"r", {b"f:state": b"closed"}, timestamp=2000)

present = table.row(b"r")
by_value = list(table.scan(filter=b"ValueFilter(=, 'binary:open')"))
by_column = list(table.scan(filter=b"SingleColumnValueFilter('f', 'state', =, 'binary:open')"))
print(f"present: {present}; ValueFilter for open: {by_value}; SingleColumnValueFilter: {by_column}")
raise SystemExit(not (present == {b"f:state": b"closed"} and by_value == [(b"r", {b"f:state": b"open"})] and by_column == []))
PY
