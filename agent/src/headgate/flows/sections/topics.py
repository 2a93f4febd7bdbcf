"""Topics that stages read or write: what may be said of them, and what cannot be with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.engine import TOPIC_METADATA, OnGap, OnUndecodable, TopicSpec
from headgate.flows.grammar import tree as yaml_tree
from headgate.flows.grammar.kinds import Either, Key, MapOf, RecordOf, Single
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.tree import Entry, Scalar, Tree
from headgate.flows.grammar.values import text_value

_TYPES: Final = (
    *("string", "binary", "bool", "double", "float", "int8", "int16", "int32", "int64"),
    *("date32", "timestamp[s]", "timestamp[ms]", "timestamp[us]"),
)
"""Of columns: names that Arrow has for what JSON and Spark both can hold."""
_KEY_TYPES: Final = ("string", "binary", "int8", "int16", "int32", "int64")
"""Of the column with the message's key."""
_NAME: Final = Single(
    "the name of a topic",
    pattern=r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}",
    rule="write up to 249 letters, digits, `.`, `_` and `-`",
)

TOPIC = Either(
    "the name of a topic, or a mapping with `topic`",
    (
        _NAME,
        RecordOf(
            "the topic",
            {
                "topic": Key(_NAME, "the topic's name, in the Kafka of the agent", required=True),
                "format": Key(
                    Single("`json`", words=("json",)),
                    "what messages are: `json`, an object each; default, and all that there is",
                ),
                "columns": Key(
                    MapOf(
                        Single(
                            "the name of a type",
                            words=_TYPES,
                            rule=f"types are Arrow's: {', '.join(_TYPES)}",
                        ),
                        "types by column",
                        rf"(?:{'|'.join(TOPIC_METADATA)}|[^_][\s\S]*)",
                        "column",
                        at_least=1,
                    ),
                    "of a topic that is read: the columns that the stage gets, with their types; "
                    + ", ".join(f"`{name}`" for name in TOPIC_METADATA)
                    + " say where a message stands and whether it is empty",
                ),
                "key": Key(
                    text_value("a column"),
                    "the column that is the message's key; default none",
                ),
                "on_gap": Key(
                    Single("`fail` or `continue`", words=tuple(OnGap)),
                    "of a topic that is read: what happens when messages are gone that were not "
                    "read; `fail` (default), or `continue` with those that are there",
                ),
                "on_undecodable": Key(
                    Single("`fail` or `skip`", words=(OnUndecodable.FAIL, OnUndecodable.SKIP)),
                    "of a topic that is read: what happens to a message that has not the declared "
                    "columns; `fail` (default), or `skip`",
                ),
            },
        ),
    ),
)
"""A topic: a name, or a mapping."""

_OF_READERS: Final = ("columns", "on_gap", "on_undecodable")
"""Keys that mean nothing on a topic that is written."""


def read_topic(tree: Tree) -> TopicSpec:
    """Return the topic that a matched tree describes."""
    if isinstance(tree, Scalar):
        return TopicSpec(tree.text)
    if not isinstance(tree, yaml_tree.Mapping):
        return TopicSpec("")
    columns = tree.get("columns")
    named = columns.entries if isinstance(columns, yaml_tree.Mapping) else {}
    return TopicSpec(
        _text(tree.get("topic")),
        {name: one.value.text for name, one in named.items() if isinstance(one.value, Scalar)},
        _text(tree.get("key")),
        OnGap(_text(tree.get("on_gap")) or OnGap.FAIL),
        OnUndecodable(_text(tree.get("on_undecodable")) or OnUndecodable.FAIL),
    )


def _text(tree: Tree | None) -> str:
    return tree.text if isinstance(tree, Scalar) else ""


class TopicsChecker:
    """Notes what is wrong with the topics of a dataflow.

    Args:
        topics: by name.
        entries: what is written of them, by name.
        findings: where errors go.
    """

    def __init__(
        self, topics: Mapping[str, TopicSpec], entries: Mapping[str, Entry], findings: Findings
    ) -> None:
        self._topics = topics
        self._entries = entries
        self._findings = findings

    def check(
        self, readers: Mapping[str, tuple[str, ...]], writers: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Note what is wrong with topics that actions use.

        Args:
            readers: names of actions, by topic.
            writers: likewise.
        """
        for name, topic in self._topics.items():
            self._check_types(name, topic)
            self._check_use(name, topic, readers[name], writers[name])
        self._check_places({name for name in self._topics if writers[name]})

    def _check_types(self, name: str, topic: TopicSpec) -> None:
        at = self._entries[name].key.at
        for column, kind in TOPIC_METADATA.items():
            if topic.columns.get(column, kind) != kind:
                self._findings.error(
                    at,
                    f"column `{column}` of topic `{name}` is {topic.columns[column]}",
                    f"write `{column}: {kind}`: it says of each message where it stands, or "
                    "whether it is empty",
                )
        kind = topic.columns.get(topic.key, "string")
        if topic.columns and topic.key and topic.key not in topic.columns:
            self._findings.error(
                at,
                f"the key of topic `{name}` is `{topic.key}`, which is none of its columns",
                f"name one of {', '.join(topic.columns)}, or add `{topic.key}: string`",
            )
        elif topic.key in TOPIC_METADATA or kind not in _KEY_TYPES:
            self._findings.error(
                at,
                f"the key of topic `{name}` is `{topic.key}`, a {kind}",
                f"keys are {', '.join(_KEY_TYPES)}",
            )

    def _check_use(
        self, name: str, topic: TopicSpec, readers: tuple[str, ...], writers: tuple[str, ...]
    ) -> None:
        at = self._entries[name].key.at
        if readers and writers:
            self._findings.error(
                at,
                f"`{writers[0]}` writes the topic `{name}` and `{readers[0]}` reads it",
                f"have `{readers[0]}` read the flow itself: `out` of `{writers[0]}`, `in` of "
                f"`{readers[0]}`",
            )
        elif len(writers) > 1:
            self._findings.error(
                at,
                f"`{writers[0]}` and `{writers[1]}` write the topic `{name}`",
                "give each of them a topic by a name of its own: a flow has the name of its topic",
            )
        elif readers and not topic.columns:
            self._findings.error(
                at,
                f"`{readers[0]}` reads the topic `{name}`, and nothing says which columns its "
                "messages have",
                "add `columns: {name: type}`, such as `{order: string, amount: double}`",
            )
        elif writers:
            self._check_written(name, writers[0])
        elif not readers:
            self._findings.warning(at, f"no action uses topic `{name}`", "remove it, or use it")

    def _check_written(self, name: str, writer: str) -> None:
        tree = self._entries[name].value
        for key in _OF_READERS:
            if isinstance(tree, yaml_tree.Mapping) and key in tree.entries:
                self._findings.error(
                    tree.entries[key].key.at,
                    f"`{writer}` writes the topic `{name}`, and `{key}` is of topics that are read",
                    f"leave `{key}` out: what is written has the columns of its flow",
                )

    def _check_places(self, written: set[str]) -> None:
        known: dict[str, str] = {}
        for name, topic in self._topics.items():
            other = known.setdefault(topic.topic, name)
            if other != name and {name, other} & written:
                self._findings.error(
                    self._entries[name].key.at,
                    f"`{name}` and `{other}` are one topic, {topic.topic}",
                    "give what is written a topic of its own",
                )
