"""Clients of an observer in a hostile world, and what they send."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, cast

from contradiction import require
from scene import Wire

from headgate.hbase import Dialect
from headgate.observer.sessions.session import Session
from observer import trees
from observer.generated_readers import Incoming
from observer.requests_made import Made, Maker

if TYPE_CHECKING:
    from observer.life import ObserverLife

_FULL = 65_536
"""Bytes from which on a transport asks its writer to stop, as asyncio's do."""
_SLACK = 1_000_000


class Slow(Wire):
    """A client's connection, with what its kernel has not taken."""

    full = False

    def get_write_buffer_size(self) -> int:
        return len(self.data)


class Client:
    """A connection, with what either side of it has not seen yet."""

    session: Session

    def __init__(self, made: Made, *, mute: bool) -> None:
        self.made = made
        self.wire, self.upstream = Slow(), Wire()
        self.unsent: list[bytes] = []
        self.incoming = Incoming()
        self.replies = b""
        """HBase's, under way."""
        self.gone = self.cut = False
        self.mute = mute
        """It does not read what it is sent."""


class Clients:
    """All who speak to the observer.

    Args:
        life: of the observer.
        maker: makes what they send.
        mute: how likely one does not read what it is sent.
    """

    def __init__(self, life: ObserverLife, maker: Maker, mute: float) -> None:
        self._life = life
        self._chance = life.chance
        self._scene = life.scene
        self._maker = maker
        self._mute = mute
        self.all: list[Client] = []

    def look_after(self, client: Client) -> None:
        """Let a connection end that was closed, and look at what waits for its client."""
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
        faults = self._scene.metrics.refusals.get("fault", 0)
        require(holds=not faults, words="bytes met a fault of the observer's own")

    def _made(self) -> Made:
        while True:
            made = self._maker.make()
            if made.dialect is self._life.dialect:
                return made

    def _connect(self) -> Client:
        made = self._made()
        client = Client(made, mute=self._chance.random() < self._mute)
        scene = self._scene
        session = client.session = Session(scene.endpoint)
        client.upstream.on_write = lambda data: self._life.server.take(client, data)
        session.connection_made(cast("Any", client.wire))
        session.upstream_made(cast("Any", client.upstream))
        session.upstream_settled(cast("Any", client.upstream))
        self.all.append(client)
        client.unsent = list(made.segments)
        return client

    def _usable(self) -> list[Client]:
        return [c for c in self.all if not c.gone and not c.wire.closed]

    def send(self) -> None:
        """A new client, or more of one that is there: the same again, or something else."""
        usable = self._usable()
        if not usable or (len(usable) < 4 and self._chance.random() < 0.5):
            client = self._connect()
        else:
            client = self._chance.choice(usable)
            if client.made.valid and self._chance.random() < 0.4:
                client.unsent += [self._alike(client.made) for _ in range(4)]
            elif client.made.valid and self._chance.random() < 0.5:
                client.unsent += client.made.segments * self._chance.choice((1, 2, 6))
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
        call = self._chance.choice(Incoming().calls(made.sent))
        letters = self._chance.choice((b"a", b"ab", b"abt:", bytes(range(256))))
        fields = self._other_texts(call.fields, letters)
        # Some clients have a method oneway of which HBase does not know that.
        kind = trees.ONEWAY if self._chance.random() < 0.03 else trees.CALL
        data = trees.message(made.protocol, call.name, kind, call.number, fields)
        if made.framed and self._chance.random() < 0.03:
            # Whoever wrote it counts its bytes in another way.
            data += self._chance.choice((b"\0", data, self._bytes_of_another(made)))
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
        if kind != trees.STRING or self._chance.random() < 0.5:
            return value
        same = {b":": b":", b"t": b"t"}
        return b"".join(
            same.get(value[n : n + 1], self._chance.choice(few).to_bytes())
            for n in range(len(value))
        )

    def _pass_on(self, client: Client) -> None:
        if not client.unsent or client.wire.paused:
            return
        count = self._chance.choice((1, 1, 2, 5))
        data = b"".join(client.unsent[:count])
        client.unsent = client.unsent[count:]
        if self._chance.random() < 0.2:
            cut = self._chance.randrange(len(data) + 1)
            pieces = [data[:cut], data[cut:]]
        else:
            pieces = [data]
        for piece in pieces:
            if piece and not client.wire.closed:
                client.session.data_received(piece)

    def send_on(self) -> None:
        """A client sends the next of what it has begun."""
        usable = [c for c in self._usable() if c.unsent]
        if usable:
            self._pass_on(self._chance.choice(usable))

    def flood(self) -> None:
        """A client asks without end what costs HBase nothing, or invents names."""
        client = self._connect()
        client.unsent = []
        client.made.valid = False
        client.mute = True
        made = client.made
        invents = self._chance.choice((0.0, 0.02))
        for number in range(self._chance.choice((200, 6000))):
            self._life.server.answer_to(client, whole=True)
            if client.wire.paused:
                self._life.come_round()
            if client.wire.closed or client.wire.paused:
                return
            name = b"headgate.identify"
            fields: trees.Fields = []
            if self._chance.random() < invents:
                name, fields = self._invented()
            data = trees.message(made.protocol, name, trees.CALL, number, fields)
            client.session.data_received(
                struct.pack(">i", len(data)) + data if made.framed else data
            )
            self.look_after(client)

    def _invented(self) -> tuple[bytes, trees.Fields]:
        """Return a method and arguments with a name that nobody has heard."""
        length = self._chance.choice((8, 300, 1000, 70_000))
        strange = b"x%d-" % self._chance.getrandbits(40) + b"y" * length
        kind = self._chance.randrange(3)
        if kind == 0:
            return strange, []
        table, row = (trees.Field(1, trees.STRING, strange), trees.Field(2, trees.STRING, b"r"))
        first = self._life.dialect is Dialect.THRIFT1
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

    def hear(self) -> None:
        """All clients read that read at all."""
        for client in self.all:
            if not client.mute and not client.gone:
                self.let_read(client)

    def let_read(self, client: Client) -> None:
        """Have a client read what waits for it."""
        client.wire.taken()
        if client.wire.full:
            client.wire.full = False
            client.session.resume_writing()

    def leave(self) -> None:
        """A client ends its connection."""
        usable = self._usable()
        if usable:
            self._chance.choice(usable).wire.closed = True

    def break_off(self) -> None:
        """HBase's server ends a connection; what it was asked it has done all the same."""
        usable = [c for c in self.all if not c.cut]
        if usable:
            self._chance.choice(usable).upstream.closed = True
