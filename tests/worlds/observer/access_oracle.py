"""What rules allow, worked out from the services' definitions, apart from the product's tables.

A request is about the tables that any field of its arguments names. Where it shows descriptions of
tables and names none, it is about all that there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from headgate.events import ORIGIN_ATTRIBUTE, Origin, decode_origin
from headgate.hbase import Dialect
from headgate.observer.config import AccessSettings, Allow
from observer import trees
from observer.generated_readers import Call, last, mapping
from observer.memory_hbase import WRITES, effects
from observer.requests_made import SERVICES, type_of
from observer.trees import LIST, MAP, STRING, STRUCT, Fields

NOBODY = "unknown"
_RANKS = {Allow.NOTHING: 0, Allow.READ: 1, Allow.WRITE: 2, Allow.DEFINE: 3}
_READ, _WRITE, _DEFINE = 1, 2, 3
_READING = ("get", "exists", "is", "open", "scanner", "close", "list", "tableExists")
_SERVERS_OWN = "getThriftServerType"
"""A call of the observer's own, too, which tells of no table."""


class AccessOracle:
    """Rules as they stand, and the requests that they are about."""

    def __init__(self, dialect: Dialect, tables: Iterable[str]) -> None:
        self._dialect = dialect
        self._service = SERVICES[dialect]
        self._tables = tuple(tables)
        self.access: AccessSettings | None = None
        """None: everybody may do everything."""
        self.found = ""
        """What was not as the rules say."""

    def forwarded(self, call: Call) -> None:
        """Look at what HBase is asked."""
        trespass = self._trespass(call)
        if trespass:
            self.found = f"the rules do not allow {trespass}"

    def refused(self, call: Call, why: str) -> None:
        """Look at what was refused in the name of the rules."""
        if not self._may_refuse(call):
            self.found = f"the rules allow {call.name[:80]!r}, refused: {why}"

    def _trespass(self, call: Call) -> str:
        """Return what HBase must not have been asked; empty where the rules allow it."""
        name = call.name.decode("latin-1")
        if self.access is None or name == _SERVERS_OWN:
            return ""
        if name in WRITES[self._dialect]:
            for done in effects(self._dialect, call) or ():
                who = _origin(done.origin)
                if isinstance(who, Origin) and not self._may_claim(who):
                    return f"{name} in the name of {who}"
                if self._rank(_name(who), done.table) < _WRITE:
                    return f"{name} of {done.table!r} by {_name(who)!r}"
            return ""
        tables = set(self._named(call)) or (set(self._tables) if self._describes(name) else set())
        if tables or not self._reads(name):
            needed = _READ if self._reads(name) else _DEFINE
            beyond = [each for each in tables or {""} if self._rank(NOBODY, each) < needed]
            return f"{name} of {sorted(beyond)}" if beyond else ""
        return "" if self._reads_any(NOBODY) else f"{name}, though nothing may be read"

    def _may_refuse(self, call: Call) -> bool:
        """Return whether the rules say something against a request, or against a part of it."""
        name = call.name.decode("latin-1")
        access = self.access
        if access is None:
            return False
        claimed = [_origin(one) for one in _attributes(call.fields)]
        if not all(isinstance(one, Origin) and self._may_claim(one) for one in claimed):
            return True
        names = {NOBODY, *(_name(one) for one in claimed)}
        tables = set(self._named(call))
        if tables or not self._reads(name):
            needed = _WRITE if name in WRITES[self._dialect] else _DEFINE
            needed = _READ if self._reads(name) else needed
            return any(self._rank(who, each) < needed for who in names for each in tables or {""})
        if not self._describes(name):
            return not self._reads_any(NOBODY)
        allows = [rule.allow for rule in access.rules if fnmatchcase(NOBODY, rule.origin)]
        return any(_RANKS[allow] < _READ for allow in (*allows, access.default))

    def _rank(self, who: str, table: str) -> int:
        assert self.access is not None
        for rule in self.access.rules:
            if fnmatchcase(who, rule.origin) and any(fnmatchcase(table, p) for p in rule.tables):
                return _RANKS[rule.allow]
        return _RANKS[self.access.default]

    def _reads_any(self, who: str) -> bool:
        assert self.access is not None
        allows = [rule.allow for rule in self.access.rules if fnmatchcase(who, rule.origin)]
        return any(_RANKS[allow] >= _READ for allow in (*allows, self.access.default))

    def _may_claim(self, origin: Origin) -> bool:
        assert self.access is not None
        if origin.nameless:
            return True
        odd = "/" in origin.writer + origin.dataflow or (origin.writer and origin.action)
        claims = self.access.claims
        return not odd and any(fnmatchcase(origin.name, claim) for claim in claims)

    # -- what requests are about

    def _describes(self, name: str) -> bool:
        """Return whether a method's result describes tables."""
        result = getattr(self._service, f"{name}_result", None)
        spec = getattr(result, "thrift_spec", {}).get(0, ())
        inner = spec[2] if len(spec) > 3 else None
        while isinstance(inner, tuple):
            inner = inner[-1]
        return getattr(inner, "__name__", "") == "TTableDescriptor"

    def _reads(self, name: str) -> bool:
        return name.startswith(_READING) and hasattr(self._service, f"{name}_args")

    def _named(self, call: Call) -> Iterator[str]:
        arguments = getattr(self._service, f"{call.name.decode('latin-1')}_args", None)
        if arguments is not None:
            yield from _tables(call.fields, arguments)


def _tables(fields: Fields, kind: Any) -> Iterator[str]:
    """Yield the tables that a struct names, by its definition."""
    if kind.__name__ == "TTableName":
        space, name = last(fields, 1, STRING, b""), last(fields, 2, STRING, b"")
        yield _text(space + b":" + name if space else name)
        return
    for number, (type_, name, *more) in kind.thrift_spec.items():
        inner = more[0] if len(more) > 1 else None
        if type_of(type_) == STRING and name in {"table", "tableName"}:
            value = last(fields, number, STRING)
            yield from () if value is None else (_text(value),)
        elif type_ == STRUCT:
            value = last(fields, number, STRUCT)
            yield from () if value is None else _tables(value, inner)
        elif type_ == LIST and isinstance(inner, tuple) and inner[0] == STRUCT:
            items = last(fields, number, LIST)
            for one in items.values if items is not None and items.type == STRUCT else ():
                yield from _tables(one, inner[1])


def _text(value: bytes) -> str:
    return value.removeprefix(b"default:").decode("utf-8", "backslashreplace")


def _attributes(fields: Fields) -> Iterator[bytes]:
    """Yield all that a request's parts say of who wrote them."""
    for field in fields:
        if field.type == MAP:
            said = mapping([trees.Field(1, MAP, field.value)], 1).get(ORIGIN_ATTRIBUTE)
            yield from () if said is None else (said,)
        elif field.type == STRUCT:
            yield from _attributes(field.value)
        elif field.type == LIST and field.value.type == STRUCT:
            for one in field.value.values:
                yield from _attributes(one)


def _origin(said: bytes | None) -> Origin | ValueError | None:
    try:
        return None if said is None else decode_origin(said)
    except ValueError as error:
        return error


def _name(origin: Origin | ValueError | None) -> str:
    return origin.name if isinstance(origin, Origin) and not origin.nameless else NOBODY
