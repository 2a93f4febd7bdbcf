"""Some rows of a table are read with few requests and few rows besides."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest

from headgate.client import sparse_rows


class Table:
    """A table, and what was read of it."""

    def __init__(self, rows: list[bytes]) -> None:
        self._rows = sorted(rows)
        self.requests = 0
        self.read = 0

    def page(self, start: bytes, stop: bytes, most: int) -> list[tuple[bytes, bytes]]:
        first, end = bisect_left(self._rows, start), bisect_left(self._rows, stop)
        found = self._rows[first : min(end, first + most)]
        self.requests += 1
        self.read += len(found)
        return [(row, row * 2) for row in found]


def key(number: int) -> bytes:
    return b"%07d" % number


def test_fifty_one_rows_of_a_million_are_no_scan_of_it() -> None:
    table = Table([key(n) for n in range(1_000_000)])
    wanted = [key(n * 19_999) for n in range(51)]
    assert list(sparse_rows(wanted, table.page)) == [(row, row * 2) for row in wanted]
    assert table.read < 51 * 20
    assert table.requests <= 51


def test_rows_that_lie_together_take_few_requests() -> None:
    table = Table([key(n) for n in range(100_000)])
    wanted = [key(n) for n in range(20_000, 80_000)]
    assert [row for row, _ in sparse_rows(wanted, table.page)] == wanted
    assert table.read == len(wanted)
    assert table.requests < 80


def test_heaps_far_apart_are_read_as_heaps() -> None:
    table = Table([key(n) for n in range(1_000_000)])
    wanted = [key(heap * 100_000 + n) for heap in range(10) for n in range(1_000)]
    assert [row for row, _ in sparse_rows(wanted, table.page)] == wanted
    assert table.read < 3 * len(wanted)
    assert table.requests < 100


@pytest.mark.parametrize("seed", range(20))
def test_exactly_what_is_wanted_and_there_is_found(seed: int) -> None:
    choices = random.Random(seed)
    rows = [key(n) for n in choices.sample(range(5_000), choices.choice([0, 1, 50, 4_000]))]
    wanted = sorted(key(n) for n in choices.sample(range(5_000), choices.choice([0, 1, 7, 2_000])))
    found = [row for row, _ in sparse_rows(wanted, Table(rows).page)]
    assert found == sorted(set(rows) & set(wanted))
