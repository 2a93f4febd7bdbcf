"""From ``module:function`` to a function, so that Spark's own workers can run what it contains."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark import cloudpickle


class UnknownStep(Exception):
    """There is no such module or function."""


def load_step(entry: str, python_path: Sequence[str]) -> Callable[[Any], object]:
    """Return the function that an entry names; a module is imported once in a worker's life.

    Functions of modules in ``python_path`` are sent to Spark's Python workers by value: those need
    neither the files nor the path.

    Raises:
        UnknownStep: the entry has another form, or names nothing.
    """
    module_name, colon, function_name = entry.partition(":")
    if not (module_name and colon and function_name):
        message = f"step {entry!r} must have the form module:function"
        raise UnknownStep(message)
    for directory in reversed(python_path):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        message = (
            f"no module {module_name!r} in {', '.join(python_path) or 'the Python path'}; "
            "correct the step's entry or its python_path"
        )
        raise UnknownStep(message) from error
    _send_by_value(python_path)
    step: Callable[[Any], object] | None = getattr(module, function_name, None)
    if not callable(step):
        message = f"module {module_name} ({module.__file__}) has no function {function_name!r}"
        raise UnknownStep(message)
    return step


def _send_by_value(python_path: Sequence[str]) -> None:
    roots = [Path(directory).resolve() for directory in python_path]
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and any(Path(file).resolve().is_relative_to(root) for root in roots):
            cloudpickle.register_pickle_by_value(module)
