"""The steps of the index: frames in, frame out."""

import json

import pyarrow as pa
import pytest
from crawl import steps


@pytest.fixture
def frame(spark):
    def make(column, rows):
        return spark.createDataFrame(pa.table({"row": [*rows], column: [*rows.values()]}))

    return make


def rows(frame, column):
    return {row["row"]: json.loads(row[column]) for row in frame.collect()}


def test_words_are_counted_without_case_and_punctuation(frame):
    texts = {"a": "Fire! A fire, says Åland's 2nd office", "b": "—", "c": "one one\none"}
    counts = rows(steps.counts_frame(frame("value", texts)), "counts")
    assert counts["a"] == dict.fromkeys(("a", "says", "åland", "s", "nd", "office"), 1) | {
        "fire": 2
    }
    assert counts["b"] == {}, "a document that has no words any more must be written too"
    assert counts["c"] == {"one": 3}


def test_a_word_lists_its_documents_with_most_occurrences_first(frame):
    counts = {"a": '{"fire": 1, "sea": 2}', "b": '{"fire": 3}', "c": '{"fire": 1}', "d": "{}"}
    index = rows(steps.index_frame(frame("counts", counts)), "urls")
    assert index == {"fire": ["b", "a", "c"], "sea": ["a"]}


def test_only_words_with_other_documents_are_written(frame):
    before = frame("urls", {"fire": '["a"]', "sea": '["b"]', "gone": '["c"]'})
    after = frame("urls", {"fire": '["a"]', "sea": '["a","b"]', "new": '["c"]'})
    written = rows(steps.changed_frame(after, before), "urls")
    assert written == {"sea": ["a", "b"], "new": ["c"]}
