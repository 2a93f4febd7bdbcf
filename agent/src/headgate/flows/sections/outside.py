"""What stages read or write besides containers: files and topics, and who may name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Codec,
    CodecName,
    FilesSpec,
    TopicSpec,
    WatchedContainer,
)
from headgate.events import Container, ContainerId
from headgate.flows.grammar import tree as yaml_tree
from headgate.flows.grammar.problems import Findings, Position
from headgate.flows.grammar.tree import Entry, Items, Scalar, Tree
from headgate.flows.sections.files import FilesChecker, read_files
from headgate.flows.sections.topics import TopicsChecker, read_topic


class Noun(Struct, frozen=True):
    """How errors speak of one kind of them."""

    are: str
    kind: str
    """Of several of them."""
    on: str
    """Of what a bound is on."""
    come: str
    uncounted: str
    itself: str
    """What a step does with them that is no stage."""


_FILES: Final = Noun("are files", "files", "files", "files come", "whose arrival", "open them")
_TOPIC: Final = Noun(
    "is a topic", "topics", "a topic", "messages come", "whose messages", "read it"
)


class Outside(Struct, frozen=True):
    """The files and topics of a dataflow, by name."""

    files: dict[str, FilesSpec]
    topics: dict[str, TopicSpec]
    entries: dict[str, Entry]
    """What is written of them."""

    def noun(self, name: str) -> Noun | None:
        """Return how to speak of what has a name; None where it is neither files nor a topic."""
        return _FILES if name in self.files else _TOPIC if name in self.topics else None

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of the file that have any."""
        named = {"files": self.files, "topics": self.topics}
        return tuple(key for key, there in named.items() if there)

    @property
    def containers(self) -> dict[str, WatchedContainer]:
        """What bounds watch: containers without tables, of which no update comes."""
        opaque = Codec(CodecName.OPAQUE)
        return {
            name: WatchedContainer(Container(ContainerId(name), ()), opaque)
            for name in (*self.files, *self.topics)
        }


def read_outside(tree: yaml_tree.Mapping, findings: Findings) -> Outside:
    """Return the files and topics of the matched tree of a dataflow file."""
    containers, files, topics = map(partial(_section, tree), ("containers", "files", "topics"))
    for name, entry in (*files.items(), *topics.items()):
        other = "container" if name in containers else "topic"
        if name in containers or (name in topics and entry is files.get(name)):
            findings.error(
                entry.key.at, f"`{name}` is a {other}, too", "name one of them otherwise"
            )
    return Outside(
        {name: read_files(entry.value, findings) for name, entry in files.items()},
        {name: read_topic(entry.value) for name, entry in topics.items()},
        files | topics,
    )


def _section(tree: yaml_tree.Mapping, key: str) -> dict[str, Entry]:
    section = tree.get(key)
    return dict(section.entries) if isinstance(section, yaml_tree.Mapping) else {}


class OutsideChecker:
    """Notes what is wrong with files and topics and with actions that name them.

    Args:
        outside: of the dataflow.
        trees: of the actions.
        findings: where errors go.
    """

    def __init__(
        self, outside: Outside, trees: Mapping[str, yaml_tree.Mapping], findings: Findings
    ) -> None:
        self._outside = outside
        self._trees = trees
        self._findings = findings

    def check(self, actions: Mapping[str, ActionSpec]) -> None:
        """Note what is wrong with what the actions do with them."""
        outside, findings = self._outside, self._findings
        readers = dict(self._users(actions, "reads"))
        writers = dict(self._users(actions, "writes"))
        FilesChecker(outside.files, outside.entries, findings).check(readers, writers)
        TopicsChecker(outside.topics, outside.entries, findings).check(readers, writers)
        for action in actions.values():
            self._check_action(action)

    def _users(
        self, actions: Mapping[str, ActionSpec], key: str
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        for name in self._outside.entries:
            yield name, tuple(a.name for a in actions.values() if name in getattr(a, key))

    def _check_action(self, action: ActionSpec) -> None:
        tree = self._trees[action.name]
        for key in ("input", "reads", "writes"):
            for at, name, noun in self._named(tree.get(key)):
                if action.role is ActionRole.INPUT:
                    self._findings.error(
                        at,
                        f"`{name}` {noun.are}, and nothing says when {noun.come}",
                        "leave the action out: a stage finds what has come whenever it runs",
                    )
                elif action.stage is None:
                    self._findings.error(
                        at,
                        f"`{action.name}` is no stage, and only stages have {noun.kind}",
                        f"write `stage:`, or have the step itself {noun.itself}",
                    )
        when = tree.get("when")
        for bound in action.bounds:
            found = self._outside.noun(bound.container)
            if found is None or not isinstance(when, yaml_tree.Mapping):
                continue
            at = when.entries[bound.name].key.at
            if bound.sequence is not None or bound.value is not None or bound.block:
                self._findings.error(
                    at,
                    f"bound `{bound.name}` is on {found.on}, {found.uncounted} nothing counts",
                    "bound the `time` only: how long ago the stage last looked",
                )
            elif bound.container in action.writes:
                self._findings.error(
                    at,
                    f"bound `{bound.name}` is on {found.on} that `{action.name}` writes itself",
                    "bound what it reads",
                )

    def _named(self, tree: Tree | None) -> Iterator[tuple[Position, str, Noun]]:
        for one in tree.values if isinstance(tree, Items) else (tree,):
            noun = self._outside.noun(one.text) if isinstance(one, Scalar) else None
            if isinstance(one, Scalar) and noun is not None:
                yield one.at, one.text, noun
