"""Each fault that was mended can still be restored, so that generators can be tried against it."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("run_faults", Path(__file__).parent / "run.py")
assert _SPEC is not None
assert _SPEC.loader is not None
run = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(run)


@pytest.mark.skipif(shutil.which("git") is None, reason="patches are applied by git")
@pytest.mark.parametrize("fault", run.faults(), ids=lambda fault: fault.path.stem)
def test_it_still_applies(fault) -> None:
    problem = run.applies(fault)
    assert not problem, f"{fault.path.name} does not apply any more; make it anew:\n{problem}"
    assert fault.words
    assert fault.worlds
