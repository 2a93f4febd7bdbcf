"""Addresses as people write them, each brought to one spelling."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

_MAX_PORT = (1 << 16) - 1
_MAPPED: Final = IPv6Network("::ffff:0:0/96")  # IPv4 as seen by a socket for both versions
_MAPPED_BITS: Final = 96


def parse_address(text: str) -> tuple[str, int]:
    """Return the canonical host and the port of ``host:port`` or ``[v6]:port``.

    Raises:
        ValueError: the text is no such address.
    """
    written, colon, port = text.rpartition(":")
    host = written.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= _MAX_PORT):
        raise ValueError(f"{text!r} is no address; write it as host:port, as in 127.0.0.1:9190")
    canonical = canonical_host(host)
    try:
        canonical.encode("idna")
    except UnicodeError as error:
        raise ValueError(
            f"{text!r} is no address: {host!r} cannot name a host ({error}); write it as host:port"
        ) from error
    return canonical, int(port)


def canonical_host(host: str) -> str:
    """Return a host's name in lower case, or the shortest spelling of an IP address."""
    try:
        return str(canonical_ip(host))
    except ValueError:
        return host.lower()


def canonical_ip(address: str) -> IPv4Address | IPv6Address:
    """Return an IP address; one of IPv4 where IPv6 only wraps it.

    Raises:
        ValueError: this is no IP address.
    """
    found = ip_address(address)
    return getattr(found, "ipv4_mapped", None) or found


def canonical_network(network: str) -> IPv4Network | IPv6Network:
    """Return a network; one of IPv4 where IPv6 only wraps it.

    Raises:
        ValueError: this is no network, or an address in one.
    """
    found = ip_network(network)
    if isinstance(found, IPv6Network) and found.subnet_of(_MAPPED):
        mapped = found.network_address.ipv4_mapped
        return IPv4Network(f"{mapped}/{found.prefixlen - _MAPPED_BITS}")
    return found


def write_address(host: str, port: int) -> str:
    """Return ``host:port``, or ``[v6]:port``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def canonical_address(text: str) -> str:
    """Return an address with its canonical host; a text that is none as it is."""
    try:
        return write_address(*parse_address(text))
    except ValueError:
        return text


def is_loopback(host: str) -> bool:
    """Return whether a host's name or address is one that only this machine reaches."""
    try:
        return canonical_ip(host).is_loopback
    except ValueError:
        return host.lower().removesuffix(".") == "localhost"
