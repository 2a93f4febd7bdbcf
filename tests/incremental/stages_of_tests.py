"""Stages whose translations show whatever the room could get wrong."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from headgate.incremental import (
    GROUP,
    STATE,
    Adu,
    Groups,
    InputFlow,
    Keys,
    Match,
    Outer,
    Route,
    Stage,
    StateFlow,
)
from headgate.incremental.state import key_bytes


def by_stream(stage: Stage) -> Stage:
    """The same stage by streams: it reads its flows in turn, and yields rows one and several."""
    spec = stage.spec
    return Stage(
        spec.name,
        inputs=spec.inputs,
        outputs=spec.outputs,
        translate_stream=partial(_streamed, stage=stage),
        state=spec.state,
        framing=spec.framing,
    )


def _streamed(key: Any, flows: Any, stage: Stage) -> Iterator[tuple[str, Any]]:
    translate, state = stage.spec.translate, stage.spec.state
    assert translate is not None
    found: dict[str, list[Adu]] = {flow: [] for flow in flows}
    left = {flow: stream.rows() for flow, stream in flows.items()}
    while left:
        for flow, rows in list(left.items()):
            row = next(rows, None)
            if row is None:
                del left[flow]
            else:
                found[flow].append(row)
    for flow, made in translate(key, found).items():
        some = [*made]
        if flow == STATE and state is not None and state.order_by is not None:
            some.sort(key=lambda row: key_bytes(_order(state.order_by, row)))
        yield from ((flow, row) for row in some[:1])
        schema = state.columns if flow == STATE and state is not None else stage.spec.outputs[flow]
        rest = pa.Table.from_pylist(some[1:], schema)
        yield flow, rest.slice(0, 2)
        yield from ((flow, batch) for batch in rest.slice(2).to_batches())


def _order(columns: Any, row: Adu) -> Any:
    if isinstance(columns, str):
        return row[columns]
    return tuple(row[name] for name in columns)


COUNT = pa.schema({"n": pa.int64()})
NEVER_NULL = pa.schema([pa.field("n", pa.int64(), nullable=False)])


def _count(key: Any, flows: Any) -> dict[str, list[Adu]]:
    n = sum(row["n"] for row in (*flows[STATE], *flows["in"]))
    return {STATE: [{"n": n}] if n else [], "counts": [{"key": repr(key), "n": n}]}


def _count_tables(groups: Groups) -> dict[str, pa.Table]:
    """The same for all groups at once."""
    rows = pa.concat_tables([groups.flows[STATE], groups.flows["in"].select(["n", GROUP])])
    all_groups = pa.table(
        {GROUP: pa.array(range(groups.count), pa.int64()), "n": [0] * groups.count}
    )
    rows = pa.concat_tables([rows, all_groups.select(rows.column_names)])
    sums = rows.group_by(GROUP).aggregate([("n", "sum")]).sort_by(GROUP)
    sums = sums.rename_columns({"n_sum": "n"})
    keys = [repr(key) for key in groups.keys.to_pylist()]
    kept = sums.filter(pa.compute.not_equal(sums.column("n"), 0))
    return {STATE: kept, "counts": pa.table({"key": keys, "n": sums.column("n")})}


def counter(*, tables: bool = False, columns: pa.Schema = COUNT) -> Stage:
    """Sums per key; a group whose sum is 0 has no state."""
    return Stage(
        "counter",
        inputs={"in": InputFlow("key")},
        outputs={"counts": {"key": "string", "n": "int64"}},
        translate=None if tables else _count,
        translate_tables=_count_tables if tables else None,
        state=StateFlow(columns),
    )


def _history(key: Any, flows: Any) -> dict[str, list[Adu]]:
    """Keep the last three by time; a value of 0 forgets the group."""
    rows = [*flows[STATE], *({"time": r["time"], "value": r["value"]} for r in flows["in"])]
    if any(row["value"] == 0 for row in flows["in"]):
        rows = []
    rows.sort(key=lambda row: (row["time"], row["value"]))
    shown = "".join(str(row["value"]) for row in flows["in"])
    return {STATE: rows[-3:], "seen": [{"key": repr(key), "values": shown, "n": len(flows[STATE])}]}


def history(outer: Outer) -> Stage:
    """Several rows a group, in an order."""
    return Stage(
        "history",
        inputs={"in": InputFlow("key", order_by=("time", "value"))},
        outputs={"seen": {"key": "string", "values": "string", "n": "int64"}},
        translate=_history,
        state=StateFlow(
            pa.schema({"time": pa.int64(), "value": pa.int64()}),
            order_by=("time", "value"),
            outer=outer,
        ),
    )


def _pages(key: Any, flows: Any) -> dict[str, list[Adu]]:
    """Count by URL, and by site in a row without URL."""
    urls = {row["url"]: row["n"] for row in flows[STATE]}
    for row in flows["in"]:
        for place in (row["url"], None):
            urls[place] = urls.get(place, 0) + row["n"]
    found = [{"url": url, "n": n} for url, n in urls.items() if n > 0]
    return {STATE: found, "counts": [{"key": repr(key), **row} for row in found]}


def pages(outer: Outer, n: pa.Schema = COUNT) -> Stage:
    """Rows matched one by one, beside one of the group itself."""
    return Stage(
        "pages",
        inputs={"in": InputFlow("key", order_by="url")},
        outputs={"counts": {"key": "string", "url": "string", "n": "int64"}},
        translate=_pages,
        state=StateFlow(
            pa.schema([pa.field("url", pa.string()), n.field("n")]),
            order_by="url",
            outer=outer,
            match=Match.ROW,
        ),
    )


def _forward(key: Any, flows: Any) -> dict[str, list[Adu]]:
    """Keep the sum here, and leave a row with each of the next two keys."""
    n = sum(row["n"] for row in (*flows[STATE], *flows["in"]))
    there = [{"home": (key + step) % 7, "n": n % 5} for step in (1, 2)]
    return {STATE: [{"home": key, "n": n}, *there], "sums": [{"key": key, "n": n}]}


def forwarding() -> Stage:
    """State that is written to other groups."""
    return Stage(
        "forwarding",
        inputs={"in": InputFlow("key")},
        outputs={"sums": {"key": "int64", "n": "int64"}},
        translate=_forward,
        state=StateFlow(pa.schema({"home": pa.int64(), "n": pa.int64()}), route_by="home"),
    )


def _several(row: Adu) -> Any:
    if row["n"] == 0:
        return Route.NONE
    if row["n"] == 9:
        return Route.ALL
    return Keys((row["key"], (row["key"] or 0) + 1, row["key"]))


def _limited(key: Any, flows: Any) -> dict[str, list[Adu]]:
    known = [row["n"] for row in flows[STATE]]
    limits = [row["k"] for row in flows["k"]] or [100]
    n = min(sum(known) + sum(row["n"] for row in flows["in"]), max(limits))
    return {STATE: [{"n": n}], "out": [{"key": repr(key), "n": n, "limits": len(flows["k"])}]}


def limited(outer: Outer) -> Stage:
    """Units to no group, to several, to all; and a flow of parameters."""
    return Stage(
        "limited",
        inputs={"in": InputFlow(_several), "k": InputFlow(Route.ALL)},
        outputs={"out": {"key": "string", "n": "int64", "limits": "int64"}},
        translate=_limited,
        state=StateFlow(COUNT, outer=outer),
    )


def _split(key: Any, flows: Any) -> dict[str, list[Adu]]:
    """Put out a unit as often as it says, with what it is not of."""
    assert key is None
    assert sum(map(len, flows.values())) == 1
    rows = [{"n": row["n"], "from": "in"} for row in flows["in"] for _ in range(max(row["n"], 0))]
    return {"out": [*rows, *({"n": row["k"], "from": "k"} for row in flows["k"])]}


def splitting() -> Stage:
    """Units that are translated one by one."""
    return Stage(
        "splitting",
        inputs={"in": InputFlow(), "k": InputFlow()},
        outputs={"out": {"n": "int64", "from": "string"}},
        translate=_split,
    )


def thinning(columns: pa.Schema, *, tables: bool = False) -> Stage:
    """Units by their last column: a third of them dropped, a third twice, all in a flow beside."""
    by = columns.names[-1]

    def times(unit: Adu) -> int:
        return (0, 1, 2)[unit[by] % 3]

    def by_unit(key: Any, flows: Any) -> dict[str, list[Adu]]:
        assert key is None
        [unit] = flows["units"]
        return {"some": [unit] * times(unit), "all": [unit]}

    def by_tables(groups: Groups) -> dict[str, pa.Table]:
        rows = groups.flows["units"]
        assert len(rows) == groups.count > 0
        at = [n for n, unit in enumerate(rows.to_pylist()) for _ in range(times(unit))]
        return {"some": rows.take(pa.array(at, pa.int64())), "all": rows}

    return Stage(
        "thinning",
        inputs={"units": InputFlow()},
        outputs={"some": columns, "all": columns},
        translate=None if tables else by_unit,
        translate_tables=by_tables if tables else None,
    )


def halving(*, tables: bool = False) -> Stage:
    """Of rows with an even n that and the half; the others are dropped."""

    def by_unit(key: Any, flows: Any) -> dict[str, list[Adu]]:
        [row] = flows["rows"]
        return {"halves": [] if row["n"] % 2 else [{"n": row["n"], "half": row["n"] // 2}]}

    def by_tables(groups: Groups) -> dict[str, pa.Table]:
        found = [n for n in groups.flows["rows"].column("n").to_pylist() if n % 2 == 0]
        return {"halves": pa.table({"n": found, "half": [n // 2 for n in found]})}

    return Stage(
        "halving",
        inputs={"rows": InputFlow()},
        outputs={"halves": {"n": "int64", "half": "int64"}},
        translate=None if tables else by_unit,
        translate_tables=by_tables if tables else None,
    )
