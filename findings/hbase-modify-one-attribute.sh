#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 2 and thriftpy2 0.7.1, measured 2026-11-28.
#
# Thrift 2's modifyColumnFamily takes a descriptor whose fields are all optional but the name.
# Expected: what is not named stays. Seen: it goes back to its default; setting the number of versions alone removes the
# family's time to live, and data that was meant to expire stays.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os

import thriftpy2
from thriftpy2.rpc import make_client

FOREVER = 2**31 - 1
thrift = thriftpy2.load(os.environ["THRIFT2_IDL"], module_name="hbase2_thrift")
client = make_client(thrift.THBaseService, "127.0.0.1", int(os.environ["THRIFT2"]), timeout=60_000)
name = thrift.TTableName(ns=b"default", qualifier=b"t")
family = thrift.TColumnFamilyDescriptor(name=b"f", timeToLive=3600)
client.createTable(thrift.TTableDescriptor(tableName=name, columns=[family]), [])


def described():
    found = client.getTableDescriptor(name).columns[0]
    return found.maxVersions, found.timeToLive


before = described()
client.modifyColumnFamily(name, thrift.TColumnFamilyDescriptor(name=b"f", maxVersions=3))
after = described()
print(f"versions and time to live in seconds: {before}, after versions alone were set: {after}")
raise SystemExit(not (before == (1, 3600) and after == (3, FOREVER)))
PY
