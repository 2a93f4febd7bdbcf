"""Which changes are made to a program, and which are not."""

from __future__ import annotations

import ast

import pytest
from operators import mutants, mutated


def changes(source: str) -> set[str]:
    return {f"{each.before} -> {each.after}" for each in mutants(source, "m.py")}


def programs(source: str) -> list[str]:
    return [ast.unparse(mutated(source, each.position)) for each in mutants(source, "m.py")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = a < b", {"a < b -> a <= b", "a < b -> a >= b"}),
        ("x = a == b", {"a == b -> a != b"}),
        ("x = a not in b", {"a not in b -> a in b"}),
        ("x = a < b < c", {"a < b < c -> a <= b < c", "a < b < c -> a < b <= c"}),
        ("x = a and b", {"a and b -> a or b", "a and b -> a", "a and b -> b"}),
        ("x = not a", {"not a -> a"}),
        ("x = a + b", {"a + b -> a - b"}),
        ("x = a | b", {"a | b -> a & b"}),
        ("x = 0", {"0 -> 1"}),
        ("x = 7", {"7 -> 8", "7 -> 6"}),
        ("x = True", {"True -> False"}),
        ("x = 'text'", {"'text' -> ''"}),
        ("x = min(a, b)", {"min(a, b) -> max(a, b)"}),
        ("x = f(a, b)", {"f(a, b) -> f(b, a)"}),
        ("x = [a for a in b if c]", {"c -> True"}),
        ("a.b = c", {"a.b = c -> pass"}),
        ("a += b", {"a += b -> pass", "a += b -> a -= b"}),
        ("if a: b = c", {"a -> not a"}),
        ("while a: break", {"a -> not a", "break -> continue"}),
        ("f()", {"f() -> pass"}),
        ("def f(): return a", {"return a -> return None"}),
        ("def f(): return False", {"False -> True"}),
        ("def f(): raise E('why') from a", {"raise E('why') from a -> pass"}),
        ("def f(a=3): pass", {"3 -> 4", "3 -> 2"}),
    ],
)
def test_a_line_becomes_these(line: str, expected: set[str]) -> None:
    assert changes(line) == expected


def test_what_catches_and_what_comes_finally_is_left_out() -> None:
    found = programs("try:\n    a = b\nexcept E:\n    c = d\nfinally:\n    e = f\n")
    assert any("except E:\n    raise" in each for each in found)
    assert any("finally:\n    pass" in each for each in found)


@pytest.mark.parametrize(
    "source",
    [
        '"""Text."""',
        'x = y\n"""Text."""',
        "def f(a: 'int' = b) -> Literal[1]: pass",
        "x: Literal[1] = y",
        "if TYPE_CHECKING:\n    x = 1",
        "def __repr__(self):\n    return 'this'",
        "log.info('text', a=1)",
        "x = f'{a:2} of 3'",
        "__all__ = ['a']",
        "T = TypeVar('T')",
        "T = Value | None | list[int] | m.Other",
        "assert a > 1, 'reason'",
        "@f(1)\ndef g(): pass",
        "class C(Struct, frozen=True): pass",
        "def f(): return None",
        "@overload\ndef f(a: int) -> int: ...",
    ],
)
def test_what_only_people_and_checkers_read_stays(source: str) -> None:
    assert changes(source) == set()


SOURCE = """
class C:
    a = 1

    def f(self):
        if self.a > 1:
            self.b = g(self.a, 2)
        return self.b

def g(x, y):
    return [x, y] if x else y
"""


def test_each_is_one_change_to_the_program() -> None:
    whole = ast.unparse(ast.parse(SOURCE))
    found = programs(SOURCE)
    assert len(set(found)) == len(found) > 10
    for each in found:
        compile(each, "m.py", "exec")
        changed = [
            pair
            for pair in zip(whole.split("\n"), each.split("\n"), strict=True)
            if len(set(pair)) > 1
        ]
        assert len(changed) == 1


def test_keys_are_unique_and_do_not_move_with_what_stands_elsewhere() -> None:
    keys = [each.key for each in mutants(SOURCE, "m.py")]
    moved = [each.key for each in mutants(f"import x\n\nz = 5\n{SOURCE}", "m.py")]
    assert len(set(keys)) == len(keys)
    assert set(moved) - set(keys) == {
        "m.py:<module>: constant: 5 -> 6",
        "m.py:<module>: constant: 5 -> 4",
    }
    assert set(keys) <= set(moved)


def test_the_same_change_twice_in_a_function_has_two_keys() -> None:
    first, second = mutants("def f():\n    a()\n    a()\n", "m.py")
    assert first.key == "m.py:f: removed: a() -> pass"
    assert second.key == "m.py:f: removed: a() -> pass #2"


def test_what_is_done_at_import_is_told_from_what_a_function_does() -> None:
    found = {each.key: each.in_function for each in mutants("x = 1\ndef f(a=2): return a", "m.py")}
    assert found == {
        "m.py:<module>: constant: 1 -> 2": False,
        "m.py:<module>: constant: 1 -> 0": False,
        "m.py:<module>: constant: 2 -> 3": False,
        "m.py:<module>: constant: 2 -> 1": False,
        "m.py:f: return: return a -> return None": True,
    }


def test_there_is_none_behind_the_last() -> None:
    with pytest.raises(IndexError):
        mutated("x = 1", 2)
