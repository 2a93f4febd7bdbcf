"""An editor and mypy see the stage API of the packages that are installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = [
    path.parent
    for root in ("agent", "observer")
    for path in (ROOT / root / "src" / "headgate").glob("*/__init__.py")
]

STAGES = """
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from headgate.incremental import Adu, InputFlow, Key, Outer, Route, Stage, StateFlow, library
from headgate.spark import Run


def count(key: Key, flows: Mapping[str, Sequence[Adu]]) -> Mapping[str, Iterable[Adu]]:
    n = sum(row["n"] for name in ("state", "pages") for row in flows[name])
    return {"state": [{"n": n}], "counts": [{"row": str(key), "n": n}]}


counts = Stage(
    "counts",
    inputs={"pages": InputFlow("site"), "k": InputFlow(Route.ALL)},
    outputs={"counts": {"row": "string", "n": "int64"}},
    translate=count,
    state=StateFlow(pa.schema({"n": pa.int64()}), outer=Outer.FULL),
)
best = library.top_k("site", "n", 3, columns={"site": "string", "n": "int64"})
table = library.to_container("site", {"site": "string", "n": "int64"}, source="changes")
reveal_type(counts)
reveal_type(best)


def step(run: Run) -> int:
    return run.write(run.read_arrow("pages"), "counts")
"""
WRONG = (
    ('3, columns={"site"', '"3", columns={"site"', 'Argument 3 to "top_k"'),
    ("outer=Outer.FULL", "outer=True", 'Argument "outer" to "StateFlow"'),
    ('InputFlow("site")', "InputFlow(1.5)", 'Argument 1 to "InputFlow"'),
    ('source="changes")', "sauce=1)", 'Unexpected keyword argument "sauce"'),
    ('"pages"), "counts")', '"pages"), 1)', 'Argument 2 to "write" of "Run"'),
)
CONFIGURATION = """
[mypy]
strict = true
[mypy-pyarrow.*]
ignore_missing_imports = true
[mypy-pyspark.*]
follow_imports = skip
[mypy-pandas.*]
follow_imports = skip
[mypy-numpy.*]
follow_imports = skip
"""


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: path.name)
def test_every_room_says_that_it_is_typed(room: Path) -> None:
    assert (room / "py.typed").is_file()


def test_mypy_sees_the_types_of_the_environments_packages(tmp_path: Path) -> None:
    (tmp_path / "mypy.ini").write_text(CONFIGURATION)
    (tmp_path / "stages.py").write_text(STAGES)
    for number, (right, wrong, _) in enumerate(WRONG):
        assert right in STAGES
        (tmp_path / f"wrong{number}.py").write_text(STAGES.replace(right, wrong))

    # The cache stays: what the packages are is read once.
    cache = ROOT / ".cache" / "mypy-of-users"
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(cache)]
    ended = subprocess.run(
        [*command, *sorted(path.name for path in tmp_path.glob("*.py"))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    told = ended.stdout
    assert "py.typed" not in told
    assert told.count('Revealed type is "headgate.incremental.stage.Stage"') == 2 * 6
    errors = sorted(line for line in told.splitlines() if ": error: " in line)
    assert [line.partition(":")[0] for line in errors] == [f"wrong{n}.py" for n in range(5)]
    for line, (_, _, words) in zip(errors, WRONG, strict=True):
        assert words in line
