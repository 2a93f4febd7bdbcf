"""Two states of a stage side by side: groups drawn from both, and those of them that differ.

So a state is checked from scratch: it is rebuilt, and what it was before is compared with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headgate.incremental.state.errors import DifferentColumns
from headgate.incremental.state.hashing import hashes
from headgate.incremental.state.keys import Key, key_value
from headgate.incremental.stored import StoredState

SAMPLE: Final = 10_000
"""Groups that are compared, where nothing else is said."""
_TOLERANCE: Final = 1e-9
"""Of each other: sums of floating numbers depend on the order in which they are added."""
_AT_ONCE: Final = 1_000
"""Groups in memory."""

Row = dict[str, Any]


class DifferentGroup(Struct, frozen=True):
    """A group of which two states have other rows; one may have none."""

    key: Key
    rows: list[Row]
    other: list[Row]


class Comparison(Struct, frozen=True):
    """What came of comparing two states."""

    groups: int
    """That were looked at, and are in one of them at least."""
    different: int
    examples: list[DifferentGroup]
    """Some of these, in no order that means anything."""


def compare_states(
    one: StoredState,
    other: StoredState,
    sample: int = SAMPLE,
    *,
    examples: int = 10,
    seed: int | None = None,
) -> Comparison:
    """Compare groups drawn from two states of a stage.

    A group is drawn by one of its rows, so that large ones are rather drawn than small ones. Rows
    that come in no order are compared in any, and floating numbers that are 1e-9 apart are equal.

    Args:
        one: a state.
        other: of the same stage, such as the one before a rebuild.
        sample: groups at most, half of them drawn from each state; all of one where it has no more
            rows than that.
        examples: groups that are returned at most.
        seed: of the drawing; another one each time where None.

    Raises:
        DifferentColumns: the states have other columns.
        DamagedState: a file is not what it was.
    """
    if not one.columns.equals(other.columns):
        message = (
            f"{one.name} has the columns {_words(one)}, and {other.name} {_words(other)}: only "
            "states of the same columns can be compared"
        )
        raise DifferentColumns(message)
    random = np.random.default_rng(seed)
    drawn = [state.drawn_keys(max(sample // 2, 1), random) for state in (one, other)]
    keys = sorted(set().union(*drawn))
    # Neighbours in the files: so each bucket is opened for few portions.
    keys = [keys[at] for at in np.argsort(hashes(pa.array(keys, pa.binary()))).tolist()]
    groups = different = 0
    shown: list[DifferentGroup] = []
    for first in range(0, len(keys), _AT_ONCE):
        some = keys[first : first + _AT_ONCE]
        rows, others = one.groups(some), other.groups(some)
        for key in some:
            groups += bool(rows[key] or others[key])  # what newer rows hide was drawn, too
            if not _alike(rows[key], others[key]):
                different += 1
                if len(shown) < examples:
                    shown.append(DifferentGroup(key_value(key), rows[key], others[key]))
    return Comparison(groups, different, shown)


def _words(state: StoredState) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in state.columns) or "none"


def _alike(rows: Sequence[Row], others: Sequence[Row]) -> bool:
    if len(rows) != len(others):
        return False
    pairs = zip(sorted(rows, key=_rounded), sorted(others, key=_rounded), strict=True)
    return all(_same(row[name], other[name]) for row, other in pairs for name in row)


def _rounded(row: Row) -> str:
    return repr([f"{v:.6g}" if isinstance(v, float) else v for v in row.values()])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_none = math.isnan(one) and math.isnan(other)
        return both_none or math.isclose(one, other, rel_tol=_TOLERANCE)
    return bool(one == other)
