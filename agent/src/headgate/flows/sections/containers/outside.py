"""What actions do with files and topics: who may name them, and what cannot be with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from headgate.engine import ActionRole, ActionSpec, FilesSpec, TopicSpec
from headgate.flows.grammar import tree as yaml_tree
from headgate.flows.grammar.problems import Findings, Position
from headgate.flows.grammar.tree import Entry, Items, Scalar, Tree
from headgate.flows.sections.containers.files import FILES, FILES_NOUN, check_written_files
from headgate.flows.sections.containers.topics import (
    TOPIC_NOUN,
    TOPICS,
    check_types,
    check_written_topic,
)
from headgate.flows.sections.containers.untabled import Noun
from headgate.flows.sections.section import Draft


class Outside(Struct, frozen=True):
    """The files and topics of a dataflow, by name."""

    files: dict[str, FilesSpec]
    topics: dict[str, TopicSpec]
    entries: dict[str, Entry]
    """What is written of them."""

    def noun(self, name: str) -> Noun | None:
        """Return how to speak of what has a name; None where it is neither files nor a topic."""
        return FILES_NOUN if name in self.files else TOPIC_NOUN if name in self.topics else None


def outside_of(draft: Draft) -> Outside:
    """Return the files and topics of a file."""
    entries = draft.entries("files") | draft.entries("topics")
    return Outside(draft[FILES], draft[TOPICS], entries)


def require_values(draft: Draft, key: str) -> None:
    """Note files and topics beside a section that decides by the values of containers."""
    for section in (FILES, TOPICS):
        if draft.entries(section.name):
            draft.findings.error(
                draft.tree.entries[key].key.at,
                f"`{key}` decides by the values of containers, and `{section.name}` have none",
                f"keep one of them; {section.name} may be those of a dataflow of its own",
            )


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
            (FILES_NOUN, outside.files),
            (TOPIC_NOUN, outside.topics),
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
