#!/usr/bin/env bash
# PySpark 4.3.0 with pyarrow 26.0.1, measured 2026-11-28.
#
# mapInPandas matches the columns of what its function returns by name. mapInArrow is expected to do so too: its batches
# have names. Seen: it takes them by position, so two columns of one type that come in another order are swapped.
. "$(dirname "$0")/servers/spark.sh"

run_with_spark <<'PY'
import pyarrow

frame = spark.createDataFrame([(1, 10)], "low int, high int")
SWAPPED = pyarrow.schema([("high", pyarrow.int32()), ("low", pyarrow.int32())])


def by_arrow(batches):
    for batch in batches:
        yield pyarrow.RecordBatch.from_arrays([batch["high"], batch["low"]], schema=SWAPPED)


def by_pandas(frames):
    for each in frames:
        yield each[["high", "low"]]


arrow = frame.mapInArrow(by_arrow, frame.schema).first().asDict()
pandas = frame.mapInPandas(by_pandas, frame.schema).first().asDict()
print(f"of low 1 and high 10, columns in another order: mapInArrow {arrow}, mapInPandas {pandas}")
raise SystemExit(not (arrow == {"low": 10, "high": 1} and pandas == {"low": 1, "high": 10}))
PY
