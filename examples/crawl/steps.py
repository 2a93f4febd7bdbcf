"""Steps B to D as Headgate runs them: PySpark over HBase tables.

Containers have the names of ``crawl.yaml``. Every function that ends in ``_frame`` is pure: frames
in, frame out; the steps themselves only read and write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headgate.spark import Run

_NO_LETTERS = r"[^\p{L}]+"
_TEXT = "string"


def news_words(run: Run) -> None:
    """Step B: count the words of the news that have changed."""
    _count_words(run, "news", "news-words")


def page_words(run: Run) -> None:
    """Step C: count the words of the static pages that have changed."""
    _count_words(run, "pages", "page-words")


def index(run: Run) -> None:
    """Step D: list the documents of each word, those with most occurrences first."""
    read = {name: run.read(name, types={"counts": _TEXT}) for name in ("news-words", "page-words")}
    after = index_frame(read["news-words"].unionByName(read["page-words"])).cache()
    before = run.read("index", types={"urls": _TEXT})
    run.write(changed_frame(after, before), "index")
    run.delete(_keys(before.join(after, "row", "left_anti")), "index")
    after.unpersist()


def _count_words(run: Run, documents: str, words: str) -> None:
    changed = run.changes(documents, kind=_TEXT)
    run.write(counts_frame(changed.where("not deleted")), words)
    run.delete(_keys(changed.where("deleted")), words)


def _keys(frame: DataFrame) -> list[str]:
    keys: list[str] = frame.select("row").toArrow()["row"].to_pylist()
    return keys


def counts_frame(documents: DataFrame) -> DataFrame:
    """Return (row, counts): a JSON object of each document's words and how often they occur.

    Args:
        documents: row (the document's address), value (its text).
    """
    words = sql.explode(sql.split(sql.lower("value"), _NO_LETTERS)).alias("word")
    entry = sql.when(sql.col("word") != "", sql.struct("word", "count"))
    return (
        documents.select("row", words)
        .groupBy("row", "word")
        .count()
        .groupBy("row")
        .agg(sql.sort_array(sql.collect_list(entry)).alias("entries"))
        .select("row", sql.to_json(sql.map_from_entries("entries")).alias("counts"))
    )


def index_frame(counts: DataFrame) -> DataFrame:
    """Return (row, urls): each word, and a JSON array of the documents that have it.

    Args:
        counts: what :func:`counts_frame` returns, of all documents.
    """
    found = sql.explode(sql.from_json("counts", "map<string, int>")).alias("word", "count")
    posting = sql.struct((-sql.col("count")).alias("order"), sql.col("row").alias("url"))
    return (
        counts.select("row", found)
        .groupBy("word")
        .agg(sql.sort_array(sql.collect_list(posting)).alias("postings"))
        .select(
            sql.col("word").alias("row"),
            sql.to_json(sql.transform("postings", lambda one: one["url"])).alias("urls"),
        )
    )


def changed_frame(after: DataFrame, before: DataFrame) -> DataFrame:
    """Return the rows of an index whose documents are others than before.

    Args:
        after: row, urls.
        before: the same as stored.
    """
    stored = before.select("row", sql.col("urls").alias("stored"))
    changed = ~sql.col("urls").eqNullSafe(sql.col("stored"))
    return after.join(stored, "row", "left").where(changed).select("row", "urls")
