#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 1 and happybase 1.3.0, measured 2026-11-28.
#
# The attribute _ttl gives a mutation's cells a time to live. A delete takes it too; one would expect it to be ignored.
# Seen: the delete's marker is what expires. What it deleted is back afterwards, and the read says nothing of it.
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
table.put(b"r", {b"f:a": b"1"})
time.sleep(0.1)
connection.client.mutateRow(
    b"t",
    b"r",
    [Hbase_thrift.Mutation(column=b"f:a", isDelete=True)],
    {b"_ttl": struct.pack(">q", LIFE_MILLISECONDS)},
)
deleted = table.row(b"r")
time.sleep(LIFE_MILLISECONDS / 1000 + 1)
later = table.row(b"r")
print(f"after the delete: {deleted}; after its time to live: {later}")
raise SystemExit(not (deleted == {} and later == {b"f:a": b"1"}))
PY
