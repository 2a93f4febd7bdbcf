"""Declarations of a stage besides its code: how it routes, orders and frames, and its settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec import Struct

from headgate.flows import digest
from headgate.incremental.stages.specification import Fused, StageSpec

_FUNCTION: Final = "a function of Python "
"""Before the version by which a function was compiled, and its hash: others compile it otherwise.
"""
_VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


class StageShape(Struct, frozen=True):
    """How a stage treats its rows, in words: two that are equal treat them alike."""

    keys: Mapping[str, str] = {}
    """Declarations that decide the group and the order of a row of the state. If one of them
    changes, the stage cannot go on with its state."""
    settings: Mapping[str, str] = {}
    """Other declarations, such as the parameters of a stage of the library."""

    def differing(self, other: StageShape) -> list[str]:
        """Return in words what another shape says otherwise."""
        return [*_differing(self.keys, other.keys), *_differing(self.settings, other.settings)]


def _differing(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for said in {**before, **now}:
        was, is_now = before.get(said, "not given"), now.get(said, "not given")
        functions = [one.startswith(_FUNCTION) for one in (was, is_now)]
        compiled = [one.rpartition(" ")[0] for one in (was, is_now)]
        if was != is_now and not (all(functions) and compiled[0] != compiled[1]):
            yield f"{said} was {_short(was)} and is {_short(is_now)}"


def _short(said: str) -> str:
    return "a function" if said.startswith(_FUNCTION) else said


def shape_of(stage: StageSpec) -> StageShape:
    """Return how a stage treats its rows."""
    keys: dict[str, str] = {}
    settings: dict[str, str] = {}
    for name, flow in stage.inputs.items():
        keys[f"`route_by` of `{name}`"] = _said(flow.route_by)
        settings[f"`order_by` of `{name}`"] = _said(flow.order_by)
    if stage.state is not None:
        keys["`route_by` of the state"] = _said(stage.state.route_by)
        keys["`order_by` of the state"] = _said(stage.state.order_by)
        settings["`outer` of the state"] = _said(stage.state.outer)
    for framed, framing in stage.framing.items():
        settings[f"the framing of `{framed}`"] = _said(framing)
    for form in (stage.translate, stage.translate_tables, stage.translate_stream):
        if isinstance(form, partial):
            settings |= {f"`{name}`": said for name, said in _arguments(form)}
    for where, fused in (*stage.before.items(), *stage.after.items()):
        for part in fused:
            settings[f"what is fused with `{where}`: `{part.stage.name}`"] = _said(part)
    return StageShape(keys, settings)


def _arguments(form: partial[Any]) -> Iterator[tuple[str, str]]:
    for name, value in form.keywords.items():
        if isinstance(value, Struct):
            for field, one in msgspec.structs.asdict(value).items():
                yield field, _said(one)
        else:
            yield name, _said(value)


def _said(value: Any) -> str:
    """Return a text for a value that is the same in all processes."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return repr(value)
        case pa.Schema() | pa.DataType() | pa.Field():
            return str(value).replace("\n", ", ")
        case tuple() | list():
            return f"({', '.join(map(_said, value))})"
        case Mapping():
            return f"{{{', '.join(f'{key}: {_said(one)}' for key, one in value.items())}}}"
        case Fused():
            return f"{value.flow} of {_said_shape(shape_of(value.stage))}"
        case FunctionType():
            return f"{_FUNCTION}{_VERSION} {digest(_function(value))[:16]}"
        case Struct():
            fields = msgspec.structs.asdict(value).items()
            stated = ", ".join(f"{name}={_said(one)}" for name, one in fields)
            return f"{type(value).__name__}({stated})"
        case _:
            name = getattr(value, "__qualname__", None) or getattr(value, "name", None)
            return str(name or type(value).__name__)


def _said_shape(shape: StageShape) -> str:
    return str({**shape.keys, **shape.settings})


def _function(function: FunctionType) -> str:
    """Return what a function does, without its lines and docstring, and what it is bound to."""
    documented = function.__doc__ is not None
    cells = [_said(cell.cell_contents) for cell in function.__closure__ or ()]
    bound = [*map(_said, function.__defaults__ or ()), *cells]
    return repr((_compiled(function.__code__, documented=documented), bound))


def _compiled(code: CodeType, *, documented: bool = False) -> str:
    constants = [_constant(one) for one in code.co_consts[int(documented) :]]
    return repr((code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars))


def _constant(value: Any) -> str:
    match value:
        case CodeType():
            return _compiled(value)
        case frozenset():
            return f"{{{', '.join(sorted(map(_constant, value)))}}}"
        case tuple():
            return f"({', '.join(map(_constant, value))})"
        case _:
            return repr(value)
