"""What can be wrong with a stage, or happen in its translation."""

from __future__ import annotations


class StageError(Exception):
    """A stage that is not defined as one can be; says of which, and what to write instead."""


class TranslationFailed(Exception):
    """A translation that raised, or returned what is not of its flows.

    Attributes:
        stage: its name.
        key: of the group, as people write it; empty where many groups were translated at once.
    """

    def __init__(self, stage: str, key: str, reason: str) -> None:
        where = f"stage `{stage}`" + (f", group {key}" if key else "")
        super().__init__(f"{where}: {reason}")
        self.stage = stage
        self.key = key
