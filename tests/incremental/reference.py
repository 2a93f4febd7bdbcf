"""A stage as the paper says what it is, in memory and group by group: what the real one must equal.

Nothing of the room's own routing, matching or storing is used here, only the stage's functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from headgate.incremental import STATE, Adu, Keys, Match, Outer, Route, Stage


def canonical(key: Any) -> Any:
    """A key such that equal ones are the same: all NaNs are one, -0.0 is 0.0, 1 is not 1.0."""
    if isinstance(key, tuple):
        return ("tuple", tuple(canonical(part) for part in key))
    if isinstance(key, float):
        return ("float", "nan" if math.isnan(key) else key + 0.0)
    return (type(key).__name__, key)


def by(columns: Any, row: Adu) -> Any:
    """What columns or a function say of a row."""
    if isinstance(columns, str):
        return row[columns]
    if isinstance(columns, tuple):
        return tuple(row[name] for name in columns)
    return columns(row)


class ReferenceStage:
    """The state of a stage as lists of rows, and its epochs."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage.spec
        self.state: dict[Any, list[Adu]] = {}
        self.keys: dict[Any, Any] = {}
        self.waiting: dict[str, list[Adu]] = {}
        """Units of all groups that came when there was no group, by flow."""

    def epoch(self, increments: Mapping[str, Iterable[Adu]]) -> dict[str, list[Adu]]:
        """Return what one epoch puts out, by flow."""
        stage = self.stage
        assert stage.translate is not None
        arrived: dict[Any, dict[str, list[Adu]]] = {}
        everywhere = {flow: self.waiting.pop(flow, []) for flow in stage.inputs}
        for name, flow in stage.inputs.items():
            for number, row in enumerate(increments.get(name, ())):
                if flow.route_by is Route.EACH:
                    place = ("unit", name, number)
                    self.keys[place] = None
                    arrived[place] = {name: [row]}
                    continue
                for key in self._groups(flow.route_by, row):
                    if key is Route.ALL:
                        everywhere[name].append(row)
                        continue
                    place = canonical(key)
                    self.keys[place] = 0.0 if place == ("float", 0.0) else key
                    arrived.setdefault(place, {}).setdefault(name, []).append(row)
        groups = list(arrived)
        loopback = stage.state
        if loopback is not None and loopback.outer is Outer.FULL:
            groups = list(dict.fromkeys([*groups, *self.state]))
        if not groups:
            self.waiting = everywhere
        outputs: dict[str, list[Adu]] = {flow: [] for flow in stage.outputs}
        local: dict[Any, list[Adu]] = {}
        remote: list[tuple[Any, Adu]] = []
        for place in groups:
            given: dict[str, list[Adu]] = {}
            for name, flow in stage.inputs.items():
                came = self._ordered(flow.order_by, arrived.get(place, {}).get(name, []))
                given[name] = everywhere[name] + came
            kept: list[Adu] = []
            if loopback is not None:
                shown, kept = self._matched(place, given)
                given[STATE] = self._ordered(loopback.order_by, shown)
            made = stage.translate(self.keys[place], given)
            for flow_name, rows in made.items():
                if flow_name != STATE:
                    outputs[flow_name].extend(dict(row) for row in rows)
                    continue
                local.setdefault(place, [])
                for row in rows:
                    assert loopback is not None
                    home = (
                        self.keys[place]
                        if loopback.route_by is None
                        else by(loopback.route_by, row)
                    )
                    if canonical(home) in groups:
                        local.setdefault(canonical(home), []).append(dict(row))
                    else:
                        self.keys[canonical(home)] = home
                        remote.append((canonical(home), dict(row)))
            local.setdefault(place, []).extend(kept)
        for place in groups if loopback is not None else ():
            rows = local.get(place, [])
            if rows:
                self.state[place] = rows
            else:
                self.state.pop(place, None)
        for place, row in remote:
            self._add(place, row)
        return outputs

    def _groups(self, route_by: Any, row: Adu) -> list[Any]:
        if route_by is Route.NONE:
            return []
        if route_by is Route.ALL:
            return [Route.ALL]
        key = by(route_by, row)
        if key is Route.NONE:
            return []
        if isinstance(key, Keys):
            return list({canonical(one): one for one in key.keys}.values())
        return [key]

    def _matched(self, place: Any, given: Mapping[str, list[Adu]]) -> tuple[list[Adu], list[Adu]]:
        """What a group's translation is shown of its state, and what stays without it."""
        rows = self.state.get(place, [])
        loopback = self.stage.state
        assert loopback is not None
        if loopback.match is Match.GROUP or loopback.outer is Outer.FULL:
            return rows, []
        orders = {canonical(None)}
        for name, flow in self.stage.inputs.items():
            if flow.order_by is not None:
                orders |= {canonical(by(flow.order_by, row)) for row in given[name]}
        shown = [row for row in rows if canonical(by(loopback.order_by, row)) in orders]
        return shown, [row for row in rows if row not in shown]

    def _ordered(self, order_by: Any, rows: list[Adu]) -> list[Adu]:
        if order_by is None:
            return rows
        return sorted(rows, key=lambda row: _sortable(by(order_by, row)))

    def _add(self, place: Any, row: Adu) -> None:
        loopback = self.stage.state
        assert loopback is not None
        known = self.state.setdefault(place, [])
        if loopback.match is Match.ROW:
            order = canonical(by(loopback.order_by, row))
            known[:] = [each for each in known if canonical(by(loopback.order_by, each)) != order]
        known.append(row)


def _sortable(value: Any) -> Any:
    if isinstance(value, tuple):
        return (6, tuple(_sortable(part) for part in value))
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (3, math.inf, 1) if math.isnan(value) else (3, value, 0)
    return ({bool: 1, int: 2, str: 4, bytes: 5}[type(value)], value)


def bag(rows: Iterable[Adu]) -> list[str]:
    """Rows in any order, comparable."""
    return sorted(repr(sorted(row.items(), key=repr)) for row in rows)
