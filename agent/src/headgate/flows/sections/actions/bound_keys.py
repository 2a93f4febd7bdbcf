"""What a bound may say, and what a profile may say of it instead."""

from __future__ import annotations

from collections.abc import Callable

from headgate.engine import METRICS, Metric, ValueMetric
from headgate.flows.grammar.kinds import Either, Key, ListOf, Numbers, RecordOf, Single
from headgate.flows.grammar.quantities import PERCENTAGE, why_no_percentage
from headgate.flows.grammar.values import DURATION_VALUE, TRUTH_VALUE, name_value
from headgate.flows.launchers.step import ENTRY


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


def _why_no_units(metric: Metric) -> Callable[[str], tuple[str, str]]:
    def why_not(value: str) -> tuple[str, str]:
        if "%" in value:
            return (
                f"`{metric}` is in the values' own units, not in percent",
                f"write `{metric}: 2`, or `relative: {value}`",
            )
        return _why_no_divergence(value)

    return why_not


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


def _limit(single: Single) -> Either:
    pair = ListOf(single, f"two limits, [min, max], each {single.what}", at_least=2, at_most=2)
    return Either(f"{single.what} or an interval [min, max]", (single, pair))


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
_OWN_UNITS = Single("a number above zero", numbers=Numbers(above=0))

_SEQUENCE_KEYS = RecordOf(
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


def _metric_key(name: Metric, metric: ValueMetric) -> Key:
    if metric.constant:
        return Key(Single("a number above zero", numbers=Numbers(above=0)), metric.constant)
    if metric.percent:
        return Key(_limit(_SHARE), metric.doc)
    units = Single(
        "a number in the values' units", numbers=Numbers(above=0), why_not=_why_no_units(name)
    )
    return Key(_limit(units), metric.doc)


METRIC_VALUE = Single(
    "`module:Class`",
    pattern=ENTRY,
    rule="write the module, a colon, the class: `metrics:Spread`",
)
METRIC_CLASS = Key(
    METRIC_VALUE,
    "a class with `process_element`, `aggregate` and `compute`",
    required=True,
)
"""How a file names a metric of its own."""
_PYTHON_KEYS = RecordOf(
    "the metric",
    {
        "class": METRIC_CLASS,
        "limit": Key(_limit(_OWN_UNITS), "in the metric's own units", required=True),
    },
)
_VALUE_KEYS = RecordOf(
    "the value",
    {
        **{metric.value: _metric_key(metric, each) for metric, each in METRICS.items()},
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


_TIME = _limit(DURATION_VALUE)
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

BOUND = RecordOf(
    "the bound",
    {
        "container": Key(
            name_value("a container"),
            "what is watched; default the container that the bound is named after",
        ),
        "time": Key(_TIME, _TIME_DOC),
        "sequence": Key(_SEQUENCE, _SEQUENCE_DOC),
        "value": Key(_VALUE, _VALUE_DOC),
        "block": Key(
            TRUTH_VALUE,
            "`true`: writers of the container wait from when it is found reached until the action "
            "has run",
        ),
    },
    some_of=DIMENSIONS,
)
OVERRIDE = RecordOf(
    "the bound's override",
    {
        "time": Key(_or_none(_TIME), _TIME_DOC),
        "sequence": Key(_or_none(_SEQUENCE), _SEQUENCE_DOC),
        "value": Key(_or_none(_VALUE), _VALUE_DOC),
    },
    some_of=DIMENSIONS,
)
