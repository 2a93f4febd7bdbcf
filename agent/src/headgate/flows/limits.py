"""Limits in the text of a dataflow file, made wider or narrower where they stand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

import yaml

from headgate.flows.grammar.quantities import DURATION

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_VECTORS = ("time", "sequence", "value")
_FIXED = frozenset({"against", "class", "count", "container"})
"""Keys within a limit that are no limits: a reference, a way of counting."""
_SHORTEST = "1 ms"
"""The shortest duration that a file may name."""
_DIGITS = 3
"""Significant digits of a limit that was computed: more would only look exact."""


def bounded_actions(source: str) -> tuple[str, ...]:
    """Return the actions of a dataflow file that have bounds, in its order."""
    return tuple(name for name, body in _actions(source) if _entry(body, "when") is not None)


def scale_limits(source: str, factors: Mapping[str, float], fresh: Mapping[str, str]) -> str:
    """Return a dataflow file with other limits; comments and order stay.

    Where more than 100 % can't be reached (distinct and changed elements) no limit gets above it.
    A limit that several actions share by an anchor is changed once.

    Args:
        source: the text of a file that is in order.
        factors: what each action's limits are multiplied by; 1 where an action is not named.
        fresh: by action without bounds, the container on which it gets a sequence bound of 1 % of
            the elements times its factor. An action that is in neither mapping stays as it is.
    """
    changes: dict[tuple[int, int], str] = {}
    for name, body in _actions(source):
        factor = factors.get(name, 1.0)
        when = _entry(body, "when")
        if when is not None:
            for node, vector, most in _limits(when):
                text = _scaled(source, node, factor, most)
                if text is not None and vector == "time" and not re.fullmatch(DURATION, text):
                    text = _SHORTEST
                if text is not None:
                    changes[node.start_mark.index, node.end_mark.index] = text
        elif name in fresh:
            at, text = _insertion(body, fresh[name], factor)
            changes[at, at] = text
    for (start, end), text in sorted(changes.items(), reverse=True):
        source = source[:start] + text + source[end:]
    return source


def _actions(source: str) -> Iterator[tuple[str, yaml.MappingNode]]:
    root = yaml.compose(source, Loader=yaml.SafeLoader)
    actions = _entry(root, "actions")
    for key, body in actions.value if actions is not None else ():
        if isinstance(body, yaml.MappingNode):
            yield key.value, body


def _entry(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _limits(when: yaml.Node) -> Iterator[tuple[yaml.ScalarNode, str, float]]:
    """Yield each limit with its vector and the percentage above which it could not be reached."""
    for _, bound in when.value:
        for vector in _VECTORS:
            limit = _entry(bound, vector)
            most = _WHOLE if _of_elements(vector, limit) else math.inf
            for node in _scalars(limit):
                yield node, vector, most


def _of_elements(vector: str, limit: yaml.Node | None) -> bool:
    """Return whether percentages are of elements, each of which counts once."""
    if vector == "value":
        return not isinstance(limit, yaml.MappingNode) or _entry(limit, "changed") is not None
    count = _entry(limit, "count")
    return count is not None and count.value == "distinct"


def _scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    match node:
        case yaml.ScalarNode():
            yield node
        case yaml.SequenceNode():
            for item in node.value:
                yield from _scalars(item)
        case yaml.MappingNode():
            for key, value in node.value:
                if key.value not in _FIXED:
                    yield from _scalars(value)
        case _:
            return


def _scaled(source: str, node: yaml.ScalarNode, factor: float, most: float) -> str | None:
    text = source[node.start_mark.index : node.end_mark.index]
    if factor == 1 or not _NUMBER.search(text):
        return None
    whole = _NUMBER.fullmatch(text) is not None and "." not in text

    ceiling = most if "%" in text else math.inf

    def times(found: re.Match[str]) -> str:
        value = min(float(found[0]) * factor, ceiling)
        return _figure(value, whole=whole and float(found[0]) >= _COUNTS)

    return _NUMBER.sub(times, text)


_WHOLE = 100.0  # percent
_COUNTS = 10
"""A bare whole number from here on stays whole: it counts updates."""


def _figure(value: float, *, whole: bool) -> str:
    if whole:
        return str(max(1, round(value)))
    rounded = float(f"{value:.{_DIGITS}g}")
    text = f"{rounded:.9f}".rstrip("0").rstrip(".")
    return text if float(text) else "0.000000001"


def _insertion(body: yaml.MappingNode, container: str, factor: float) -> tuple[int, str]:
    bound = f"when: {{{container}: {{sequence: {_figure(factor, whole=False)}%}}}}"
    at = body.start_mark.index
    if body.flow_style:
        return at + 1, f"{bound}, "
    return at, f"{bound}\n{' ' * body.start_mark.column}"
