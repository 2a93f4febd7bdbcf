"""The proxy's reading of what clients send, beside that of HBase's own servers."""

from __future__ import annotations

import runpy
import struct
import subprocess
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from observer import trees
from observer.requests_made import Made
from scene import Scene

from headgate.events import Container, ContainerId, Gate, Item, Outcome, UpdateBatch
from headgate.hbase import Dialect, Effect, Write, decode_request, method_of
from headgate.observer.config import AccessRule, AccessSettings, Allow, JournalSettings, Listener
from headgate.observer.security.access import ListenerGuard
from headgate.wire import Message, MessageType, Protocol, ProtocolError, Transport

_BENCH = runpy.run_path(str(Path(__file__).resolve().parents[2] / "observer" / "conftest.py"))
_WATCHED: Final = "t"
_STRICT_HEAD: Final = 12
"""Bytes of a strict message before its arguments, beside its name."""
_LEAST: Final = 10
"""Bytes of the shortest old message: an empty name's length, a type, a number, and a stop."""

Cells = tuple[bytes, tuple[bytes, ...], tuple[bytes, ...], tuple[int, ...], tuple[Any, ...]]
"""Kinds, rows, columns, timestamps and values of one request's part for the watched table."""


class Executed(Struct, frozen=True):
    """A call that HBase makes: its method and its arguments in strict binary."""

    method: str
    arguments: bytes


class HBase:
    """HBase's generated processors, in a Java program of ours.

    Args:
        command: what runs it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    def execute(self, streams: Sequence[tuple[Made, bytes]]) -> list[list[Executed]]:
        """Return what is executed of each stream: what a proxy passes on of a client."""
        asked = b"".join(_asked(made, sent) for made, sent in streams)
        ran = subprocess.run(self._command, input=asked, capture_output=True, check=True)
        answered = _Answers(ran.stdout)
        return [answered.calls() for _ in streams]


def _asked(made: Made, sent: bytes) -> bytes:
    service = 1 if made.dialect is Dialect.THRIFT1 else 2
    compact = made.protocol == trees.COMPACT
    return struct.pack(">BBBi", service, compact, made.framed, len(sent)) + sent


class _Answers:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _number(self) -> int:
        (found,) = struct.unpack_from(">i", self._data, self._at)
        self._at += 4
        return int(found)

    def _bytes(self) -> bytes:
        length = self._number()
        self._at += length
        return self._data[self._at - length : self._at]

    def calls(self) -> list[Executed]:
        return [Executed(self._bytes().decode(), self._bytes()) for _ in range(self._number())]


class Passed(Struct, frozen=True):
    """What became of a client's bytes in the proxy."""

    forwarded: bytes
    answered: bytes
    """By the proxy itself."""
    published: list[tuple[str, Cells]]


class Proxy:
    """Sessions over a real journal, whose table ``t`` is watched.

    Args:
        folder: of the journals.
        rules: whether a guard judges every request, and a gate is closed that holds none of them.
    """

    def __init__(self, folder: Path, *, rules: bool) -> None:
        self._scenes = {}
        for dialect in Dialect:
            place = folder / dialect.value
            place.mkdir()
            scene = Scene(place, _BENCH["Bench"](), dialect, JournalSettings(str(place)))
            self._scenes[dialect] = scene
            if rules:
                _judge_everything(scene)

    def take(self, made: Made, pieces: Sequence[int]) -> Passed:
        """Have a session take what a client sends, cut into pieces; then HBase is gone."""
        scene = self._scenes[made.dialect]
        session, client, upstream = scene.connect()
        at = 0
        for size in (*pieces, len(made.sent)):
            if client.closed:
                break
            if made.sent[at : at + size]:
                session.data_received(made.sent[at : at + size])
            at += size
            scene.work()
        session.upstream_lost(None)
        session.connection_lost(None)
        scene.bench.timers.run()  # what HBase may still do of it, it has done
        log = scene.log()
        scene.bench.producer.delivered.clear()
        published = chain.from_iterable(_published(m) for m in log if isinstance(m, UpdateBatch))
        return Passed(upstream.taken(), client.taken(), list(published))


def _judge_everything(scene: Scene) -> None:
    """Have a guard and a gate look at each request and let it pass."""
    scene.endpoint.guard = ListenerGuard(
        scene.endpoint.name,
        Listener("127.0.0.1:0", "127.0.0.1:1"),
        AccessSettings(rules=(AccessRule(Allow.DEFINE),)),
        metrics=scene.metrics,
        clock=lambda: scene.now,
    )
    elsewhere = Container(ContainerId("c"), (Item("t", start=b"\xff" * 50),))
    scene.gates.apply(Gate(2, "flow", "step", "kappa", (elsewhere,), 1000.0, 1), left=1000.0)
    scene.gates.tend()
    assert scene.gates.closed


def _published(batch: UpdateBatch) -> Iterator[tuple[str, Cells]]:
    first = 0
    for part in batch.requests:
        cut = slice(first, first + part.cells)
        assert part.outcome is Outcome.UNKNOWN
        yield (
            part.method,
            (
                batch.kinds[cut],
                batch.rows[cut],
                batch.columns[cut],
                batch.timestamps[cut],
                batch.values[cut],
            ),
        )
        first += part.cells


def written(dialect: Dialect, call: Executed) -> list[tuple[str, Cells]] | None:
    """Return what a call writes to the watched table; None where HBase could not do it at all."""
    if method_of(dialect, call.method).effect is not Effect.WRITE:
        return []
    message = Message(
        trees.message(trees.STRICT, call.method.encode(), trees.CALL, 0, [])[:-1] + call.arguments,
        _STRICT_HEAD + len(call.method),
        call.method,
        MessageType.CALL,
        0,
        Transport.BUFFERED,
        Protocol.BINARY,
    )
    try:
        found = decode_request(dialect, message)
    except ProtocolError:
        return None
    assert isinstance(found, Write)
    return [
        (found.method, _cells(part))
        for part in (found, *found.others)
        if part.table == _WATCHED and len(part.cells)
    ]


def _cells(write: Write) -> Cells:
    cells = write.cells
    return (
        bytes(cells.kinds),
        tuple(cells.rows),
        tuple(cells.columns),
        tuple(cells.timestamps),
        tuple(cells.values),
    )


def compare(cases: Sequence[tuple[Made, Passed]], executed: Sequence[list[Executed]]) -> list[str]:
    """Tell where HBase executes what the proxy has not told, or the proxy refused what is right."""
    differences = []
    for (made, passed), calls in zip(cases, executed, strict=True):
        problem = _difference(made, passed, calls)
        if problem is not None:
            differences.append(f"{problem}\n{made}\n{passed}\n{calls}")
    return differences


def _difference(made: Made, passed: Passed, calls: list[Executed]) -> str | None:
    told = iter(passed.published)
    for call in calls:
        for part in written(made.dialect, call) or ():
            if part not in told:  # in this order: what is found is used up
                return f"{call.method} is executed, and its event is missing: {part}"
    if made.valid:
        if passed.forwarded != made.sent:
            return f"refused, or not forwarded as it came: {passed.answered!r}"
        if len(calls) != len(made.segments):
            return "the test's own request is none for HBase"
    elif not _consists_of(passed.forwarded, made):
        return "what is forwarded is not what came"
    return None


def _consists_of(forwarded: bytes, made: Made) -> bool:
    """Return whether bytes are parts of a stream, each whole and in their order."""
    if made.sent.startswith(forwarded):
        return True
    rest = forwarded
    for segment in made.segments:
        rest = rest.removeprefix(segment)
    if not rest or any(segment.startswith(rest) for segment in made.segments):
        return True
    # A damaged message may end early; then what is left of it may be an old one, without a name.
    return made.protocol == "old" and _lies_in(forwarded, made.sent)


def _lies_in(pieces: bytes, stream: bytes) -> bool:
    """Return whether bytes are messages of a stream, wherever they begin, in their order."""
    at = 0
    while pieces:
        sizes = range(1, len(pieces) + 1)
        size = bisect_left(sizes, True, key=lambda size: stream.find(pieces[:size], at) < 0)
        if size < min(_LEAST, len(pieces)):
            return False
        at = stream.find(pieces[:size], at) + size
        pieces = pieces[size:]
    return True
