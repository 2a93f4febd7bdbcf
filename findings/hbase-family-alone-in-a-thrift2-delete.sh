#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 2 and thriftpy2 0.7.1, measured 2026-11-29.
#
# A TColumn without a qualifier is a whole family in a TGet, but not in a TDelete of the default type DELETE_COLUMNS.
# Seen: such a delete succeeds and removes the one column whose qualifier is empty; all others of the family stay.
# Seen: with DELETE_FAMILY a TColumn that names a qualifier removes the whole family.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os

import thriftpy2
from thriftpy2.rpc import make_client

thrift = thriftpy2.load(os.environ["THRIFT2_IDL"], module_name="hbase2_thrift")
client = make_client(thrift.THBaseService, "127.0.0.1", int(os.environ["THRIFT2"]), timeout=60_000)

table = thrift.TTableName(ns=b"default", qualifier=b"families")
family = thrift.TColumnFamilyDescriptor(name=b"f")
client.createTable(thrift.TTableDescriptor(tableName=table, columns=[family]), [])
FAMILY = thrift.TColumn(family=b"f")
COLUMN = thrift.TColumn(family=b"f", qualifier=b"a")


def left_after(column, **kind):
    cells = [thrift.TColumnValue(family=b"f", qualifier=q, value=b"1") for q in (b"", b"a", b"b")]
    client.put(b"families", thrift.TPut(row=b"r", columnValues=cells))
    client.deleteSingle(b"families", thrift.TDelete(row=b"r", columns=[column], **kind))
    found = client.get(b"families", thrift.TGet(row=b"r", columns=[FAMILY])).columnValues
    return [cell.qualifier for cell in found or ()]


default = left_after(FAMILY)
print(f"a family alone, default type: left {default}")
of_family = left_after(FAMILY, deleteType=thrift.TDeleteType.DELETE_FAMILY)
print(f"a family alone, DELETE_FAMILY: left {of_family}")
named = left_after(COLUMN, deleteType=thrift.TDeleteType.DELETE_FAMILY)
print(f"one column, DELETE_FAMILY: left {named}")
raise SystemExit(not (default == [b"a", b"b"] and of_family == [] and named == []))
PY
