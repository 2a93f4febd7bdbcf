"""One key of a dataflow file, with everything that the product makes of it.

``headgate.flows.dataflow`` has the list of all sections. The grammar, the JSON Schema, the reader,
the checks and the differences between two versions are all made from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from headgate.engine import DataflowSpec
from headgate.flows.grammar.kinds import Key
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.tree import Entry, Mapping, Tree, entries_of
from headgate.flows.sections.changes import Difference

T = TypeVar("T")


class Draft:
    """A dataflow file while it is read.

    Args:
        tree: the part of the file that fits the grammar.
        written: the whole file, with parts that have errors.
        profile: the profile whose bounds count; None for those of the actions themselves.
        findings: where problems go.
    """

    def __init__(
        self, tree: Mapping, written: Tree, profile: str | None, findings: Findings
    ) -> None:
        self.tree = tree
        self.profile = profile
        self.findings = findings
        self._written = written
        self._values: dict[str, Any] = {}

    def __getitem__(self, section: Section[T]) -> T:
        """Return the value of a section, which is read when it is first asked for."""
        if section.name not in self._values:
            self._values[section.name] = section.read(self.tree.get(section.name), self)
        return cast("T", self._values[section.name])

    def entries(self, section: str) -> dict[str, Entry]:
        """Return the entries of a section that is a mapping; none where it is absent."""
        return entries_of(self.tree.get(section))

    def mappings(self, section: str) -> dict[str, Mapping]:
        """Return the entries of a section whose values are mappings."""
        return {
            name: entry.value
            for name, entry in self.entries(section).items()
            if isinstance(entry.value, Mapping)
        }

    def written(self, section: str) -> dict[str, Entry]:
        """Return the entries of a section, with those that have errors."""
        found = entries_of(self._written).get(section)
        return entries_of(found.value if found else None)


def _no_value(_written: Tree | None, _draft: Draft) -> Any:
    """Return None: everything that stands at the key goes into the engine's specification."""


def _unchanged(_: Any, spec: DataflowSpec) -> DataflowSpec:
    return spec


def _in_order(_draft: Draft, _spec: DataflowSpec) -> None:
    """Accept every specification."""


@dataclass(frozen=True, slots=True)
class Section(Generic[T]):
    """A key at the top of a dataflow file.

    The value of a section is the field of that name of ``Dataflow``, where the agent, the launchers
    and the command line find it. Sections that only the engine needs have no such field.
    """

    name: str
    key: Key
    """What may stand at the key, and what it means."""
    read: Callable[[Tree | None, Draft], T] = _no_value
    """Returns the value of what stands at the key, if anything; notes what is wrong with it."""
    specify: Callable[[Draft, DataflowSpec], DataflowSpec] = _unchanged
    """Adds containers, actions, bounds or triggers to the engine's specification.

    Sections are asked in the order of their list, and each has what those before it have added.
    """
    check: Callable[[Draft, DataflowSpec], None] = _in_order
    """Notes what is wrong with a specification that has all actions and no error so far."""
    give: Callable[[T, DataflowSpec], DataflowSpec] = _unchanged
    """Returns the specification with what the engine needs of the value."""
    difference: Difference | None = None
    """How two versions are compared; None where no line is written of it."""
