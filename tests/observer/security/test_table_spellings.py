"""A table has two spellings, ``t`` and ``default:t``, and is one table everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, inspect

from headgate.agent.configuration import AgentConfiguration, parse_configuration
from headgate.client.configuration import ClientConfig
from headgate.events import Item, Watch, WatchList, updates_topic
from headgate.flows import parse_dataflow
from headgate.hbase import Dialect, Request, read_request
from headgate.observer.config import AccessSettings, Listener, ObserverConfig, parse_config
from headgate.observer.control.state import ControlState
from headgate.observer.control.table_patterns import TablePatterns
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.security.access import ListenerGuard
from headgate.observer.security.permits import Permit
from headgate.settings import ConfigurationError, knowledge_table
from headgate.wire import MessageReader, MessageType, StructWriter, Transport, write_message

KEY = "k" * 40
SPELLINGS = ("t", "default:t")
NOBODY = Permit(None, ("*",))

OBSERVER = """
name = "o"
[kafka]
bootstrap = "127.0.0.1:1"
[journal]
directory = "/nowhere"
[thrift1]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:2"
"""


def observer(more: str) -> ObserverConfig:
    return parse_config(OBSERVER + more, "observer.toml", {})


def requests(table: str) -> Iterator[Request]:
    """Yield a write of a table, and a read, as both dialects ask for them."""
    name = table.encode()
    value = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    writer = StructWriter().binary(1, name).binary(2, b"r").structs(3, [value])
    yield request(Dialect.THRIFT1, "mutateRow", writer.end())
    body = StructWriter().binary(1, name).binary(2, b"r").end()
    yield request(Dialect.THRIFT1, "getRow", body)
    cell = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").end()
    put = StructWriter().binary(1, b"r").structs(2, [cell]).end()
    yield request(Dialect.THRIFT2, "put", StructWriter().binary(1, name).struct(2, put).end())
    get = StructWriter().binary(1, b"r").end()
    yield request(Dialect.THRIFT2, "get", StructWriter().binary(1, name).struct(2, get).end())
    namespace, colon, plain = name.rpartition(b":")
    parts = StructWriter().binary(1, namespace) if colon else StructWriter()
    whole = StructWriter().struct(1, parts.binary(2, plain).end()).end()
    yield request(Dialect.THRIFT2, "disableTable", whole)


def request(dialect: Dialect, method: str, body: bytes) -> Request:
    reader = MessageReader()
    reader.feed(write_message(Transport.BUFFERED, method, MessageType.CALL, 1, body))
    message = reader.next_message()
    assert message is not None
    return read_request(dialect, message)


def refused(access: AccessSettings | None, table: str) -> list[bool]:
    """Return of each request whether a guard refuses it."""
    guard = ListenerGuard(
        "thrift1",
        Listener("127.0.0.1:0", "127.0.0.1:1"),
        access,
        metrics=Metrics(),
        clock=time.monotonic,
    )
    return [guard.judge(NOBODY, each) is not None for each in requests(table)]


def by_rules(configured: str, asked: str, _folder: Path) -> object:
    config = observer(
        '[access]\ndefault = "nothing"\n[[access.rules]]\n'
        f'allow = "write"\ntables = ["{configured}"]\n'
    )
    return refused(config.access, asked)


def by_state_tables(configured: str, asked: str, folder: Path) -> object:
    key = folder / "key"
    key.write_text(KEY)
    config = observer(f'[access]\nagents_key_file = "{key}"\nstate_tables = ["{configured}"]\n')
    return refused(config.access, asked), refused(config.access, knowledge_table(asked))


def by_watched_patterns(configured: str, asked: str, _folder: Path) -> object:
    patterns = TablePatterns(observer(f'[watch]\ntables = ["{configured}"]\n').watch.tables)
    return [patterns.match(table) for each in requests(asked) for table in each.tables]


def by_the_agents_state_table(configured: str, _asked: str, _folder: Path) -> object:
    text = (
        f'[hbase]\nthrift2 = "127.0.0.1:1"\nstate_table = "{configured}"\n'
        '[kafka]\nbootstrap = "127.0.0.1:1"\n'
    )
    table = parse_configuration(text, "agent.toml", {}).hbase.state_table
    return table, knowledge_table(table)


KEYS: dict[str, tuple[Callable[[str, str, Path], object], object]] = {
    "access.rules.tables": (by_rules, [False, False, False, False, True]),
    "access.state_tables": (by_state_tables, ([True, False, True, False, True],) * 2),
    "watch.tables": (by_watched_patterns, [True] * 5),
    "hbase.state_table": (by_the_agents_state_table, ("t", "t-knowledge")),
}
"""Effect on ``requests`` of each configuration key that holds names of tables."""


def keys_of(kind: type[Struct]) -> Iterator[str]:
    """Yield the keys of a configuration, those of its tables behind a dot."""

    def walk(found: inspect.Type, path: str) -> Iterator[str]:
        if isinstance(found, inspect.StructType):
            for field in found.fields:
                yield from walk(field.type, f"{path}.{field.encode_name}".lstrip("."))
        elif isinstance(found, inspect.UnionType):
            for each in found.types:
                yield from walk(each, path)
        elif isinstance(found, inspect.VarTupleType | inspect.ListType):
            yield from walk(found.item_type, path)
        else:
            yield path

    yield from walk(inspect.type_info(kind), "")


def test_every_key_that_holds_a_table_is_known_here() -> None:
    found = {
        key for kind in (ObserverConfig, AgentConfiguration, ClientConfig) for key in keys_of(kind)
    }
    assert {key for key in found if "table" in key} == KEYS.keys()


@pytest.mark.parametrize("asked", SPELLINGS)
@pytest.mark.parametrize("configured", SPELLINGS)
@pytest.mark.parametrize("key", KEYS)
def test_a_key_means_one_table_by_either_spelling(
    key: str, configured: str, asked: str, tmp_path: Path
) -> None:
    apply, wanted = KEYS[key]
    assert apply(configured, asked, tmp_path) == wanted


plain = st.text("abcxyz-_.", min_size=1, max_size=6).filter(lambda name: name[0] not in "-.")
tables = st.one_of(
    plain, st.tuples(st.sampled_from(["ns", "default", "defaults"]), plain).map(":".join)
)


@given(st.lists(tables, min_size=1, max_size=4), st.data())
def test_a_guard_judges_both_spellings_alike(names: list[str], data: Any) -> None:
    def respelled(name: str) -> str:
        if name.startswith("default:"):
            return name.removeprefix("default:")
        return name if ":" in name else f"default:{name}"

    allowed = data.draw(
        st.lists(
            st.sampled_from(["write", "read", "nothing"]), min_size=len(names), max_size=len(names)
        )
    )
    verdicts = []
    for spell in (str, respelled):
        rules = "".join(
            f'[[access.rules]]\nallow = "{allow}"\ntables = ["{spell(name)}"]\n'
            for name, allow in zip(names, allowed, strict=True)
        )
        access = observer(f'[access]\ndefault = "nothing"\n{rules}').access
        verdicts += [[refused(access, ask(name)) for name in names] for ask in (str, respelled)]
    assert all(each == verdicts[0] for each in verdicts)


def test_a_pattern_of_the_default_namespace_fits_no_table_of_another() -> None:
    rule = 'allow = "define"\ntables = ["default:*"]\n'
    access = observer(f'[access]\ndefault = "nothing"\n[[access.rules]]\n{rule}').access
    assert not any(refused(access, "default:t"))
    assert not any(refused(access, "t"))
    assert all(refused(access, "ns:t"))


@pytest.mark.parametrize("name", ["", "default:", "a:b:c", "head gate", "headgate*"])
def test_a_state_table_that_no_table_can_be_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"state_tables"):
        observer(f'[access]\nstate_tables = ["{name}"]\n')
    with pytest.raises(ConfigurationError, match=r"state_table"):
        by_the_agents_state_table(name, "", Path())


@pytest.mark.parametrize("table", SPELLINGS)
def test_a_dataflow_watches_one_table_by_either_spelling(table: str) -> None:
    text = f"""
name: f
waves: mark
containers:
  line: {table} c:q
  mapping: {{table: "{table}", family: c}}
  part: {{group: [{table} c:q, {{table: "{table}", family: c}}]}}
  out: o c:q
actions:
  feed: {{input: [line, mapping]}}
  step: {{step: "steps:step", reads: [line, mapping, part], writes: out}}
"""
    spec = parse_dataflow(text, "flow.yaml").spec
    names = {item.table for each in spec.containers for item in each.container.items}
    assert names == {"t", "o"}


@pytest.mark.parametrize("table", SPELLINGS)
def test_a_watch_of_an_older_agent_is_of_the_table_that_requests_name(table: str) -> None:
    control = ControlState()
    control.apply(WatchList(1, "f", 1, (Watch(table),)), "o")
    assert all(control.is_watched(name) for each in requests("t") for name in each.tables)
    assert updates_topic(Item(table).table) == updates_topic("t")
