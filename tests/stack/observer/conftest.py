"""A TCP fault injector, and the subscriber of the stack whose parts may be killed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from enum import Enum, auto

import pytest
from msgspec import Struct

from headgate.local import Addresses

_CHUNK = 65536
_DRIPPED = 2000  # bytes that go one by one; a large batch would take minutes


class Direction(Enum):
    TO_SERVER = auto()
    TO_CLIENT = auto()


class Action(Enum):
    CUT = auto()
    """Both connections are closed in order."""
    RESET = auto()
    """Both connections are reset."""
    SILENCE = auto()
    """Nothing goes on any more, in either direction, for ``seconds``; then both are reset."""
    DELAY = auto()
    """What follows waits ``seconds``, once."""
    DRIP = auto()
    """What follows goes byte by byte, each in a segment of its own."""
    HALF_CLOSE = auto()
    """The receiver sees the end of this direction; the other goes on."""


class Fault(Struct, frozen=True):
    """What happens to one connection once ``after`` bytes went in a direction."""

    action: Action
    direction: Direction
    after: int
    seconds: float = 0.0


class Injector:
    """A TCP proxy that does to each connection what ``plan`` says. It runs in its own thread."""

    def __init__(self, target: tuple[str, int], plan: Callable[[], Fault | None]) -> None:
        self._target = target
        self._plan = plan
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self.done: list[Fault] = []
        """Faults that took place."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address: tuple[str, int] = listener.getsockname()
        self._thread = threading.Thread(target=self._run, args=(listener,), daemon=True)
        self._thread.start()

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, listener: socket.socket) -> None:
        asyncio.set_event_loop(self._loop)
        loop = self._loop
        server = loop.run_until_complete(asyncio.start_server(self._accept, sock=listener))
        loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        fault = self._plan()
        silent = asyncio.Event()
        pumps = [
            asyncio.ensure_future(self._pump(reader, back, Direction.TO_SERVER, fault, silent)),
            asyncio.ensure_future(self._pump(there, writer, Direction.TO_CLIENT, fault, silent)),
        ]
        try:
            while not all(pump.done() for pump in pumps):
                done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_EXCEPTION)
                if silent.is_set() or any(pump.exception() for pump in done):
                    break
            if silent.is_set():
                assert fault is not None
                await asyncio.sleep(fault.seconds)
            reset = fault is not None and fault.action in (Action.RESET, Action.SILENCE)
            for each in (writer, back):
                if reset:
                    _reset(each)
                else:
                    each.close()
        finally:
            for pump in pumps:
                pump.cancel()
            writer.transport.abort()
            back.transport.abort()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        direction: Direction,
        fault: Fault | None,
        silent: asyncio.Event,
    ) -> None:
        here = fault if fault is not None and fault.direction is direction else None
        passed = 0
        while data := await source.read(_CHUNK):
            if silent.is_set():
                return
            if here is not None and passed + len(data) > here.after:
                before = max(0, here.after - passed)
                sink.write(data[:before])
                await sink.drain()
                data = data[before:]
                self.done.append(here)
                match here.action:
                    case Action.CUT | Action.RESET:
                        raise ConnectionError
                    case Action.SILENCE:
                        silent.set()
                        raise ConnectionError
                    case Action.DELAY:
                        await asyncio.sleep(here.seconds)
                    case Action.DRIP:
                        for at in range(min(len(data), _DRIPPED)):
                            sink.write(data[at : at + 1])
                            await asyncio.sleep(0)
                        data = data[_DRIPPED:]
                    case Action.HALF_CLOSE:
                        sink.write_eof()
                        while await source.read(_CHUNK):
                            pass
                        return
                here = None
            passed += len(data)
            sink.write(data)
            await sink.drain()
        with contextlib.suppress(OSError):
            sink.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def random_fault(rng: random.Random) -> Fault | None:
    """Return what happens to a connection; to most nothing does."""
    if rng.random() < 0.4:
        return None
    action = rng.choice(list(Action))
    direction = rng.choice(list(Direction))
    # Requests have some 100 bytes and most replies 20: many are hit in their middle.
    reach = 6000 if direction is Direction.TO_SERVER else 1200
    return Fault(action, direction, rng.randrange(reach), rng.uniform(0.1, 1.5))


@pytest.fixture
def inject() -> Iterator[Callable[[tuple[str, int], int], Injector]]:
    """Put a proxy with seeded faults in front of an address."""
    injectors: list[Injector] = []

    def begin(target: tuple[str, int], seed: int) -> Injector:
        rng = random.Random(seed)
        injector = Injector(target, lambda: random_fault(rng))
        injectors.append(injector)
        return injector

    yield begin
    for injector in injectors:
        injector.close()


@pytest.fixture
def fragile_subscriber(addresses: Addresses, make_subscriber):
    """The subscriber of the stack that may be killed; ``subscriber`` is that of the shared one."""
    return make_subscriber(addresses.kafka)
