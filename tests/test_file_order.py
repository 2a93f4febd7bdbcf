"""The order of files of a run by several processes."""

from pathlib import Path

import pytest
from tests.file_order import FRAGILE, LONG, in_order, unit_of

ROOT = Path(__file__).parents[1]
STACK = [f"tests/stack/test_{number}.py" for number in range(20)]
PURE = [f"tests/wire/test_{number}.py" for number in range(100)]


def test_long_files_come_first_in_their_order():
    assert in_order([*PURE, *reversed(LONG)])[: len(LONG)] == list(LONG)


@pytest.mark.parametrize("name", LONG)
def test_long_files_are_there(name):
    assert (ROOT / name).is_file()


def test_each_file_comes_once():
    files = [*PURE, *STACK, *LONG]
    assert sorted(in_order([*files, *PURE])) == sorted(files)


def test_files_of_the_stack_are_among_the_others_from_begin_to_end():
    order = in_order([*STACK, *PURE])
    for begin in range(0, len(order), 6):
        assert sum(name in STACK for name in order[begin : begin + 6]) == 1


def test_one_process_has_all_files_of_the_stack_that_is_broken():
    assert len({unit_of(name) for name in FRAGILE}) == 1
    others = [name for name in [*PURE, *STACK, *LONG] if name not in FRAGILE]
    assert [unit_of(name) for name in others] == others
