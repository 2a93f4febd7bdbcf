"""Bounds and conditions: from matched trees to what the engine evaluates."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from headgate.engine import (
    METRICS,
    Bound,
    Codec,
    CodecName,
    Condition,
    ConditionError,
    Interval,
    Limit,
    Metric,
    SequenceBound,
    SequenceUnit,
    UserMetric,
    ValueBound,
    at_least_one,
    bounds_of,
    definition_of,
    majority,
    parse_condition,
)
from headgate.events import ContainerId
from headgate.flows.grammar.problems import Findings, Position, suggestion
from headgate.flows.grammar.quantities import duration_seconds, percentage_points
from headgate.flows.grammar.tree import (
    Entry,
    Items,
    Mapping,
    Scalar,
    Tree,
    number_or_text,
    scalars_of,
    text_of,
)

RESERVED = ("all", "and", "at-least-one", "majority", "not", "or")
"""Words of the condition algebra, which can't name a bound."""


def read_bound(name: str, container: ContainerId, tree: Mapping, findings: Findings) -> Bound:
    """Return the bound that a matched tree describes."""
    block = tree.get("block")
    blocks = isinstance(block, Scalar) and block.value is True
    return _with_dimensions(Bound(name, container, block=blocks), tree, findings)


def overridden(bound: Bound, tree: Mapping, findings: Findings) -> Bound:
    """Return the bound with the limits of a profile; the word ``none`` takes one away."""
    changed = _with_dimensions(bound, tree, findings)
    if changed.time is None and changed.sequence is None and changed.value is None:
        findings.error(
            tree.at,
            f"the profile takes every limit of bound `{bound.name}` away",
            "leave at least one of time, sequence and value",
        )
    return changed


def _with_dimensions(bound: Bound, tree: Mapping, findings: Findings) -> Bound:
    changes: dict[str, Limit | SequenceBound | ValueBound | None] = {}
    for dimension, read in (("time", _time), ("sequence", _sequence), ("value", _value)):
        written = tree.get(dimension)
        if isinstance(written, Scalar) and written.value == "none":
            changes[dimension] = None
        elif written is not None:
            changes[dimension] = read(written, findings)
    return msgspec.structs.replace(bound, **changes)


def _time(tree: Tree, findings: Findings) -> Limit | None:
    return _limit(tree, lambda one: duration_seconds(number_or_text(one)), findings)


def _sequence(tree: Tree, findings: Findings) -> SequenceBound | None:
    distinct = False
    limit: Tree | None = tree
    if isinstance(tree, Mapping):
        match tree.get("count"):
            case Scalar(text="distinct"):
                distinct = True
        limit = tree.get("limit")
    if limit is None or not _alike(limit, findings):
        return None
    unit = SequenceUnit.PERCENT if _in_percent(limit) else SequenceUnit.UPDATES
    number = _limit(limit, _plain_or_points, findings)
    if distinct and unit is SequenceUnit.PERCENT:
        _check_reachable(limit, "distinct elements", findings)
    return None if number is None else SequenceBound(number, unit, distinct)


def _value(tree: Tree, findings: Findings) -> ValueBound | None:
    if not isinstance(tree, Mapping):
        metric = Metric.CHANGED if _in_percent(tree) else Metric.ABSOLUTE
        return _value_bound(metric, tree, None, findings) if _alike(tree, findings) else None
    own = tree.get("python")
    if isinstance(own, Mapping):
        limit, entry = own.get("limit"), text_of(own.get("class"))
        number = None if limit is None else _limit(limit, _plain_or_points, findings)
        return None if number is None else ValueBound(UserMetric(entry), number)
    constant = None
    for metric in Metric:
        written = tree.get(metric)
        if written is None:
            continue
        if METRICS[metric].constant:
            constant = float(number_or_text(written)) if isinstance(written, Scalar) else None
            written = tree.get("limit")
        return None if written is None else _value_bound(metric, written, constant, findings)
    return None


def _value_bound(
    metric: Metric, tree: Tree, constant: float | None, findings: Findings
) -> ValueBound | None:
    if METRICS[metric].percent:
        limit = _limit(tree, lambda one: percentage_points(one.text) / 100, findings)
    else:
        limit = _limit(tree, _plain_or_points, findings)
    if METRICS[metric].part:
        _check_reachable(tree, METRICS[metric].part, findings)
    return None if limit is None else ValueBound(metric, limit, constant)


def _check_reachable(tree: Tree, what: str, findings: Findings) -> None:
    for one in scalars_of(tree):
        if percentage_points(one.text) > 100:  # per cent
            findings.error(
                one.at,
                f"`{one.text}`: {what} are never more than 100% of the elements",
                "write at most `100%`",
            )


def _limit(tree: Tree, number: Callable[[Scalar], float], findings: Findings) -> Limit | None:
    match tree:
        case Scalar():
            return float(number(tree))
        case Items(values=(Scalar() as low, Scalar() as high)):
            interval = Interval(float(number(low)), float(number(high)))
            if interval.minimum > interval.maximum:
                findings.error(
                    tree.at,
                    f"in [{low.text}, {high.text}] the minimum is above the maximum",
                    f"write [{high.text}, {low.text}]",
                )
            return interval
        case _:
            return None


def _alike(tree: Tree, findings: Findings) -> bool:
    percent = {_in_percent(one) for one in scalars_of(tree)}
    if len(percent) > 1:
        findings.error(
            tree.at,
            "one end of the interval is a percentage and the other is not",
            "write both in the same way",
        )
    return len(percent) == 1


def _in_percent(tree: Tree) -> bool:
    return any(isinstance(one.value, str) for one in scalars_of(tree))


def _plain_or_points(one: Scalar) -> float:
    value = number_or_text(one)
    return percentage_points(value) if isinstance(value, str) else value


_MAX_PARENTHESES = 40  # in each other; a condition that people understand has two or three


def read_condition(written: Scalar, bounds: Iterable[str], findings: Findings) -> Condition | None:
    """Return the condition of ``combine``; None for ``all``, and after an error."""
    names = tuple(bounds)
    match written.text:
        case "all":
            return None
        case "at-least-one":
            return at_least_one(names)
        case "majority":
            return majority(names)
    if _depth(written.text) > _MAX_PARENTHESES:
        findings.error(
            written.at,
            f"more than {_MAX_PARENTHESES} parentheses lie in each other",
            "make the expression flatter",
        )
        return None
    try:
        condition = parse_condition(written.text)
    except ConditionError as error:
        at, place = _inside(written, error.position)
        findings.error(
            at,
            f"`{written.text}` is no condition{place}: {error}",
            "write `all`, `at-least-one`, `majority`, or bounds with `and`, `or` and parentheses",
        )
        return None
    _check_names(written, condition, names, findings)
    return condition


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    return deepest


def _inside(written: Scalar, offset: int) -> tuple[Position, str]:
    if written.text_at is None:
        return written.at, f" at its character {offset + 1}"
    return Position(written.text_at.line, written.text_at.column + offset), ""


def _check_names(
    written: Scalar, condition: Condition, bounds: tuple[str, ...], findings: Findings
) -> None:
    used = bounds_of(condition)
    for name in used:
        if name not in bounds:
            at, _ = _inside(written, _place_of(name, written.text))
            findings.error(
                at,
                f"`{name}` is no bound of this action",
                suggestion(name, {*bounds, *_WHOLE}, "bound"),
            )
    for name in bounds:
        if name not in used:
            findings.warning(
                written.at,
                f"bound `{name}` is not in the expression, so it decides nothing",
                f"add it to the expression, or remove it from `when`: `{written.text}`",
            )


_WHOLE = ("all", "at-least-one", "majority")


def _place_of(name: str, text: str) -> int:
    words = text.replace("(", " ").replace(")", " ")
    return f" {words} ".index(f" {name} ") if f" {name} " in f" {words} " else 0


def check_bound_name(name: str, entry: Entry, findings: Findings) -> None:
    """Note a bound that is named like a word of the condition algebra."""
    if name.lower() in RESERVED:
        findings.error(
            entry.key.at,
            f"`{name}` is a word of the condition algebra and can't name a bound",
            "give the bound another name, and say with `container:` what it watches",
        )


def check_codec(bound: Bound, codec: Codec, at: Position, findings: Findings) -> None:
    """Note a metric that needs numbers where the container's values have none."""
    if (
        bound.value is not None
        and definition_of(bound.value.metric).numeric
        and codec.name is CodecName.OPAQUE
    ):
        findings.error(
            at,
            f"`{bound.value.metric}` needs numbers; the values of `{bound.container}` are opaque",
            f"give `{bound.container}` a codec such as `number`, or use `changed`",
        )
