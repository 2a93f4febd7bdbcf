"""Finding a step's function, and the version of its code."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle

from headgate.spark.worker.steps import CodeChanged, StepCode, UnknownStep


@pytest.fixture(autouse=True)
def _import_system() -> Iterator[None]:
    finders, path, modules = list(sys.meta_path), list(sys.path), set(sys.modules)
    yield
    sys.meta_path[:] = finders
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("steps_"):
            del sys.modules[name]


@pytest.fixture
def module(tmp_path: Path) -> str:
    name = f"steps_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text("number = 1\ndef step(run):\n    return run + number\n")
    return name


def test_an_entry_names_a_function_of_a_module_in_the_path(module: str, tmp_path: Path) -> None:
    assert StepCode().load(f"{module}:step", [str(tmp_path)])(1) == 2


def test_a_module_is_read_once(module: str, tmp_path: Path) -> None:
    code = StepCode()
    first = code.load(f"{module}:step", [str(tmp_path)])
    write(tmp_path / f"{module}.py", "def step(run):\n    return 'new'\n")

    assert code.load(f"{module}:step", [str(tmp_path)]) is first


def test_what_a_module_computes_is_told_by_the_text_that_was_read(
    module: str, tmp_path: Path
) -> None:
    code, path = StepCode(), tmp_path / f"{module}.py"
    code.load(f"{module}:step", [str(tmp_path)])
    known = code.identity(f"{module}:step")
    write(path, "number = 2\ndef step(run):\n    return run + number\n")
    assert set(known) == {module}
    assert code.identity(f"{module}:step") == known
    code.load(f"{module}:step", [str(tmp_path)], anew=True)
    assert code.identity(f"{module}:step") != known


def test_a_module_that_is_imported_only_later_counts_too(package: str, tmp_path: Path) -> None:
    code = StepCode()
    code.load(f"{package}.flow:step", [str(tmp_path)])
    names = {name.removeprefix(package) for name in code.identity(f"{package}.flow:step")}
    assert names == {"", ".flow", ".formula", ".late"}


def test_code_that_has_not_changed_is_not_read_anew(module: str, tmp_path: Path) -> None:
    code = StepCode()
    first = code.load(f"{module}:step", [str(tmp_path)])
    os.utime(tmp_path / f"{module}.py")

    assert code.load(f"{module}:step", [str(tmp_path)], anew=True) is first


def test_a_file_that_is_written_in_the_tick_it_was_read_in_has_changed(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that can be seen of it without reading it is as it was."""
    path, real = tmp_path / f"{module}.py", os.stat
    seen = path.stat()

    def stat(of: str, **how: bool) -> os.stat_result:
        return seen if os.fspath(of) == str(path) else real(of, **how)

    monkeypatch.setattr(os, "stat", stat)
    code = StepCode()
    code.load(f"{module}:step", [str(tmp_path)])
    path.write_text("number = 2\ndef step(run):\n    return run + number\n")

    assert code.load(f"{module}:step", [str(tmp_path)], anew=True)(1) == 3


def write(path: Path, text: str) -> None:
    """Write a file and keep its time, as two edits within one second have the same."""
    before = path.stat() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    if before is not None:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def package(tmp_path: Path) -> str:
    """A package of two modules, one of which imports a third within its function."""
    name = f"steps_{uuid.uuid4().hex}"
    write(tmp_path / name / "__init__.py", "")
    write(tmp_path / name / "formula.py", "FACTOR = 1\n")
    write(tmp_path / name / "late.py", "TERM = 10\n")
    write(
        tmp_path / name / "flow.py",
        "from . import formula\n"
        "def step(run):\n"
        f"    from {name}.late import TERM\n"
        "    return formula.FACTOR * run + TERM\n",
    )
    return name


def test_code_read_anew_is_new_in_all_modules(package: str, tmp_path: Path) -> None:
    code = StepCode()
    assert code.load(f"{package}.flow:step", [str(tmp_path)])(1) == 11
    before = code.hash
    write(tmp_path / package / "formula.py", "FACTOR = 2\n")
    write(tmp_path / package / "late.py", "TERM = 20\n")

    assert code.load(f"{package}.flow:step", [str(tmp_path)], anew=True)(1) == 22
    assert code.hash != before


def test_a_module_that_is_imported_late_is_never_of_another_version(
    package: str, tmp_path: Path
) -> None:
    code = StepCode()
    step = code.load(f"{package}.flow:step", [str(tmp_path)])
    write(tmp_path / package / "formula.py", "FACTOR = 2\n")
    write(tmp_path / package / "late.py", "TERM = 20\n")

    with pytest.raises(CodeChanged, match=r"formula\.py has changed.*next attempt"):
        step(1)
    assert code.load(f"{package}.flow:step", [str(tmp_path)], anew=True)(1) == 22


def test_another_step_that_is_loaded_late_is_of_one_version_with_what_it_imports(
    package: str, tmp_path: Path
) -> None:
    code = StepCode()
    code.load(f"{package}.flow:step", [str(tmp_path)])
    write(tmp_path / package / "formula.py", "FACTOR = 5\n")
    write(
        tmp_path / package / "other.py",
        "from . import formula\ndef step(run):\n    return formula.FACTOR\n",
    )

    assert code.load(f"{package}.other:step", [str(tmp_path)])(None) == 5


def test_code_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    name = f"steps_{uuid.uuid4().hex}"
    write(tmp_path / f"{name}_a.py", "VALUE = 'old'\n")
    write(
        tmp_path / f"{name}.py",
        f"import {name}_a as a, pathlib\n"
        f"other = pathlib.Path({str(tmp_path)!r}) / '{name}_a.py'\n"
        "other.write_text(\"VALUE = 'new'\\n\")\n"
        "def step(run):\n    return a.VALUE\n",
    )

    assert StepCode().load(f"{name}:step", [str(tmp_path)])(None) == "new"


def test_code_that_never_rests_is_an_error_with_its_cure(tmp_path: Path) -> None:
    name = f"steps_{uuid.uuid4().hex}"
    text = "import os\nwith open(__file__, 'a') as own:\n    own.write('# more\\n')\n"
    write(tmp_path / f"{name}.py", text + "def step(run): pass\n")

    with pytest.raises(CodeChanged, match="try again"):
        StepCode().load(f"{name}:step", [str(tmp_path)])


def test_a_traceback_shows_the_lines_that_ran(module: str, tmp_path: Path) -> None:
    path = tmp_path / f"{module}.py"
    write(path, "def step(run):\n    raise ValueError('the fault')\n")
    code = StepCode()
    step = code.load(f"{module}:step", [str(tmp_path)])
    write(path, "def step(run):\n    return 'repaired'\n")

    try:
        step(None)
    except ValueError:
        shown = traceback.format_exc()

    assert "raise ValueError('the fault')" in shown
    assert code.load(f"{module}:step", [str(tmp_path)], anew=True)(None) == "repaired"


def test_the_hash_is_that_of_the_code_and_not_of_its_place(tmp_path: Path) -> None:
    name = f"steps_{uuid.uuid4().hex}"
    hashes = []
    finders = list(sys.meta_path)
    for place, text in (("a", "x = 1"), ("b", "x = 1"), ("c", "x = 2")):
        write(tmp_path / place / f"{name}.py", f"{text}\ndef step(run): pass\n")
        code = StepCode()
        assert code.hash == ""
        code.load(f"{name}:step", [str(tmp_path / place)])
        hashes.append(code.hash)
        del sys.modules[name]
        sys.meta_path[:] = finders

    assert hashes[0] == hashes[1] != hashes[2]
    assert len(hashes[0]) == 64


def test_what_lies_below_a_directory_but_was_found_elsewhere_is_left_alone(
    module: str, tmp_path: Path
) -> None:
    library = tmp_path / "venv"
    other = f"steps_{uuid.uuid4().hex}"
    write(library / f"{other}.py", "")
    sys.path.append(str(library))
    write(tmp_path / f"{module}.py", f"import {other}\ndef step(run):\n    return {other}\n")
    code = StepCode()
    installed = code.load(f"{module}:step", [str(tmp_path)])(None)
    write(tmp_path / f"{module}.py", f"import {other}\ndef step(run):\n    return {other}\n# new\n")

    assert code.load(f"{module}:step", [str(tmp_path)], anew=True)(None) is installed


@pytest.mark.parametrize("function", ["other", "number"])
def test_a_missing_function_is_named(module: str, tmp_path: Path, function: str) -> None:
    with pytest.raises(UnknownStep, match=f"no function '{function}'"):
        StepCode().load(f"{module}:{function}", [str(tmp_path)])


def test_a_missing_module_is_named_with_the_path_searched() -> None:
    with pytest.raises(UnknownStep, match="no module 'no_such_steps'"):
        StepCode().load("no_such_steps:step", [])


def test_a_module_missing_inside_a_step_is_that_modules_error(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("import not_installed_anywhere\n")

    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        StepCode().load(f"{module}:step", [str(tmp_path)])


def test_a_step_that_could_not_be_imported_is_imported_once_repaired(
    module: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{module}.py"
    write(path, "def step(run:\n    return 'old'\n")
    code = StepCode()
    with pytest.raises(SyntaxError):
        code.load(f"{module}:step", [str(tmp_path)])
    write(path, "def step(run):\n    return 'new'\n")

    assert code.load(f"{module}:step", [str(tmp_path)], anew=True)(None) == "new"


@pytest.mark.parametrize("entry", ["module", "module:", ":function"])
def test_another_form_of_entry_is_refused(entry: str) -> None:
    with pytest.raises(UnknownStep, match="module:function"):
        StepCode().load(entry, [])


@pytest.fixture
def spaces() -> Iterator[Callable[[], StepCode]]:
    made: list[StepCode] = []

    def make() -> StepCode:
        made.append(StepCode(f"space_{uuid.uuid4().hex}"))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_spaces_have_modules_of_one_name_in_different_versions(
    package: str, tmp_path: Path, spaces: Callable[[], StepCode]
) -> None:
    roots = [str(tmp_path)]
    entry = f"{package}.flow:step"
    old, new = spaces(), spaces()
    old_step = old.load(entry, roots)
    assert old_step(1) == 11
    before = old.hash
    write(tmp_path / package / "formula.py", "FACTOR = 2\n")
    write(tmp_path / package / "late.py", "TERM = 20\n")

    assert new.load(entry, roots)(1) == 22
    assert old_step(1) == 11
    assert old.load(entry, roots)(2) == 12
    assert old.hash == before != new.hash
    assert old.load(entry, roots, anew=True)(1) == 22
    assert old.hash == new.hash


def test_a_module_imported_late_is_of_the_space_that_imports_it(
    package: str, tmp_path: Path, spaces: Callable[[], StepCode]
) -> None:
    write(tmp_path / f"{package}_kept.py", "SEEN = []\n")
    write(
        tmp_path / f"{package}_top.py",
        f"def step(run):\n    import {package}_kept\n    import {package}.late as late\n"
        f"    from {package} import formula\n    import json, os.path\n"
        f"    {package}_kept.SEEN.append((run, late.TERM, formula.FACTOR))\n"
        f"    return {package}_kept.SEEN\n",
    )
    one, other = (
        space.load(f"{package}_top:step", [str(tmp_path)]) for space in (spaces(), spaces())
    )
    assert one(1) == [(1, 10, 1)]
    assert other(2) == [(2, 10, 1)]
    assert one(3) == [(1, 10, 1), (3, 10, 1)]
    assert f"{package}_kept" not in sys.modules


def test_classes_of_a_space_find_their_module(
    tmp_path: Path, spaces: Callable[[], StepCode]
) -> None:
    name = f"shapes_{uuid.uuid4().hex}"
    write(
        tmp_path / f"{name}.py",
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Point:\n    x: int\n"
        "def step(run):\n    return Point(run).x\n",
    )
    assert spaces().load(f"{name}:step", [str(tmp_path)])(7) == 7


def test_functions_of_a_space_are_sent_by_value(
    tmp_path: Path, spaces: Callable[[], StepCode]
) -> None:
    name = f"sent_{uuid.uuid4().hex}"
    write(tmp_path / f"{name}.py", "BY = 3\ndef step(run):\n    return BY * run\n")
    sent = cloudpickle.dumps(spaces().load(f"{name}:step", [str(tmp_path)]))
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(5))"
    done = subprocess.run(
        [sys.executable, "-c", program], input=sent, capture_output=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == b"15"


def test_a_closed_space_leaves_nothing(package: str, tmp_path: Path) -> None:
    name = f"space_{uuid.uuid4().hex}"
    finders = len(sys.meta_path)
    code = StepCode(name)
    assert code.load(f"{package}.flow:step", [str(tmp_path)])(1) == 11
    assert any(known.startswith(name) for known in sys.modules)

    code.close()

    assert not any(known.startswith(name) for known in sys.modules)
    assert len(sys.meta_path) == finders
    assert str(tmp_path) not in sys.path


def test_a_step_of_a_space_that_is_installed_is_found(spaces: Callable[[], StepCode]) -> None:
    assert spaces().load("json:dumps", [])([1]) == "[1]"


def test_a_step_of_a_space_that_is_nowhere_is_named(
    tmp_path: Path, spaces: Callable[[], StepCode]
) -> None:
    with pytest.raises(UnknownStep, match=r"no module 'nowhere\.to'"):
        spaces().load("nowhere.to:step", [str(tmp_path)])
