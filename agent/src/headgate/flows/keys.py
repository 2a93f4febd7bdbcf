"""The grammar of a dataflow file: every key, what it may hold, and what it means.

This is the one source of both the checks and the JSON Schema; what a grammar can't say (names that
must exist, cycles, intervals the right way round) is checked in ``building``.
"""

from __future__ import annotations

from headgate.engine import METRICS, CodecName, FirstChanges, OnUndecodable, ValueMetric
from headgate.flows.grammar.kinds import (
    ANY_TEXT,
    Either,
    Key,
    ListOf,
    MapOf,
    Numbers,
    Record,
    Single,
)
from headgate.flows.grammar.problems import NAME_RULE, nearest
from headgate.flows.grammar.quantities import (
    DURATION,
    PERCENTAGE,
    why_no_duration,
    why_no_percentage,
)
from headgate.flows.launchers.step import ENTRY
from headgate.flows.sections.adjustment import ADJUSTMENT
from headgate.flows.sections.launching import LAUNCHED, LAUNCHING
from headgate.flows.sections.modes import MODE_KEYS
from headgate.flows.sections.significance import SIGNIFICANCE

NAME = r"[A-Za-z_][A-Za-z0-9_.\-]{0,99}"
"""Pattern of the names of dataflows, containers, actions, bounds and profiles."""

RESERVED = ("all", "and", "at-least-one", "majority", "not", "or")
"""Words of the condition algebra, which can't name a bound."""

EVERY = rf"every {DURATION}"
"""Pattern of a period, such as ``every 5 min``."""

_TABLE = r"(?:[A-Za-z0-9_][A-Za-z0-9_.\-]*:)?[A-Za-z0-9_][A-Za-z0-9_.\-]*"
_FAMILY = r"[^\s:]+"
_COLUMN = rf"{_FAMILY}:[\s\S]*"

PLACE = rf"{_TABLE}(?: {_FAMILY}:[^\s]*)*"
"""Pattern of a container in one line: a table, then any number of columns or families."""

JSON_PATH = r"json \$(?:\.[A-Za-z0-9_\-]+|\[[0-9]{1,9}\])*"
"""Pattern of the codec that takes a number out of a JSON document."""


def _why_no_place(value: str) -> tuple[str, str]:
    table, _, column = value.partition(" ")
    if "/" in value:
        return (
            "this is no container",
            "write the table, a space, the column: `zones c:concentration`",
        )
    if column and ":" not in column:
        return (
            "a column has no family",
            f"write `{table} {column}:` for the family, `{table} {column}:qualifier` for a column",
        )
    if table.count(":") > 1:
        return "the table and the column run together", "put a space between table and column"
    return "this is no container", "write a table, or table and column: `zones c:concentration`"


def _why_no_column(value: str) -> tuple[str, str]:
    return "a column has a family and a qualifier", f"write `family:qualifier`, such as `c:{value}`"


def _why_no_count(value: str) -> tuple[str, str]:
    if "%" in value:
        return why_no_percentage(value)
    number = _as_number(value)
    if number is not None and number <= 0:
        return "a sequence below one update is always reached", "write 1 or more"
    if number is not None:
        return "updates are counted whole", "write a whole number, or a percentage such as `20%`"
    return (
        "this is no number of updates",
        "write a number such as `100`, or a percentage such as `20%`",
    )


def _why_no_divergence(value: str) -> tuple[str, str]:
    if "%" in value:
        return why_no_percentage(value)
    number = _as_number(value)
    if number is not None and number < 0:
        return "a divergence can't be negative", "write a number above zero"
    if number is not None:
        return (
            "a divergence of 0 is always reached",
            "write a number above zero; to run at every change use `sequence: 1`",
        )
    return (
        "this is no divergence",
        "write `5%` (elements changed), `2` (units), or a metric such as `{relative: 5%}`",
    )


def _why_no_units(value: str) -> tuple[str, str]:
    if "%" in value:
        return (
            "an absolute divergence is in the values' own units, not in percent",
            f"write `absolute: 2`, or `relative: {value}`",
        )
    return _why_no_divergence(value)


def _why_no_share(value: str) -> tuple[str, str]:
    number = _as_number(value)
    if number is not None and number > 0:
        return "this metric is a percentage", f"write `{value}%`"
    return why_no_percentage(value if number is None or number < 0 else "0%")


def _as_number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _text(what: str) -> Single:
    return Single(what, pattern=ANY_TEXT)


def _name(noun: str) -> Single:
    return Single(f"the name of {noun}", pattern=NAME, rule=NAME_RULE)


def _names(noun: str, nouns: str) -> Either:
    one = _name(noun)
    return Either(
        f"{one.what} or a list of {nouns}", (one, ListOf(one, f"a list of {nouns}", at_least=0))
    )


def _limit(single: Single) -> Either:
    pair = ListOf(single, f"two limits, [min, max], each {single.what}", at_least=2, at_most=2)
    return Either(f"{single.what} or an interval [min, max]", (single, pair))


_DURATION = Single(
    "a duration such as `30 s` or `5 min`",
    pattern=DURATION,
    numbers=Numbers(above=0),
    why_not=why_no_duration,
)
_UPDATES = Single(
    "a number of updates or a percentage of the elements",
    pattern=PERCENTAGE,
    numbers=Numbers(above=0, whole=True),
    why_not=_why_no_count,
)
_DIVERGENCE = Single(
    "a percentage of changed elements or a number in the values' units",
    pattern=PERCENTAGE,
    numbers=Numbers(above=0),
    why_not=_why_no_divergence,
)
_SHARE = Single("a percentage such as `5%`", pattern=PERCENTAGE, why_not=_why_no_share)
_UNITS = Single("a number in the values' units", numbers=Numbers(above=0), why_not=_why_no_units)
_OWN_UNITS = Single("a number above zero", numbers=Numbers(above=0))
_TRUTH = Single("true or false", truth=True)

_SEQUENCE_KEYS = Record(
    "the sequence",
    {
        "limit": Key(
            _limit(_UPDATES), "number of updates, or a percentage of elements", required=True
        ),
        "count": Key(
            Single("`updates` or `distinct`", words=("updates", "distinct")),
            "`distinct` counts an element that changes often only once; default `updates`",
        ),
    },
)


def _metric_key(metric: ValueMetric) -> Key:
    if metric.constant:
        return Key(Single("a number above zero", numbers=Numbers(above=0)), metric.constant)
    return Key(_limit(_SHARE if metric.percent else _UNITS), metric.doc)


_PYTHON_KEYS = Record(
    "the metric",
    {
        "class": Key(
            Single(
                "`module:Class`",
                pattern=ENTRY,
                rule="write the module, a colon, the class: `metrics:Spread`",
            ),
            "a class with `process_element`, `aggregate` and `compute`",
            required=True,
        ),
        "limit": Key(_limit(_OWN_UNITS), "in the metric's own units", required=True),
    },
)
_VALUE_KEYS = Record(
    "the value",
    {
        **{metric.value: _metric_key(each) for metric, each in METRICS.items()},
        "python": Key(_PYTHON_KEYS, "a metric of your own, computed in a worker"),
        "limit": Key(
            _limit(_SHARE), " or ".join(each.doc for each in METRICS.values() if each.constant)
        ),
    },
    one_of=(*(metric.value for metric in METRICS), "python"),
    together=tuple((name.value, "limit") for name, each in METRICS.items() if each.constant),
)


def _or_none(kind: Either) -> Either:
    """Return the kind with the word that takes a limit away, for profiles."""
    changed = tuple(
        Single(
            f"{one.what}, or `none`",
            pattern=one.pattern,
            words=("none",),
            numbers=one.numbers,
            why_not=one.why_not,
        )
        if isinstance(one, Single)
        else one
        for one in kind.kinds
    )
    return Either(f"{kind.what}, or `none`", changed)


_TIME = _limit(_DURATION)
_SEQUENCE = Either(
    "a number of updates, a percentage, an interval, or `limit` with `count`",
    (*_limit(_UPDATES).kinds, _SEQUENCE_KEYS),
)
_VALUE = Either(
    "a percentage, a number, an interval, or a metric such as `{relative: 5%}`",
    (*_limit(_DIVERGENCE).kinds, _VALUE_KEYS),
)
_TIME_DOC = "longest time since the action last ran"
_SEQUENCE_DOC = "updates since the last run: a number, or a percentage of the container's elements"
_VALUE_DOC = "divergence since the last run: `5%` of the elements changed, `2` units, or a metric"
DIMENSIONS = ("time", "sequence", "value")

BOUND = Record(
    "the bound",
    {
        "container": Key(
            _name("a container"),
            "what is watched; default the container that the bound is named after",
        ),
        "time": Key(_TIME, _TIME_DOC),
        "sequence": Key(_SEQUENCE, _SEQUENCE_DOC),
        "value": Key(_VALUE, _VALUE_DOC),
        "block": Key(
            _TRUTH,
            "`true`: writers of the container wait from when it is found reached until the action "
            "has run",
        ),
    },
    some_of=DIMENSIONS,
)
_OVERRIDE = Record(
    "the bound's override",
    {
        "time": Key(_or_none(_TIME), _TIME_DOC),
        "sequence": Key(_or_none(_SEQUENCE), _SEQUENCE_DOC),
        "value": Key(_or_none(_VALUE), _VALUE_DOC),
    },
    some_of=DIMENSIONS,
)

_ROW = _text("a row key as text, bytes as \\x00")
_RECTANGLE = {
    "table": Key(
        Single(
            "the name of a table",
            pattern=_TABLE,
            rule="use letters, digits, `_`, `-` and `.`, with a letter, a digit or `_` first; "
            "before it a namespace and a colon, if it has one: `sales:orders`",
        ),
        "the table, with its namespace if it has one",
    ),
    "family": Key(
        Single(
            "the name of a family",
            pattern=_FAMILY,
            rule="write it without space and colon; for a column write `column: family:qualifier`",
        ),
        "a whole column family",
    ),
    "column": Key(
        Either(
            "`family:qualifier` or a list of them",
            (
                Single("`family:qualifier`", pattern=_COLUMN, why_not=_why_no_column),
                ListOf(
                    Single("`family:qualifier`", pattern=_COLUMN, why_not=_why_no_column),
                    "a list of `family:qualifier`",
                ),
            ),
        ),
        "a column, or several that are treated as one container",
    ),
    "row": Key(_ROW, "a single row"),
    "prefix": Key(_ROW, "the rows whose key begins so"),
    "rows": Key(
        ListOf(_ROW, "[first row, first row after]", at_least=2, at_most=2),
        "a range of rows: the first, and the first that no longer belongs to it",
    ),
}
_RECTANGLE_APART = (
    ("family", "column"),
    ("row", "prefix"),
    ("row", "rows"),
    ("prefix", "rows"),
)
_PLACE = Single("a container such as `zones c:concentration`", pattern=PLACE, why_not=_why_no_place)
_ITEM = Record(
    "the item",
    {**_RECTANGLE, "table": Key(_RECTANGLE["table"].kind, _RECTANGLE["table"].doc, required=True)},
    apart=_RECTANGLE_APART,
)
CODECS = {
    "number": CodecName.UTF8,
    "float64": CodecName.FLOAT64,
    "int64": CodecName.INT64,
    "opaque": CodecName.OPAQUE,
}
"""Codecs by the word for them; ``json $.path`` is the only one with a parameter."""


def _why_no_codec(value: str) -> tuple[str, str]:
    if value in {"double", "long"}:
        name = "float64" if value == "double" else "int64"
        return "a codec's name tells its width", f"write `{name}`: HBase's Bytes.toBytes({value})"
    if value.startswith("json"):
        return "the path is missing or no path", "write `json $.key.key` or `json $.list[0]`"
    meant = nearest(value, CODECS)
    question = f"did you mean `{meant}`? " if meant else ""
    return "this is no codec", f"{question}possible: number, float64, int64, opaque, json $.path"


_CONTAINER = Record(
    "the container",
    {
        **_RECTANGLE,
        "group": Key(
            ListOf(
                Either("a container such as `zones c:concentration`", (_PLACE, _ITEM)),
                "a list of containers",
            ),
            "parts of one or several tables that are treated as one container",
        ),
        "codec": Key(
            Single(
                "`number`, `float64`, `int64`, `opaque` or `json $.path`",
                pattern=JSON_PATH,
                words=tuple(CODECS),
                why_not=_why_no_codec,
            ),
            "how values are written: `number` (default) is decimal text, `float64` and `int64` are "
            "8 bytes big-endian, `opaque` is only compared",
        ),
        "count": Key(
            Single("`rows` or `cells`", words=("rows", "cells")),
            "what one element is; default `rows`",
        ),
        "on_undecodable": Key(
            Single("`fail`, `null` or `skip`", words=tuple(OnUndecodable)),
            "what becomes of a value that the codec cannot read when a step reads it: the step "
            "fails, it is null (default), or its row is left out",
        ),
    },
    one_of=("table", "group"),
    apart=(
        *_RECTANGLE_APART,
        *(("group", key) for key in _RECTANGLE if key != "table"),
    ),
)

_BACKOFF = Either(
    "a duration or [first, longest]",
    (_DURATION, ListOf(_DURATION, "two durations, [first, longest]", at_least=2, at_most=2)),
)
_EVALUATION = Single(
    "`write`, `action-end` or `every 30 s`", pattern=EVERY, words=("write", "action-end")
)
_PATHS = Either(
    "a directory or a list of directories",
    (_text("a directory"), ListOf(_text("a directory"), "a list of directories")),
)

STEP_ONLY = (
    "after",
    "reads",
    "writes",
    "when",
    "combine",
    "evaluate",
    "own",
    "retries",
    "timeout",
    "first_changes",
    "launcher",
    "parameters",
)
"""Keys of an action that mean nothing on one that is fed from outside."""

_ACTION = Record(
    "the action",
    {
        "input": Key(
            _names("a container", "containers"), "fed from outside: the containers that it fills"
        ),
        **LAUNCHING,
        "description": Key(_text("a text"), "for people"),
        "after": Key(
            _names("an action", "actions"),
            "actions that must have run before; default those that write what this one reads",
        ),
        "reads": Key(
            _names("a container", "containers"),
            "containers that it reads; those that its bounds watch are read in any case",
        ),
        "writes": Key(_names("a container", "containers"), "containers that it writes"),
        "when": Key(
            MapOf(BOUND, "bounds by name", NAME, "bound", at_least=1),
            "bounds on containers; without any it runs each time its predecessors have run",
        ),
        "combine": Key(
            _text("`all`, `at-least-one`, `majority` or an expression"),
            "which bounds must be reached: `all` (default), `at-least-one`, `majority`, or an "
            "expression such as `a or b and (c or d)`",
        ),
        "evaluate": Key(
            Either(
                f"{_EVALUATION.what}, or a list of them",
                (_EVALUATION, ListOf(_EVALUATION, "a list of evaluation times")),
            ),
            "when bounds are looked at; default `action-end`, or `write` where no action precedes",
        ),
        "own": Key(_TRUTH, "whether the action's own writes to what it watches count"),
        "retries": Key(
            Either(
                "a number of attempts, or `attempts` with `backoff`",
                (
                    Single(
                        "a number of attempts", numbers=Numbers(above=0, at_most=100, whole=True)
                    ),
                    Record(
                        "retries",
                        {
                            "attempts": Key(
                                Single(
                                    "a number of attempts from 1 to 100",
                                    numbers=Numbers(above=0, at_most=100, whole=True),
                                ),
                                "attempts in all, before the action is quarantined",
                            ),
                            "backoff": Key(
                                _BACKOFF,
                                "wait before the second attempt, doubled up to the longest",
                            ),
                        },
                    ),
                ),
            ),
            "how often a failed run is tried, before the action is quarantined",
        ),
        "timeout": Key(_DURATION, "longest time that one attempt may take"),
        "first_changes": Key(
            Single("`snapshot` or `none`", words=tuple(FirstChanges)),
            "what the first run is shown by `run.changes` of a container: all that is there "
            "(`snapshot`, default), or what was written since the submit (`none`)",
        ),
    },
    one_of=("input", *LAUNCHED),
    apart=tuple(("input", key) for key in STEP_ONLY),
    cures={
        "bounds": "did you mean `when`? Bounds stand there",
        "trigger": "did you mean `when`? Bounds stand there",
        "depends_on": "did you mean `after`?",
        "depends": "did you mean `after`?",
        "function": "did you mean `step`?",
    },
)

DATAFLOW = Record(
    "a dataflow",
    {
        "name": Key(
            _name("the dataflow"), "the dataflow's name, unique in the cluster", required=True
        ),
        "description": Key(_text("a text"), "for people"),
        "waves": Key(
            Single(
                "`mark`, `every 5 min` or `quiet 30 s`",
                pattern=rf"(?:every|quiet) {DURATION}",
                words=("mark",),
            ),
            "what ends a wave of input: `headgate flow mark` (default), a period, or a quiet time",
        ),
        **MODE_KEYS,
        "containers": Key(
            MapOf(
                Either("a container such as `zones c:concentration`", (_PLACE, _CONTAINER)),
                "containers by name",
                NAME,
                "container",
            ),
            "parts of tables that actions read, write and watch",
        ),
        "actions": Key(
            MapOf(_ACTION, "actions by name", NAME, "action", at_least=1),
            "the steps, in any order",
            required=True,
        ),
        "profiles": Key(
            MapOf(
                MapOf(
                    MapOf(_OVERRIDE, "bounds by name", NAME, "bound", at_least=1),
                    "actions by name",
                    NAME,
                    "action",
                    at_least=1,
                ),
                "profiles by name",
                NAME,
                "profile",
            ),
            "other limits for the same bounds, chosen when the dataflow is submitted",
        ),
        "adjustment": Key(
            ADJUSTMENT, "how limits that are intervals follow the writes and the machines' load"
        ),
        "concurrency": Key(
            Single("a number of attempts", numbers=Numbers(above=0, at_most=1000, whole=True)),
            "how many steps may run at a time; default 4",
        ),
        "priority": Key(
            Single("a whole number", numbers=Numbers(whole=True)),
            "over other dataflows where an agent has more to run than it may; default 0",
        ),
        "significance": Key(
            SIGNIFICANCE, "the change of the output that matters, from which limits are found"
        ),
        "spark": Key(
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
        "spark_pool": Key(
            _name("a pool"),
            "dataflows that name the same pool, with equal `spark` and `python_path`, share one "
            "Spark session on each agent",
        ),
        "oozie": Key(
            Record(
                "the workflow",
                {
                    "workflow": Key(
                        _text("the XML of a workflow"),
                        "the Oozie workflow that this was imported from, without its bounds",
                        required=True,
                    ),
                    "decisions": Key(
                        MapOf(_name("a branch"), "branches by decision", NAME, "decision"),
                        "by decision, the branch that was taken at the import, or `all`",
                    ),
                },
            ),
            "written by `headgate flow import`, read by `headgate flow export`",
        ),
        "python_path": Key(
            _PATHS, "where the steps' modules are, relative to this file; default its own directory"
        ),
    },
)
"""The whole file."""
