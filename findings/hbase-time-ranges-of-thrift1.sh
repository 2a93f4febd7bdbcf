#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 1 and happybase 1.3.0, measured 2026-11-28.
#
# Thrift 1 has one timestamp in reads and one in deletes. For a cell at exactly that timestamp: reads (getRowTs, getVerTs,
# scans) do not return it, deletes (deleteAllTs) remove it. So reading "up to T" and then deleting "up to T" removes a
# cell that was not read.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os

import happybase

STAMP = 1_000_000
connection = happybase.Connection("127.0.0.1", int(os.environ["THRIFT1"]))
connection.create_table("t", {"f": {}})
table = connection.table("t")
raw = connection.client
table.put(b"r", {b"f:q": b"v"}, timestamp=STAMP)

row_at = table.row(b"r", timestamp=STAMP)
row_above = table.row(b"r", timestamp=STAMP + 1)
versions_at = raw.getVerTs(b"t", b"r", b"f:q", STAMP, 10, {})
scan_at = list(table.scan(timestamp=STAMP))
raw.deleteAllTs(b"t", b"r", b"f:q", STAMP, {})
left = table.row(b"r")
print(f"at T: getRowTs {row_at}, getVerTs {versions_at}, scan {scan_at}; at T + 1: {row_above}")
print(f"after deleteAllTs at T: {left}")
raise SystemExit(not (row_at == {} and versions_at == [] and scan_at == [] and row_above == {b"f:q": b"v"} and left == {}))
PY
