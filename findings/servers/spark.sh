# Install PySpark 4.3.0 in a temporary folder. Sourced by the findings; see README.md.
#
# Sets: PYTHON (with pyspark 4.3.0, pandas 2.3.3 and pyarrow 26.0.1), and WORK, which is removed when the script ends.
# Needs Python 3.11+ and Java 17 or 21. Spark's log goes to WORK/log and is shown when the script fails.
set -euo pipefail

WORK=$(mktemp -d)
finish() {
  local code=$?
  if ((code > 1)); then tail -20 "$WORK/log" >&2; fi
  rm -rf "$WORK"
  exit "$code"
}
trap finish EXIT

python3 -m venv "$WORK/venv"
PYTHON=$WORK/venv/bin/python
"$PYTHON" -m pip install --quiet --disable-pip-version-check pyspark==4.3.0 pandas==2.3.3 pyarrow==26.0.1 numpy==2.4.6
export PYSPARK_PYTHON=$PYTHON PYSPARK_DRIVER_PYTHON=$PYTHON
# Run a program with `spark`, a session, in it.
run_with_spark() {
  cat - >"$WORK/program.py"
  cat >"$WORK/session.py" <<'PY'
import runpy
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    runpy.run_path(sys.argv[1], {"spark": spark}, run_name="__main__")
finally:
    spark.stop()
PY
  (cd "$WORK" && "$PYTHON" session.py program.py 2>"$WORK/log")
}
