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
from headgate.flows.sections.files import check_written_files, read_files
from headgate.flows.sections.topics import check_types, check_written_topic, read_topic


class Noun(Struct, frozen=True):
    """How errors speak of one kind of them."""

    are: str
    kind: str
    """Of several of them."""
    one: str
    """Before a name."""
    them: str
    on: str
    """Of what a bound is on."""
    come: str
    uncounted: str
    itself: str
    """What a step does with them that is no stage."""
    columns: str
    """Whose they are."""
    such_as: str
    """Columns."""
    of_its_own: str
    """The cure where several actions write them."""
    place: str
    place_of_its_own: str


_FILES: Final = Noun(
    are="are files",
    kind="files",
    one="files",
    them="them",
    on="files",
    come="files come",
    uncounted="whose arrival",
    itself="open them",
    columns="they",
    such_as="{url: string, clicks: int64}",
    of_its_own="files of its own: what is there is of one flow",
    place="place",
    place_of_its_own="a directory",
)
_TOPIC: Final = Noun(
    are="is a topic",
    kind="topics",
    one="topic",
    them="it",
    on="a topic",
    come="messages come",
    uncounted="whose messages",
    itself="read it",
    columns="its messages",
    such_as="{order: string, amount: double}",
    of_its_own="a topic by a name of its own: a flow has the name of its topic",
    place="topic",
    place_of_its_own="a topic",
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
        {name: read_topic(entry.value, findings) for name, entry in topics.items()},
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
        for name, topic in outside.topics.items():
            check_types(name, topic, outside.entries[name], findings)
        kinds: tuple[tuple[Noun, Mapping[str, FilesSpec | TopicSpec]], ...] = (
            (_FILES, outside.files),
            (_TOPIC, outside.topics),
        )
        for noun, specs in kinds:
            for name, spec in specs.items():
                self._check_use(noun, name, spec, readers[name], writers[name])
            places = {name: _place_of(spec) for name, spec in specs.items()}
            self._check_places(noun, places, {name for name in specs if writers[name]})
        for action in actions.values():
            self._check_action(action)

    def _check_use(
        self,
        noun: Noun,
        name: str,
        spec: FilesSpec | TopicSpec,
        readers: tuple[str, ...],
        writers: tuple[str, ...],
    ) -> None:
        entry = self._outside.entries[name]
        written = f"the {noun.one} `{name}`"
        if readers and writers:
            self._findings.error(
                entry.key.at,
                f"`{writers[0]}` writes {written} and `{readers[0]}` reads {noun.them}",
                f"have `{readers[0]}` read the flow itself: `out` of `{writers[0]}`, `in` of "
                f"`{readers[0]}`",
            )
        elif len(writers) > 1:
            self._findings.error(
                entry.key.at,
                f"`{writers[0]}` and `{writers[1]}` write {written}",
                f"give each of them {noun.of_its_own}",
            )
        elif readers and not spec.columns:
            self._findings.error(
                entry.key.at,
                f"`{readers[0]}` reads {written}, and nothing says which columns {noun.columns} "
                "have",
                f"add `columns: {{name: type}}`, such as `{noun.such_as}`",
            )
        elif writers and isinstance(spec, FilesSpec):
            check_written_files(name, spec, writers[0], entry, self._findings)
        elif writers:
            check_written_topic(name, writers[0], entry, self._findings)
        elif not readers:
            self._findings.warning(
                entry.key.at,
                f"no action uses {noun.one} `{name}`",
                f"remove {noun.them}, or use {noun.them}",
            )

    def _check_places(self, noun: Noun, places: Mapping[str, str], written: set[str]) -> None:
        known: dict[str, str] = {}
        for name, place in places.items():
            other = known.setdefault(place, name)
            if other != name and {name, other} & written:
                self._findings.error(
                    self._outside.entries[name].key.at,
                    f"`{name}` and `{other}` are one {noun.place}, {place}",
                    f"give what is written {noun.place_of_its_own} of its own",
                )

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


def _place_of(spec: FilesSpec | TopicSpec) -> str:
    return spec.location if isinstance(spec, FilesSpec) else spec.topic
