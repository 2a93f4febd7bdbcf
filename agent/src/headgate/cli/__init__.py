"""The command ``headgate``, and what examples are run by ``headgate demo`` with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.cli.app import main

if TYPE_CHECKING:
    from headgate.cli.demo.comparison import Cells, SynchronousComparison, difference
    from headgate.cli.demo.dataflows import CommittedRun, DemoError, Explained
    from headgate.cli.demo.example import (
        Example,
        Report,
        SettledWave,
        Stand,
        Submission,
        Times,
        Trial,
        Wave,
    )
    from headgate.cli.demo.narration import HomeOption, Narrator, outcome
    from headgate.cli.demo.runner import demonstration, machine_in_words, send
    from headgate.cli.demo.services import DemoServices
    from headgate.cli.flow.train import training_in_words

__all__ = [
    "Cells",
    "CommittedRun",
    "DemoError",
    "DemoServices",
    "Example",
    "Explained",
    "HomeOption",
    "Narrator",
    "Report",
    "SettledWave",
    "Stand",
    "Submission",
    "SynchronousComparison",
    "Times",
    "Trial",
    "Wave",
    "demonstration",
    "difference",
    "machine_in_words",
    "main",
    "outcome",
    "send",
    "training_in_words",
]

_LATE = {
    "demo.comparison": ("Cells", "SynchronousComparison", "difference"),
    "demo.dataflows": ("CommittedRun", "DemoError", "Explained"),
    "demo.example": (
        *("Example", "Report", "SettledWave", "Stand", "Submission", "Times", "Trial", "Wave"),
    ),
    "demo.narration": ("HomeOption", "Narrator", "outcome"),
    "demo.runner": ("demonstration", "machine_in_words", "send"),
    "demo.services": ("DemoServices",),
    "flow.train": ("training_in_words",),
}
"""Names by the module that they come from, which is loaded when one is first asked for."""


def __getattr__(name: str) -> Any:
    for module, names in _LATE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
