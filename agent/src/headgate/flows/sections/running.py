"""How steps are run: the sections of a dataflow file on sessions, code, places and turns."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from headgate.engine import DataflowSpec
from headgate.flows.grammar.kinds import ANY_TEXT, Either, Key, ListOf, MapOf, Numbers, Single
from headgate.flows.grammar.tree import Items, Scalar, Tree, spark_settings, text_of, texts_of
from headgate.flows.grammar.values import name_value, text_value
from headgate.flows.sections.changes import Setting, always, from_to
from headgate.flows.sections.section import Draft, Section

DEFAULT_CONCURRENCY: Final = 4
"""Attempts of a dataflow under way at a time: independent branches go on beside a long one."""


def _number(written: Tree | None, default: int) -> int:
    match written:
        case Scalar(value=int() as number):
            return number
        case _:
            return default


def _with_places(concurrency: int, spec: DataflowSpec) -> DataflowSpec:
    """Limit how many stages can be under way, unless one session takes them one by one."""
    if spec.places is not None or all(action.stage is None for action in spec.actions):
        return spec
    return replace(spec, places=concurrency)


CONCURRENCY: Final = Section(
    "concurrency",
    Key(
        Single("a number of attempts", numbers=Numbers(above=0, at_most=1000, whole=True)),
        "how many steps may run at a time; default 4",
    ),
    lambda written, _: _number(written, DEFAULT_CONCURRENCY),
    give=_with_places,
    difference=Setting(from_to()),
)

PRIORITY: Final = Section(
    "priority",
    Key(
        Single("a whole number", numbers=Numbers(whole=True)),
        "over other dataflows where an agent has more to run than it may; default 0",
    ),
    lambda written, _: _number(written, 0),
    difference=Setting(from_to()),
)

SPARK: Final = Section(
    "spark",
    Key(
        MapOf(
            Single(
                "a text, a number, true or false",
                pattern=ANY_TEXT,
                numbers=Numbers(),
                truth=True,
            ),
            "Spark settings",
            ANY_TEXT,
            "setting",
        ),
        "settings of the Spark session, such as `spark.sql.shuffle.partitions: 4`",
    ),
    lambda written, _: dict(spark_settings(written)),
    difference=Setting(always("a new session before the next attempt")),
)

SPARK_POOL: Final = Section(
    "spark_pool",
    Key(
        name_value("a pool"),
        "dataflows that name the same pool, with equal `spark` and `python_path`, share one "
        "Spark session on each agent",
    ),
    lambda written, _: text_of(written),
    difference=Setting(from_to(lambda pool: pool or "none", ", before the next attempt")),
)

STATE: Final = Section(
    "state",
    Key(
        text_value("a directory or a URI"),
        "where its stages keep their files: a directory, relative to this file, or a URI such "
        "as `hdfs://…` or `s3://…`; default a directory of the agent, for one machine only",
    ),
    lambda written, _: text_of(written),
    difference=Setting(
        from_to(
            lambda state: state or "the agent's directory",
            "; stages find their files there if somebody moves them",
        )
    ),
)

_DIRECTORY: Final = text_value("a directory")


def _python_path(written: Tree | None, _: Draft) -> tuple[str, ...]:
    match written:
        case Scalar(text=directory):
            return (directory,)
        case Items() as items:
            return texts_of(items)
        case _:
            return (".",)


PYTHON_PATH: Final = Section(
    "python_path",
    Key(
        Either(
            "a directory or a list of directories",
            (_DIRECTORY, ListOf(_DIRECTORY, "a list of directories")),
        ),
        "where the steps' modules are, relative to this file; default its own directory",
    ),
    _python_path,
)
