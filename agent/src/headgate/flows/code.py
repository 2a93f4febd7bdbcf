"""Hashes of the syntax trees of Python modules, so that code is compared apart from its spelling.

Spark's workers import this module, so it imports only what is installed there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct


class ModuleText(Struct, frozen=True):
    """A module as it is in its file."""

    text: bytes
    is_package: bool = False
    """True if the module is the ``__init__`` of a package, from which relative imports begin."""


ReadModule = Callable[[str], ModuleText | None]
"""Returns a module by its dotted name; None for one that is in no directory of ``python_path``."""


def code_of(module: str, read: ReadModule) -> dict[str, str]:
    """Return hashes of the syntax trees of a module and of all that it imports, however far.

    Imports in functions count, those that are made by a string do not. A module whose text is no
    Python counts by its bytes.

    Args:
        module: its dotted name.
        read: reads modules; what it does not have (Python's own, installed packages) is left out.
    """
    found: dict[str, str] = {}
    waiting = list(_with_packages(module))
    while waiting:
        name = waiting.pop()
        known = None if name in found else read(name)
        if known is None:
            continue
        try:
            tree = ast.parse(known.text)
        except (SyntaxError, ValueError):
            found[name] = sha256(known.text).hexdigest()
            continue
        found[name] = digest("".join(_written(tree)))
        for imported in _imported(tree, name, is_package=known.is_package):
            waiting += _with_packages(imported)
    return dict(sorted(found.items()))


def _with_packages(module: str) -> Iterator[str]:
    """Yield a module after the packages that it is in: they are run before it."""
    parts = module.split(".")
    return (".".join(parts[:n]) for n in range(1, len(parts) + 1))


def _imported(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[str]:
    """Yield the names of modules that may be imported: what is imported of one may be one, too."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=name, names=names, level=level):
                parts = package.split(".") if level else []
                above = parts[: len(parts) - level + 1] if level else []
                base = ".".join([*above, *filter(None, [name])])
                if base:
                    yield base
                    yield from (f"{base}.{alias.name}" for alias in names)


_BODIES: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _written(node: ast.AST) -> Iterator[str]:
    """Yield a syntax tree as text, without docstrings and places.

    Empty fields are left out, since other versions of Python have others.
    """
    yield f"({type(node).__name__}"
    for field, value in ast.iter_fields(node):
        if field in ("ctx", "kind", "type_ignores", "type_comment"):
            continue
        if isinstance(value, list):
            body = value
            if field == "body" and isinstance(node, _BODIES):
                body = _without_docstring(value)
            if body:
                yield f" {field}="
                yield from _written_all(body)
        elif isinstance(value, ast.AST):
            yield f" {field}="
            yield from _written(value)
        elif value is not None:
            yield f" {field}={value!r}"
    yield ")"


def _written_all(values: Iterable[Any]) -> Iterator[str]:
    yield "["
    for value in values:
        if isinstance(value, ast.AST):
            yield from _written(value)
        else:
            yield repr(value)
    yield "]"


def _without_docstring(body: list[Any]) -> list[Any]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body


def digest(text: str) -> str:
    """Return the SHA-256 of a text, hexadecimal; lone surrogates count as themselves."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
