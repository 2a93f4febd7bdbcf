#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 2 and thriftpy2 0.7.1, measured 2026-11-28.
#
# checkAndMutate(row, family, qualifier, LESS, value, …) reads as "where the cell is less than the value".
# Seen: it is done where the *value* is less than the *cell*. With an absent cell every comparison is false, NOT_EQUAL too.
# checkAndPut with an empty expected value is done on an absent cell; with the value left unset, on an empty cell too.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os

import thriftpy2
from thriftpy2.rpc import make_client

thrift = thriftpy2.load(os.environ["THRIFT2_IDL"], module_name="hbase2_thrift")
client = make_client(thrift.THBaseService, "127.0.0.1", int(os.environ["THRIFT2"]), timeout=60_000)
name = thrift.TTableName(ns=b"default", qualifier=b"t")
client.createTable(thrift.TTableDescriptor(tableName=name, columns=[thrift.TColumnFamilyDescriptor(name=b"f")]), [])


def put(row, value, qualifier=b"q"):
    return thrift.TPut(row=row, columnValues=[thrift.TColumnValue(family=b"f", qualifier=qualifier, value=value)])


def done(row, operator, value):
    mutations = thrift.TRowMutations(row=row, mutations=[thrift.TMutation(put=put(row, b"x", b"mark"))])
    return client.checkAndMutate(b"t", row, b"f", b"q", operator, value, mutations)


client.put(b"t", put(b"five", b"5"))
less = {value: done(b"five", thrift.TCompareOp.LESS, value) for value in (b"4", b"6")}
absent = {operator: done(b"none", code, b"4") for operator, code in thrift.TCompareOp._NAMES_TO_VALUES.items() if operator != "NO_OP"}
print(f"the cell is 5: LESS than 4 {less[b'4']}, LESS than 6 {less[b'6']}")
print(f"the cell is absent: {absent}")

client.put(b"t", put(b"empty", b""))
expected_empty = client.checkAndPut(b"t", b"other", b"f", b"q", b"", put(b"other", b"x", b"mark"))
unset_on_empty = client.checkAndPut(b"t", b"empty", b"f", b"q", None, put(b"empty", b"x", b"mark"))
print(f"checkAndPut: empty on absent {expected_empty}, unset on empty {unset_on_empty}")
raise SystemExit(not (less == {b"4": True, b"6": False} and not any(absent.values()) and expected_empty and unset_on_empty))
PY
