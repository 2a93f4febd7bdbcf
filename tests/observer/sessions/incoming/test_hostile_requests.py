"""Whatever bytes a client sends: they end its own connection at most, and little of them is kept.

The world is the worst: the control topic is lost, so that every table is treated as watched, a gate
is closed, rules are set and tables ask for notify columns.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scene import OK, Scene, call, close_gate, put
from structlog.testing import capture_logs

from headgate.events import ORIGIN_ATTRIBUTE, Notify, Outcome, Watch, WatchList
from headgate.hbase import METHODS, Dialect
from headgate.observer.config import AccessRule, AccessSettings, Allow, JournalSettings, Listener
from headgate.observer.security.access import ListenerGuard
from headgate.observer.sessions.identification import IDENTIFY
from headgate.wire import Limits, MessageType, StructWriter

_LIMITS = Limits(max_frame=1 << 20, max_string=1 << 20, max_container=1 << 12, max_depth=32)


def hostile(directory: Path, bench: Any, dialect: Dialect) -> Scene:
    scene = Scene(directory, bench, dialect, JournalSettings(str(directory)))
    scene.endpoint.limits = _LIMITS
    scene.control.apply(WatchList(1, "n", 1, (Watch("t", notify=Notify("n")),)), "o")
    scene.control.lost()
    close_gate(scene)
    access = AccessSettings(
        rules=(AccessRule(Allow.NOTHING, origin="flow/*", tables=("forbidden",)),)
    )
    scene.endpoint.guard = ListenerGuard(
        dialect.value,
        Listener("127.0.0.1:0", "127.0.0.1:1"),
        access,
        metrics=scene.metrics,
        clock=lambda: scene.now,
    )
    return scene


# -- what may come

_STRINGS = st.one_of(
    st.sampled_from([b"t", b"", b"f:q", b"f:", b"default:t", b"forbidden", ORIGIN_ATTRIBUTE]),
    st.sampled_from([b"x" * 1024, b"x" * 1025, b"x" * 65_535, b"x" * 65_536, b"\xff" * 70_000]),
    st.binary(max_size=20),
)
_KINDS = (2, 3, 4, 6, 8, 10)
_SIZES = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}


def _fixed(kind: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=_SIZES[kind], max_size=_SIZES[kind])


def _string(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def _listed(head: bytes, values: list[bytes]) -> bytes:
    return head + len(values).to_bytes(4, "big") + b"".join(values)


def _structs(values: st.SearchStrategy[tuple[int, bytes]]) -> st.SearchStrategy[bytes]:
    """Structs whose fields have any small number, one of them perhaps twice."""
    field = st.tuples(st.integers(-1, 12), values).map(
        lambda each: bytes([each[1][0]]) + each[0].to_bytes(2, "big", signed=True) + each[1][1]
    )
    return st.lists(field, max_size=6).map(lambda fields: b"".join(fields) + b"\x00")


def _deeper(values: st.SearchStrategy[tuple[int, bytes]]) -> st.SearchStrategy[tuple[int, bytes]]:
    structs = _structs(values)
    strings = _STRINGS.map(_string)
    return st.one_of(
        structs.map(lambda body: (12, body)),
        st.lists(structs, max_size=3).map(lambda each: (15, _listed(b"\x0c", each))),
        st.lists(strings, max_size=3).map(lambda each: (15, _listed(b"\x0b", each))),
        st.dictionaries(strings, strings, max_size=2).map(
            lambda each: (13, _listed(b"\x0b\x0b", [key + value for key, value in each.items()]))
        ),
    )


def _of_kind(kind: int, value: bytes) -> tuple[int, bytes]:
    return kind, value


_VALUES = st.recursive(
    st.one_of(
        _STRINGS.map(lambda value: (11, _string(value))),
        *(_fixed(kind).map(partial(_of_kind, kind)) for kind in _KINDS),
    ),
    _deeper,
    max_leaves=8,
)


def _mutation(name: bytes) -> bytes:
    return StructWriter().binary(2, name).binary(3, b"v").end()


def _put(strings: tuple[bytes, bytes, bytes]) -> bytes:
    table, row, column = strings
    return call(
        "mutateRow",
        StructWriter().binary(1, table).binary(2, row).structs(3, [_mutation(column)]).end(),
    )


def _put2(strings: tuple[bytes, bytes, bytes]) -> bytes:
    table, row, origin = strings
    value = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").end()
    one = StructWriter().binary(1, row).structs(2, [value]).mapping(5, {ORIGIN_ATTRIBUTE: origin})
    return call("put", StructWriter().binary(1, table).struct(2, one.end()).end())


def _increments(tables: list[bytes]) -> bytes:
    each = [
        StructWriter().binary(1, table).binary(2, b"r").binary(3, b"f:q").i64(4, 1).end()
        for table in tables
    ]
    return call("incrementRows", StructWriter().structs(1, each).end())


def _family(strings: tuple[bytes, bytes]) -> bytes:
    table, family = strings
    name = StructWriter().binary(1, b"default").binary(2, table).end()
    return call("deleteColumnFamily", StructWriter().struct(1, name).binary(2, family).end())


def _damaged(drawn: tuple[bytes, list[tuple[int, int]]]) -> bytes:
    data = bytearray(drawn[0])
    for at, byte in drawn[1]:
        data[at % len(data)] = byte
    return bytes(data)


def _requests(dialect: Dialect) -> st.SearchStrategy[bytes]:
    names = st.sampled_from([*METHODS[dialect], IDENTIFY, "noSuchMethod", "é" * 100])
    kinds = st.sampled_from([MessageType.CALL, MessageType.CALL, MessageType.ONEWAY])
    strings = st.tuples(_STRINGS, _STRINGS, _STRINGS)
    known = (
        st.one_of(strings.map(_put), st.lists(_STRINGS, max_size=3).map(_increments))
        if dialect is Dialect.THRIFT1
        else st.one_of(strings.map(_put2), st.tuples(_STRINGS, _STRINGS).map(_family))
    )
    some = st.one_of(known, st.builds(call, names, _structs(_VALUES), kinds))
    changes = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=3)
    return st.one_of(some, st.tuples(some, changes).map(_damaged), st.binary(max_size=40))


@pytest.mark.parametrize("dialect", list(Dialect))
@settings(max_examples=settings().max_examples // 3)
@given(data=st.data())
def test_no_bytes_of_a_client_are_more_than_its_own_business(
    dialect: Dialect, make_bench, data: st.DataObject
) -> None:
    stream = data.draw(st.lists(_requests(dialect), min_size=1, max_size=6))
    cut = data.draw(st.integers(1, 5000))
    directory = Path(tempfile.mkdtemp())
    try:
        scene = hostile(directory, make_bench(), dialect)
        with capture_logs() as lines:
            for part in (*stream, *stream):
                session, _, _ = scene.connect()
                for at in range(0, len(part), cut):
                    session.data_received(part[at : at + cut])
                scene.now += 20.0
                scene.gates.tend()
                session.reply_received(OK)
                session.connection_lost(None)
                scene.work()
        assert scene.metrics.refusals.get("fault", 0) == 0
        assert max((len(str(line)) for line in lines), default=0) < 20_000
        assert len(scene.metrics.text()) < 100_000
    finally:
        shutil.rmtree(directory)


# -- what was found


def test_a_table_name_that_no_table_can_have_is_refused_while_the_control_topic_is_lost(
    tmp_path: Path, make_bench
) -> None:
    scene = Scene(tmp_path, make_bench(), Dialect.THRIFT1, JournalSettings(str(tmp_path)))
    scene.endpoint.limits = _LIMITS
    scene.control.lost()
    session, client, upstream = scene.connect()
    session.data_received(put(b"r", b"x" * 65_536))
    assert b"a table's name of 65536 bytes" in client.taken()
    assert upstream.taken() == b""
    session.data_received(put(b"r", b"x" * 1024))
    assert upstream.taken() == put(b"r", b"x" * 1024)
    assert not client.closed


def test_a_long_name_among_watched_tables_takes_no_write_past_the_journal(
    scene: Scene,
) -> None:
    session, client, upstream = scene.connect()
    session.data_received(_increments([b"t", b"x" * 2000]))
    assert upstream.taken() == b""
    assert b"nothing was written" in client.taken()


@pytest.mark.parametrize("known", [False, True])
def test_a_fault_of_the_observer_breaks_one_connection_and_leaves_no_write_without_an_end(
    scene: Scene, known: bool
) -> None:
    session, client, _ = scene.connect()
    other, _, upstream = scene.connect()
    for row in (b"one.", b"two.", b"last") if known else ():
        session.data_received(put(row))
        session.reply_received(OK)
    before = len(scene.outcomes())

    def fault(_data: bytes) -> None:
        raise TypeError("a fault")

    wire = session._connections.upstream
    assert wire is not None
    wire.on_write = fault
    with capture_logs() as lines:
        session.data_received(put(b"lost"))
    assert client.closed
    assert [line["log_level"] for line in lines] == ["error"]
    assert scene.metrics.refusals == {"fault": 1}
    other.data_received(put(b"kept"))
    other.reply_received(OK)
    assert upstream.taken() == put(b"kept")
    assert scene.outcomes()[before:] == [(b"lost", Outcome.UNKNOWN), (b"kept", Outcome.APPLIED)]
    assert scene.journal.unsettled == 0
