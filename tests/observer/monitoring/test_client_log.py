"""Lines about clients say whose connection and which request they are about."""

from __future__ import annotations

from structlog.testing import capture_logs

from headgate.observer.monitoring.client_log import ClientLog, ListenerLog


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def client_log(clock: Clock, peer: object = ("10.1.2.3", 4567)) -> ClientLog:
    log = ClientLog(ListenerLog("thrift1", 7, clock))
    log.connection, log.peer = 12, peer
    return log


def test_a_line_names_the_connection_and_what_it_is_about() -> None:
    with capture_logs() as lines:
        client_log(Clock()).warning("odd", method="put", intent=3)
    assert lines == [
        {
            "event": "odd",
            "log_level": "warning",
            "listener": "thrift1",
            "epoch": 7,
            "connection": 12,
            "client": "10.1.2.3:4567",
            "method": "put",
            "intent": 3,
            "left_out": 0,
        }
    ]


def test_addresses_of_both_families_are_written_as_people_do() -> None:
    with capture_logs() as lines:
        client_log(Clock(), ("fd00::1", 4567, 0, 0)).info("closed")
        client_log(Clock(), None).info("closed")
    assert [line["client"] for line in lines] == ["[fd00::1]:4567", ""]


def test_clients_cannot_cause_a_flood_and_what_is_left_out_is_counted() -> None:
    clock = Clock()
    log = client_log(clock)
    with capture_logs() as lines:
        for _ in range(50):
            log.warning("odd")
        assert len(lines) == 20
        log.info("closed")
        assert len(lines) == 21
        clock.now = 60.0
        log.warning("odd")
    assert lines[-1]["left_out"] == 30
