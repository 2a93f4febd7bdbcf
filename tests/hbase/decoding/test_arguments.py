"""Declared arguments of methods, compared with independent definitions of the services."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headgate.hbase import Dialect
from headgate.hbase.decoding.arguments import ARGUMENTS, Value
from headgate.wire import LIST, MAP, SET, STRING, STRUCT

BINARY = 18  # thriftpy2's own number for a string of bytes
CONTAINERS = {LIST, SET, MAP}


def element(kind: Any) -> Value:
    """Return what the definitions say of an element of a container."""
    number, inner = kind if isinstance(kind, tuple) else (kind, None)
    number = STRING if number == BINARY else number
    if number == STRUCT:
        return struct(inner)
    if number in CONTAINERS:
        return container(number, inner)
    return Value(number)


def container(number: int, inner: Any) -> Value:
    parts = inner if number == MAP else (inner,)
    return Value(number, tuple(map(element, parts)))


def struct(made: Any) -> Value:
    required = tuple(sorted(n for n, spec in made.thrift_spec.items() if spec[-1]))
    fields = {
        number: element(field_type(spec))
        for number, spec in made.thrift_spec.items()
        if number in required or matters(element(field_type(spec)))
    }
    return Value(STRUCT, (), fields, required)


def field_type(spec: tuple[Any, ...]) -> Any:
    """Return the type in a definition: number, name, what is in it, whether it must be there."""
    return (spec[0], spec[2]) if len(spec) == 4 and spec[0] in {*CONTAINERS, STRUCT} else spec[0]


def matters(value: Value) -> bool:
    """Return whether two readers of a field can find its end in two places."""
    return value.kind in CONTAINERS or bool(value.fields)


def plain(value: Value) -> Value:
    """Return a declaration without names, and without simple fields that nobody must send."""
    parts = tuple(map(plain, value.parts))
    if value.fields is None:
        return replace(value, parts=parts, name="")
    fields = {
        number: plain(field)
        for number, field in value.fields.items()
        if number in value.required or matters(field)
    }
    return replace(value, parts=parts, fields=fields, name="")


@pytest.mark.parametrize("dialect", Dialect)
def test_what_can_be_read_in_two_ways_is_declared_as_the_services_define_it(
    encoder: Any, dialect: Dialect
) -> None:
    service = encoder.one.Hbase if dialect is Dialect.THRIFT1 else encoder.two.THBaseService
    compared = 0
    for method, declared in ARGUMENTS[dialect].items():
        arguments = getattr(service, f"{method}_args", None)
        if arguments is None:
            assert not declared, f"{method} is not among the definitions"
            continue
        expected = struct(arguments)
        assert plain(Value(STRUCT, (), declared)) == replace(expected, required=()), method
        compared += bool(expected.fields)
    assert compared > 15
