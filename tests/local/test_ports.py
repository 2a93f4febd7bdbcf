"""Ports are chosen free, kept where possible, and held until their servers listen."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.local import NoFreePortError
from headgate.local.processes import processes
from headgate.local.processes.ports import HOST, Port, PortReservation, candidates, moved
from headgate.local.processes.processes import Lifetime


@pytest.fixture
def reservation() -> Iterator[PortReservation]:
    held = PortReservation()
    yield held
    held.close()


def listening(number: int = 0) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((HOST, number))
    server.listen()
    return server


def offer(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    monkeypatch.setattr("headgate.local.processes.ports.candidates", lambda port: list(numbers))


def free_number() -> int:
    with listening() as server:
        return int(server.getsockname()[1])


def test_the_default_is_tried_first_and_no_replacement_is_shared_by_two_ports() -> None:
    tried = {port: candidates(port) for port in Port}
    assert all(numbers[0] == port.value for port, numbers in tried.items())
    every = [number for numbers in tried.values() for number in numbers]
    assert len(every) == len(set(every))


def test_no_replacement_lies_where_outgoing_connections_take_theirs() -> None:
    assert max(number for port in Port for number in candidates(port)) < 32768


def test_a_taken_port_is_replaced(
    monkeypatch: pytest.MonkeyPatch, reservation: PortReservation
) -> None:
    free = free_number()
    with listening() as other:
        offer(monkeypatch, other.getsockname()[1], free)
        assert reservation.choose(Port.THRIFT1, before=None) == free


def test_the_port_of_the_last_run_is_taken_again(
    monkeypatch: pytest.MonkeyPatch, reservation: PortReservation
) -> None:
    before = free_number()
    offer(monkeypatch)
    assert reservation.choose(Port.THRIFT1, before=before) == before


def test_the_port_of_the_last_run_is_replaced_when_another_program_listens_there(
    monkeypatch: pytest.MonkeyPatch, reservation: PortReservation
) -> None:
    free = free_number()
    offer(monkeypatch, free)
    with listening() as other:
        assert reservation.choose(Port.THRIFT1, before=other.getsockname()[1]) == free


@pytest.mark.parametrize("before_of_the_first", [False, True])
@pytest.mark.parametrize("before_of_the_second", [False, True])
def test_a_reserved_port_is_not_chosen_by_another_stack(
    monkeypatch: pytest.MonkeyPatch,
    reservation: PortReservation,
    *,
    before_of_the_first: bool,
    before_of_the_second: bool,
) -> None:
    first, second = free_number(), free_number()
    offer(monkeypatch, first, second)
    other = PortReservation()
    try:
        before = first if before_of_the_first else None
        assert other.choose(Port.THRIFT1, before=before) == first
        before = first if before_of_the_second else None
        assert reservation.choose(Port.THRIFT1, before=before) == second
    finally:
        other.close()


def test_a_port_is_free_again_when_its_reservation_ends(
    monkeypatch: pytest.MonkeyPatch, reservation: PortReservation
) -> None:
    number = free_number()
    offer(monkeypatch, number)
    other = PortReservation()
    other.choose(Port.THRIFT1, before=None)
    other.close()
    assert reservation.choose(Port.THRIFT1, before=None) == number


def test_a_server_may_listen_on_the_port_that_is_reserved_for_it(
    monkeypatch: pytest.MonkeyPatch, reservation: PortReservation
) -> None:
    offer(monkeypatch, free_number())
    number = reservation.choose(Port.THRIFT1, before=None)
    with listening(number) as server, socket.create_connection((HOST, number)):
        assert server.getsockname()[1] == number


def test_when_everything_is_taken_the_error_names_the_port(
    monkeypatch: pytest.MonkeyPatch, reservation: PortReservation
) -> None:
    with listening() as other:
        offer(monkeypatch, other.getsockname()[1])
        with pytest.raises(NoFreePortError, match="thrift1: 9090"):
            reservation.choose(Port.THRIFT1, before=None)


def test_only_ports_that_are_not_the_default_are_told() -> None:
    assert moved({"thrift1": 9090, "kafka": 19092}) == {"kafka": (9092, 19092)}


@pytest.mark.skipif(sys.platform != "linux", reason="ports are held bound on Linux alone")
def test_a_port_is_held_by_the_server_that_was_started_for_it_when_its_starter_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reservation: PortReservation
) -> None:
    first, second, third = free_number(), free_number(), free_number()
    offer(monkeypatch, first, second, third)
    starter = PortReservation()
    number = starter.choose(Port.KAFKA, before=None)
    server = processes.start(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        {},
        tmp_path / "server.log",
        Lifetime.DETACHED,
        inherited=starter.inherited([number]),
    )
    try:
        starter.close()  # as its end by kill -9 does, before the server listens
        assert number == first
        assert reservation.choose(Port.KAFKA, before=None) == second
        returned = PortReservation()
        assert returned.choose(Port.KAFKA, before=first) == third
        returned.close()
    finally:
        server.kill()
        server.wait()
    again = PortReservation()
    assert again.choose(Port.KAFKA, before=None) == first, "free again with its server's end"
    again.close()
