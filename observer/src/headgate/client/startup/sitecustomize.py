"""Run by every Python that starts below ``headgate exec``, before its program.

It waits for happybase to be imported and then puts headgate's classes in the place of its own.
Until then it costs next to nothing: nothing else is imported here.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and types cost more than all the rest here
    from types import ModuleType
    from typing import Any


class _HappybaseFinder:
    """Finds happybase as it would be found anyway, and sees to it once it is loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "happybase":
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _swap_when_loaded(spec.loader)
                return spec
        return None


def _swap_when_loaded(loader: Any) -> None:
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        from headgate.client import swap_into

        swap_into(module)

    loader.exec_module = exec_module


def _run_the_next_one() -> None:
    """Run the sitecustomize that this one is in front of, and leave the path as it would be."""
    folder = __file__.rpartition("/")[0]
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    ours = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


sys.meta_path.insert(0, _HappybaseFinder())
_run_the_next_one()
