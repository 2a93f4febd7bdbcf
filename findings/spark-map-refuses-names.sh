#!/usr/bin/env bash
# PySpark 4.3.0, measured 2026-11-28.
#
# mapInArrow and mapInPandas hand whole frames to a function and name no column, so any names should do.
# Seen: a frame with a dot or a backtick in a column's name is refused, as if the name were an expression; dropna, which
# names columns itself, refuses it too. collect, toPandas and fillna take both.
. "$(dirname "$0")/servers/spark.sh"

run_with_spark <<'PY'
from pyspark.errors import AnalysisException


def same(batches):
    return batches


WAYS = {
    "collect": lambda frame: frame.collect(),
    "toPandas": lambda frame: frame.toPandas(),
    "fillna": lambda frame: frame.fillna(0).collect(),
    "dropna": lambda frame: frame.dropna().collect(),
    "mapInArrow": lambda frame: frame.mapInArrow(same, frame.schema).collect(),
    "mapInPandas": lambda frame: frame.mapInPandas(same, frame.schema).collect(),
}


def refused_by(name):
    frame = spark.createDataFrame([(1,)], [name])
    found = []
    for way, run in WAYS.items():
        try:
            run(frame)
        except AnalysisException:
            found.append(way)
    return found


found = {name: refused_by(name) for name in ("a.b", "a`b")}
for name, ways in found.items():
    print(f"{name!r} is refused by: {', '.join(ways) or 'none'}")
raise SystemExit(found != dict.fromkeys(("a.b", "a`b"), ["dropna", "mapInArrow", "mapInPandas"]))
PY
