"""The first k rows of each key, under deletions and while k changes."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from flows_of_rows import Changes, Relation, bag_of, filed, weighted
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.incremental import Outer, StageError, TranslationFailed
from headgate.incremental.library import top_k

PAGES = pa.schema({"site": pa.string(), "score": pa.float64(), "url": pa.string()})
pages = weighted(
    st.sampled_from(["s", "t"]),
    st.sampled_from([None, float("nan"), -1.0, 2.0, 3.5]),
    st.sampled_from(["u", "v"]),
)
K = pa.schema({"k": pa.int64()})


def first(rows: list[tuple[Any, int]], k: int) -> list[tuple[Any, int]]:
    """The k first rows of one site, each as often as it has a place."""

    def rank(row: Any) -> Any:
        score = row[1]
        if score is None:
            return (2, 0, row[2])
        return (1, 0, row[2]) if math.isnan(score) else (0, -score, row[2])

    places = [row for row, n in sorted(rows, key=lambda each: rank(each[0])) for _ in range(n)]
    return [(row, 1) for row in places[:k]]


@pytest.mark.parametrize("outer", Outer)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 4)
def test_the_sum_of_changes_is_the_first_rows_by_the_k_of_each_key(
    outer: Outer, data: st.DataObject, tmp_path_factory: Any
) -> None:
    made = top_k("site", "score", 2, columns=PAGES, parameter="k", outer=outer)
    stage, source, found = filed(made, tmp_path_factory), Relation(PAGES), Changes()
    of_site: dict[str, int] = {}
    waiting: list[int] = []
    for _ in range(data.draw(st.integers(1, 5))):
        whole = data.draw(st.integers(0, 4)) == 0
        rows = data.draw(pages)
        ks = data.draw(st.lists(st.integers(0, 4), max_size=2))
        came = {row[0] for row, _ in rows}
        if whole or outer is Outer.FULL:
            came |= set(of_site)
        increments = {"source": source.feed(rows, whole=whole), "k": pa.table({"k": ks}, K)}
        found.add(stage.epoch(increments, ["source"] if whole else [])["changes"])
        # Where there is no group they wait, and come together with those of the next run with some.
        given = [*waiting, *ks]
        waiting = [] if came else given
        wanted = []
        for site in ("s", "t"):
            mine = [(row, n) for row, n in source.rows if row[0] == site]
            if site in came:
                of_site[site] = max(given) if given else of_site.get(site, 2)
            if not mine:
                of_site.pop(site, None)
                continue
            wanted += first(mine, of_site[site])
        assert found.rows == bag_of(wanted)


def test_all_rows_are_of_one_key_where_there_is_none(tmp_path_factory: Any) -> None:
    stage = filed(top_k((), "score", 2, columns=PAGES), tmp_path_factory, bits=2)
    source, found = Relation(PAGES), Changes()
    for score in (1.0, 4.0, 3.0, 2.0):
        found.add(stage.epoch({"source": source.feed([((f"s{score}", score, "u"), 1)])})["changes"])

    assert found.rows == bag_of([(("s4.0", 4.0, "u"), 1), (("s3.0", 3.0, "u"), 1)])


def test_a_k_that_is_no_number_of_rows_is_refused(tmp_path_factory: Any) -> None:
    with pytest.raises(StageError, match="-1 rows cannot be kept"):
        top_k("site", "score", -1, columns=PAGES)
    with pytest.raises(StageError, match="rank, place is none of its columns"):
        top_k("place", "rank", 1, columns=PAGES)

    stage = filed(top_k("site", "score", 2, columns=PAGES, parameter="k"), tmp_path_factory)
    row = Relation(PAGES).feed([(("s", 1.0, "u"), 1)])
    with pytest.raises(TranslationFailed, match="null or below 0; give numbers from 0 on"):
        stage.epoch({"source": row, "k": pa.table({"k": [3, None]}, K)})
