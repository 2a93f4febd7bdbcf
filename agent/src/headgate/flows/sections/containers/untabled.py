"""Sections of data that is in no table: how their parts become containers and are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from headgate.engine import Codec, CodecName, DataflowSpec, FilesSpec, TopicSpec, WatchedContainer
from headgate.events import Container, ContainerId
from headgate.flows.sections.changes import Change, ChangeKind, Parts, always
from headgate.flows.sections.section import Draft

_Spec = TypeVar("_Spec", FilesSpec, TopicSpec)


class Noun(Struct, frozen=True):
    """Words of errors and changes for one kind of such data."""

    are: str
    """Such as ``are files``."""
    kind: str
    """Several of them."""
    one: str
    """The word before a name."""
    them: str
    """The pronoun."""
    on: str
    """Where a bound is that watches them."""
    come: str
    """How new ones arrive."""
    uncounted: str
    """What nothing counts."""
    itself: str
    """What a step does with them that is no stage."""
    columns: str
    """What has columns."""
    such_as: str
    """Columns as an example."""
    of_its_own: str
    """The cure where several actions write them."""
    place: str
    """Word for where they are."""
    place_of_its_own: str
    """A place that nothing else has."""


def check_names(draft: Draft, section: str, others: tuple[tuple[str, str], ...]) -> None:
    """Note names of a section that other sections have too.

    Args:
        draft: the file.
        section: that may not have them.
        others: the other sections, each with the word for one of its parts.
    """
    for name, entry in draft.entries(section).items():
        other = next((noun for key, noun in others if name in draft.entries(key)), None)
        if other is not None:
            draft.findings.error(
                entry.key.at, f"`{name}` is a {other}, too", "name one of them otherwise"
            )


def with_untabled(spec: DataflowSpec, names: Iterable[str]) -> DataflowSpec:
    """Return the specification with containers without tables, of which no update comes."""
    opaque = Codec(CodecName.OPAQUE)
    found = {one.id: one for one in spec.containers}
    for name in map(ContainerId, names):
        found[name] = WatchedContainer(Container(name, ()), opaque)
    return replace(spec, containers=tuple(found.values()))


def untabled_difference(noun: Noun, place: Callable[[_Spec], str]) -> Parts[_Spec]:
    """Return how files or topics are compared.

    Args:
        noun: how they are called.
        place: returns where one of them is.
    """

    def changed(name: str, before: _Spec, after: _Spec, _: DataflowSpec) -> Iterator[Change]:
        if place(before) != place(after):
            words = (
                f"{place(before)} → {place(after)}; what is written goes on there, and a stage "
                f"that reads {noun.them} asks by `on_change` what becomes of its state"
            )
        elif before != after:
            words = "from the next run of a stage"
        else:
            return
        yield Change(ChangeKind.CHANGED, f"{noun.one} `{name}`", words)

    added = always("read, or written, from the next run of a stage")
    return Parts(noun.one, added, changed, "what is there stays")
