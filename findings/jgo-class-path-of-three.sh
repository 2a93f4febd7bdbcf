#!/usr/bin/env bash
# jgo 3.2.0, measured 2026-11-28.
#
# jgo.build(endpoint).classpath reads as the class path of the environment that was built. For hbase-thrift 2.6.1, which
# has 152 jars, it holds 3: those that cannot be modules. The other 149 are in module_path_jars, HBase's own included,
# so a java -cp of it does not find HBase. all_jars has the whole.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m venv "$WORK/venv"
"$WORK/venv/bin/python" -m pip install --quiet --disable-pip-version-check jgo==3.2.0

"$WORK/venv/bin/python" - "$WORK/jgo" <<'PY'
import sys
from pathlib import Path

import jgo

environment = jgo.build("org.apache.hbase:hbase-thrift:2.6.1", cache_dir=Path(sys.argv[1]))
sizes = len(environment.classpath), len(environment.module_path_jars), len(environment.all_jars)
print("classpath %d, module_path_jars %d, all_jars %d" % sizes)
raise SystemExit(sizes != (3, 149, 152))
PY
