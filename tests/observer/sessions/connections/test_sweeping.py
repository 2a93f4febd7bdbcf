"""Idle and slow clients are closed by a sweep, whose time the test decides."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from headgate.observer import LimitSettings
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.sessions.sweeping import Stage, Sweeper


class Client:
    def __init__(self, stage: Stage) -> None:
        self.now = stage
        self.answered = 0
        self.kept = 0
        self.kept_awake = 0
        self.expired: list[tuple[str, bool]] = []

    def stage(self) -> Stage:
        return self.now

    def progress(self) -> object:
        return self.answered

    def unsent(self) -> int:
        return 0 if self.expired else self.kept

    def stay_awake(self) -> None:
        self.kept_awake += 1

    def expire(self, reason: str, *, at_once: bool) -> None:
        self.expired.append((reason, at_once))


class Listener:
    def __init__(self, *clients: Client, idle: float = 10.0, request: float = 5.0) -> None:
        self.clients = list(clients)
        self.metrics = Metrics()
        limits = LimitSettings(idle_seconds=idle, request_seconds=request)
        self.sweeper = Sweeper(lambda: self.clients, limits, self.metrics)
        self.now = 0.0

    def wait(self, seconds: int) -> None:
        """Let time go by, as the observer's loop does."""
        for _ in range(seconds * 10):
            self.now += 0.1
            self.sweeper.sweep(self.now)


@pytest.mark.parametrize(
    ("stage", "limit", "key", "refusals"),
    [
        (Stage.SILENT, 10, "no request at all", ["idle"]),
        (Stage.IDLE, 10, "idle_seconds", ["idle"]),
        (Stage.REQUEST, 5, "request_seconds", ["slow"]),
        (Stage.REPLIES, 5, "request_seconds", []),
    ],
)
def test_a_client_that_only_holds_its_connection_is_closed(
    stage: Stage, limit: int, key: str, refusals: list[str]
) -> None:
    client = Client(stage)
    listener = Listener(client)
    listener.wait(limit - 1)
    assert client.expired == []
    listener.wait(4)
    assert key in client.expired[0][0]
    assert list(listener.metrics.refusals) == refusals


def test_a_client_is_closed_as_soon_as_its_time_is_over() -> None:
    client = Client(Stage.IDLE)
    sweeper = Listener(client, idle=1.0).sweeper
    for now in (0.0, 0.0, 0.9, 0.9, 1.0, 1.0):
        assert client.expired == []
        sweeper.sweep(now)
    assert client.expired != []


def test_only_a_client_that_does_not_take_its_last_bytes_is_cut_off() -> None:
    stages = (Stage.SILENT, Stage.IDLE, Stage.REQUEST, Stage.REPLIES)
    clients = [Client(stage) for stage in stages]
    Listener(*clients).wait(15)
    assert [client.expired[0][1] for client in clients] == [False, False, False, True]


def test_a_client_that_waits_for_hbase_may_wait_for_ever() -> None:
    client = Client(Stage.SERVER)
    Listener(client).wait(1000)
    assert client.expired == []


def test_progress_begins_the_time_anew() -> None:
    client = Client(Stage.REQUEST)
    listener = Listener(client)
    for _ in range(10):
        listener.wait(3)
        client.answered += 1
    assert client.expired == []


def test_a_request_that_begins_ends_idleness() -> None:
    client = Client(Stage.IDLE)
    listener = Listener(client)
    for stage in (Stage.REQUEST, Stage.IDLE) * 5:
        client.now = stage
        listener.wait(3)
    assert client.expired == []


@pytest.mark.parametrize("stage", [Stage.IDLE, Stage.REQUEST, Stage.REPLIES])
def test_zero_is_no_limit(stage: Stage) -> None:
    client = Client(stage)
    Listener(client, idle=0, request=0).wait(100)
    assert client.expired == []


def test_limits_can_change() -> None:
    client = Client(Stage.IDLE)
    listener = Listener(client, idle=0, request=0)
    listener.wait(10)
    listener.sweeper.limits = LimitSettings(idle_seconds=3)
    listener.wait(6)
    assert client.expired != []


def test_thousands_are_all_looked_at() -> None:
    clients = [Client(Stage.IDLE) for _ in range(5000)]
    Listener(*clients).wait(20)
    assert all(client.expired for client in clients)


def test_nothing_is_kept_of_clients_that_are_gone() -> None:
    listener = Listener(Client(Stage.IDLE))
    listener.wait(3)
    listener.clients.clear()
    listener.wait(5)
    assert not listener.sweeper._since
    assert not listener.sweeper._next


def test_refused_clients_are_logged_once_a_round() -> None:
    listener = Listener()
    with capture_logs() as log:
        for _ in range(300):
            listener.metrics.count_refusal("connections")
        listener.wait(5)
    assert [line["clients"] for line in log] == [300]


def test_who_never_sends_anything_is_closed_where_idle_clients_are_not() -> None:
    silent, idle = Client(Stage.SILENT), Client(Stage.IDLE)
    listener = Listener(silent, idle, idle=0.0, request=0.0)
    listener.wait(59)
    assert silent.expired == []
    listener.wait(5)
    assert "no request at all" in silent.expired[0][0]
    assert idle.expired == []
    assert listener.metrics.refusals.keys() == {"idle"}


def test_replies_that_nobody_takes_have_memory_for_all_together() -> None:
    clients = [Client(Stage.REPLIES) for _ in range(6)]
    listener = Listener(request=1000.0)
    listener.sweeper.limits = LimitSettings(waiting_bytes=300, request_seconds=1000.0)
    for client in clients:
        client.kept = 100
        listener.clients.append(client)
        listener.wait(3)
    assert ["waiting_bytes" in "".join(map(str, each.expired)) for each in clients] == [
        *[True] * 3,
        *[False] * 3,
    ]
    assert listener.metrics.refusals == {"memory": 3}


def test_idle_clients_are_kept_awake_and_no_others() -> None:
    clients = [Client(stage) for stage in Stage]
    Listener(*clients, idle=0.0, request=0.0).wait(5)
    assert {each.now for each in clients if each.kept_awake} == {Stage.IDLE}
