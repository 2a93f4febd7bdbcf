#!/usr/bin/env bash
# PySpark 4.3.0 with pyarrow 26.0.1, measured 2026-11-28.
#
# The same text, cast to a double by Spark, by Arrow (which Spark's Python side uses) and by Python.
# Seen: Spark takes the spellings of Java ("5d", "0x1p3") and blanks around a number; Arrow takes neither; Python takes
# the blanks, and "1_000", which the other two refuse. A table that is read by more than one of them has rows that are
# numbers for one and invalid for another.
. "$(dirname "$0")/servers/spark.sh"

run_with_spark <<'PY'
import pyarrow
import pyarrow.compute

TEXTS = ("5d", "0x1p3", " 5 ", "1_000")


def by_arrow(text):
    try:
        return pyarrow.compute.cast(pyarrow.array([text]), pyarrow.float64())[0].as_py()
    except pyarrow.ArrowInvalid:
        return None


def by_python(text):
    try:
        return float(text)
    except ValueError:
        return None


frame = spark.createDataFrame([(text,) for text in TEXTS], "text string")
by_spark = [row.n for row in frame.selectExpr("try_cast(text as double) as n").collect()]
found = {text: (number, by_arrow(text), by_python(text)) for text, number in zip(TEXTS, by_spark, strict=True)}
for text, (first, second, third) in found.items():
    print(f"{text!r}: Spark {first}, Arrow {second}, Python {third}")
raise SystemExit(
    found
    != {"5d": (5.0, None, None), "0x1p3": (8.0, None, None), " 5 ": (5.0, None, 5.0), "1_000": (None, None, 1000.0)}
)
PY
