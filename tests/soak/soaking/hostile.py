"""Clients that mean no good: each does one thing to a listener for some seconds."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

_TIMEOUT = 2.0
_CONNECTIONS = 20


def _call(method: bytes, body: bytes) -> bytes:
    """Return a strict binary call."""
    return struct.pack(">II", 0x80010001, len(method)) + method + struct.pack(">I", 1) + body


def _text(field: int, text: bytes) -> bytes:
    return struct.pack(">BHI", 11, field, len(text)) + text


def never_reads(address: tuple[str, int], choices: random.Random, until: float) -> None:
    """Ask again and again for the tables, and take no answer."""
    with ExitStack() as ending:
        connections = []
        for _ in range(_CONNECTIONS):
            with suppress(OSError):
                one = ending.enter_context(socket.create_connection(address, _TIMEOUT))
                one.settimeout(0.1)
                connections.append(one)
        request = _call(b"getTableNames", b"\0") * 100
        while time.monotonic() < until:
            for one in connections:
                with suppress(OSError):
                    one.sendall(request)
            time.sleep(choices.uniform(0.05, 0.2))


def garbage(address: tuple[str, int], choices: random.Random, until: float) -> None:
    """Send bytes that are no requests, and requests that break off."""
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(address, _TIMEOUT) as one:
            sent = choices.randbytes(choices.randint(1, 4096))
            if choices.random() < 0.5:
                body = _text(1, b"changing-input") + _text(2, b"row") + choices.randbytes(50)
                sent = _call(b"mutateRow", body)[: choices.randint(1, 90)]
            one.sendall(sent)
            one.settimeout(0.2)
            with suppress(OSError):
                one.recv(4096)


def huge_names(address: tuple[str, int], choices: random.Random, until: float) -> None:
    """Ask for tables and methods with names of a mebibyte."""
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(address, _TIMEOUT) as one:
            name = bytes(choices.choices(b"abcdefgh", k=64)) * 16384
            row = _text(2, b"row") + b"\0"
            method = b"getRow" if choices.random() < 0.7 else name
            one.sendall(_call(method, _text(1, name) + row))
            one.settimeout(0.5)
            with suppress(OSError):
                one.recv(4096)
            time.sleep(0.05)


FORMS: tuple[Callable[[tuple[str, int], random.Random, float], None], ...] = (
    never_reads,
    garbage,
    huge_names,
)


def attack(address: tuple[str, int], number: int, seconds: float) -> str:
    """Do one of them, chosen by the number; return which."""
    form = FORMS[number % len(FORMS)]
    form(address, random.Random(number), time.monotonic() + seconds)
    return form.__name__
