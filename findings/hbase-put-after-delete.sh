#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 1 and happybase 1.3.0, measured 2026-11-28.
#
# A client deletes a row, waits for the answer, and then puts the row again on the same connection.
# Expected: the row is there. Seen: some of these rows are missing for good, without any error: 886 of 3,000 on a machine
# that did nothing else, 1 of 1,000 on a busy one. The region server dates both requests by its clock, in milliseconds;
# where they get the same date, the delete's marker hides the put, although the put came later.
# Increments are lost likewise: they answer 1, and the counter is not there.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os

import happybase

MOST_ROWS = 50_000
connection = happybase.Connection("127.0.0.1", int(os.environ["THRIFT1"]))
connection.create_table("t", {"f": {}})
table = connection.table("t")
raw = connection.client


def put_again(row):
    table.put(row, {b"f:q": b"old"})
    table.delete(row)
    table.put(row, {b"f:q": b"new"})


def count_again(row):
    table.counter_set(row, b"f:n", 5)
    table.delete(row)
    answer = raw.atomicIncrement(b"t", row, b"f:n", 1)
    assert answer == 1, answer


def rows_until_one_is_lost(write):
    """Return how many rows were written until one was not there, 0 if that never happened."""
    for number in range(MOST_ROWS):
        row = b"%s %05d" % (write.__name__.encode(), number)
        write(row)
        if table.row(row) == {}:
            return number + 1
    return 0


puts, increments = rows_until_one_is_lost(put_again), rows_until_one_is_lost(count_again)
print(f"the first put that is not there: number {puts}; the first increment, which answered 1: number {increments}")
raise SystemExit(not (puts and increments))
PY
