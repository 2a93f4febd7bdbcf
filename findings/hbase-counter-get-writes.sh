#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 1 and happybase 1.3.0, measured 2026-11-28.
#
# happybase's Table.counter_get looks like a read. It is an increment by 0.
# Seen: reading a counter that does not exist creates its row, with a cell of eight zero bytes; reading one that exists
# gives its cell a new timestamp, so that the reader counts as a writer in whatever goes by timestamps.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os
import time

import happybase

connection = happybase.Connection("127.0.0.1", int(os.environ["THRIFT1"]))
connection.create_table("t", {"f": {}})
table = connection.table("t")

before = table.row(b"absent")
read = table.counter_get(b"absent", b"f:n")
after = table.row(b"absent")
print(f"before: {before}; counter_get: {read}; after: {after}")

table.counter_set(b"present", b"f:n", 7)
_, first = table.cells(b"present", b"f:n", include_timestamp=True)[0]
time.sleep(0.01)
table.counter_get(b"present", b"f:n")
_, second = table.cells(b"present", b"f:n", include_timestamp=True)[0]
print(f"a counter that exists: its timestamp moved {second - first > 0}")
raise SystemExit(not (before == {} and read == 0 and after == {b"f:n": bytes(8)} and second > first))
PY
