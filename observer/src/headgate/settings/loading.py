"""A configuration from a TOML file, each key overridden by a variable of the environment.

What a file may hold is a msgspec struct, whose fields are keys and whose inner structs are tables.
A table without a struct of its own (``dict``) may hold any keys, which no variable overrides.
"""

from __future__ import annotations

import difflib
import math
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, inspect

from headgate.settings.places import ConfigurationError, Path, Places, dotted

Settings = TypeVar("Settings", bound=Struct)
Check = Callable[[Settings, Places], None]


def load(
    kind: type[Settings],
    path: pathlib.Path | None,
    environment: Mapping[str, str],
    *,
    prefix: str,
    check: Check[Settings],
) -> Settings:
    """Return what the file says, with what the environment overrides.

    Args:
        kind: what the file may hold.
        path: the TOML file; None where variables say everything.
        environment: all variables of the process.
        prefix: of the variables that count: ``[kafka] bootstrap`` is overridden by the prefix and
            ``KAFKA_BOOTSTRAP``.
        check: raises ``places.problem(...)`` for what types alone do not show.

    Raises:
        ConfigurationError: it cannot be read or used; the message says where and what to do.
    """
    if path is None:
        return parse(kind, "", "the environment alone", environment, prefix=prefix, check=check)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(
            f"{path}: cannot be read ({reason}); name the file with --config"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 ({error}); save it as UTF-8") from error
    return parse(kind, text, str(path), environment, prefix=prefix, check=check)


def parse(
    kind: type[Settings],
    text: str,
    source: str,
    environment: Mapping[str, str],
    *,
    prefix: str,
    check: Check[Settings],
) -> Settings:
    """Return the configuration in a TOML text; ``source`` is its name in messages.

    Raises:
        ConfigurationError: it cannot be used.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{source}: not valid TOML: {error}") from error
    places = Places(text, source)
    shape = inspect.type_info(kind)
    _check_keys(content, shape, (), places)
    _override(content, shape, environment, prefix, places)
    try:
        settings = msgspec.convert(content, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(_explain(error, shape, places)) from error
    _check_finite(content, settings, (), places)
    check(settings, places)
    return settings


def _check_finite(content: Any, read: Any, path: Path, places: Places) -> None:
    """Refuse infinities and NaN, which pass every limit and mean nothing as a duration or size.

    Args:
        content: what was written.
        read: what it became.
        path: of both.
        places: where keys are.
    """
    if isinstance(read, float) and not math.isfinite(read):
        raise places.problem(path, f"{content} is no finite number; write one, such as 3600")
    if isinstance(content, dict):
        for key, value in content.items():
            inner = read.get(key) if isinstance(read, dict) else getattr(read, key, None)
            _check_finite(value, inner, (*path, str(key)), places)
    elif isinstance(content, list) and isinstance(read, list | tuple):
        for number, (value, inner) in enumerate(zip(content, read, strict=False)):
            _check_finite(value, inner, (*path, str(number)), places)


def _variants(shape: inspect.Type) -> Sequence[inspect.Type]:
    return shape.types if isinstance(shape, inspect.UnionType) else (shape,)


def _fields(shape: inspect.Type) -> dict[str, inspect.Field] | None:
    """Return the keys of a table; None for what is none, or one with any keys."""
    for variant in _variants(shape):
        if isinstance(variant, inspect.StructType):
            return {field.encode_name: field for field in variant.fields}
    return None


def _elements(shape: inspect.Type) -> inspect.Type | None:
    for variant in _variants(shape):
        if isinstance(variant, inspect.ListType | inspect.VarTupleType):
            return variant.item_type
    return None


def _check_keys(content: Any, shape: inspect.Type, path: Path, places: Places) -> None:
    elements = _elements(shape)
    if isinstance(content, list) and elements is not None:
        for number, element in enumerate(content):
            _check_keys(element, elements, (*path, str(number)), places)
        return
    fields = _fields(shape)
    if fields is None:
        return
    if not isinstance(content, dict):
        table = f"[[{path[-2]}]]" if path[-1].isdigit() else f"[{dotted(path)}]"
        raise ConfigurationError(f"{places.at(path)}: {dotted(path)!r} must be a table: {table}")
    for key, value in content.items():
        here = (*path, key)
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            cure = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(fields)}"
            raise ConfigurationError(f"{places.at(here)}: unknown key {dotted(here)!r}; {cure}")
        _check_keys(value, fields[key].type, here, places)


def _single_keys(shape: inspect.Type, path: Path = ()) -> Iterator[tuple[Path, inspect.Type]]:
    """Yield the keys that one variable can set, with their types."""
    for key, field in (_fields(shape) or {}).items():
        here = (*path, key)
        elements = _elements(field.type)
        if _fields(field.type) is not None:
            yield from _single_keys(field.type, here)
        elif isinstance(field.type, inspect.DictType) or (elements and _fields(elements)):
            continue
        else:
            yield here, field.type


def _value_of(text: str, kind: inspect.Type) -> Any:
    """Return what a variable says: for a list alone, its items, as TOML or with commas between.

    What may be one text, too, stays a text: its readers divide it.
    """
    variants = _variants(kind)
    if _elements(kind) is None or any(isinstance(each, inspect.StrType) for each in variants):
        return text
    stripped = text.strip()
    if stripped.startswith("["):
        try:
            return tomllib.loads(f"items = {stripped}")["items"]
        except tomllib.TOMLDecodeError:
            pass  # It is an IPv6 address in brackets, or no list: the type says which.
    return [item.strip() for item in stripped.split(",")] if stripped else []


def _override(
    content: dict[str, Any],
    shape: inspect.Type,
    environment: Mapping[str, str],
    prefix: str,
    places: Places,
) -> None:
    keys = list(_single_keys(shape))
    variables = {prefix + "_".join(path).upper(): (path, kind) for path, kind in keys}
    for variable, value in environment.items():
        if not variable.startswith(prefix):
            continue
        if variable not in variables:
            near = difflib.get_close_matches(variable, variables, n=1)
            cure = f"did you mean {near[0]}?" if near else "remove it"
            raise ConfigurationError(
                f"environment: {variable} overrides no key of the configuration; {cure}"
            )
        path, kind = variables[variable]
        target = content
        for part in path[:-1]:
            target = target.setdefault(part, {})
        target[path[-1]] = _value_of(value, kind)
        places.override(path, variable)


_PART = re.compile(r"[^.\[\]]+")


def _explain(error: msgspec.ValidationError, shape: inspect.Type, places: Places) -> str:
    described, _, place = str(error).partition(" - at `$")
    path = tuple(_PART.findall(place.rstrip("`")))
    missing = re.match(r"Object missing required field `(\w+)`", described)
    if missing is None:
        return f"{places.at(path)}: {dotted(path)!r}: {described}; correct the value"
    path = (*path, missing[1])
    where = f"under [{dotted(path[:-1])}]" if path[:-1] else "at the top"
    what = "it"
    inner = _fields(_at(shape, path))
    if inner is not None:
        what = " and ".join(key for key, field in inner.items() if field.required)
        where = f"under [{dotted(path)}]"
    return f"{places.at(path)}: {dotted(path)!r} is missing; add {what} {where}"


def _at(shape: inspect.Type, path: Path) -> inspect.Type:
    for part in path:
        elements = _elements(shape)
        shape = elements if elements and part.isdigit() else (_fields(shape) or {})[part].type
    return shape
