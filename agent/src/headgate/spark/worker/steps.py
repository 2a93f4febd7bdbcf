"""From ``module:function`` to a function, with its modules in one version: that of one moment."""

from __future__ import annotations

import builtins
import importlib
import linecache
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import decode_source
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from msgspec import Struct, structs
from pyspark import cloudpickle

from headgate.flows import ModuleText, code_of
from headgate.spark.worker.code_hash import code_hash, digest_of
from headgate.spark.worker.identities import PACKAGE, module_in

_READINGS: Final = 5
"""How often code is read that changes while it is read, before that is an error."""

_SETTLED_NANOSECONDS: Final = 2_000_000_000
"""The age from which a file's times are trusted: that of the coarsest clocks of file systems."""


class UnknownStep(Exception):
    """There is no such module or function."""


class CodeChanged(ImportError):
    """A module cannot be read beside others, which have changed since they were read."""


class _Stamp(NamedTuple):
    """What shows without a reading that a file has been written since.

    The times of a file move in ticks, so one that was written just before it was looked at may be
    written again and show the same: it is not ``settled``, and proves nothing.
    """

    modified: int
    changed: int
    size: int
    inode: int
    settled: bool


class _Source(Struct, frozen=True):
    """A module's file as it was read."""

    path: str
    text: bytes
    digest: bytes
    stamp: _Stamp


class StepCode:
    """The modules of the steps of one process, all of one version.

    A module in a step's ``python_path`` is read once and kept, whatever becomes of its file; so are
    the lines that tracebacks show. ``load`` with ``anew`` reads all of them again if one has
    changed. Functions of these modules are sent to Spark's Python workers by value: those need
    neither the files nor the path.

    Dataflows that share a process have a space each. A module of a space is, in ``sys.modules``,
    one of a package with the space's name, and import statements in it lead to modules of the same
    space: two spaces may have modules of one name in different versions.

    Args:
        space: a package's name that nothing else has; empty where the process is one dataflow's.
    """

    def __init__(self, space: str = "") -> None:
        self._space = space
        self._prefix = f"{space}." if space else ""
        self._lock = threading.RLock()
        self._roots: list[str] = []
        self._tops: set[str] = set()
        self._sources: dict[str, _Source] = {}
        # Behind what is built in, before the finder of sys.path, which would read compiled files.
        at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        self._finder = _Finder(self)
        sys.meta_path.insert(at, self._finder)
        if space:
            package = ModuleType(space)
            package.__path__ = []
            sys.modules[space] = package
        self._builtins = {**vars(builtins), "__import__": self._import}

    def close(self) -> None:
        """Forget all modules, and the space with them."""
        with self._lock:
            self._forget()
            sys.meta_path.remove(self._finder)
            sys.modules.pop(self._space, None)

    @property
    def hash(self) -> str:
        """SHA-256 (hexadecimal) of all modules read so far; empty where there is none."""
        with self._lock:
            return code_hash(
                {
                    name.removeprefix(self._prefix): source.digest
                    for name, source in self._sources.items()
                }
            )

    def identity(self, entry: str) -> dict[str, str]:
        """Return hashes of the syntax trees of an entry's module and of all that it imports.

        Modules count as they were read; those that are imported only later, as their files are.
        """
        with self._lock:
            return code_of(entry.partition(":")[0], self._text)

    def _text(self, name: str) -> ModuleText | None:
        source = self._sources.get(self._prefix + name)
        if source is not None:
            return ModuleText(source.text, Path(source.path).name == PACKAGE)
        return module_in(self._roots, name)

    def load(
        self, entry: str, python_path: Sequence[str], *, anew: bool = False
    ) -> Callable[[Any], object]:
        """Return the function that an entry names.

        Args:
            entry: ``module:function``.
            python_path: directories searched for modules before all others.
            anew: read all modules again if one has changed on disk.

        Raises:
            UnknownStep: the entry has another form, or names nothing.
            CodeChanged: files change all the time.
        """
        module_name, colon, function_name = entry.partition(":")
        if not (module_name and colon and function_name):
            message = f"step {entry!r} must have the form module:function"
            raise UnknownStep(message)
        with self._lock:
            for directory in reversed(python_path):
                if directory not in self._roots:
                    self._roots.insert(0, directory)
                    if not self._space:
                        sys.path.insert(0, directory)
            if anew and self._changed() is not None:
                self._forget()
            module = self._module(module_name, python_path)
        step: Callable[[Any], object] | None = getattr(module, function_name, None)
        if not callable(step):
            message = f"module {module_name} ({module.__file__}) has no function {function_name!r}"
            raise UnknownStep(message)
        return step

    def _module(self, name: str, python_path: Sequence[str]) -> ModuleType:
        # What is installed, and in none of the directories, is one for all.
        place = self._prefix + name if self._has(name.partition(".")[0]) else name
        for _ in range(_READINGS):
            known = sys.modules.get(place)
            if known is not None:
                return known
            try:
                module = importlib.import_module(place)
            except CodeChanged:
                self._forget()
                continue
            except ModuleNotFoundError as error:
                missing = (error.name or " ").removeprefix(self._prefix)
                if not f"{name}.".startswith(f"{missing}."):
                    raise
                message = (
                    f"no module {name!r} in {', '.join(python_path) or 'the Python path'}; "
                    "correct the step's entry or its python_path"
                )
                raise UnknownStep(message) from error
            if self._changed() is None:
                return module
            self._forget()
        message = f"the code of {name!r} changes while it is read; try again once it is in place"
        raise CodeChanged(message)

    def _changed(self) -> str | None:
        """Return a file that is not as it was read; None where all are."""
        for name, source in self._sources.items():
            try:
                stamp = _stamp(source.path)
                if stamp == source.stamp and stamp.settled:
                    continue
                digest = digest_of(Path(source.path).read_bytes())
            except OSError:
                return source.path
            if digest != source.digest:
                return source.path
            self._sources[name] = structs.replace(source, stamp=stamp)
        return None

    def _forget(self) -> None:
        for name in list(sys.modules):
            if self._top(name) in self._tops:
                module = sys.modules[name]
                # What is compiled to machine code can't be loaded twice.
                if name in self._sources or getattr(module, "__file__", None) is None:
                    del sys.modules[name]
        for source in self._sources.values():
            linecache.cache.pop(source.path, None)
        self._sources.clear()
        self._tops.clear()
        importlib.invalidate_caches()

    def find(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Return where a module in one of the directories is; None for all others."""
        top = self._top(name)
        dot = "." in name.removeprefix(self._prefix)
        if top is None or (dot and top not in self._tops):
            return None
        spec = PathFinder.find_spec(name, path if dot else self._roots)
        if spec is None:
            return None
        self._tops.add(top)
        if isinstance(spec.loader, SourceFileLoader) and spec.origin is not None:
            spec.loader = _Loader(self, name, spec.origin)
            spec.cached = None
        return spec

    def _top(self, name: str) -> str | None:
        """Return the first part of a module's name as its file has it; None in another space."""
        if not name.startswith(self._prefix):
            return None
        return name.removeprefix(self._prefix).partition(".")[0]

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - as the language calls it
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Do what an import statement in a module of the space does."""
        top = name.partition(".")[0]
        if level or not self._has(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = importlib.import_module(self._prefix + name)
        if fromlist:
            # Finds those names that are modules of a package, too.
            return builtins.__import__(module.__name__, globals, locals, fromlist, 0)
        return sys.modules[self._prefix + top]

    def _has(self, top: str) -> bool:
        if top in self._tops:
            return True
        if top in sys.modules or top in sys.builtin_module_names:
            return False
        return PathFinder.find_spec(top, self._roots) is not None

    def execute_in(self, module: ModuleType) -> None:
        """Have import statements of a module that is about to run lead to modules of its space."""
        if self._space:
            vars(module)["__builtins__"] = self._builtins

    def read(self, name: str, path: str) -> bytes:
        """Return a module's source and keep note of it.

        Raises:
            CodeChanged: what was read before is of another version.
        """
        with self._lock:
            changed = self._changed()
            if changed is not None:
                message = (
                    f"module {name!r} is imported only now, and {changed} has changed since it was "
                    "read; the next attempt takes all code as it is then"
                )
                raise CodeChanged(message, name=name, path=path)
            stamp = _stamp(path)
            source = Path(path).read_bytes()
            self._sources[name] = _Source(path, source, digest_of(source), stamp)
        lines = decode_source(source).splitlines(keepends=True)
        # Without a time of its own a file's lines are not looked for on disk again.
        linecache.cache[path] = (len(source), None, lines, path)
        return source


def _stamp(path: str) -> _Stamp:
    stat = os.stat(path)  # noqa: PTH116 - called for each file of each attempt
    settled = time.time_ns() - stat.st_ctime_ns > _SETTLED_NANOSECONDS
    return _Stamp(stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino, settled)


class _Finder(MetaPathFinder):
    def __init__(self, code: StepCode) -> None:
        self._code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del target
        return self._code.find(fullname, path)


class _Loader(SourceFileLoader):
    """Compiles what is in the file: a compiled file beside it may be of the same second's past."""

    def __init__(self, code: StepCode, name: str, path: str) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self._code.read(fullname, path), path)

    def exec_module(self, module: ModuleType) -> None:
        self._code.execute_in(module)
        cloudpickle.register_pickle_by_value(module)
        super().exec_module(module)
