"""Finding a step's function."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.spark.steps import UnknownStep, load_step


@pytest.fixture
def module(tmp_path: Path) -> Iterator[str]:
    name = f"steps_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text("number = 1\ndef step(run):\n    return run + number\n")
    yield name
    sys.modules.pop(name, None)
    sys.path.remove(str(tmp_path))


def test_an_entry_names_a_function_of_a_module_in_the_path(module: str, tmp_path: Path) -> None:
    assert load_step(f"{module}:step", [str(tmp_path)])(1) == 2


def test_a_module_is_imported_once(module: str, tmp_path: Path) -> None:
    first = load_step(f"{module}:step", [str(tmp_path)])

    assert load_step(f"{module}:step", [str(tmp_path)]) is first


@pytest.mark.parametrize("function", ["other", "number"])
def test_a_missing_function_is_named(module: str, tmp_path: Path, function: str) -> None:
    with pytest.raises(UnknownStep, match=f"no function '{function}'"):
        load_step(f"{module}:{function}", [str(tmp_path)])


def test_a_missing_module_is_named_with_the_path_searched() -> None:
    with pytest.raises(UnknownStep, match="no module 'no_such_steps'"):
        load_step("no_such_steps:step", [])


def test_a_module_missing_inside_a_step_is_that_modules_error(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("import not_installed_anywhere\n")

    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        load_step(f"{module}:step", [str(tmp_path)])


@pytest.mark.parametrize("entry", ["module", "module:", ":function"])
def test_another_form_of_entry_is_refused(entry: str) -> None:
    with pytest.raises(UnknownStep, match="module:function"):
        load_step(entry, [])
