"""The JSON Schema of dataflow files, made from the grammar; editors complete and check with it."""

from __future__ import annotations

import json
from typing import Any, assert_never

from headgate.flows.dataflow import GRAMMAR
from headgate.flows.grammar.kinds import (
    ANY_TEXT,
    Anything,
    Either,
    Kind,
    ListOf,
    MapOf,
    Numbers,
    RecordOf,
    Single,
)


def schema_text() -> str:
    """Return the JSON Schema (draft 2020-12) of dataflow files, as text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Headgate dataflow",
        **_schema(GRAMMAR),
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _schema(kind: Kind) -> dict[str, Any]:
    match kind:
        case Anything():
            return {}
        case Single():
            return _any_of(_single(kind))
        case ListOf():
            limits = {"minItems": kind.at_least}
            if kind.at_most is not None:
                limits["maxItems"] = kind.at_most
            return {"type": "array", "items": _schema(kind.item), **limits}
        case MapOf():
            names = {} if kind.name == ANY_TEXT else {"propertyNames": _pattern(kind.name)}
            return {
                "type": "object",
                **names,
                "minProperties": kind.at_least,
                "additionalProperties": _schema(kind.value),
            }
        case RecordOf():
            return _record(kind)
        case Either():
            return _any_of([_schema(one) for one in kind.kinds])
        case _:
            assert_never(kind)


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _single(kind: Single) -> list[dict[str, Any]]:
    forms: list[dict[str, Any]] = []
    if kind.words:
        forms.append({"enum": [*kind.words, *([None] if "null" in kind.words else [])]})
    if kind.pattern is not None:
        forms.append({"type": "string", **_pattern(kind.pattern)})
    if kind.numbers is not None:
        forms.append(_numbers(kind.numbers))
    if kind.truth:
        forms.append({"type": "boolean"})
    return forms


def _pattern(pattern: str) -> dict[str, Any]:
    return {"minLength": 1} if pattern == ANY_TEXT else {"pattern": f"^(?:{pattern})$"}


def _numbers(numbers: Numbers) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer" if numbers.whole else "number"}
    if numbers.above is not None:
        schema["exclusiveMinimum"] = numbers.above
    if numbers.at_least is not None:
        schema["minimum"] = numbers.at_least
    if numbers.at_most is not None:
        schema["maximum"] = numbers.at_most
    return schema


def _record(kind: RecordOf) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: {"description": key.doc, **_schema(key.kind)} for name, key in kind.keys.items()
        },
    }
    required = [name for name, key in kind.keys.items() if key.required]
    if required:
        schema["required"] = required
    if kind.one_of:
        schema["oneOf"] = [{"required": [name]} for name in kind.one_of]
    if kind.some_of:
        schema["anyOf"] = [{"required": [name]} for name in kind.some_of]
    if kind.apart:
        schema["allOf"] = [{"not": {"required": list(pair)}} for pair in kind.apart]
    needs = (*kind.together, *(pair[::-1] for pair in kind.together), *kind.needs)
    if needs:
        schema["dependentRequired"] = {
            name: [other for one, other in needs if one == name] for name, _ in needs
        }
    return schema
