"""After every increment a stage is what the paper says, whatever came, on files and buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from filed_stage import FiledStage
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import ReferenceStage, bag
from stages_of_tests import (
    NEVER_NULL,
    by_stream,
    counter,
    forwarding,
    history,
    limited,
    pages,
    splitting,
)

from headgate.incremental import Outer, Stage
from headgate.incremental.epochs import spilling, streaming
from headgate.incremental.stages import translating
from headgate.incremental.state import batches

small = st.integers(-3, 9)
odd_keys = st.one_of(
    st.none(), st.integers(-2, 3), st.floats(-1, 1, width=16), st.just(float("nan")), st.just(-0.0)
)


def tables(
    stage: Stage, rows: Mapping[str, Sequence[Any]], schemas: Mapping[str, pa.Schema]
) -> Any:
    return {
        flow: pa.Table.from_pylist(
            [dict(zip(schemas[flow].names, row, strict=True)) for row in rows.get(flow, ())],
            schemas[flow],
        )
        for flow in stage.spec.inputs
    }


KEYED = pa.schema({"key": pa.int64(), "n": pa.int64()})
SHAPES: dict[str, tuple[Callable[[], Stage], dict[str, pa.Schema], dict[str, Any]]] = {
    "counter": (counter, {"in": KEYED}, {"in": st.tuples(small, small)}),
    "counter, by tables": (
        partial(counter, tables=True),
        {"in": KEYED},
        {"in": st.tuples(small, small)},
    ),
    "counter, odd keys": (
        counter,
        {"in": pa.schema({"key": pa.float64(), "n": pa.int64()})},
        {"in": st.tuples(st.one_of(st.none(), st.floats(width=16)), small)},
    ),
    **{
        f"history, {outer}": (
            partial(history, outer),
            {"in": pa.schema({"key": pa.string(), "time": pa.int64(), "value": pa.int64()})},
            {"in": st.tuples(st.sampled_from(["", "a", "b\x00", "ä"]), small, st.integers(0, 4))},
        )
        for outer in Outer
    },
    **{
        f"pages, {outer}": (
            partial(pages, outer),
            {"in": pa.schema({"key": pa.string(), "url": pa.string(), "n": pa.int64()})},
            {"in": st.tuples(st.sampled_from("ab"), st.sampled_from(["u", "v", "w"]), small)},
        )
        for outer in Outer
    },
    "counter, never null": (
        partial(counter, columns=NEVER_NULL),
        {"in": KEYED},
        {"in": st.tuples(small, small)},
    ),
    "pages, never null": (
        partial(pages, Outer.RIGHT, NEVER_NULL),
        {"in": pa.schema({"key": pa.string(), "url": pa.string(), "n": pa.int64()})},
        {"in": st.tuples(st.sampled_from("ab"), st.sampled_from(["u", "v", "w"]), small)},
    ),
    "splitting": (
        splitting,
        {"in": KEYED, "k": pa.schema({"k": pa.int64()})},
        {"in": st.tuples(small, small), "k": st.tuples(small)},
    ),
    "forwarding": (forwarding, {"in": KEYED}, {"in": st.tuples(st.integers(0, 6), small)}),
    **{
        f"limited, {outer}": (
            partial(limited, outer),
            {"in": KEYED, "k": pa.schema({"k": pa.int64()})},
            {"in": st.tuples(st.integers(0, 5), small), "k": st.tuples(st.integers(1, 30))},
        )
        for outer in Outer
    },
}


STREAMED = [
    shape
    for shape, (make, _, _) in SHAPES.items()
    if make().spec.translate and shape != "splitting"
]


@contextmanager
def portions_of(rows: int) -> Iterator[None]:
    """Portions as small as hostile rows need them for any group to be large."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (streaming, "PORTION_ROWS"),
            (batches, "PORTION_ROWS"),
            (spilling, "PORTION_ROWS"),
            (spilling, "_FEWEST"),
            (translating, "_ENOUGH_ROWS"),
        ):
            patch.setattr(module, name, rows)
        patch.setattr(streaming, "PORTION_BYTES", 64 * rows)
        yield


@pytest.mark.parametrize("shape", STREAMED)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 8)
def test_a_stage_by_streams_is_the_same_however_small_a_portion_is(
    shape: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make, schemas, units = SHAPES[shape]
    with portions_of(data.draw(st.sampled_from([1, 2, 3, 1 << 16]))):
        check(data, make(), by_stream(make()), schemas, units, tmp_path_factory.mktemp("state"))


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 5)
def test_a_stage_is_what_its_functions_say(
    shape: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make, schemas, units = SHAPES[shape]
    plain = counter() if shape == "counter, by tables" else make()
    check(data, plain, make(), schemas, units, tmp_path_factory.mktemp("state"))


def check(
    data: st.DataObject,
    plain: Stage,
    stage: Stage,
    schemas: dict[str, pa.Schema],
    units: dict[str, Any],
    folder: Path,
) -> None:
    """Compare a stage after each increment with what the paper says of its plain form."""
    filed = FiledStage(stage, folder, data.draw(st.integers(0, 3)))
    expected = ReferenceStage(plain)
    for _ in range(data.draw(st.integers(1, 6))):
        rows = {flow: data.draw(st.lists(unit, max_size=8)) for flow, unit in units.items()}
        increments = tables(plain, rows, schemas)
        made = filed.epoch(increments)
        wanted = expected.epoch({flow: table.to_pylist() for flow, table in increments.items()})
        assert {flow: bag(found) for flow, found in made.items()} == {
            flow: bag(found) for flow, found in wanted.items()
        }
        assert {key: bag(found) for key, found in filed.state.items()} == {
            key: bag(found) for key, found in expected.state.items()
        }
