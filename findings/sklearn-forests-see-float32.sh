#!/usr/bin/env bash
# scikit-learn 1.9.1 with numpy 2.4.6, measured 2026-11-28.
#
# A decision tree or forest is given float64 features. Seen: it compares them as float32. Values that differ only beyond
# 24 bits (counters, identifiers, seconds since 1970) are one value to it, and it cannot learn a step between them.
# It also answers for NaN, which training never had, instead of refusing it as it refuses infinity.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m venv "$WORK/venv"
"$WORK/venv/bin/python" -m pip install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6

"$WORK/venv/bin/python" - <<'PY'
import numpy
from sklearn.ensemble import RandomForestClassifier

first = 1_795_000_000.0  # seconds since 1970
times = numpy.array([[first], [first + 1]] * 50)
labels = numpy.array([0, 1] * 50)
forest = RandomForestClassifier(n_estimators=10, random_state=0).fit(times, labels)
learned = forest.predict([[first], [first + 1]]).tolist()

small = RandomForestClassifier(n_estimators=10, random_state=0).fit(times - first, labels)
control = small.predict([[0.0], [1.0]]).tolist()
answered = small.predict([[numpy.nan]]).tolist()
try:
    small.predict([[numpy.inf]])
    refused = False
except ValueError:
    refused = True
print(f"labels 0 and 1 are learned as {learned} of seconds since 1970, as {control} of seconds since the first")
print(f"NaN, which training never had, is answered with {answered}; infinity is refused: {refused}")
raise SystemExit(not (learned[0] == learned[1] and control == [0, 1] and len(answered) == 1 and refused))
PY
