"""The formulas of steps B to F (Fluχ, "Prototypical scenario") over whole grids of detectors.

The paper names the kind of each model and leaves the formulas open; these are ours. The PySpark
steps compute the same numbers from the tables; this is what they are checked against.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Square = NDArray[np.float64]

SENSORS = ("o3", "pm25", "no2")
"""The three sensors of a detector, in the order of every array of readings."""

SENSOR_WEIGHTS = (0.000537, 0.000487, 0.000871)
"""Weights of the sensors: the slopes of Canada's index per unit of O3, PM2.5 and NO2."""

ZONE_REACH = 2
"""A zone is the square of the detectors up to this distance from its middle, in every direction."""

ZONE_RESOLUTION = 0.5
"""Units in whose steps the concentration of a zone is stored: less than that is no change."""

HOTSPOT_REFERENCE = 55.0
"""A zone whose concentration is above it is a hotspot."""

INDEX_PER_PERCENT = 0.1
"""Index points for every percent of the zones that are hotspots."""

INDEX_PER_UNIT = 0.02
"""Index points for every unit of the hotspots' mean concentration."""


class Risk(StrEnum):
    """The paper's classes of health risk."""

    LOW = "low"
    MODERATE = "moderate"
    HIGH = "high"
    VERY_HIGH = "very high"


def combined(readings: NDArray[np.float64]) -> Square:
    """Step B: the combined concentration of a detector, 0 to 100.

    The mean of the sensors that have reported, weighted by :data:`SENSOR_WEIGHTS`.

    Args:
        readings: 0 to 100 each, last axis O3, PM2.5, NO2; NaN for a sensor that never reported.

    Returns:
        The readings' shape without its last axis; NaN where no sensor has reported.
    """
    weights = np.where(np.isnan(readings), 0.0, np.asarray(SENSOR_WEIGHTS))
    total = weights.sum(axis=-1)
    weighted = (np.nan_to_num(readings) * weights).sum(axis=-1)
    unknown: Square = np.full(total.shape, np.nan)
    np.divide(weighted, total, out=unknown, where=total > 0)
    return unknown


def zones(concentration: Square) -> Square:
    """Step C: the concentration of every detector's zone, 0 to 100, same shape.

    The multiplicative model is the geometric mean of the zone's detectors, shifted by one so that a
    single clean detector does not make a whole zone clean: (∏(1 + x))^(1/m) − 1 over the zone's m
    detectors (25 inside, fewer at the city's edge).
    """
    reach = ZONE_REACH
    logs = np.pad(np.log1p(concentration), reach, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(logs, (2 * reach + 1, 2 * reach + 1))
    result: Square = np.expm1(np.nanmean(windows, axis=(2, 3)))
    return result


def stored(zone_concentration: Square, resolution: float = ZONE_RESOLUTION) -> Square:
    """Step C: what is written of the zones, in steps of ``resolution`` units."""
    result: Square = np.round(zone_concentration / resolution) * resolution
    return result


def city_map(concentration: Square) -> Square:
    """Step D: the concentration of the points between detectors.

    Every point is the mean of the four detectors around it: side n gives n − 1 points each way.
    """
    corners = (
        concentration[:-1, :-1],
        concentration[:-1, 1:],
        concentration[1:, :-1],
        concentration[1:, 1:],
    )
    result: Square = np.mean(corners, axis=0)
    return result


def hotspots(zone_concentration: Square, reference: float = HOTSPOT_REFERENCE) -> Square:
    """Step E: the concentration of the zones above the reference, 0 for the others."""
    return np.where(zone_concentration > reference, zone_concentration, 0.0)


def index(hotspot_concentration: Square) -> float:
    """Step F: the index, from 1 (no hotspot) to 13 (the whole city at 100).

    The additive model is 1 + 0.1 · percentage of zones that are hotspots + 0.02 · their mean
    concentration: half the city at 60 units is 7.2, high; all of it at 80 units 12.6, very high.
    """
    hot = hotspot_concentration[hotspot_concentration > 0]
    if hot.size == 0:
        return 1.0
    percentage = 100.0 * hot.size / hotspot_concentration.size
    return float(1.0 + INDEX_PER_PERCENT * percentage + INDEX_PER_UNIT * hot.mean())


def risk(value: float) -> Risk:
    """Return the class of an index, rounded to whole points: 1-3, 4-6, 7-10, above 10."""
    points = round(value)
    if points <= 3:
        return Risk.LOW
    if points <= 6:
        return Risk.MODERATE
    return Risk.HIGH if points <= 10 else Risk.VERY_HIGH
