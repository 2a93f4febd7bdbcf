"""A run over a small project: what is noticed, what is not, and where it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mutate import ROOMS, Outcomes, equivalent, outdated, sample
from operators import Mutant, mutants
from reach import Reach, TestReach

PROGRAM = """
LIMIT = 3
NAMES = {kind: kind.upper() for kind in ("a", "b")}


def larger(a, b):
    if a > b:
        return a
    return b


def limited(values):
    return [each for each in values if each < LIMIT]


def endless(count):
    while count:
        count -= 1
    return "done"


def unused():
    return 1
"""
TESTS = """
from program import endless, larger, limited


def test_larger():
    assert larger(2, 1) == 2
    assert larger(1, 2) == 2


def test_limited():
    assert limited([1, 5]) == [1]


def test_endless():
    assert endless(3) == "done"
"""
LOOKS = """
from program import NAMES


def test_names():
    assert NAMES == {"a": "A", "b": "B"}
"""
"""A test that executes nothing of the program: it looks at what is there."""
PATH = "src/headgate/room/program.py"
DRIVER = """
import json, os, sys, time
from pathlib import Path
import pytest
sys.path.insert(0, {here!r})
import trials
from operators import mutants
from reach import recorded
trials.LEAST_SECONDS = 1.0
root = Path.cwd()
path = {path!r}
reach = recorded(root, [path], ["tests"], root / "reach.json")
found = [each for each in mutants((root / path).read_text(), path)]
outcomes = []
plugin = trials.Trials(
    root=root, reach=reach, mutants=found, budget=9.0, jobs=2, until=time.monotonic() + 600,
    folder=root / "work", tell=outcomes.append,
)
pytest.main(["-q", "-p", "no:cacheprovider", *reach.files()], [plugin])
Path("outcomes.json").write_text(json.dumps([[o.mutant.key, o.status, o.test] for o in outcomes]))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What became of each mutant of the program above."""
    root = tmp_path_factory.mktemp("project")
    (root / PATH).parent.mkdir(parents=True)
    (root / PATH).write_text(PROGRAM)
    (root / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str((root / PATH).parent)!r})\n"
    )
    (root / "tests" / "room").mkdir(parents=True)
    (root / "tests" / "room" / "test_program.py").write_text(TESTS)
    (root / "tests" / "room" / "test_table.py").write_text(LOOKS)
    before = {path.name: path.read_bytes() for path in root.rglob("*.py")}
    driver = DRIVER.format(here=str(Path(__file__).parent), path=PATH)
    subprocess.run([sys.executable, "-B", "-c", driver], cwd=root, check=True, timeout=600)
    assert {path.name: path.read_bytes() for path in root.rglob("*.py")} == before
    assert not list((root / "work").iterdir())
    found = json.loads((root / "outcomes.json").read_text())
    return {key.removeprefix(f"{PATH}:"): (status, test) for key, status, test in found}


def test_a_mutant_is_killed_by_a_test_that_reaches_it(outcomes: dict[str, tuple[str, str]]) -> None:
    killed = ("killed", "tests/room/test_program.py::test_larger")
    assert outcomes["larger: opposite: a > b -> a <= b"] == killed
    assert outcomes["larger: return: return a -> return None"] == killed


def test_what_is_done_at_import_is_changed_there(outcomes: dict[str, tuple[str, str]]) -> None:
    assert outcomes["<module>: constant: 3 -> 4"] == ("survived", "")
    killed = ("killed", "tests/room/test_table.py::test_names")
    assert outcomes["<module>: constant: 'a' -> ''"] == killed


def test_what_no_test_tells_apart_survives(outcomes: dict[str, tuple[str, str]]) -> None:
    assert outcomes["larger: boundary: a > b -> a >= b"] == ("survived", "")
    assert outcomes["limited: boundary: each < LIMIT -> each <= LIMIT"] == ("survived", "")


def test_a_loop_that_lost_its_end_is_noticed(outcomes: dict[str, tuple[str, str]]) -> None:
    assert outcomes["endless: removed: count -= 1 -> pass"][0] == "timeout"
    assert outcomes["endless: constant: 'done' -> ''"][0] == "killed"


def test_what_no_test_reaches_is_told(outcomes: dict[str, tuple[str, str]]) -> None:
    assert outcomes["unused: constant: 1 -> 2"] == ("untested", "")


def found(room: str, count: int) -> list[Mutant]:
    lines = "\n".join(f"def f{n}(): return {n + 2}" for n in range(count))
    return [m for m in mutants(lines, f"{room}/m.py") if m.operator == "return"]


def test_a_sample_has_enough_of_each_room_and_is_the_same_for_a_seed() -> None:
    rooms = {"large": found("large", 300), "small": found("small", 30)}
    chosen = sample(rooms, seed=4, count=100, least=20)
    counted = [each.path.partition("/")[0] for each in chosen]
    assert counted.count("small") >= 20
    assert counted.count("large") > 60
    assert len({each.key for each in chosen}) == len(chosen) == pytest.approx(100, abs=1)
    assert chosen == sample(rooms, seed=4, count=100, least=20)
    assert chosen != sample(rooms, seed=5, count=100, least=20)
    assert "small" in counted[:20]


def test_an_edit_elsewhere_changes_a_sample_by_no_more_than_itself() -> None:
    before = sample({"a": found("a", 100)}, seed=1, count=50, least=10)
    after = sample({"a": found("a", 101)}, seed=1, count=50, least=10)
    assert len({each.key for each in before} ^ {each.key for each in after}) <= 2


def test_what_is_known_holds_until_the_code_changes(tmp_path: Path) -> None:
    (mutant,) = found("m", 1)
    path = tmp_path / "outcomes.jsonl"
    entry = {"mutant": mutant.key, "status": "killed", "code": "now", "tests": ""}
    path.write_text(json.dumps(entry) + '\n{"mutant": "half a li')
    reach = Reach({}, {})
    assert Outcomes.read(path, {mutant.key: "now"}, reach).of(mutant) == entry
    assert Outcomes.read(path, {mutant.key: "later"}, reach).of(mutant) is None


def test_a_survivor_is_tried_again_when_other_tests_reach_it(tmp_path: Path) -> None:
    (mutant,) = found("m", 1)
    none, one = Reach({}, {}), Reach({__file__: TestReach(1.0, {mutant.path: frozenset({1})})}, {})
    path = tmp_path / "outcomes.jsonl"
    known = Outcomes.read(path, {mutant.key: ""}, none)
    entry = {"mutant": mutant.key, "status": "untested", "code": "", "tests": known._tests(mutant)}
    path.write_text(json.dumps(entry) + "\n")
    assert Outcomes.read(path, {mutant.key: ""}, none).of(mutant) == entry
    assert Outcomes.read(path, {mutant.key: ""}, one).of(mutant) is None


def test_one_that_survived_a_part_of_its_tests_is_tried_again_with_more(tmp_path: Path) -> None:
    (mutant,) = found("m", 1)
    path, reach = tmp_path / "outcomes.jsonl", Reach({}, {})
    tests = Outcomes.read(path, {mutant.key: ""}, reach)._tests(mutant)
    entry = {"mutant": mutant.key, "status": "open", "code": "", "tests": tests, "budget": 6.0}
    path.write_text(json.dumps(entry) + "\n")
    assert Outcomes.read(path, {mutant.key: ""}, reach, 6.0).of(mutant) == entry
    assert Outcomes.read(path, {mutant.key: ""}, reach, 7.0).of(mutant) is None


def test_what_is_listed_as_equivalent_has_a_reason_and_is_missed_when_it_is_gone() -> None:
    listed = equivalent(Path(__file__).with_name("equivalent.toml"))
    assert listed
    assert all(listed.values())
    (mutant,) = found(ROOMS["replay"], 1)
    there, gone = mutant.key, mutant.key.replace("return", "opposite")
    elsewhere = f"{ROOMS['hbase']}/m.py:f: removed: a() -> pass"
    assert outdated([there, gone, elsewhere], {"replay": [mutant]}) == [gone]
