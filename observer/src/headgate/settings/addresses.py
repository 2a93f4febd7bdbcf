"""Addresses as people write them."""

from __future__ import annotations

from ipaddress import ip_address

_MAX_PORT = (1 << 16) - 1


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        ValueError: the text is no such address.
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= _MAX_PORT):
        raise ValueError(f"{text!r} is no address; write it as host:port, as in 127.0.0.1:9190")
    return host.removeprefix("[").removesuffix("]"), int(port)


def write_address(host: str, port: int) -> str:
    """Return ``host:port``, or ``[v6]:port``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether a host's name or address is one that only this machine reaches."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
