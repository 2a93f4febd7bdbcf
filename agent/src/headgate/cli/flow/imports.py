"""``headgate flow check --imports``: whether steps, stages, metrics and runnables are there.

Modules are imported in a process of its own, since that runs what stands in them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from headgate.cli.flow.stage_flows import flow_problems
from headgate.flows import Dataflow, Problem, StepLauncher, nearest
from headgate.incremental import DescribedStage

_SECONDS = 120.0  # until a module must have been imported: PySpark and pandas take a few
_PROGRAM = """
import importlib, json, os, pkgutil, sys
module, function, *paths = sys.argv[1:]
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path[:0] = paths
found = {"failure": "", "missing": "", "names": []}
try:
    names = [name for name in vars(importlib.import_module(module)).items()]
    if not callable(dict(names).get(function)):
        found["missing"] = "function"
        found["names"] = [n for n, what in names if callable(what) and not n.startswith("_")]
    elif "headgate.incremental" in sys.modules:
        from headgate.incremental import Stage, described
        from msgspec import json as as_json
        if isinstance(dict(names)[function], Stage):
            found["stage"] = json.loads(as_json.encode(described(dict(names)[function].spec)))
except ModuleNotFoundError as error:
    if error.name and (module + ".").startswith(error.name + "."):
        found["missing"] = "module"
        places = [os.path.join(p, *module.split(".")[:-1]) for p in paths]
        found["names"] = [m.name for m in pkgutil.iter_modules(places)]
    else:
        found["failure"] = f"{type(error).__name__}: {error}"
except BaseException as error:
    found["failure"] = f"{type(error).__name__}: {error}"
json.dump(found, answers)
answers.flush()
os._exit(0)
"""


class _Found(Struct, frozen=True):
    failure: str
    missing: str
    names: tuple[str, ...]
    stage: DescribedStage | None = None
    """A stage's description of its flows; None for anything else."""


def import_problems(dataflow: Dataflow, directory: Path) -> tuple[Problem, ...]:
    """Return what keeps code of a dataflow from being called, each in its line.

    Args:
        dataflow: as it was read.
        directory: of its file, from which its paths begin.
    """
    paths = tuple(str(directory / Path(part).expanduser()) for part in dataflow.python_path)
    stages = {action.name for action in dataflow.spec.actions if action.stage is not None}
    kinds = {
        one.step: "stage" if name in stages else "function"
        for name, one in dataflow.launchers.items()
        if isinstance(one, StepLauncher)
    }
    kinds |= dict.fromkeys(dataflow.user_metrics, "class")
    kinds |= dict.fromkeys(dataflow.user_runnables, "function")
    cure = "put the file there, or correct `depends`"
    missing = (
        _at(
            dataflow,
            path,
            f"`{action}` depends on `{path}`, which {directory} does not have",
            cure,
        )
        for action, declared in dataflow.actions.items()
        for path in declared.depends
        if not (directory / Path(path).expanduser()).is_file()
    )
    imported = {entry: _imported(entry, paths) for entry in kinds}
    found = (
        problem
        for entry, kind in kinds.items()
        for problem in _problems(dataflow, entry, kind, paths, imported[entry])
    )
    described = {
        name: stage
        for name, one in dataflow.launchers.items()
        if name in stages and isinstance(one, StepLauncher)
        if (stage := imported[one.step].stage) is not None
    }
    return (*found, *missing, *flow_problems(dataflow, described))


def _problems(
    dataflow: Dataflow, entry: str, kind: str, paths: tuple[str, ...], found: _Found
) -> Iterator[Problem]:
    module, _, function = entry.partition(":")
    if found.failure:
        words = f"module `{module}` cannot be imported: {found.failure}"
        cure = "correct the module, or install what it imports for this translation"
    elif found.missing == "function":
        words = f"module `{module}` has no {kind} `{function}`"
        meant = nearest(function, found.names)
        cure = f"did you mean `{module}:{meant}`?" if meant else "define it there"
    elif found.missing:
        words = f"there is no module `{module}` in {', '.join(paths)}"
        package, _, name = module.rpartition(".")
        meant = nearest(name, found.names)
        whole = f"{package}.{meant}" if package else meant
        cure = f"did you mean `{whole}:{function}`?" if meant else "correct it, or `python_path`"
    else:
        return
    yield _at(dataflow, entry, words, cure)


def _at(dataflow: Dataflow, text: str, words: str, cure: str) -> Problem:
    """Return a problem where a text first stands in a dataflow file."""
    before, here, _ = dataflow.source.partition(text)
    line = before.count("\n") + 1 if here else 1
    column = len(before) - before.rfind("\n") if here else 1
    return Problem(dataflow.file, line, column, words, cure)


def _imported(entry: str, paths: tuple[str, ...]) -> _Found:
    module, _, function = entry.partition(":")
    command = [sys.executable, "-c", _PROGRAM, module, function, *paths]
    try:
        ended = subprocess.run(command, stdout=subprocess.PIPE, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return _Found(f"it took longer than {_SECONDS:g} s", "", ())
    try:
        return msgspec.json.decode(ended.stdout, type=_Found)
    except msgspec.DecodeError:
        return _Found(f"it ended the interpreter with status {ended.returncode}", "", ())
