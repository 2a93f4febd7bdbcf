#!/usr/bin/env bash
# HBase 2.6.1 with Thrift 1 and happybase 1.3.0, measured 2026-11-29.
#
# `hbase wal -j FILE` (WALPrettyPrinter) prints a write-ahead log "as JSON". One would give its output to a JSON parser.
# Seen: between the objects stand lines of plain text (the heap size of each edit and its position), so nothing parses it.
# Of a log that its server still writes all entries come, then the tool ends with EOFException, status 1, and no closing
# bracket. Each object stands on a line of its own, with a comma before it from the second on.
. "$(dirname "$0")/servers/hbase.sh"

"$PYTHON" - <<'PY'
import os

import happybase

connection = happybase.Connection("127.0.0.1", int(os.environ["THRIFT1"]))
connection.create_table("t", {"f": {}})
connection.table("t").put(b"r", {b"f:q": b"v"})
PY

LOG=$(find "$WORK/data/hbase/WALs" -type f ! -name '*.meta' ! -name '*.crc')
STATUS=0
java -XX:TieredStopAtLevel=1 "${OPENED[@]}" -cp "$WORK/conf:$CLASSPATH_HBASE" \
  org.apache.hadoop.hbase.wal.WALPrettyPrinter -j -p -t t "$LOG" >"$WORK/printed" 2>"$WORK/errors" || STATUS=$?
"$PYTHON" - "$WORK/printed" "$WORK/errors" "$STATUS" <<'PY'
import json
import sys
from pathlib import Path

printed, errors = (Path(path).read_text() for path in sys.argv[1:3])
lines = [line for line in printed.splitlines() if line.lstrip(",[").startswith('{"')]
entries = [json.JSONDecoder().raw_decode(line.lstrip(",["))[0] for line in lines]
values = [cell.get("value") for entry in entries for cell in entry["actions"]]
text = printed[printed.index("[") :]
try:
    json.loads(text)
    parsed = True
except ValueError:
    parsed = False
between = "edit heap size" in text
print(f"status {sys.argv[3]}, parsed as a whole: {parsed}, text between objects: {between}")
print(f"objects line by line: {len(entries)}, the value that was put is among them: {'v' in values}")
print("EOFException at the end of the open log:", "EOFException" in errors)
raise SystemExit(not (sys.argv[3] == "1" and not parsed and between and "v" in values and "EOFException" in errors))
PY
