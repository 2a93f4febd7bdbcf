"""Differences of upserts and of operations, whatever repeats, is deleted, or is all there is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from flows_of_rows import Changes, bag_of, filed
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import ReferenceStage, bag

from headgate.incremental import STATE, Stage, StageError, TranslationFailed
from headgate.incremental.library import differences, relation

CELLS = pa.schema(
    {
        "row": pa.string(),
        "column": pa.string(),
        "value": pa.float64(),
        "deleted": pa.bool_(),
        "at": pa.int64(),
    }
)
values = st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5])
cells = st.tuples(st.sampled_from(["", "a", "b\x00"]), st.sampled_from(["f:u", "f:v"]))
updates = st.dictionaries(cells, st.tuples(values, st.booleans()), max_size=5)


def increment(rows: Any) -> pa.Table:
    found = [(*cell, None if gone else value, gone, 0) for cell, (value, gone) in rows.items()]
    return pa.Table.from_pylist([dict(zip(CELLS.names, row, strict=True)) for row in found], CELLS)


@given(epochs=st.lists(st.tuples(updates, st.booleans()), max_size=5), bits=st.integers(0, 2))
@settings(max_examples=settings().max_examples // 4)
def test_the_sum_of_differences_is_the_container(
    epochs: Any, bits: int, tmp_path_factory: Any
) -> None:
    stage = filed(differences(value="float64"), tmp_path_factory, bits)
    there: dict[Any, Any] = {}
    found = Changes()
    for came, whole in epochs:
        before = dict(there)
        if whole:
            there.clear()
        for cell, (value, gone) in came.items():
            there[cell] = value
            if gone:
                del there[cell]
        made = stage.epoch({"source": increment(came)}, ["source"] if whole else [])["changes"]
        found.add(made)
        assert found.rows == bag_of([((*cell, value), 1) for cell, value in there.items()])
        moved = {
            cell
            for cell in {*before, *there}
            if repr(before.get(cell, "")) != repr(there.get(cell, ""))
        }
        assert len(made) == sum((c in before) + (c in there) for c in moved), "nothing besides"


rows_gone = st.sets(st.sampled_from(["", "a", "b\x00"]), max_size=2)


@pytest.mark.parametrize("keys", ["text", "binary"])
@pytest.mark.parametrize("order_by", [None, "at"])
@given(epochs=st.lists(st.tuples(updates, rows_gone, st.booleans()), max_size=5))
@settings(max_examples=settings().max_examples // 10)
def test_of_a_row_that_is_gone_every_cell_is_gone_that_does_not_come(
    keys: str, order_by: str | None, epochs: Any, tmp_path_factory: Any
) -> None:
    """Delete rows without naming their columns, as a container with undeclared columns does."""
    made = differences(value="float64", keys=keys, order_by=order_by)
    assert made.spec.over_open is not None
    stage = filed(made, tmp_path_factory)
    stage.spec = made.spec.over_open
    there: dict[Any, Any] = {}
    found = Changes()
    form = (lambda text: text.encode()) if keys == "binary" else str
    for came, gone, whole in epochs:
        before = dict(there)
        if whole:
            there.clear()
        for cell in [cell for cell in there if cell[0] in gone and cell not in came]:
            del there[cell]
        for cell, (value, deleted) in came.items():
            there[cell] = value
            if deleted:
                del there[cell]
        rest = {(row, ""): (None, True) for row in gone}
        rows = [*increment(came).to_pylist(), *increment(rest).to_pylist()]
        rows = [{**row, "row": form(row["row"]), "column": form(row["column"])} for row in rows]
        schema = pa.schema({"row": TYPES[keys], "column": TYPES[keys], **OTHERS})
        table = pa.Table.from_pylist(rows[::-1], schema)
        changes = stage.epoch({"source": table}, ["source"] if whole else [])["changes"]
        found.add(changes)
        assert found.rows == bag_of(
            [((form(row), form(column), value), 1) for (row, column), value in there.items()]
        )
        moved = {
            cell
            for cell in {*before, *there}
            if repr(before.get(cell, "")) != repr(there.get(cell, ""))
        }
        assert len(changes) == sum((c in before) + (c in there) for c in moved), "nothing besides"


TYPES = {"text": pa.string(), "binary": pa.binary()}
OTHERS = {name: CELLS.field(name).type for name in ("value", "deleted", "at")}


def test_a_deleted_row_is_not_taken_for_a_cell_where_columns_are_declared(
    tmp_path_factory: Any,
) -> None:
    stage = filed(differences(value="float64"), tmp_path_factory)

    with pytest.raises(TranslationFailed, match="a whole row"):
        stage.epoch({"source": increment({("a", ""): (None, True)})})


def test_of_several_updates_of_a_cell_of_open_rows_the_last_counts(tmp_path_factory: Any) -> None:
    made = differences(value="float64", order_by="at")
    assert made.spec.over_open is not None
    stage = filed(made, tmp_path_factory)
    stage.spec = made.spec.over_open
    rows = [("a", "f:u", 2.0, False, 2), ("a", "f:u", 3.0, False, 3), ("a", "f:u", 1.0, False, 1)]
    table = pa.Table.from_pylist([dict(zip(CELLS.names, row, strict=True)) for row in rows], CELLS)

    assert [row["value"] for row in stage.epoch({"source": table})["changes"]] == [3.0]


def test_keys_are_text_or_binary() -> None:
    with pytest.raises(StageError, match="`keys` is 'bytes'"):
        differences(keys="bytes")


def _difference(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    """One cell at a time."""
    row, column = key
    last = flows["source"][-1]
    before = [each["value"] for each in flows[STATE]]
    after = [] if last["deleted"] else [last["value"]]
    if repr(before) == repr(after):
        return {STATE: flows[STATE]}
    changes = [
        {"row": row, "column": column, "value": value, "weight": weight}
        for values, weight in ((before, -1), (after, 1))
        for value in values
    ]
    return {STATE: [{"value": value} for value in after], "changes": changes}


@given(
    epochs=st.lists(
        st.lists(st.tuples(cells, st.tuples(values, st.booleans())), max_size=6), max_size=4
    )
)
@settings(max_examples=settings().max_examples // 4)
def test_by_tables_and_cell_by_cell_are_the_same_where_the_order_says_which_is_last(
    epochs: Any, tmp_path_factory: Any
) -> None:
    made = differences(value="float64", order_by="at")
    plain = Stage(
        "plain",
        inputs=made.spec.inputs,
        outputs=made.spec.outputs,
        translate=_difference,
        state=made.spec.state,
    )
    stage, expected = filed(made, tmp_path_factory), ReferenceStage(plain)
    for epoch in epochs:
        rows = [
            (*cell, None if gone else value, gone, at)
            for at, (cell, (value, gone)) in enumerate(epoch)
        ]
        backwards = pa.Table.from_pylist(
            [dict(zip(CELLS.names, row, strict=True)) for row in reversed(rows)], CELLS
        )
        found = stage.epoch({"source": backwards})["changes"]
        wanted = expected.epoch({"source": backwards.to_pylist()})["changes"]
        assert bag(found) == bag(wanted)


BOOKS = pa.schema({"price": pa.int64(), "id": pa.int64(), "title": pa.string()})
operations = st.lists(
    st.tuples(
        st.sampled_from(["insert", "modify", "delete"]),
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([None, "x", "y"])),
    ),
    max_size=6,
)


def to_operations(rows: Any) -> pa.Table:
    schema = pa.schema([*BOOKS, pa.field("operation", pa.string())])
    dicts = [dict(zip(BOOKS.names, row, strict=True), operation=what) for what, row in rows]
    return pa.Table.from_pylist(dicts, schema)


@pytest.mark.parametrize("key", ["id", ("title", "id")])
@given(epochs=st.lists(st.tuples(operations, st.booleans()), max_size=4))
@settings(max_examples=settings().max_examples // 4)
def test_a_relation_is_what_operations_have_left_of_it(
    key: Any, epochs: Any, tmp_path_factory: Any
) -> None:
    stage = filed(relation(BOOKS, key), tmp_path_factory)
    keys = [BOOKS.names.index(one) for one in ((key,) if isinstance(key, str) else key)]
    there: dict[Any, Any] = {}
    found = Changes()
    for came, whole in epochs:
        if whole:
            there.clear()
        for what, row in came:
            place = tuple(row[at] for at in keys)
            there[place] = row
            if what == "delete":
                del there[place]
        made = stage.epoch({"operations": to_operations(came)}, ["operations"] if whole else [])
        found.add(made["changes"])
        assert found.rows == bag_of([(row, 1) for row in there.values()])


def test_an_operation_that_is_none_is_refused_by_name(tmp_path_factory: Any) -> None:
    stage = filed(relation(BOOKS, "id"), tmp_path_factory)

    with pytest.raises(TranslationFailed, match=r"'upsert' is no operation; give insert, modify"):
        stage.epoch({"operations": to_operations([("upsert", (1, 1, "x"))])})


def test_a_relation_needs_a_key_of_its_columns() -> None:
    with pytest.raises(StageError, match="its key isbn is none of the columns price, id, title"):
        relation(BOOKS, "isbn")
    with pytest.raises(StageError, match="none of the columns"):
        relation(BOOKS, ())
    with pytest.raises(StageError, match="nothing of a row can be modified; say by `distinct`"):
        relation(BOOKS, BOOKS.names)
