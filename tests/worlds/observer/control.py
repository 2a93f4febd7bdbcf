"""What an observer in a hostile world hears of agents, or misses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.events import Container, ContainerId, Gate, Item

if TYPE_CHECKING:
    from observer.life import ObserverLife

_LEASE_SECONDS = 10.0


class Control:
    """The control topic, and the observer's own lease on it.

    Args:
        life: of the observer.
        names: of the tables that there are.
        partitions: of the topics of watched tables.
    """

    def __init__(self, life: ObserverLife, names: tuple[str, ...], partitions: int) -> None:
        self._life = life
        self._chance = life.chance
        self._scene = life.scene
        self._names = names
        self._partitions = partitions
        self.watched: dict[str, int] = {}
        """Tables on the lists, and how many writes there were when somebody began to listen."""
        self.ever: set[str] = set()
        self.gated = 0.0
        """Until when the gate of ``t`` is closed."""
        self._lost = False
        self._lost_at = 0
        self._expired_at: int | None = None
        self._revision = 1
        self._trusted = 0.0
        """Until when whoever listens relies on the observer."""

    def is_watched(self, table: str) -> bool:
        """Return whether whoever listens may rely on hearing of the table's writes."""
        return table in self.watched or self._lost or self._scene.now > self._trusted

    def trust(self) -> None:
        """Have the observer hear its own lease."""
        self._trusted = self._scene.control.trusted_until = self._scene.now + _LEASE_SECONDS
        self._expired_at = None
        self._scene.publisher.forget_unwanted()

    def watch_now(self, tables: list[str]) -> None:
        """Have the observer hear of another list of tables."""
        self.ever.update(tables)
        now = self._lost_at if self._lost else len(self._life.oracle.writes)
        if self._expired_at is not None:
            # Whoever listens began when the observer could be relied on no more.
            now = min(now, self._expired_at)
        self.watched = {table: self.watched.get(table, now) for table in tables}
        self._revision += 1
        self._scene.watch(*tables)
        for table in tables:
            if self._partitions > 1:
                self._scene.publisher.topic_ready(table, self._partitions)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, by which the observer's lease may end."""
        self._scene.now += seconds
        if self._scene.now > self._trusted and self._expired_at is None:
            self._expired_at = len(self._life.oracle.writes)

    def stop(self) -> None:
        """The process stands still for long: its lease ends, and nobody tells it."""
        self.pass_time(self._chance.choice((11.0, 100.0)))

    def renew(self) -> None:
        """The observer is heard again, once it has heard what was said meanwhile."""
        if self._expired_at is not None and not self._lost:
            self.watch_now(self._chance.sample(self._names, self._chance.randint(1, 3)))
        self.trust()

    def watch(self) -> None:
        """Other tables are watched."""
        if not self._lost:
            self.watch_now(self._chance.sample(self._names, self._chance.randint(1, 3)))

    def change(self) -> None:
        """The control topic is lost, or found again."""
        self.be(lost=not self._lost)

    def be(self, *, lost: bool) -> None:
        """Have the control topic be lost or found."""
        if lost == self._lost:
            return
        if lost:
            self._lost_at = len(self._life.oracle.writes)
            self._scene.control.lost()
        else:
            # What was missed comes first: the topic is read to its end.
            if self._chance.random() < 0.5:
                self.watch_now(self._chance.sample(self._names, self._chance.randint(1, 3)))
            self._scene.control.found()
        self._lost = lost

    def gate(self) -> None:
        """A gate is closed, or opened again."""
        now = self._scene.now
        released = self.gated > now
        self._revision += 1
        container = Container(ContainerId("c"), (Item("t", b"f", b"a"),))
        until = now + 20.0
        gate = Gate(
            2, "flow", "step", "kappa", (container,), until, self._revision, released=released
        )
        self._scene.gates.apply(gate, until - now)
        self.gated = 0.0 if released else until
        self._scene.gates.tend()
