#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 1 and happybase 1.3.0, measured 2026-11-28.
#
# One mutateRow may hold deletes and puts of the same cell. Expected: they take effect in their order. Seen: the order
# does not matter. Without a timestamp the put is there, even when the delete is written behind it; with one timestamp
# for the request (mutateRowTs, happybase: timestamp=…) the cell is gone, even when the put is written behind it.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os

import happybase
import Hbase_thrift

connection = happybase.Connection("127.0.0.1", int(os.environ["THRIFT1"]))
connection.create_table("t", {"f": {}})
table = connection.table("t")
raw = connection.client
put = Hbase_thrift.Mutation(isDelete=False, column=b"f:q", value=b"new")
delete = Hbase_thrift.Mutation(isDelete=True, column=b"f:q")

seen = {}
for name, mutations in {"put, delete": [put, delete], "delete, put": [delete, put]}.items():
    row = f"server {name}".encode()
    raw.mutateRow(b"t", row, mutations, {})
    seen["mutateRow", name] = table.row(row).get(b"f:q")
    row = f"stamped {name}".encode()
    raw.mutateRowTs(b"t", row, mutations, 1_000_000, {})
    seen["mutateRowTs", name] = table.row(row).get(b"f:q")
for (method, name), value in seen.items():
    print(f"{method} of [{name}]: {value}")
raise SystemExit(
    seen
    != {
        ("mutateRow", "put, delete"): b"new",
        ("mutateRowTs", "put, delete"): None,
        ("mutateRow", "delete, put"): b"new",
        ("mutateRowTs", "delete, put"): None,
    }
)
PY
