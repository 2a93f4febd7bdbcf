#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 2 and thriftpy2 0.7.1, measured 2026-11-28.
#
# Thrift 2's DELETE_COLUMN removes the newest version of a column.
# Seen: in a family that keeps one version, the value that was overwritten comes back, as long as nothing was flushed.
# Seen: one TDelete that names a column twice removes two versions; two TDeletes in one call remove one.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os

import thriftpy2
from thriftpy2.rpc import make_client

thrift = thriftpy2.load(os.environ["THRIFT2_IDL"], module_name="hbase2_thrift")
client = make_client(thrift.THBaseService, "127.0.0.1", int(os.environ["THRIFT2"]), timeout=60_000)


def create(name, versions):
    table = thrift.TTableName(ns=b"default", qualifier=name)
    family = thrift.TColumnFamilyDescriptor(name=b"f", maxVersions=versions)
    client.createTable(thrift.TTableDescriptor(tableName=table, columns=[family]), [])


def put(table, row, value, stamp):
    cell = thrift.TColumnValue(family=b"f", qualifier=b"q", value=value, timestamp=stamp)
    client.put(table, thrift.TPut(row=row, columnValues=[cell]))


def delete(row, times):
    column = thrift.TColumn(family=b"f", qualifier=b"q")
    return thrift.TDelete(row=row, columns=[column] * times, deleteType=thrift.TDeleteType.DELETE_COLUMN)


def versions(table, row):
    found = client.get(table, thrift.TGet(row=row, maxVersions=10)).columnValues
    return [cell.value for cell in found]


create(b"one", 1)
create(b"many", 10)
put(b"one", b"r", b"old", 1000)
put(b"one", b"r", b"new", 2000)
client.deleteSingle(b"one", delete(b"r", 1))
revived = versions(b"one", b"r")
print(f"VERSIONS 1, after the delete of the newest: {revived}")

for row in (b"twice in one", b"two in a call"):
    for number in range(4):
        put(b"many", row, b"%d" % number, 1000 + number)
client.deleteSingle(b"many", delete(b"twice in one", 2))
client.deleteMultiple(b"many", [delete(b"two in a call", 1), delete(b"two in a call", 1)])
twice, two = versions(b"many", b"twice in one"), versions(b"many", b"two in a call")
print(f"of four versions left: {twice} after a column named twice, {two} after two deletes in one call")
raise SystemExit(not (revived == [b"old"] and twice == [b"1", b"0"] and two == [b"2", b"1", b"0"]))
PY
