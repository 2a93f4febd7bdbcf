"""Keys that change live are checked as at a start, and a bad one harms nobody who is served."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.observer.config import (
    HealthChecks,
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
)
from headgate.observer.security.keyring import Keyring
from headgate.observer.upstreams.dialing import Dialed, Dialer, UpstreamsUnreachable
from headgate.observer.upstreams.pool import UpstreamPool
from headgate.settings import CredentialsError, UpstreamTls, parse_address


def configuration(server_name: str) -> ObserverConfig:
    tls = UpstreamTls(server_name=server_name)
    listener = Listener("127.0.0.1:0", "127.0.0.1:1", upstream_tls=tls)
    return ObserverConfig("o", KafkaSettings("k:1"), JournalSettings("j"), listener)


names = st.one_of(
    st.text(max_size=20),
    st.text("ab.-_*:[]% \0", max_size=12),
    st.sampled_from([".x", "x.", "x..y", "x" * 64, "a" * 300, "*.example.com", "::1", "127.0.0.1"]),
)


@given(names)
def test_a_server_name_that_no_connection_could_ask_for_is_refused_live_and_at_start(
    name: str,
) -> None:
    keyring = Keyring(configuration(""))
    wanted = configuration(name)
    try:
        keyring.prepare(configuration(""), wanted)()
    except CredentialsError:
        with pytest.raises(CredentialsError, match=r"thrift1\.upstream_tls\.server_name"):
            Keyring(wanted)
    else:
        context = keyring.upstreams["thrift1"].context
        used = keyring.upstreams["thrift1"].server_name or "127.0.0.1"
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=used)


@given(names)
def test_an_upstream_whose_name_no_host_has_is_refused(name: str) -> None:
    try:
        host, _ = parse_address(f"{name}:9090")
    except ValueError:
        return
    assert host.encode("idna")


def test_a_name_that_ssl_refuses_is_an_upstream_that_cannot_be_reached() -> None:
    """Checks come first; a connection's own error stays with it all the same."""

    async def script() -> None:
        loop = asyncio.get_running_loop()
        found: list[Any] = []
        loop.set_exception_handler(lambda _, context: found.append(context))
        keyring = Keyring(configuration("hbase.example.com"))
        credentials = keyring.upstreams["thrift1"]
        credentials.server_name = ".x"
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
            pool = UpstreamPool("thrift1", (address,), HealthChecks())
            dialer = Dialer(loop, pool, 5.0, credentials)
            with pytest.raises(UpstreamsUnreachable, match="no name for a certificate"):
                await dialer.connect(lambda _: Dialed())
        assert found == []

    asyncio.run(script())
