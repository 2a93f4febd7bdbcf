"""The life of one observer in a hostile world: clients, HBase, Kafka and the control topic.

No case is written here for any fault: happenings are drawn, a server without HBase does what HBase
would, and at the end what it has done is held against what Kafka and the journal have.
"""

from __future__ import annotations

import random
import runpy
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from contradiction import require
from scene import Scene, Wire

from headgate.events import BarrierRequest, Container, ContainerId, Gate, Item
from headgate.hbase import Dialect, Request
from headgate.observer.config import Access, AccessRule, Allow, Listener, WhenFull
from headgate.observer.config import Journal as JournalConfig
from headgate.observer.control.barriers import answer_barrier
from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.security.access import Guard
from headgate.observer.security.permits import Refusal
from headgate.observer.sessions.session import Session
from headgate.wire import Limits
from observer import trees
from observer.access_oracle import NOBODY, AccessOracle
from observer.generated_readers import Call, Incoming, Unreadable
from observer.memory_hbase import Done, answer, effects
from observer.oracle import ObserverOracle, Write
from observer.requests_made import Made, Maker

_OBSERVER = Path(__file__).resolve().parents[2] / "observer"
_BENCH = runpy.run_path(str(_OBSERVER / "conftest.py"))["Bench"]
_NAMED = ("t", "u", "ns:t", "other")
_TABLES = (("t",), ("u",), ("ns:*",), ("*",), ("t", "other"), ("?",), ("*t*",))
"""Patterns of tables, as rules have them."""
_ORIGINS = (NOBODY, NOBODY, "*", "flow/*", "flow/step", "loader")
_FULL = 65_536
"""Bytes from which on a transport asks its writer to stop, as asyncio's do."""
_SLACK = 1_000_000
_LEASE_SECONDS = 10.0
TEMPERS: dict[str, tuple[float, ...]] = {
    "send": (8.0,),
    "send_on": (8.0,),
    "answer": (6.0, 2.0, 10.0),
    "work": (1.0, 4.0),
    "kafka": (0.5, 4.0),
    "tend": (1.0, 2.0),
    "time": (1.0,),
    "stop": (0.0, 0.5, 1.0),
    "renew": (1.0, 2.0),
    "watch": (0.0, 0.5),
    "rules": (0.0, 0.5),
    "control": (0.0, 0.0, 1.0),
    "gate": (0.0, 0.0, 1.0),
    "barrier": (0.0, 1.0),
    "flood": (0.0, 0.0, 0.2),
    "hear": (1.0,),
    "leave": (0.0, 0.5),
    "break_off": (0.0, 0.0, 0.3),
}
"""How often each happens in a life, beside the others; a life draws one of them for each."""


class Slow(Wire):
    """A client's connection, with what its kernel has not taken."""

    full = False

    def get_write_buffer_size(self) -> int:
        return len(self.data)


class HeardGuard(Guard):
    """Has the oracle look at each refusal."""

    oracle: AccessOracle

    def note(self, refusal: Refusal, request: Request, log: ClientLog) -> None:
        super().note(refusal, request, log)
        # By themselves, the bytes of an old message may begin a frame that has not come yet.
        for call in Incoming().calls(request.message.raw):
            self.oracle.refused(call, refusal.text)


class Client:
    """A connection, with what either side of it has not seen yet."""

    session: Session

    def __init__(self, life: ObserverLife, made: Made) -> None:
        self.made = made
        self.wire, self.upstream = Slow(), Wire()
        self.unsent: list[bytes] = []
        self.incoming = Incoming()
        self.replies = b""
        """HBase's, under way."""
        self.gone = self.cut = False
        self.mute = life.chance.random() < life.mute
        """It does not read what it is sent."""


class ObserverLife:
    """One observer's sessions, and what may happen to them."""

    def __init__(self, number: int, directory: Path) -> None:
        self.chance = chance = random.Random(number)
        self.dialect = chance.choice(tuple(Dialect))
        ruled = chance.random() < 0.5
        self.maker = Maker(number, writes=0.4 if ruled else 0.85)
        self.when_full = chance.choice((WhenFull.BLOCK, WhenFull.PASS))
        self.small = chance.random() < 0.2
        limit = 20_000 if self.small else 1 << 26
        config = JournalConfig(
            str(directory),
            limit_bytes=limit,
            segment_bytes=chance.choice((4000, 100_000)) if self.small else 1 << 20,
            when_full=self.when_full,
            block_seconds=5.0,
        )
        self.directory = directory
        self.scene = Scene(directory, _BENCH(), self.dialect, config)
        self.scene.endpoint.limits = Limits(max_frame=1 << 22, max_string=1 << 22)
        self.scene.endpoint.identification = b"i" * 300
        self.scene.endpoint.part_bytes = chance.choice((1 << 18, 1 << 18, 100))
        self.mute = chance.choice((0.0, 0.0, 0.5))
        self.partitions = chance.choice((1, 1, 3))
        self.hostile_names = chance.choice((0.0, 0.0, 0.1))
        self.clients: list[Client] = []
        self.oracle = ObserverOracle(self)
        self.access = AccessOracle(self.dialect, _NAMED)
        self.watched: dict[str, int] = {}
        """Tables on the lists, and how many writes there were when somebody began to listen."""
        self.ever: set[str] = set()
        self.lost = False
        self._lost_at = 0
        self._expired_at: int | None = None
        self.gated = 0.0
        self.barriers = 0
        self._revision = 1
        self._tempers = {name: chance.choice(some) for name, some in TEMPERS.items()}
        self._trust()
        self._watch_now(chance.sample(_NAMED, chance.randint(1, 2)))
        if ruled:
            self._rules()
        else:
            self._tempers["rules"] = 0.0
        self._happenings: dict[str, Callable[[], None]] = {
            name: getattr(self, f"_{name}") for name in TEMPERS
        }

    def live(self, happenings: int) -> None:
        """Have so many things happen, and look at the end whether all is well."""
        names = list(self._tempers)
        weights = [self._tempers[name] for name in names]
        for _ in range(happenings):
            self._happenings[self.chance.choices(names, weights)[0]]()
            self._come_round()
        if self.chance.random() < 0.3:
            self.oracle.check_crash()
        else:
            self._end()
            self.oracle.check()

    def _end(self) -> None:
        """Let all come to its end: nobody holds anything back any more."""
        self._control_is(lost=False)
        for client in self.clients:
            client.mute = False
        for _ in range(200):
            self.scene.now += 2.0
            self._trust()
            self._expired_at = None
            for client in self.clients:
                if not client.gone:
                    self._let_read(client)
                self._answer_to(client, whole=True)
            self.scene.work()
            self.scene.bench.timers.run()
            self.scene.bench.producer.deliver_all()
            self._tend()
            self._come_round()
            if not any(client.replies and not client.cut for client in self.clients):
                open_ = [s for s in self.scene.endpoint.sessions if not s.quiet()]
                if not open_ and not self.scene.recorder.ripe:
                    break
        self.scene.work()
        self.scene.bench.producer.deliver_all()

    # -- the observer's surroundings

    def is_watched(self, table: str) -> bool:
        """Return whether whoever listens may rely on hearing of the table's writes."""
        return table in self.watched or self.lost or self.scene.now > self._trusted

    def _trust(self) -> None:
        """Have the observer hear its own lease."""
        self._trusted = self.scene.control.trusted_until = self.scene.now + _LEASE_SECONDS
        self.scene.publisher.forget_unwanted()

    def _watch_now(self, tables: list[str]) -> None:
        self.ever.update(tables)
        now = self._lost_at if self.lost else len(self.oracle.writes)
        if self._expired_at is not None:
            # Whoever listens began when the observer could be relied on no more.
            now = min(now, self._expired_at)
        self.watched = {table: self.watched.get(table, now) for table in tables}
        self._revision += 1
        self.scene.watch(*tables)
        for table in tables:
            if self.partitions > 1:
                self.scene.publisher.topic_ready(table, self.partitions)

    def _come_round(self) -> None:
        """Let the loop turn, and connections end that were closed."""
        require(holds=not self.access.found, words=self.access.found)
        for _ in range(200):
            if not self.scene.turn():
                break
        for client in self.clients:
            self._look_after(client)

    def _look_after(self, client: Client) -> None:
        session = client.session
        if client.wire.closed and not client.gone:
            client.gone = True
            session.connection_lost(None)
        if client.upstream.closed and not client.cut:
            client.cut = True
            session.upstream_lost(None)
            client.wire.closed = True
        waiting = len(client.wire.data)
        words = f"{waiting} bytes wait for a client that does not read"
        require(holds=waiting <= _FULL + _SLACK, words=words)
        if waiting > _FULL and not client.wire.full and not client.gone:
            client.wire.full = True
            session.pause_writing()
        faults = self.scene.metrics.refusals.get("fault", 0)
        require(holds=not faults, words="bytes met a fault of the observer's own")

    # -- what happens

    def _made(self) -> Made:
        while True:
            made = self.maker.make()
            if made.dialect is self.dialect:
                return made

    def _connect(self) -> Client:
        made = self._made()
        client = Client(self, made)
        scene = self.scene
        session = client.session = Session(scene.endpoint)
        client.upstream.on_write = lambda data: self._arrives(client, data)
        session.connection_made(cast("Any", client.wire))
        session.upstream_made(cast("Any", client.upstream))
        session.upstream_settled(cast("Any", client.upstream))
        self.clients.append(client)
        client.unsent = list(made.segments)
        return client

    def _usable(self) -> list[Client]:
        return [c for c in self.clients if not c.gone and not c.wire.closed]

    def _send(self) -> None:
        """A new client, or more of one that is there: the same again, or something else."""
        usable = self._usable()
        if not usable or (len(usable) < 4 and self.chance.random() < 0.5):
            client = self._connect()
        else:
            client = self.chance.choice(usable)
            if client.made.valid and self.chance.random() < 0.4:
                client.unsent += [self._alike(client.made) for _ in range(4)]
            elif client.made.valid and self.chance.random() < 0.5:
                client.unsent += client.made.segments * self.chance.choice((1, 2, 6))
            elif client.made.valid:
                client.unsent += self._more(client.made)
        self._pass_on(client)

    def _more(self, made: Made) -> list[bytes]:
        """Return other requests of the same client."""
        for _ in range(50):
            other = self._made()
            if (other.protocol, other.framed) == (made.protocol, made.framed) and other.valid:
                return other.segments
        return []

    def _alike(self, made: Made) -> bytes:
        """Return a request of the same shape, about something else."""
        call = self.chance.choice(Incoming().calls(made.sent))
        letters = self.chance.choice((b"a", b"ab", b"abt:", bytes(range(256))))
        fields = self._other_texts(call.fields, letters)
        # Some clients have a method oneway of which HBase does not know that.
        kind = trees.ONEWAY if self.chance.random() < 0.03 else trees.CALL
        data = trees.message(made.protocol, call.name, kind, call.number, fields)
        if made.framed and self.chance.random() < 0.03:
            # Whoever wrote it counts its bytes in another way.
            data += self.chance.choice((b"\0", data, self._bytes_of_another(made)))
        return struct.pack(">i", len(data)) + data if made.framed else data

    def _bytes_of_another(self, made: Made) -> bytes:
        """Return a message without its frame."""
        others = self._more(made)
        return others[0][4:] if others else b""

    def _other_texts(self, fields: trees.Fields, letters: bytes) -> trees.Fields:
        """Return fields whose texts are others as long, but for some: most often a table."""
        return [trees.Field(f.id, f.type, self._other(f.type, f.value, letters)) for f in fields]

    def _other(self, kind: int, value: Any, few: bytes) -> Any:
        if kind == trees.STRUCT:
            return self._other_texts(value, few)
        if kind == trees.LIST:
            others = [self._other(value.type, one, few) for one in value.values]
            return trees.Items(value.type, others)
        if kind != trees.STRING or self.chance.random() < 0.5:
            return value
        same = {b":": b":", b"t": b"t"}
        return b"".join(
            same.get(value[n : n + 1], self.chance.choice(few).to_bytes())
            for n in range(len(value))
        )

    def _pass_on(self, client: Client) -> None:
        if not client.unsent or client.wire.paused:
            return
        count = self.chance.choice((1, 1, 2, 5))
        data = b"".join(client.unsent[:count])
        client.unsent = client.unsent[count:]
        if self.chance.random() < 0.2:
            cut = self.chance.randrange(len(data) + 1)
            pieces = [data[:cut], data[cut:]]
        else:
            pieces = [data]
        for piece in pieces:
            if piece and not client.wire.closed:
                client.session.data_received(piece)

    def _send_on(self) -> None:
        usable = [c for c in self._usable() if c.unsent]
        if usable:
            self._pass_on(self.chance.choice(usable))

    def _arrives(self, client: Client, data: bytes) -> None:
        """Have HBase read what was forwarded, and do it; its reply is under way then."""
        try:
            calls = client.incoming.calls(data)
        except Unreadable:
            client.upstream.closed = True
            return
        for call in calls:
            self._executes(client, call)

    def _executes(self, client: Client, call: Call) -> None:
        self.access.forwarded(call)
        meant = effects(self.dialect, call)
        self.oracle.meant += meant or ()
        reply, done = answer(self.dialect, call, meant, self.chance)
        client.replies += reply
        if not done:
            return
        for one in done:
            self._look_at_gate(one, call)
        wanted = frozenset(one.table for one in done if self.is_watched(one.table))
        self.oracle.writes.append(Write(call.name.decode("latin-1"), tuple(done), wanted))

    def _look_at_gate(self, one: Done, call: Call) -> None:
        if self.gated <= self.scene.now or one.column != b"f:a" or one.table != "t":
            return
        words = f"{call.name!r} passed a closed gate, written by {one.origin!r}"
        require(holds=b"flow" in (one.origin or b""), words=words)

    def _answer(self) -> None:
        waiting = [c for c in self.clients if c.replies and not c.cut]
        if waiting:
            self._answer_to(self.chance.choice(waiting), whole=False)

    def _answer_to(self, client: Client, *, whole: bool) -> None:
        while client.replies and not client.cut and not client.upstream.closed:
            if client.upstream.paused and not client.gone:
                return
            most = len(client.replies)
            count = most
            if self.chance.random() < 0.5:
                # A kernel hands over what there is, and often that ends with a zero.
                ends = [n + 1 for n, byte in enumerate(client.replies[:400]) if not byte]
                count = self.chance.choice(ends or [most])
            part, client.replies = client.replies[:count], client.replies[count:]
            client.session.reply_received(part)
            self._look_after(client)
            if not whole:
                return

    def _work(self) -> None:
        self.scene.work()

    def _kafka(self) -> None:
        producer = self.scene.bench.producer
        for _ in range(self.chance.choice((1, 5, 50))):
            if not producer.sent:
                return
            producer.deliver()

    def _tend(self) -> None:
        self.scene.journal.save_watermark()
        self.scene.admission.tend()
        self.scene.gates.tend()
        self.scene.bench.timers.run()

    def _time(self) -> None:
        self._pass_time(self.chance.choice((0.1, 1.0, 3.0)))

    def _pass_time(self, seconds: float) -> None:
        self.scene.now += seconds
        if self.scene.now > self._trusted and self._expired_at is None:
            self._expired_at = len(self.oracle.writes)

    def _stop(self) -> None:
        """The process stands still for long: its lease ends, and nobody tells it."""
        self._pass_time(self.chance.choice((11.0, 100.0)))

    def _renew(self) -> None:
        """The observer is heard again, once it has heard what was said meanwhile."""
        if self._expired_at is not None and not self.lost:
            self._watch_now(self.chance.sample(_NAMED, self.chance.randint(1, 3)))
        self._trust()
        self._expired_at = None

    def _watch(self) -> None:
        if not self.lost:
            self._watch_now(self.chance.sample(_NAMED, self.chance.randint(1, 3)))

    def _rules(self) -> None:
        """Other rules hold, for connections that are there too."""
        chance = self.chance
        rules = tuple(
            AccessRule(chance.choice(tuple(Allow)), chance.choice(_ORIGINS), chance.choice(_TABLES))
            for _ in range(chance.randint(0, 3))
        )
        claims = chance.choice((("*",), ("*",), ("flow/*",), ()))
        self.access.access = access = Access(chance.choice(tuple(Allow)), claims, rules=rules)
        endpoint = self.scene.endpoint
        listener = Listener("127.0.0.1:0", "127.0.0.1:1")
        endpoint.guard = guard = HeardGuard(
            endpoint.name,
            listener,
            access,
            metrics=self.scene.metrics,
            clock=lambda: self.scene.now,
        )
        guard.oracle = self.access
        for session in list(endpoint.sessions):
            session.identify()

    def _control(self) -> None:
        self._control_is(lost=not self.lost)

    def _control_is(self, *, lost: bool) -> None:
        if lost == self.lost:
            return
        if lost:
            self._lost_at = len(self.oracle.writes)
            self.scene.control.lost()
        else:
            # What was missed comes first: the topic is read to its end.
            if self.chance.random() < 0.5:
                self._watch_now(self.chance.sample(_NAMED, self.chance.randint(1, 3)))
            self.scene.control.found()
        self.lost = lost

    def _gate(self) -> None:
        now = self.scene.now
        released = self.gated > now
        self._revision += 1
        container = Container(ContainerId("c"), (Item("t", b"f", b"a"),))
        until = now + 20.0
        gate = Gate(
            2, "flow", "step", "kappa", (container,), until, self._revision, released=released
        )
        self.scene.gates.apply(gate, until - now)
        self.gated = 0.0 if released else until
        self.scene.gates.tend()

    def _barrier(self) -> None:
        tables = self.chance.sample(sorted(self.watched), 1)
        self.barriers += 1
        name = f"b{self.barriers}"
        self.oracle.before[name] = (tables[0], len(self.oracle.writes))
        scene = self.scene
        asked = BarrierRequest(1, name, (tables[0],), "a")
        answer_barrier(asked, [scene.endpoint], scene.recorder, scene.publisher)

    def _flood(self) -> None:
        """A client asks without end what costs HBase nothing, or invents names."""
        client = self._connect()
        client.unsent = []
        client.made.valid = False
        client.mute = True
        made = client.made
        invents = self.chance.choice((0.0, 0.02))
        for number in range(self.chance.choice((200, 6000))):
            self._answer_to(client, whole=True)
            if client.wire.paused:
                self._come_round()
            if client.wire.closed or client.wire.paused:
                return
            name, fields = b"headgate.identify", []
            if self.chance.random() < invents:
                name, fields = self._invented()
            data = trees.message(made.protocol, name, trees.CALL, number, fields)
            client.session.data_received(
                struct.pack(">i", len(data)) + data if made.framed else data
            )
            self._look_after(client)

    def _invented(self) -> tuple[bytes, trees.Fields]:
        """Return a method and arguments with a name that nobody has heard."""
        length = self.chance.choice((8, 300, 1000, 70_000))
        strange = b"x%d-" % self.chance.getrandbits(40) + b"y" * length
        kind = self.chance.randrange(3)
        if kind == 0:
            return strange, []
        table, row = (trees.Field(1, trees.STRING, strange), trees.Field(2, trees.STRING, b"r"))
        first = self.dialect is Dialect.THRIFT1
        if kind == 1:
            got = [trees.Field(1, trees.STRING, b"r")]
            return (
                (b"getRow", [table, row])
                if first
                else (
                    b"get",
                    [table, trees.Field(2, trees.STRUCT, got)],
                )
            )
        if first:
            cell = [
                trees.Field(2, trees.STRING, b"f:a"),
                trees.Field(3, trees.STRING, b"v"),
            ]
            cells = trees.Field(3, trees.LIST, trees.Items(trees.STRUCT, [cell]))
            return b"mutateRow", [table, row, cells]
        cell = [trees.Field(n, trees.STRING, b"f") for n in (1, 2, 3)]
        put = [
            trees.Field(1, trees.STRING, b"r"),
            trees.Field(2, trees.LIST, trees.Items(trees.STRUCT, [cell])),
        ]
        return b"put", [table, trees.Field(2, trees.STRUCT, put)]

    def _hear(self) -> None:
        for client in self.clients:
            if not client.mute and not client.gone:
                self._let_read(client)

    def _let_read(self, client: Client) -> None:
        client.wire.taken()
        if client.wire.full:
            client.wire.full = False
            client.session.resume_writing()

    def _leave(self) -> None:
        usable = self._usable()
        if usable:
            self.chance.choice(usable).wire.closed = True

    def _break_off(self) -> None:
        """HBase's server ends a connection; what it was asked it has done all the same."""
        usable = [c for c in self.clients if not c.cut]
        if usable:
            self.chance.choice(usable).upstream.closed = True
