#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 2 and thriftpy2 0.7.1, measured 2026-11-28.
#
# One TIncrement (and one TAppend) may name a column twice. Expected: both take effect, or an error.
# Seen: the last one alone takes effect, and the reply lists the column twice, as if both had.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os
import struct

import thriftpy2
from thriftpy2.rpc import make_client

thrift = thriftpy2.load(os.environ["THRIFT2_IDL"], module_name="hbase2_thrift")
client = make_client(thrift.THBaseService, "127.0.0.1", int(os.environ["THRIFT2"]), timeout=60_000)
name = thrift.TTableName(ns=b"default", qualifier=b"t")
client.createTable(thrift.TTableDescriptor(tableName=name, columns=[thrift.TColumnFamilyDescriptor(name=b"f")]), [])


def value(row):
    return client.get(b"t", thrift.TGet(row=row)).columnValues[0].value


deltas = [thrift.TColumnIncrement(family=b"f", qualifier=b"n", amount=amount) for amount in (5, 2)]
reply = client.increment(b"t", thrift.TIncrement(row=b"i", columns=deltas))
counter = struct.unpack(">q", value(b"i"))[0]
print(f"increments by 5 and 2: the cell is {counter}, the reply has {len(reply.columnValues)} cells")

pieces = [thrift.TColumnValue(family=b"f", qualifier=b"q", value=piece) for piece in (b"a", b"b")]
appended = client.append(b"t", thrift.TAppend(row=b"a", columns=pieces))
text = value(b"a")
print(f"appends of a and b: the cell is {text}, the reply has {len(appended.columnValues)} cells")
raise SystemExit(not (counter == 2 and len(reply.columnValues) == 2 and text == b"b" and len(appended.columnValues) == 2))
PY
