"""What can be wrong with a stage, or happen in its translation."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import indent
from typing import ClassVar, Final

_OWN: Final = re.compile(r"^(?:headgate\.[\w.]+\.)(\w+: .*)$", re.MULTILINE)
"""The line of a traceback that has an error of headgate's own, which says what happened."""
_ANY: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:: .*)?)$", re.MULTILINE)
"""That of any error."""


class StageError(Exception):
    """A stage that is not defined as one can be; says of which, and what to write instead."""

    repeatable: ClassVar[bool] = False
    """Another attempt would fail likewise, until the stage is another."""


class TranslationFailed(Exception):
    """A translation that raised, or returned what is not of its flows.

    Attributes:
        stage: its name.
        key: of the group, as people write it; empty where many groups were translated at once, or
            each unit by itself.
        reason: what happened.
    """

    def __init__(self, stage: str, key: str, reason: str) -> None:
        where = f"stage `{stage}`" + (f", group {key}" if key else "")
        super().__init__(f"{where}: {reason}")
        self.stage = stage
        self.key = key
        self.reason = reason


class TaskFailed(Exception):
    """A task of Spark's that failed; says what it raised, which is in full in what caused this."""


def raised_in_task(text: str) -> str:
    """Return what a task of Spark's raised, of the text that Spark makes of it."""
    own = _OWN.findall(text)
    return str((own or _ANY.findall(text) or [text.strip()])[-1])


@contextmanager
def causes_noted() -> Iterator[None]:
    """Have an error that leaves a task of Spark's bring what caused it, which Spark leaves out.

    Without it nobody would see where in a translation it was raised.
    """
    try:
        yield
    except Exception as error:
        if error.__cause__ is not None:
            causes = "".join(traceback.format_exception(error.__cause__))
            # Indented, so that none of it is taken for the error itself.
            error.add_note(indent(f"caused by\n{causes}", "  "))
        raise
