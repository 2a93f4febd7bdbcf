"""The life of one observer in a hostile world: clients, HBase, Kafka and the control topic.

No case is written here for any fault: happenings are drawn, a server without HBase does what HBase
would, and at the end what it has done is held against what Kafka and the journal have.
"""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable
from pathlib import Path

from contradiction import require
from scene import Scene

from headgate.events import BarrierRequest
from headgate.hbase import Dialect, Request
from headgate.observer.config import (
    AccessRule,
    AccessSettings,
    Allow,
    JournalSettings,
    Listener,
    WhenFull,
)
from headgate.observer.control.barriers import answer_barrier
from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.security.access import ListenerGuard
from headgate.observer.security.permits import Refusal
from headgate.wire import Limits
from observer.access_oracle import NOBODY, AccessOracle
from observer.clients import Clients
from observer.control import Control
from observer.generated_readers import Incoming
from observer.oracle import ObserverOracle
from observer.requests_made import Maker
from observer.server import Server

_OBSERVER = Path(__file__).resolve().parents[2] / "observer"
_BENCH = runpy.run_path(str(_OBSERVER / "conftest.py"))["Bench"]
_NAMED = ("t", "u", "ns:t", "other")
_TABLES = (("t",), ("u",), ("ns:*",), ("*",), ("t", "other"), ("?",), ("*t*",))
"""Patterns of tables, as rules have them."""
_ORIGINS = (NOBODY, NOBODY, "*", "flow/*", "flow/step", "loader")
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


class HeardGuard(ListenerGuard):
    """Has the oracle look at each refusal."""

    oracle: AccessOracle

    def note(self, refusal: Refusal, request: Request, log: ClientLog) -> None:
        super().note(refusal, request, log)
        # By themselves, the bytes of an old message may begin a frame that has not come yet.
        for call in Incoming().calls(request.message.raw):
            self.oracle.refused(call, refusal.text)


class ObserverLife:
    """One observer's sessions, and what may happen to them."""

    def __init__(self, number: int, directory: Path) -> None:
        self.chance = chance = random.Random(number)
        self.dialect = chance.choice(tuple(Dialect))
        ruled = chance.random() < 0.5
        maker = Maker(number, writes=0.4 if ruled else 0.85)
        self.when_full = chance.choice((WhenFull.BLOCK, WhenFull.PASS))
        self.small = chance.random() < 0.2
        limit = 20_000 if self.small else 1 << 26
        config = JournalSettings(
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
        self.scene.endpoint.max_bytes_per_turn = chance.choice((1 << 18, 1 << 18, 100))
        self.clients = Clients(self, maker, chance.choice((0.0, 0.0, 0.5)))
        self.server = Server(self)
        self.control = Control(self, _NAMED, chance.choice((1, 1, 3)))
        self.hostile_names = chance.choice((0.0, 0.0, 0.1))
        self.oracle = ObserverOracle(self)
        self.access = AccessOracle(self.dialect, _NAMED)
        self.barriers = 0
        self._tempers = {name: chance.choice(some) for name, some in TEMPERS.items()}
        self.control.trust()
        self.control.watch_now(chance.sample(_NAMED, chance.randint(1, 2)))
        if ruled:
            self._rules()
        else:
            self._tempers["rules"] = 0.0
        self._happenings: dict[str, Callable[[], None]] = {
            "send": self.clients.send,
            "send_on": self.clients.send_on,
            "answer": self.server.answer,
            "work": self._work,
            "kafka": self._kafka,
            "tend": self._tend,
            "time": self._time,
            "stop": self.control.stop,
            "renew": self.control.renew,
            "watch": self.control.watch,
            "rules": self._rules,
            "control": self.control.change,
            "gate": self.control.gate,
            "barrier": self._barrier,
            "flood": self.clients.flood,
            "hear": self.clients.hear,
            "leave": self.clients.leave,
            "break_off": self.clients.break_off,
        }

    def live(self, happenings: int) -> None:
        """Have so many things happen, and look at the end whether all is well."""
        names = list(self._tempers)
        weights = [self._tempers[name] for name in names]
        for _ in range(happenings):
            self._happenings[self.chance.choices(names, weights)[0]]()
            self.come_round()
        if self.chance.random() < 0.3:
            self.oracle.check_crash()
        else:
            self._end()
            self.oracle.check()

    def _end(self) -> None:
        """Let all come to its end: nobody holds anything back any more."""
        self.control.be(lost=False)
        for client in self.clients.all:
            client.mute = False
        for _ in range(200):
            self.scene.now += 2.0
            self.control.trust()
            for client in self.clients.all:
                if not client.gone:
                    self.clients.let_read(client)
                self.server.answer_to(client, whole=True)
            self.scene.work()
            self.scene.bench.timers.run()
            self.scene.bench.producer.deliver_all()
            self._tend()
            self.come_round()
            if not any(client.replies and not client.cut for client in self.clients.all):
                open_ = [s for s in self.scene.endpoint.sessions if not s.quiet()]
                if not open_ and not self.scene.recorder.backlog_due:
                    break
        self.scene.work()
        self.scene.bench.producer.deliver_all()

    # -- the observer's surroundings

    def come_round(self) -> None:
        """Let the loop turn, and connections end that were closed."""
        require(holds=not self.access.found, words=self.access.found)
        for _ in range(200):
            if not self.scene.turn():
                break
        for client in self.clients.all:
            self.clients.look_after(client)

    # -- what happens

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
        self.control.pass_time(self.chance.choice((0.1, 1.0, 3.0)))

    def _rules(self) -> None:
        """Other rules hold, for connections that are there too."""
        chance = self.chance
        rules = tuple(
            AccessRule(chance.choice(tuple(Allow)), chance.choice(_ORIGINS), chance.choice(_TABLES))
            for _ in range(chance.randint(0, 3))
        )
        claims = chance.choice((("*",), ("*",), ("flow/*",), ()))
        self.access.access = access = AccessSettings(
            chance.choice(tuple(Allow)), claims, rules=rules
        )
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

    def _barrier(self) -> None:
        tables = self.chance.sample(sorted(self.control.watched), 1)
        self.barriers += 1
        name = f"b{self.barriers}"
        self.oracle.before[name] = (tables[0], len(self.oracle.writes))
        scene = self.scene
        asked = BarrierRequest(1, name, (tables[0],), "a")
        answer_barrier(asked, [scene.endpoint], scene.recorder, scene.publisher)
