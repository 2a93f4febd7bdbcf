"""Runs tests over one mutant, in a process of its own, and tells its parent how it goes.

Most mutants change a function. A process that has collected the tests already is forked, and the
function gets the other code there. What is executed at import is changed by importing it anew.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import resource
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings
from operators import mutated

MOST_MEMORY = 8 << 30  # bytes of address space: a loop that lost its end must not take the machine

QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Hypothesis is imported before the tests here, and that is no news."""

Tell = Callable[[str], None]


def without_shrinking(items: Sequence[pytest.Item]) -> None:
    """Let Hypothesis draw the same examples each time and end with the first that fails."""
    for item in items:
        test = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        chosen = getattr(test, "_hypothesis_internal_use_settings", None)
        if chosen is not None:
            test._hypothesis_internal_use_settings = settings(  # type: ignore[union-attr]
                chosen,
                phases=(Phase.explicit, Phase.generate),
                database=None,
                derandomize=True,
            )


class SameExamples:
    """A plugin of pytest: :func:`without_shrinking` for all tests."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        without_shrinking(session.items)


def run_until_failure(items: Sequence[pytest.Item], tell: Tell) -> None:
    """Tell ``test ID`` before each test, and ``killed ID`` at the first failure."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        tell(f"test {item.nodeid}")
        reports = runtestprotocol(item, log=False, nextitem=following)
        if any(report.failed for report in reports):
            tell(f"killed {item.nodeid}")
            return
    tell("survived")


def alone(temporary: Path, config: pytest.Config | None = None) -> None:
    """Give this process its own group, its own temporary files and a limit of memory."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    if config is not None:
        config._tmp_path_factory._basetemp = temporary  # type: ignore[attr-defined]
        temporary.mkdir(parents=True)


class LiveFunctions:
    """The functions of this process, by the code that they have."""

    def __init__(self, paths: Sequence[str]) -> None:
        wanted = set(paths)
        self._by_code: defaultdict[CodeType, list[FunctionType]] = defaultdict(list)
        gc.collect()
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename in wanted:
                self._by_code[each.__code__].append(each)
        gc.freeze()  # what forked processes share stays shared

    def change(self, path: str, source: str, changed: ast.Module) -> bool:
        """Give functions the code of a changed program; say whether it is another at all.

        Raises:
            LookupError: no function of this process has what changed, or it cannot be changed.
        """
        before = compile(source, path, "exec", dont_inherit=True)
        after = compile(changed, path, "exec", dont_inherit=True)
        pairs = list(_pairs(before, after))
        found = [(each, new) for old, new in pairs for each in self._by_code.get(old, ())]
        if pairs and not found:
            raise LookupError(f"no function of {path} has the code that changed")
        for function, new in found:
            if function.__code__.co_freevars != new.co_freevars:
                raise LookupError(f"{function.__qualname__} has other variables around it now")
            function.__code__ = new
        return before != after


def _pairs(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Codes inside two versions of a program that stand in the same place and differ."""
    old = [each for each in before.co_consts if isinstance(each, CodeType)]
    new = [each for each in after.co_consts if isinstance(each, CodeType)]
    left: defaultdict[tuple[str, int], list[CodeType]] = defaultdict(list)
    for each in new:
        left[each.co_qualname, each.co_firstlineno].append(each)
    for each in old:
        others = left[each.co_qualname, each.co_firstlineno]
        if others:
            other = others.pop(0)
            if other != each:
                yield each, other
                yield from _pairs(each, other)


class _Only:
    """A plugin of pytest: runs the tests named, in their order, until one fails."""

    def __init__(self, names: Sequence[str], tell: Tell) -> None:
        self._names = names
        self._tell = tell
        self.ran = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            self._tell("killed at import")
            return True
        items = {item.nodeid: item for item in session.items}
        chosen = [items[name] for name in self._names if name in items]
        without_shrinking(chosen)
        self.ran = True
        run_until_failure(chosen, self._tell)
        return True


def _import_changed(path: str, changed: ast.Module) -> None:
    original = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if self.path == path:
            return compile(changed, path, "exec", dont_inherit=True)
        return original(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


def main() -> None:
    """The process for what is executed at import."""
    order = json.loads(sys.argv[1])
    tell = teller(order["pipe"])
    path = order["path"]
    names = json.loads(Path(order["tests"]).read_text())
    alone(Path(order["temporary"]))
    _import_changed(path, mutated(Path(path).read_text(), order["position"]))
    files = list(dict.fromkeys(name.partition("::")[0] for name in names))
    only = _Only(names, tell)
    base = f"--basetemp={order['temporary']}"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *QUIET, "-o", "timeout=0", base]
    pytest.main([*options, *files], [only])
    if not only.ran:
        tell("killed at import")
    os._exit(0)


def teller(pipe: int) -> Tell:
    """Return what writes lines to a pipe's end."""

    def tell(line: str) -> None:
        os.write(pipe, f"{line}\n".encode())

    return tell


if __name__ == "__main__":
    main()
