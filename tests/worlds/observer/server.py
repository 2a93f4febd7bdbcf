"""The server behind an observer in a hostile world: it does what HBase would, and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contradiction import require

from observer.generated_readers import Call, Unreadable
from observer.memory_hbase import Done, answer, effects
from observer.oracle import Write

if TYPE_CHECKING:
    from observer.clients import Client
    from observer.life import ObserverLife


class Server:
    """HBase's Thrift server, as the observer sees it."""

    def __init__(self, life: ObserverLife) -> None:
        self._life = life
        self._chance = life.chance
        self._scene = life.scene

    def take(self, client: Client, data: bytes) -> None:
        """Have HBase read what was forwarded, and do it; its reply is under way then."""
        try:
            calls = client.incoming.calls(data)
        except Unreadable:
            client.upstream.closed = True
            return
        for call in calls:
            self._executes(client, call)

    def _executes(self, client: Client, call: Call) -> None:
        self._life.access.forwarded(call)
        meant = effects(self._life.dialect, call)
        self._life.oracle.meant += meant or ()
        reply, done = answer(self._life.dialect, call, meant, self._chance)
        client.replies += reply
        if not done:
            return
        for one in done:
            self._look_at_gate(one, call)
        wanted = frozenset(one.table for one in done if self._life.control.is_watched(one.table))
        self._life.oracle.writes.append(Write(call.name.decode("latin-1"), tuple(done), wanted))

    def _look_at_gate(self, one: Done, call: Call) -> None:
        if self._life.control.gated <= self._scene.now or one.column != b"f:a" or one.table != "t":
            return
        words = f"{call.name!r} passed a closed gate, written by {one.origin!r}"
        require(holds=b"flow" in (one.origin or b""), words=words)

    def answer(self) -> None:
        """Some of a reply arrives at the observer."""
        waiting = [c for c in self._life.clients.all if c.replies and not c.cut]
        if waiting:
            self.answer_to(self._chance.choice(waiting), whole=False)

    def answer_to(self, client: Client, *, whole: bool) -> None:
        """Have a client's replies arrive, all or the next part of them."""
        while client.replies and not client.cut and not client.upstream.closed:
            if client.upstream.paused and not client.gone:
                return
            most = len(client.replies)
            count = most
            if self._chance.random() < 0.5:
                # A kernel hands over what there is, and often that ends with a zero.
                ends = [n + 1 for n, byte in enumerate(client.replies[:400]) if not byte]
                count = self._chance.choice(ends or [most])
            part, client.replies = client.replies[:count], client.replies[count:]
            client.session.reply_received(part)
            self._life.clients.look_after(client)
            if not whole:
                return
