#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 1 and happybase 1.3.0, measured 2026-11-28.
#
# A client whose clock is 60 s fast dates one put itself. Everything that follows is dated by the server.
# Expected: the last write wins. Seen: later puts are accepted and stay invisible, also after the row was deleted;
# an increment reads the version that lies ahead and writes one millisecond above it, and so it is visible.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os
import struct
import time

import happybase

connection = happybase.Connection("127.0.0.1", int(os.environ["THRIFT1"]))
connection.create_table("t", {"f": {}})
table = connection.table("t")
ahead = int(time.time() * 1000) + 60_000

table.put(b"r", {b"f:q": b"ahead"}, timestamp=ahead)
table.put(b"r", {b"f:q": b"later"})
after_put = table.row(b"r")[b"f:q"]
table.delete(b"r")
after_delete = table.row(b"r").get(b"f:q")
print(f"after a later put: {after_put}; after a delete of the row: {after_delete}")

table.put(b"c", {b"f:n": struct.pack(">q", 100)}, timestamp=ahead)
answer = table.counter_inc(b"c", b"f:n")
value, stamp = table.cells(b"c", b"f:n", include_timestamp=True)[0]
print(f"an increment answers {answer}; its timestamp is {stamp - ahead} ms above the version ahead")
raise SystemExit(not (after_put == after_delete == b"ahead" and answer == 101 and stamp == ahead + 1))
PY
