"""Publication of a table's values: it depends on who wants them now, not on earlier watches."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from unittest.mock import Mock

from hypothesis import given
from hypothesis import strategies as st

from headgate.events import ControlMessage, Watch, WatchList
from headgate.observer.control.hearing import Hearing
from headgate.observer.control.state import ControlState
from headgate.observer.control.table_patterns import TablePatterns

TABLES = ["sensor_a", "sensor_b", "other"]
NOW = 1.8e9


def hearing(bench: Any) -> tuple[Hearing, ControlState]:
    control = ControlState()
    others = {name: cast("Any", Mock()) for name in ("gates", "barriers", "lease")}
    found = Hearing("o", asyncio.Event(), control=control, publisher=bench.publisher, **others)
    return found, control


def watch(dataflow: str, revision: int, *watches: Watch) -> list[tuple[float, ControlMessage]]:
    return [(NOW, WatchList(1, dataflow, revision, watches))]


def test_a_table_watched_by_pattern_has_values_once_a_dataflow_that_only_counts_is_gone(bench):
    heard, control = hearing(bench)
    heard.watch_by_pattern(TablePatterns(("sensor_*",)))
    heard.watch_by_pattern(TablePatterns())
    heard.hear(watch("counts", 1, Watch("sensor_a", values=False)))
    assert not bench.publisher.tables.by_name["sensor_a"].values
    heard.watch_by_pattern(TablePatterns(("sensor_*",)))
    assert bench.publisher.tables.by_name["sensor_a"].values
    assert control.wants_values("sensor_a")


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["d1", "d2"]),
            st.lists(st.builds(Watch, st.sampled_from(TABLES), st.booleans()), max_size=2),
        ),
        st.lists(st.sampled_from(["sensor_*", "sensor_a", "*"]), max_size=1).map(tuple),
    ),
    max_size=10,
)


@given(steps=STEPS)
def test_a_known_table_has_values_exactly_where_somebody_wants_them(make_bench, steps):
    bench = make_bench()
    heard, control = hearing(bench)
    for revision, step in enumerate(steps, start=1):
        if step and isinstance(step[0], str) and not isinstance(step[-1], str):
            heard.hear(watch(step[0], revision, *step[1]))
        else:
            heard.watch_by_pattern(TablePatterns(step))
        for name, table in bench.publisher.tables.by_name.items():
            assert table.values is control.wants_values(name)
