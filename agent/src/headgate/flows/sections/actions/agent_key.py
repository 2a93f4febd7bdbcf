"""A key of an action that the engine does not decide on, with everything that is made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headgate.flows.grammar.kinds import Key
from headgate.flows.grammar.tree import Mapping
from headgate.flows.sections.section import Draft

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentKey(Generic[T]):
    """A key of an action whose value the agent needs: a field of ``DeclaredAction``."""

    name: str
    key: Key
    """What may stand at the key, and what it means."""
    read: Callable[[Mapping, Draft], T]
    """Returns the value in the tree of one action, and notes what is wrong with it."""
    words: str = ""
    """What becomes of an action whose value is another; empty where no line is written of it."""
