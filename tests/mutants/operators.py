"""Small changes to a program that its tests should notice."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

BOUNDARIES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITES = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
OTHER_CALLS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "startswith": "endswith",
    "endswith": "startswith",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
    "popleft": "pop",
    "appendleft": "append",
}
FOR_READERS = frozenset({"__repr__", "__str__", "__rich_repr__"})
DECLARED = frozenset({"__all__", "__slots__", "__match_args__"})
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
TYPE_FUNCTIONS = frozenset({"TypeVar", "NewType", "ParamSpec", "cast", "isinstance", "issubclass"})
TYPES = frozenset({"bool", "int", "float", "str", "bytes", "list", "tuple", "dict", "type"})


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, by names that survive edits elsewhere, and what it is."""

    path: str
    scope: str
    operator: str
    before: str
    after: str
    nth: int
    position: int
    lines: tuple[int, int]
    statement: tuple[int, int]
    in_function: bool

    @property
    def key(self) -> str:
        """What names the mutant as long as the function has this passage, wherever it stands."""
        nth = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.path}:{self.scope}: {self.operator}: {self.before} -> {self.after}{nth}"

    @property
    def place(self) -> str:
        return f"{self.path}:{self.lines[0]}"


@dataclass(frozen=True)
class _Change:
    operator: str
    parent: ast.AST
    field: str
    index: int | None
    old: ast.AST
    new: ast.AST
    scope: tuple[str, ...]
    in_function: bool
    statement: ast.stmt

    def make(self) -> None:
        ast.copy_location(self.new, self.old)
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.index] = self.new


def mutants(source: str, path: str) -> list[Mutant]:
    """Every change to ``source``, in the order of the text.

    Raises:
        SyntaxError: ``source`` is no Python.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for position, change in enumerate(_changes(ast.parse(source))):
        before, after = _short(change.old), _short(change.new)
        scope = ".".join(change.scope) or "<module>"
        seen[scope, change.operator, before, after] += 1
        found.append(
            Mutant(
                path=path,
                scope=scope,
                operator=change.operator,
                before=before,
                after=after,
                nth=seen[scope, change.operator, before, after],
                position=position,
                lines=(_line(change.old), getattr(change.old, "end_lineno", 0) or 0),
                statement=_head(change.statement),
                in_function=change.in_function,
            )
        )
    return found


def mutated(source: str, position: int) -> ast.Module:
    """Return the program with the change at this position of :func:`mutants`."""
    tree = ast.parse(source)
    for nth, change in enumerate(_changes(tree)):
        if nth == position:
            change.make()
            return ast.fix_missing_locations(tree)
    raise IndexError(f"there are no {position + 1} changes to this program")


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 120 else f"{text[:80]} … {text[-36:]}"


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _head(statement: ast.stmt) -> tuple[int, int]:
    """The first and the last line of a statement without the statements inside."""
    inside = [
        _line(each)
        for field in ("body", "cases", "handlers")
        for each in getattr(statement, field, [])
    ]
    last = statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, min(inside) - 1) if inside else last


def _changes(tree: ast.Module) -> Iterator[_Change]:
    yield from _Walk().block(tree, "body", ())


class _Walk:
    """Goes through a program in the order of its text."""

    def __init__(self) -> None:
        self._scope: tuple[str, ...] = ()
        self._in_function = False
        self._statement: ast.stmt = ast.Pass()

    def block(self, parent: ast.AST, field: str, scope: tuple[str, ...]) -> Iterator[_Change]:
        statements: list[ast.stmt] = getattr(parent, field)
        for index, statement in enumerate(statements):
            if _is_text(statement):
                continue
            around = self._statement
            self._statement = statement
            yield from self._statement_changes(parent, field, index, statement, scope)
            self._statement = around

    def _change(
        self, operator: str, parent: ast.AST, field: str, index: int | None, new: ast.AST
    ) -> _Change:
        old = getattr(parent, field)
        if index is not None:
            old = old[index]
        statement, scope = self._statement, self._scope
        return _Change(
            operator, parent, field, index, old, new, scope, self._in_function, statement
        )

    def _statement_changes(
        self, parent: ast.AST, field: str, index: int, node: ast.stmt, scope: tuple[str, ...]
    ) -> Iterator[_Change]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._function(node, scope)
            case ast.ClassDef():
                around, self._scope = self._scope, (*scope, node.name)
                yield from self.block(node, "body", self._scope)
                self._scope = around
            case ast.If() if _is_type_checking(node.test):
                return
            case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal() | ast.Assert():
                return
            case ast.Assign(targets=[ast.Name(id=name)]) if name in DECLARED:
                return
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name in LOG_METHODS:
                return
            case _:
                yield from self._removal(parent, field, index, node)
                yield from self._parts(node)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: tuple[str, ...]
    ) -> Iterator[_Change]:
        if node.name in FOR_READERS or any(_named(each) == "overload" for each in _marks(node)):
            return
        arguments = node.args
        for index in range(len(arguments.defaults)):
            yield from self._expression(arguments, "defaults", index)
        for index, default in enumerate(arguments.kw_defaults):
            if default is not None:
                yield from self._expression(arguments, "kw_defaults", index)
        around = self._scope, self._in_function
        self._scope, self._in_function = (*scope, node.name), True
        yield from self.block(node, "body", self._scope)
        self._scope, self._in_function = around

    def _removal(
        self, parent: ast.AST, field: str, index: int, node: ast.stmt
    ) -> Iterator[_Change]:
        match node:
            case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise():
                yield self._change("removed", parent, field, index, ast.Pass())
                if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
                    other = ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
                    yield self._change("arithmetic", parent, field, index, other)
            case ast.Assign(targets=targets) if any(
                isinstance(each, ast.Attribute | ast.Subscript) for each in targets
            ):
                yield self._change("removed", parent, field, index, ast.Pass())
            case ast.Return(value=value) if value is not None and not _is_nothing(value):
                nothing = ast.Return(value=ast.Constant(None))
                yield self._change("return", parent, field, index, nothing)
            case ast.Continue():
                yield self._change("loop", parent, field, index, ast.Break())
            case ast.Break():
                yield self._change("loop", parent, field, index, ast.Continue())

    def _parts(self, node: ast.AST) -> Iterator[_Change]:
        """Changes inside a statement or an expression."""
        match node:
            case ast.If() | ast.While() | ast.IfExp() if _is_plain(node.test):
                negated = ast.UnaryOp(ast.Not(), ast.copy_location(node.test, node.test))
                yield self._change("negated", node, "test", None, negated)
            case ast.Try() if node.finalbody:
                yield self._change("finally", node, "finalbody", 0, ast.Pass())
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "type_comment", "type_params", "kind", "ctx"}:
                continue
            if name in {"body", "orelse", "finalbody"} and isinstance(value, list):
                yield from self.block(node, name, self._scope)
            elif name == "handlers" and isinstance(value, list):
                for handler in value:
                    yield from self._handler(handler)
            elif isinstance(value, list):
                for index, each in enumerate(value):
                    if isinstance(each, ast.AST):
                        yield from self._expression(node, name, index)
            elif isinstance(value, ast.AST):
                yield from self._expression(node, name, None)

    def _handler(self, handler: ast.ExceptHandler) -> Iterator[_Change]:
        first = handler.body[0]
        if not (isinstance(first, ast.Raise) and first.exc is None):
            yield self._change_handler(handler)
        yield from self.block(handler, "body", self._scope)

    def _change_handler(self, handler: ast.ExceptHandler) -> _Change:
        around, self._statement = self._statement, handler.body[0]
        change = self._change("handler", handler, "body", 0, ast.Raise())
        self._statement = around
        return change

    def _expression(self, parent: ast.AST, field: str, index: int | None) -> Iterator[_Change]:
        node: ast.AST = getattr(parent, field)
        if index is not None:
            node = getattr(parent, field)[index]
        if isinstance(node, ast.JoinedStr | ast.expr_context | ast.operator | ast.cmpop):
            return
        if isinstance(parent, ast.Raise) and field in {"exc", "cause"}:
            return
        for operator, new in _others(node, parent):
            yield self._change(operator, parent, field, index, new)
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in TYPE_FUNCTIONS:
                if name in {"isinstance", "issubclass"}:
                    yield from self._expression(node, "args", 0)
                return
            case ast.Lambda():
                around, self._in_function = self._in_function, True
                yield from self._expression(node, "body", None)
                self._in_function = around
            case ast.comprehension():
                for nth in range(len(node.ifs)):
                    yield self._change("filter", node, "ifs", nth, ast.Constant(value=True))
                yield from self._parts(node)
            case ast.match_case():
                if node.guard is not None:
                    yield self._change("filter", node, "guard", None, ast.Constant(value=True))
                    yield from self._expression(node, "guard", None)
                yield from self.block(node, "body", self._scope)
            case _:
                yield from self._parts(node)


def _others(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """What an expression may become."""
    match node:
        case ast.Compare(left=left, ops=[operation], comparators=comparators):
            for name, table in (("boundary", BOUNDARIES), ("opposite", OPPOSITES)):
                other = table.get(type(operation))
                if other is not None:
                    yield name, ast.Compare(left, [other()], comparators)
        case ast.Compare(left=left, ops=operations, comparators=comparators):
            for nth, operation in enumerate(operations):
                other = BOUNDARIES.get(type(operation)) or OPPOSITES.get(type(operation))
                if other is not None:
                    changed = [*operations[:nth], other(), *operations[nth + 1 :]]
                    yield "boundary", ast.Compare(left, changed, comparators)
        case ast.BoolOp(op=operation, values=values):
            swapped = ast.Or() if isinstance(operation, ast.And) else ast.And()
            yield "boolean", ast.BoolOp(swapped, values)
            for nth in range(len(values)):
                rest = [*values[:nth], *values[nth + 1 :]]
                yield "operand", rest[0] if len(rest) == 1 else ast.BoolOp(operation, rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield "sign", operand
        case ast.BinOp(op=ast.BitOr(), left=left, right=right) if _is_type(left) or _is_type(right):
            return
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in ARITHMETIC:
            yield "arithmetic", ast.BinOp(left, ARITHMETIC[type(operation)](), right)
        case ast.Constant(value=value) if not isinstance(parent, ast.FormattedValue):
            for other_value in _other_constants(value):
                yield "constant", ast.Constant(other_value)
        case ast.Call(func=ast.Name(id=name)) if name in TYPE_FUNCTIONS:
            return
        case ast.Call(func=function, args=arguments, keywords=keywords):
            named = _renamed(function)
            if named is not None:
                yield "call", ast.Call(named, arguments, keywords)
            if _renamed(function) is not None and _named(function) in {"min", "max"}:
                return
            if len(arguments) > 1 and not any(isinstance(a, ast.Starred) for a in arguments[:2]):
                swapped_arguments = [arguments[1], arguments[0], *arguments[2:]]
                yield "swapped", ast.Call(function, swapped_arguments, keywords)


def _other_constants(value: object) -> Iterator[bool | int | float | str | bytes]:
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
            if value:
                yield value - 1
        case float():
            yield value + 1.0
        case str() if value:
            yield ""
        case bytes() if value:
            yield b""


def _renamed(function: ast.expr) -> ast.expr | None:
    match function:
        case ast.Name(id=name, ctx=context) if name in OTHER_CALLS:
            return ast.copy_location(ast.Name(OTHER_CALLS[name], context), function)
        case ast.Attribute(value=value, attr=name, ctx=context) if name in OTHER_CALLS:
            return ast.copy_location(ast.Attribute(value, OTHER_CALLS[name], context), function)
    return None


def _marks(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    return node.decorator_list


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_nothing(value: ast.expr) -> bool:
    """Whether who asks for truth hears the same from None."""
    return isinstance(value, ast.Constant) and not value.value


def _is_type_checking(test: ast.expr) -> bool:
    return _named(test) == "TYPE_CHECKING"


def _is_type(node: ast.expr) -> bool:
    """Whether this side of a ``|`` is a type, and so the whole a union of types."""
    match node:
        case ast.Constant(value=None):
            return True
        case ast.Subscript(value=ast.Name(id=name)) | ast.Name(id=name):
            return name in TYPES or (name[:1].isupper() and not name.isupper())
        case ast.Attribute(attr=name):
            return name[:1].isupper() and not name.isupper()
        case ast.BinOp(op=ast.BitOr(), left=left):
            return _is_type(left)
    return False


def _is_plain(test: ast.expr) -> bool:
    """Whether no other change turns this condition round."""
    return isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.NamedExpr)
