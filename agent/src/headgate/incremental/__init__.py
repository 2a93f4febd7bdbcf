"""Incremental stages: functions with a loopback state that cost what changed, on Spark.

Importing this room does not import PySpark.
"""

from headgate.incremental import library
from headgate.incremental.stage import Stage
from headgate.incremental.stages.errors import StageError, TranslationFailed
from headgate.incremental.stages.specification import (
    GROUP,
    STATE,
    Adu,
    Computed,
    Groups,
    InputFlow,
    Keys,
    Outer,
    Route,
    StateFlow,
)
from headgate.incremental.state.keys import Key
from headgate.incremental.state.rows import Match

__all__ = [
    "GROUP",
    "STATE",
    "Adu",
    "Computed",
    "Groups",
    "InputFlow",
    "Key",
    "Keys",
    "Match",
    "Outer",
    "Route",
    "Stage",
    "StageError",
    "StateFlow",
    "TranslationFailed",
    "library",
]
