"""State and increments side by side: all of both, by hash, in parts as small as they come."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.incremental.epochs.side_by_side import side_by_side
from headgate.incremental.state.rows import HASH

SCHEMA = pa.schema([(HASH, pa.int64()), ("n", pa.int64())])
HASHES = st.sampled_from([-(2**63), -5, -1, 0, 1, 2, 3, 7, 8, 9, 2**63 - 1])
ROWS = st.lists(HASHES, max_size=25).map(sorted)


def table(hashes: list[int]) -> pa.Table:
    return pa.table([hashes, list(range(len(hashes)))], schema=SCHEMA)


@settings(max_examples=2 * settings().max_examples)
@given(ROWS, ROWS, ROWS, st.integers(1, 7), st.integers(1, 3), st.booleans())
def test_each_hash_is_in_one_part_with_all_that_both_have_of_it(
    state: list[int], one: list[int], other: list[int], batch: int, hashes: int, empty: bool
) -> None:
    taken: list[str] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for each in table(state).to_batches(max_chunksize=batch):
            taken.append("state")
            yield each

    def pieces() -> Iterator[dict[str, pa.Table]]:
        """Yield so many hashes at a time, and pieces without rows between them."""
        known = sorted({*one, *other})
        for first in range(0, max(len(known), 1), hashes):
            if empty:
                yield {"one": table([]), "other": table([])}
            some = set(known[first : first + hashes])
            taken.append("piece")
            yield {
                flow: table([h for h in rows if h in some])
                for flow, rows in (("one", one), ("other", other))
            }

    seen: dict[str, list[int]] = {"state": [], "one": [], "other": []}
    parts: list[set[int]] = []
    for came, stored in side_by_side(SCHEMA, batches(), ("one", "other"), pieces()):
        found = {"state": stored, **came}
        assert found.keys() == seen.keys()
        part = {flow: rows.column(HASH).to_pylist() for flow, rows in found.items()}
        for flow, rows in part.items():
            seen[flow] += rows
        parts.append({h for rows in part.values() for h in rows})
        assert len({*part["one"], *part["other"]}) <= hashes
        again = max((len(list(same)) for _, same in groupby(state)), default=0)
        assert len(part["state"]) <= batch + again
    assert seen == {"state": state, "one": one, "other": other}
    assert sum(map(len, parts)) == len(set().union(*parts)), "a hash is in two parts"


def test_a_first_epoch_holds_one_piece_at_a_time() -> None:
    read = []

    def pieces() -> Iterator[dict[str, pa.Table]]:
        for n in range(100):
            read.append(n)
            yield {"one": table([n] * 10)}

    for at, (came, stored) in enumerate(side_by_side(SCHEMA, (), ("one",), pieces())):
        assert len(read) <= at + 1
        assert len(came["one"]) <= 10
        assert len(stored) == 0
    assert len(read) == 100
