#!/usr/bin/env bash
# PySpark 4.3.0 with pandas 2.3.3, measured 2026-11-28.
#
# applyInPandas with a function that returns its group as it is should change nothing. Seen: in a group that also has a
# null, a bigint above 2**53 comes back as another number (9007199254740993 as 9007199254740992); in a group without a
# null the same number is right. pandas keeps integers beside a null as float64, and no error is raised on the way back.
. "$(dirname "$0")/servers/spark.sh"

run_with_spark <<'PY'
BIG = 2**53 + 1
frame = spark.createDataFrame([("with a null", BIG), ("with a null", None), ("alone", BIG)], "k string, n bigint")
same = frame.groupBy("k").applyInPandas(lambda group: group, "k string, n bigint").where("n is not null")
found = {row.k: row.n for row in same.collect()}
print(f"{BIG} comes back as {found}")
raise SystemExit(found != {"with a null": BIG - 1, "alone": BIG})
PY
