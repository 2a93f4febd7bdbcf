"""The dataflow of ``aqhi.yaml`` for another city, with other bounds, or with none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

DATAFLOW_FILE = Path(__file__).with_name("aqhi.yaml")
"""The dataflow that people read; all variants are made from it."""

SENSORS_TABLE = "aqhi-sensors"
"""The input, which all variants share."""

INPUT_ACTION = "feed"
"""The action that is fed from outside."""

_PREFIX = "aqhi-"
_TENTH = 10


class City(Struct, frozen=True):
    """The properties in which inputs differ."""

    side: int
    """Detectors along each side."""
    reference: float
    """A zone above it is a hotspot."""
    charts: Path
    """The folder for step D's charts."""


def dataflow(name: str, city: City, sigma: float | None, pool: str = "") -> str:
    """Return the text of a dataflow file.

    Times are left out: waves follow each other as fast as they are computed, or as a record has
    them, so that hours mean nothing or hide what the other bounds do.

    Args:
        name: of the dataflow, and of its own tables: ``name-detectors`` and so on.
        city: the input's properties.
        sigma: the bound of step C in percent of the detectors; None takes all bounds away, so that
            every step runs after every wave.
        pool: of the dataflows that share a Spark session; empty: it has one of its own.
    """
    tree: dict[str, Any] = yaml.safe_load(DATAFLOW_FILE.read_text(encoding="utf-8"))
    tree["name"] = name
    tree["containers"] = {
        container: _renamed(place, name) for container, place in tree["containers"].items()
    }
    actions: dict[str, Any] = tree["actions"]
    for action, body in actions.items():
        parameters = body.get("parameters", {})
        values = {
            "side": city.side,
            "reference": city.reference,
            "chart": str(city.charts / f"{name}.png"),
        }
        parameters.update({key: values[key] for key in parameters})
        if sigma is None and action != INPUT_ACTION:
            del body["when"]
        for bound in body.get("when", {}).values():
            del bound["time"]
    if sigma is not None:
        actions["zones"]["when"]["detectors"]["sequence"] = f"{sigma:g}%"
        actions["index"]["when"]["hotspots"]["value"]["against"] = city.reference / _TENTH
    if pool:
        tree["spark_pool"] = pool
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def bounds_in_words(text: str) -> str:
    """Return the bounds of a dataflow file, one action after another: ``zones σ 20%``."""
    actions: dict[str, Any] = yaml.safe_load(text)["actions"]
    return "; ".join(
        f"{action} {_in_words(bound)}"
        for action, body in actions.items()
        for bound in body.get("when", {}).values()
    )


def _renamed(place: str | dict[str, Any], name: str) -> str | dict[str, Any]:
    if isinstance(place, dict):
        return {**place, "table": _table(place["table"], name)}
    table, _, column = place.partition(" ")
    return f"{_table(table, name)} {column}"


def _table(table: str, name: str) -> str:
    return table if table == SENSORS_TABLE else f"{name}-{table.removeprefix(_PREFIX)}"


def _in_words(bound: dict[str, Any]) -> str:
    match bound:
        case {"sequence": limit}:
            return f"σ {limit}"
        case {"value": {"against": constant, "limit": limit}}:
            return f"ν {limit} of {constant:g}"
        case {"value": {"relative": limit}}:
            return f"ν {limit} relative"
        case {"value": {"absolute": limit}}:
            return f"ν {limit} units"
        case _:
            return ", ".join(f"{vector} {limit}" for vector, limit in bound.items())
