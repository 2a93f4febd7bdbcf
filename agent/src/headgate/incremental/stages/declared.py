"""Checks of what people give to constructors: a mistake is named where it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.incremental.stages.errors import StageError


def check_kind(place: str, value: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Check that a value is of a type.

    Raises:
        StageError: it is of another; says what is wanted.
    """
    if not isinstance(value, kinds):
        raise misused(place, value, wanted)


def check_each(place: str, values: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Check that values are a mapping from names to values of a type.

    Raises:
        StageError: they are not.
    """
    if not isinstance(values, Mapping):
        raise misused(place, values, wanted)
    for name, value in values.items():
        if not isinstance(name, str):
            raise misused(f"a name in {place}", name, "write a text")
        check_kind(f"`{name}` in {place}", value, kinds, wanted)


def check_columns(place: str, by: object, special: tuple[type, ...] = ()) -> None:
    """Check that rows can be routed or ordered by what is given.

    Args:
        place: where it is given, in words.
        by: names of columns, a function, or of the other types.
        special: other types that are possible.

    Raises:
        StageError: it is nothing of these.
    """
    is_names = isinstance(by, tuple) and all(isinstance(name, str) for name in by)
    if not (isinstance(by, (str, *special)) or is_names or callable(by)):
        wanted = "write a column, several as a tuple, or a function of a row"
        raise misused(place, by, wanted)


def check_function(place: str, value: Callable[..., Any] | None) -> None:
    """Check that a value can be called, or is none.

    Raises:
        StageError: it is something else.
    """
    if value is not None and not callable(value):
        raise misused(place, value, "give the function itself")


def misused(place: str, value: object, wanted: str) -> StageError:
    """Return the error of a value in a place where another is wanted."""
    return StageError(f"{place} is {value!r:.100}, of type {type(value).__name__}; {wanted}")
