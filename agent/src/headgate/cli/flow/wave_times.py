"""Times of waves as people write them."""

from __future__ import annotations

import math
from datetime import datetime

from headgate.settings import ConfigurationError


def wave_time(text: str) -> float:
    """Return the Unix seconds of a time: ISO 8601 with an offset or ``Z``, or Unix seconds.

    Raises:
        ConfigurationError: it is none, or has no offset.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = _iso_seconds(text)
    if not math.isfinite(seconds):
        raise ConfigurationError(_refusal(text))
    return seconds


def _iso_seconds(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(_refusal(text)) from error
    if moment.tzinfo is None:
        whole = moment.isoformat()
        raise ConfigurationError(
            f"--time {text}: whose time is it? Give its offset, as in {whole}Z or {whole}+01:00"
        )
    return moment.timestamp()


def _refusal(text: str) -> str:
    return (
        f"--time {text}: write a time as 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+01:00, or "
        "Unix seconds"
    )
