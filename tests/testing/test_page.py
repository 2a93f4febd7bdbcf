"""The examples of docs/testing.md are run as they stand there."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", range(len(blocks("python"))))
def test_an_example_of_the_page_passes(
    spark: Any, example: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # the example takes the session that runs
    (dataflow,) = blocks("yaml")
    (tmp_path / "stations.yaml").write_text(dataflow)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(blocks("python")[example], "docs/testing.md", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0](*[tmp_path / "state"] * len(signature(tests[0]).parameters))
