"""Relational stages: after each increment they are what they are of all rows that there are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from flows_of_rows import Changes, Relation, bag_of, filed, weighted
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import ReferenceStage, bag

from headgate.incremental import STATE, Stage, StageError, TranslationFailed
from headgate.incremental.library import (
    Aggregate,
    Function,
    aggregate,
    count,
    differences,
    distinct,
    join,
    relation,
)

WORDS = pa.schema({"word": pa.string(), "site": pa.int64()})
words = weighted(st.sampled_from([None, "", "a", "b\x00"]), st.integers(-1, 1))
SALES = pa.schema({"shop": pa.string(), "price": pa.float64(), "items": pa.int64()})
sales = weighted(
    st.sampled_from(["x", "y"]),
    st.sampled_from([None, 0.1, 0.2, 1e17, -1e17, float("nan"), 0.0]),
    st.sampled_from([None, -5, 2, 2**40]),
)
LEFT = pa.schema({"key": pa.int64(), "left": pa.string()})
RIGHT = pa.schema({"key": pa.int64(), "right": pa.float64()})
keys = st.sampled_from([None, 1, 2, 3])
lefts = weighted(keys, st.sampled_from(["", "l"]))
rights = weighted(keys, st.sampled_from([0.0, -0.0, float("nan")]))


def counted(source: Relation) -> Counter[str]:
    numbers: Counter[Any] = Counter()
    for row, n in source.rows:
        numbers[row] += n
    return bag_of([((*row, n), 1) for row, n in numbers.items() if n])


def there(source: Relation) -> Counter[str]:
    return bag_of([(row, 1) for row, n in source.rows if n > 0])


def joined(left: Relation, right: Relation) -> Counter[str]:
    return bag_of(
        ((*one, other[1]), n * m)
        for one, n in left.rows
        for other, m in right.rows
        if one[0] == other[0] and one[0] is not None
    )


def aggregated(source: Relation) -> Counter[str]:
    found = []
    for shop in ("x", "y"):
        rows = [(row, n) for row, n in source.rows if row[0] == shop]
        if sum(n for _, n in rows) <= 0:
            continue
        items = [(row[2], n) for row, n in rows if row[2] is not None]
        prices = [row[1] for row, n in rows if row[1] is not None and n > 0]
        number = sum(n for _, n in items)
        total = sum(value * n for value, n in items) if number else None
        # NaN is the highest, and nulls do not count.
        prices.sort(key=lambda price: (math.isnan(price), price))
        known = sum(n for row, n in rows if row[1] is not None)
        extremes = (prices[0], prices[-1]) if prices else (None, None)
        found.append(((shop, number, total, known, *extremes), 1))
    return bag_of(found)


def _running(source: Relation) -> Counter[str]:
    """Only what follows from sums."""
    return Counter(
        {repr(eval(row, {"nan": math.nan})[:4]): n for row, n in aggregated(source).items()}
    )


SUMS = {
    "number": Aggregate(Function.COUNT, "items", "int64"),
    "total": Aggregate(Function.SUM, "items", "int64"),
    "prices": Aggregate(Function.COUNT, "price", "float64"),
}
EXTREMES = {
    "least": Aggregate(Function.MIN, "price", "float64"),
    "most": Aggregate(Function.MAX, "price", "float64"),
}
SHOP = {"shop": "string"}

Made = tuple[Callable[[], Stage], Mapping[str, pa.Schema], Mapping[str, Any], Callable[..., Any]]
SHAPES: dict[str, Made] = {
    "distinct": (lambda: distinct(WORDS), {"source": WORDS}, {"source": words}, there),
    "join": (
        lambda: join("key", "key", left=LEFT, right=RIGHT),
        {"left": LEFT, "right": RIGHT},
        {"left": lefts, "right": rights},
        joined,
    ),
    "sums": (
        lambda: aggregate(SHOP, SUMS),
        {"source": SALES},
        {"source": sales},
        _running,
    ),
    "extremes": (
        lambda: aggregate(SHOP, SUMS | EXTREMES),
        {"source": SALES},
        {"source": sales},
        aggregated,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 4)
def test_the_sum_of_changes_is_what_is_computed_from_scratch(
    shape: str, data: st.DataObject, tmp_path_factory: Any
) -> None:
    make, schemas, rows, wanted = SHAPES[shape]
    bits = data.draw(st.integers(0, 2))
    stage, found = filed(make(), tmp_path_factory, bits), Changes()
    flows = {flow: Relation(schema) for flow, schema in schemas.items()}
    for _ in range(data.draw(st.integers(1, 4))):
        whole = {flow for flow in flows if data.draw(st.integers(0, 5)) == 0}
        increments = {
            flow: held.feed(data.draw(rows[flow]), whole=flow in whole)
            for flow, held in flows.items()
        }
        found.add(stage.epoch(increments, whole)["changes"])
        assert found.rows == wanted(*flows.values())

    again = Changes()
    at_once = {flow: held.increment(held.rows) for flow, held in flows.items()}
    again.add(filed(make(), tmp_path_factory).epoch(at_once)["changes"])
    assert again.rows == found.rows


def _count(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    before = sum(row["n"] for row in flows[STATE])
    n = before + sum(row["weight"] for row in flows["source"])
    word, site = key
    counts = [{"word": word, "site": site, "n": n}] if n != before else []
    return {STATE: [{"n": n}] if n else [], "counts": counts}


@given(epochs=st.lists(words, max_size=4))
@settings(max_examples=settings().max_examples // 4)
def test_counts_by_tables_are_those_that_are_counted_key_by_key(
    epochs: Any, tmp_path_factory: Any
) -> None:
    made = count(WORDS)
    plain = Stage(
        "plain",
        inputs=made.spec.inputs,
        outputs=made.spec.outputs,
        translate=_count,
        state=made.spec.state,
    )
    stage, expected = filed(made, tmp_path_factory), ReferenceStage(plain)
    source = Relation(WORDS)
    for rows in epochs:
        increment = source.feed(rows)
        found = stage.epoch({"source": increment})["counts"]
        assert bag(found) == bag(expected.epoch({"source": increment.to_pylist()})["counts"])


@given(epochs=st.lists(st.tuples(words, st.booleans()), max_size=4))
@settings(max_examples=settings().max_examples // 4)
def test_counts_as_upserts_are_those_of_all_rows(epochs: Any, tmp_path_factory: Any) -> None:
    stage, source = filed(count(WORDS), tmp_path_factory), Relation(WORDS)
    shown: dict[Any, int] = {}
    for rows, whole in epochs:
        increment = source.feed(rows, whole=whole)
        for row in stage.epoch({"source": increment}, ["source"] if whole else [])["counts"]:
            place, n = (row["word"], row["site"]), row["n"]
            assert shown.get(place, 0) != n, "nothing that has not changed"
            shown[place] = n
        kept = bag_of([((*place, n), 1) for place, n in shown.items() if n])
        assert kept == counted(source)


def test_rows_without_a_weight_are_one_each_where_that_is_said(tmp_path_factory: Any) -> None:
    stage = filed(count({"word": "string"}, weight=None), tmp_path_factory)
    came = pa.table({"word": ["a", "b", "a"]})

    assert bag(stage.epoch({"source": came})["counts"]) == bag(
        [{"word": "a", "n": 2}, {"word": "b", "n": 1}]
    )
    with pytest.raises(TranslationFailed, match="has no column weight; it has word"):
        filed(count({"word": "string"}), tmp_path_factory).epoch({"source": came})


@given(epochs=st.lists(sales, min_size=1, max_size=4))
@settings(max_examples=settings().max_examples // 4)
def test_a_sum_of_floats_is_bit_by_bit_that_of_the_values_left(
    epochs: Any, tmp_path_factory: Any
) -> None:
    total = {"total": Aggregate(Function.SUM, "price", "float64")}
    stage, source, found = (
        filed(aggregate(SHOP, total), tmp_path_factory),
        Relation(SALES),
        Changes(),
    )
    for rows in epochs:
        found.add(stage.epoch({"source": source.feed(rows)})["changes"])
        at_once, scratch = filed(aggregate(SHOP, total), tmp_path_factory), Changes()
        scratch.add(at_once.epoch({"source": source.increment(source.rows[::-1])})["changes"])
        assert found.rows == scratch.rows


def test_a_sum_beyond_64_bits_is_refused(tmp_path_factory: Any) -> None:
    stage = filed(aggregate(SHOP, SUMS), tmp_path_factory)
    source = Relation(SALES)
    stage.epoch({"source": source.feed([(("x", 1.0, 2**62), 1)])})

    with pytest.raises(TranslationFailed, match="a sum is beyond 64 bits"):
        stage.epoch({"source": source.feed([(("x", 1.0, 2**62), 1)])})


def test_the_state_of_counts_and_sums_is_a_row_a_key(tmp_path_factory: Any) -> None:
    stage, source = filed(aggregate(SHOP, SUMS), tmp_path_factory), Relation(SALES)
    for items in range(20):
        stage.epoch({"source": source.feed([(("x", float(items), items), 1)])})

    assert [len(rows) for rows in stage.state.values()] == [1]


def test_a_join_view_follows_two_relations(tmp_path_factory: Any) -> None:
    books = filed(relation({"id": "int64", "title": "string"}, "id"), tmp_path_factory)
    sold = filed(differences(value="int64"), tmp_path_factory)
    view = filed(
        join(
            "title",
            "row",
            left={"id": "int64", "title": "string"},
            right={"row": "string", "value": "int64"},
            flows=("books", "sold"),
        ),
        tmp_path_factory,
    )
    kept = Changes()

    def epoch(operations: list[Any], cells: list[Any]) -> dict[str, int]:
        named = [dict(zip(("operation", "id", "title"), row, strict=True)) for row in operations]
        updates = [
            {"row": row, "column": "f:n", "value": value, "deleted": value is None}
            for row, value in cells
        ]
        schema = pa.schema({"operation": pa.string(), "id": pa.int64(), "title": pa.string()})
        cell = {"row": pa.string(), "column": pa.string(), "value": pa.int64()}
        left = books.epoch({"operations": pa.Table.from_pylist(named, schema)})["changes"]
        right = sold.epoch(
            {"source": pa.Table.from_pylist(updates, pa.schema({**cell, "deleted": pa.bool_()}))}
        )["changes"]
        as_table = {
            "books": pa.Table.from_pylist(left, books.spec.outputs["changes"]),
            "sold": pa.Table.from_pylist(right, sold.spec.outputs["changes"]),
        }
        kept.add(view.epoch(as_table)["changes"])
        return dict(kept.rows)

    first = [("insert", 1, "Emma"), ("insert", 2, "Emma"), ("insert", 3, "Dune")]
    one = {repr((1, "Emma", "Emma", 7)): 1, repr((2, "Emma", "Emma", 7)): 1}
    assert epoch(first, [("Emma", 7)]) == one
    assert epoch([("modify", 2, "Dune")], [("Dune", 5), ("Emma", 7)]) == {
        repr((1, "Emma", "Emma", 7)): 1,
        repr((2, "Dune", "Dune", 5)): 1,
        repr((3, "Dune", "Dune", 5)): 1,
    }
    assert epoch([("delete", 3, None)], [("Emma", None), ("Dune", 6)]) == {
        repr((2, "Dune", "Dune", 6)): 1
    }


@pytest.mark.parametrize(
    ("by", "left", "right", "message"),
    [
        (("a", "b"), {"a": "int64"}, {"b": "string"}, "whose types have to be the same"),
        (("a", "b"), {"a": "int64", "x": "int8"}, {"b": "int64", "x": "int8"}, "a column x"),
        (("a", "c"), {"a": "int64"}, {"b": "int64"}, "c is no column of the right"),
        (((), ()), {"a": "int64"}, {"b": "int64"}, "joins nothing with nothing"),
    ],
)
def test_a_join_that_cannot_be_is_refused(by: Any, left: Any, right: Any, message: str) -> None:
    with pytest.raises(StageError, match=message):
        join(*by, left=left, right=right)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ({"s": Aggregate(Function.SUM, "c", "string")}, "c of type string has no sum"),
        (
            {"s": Aggregate(Function.SUM, "c", "int64"), "t": Aggregate(Function.MIN, "c", "int8")},
            "column c is int64 and int8",
        ),
        ({"s": Aggregate("mode", "c", "int64")}, "no mode is computed; give count, sum"),  # type: ignore[arg-type]
    ],
)
def test_an_aggregate_that_cannot_be_is_refused(of: Any, message: str) -> None:
    with pytest.raises(StageError, match=message):
        aggregate(SHOP, of)
