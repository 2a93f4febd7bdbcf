"""Options and schemas of the data sources, without a Spark session."""

from __future__ import annotations

import base64
import pickle

import pytest
from pyspark.sql.types import DateType, DoubleType, StringType, StructType

from headgate.client import ScanRange
from headgate.engine import Codec, CodecName
from headgate.events import Cut, Origin, encode_origin
from headgate.spark.source.datasource import HBaseSource, OptionError, TableOptions
from headgate.spark.source.updates_source import UpdatesSource

ADDRESS = {"host": "127.0.0.1", "port": "9091", "table": "t"}
SCHEMA = StructType().add("row", StringType()).add("a", DoubleType())


def test_options_say_where_what_and_how() -> None:
    origin = Origin("flow", "step", "run", 3)
    options = TableOptions.parse(
        {
            **ADDRESS,
            "family": "f",
            "columns": '{"b": "g:x"}',
            "codec": "int64",
            "codecs": '{"b": "float64"}',
            "start": "a\\x00",
            "stop": "b",
            "since": "5",
            "origin": base64.b64encode(encode_origin(origin)).decode(),
        }
    )

    assert options.extent == ScanRange(b"a\x00", b"b", (), 5, None)
    assert (options.column("a"), options.column("b"), options.column("h:y")) == (
        b"f:a",
        b"g:x",
        b"h:y",
    )
    assert options.codec_of("a") == Codec(CodecName.INT64)
    assert options.codec_of("b") == Codec(CodecName.FLOAT64)
    assert options.origin == origin
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"host": "h", "port": "1"}, "'table'"),
        ({**ADDRESS, "port": "x"}, "whole number"),
        ({**ADDRESS, "columns": "a=b"}, "JSON object"),
        ({**ADDRESS, "codec": "double"}, "none of utf8"),
    ],
)
def test_a_wrong_option_is_named(wrong: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        TableOptions.parse(wrong)


def test_a_column_without_family_is_refused_with_the_cure() -> None:
    with pytest.raises(OptionError, match="set option 'family'"):
        HBaseSource(ADDRESS).reader(SCHEMA)


def test_a_schema_needs_the_row() -> None:
    schema = StructType().add("a", DoubleType())

    with pytest.raises(OptionError, match="'row'"):
        HBaseSource({**ADDRESS, "family": "f"}).reader(schema)


def test_a_type_without_decoding_is_refused() -> None:
    schema = StructType().add("row", StringType()).add("a", DateType())

    with pytest.raises(OptionError, match="cast afterwards"):
        HBaseSource({**ADDRESS, "family": "f"}).reader(schema)


def test_overwriting_is_refused() -> None:
    with pytest.raises(OptionError, match="append"):
        HBaseSource({**ADDRESS, "family": "f"}).writer(SCHEMA, True)


def test_updates_need_a_cut() -> None:
    with pytest.raises(OptionError, match="'cut'"):
        UpdatesSource({"kafka": "k", "table": "t"}).reader(SCHEMA)


def test_updates_have_a_task_for_each_partition_with_news() -> None:
    topic = "headgate.updates.t"
    options = {
        "kafka": "k",
        "table": "t",
        "since": f'{{"{topic}": [2, 5]}}',
        "cut": f'{{"{topic}": [4, 5, 1]}}',
    }

    parts = UpdatesSource(options).reader(SCHEMA).partitions()

    assert [(p.extent.partition, p.extent.start, p.extent.stop) for p in parts] == [
        (0, 2, 4),
        (2, 0, 1),
    ]
    assert Cut().position(topic, 2) == 0
