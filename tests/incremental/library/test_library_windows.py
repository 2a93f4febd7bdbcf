"""Windows: the sum of what they put out is the rows of their frames."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from flows_of_rows import Changes, Relation, bag_of, filed, weighted
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.incremental import StageError
from headgate.incremental.library import Aggregate, Function, aggregate, hopping, landmark, sliding

COLUMNS = {"page": "string"}
ROWS = pa.schema({"page": pa.string(), "frame": pa.int64()})
FRAME = pa.schema({"frame": pa.int64()})
pages = weighted(st.sampled_from(["a", "b", "c"]), st.integers(0, 6))


def parameter(frame: int | None) -> pa.Table:
    return pa.table({"frame": [] if frame is None else [frame]}, FRAME)


@pytest.mark.parametrize("frames", [1, 3])
@given(epochs=st.lists(st.tuples(pages, st.booleans(), st.integers(0, 3)), max_size=6))
@settings(max_examples=settings().max_examples // 4)
def test_a_sliding_window_is_of_the_newest_frames(
    frames: int, epochs: Any, tmp_path_factory: Any
) -> None:
    made = hopping(COLUMNS, "page", weight="weight")
    if frames > 1:
        made = sliding(COLUMNS, "page", frames, weight="weight")
    stage, source, found = filed(made, tmp_path_factory), Relation(ROWS), Changes()
    for newest, (rows, framed, whole) in enumerate(epochs):
        # A deletion of what has left the window would count as one of a row to come.
        kept = [(row, n) for row, n in rows if row[1] > newest - frames]
        increments = {
            "source": source.feed(kept, whole=whole == 0),
            "newest": parameter(newest if framed else None),
        }
        made_now = stage.epoch(increments, ["source"] if whole == 0 else [])
        found.add(made_now["changes"])
        if framed:
            source.weights = type(source.weights)(
                {
                    place: n
                    for place, n in source.weights.items()
                    if source.known[place][1] > newest - frames
                }
            )
        assert found.rows == bag_of(source.rows)


@given(epochs=st.lists(st.tuples(pages, st.one_of(st.none(), st.integers(0, 6))), max_size=5))
@settings(max_examples=settings().max_examples // 4)
def test_a_landmark_window_begins_where_it_was_last_set(epochs: Any, tmp_path_factory: Any) -> None:
    stage = filed(landmark(COLUMNS, "page", weight="weight"), tmp_path_factory)
    source, found = Relation(ROWS), Changes()
    waiting: list[int] = []
    for rows, came in epochs:
        waiting += [] if came is None else [came]
        nobody = not rows and not source.rows
        increments = {"source": source.feed(rows), "landmark": parameter(came)}
        found.add(stage.epoch(increments)["changes"])
        if nobody:
            continue  # what came waits for the first rows
        mark, waiting = max(waiting, default=None), []
        if mark is not None:
            source.weights = type(source.weights)(
                {place: n for place, n in source.weights.items() if source.known[place][1] >= mark}
            )
        assert found.rows == bag_of(source.rows)


def test_what_follows_a_window_is_of_its_rows(tmp_path_factory: Any) -> None:
    window = filed(sliding(COLUMNS, "page", 2), tmp_path_factory)
    of = {"visits": Aggregate(Function.COUNT, "page", "string")}
    visits, found = filed(aggregate(COLUMNS, of, source="changes"), tmp_path_factory), Changes()
    shown = []
    for newest, came in enumerate((["a", "a", "b"], ["a"], [])):
        rows = pa.table({"page": came, "frame": [newest] * len(came)}, ROWS)
        made = window.epoch({"source": rows, "newest": parameter(newest)})["changes"]
        changes = pa.Table.from_pylist(made, window.spec.outputs["changes"])
        found.add(visits.epoch({"changes": changes})["changes"])
        shown.append(dict(found.rows))

    assert shown == [
        {repr(("a", 2)): 1, repr(("b", 1)): 1},
        {repr(("a", 3)): 1, repr(("b", 1)): 1},
        {repr(("a", 1)): 1},
    ]


def test_a_window_has_a_frame_and_rows_have_none_of_their_own() -> None:
    with pytest.raises(StageError, match="a window of 0 frames has no rows"):
        sliding(COLUMNS, "page", 0)
    with pytest.raises(StageError, match="`frame` is there by itself"):
        landmark({"frame": "int64"}, "frame")
