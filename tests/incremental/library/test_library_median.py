"""The median in both forms, wired by hand, and the places that its stages pass on."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from filed_stage import FiledStage
from flows_of_rows import Relation, filed
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.incremental import StageError, TranslationFailed
from headgate.incremental.library import histogram, histogram_and_value, locate, value

NUMBERS = pa.schema({"value": pa.int64()})
_EMPTY_LOCATION = pa.schema({"bucket": pa.int64(), "offset": pa.int64(), "total": pa.int64()})


def table(stage: FiledStage, flow: str, made: Any) -> pa.Table:
    return pa.Table.from_pylist(made[flow], stage.spec.outputs[flow])


class Figure3:
    """Three stages, two of which have the values."""

    def __init__(self, width: int, factory: Any) -> None:
        self.histogram = filed(histogram(width), factory)
        self.locate = filed(locate(), factory, bits=2)
        self.value = filed(value(width), factory)

    def epoch(self, numbers: pa.Table, whole: bool = False) -> list[Any]:
        came = self.histogram.epoch({"numbers": numbers}, ["numbers"] if whole else [])
        found = self.locate.epoch({"counts": table(self.histogram, "counts", came)})
        changes = table(self.histogram, "changes", came)
        location = table(self.locate, "location", found)
        return self.value.epoch({"changes": changes, "location": location})["median"]


class Figure4:
    """Two stages in a cycle, one of which has the values."""

    def __init__(self, width: int, factory: Any) -> None:
        self.histogram = filed(histogram_and_value(width), factory)
        self.locate = filed(locate(), factory)
        self.location = pa.Table.from_pylist([], _EMPTY_LOCATION)

    def epoch(self, numbers: pa.Table, whole: bool = False) -> list[Any]:
        """Return the median before these numbers."""
        made = self.histogram.epoch(
            {"numbers": numbers, "location": self.location}, ["numbers"] if whole else []
        )
        found = self.locate.epoch({"counts": table(self.histogram, "counts", made)})
        self.location = table(self.locate, "location", found)
        return made["median"]


def rows_in_state(stage: FiledStage) -> Counter[Any]:
    return Counter({row["value"]: row["weight"] for rows in stage.state.values() for row in rows})


drawn = st.lists(
    st.tuples(st.tuples(st.one_of(st.none(), st.integers(-12, 12))), st.integers(1, 3)), max_size=6
)


@given(
    epochs=st.lists(st.tuples(drawn, st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=6),
    width=st.sampled_from([1, 4, 100]),
)
@settings(max_examples=settings().max_examples // 4)
def test_both_forms_are_the_lower_median_after_each_increment(
    epochs: Any, width: int, tmp_path_factory: Any
) -> None:
    numbers = Relation(NUMBERS)
    three, four = Figure3(width, tmp_path_factory), Figure4(width, tmp_path_factory)
    medians: list[Any] = []  # of Figure 3, one for each increment that changed anything
    late: list[Any] = []  # of Figure 4, each an increment later
    for added, deleted, again in epochs:
        whole = again == 0
        gone = [] if whole else [(row, -1) for row, _ in numbers.rows[:deleted]]
        increment = numbers.feed([*added, *gone], whole=whole)
        found = three.epoch(increment, whole)
        late += four.epoch(increment, whole)
        medians += found
        there = [row[0] for row, n in numbers.rows for _ in range(n) if row[0] is not None]
        if found:
            wanted = statistics.median_low(there) if there else None
            assert found == [{"median": wanted, "total": len(there)}]
        known = Counter(there)
        assert rows_in_state(four.histogram) == known, "the only copy"
        assert rows_in_state(three.histogram) == rows_in_state(three.value) == known
    late += four.epoch(numbers.feed([]))
    assert late == medians


@given(rows=st.lists(st.integers(-30, 30), min_size=1, max_size=30))
@settings(max_examples=settings().max_examples // 4)
def test_a_place_in_a_bucket_is_that_of_the_middle(rows: Any, tmp_path_factory: Any) -> None:
    stage = filed(locate(), tmp_path_factory)
    counts = Counter(number // 10 for number in rows)
    came = pa.table({"bucket": list(counts), "n": list(counts.values())})
    [place] = stage.epoch({"counts": came})["location"]

    mine = sorted(number for number in rows if number // 10 == place["bucket"])
    assert mine[place["offset"]] == statistics.median_low(rows)
    assert place["total"] == len(rows)


def test_the_last_number_of_values_of_a_bucket_holds(tmp_path_factory: Any) -> None:
    stage = filed(locate(), tmp_path_factory)
    for counts, place in (
        ({0: 3, 5: 1}, {"bucket": 0, "offset": 1, "total": 4}),
        ({0: 0}, {"bucket": 5, "offset": 0, "total": 1}),
        ({5: 0}, {"bucket": None, "offset": None, "total": 0}),
    ):
        came = pa.table({"bucket": list(counts), "n": list(counts.values())})
        assert stage.epoch({"counts": came})["location"] == [place]
    assert stage.state == {}


def test_another_value_in_the_same_bucket_moves_the_median(tmp_path_factory: Any) -> None:
    three = Figure3(10, tmp_path_factory)
    numbers = Relation(NUMBERS)
    three.epoch(numbers.feed([((3,), 1)]))

    moved = three.epoch(numbers.feed([((3,), -1), ((4,), 1)]))

    assert moved == [{"median": 4, "total": 1}]


def test_a_location_of_another_increment_is_refused(tmp_path_factory: Any) -> None:
    stage = filed(value(10), tmp_path_factory)
    changes = Relation(NUMBERS).feed([((3,), 1)])
    location = pa.table({"bucket": [0], "offset": [1], "total": [2]}, _EMPTY_LOCATION)

    with pytest.raises(TranslationFailed, match="is of another increment than the values"):
        stage.epoch({"changes": changes, "location": location})


def test_buckets_have_a_width() -> None:
    with pytest.raises(StageError, match="width 0 hold nothing"):
        histogram(0)
