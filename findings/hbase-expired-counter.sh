#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 1 and happybase 1.3.0, measured 2026-11-28.
#
# A cell may carry a time to live of its own: the attribute _ttl of a mutation, eight bytes of milliseconds.
# Seen: an increment without the attribute takes it over from the cell that it reads, so a counter that was once written
# with a time to live expires for ever after, and begins at 0 again. The timestamp starts anew with each increment.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os
import struct
import time

import happybase
import Hbase_thrift

LIFE_MILLISECONDS = 4000
connection = happybase.Connection("127.0.0.1", int(os.environ["THRIFT1"]))
connection.create_table("t", {"f": {"max_versions": 1}})
table = connection.table("t")
connection.client.mutateRow(
    b"t",
    b"r",
    [Hbase_thrift.Mutation(column=b"f:n", value=struct.pack(">q", 10))],
    {b"_ttl": struct.pack(">q", LIFE_MILLISECONDS)},
)
first = table.counter_inc(b"r", b"f:n")
time.sleep(LIFE_MILLISECONDS / 1000 + 1)
gone = table.row(b"r")
second = table.counter_inc(b"r", b"f:n")
print(f"first increment: {first}; after its inherited time to live: {gone}; next increment: {second}")
raise SystemExit(not (first == 11 and gone == {} and second == 1))
PY
