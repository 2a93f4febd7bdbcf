"""Durations, percentages and counts as people write them."""

from __future__ import annotations

import re

SECONDS_OF = {
    "ms": 0.001,
    "millisecond": 0.001,
    "milliseconds": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}
"""Seconds in each unit of a duration."""

_DIGITS = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_ABOVE_ZERO = r"(?=[^1-9]*[1-9])"
_UNIT = "|".join(sorted(SECONDS_OF, key=len, reverse=True))
_SPOKEN = rf"{_DIGITS} ?(?:{_UNIT})(?: {_DIGITS} ?(?:{_UNIT})){{0,3}}"
_ISO = rf"P(?!$)(?:{_DIGITS}D)?(?:T(?=[0-9])(?:{_DIGITS}H)?(?:{_DIGITS}M)?(?:{_DIGITS}S)?)?"

LEAST_SECONDS = 0.001
"""Shorter durations are refused: what repeats every microsecond does nothing else."""
MOST_SECONDS = 1e12
"""More than three thousand decades; an infinite duration is none."""


def _from(decimals: int, units: str) -> str:
    """Return the pattern of a part that is not zero up to some digits after the point."""
    number = r"[0-9]*[1-9][0-9]*(?:\.[0-9]+)?"
    if decimals:
        number += rf"|[0-9]+\.0{{0,{decimals - 1}}}[1-9][0-9]*"
    return rf"(?:{number}) ?(?:{units})(?![A-Za-z])"


# A millisecond or more: of smaller units more digits count, so that no part is below it.
_LONG_ENOUGH = "|".join(
    (
        _from(0, "milliseconds?|ms"),
        _from(3, "seconds?|sec|s|S"),
        _from(4, "minutes?|min|m|M"),
        _from(6, "hours?|h|H"),
        _from(7, "days?|d|D"),
    )
)

# Written so that Python and JSON Schema (ECMA 262) read them alike.
DURATION = rf"(?=(?:.*[^0-9.])?(?:{_LONG_ENOUGH}))(?:{_SPOKEN}|{_ISO})"
"""Pattern of a millisecond or more: ``30 s``, ``1 h 30 min``, or ISO 8601 such as ``PT5M``."""

PERCENTAGE = rf"{_ABOVE_ZERO}{_DIGITS} ?%"
"""Pattern of a percentage above zero, such as ``5%`` or ``0.5 %``."""

_SPOKEN_PART = re.compile(rf"({_DIGITS}) ?({_UNIT})(?: |$)")
_ISO_PART = re.compile(rf"({_DIGITS})([DHMS])")
_ISO_SECONDS = {"D": 86400.0, "H": 3600.0, "M": 60.0, "S": 1.0}


def duration_seconds(value: str | float) -> float:
    """Return the seconds of a duration that matches ``DURATION``; a number is seconds already."""
    if not isinstance(value, str):
        return float(value)
    if value.startswith("P"):
        parts = _ISO_PART.findall(value)
        return sum(float(number) * _ISO_SECONDS[unit] for number, unit in parts)
    return sum(float(number) * SECONDS_OF[unit] for number, unit in _SPOKEN_PART.findall(value))


def percentage_points(value: str) -> float:
    """Return the number before the sign of a percentage that matches ``PERCENTAGE``."""
    return float(value.rstrip("% "))


def why_no_duration(value: str) -> tuple[str, str]:
    """Return what is wrong with a text that is no duration, and the cure."""
    if "%" in value:
        return "a time is no percentage", "write a duration such as `30 s` or `5 min`"
    if value.lstrip().startswith("-"):
        return "a time can't be negative", "write a duration above zero, such as `30 s`"
    if re.fullmatch(rf"{_SPOKEN}|{_ISO}|[0-9.]+|[0-9.]+[eE]-[0-9]+", value):
        cure = "write a duration such as `30 s`"
        return "a time must be above zero, and a millisecond at least", cure
    if re.fullmatch(r"[+]?\.?(?:inf|nan)|[0-9.]+[eE]\+?[0-9]+", value, re.IGNORECASE):
        return "a time must have an end", "leave the key out where there is to be no limit"
    unit = re.fullmatch(rf"{_DIGITS} ?([A-Za-zµ]+)", value)
    if unit:
        return (
            f"`{unit[1]}` is no unit of time",
            "units are ms, s, min, h, d: for example `30 s` or `5 min`",
        )
    return (
        "this is no duration",
        "write for example `30 s`, `5 min`, `1 h 30 min`, `PT5M` or seconds",
    )


def why_no_percentage(value: str) -> tuple[str, str]:
    """Return what is wrong with a text that is no percentage, and the cure."""
    if value.strip() == "%":
        return "a percentage of nothing", "write the number before the sign, such as `5%`"
    if value.lstrip().startswith("-"):
        return "a percentage can't be negative", "write one above zero, such as `5%`"
    if re.fullmatch(rf"{_DIGITS} ?%", value):
        return (
            "a bound of 0% is always reached",
            "write a percentage above zero; to run at every change use `sequence: 1`",
        )
    return "this is no percentage", "write a number and the sign, such as `5%`"
