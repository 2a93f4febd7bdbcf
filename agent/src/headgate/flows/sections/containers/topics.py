"""Topics that stages read or write: what may be said of them, and what cannot be with them."""

from __future__ import annotations

from typing import Final

from headgate.engine import TOPIC_METADATA, DataflowSpec, OnGap, OnUndecodable, TopicSpec
from headgate.flows.grammar import tree as yaml_tree
from headgate.flows.grammar.column_types import columns_kind, read_columns
from headgate.flows.grammar.kinds import Either, Key, MapOf, RecordOf, Single
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.tree import Entry, Scalar, Tree, entries_of, text_of
from headgate.flows.grammar.values import NAME, text_value
from headgate.flows.sections.containers.untabled import (
    Noun,
    check_names,
    untabled_difference,
    with_untabled,
)
from headgate.flows.sections.section import Draft, Section

_TYPES: Final = (
    *("string", "binary", "bool", "double", "float", "int8", "int16", "int32", "int64"),
    *("date32", "timestamp[s]", "timestamp[ms]", "timestamp[us]"),
)
"""Types that columns can have: Arrow's names for what JSON can hold."""
_KEY_TYPES: Final = ("string", "binary", "int8", "int16", "int32", "int64")
"""Types that the column with the message's key can have."""
_NAME: Final = Single(
    "the name of a topic",
    pattern=r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}",
    rule="write up to 249 letters, digits, `.`, `_` and `-`",
)

_VALUE: Final = Either(
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
                    columns_kind(_TYPES, rf"(?:{'|'.join(TOPIC_METADATA)}|[^_][\s\S]*)"),
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

TOPIC_NOUN: Final = Noun(
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


def _topic(tree: Tree, findings: Findings) -> TopicSpec:
    """Return the topic that a matched tree describes."""
    if isinstance(tree, Scalar):
        return TopicSpec(tree.text)
    if not isinstance(tree, yaml_tree.Mapping):
        return TopicSpec("")
    return TopicSpec(
        text_of(tree.get("topic")),
        read_columns(tree.get("columns"), findings),
        text_of(tree.get("key")),
        OnGap(text_of(tree.get("on_gap")) or OnGap.FAIL),
        OnUndecodable(text_of(tree.get("on_undecodable")) or OnUndecodable.FAIL),
    )


def check_types(name: str, topic: TopicSpec, entry: Entry, findings: Findings) -> None:
    """Note which columns of a topic are of types that they cannot have."""
    at = entry.key.at
    for column, kind in TOPIC_METADATA.items():
        if topic.columns.get(column, kind) != kind:
            findings.error(
                at,
                f"column `{column}` of topic `{name}` is {topic.columns[column]}",
                f"write `{column}: {kind}`: it says of each message where it stands, or "
                "whether it is empty",
            )
    kind = topic.columns.get(topic.key, "string")
    if topic.columns and topic.key and topic.key not in topic.columns:
        findings.error(
            at,
            f"the key of topic `{name}` is `{topic.key}`, which is none of its columns",
            f"name one of {', '.join(topic.columns)}, or add `{topic.key}: string`",
        )
    elif topic.key in TOPIC_METADATA or kind not in _KEY_TYPES:
        findings.error(
            at,
            f"the key of topic `{name}` is `{topic.key}`, a {kind}",
            f"keys are {', '.join(_KEY_TYPES)}",
        )


def check_written_topic(name: str, writer: str, entry: Entry, findings: Findings) -> None:
    """Note what is said of a topic that has no meaning where an action writes it."""
    for key in _OF_READERS:
        if isinstance(entry.value, yaml_tree.Mapping) and key in entry.value.entries:
            findings.error(
                entry.value.entries[key].key.at,
                f"`{writer}` writes the topic `{name}`, and `{key}` is of topics that are read",
                f"leave `{key}` out: what is written has the columns of its flow",
            )


def _read(written: Tree | None, draft: Draft) -> dict[str, TopicSpec]:
    return {
        name: _topic(entry.value, draft.findings) for name, entry in entries_of(written).items()
    }


def _specify(draft: Draft, spec: DataflowSpec) -> DataflowSpec:
    check_names(draft, "topics", (("containers", "container"),))
    return with_untabled(spec, draft[TOPICS].keys())


TOPICS: Final = Section(
    "topics",
    Key(
        MapOf(_VALUE, "topics by name", NAME, "topic"),
        "topics of Kafka that stages read or write, named in `reads` and `writes`",
    ),
    _read,
    _specify,
    difference=untabled_difference(TOPIC_NOUN, lambda topic: topic.topic),
)
