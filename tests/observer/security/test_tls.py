"""TLS to clients: who is refused, what is said of it, and that it is counted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import structlog
import uvloop
from msgspec.structs import replace

from headgate.hbase import Dialect
from headgate.observer.config import Tls
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.security import tls as module
from headgate.observer.security.tls import TlsServer, listening_sockets
from headgate.settings import Credentials, CredentialsError, client_side
from headgate.wire import MessageReader, MessageType, StructWriter, Transport, write_message

T = TypeVar("T")

GET = write_message(
    Transport.FRAMED,
    "get",
    MessageType.CALL,
    7,
    StructWriter().binary(1, b"t").binary(2, b"r").binary(3, b"f:q").end(),
)

ENCRYPTED = """-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgQIrHvj6iVeAICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEENQjG0oQktOuFa5rgrw1RE0EgZAc
lIoLhTsXqcKdrPUNEOIiOAVP4Nn3kzykB4JmEA09GiS7P6qHWwYnArD1yJyHO/0h
vYV9w7l2/bA/fbggNclKzCukiHurO/hBlSh32Qg5j0fboH44od6JH/8eBWthLXlz
OdyZHyayhl9htOLlbh+hXKVAF69fwPZugL36CMa/wgvj+H0hydQ9dCjvkTIoEyM=
-----END ENCRYPTED PRIVATE KEY-----
"""
"""A key behind a pass phrase: nothing but this test has ever used it."""


class Echo(asyncio.Protocol):
    """What stands behind the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


class Listener:
    """A listener with TLS, its metrics and its log."""

    def __init__(self, server: TlsServer, metrics: Metrics, log: list[Any]) -> None:
        self.port: int = server.sockets[0].getsockname()[1]
        self.metrics = metrics
        self.log = log

    async def failed(self, reason: str) -> dict[str, Any]:
        """Wait for a failed handshake to be counted; return its line in the log."""
        while ("thrift1", reason) not in self.metrics.tls_failures:
            await asyncio.sleep(0.005)
        assert self.metrics.tls_failures == {("thrift1", reason): 1}
        (line,) = [each for each in self.log if each["event"] == "TLS handshake failed"]
        assert line["reason"] == reason
        assert line["client"].startswith("127.0.0.1:")
        return line

    async def call(self, context: ssl.SSLContext, data: bytes = b"hello") -> bytes:
        """Return what comes back; nothing, where the connection ended."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        writer.write(data)
        answer = await reader.read(100)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return answer


@contextlib.asynccontextmanager
async def listening(
    credentials: Credentials,
    *,
    seconds: float = 10.0,
    admits: Callable[[str], bool] = lambda _host: True,
) -> AsyncIterator[Listener]:
    loop = asyncio.get_running_loop()
    metrics = Metrics()
    with structlog.testing.capture_logs() as log:
        server = TlsServer(
            await listening_sockets(loop, "127.0.0.1", 0, 10),
            loop=loop,
            dialect=Dialect.THRIFT1,
            credentials=credentials,
            handshake_seconds=seconds,
            protocol=Echo,
            admits=admits,
            metrics=metrics,
        )
        try:
            yield Listener(server, metrics, log)
        finally:
            server.close()


def run(scenario: Awaitable[T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(20):
            return await scenario

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(bounded())


def client(authority: Any, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


def shake_hands(port: int, context: ssl.SSLContext) -> None:
    """Connect as happybase does: a blocking client says why it leaves, the event loop's not."""
    with (
        socket.create_connection(("127.0.0.1", port)) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1"),
    ):
        pass


@pytest.fixture(scope="module")
def server_files(authority: Any) -> tuple[Path, Path]:
    return authority.issue("observer", "IP:127.0.0.1", "DNS:localhost")


@pytest.fixture
def tls(server_files: tuple[Path, Path]) -> Tls:
    return Tls(*map(str, server_files))


@pytest.fixture
def mutual(server_files: tuple[Path, Path], authority: Any) -> Tls:
    return Tls(
        *map(str, server_files),
        client_ca=str(authority.certificate),
        require_client_certificate=True,
    )


def test_a_client_that_trusts_the_listener_is_served(authority: Any, tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            assert await listener.call(client(authority)) == b"hello"
            assert not listener.metrics.tls_failures

    run(scenario())


def test_a_client_with_the_wrong_ca_gives_up_and_that_is_told(
    other_authority: Any, tls: Tls
) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            shake = partial(shake_hands, listener.port, client(other_authority))
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.get_running_loop().run_in_executor(None, shake)
            line = await listener.failed("refused_by_client")
            assert "give it that CA" in line["text"]

    run(scenario())


def refusal(server: Tls, context: ssl.SSLContext, reason: str) -> str:
    """Have a client refused for the reason; return what the log says of it."""

    async def scenario() -> str:
        async with listening(client_side("thrift1", server)) as listener:
            with contextlib.suppress(OSError):
                assert await listener.call(context) == b""
            line = await listener.failed(reason)
            return str(line["text"])

    return run(scenario())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("shown", "reason", "text"),
    [
        ("nothing", "no_certificate", "requires"),
        ("of a stranger", "unknown_ca", "unable to get local issuer certificate"),
        ("expired", "expired", "certificate has expired; renew it"),
    ],
)
def test_a_client_is_refused_by_its_certificate(
    authority: Any,
    other_authority: Any,
    mutual: Tls,
    shown: str,
    reason: str,
    text: str,
    version: ssl.TLSVersion,
) -> None:
    certificate = {
        "nothing": lambda: None,
        "of a stranger": lambda: other_authority.issue("client"),
        "expired": lambda: authority.issue("client", days=-1),
    }[shown]()

    context = client(authority, certificate)
    context.maximum_version = version
    assert text in refusal(mutual, context, reason)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("lists", "reason", "text"),
    [
        ("revoked", "revoked", "certificate revoked"),
        ("expired", "revocation_list", "CRL has expired; put a list into client_crl"),
        ("of another authority", "revocation_list", "add its authority's list to client_crl"),
    ],
)
def test_a_client_is_refused_by_the_list_of_revoked_certificates(
    authority: Any,
    other_authority: Any,
    mutual: Tls,
    tmp_path: Path,
    lists: str,
    reason: str,
    text: str,
    version: ssl.TLSVersion,
) -> None:
    shown = authority.issue("client")
    revoked = {
        "revoked": lambda: authority.revoke(shown[0]),
        "expired": lambda: authority.revoke(days=-1),
        "of another authority": lambda: other_authority.revoke(),
    }[lists]()
    crl = tmp_path / "crl.pem"
    crl.write_text(revoked)

    context = client(authority, shown)
    context.maximum_version = version
    assert text in refusal(replace(mutual, client_crl=str(crl)), context, reason)


def test_a_certificate_that_is_revoked_while_clients_are_served_is_refused_from_then_on(
    authority: Any, mutual: Tls, tmp_path: Path
) -> None:
    revoked, kept = authority.issue("revoked"), authority.issue("kept")
    crl = tmp_path / "crl.pem"
    crl.write_text(authority.revoke(days=1))

    async def scenario() -> None:
        credentials = client_side("thrift1", replace(mutual, client_crl=str(crl)))
        due = credentials.expiries["client_crl"]
        async with listening(credentials) as listener:
            assert await listener.call(client(authority, revoked)) == b"hello"
            crl.write_text(authority.revoke(revoked[0], days=2))
            assert credentials.changed()
            credentials.reload()
            assert credentials.expiries["client_crl"] > due + 80_000
            with contextlib.suppress(OSError):
                assert await listener.call(client(authority, revoked)) == b""
            assert await listener.call(client(authority, kept)) == b"hello"
            await listener.failed("revoked")

    run(scenario())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "holds no list of revoked certificates"),
        ("-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n", "cannot be used"),
        ("-----BEGIN X509 CRL-----\nno\n-----END X509 CRL-----\n", "cannot be used"),
    ],
)
def test_a_file_that_is_no_list_of_revoked_certificates_is_told_with_its_cure(
    mutual: Tls, tmp_path: Path, content: str, expected: str
) -> None:
    crl = tmp_path / "crl.pem"
    crl.write_text(content)
    with pytest.raises(CredentialsError) as caught:
        client_side("thrift1", replace(mutual, client_crl=str(crl)))
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"thrift1.tls.client_crl: {crl} ")
    assert "name a PEM file, which begins with -----BEGIN X509 CRL-----" in str(caught.value)


def test_a_client_with_a_good_certificate_is_served(authority: Any, mutual: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", mutual)) as listener:
            assert await listener.call(client(authority, authority.issue("client"))) == b"hello"

    run(scenario())


def test_tls_below_1_2_is_refused(authority: Any, tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            context = client(authority)
            with pytest.deprecated_call():
                context.minimum_version = ssl.TLSVersion.TLSv1
                context.maximum_version = ssl.TLSVersion.TLSv1_1
            context.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.raises(OSError):
                await listener.call(context)
            assert "below 1.2" in (await listener.failed("version"))["text"]

    run(scenario())


def test_a_client_without_tls_is_told_what_to_do_in_thrift(tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(GET)
            answer = MessageReader()
            answer.feed(await reader.read())
            message = answer.next_message()
            assert message is not None
            assert (message.name, message.type) == ("get", MessageType.REPLY)
            assert b"turn TLS on in the client" in message.raw
            await listener.failed("plain")
            writer.close()

    run(scenario())


def test_what_is_neither_tls_nor_thrift_is_closed(tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await reader.read() == b""
            await listener.failed("plain")
            writer.close()

    run(scenario())


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
def test_a_client_that_drips_is_cut_off(tls: Tls, sent: bytes) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls), seconds=0.05) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(sent)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            await listener.failed("timeout")
            writer.close()

    run(scenario())


def test_a_client_that_leaves_during_the_handshake_is_counted(tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(b"\x16\x03\x01")
            writer.close()
            await listener.failed("closed")

    run(scenario())


def test_one_that_connects_and_leaves_is_no_failure(tls: Tls) -> None:
    """Load balancers look in that way."""

    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.close()
            await writer.wait_closed()
            await asyncio.sleep(0)
            assert not listener.metrics.tls_failures

    run(scenario())


def test_a_host_of_no_network_gets_no_handshake(authority: Any, tls: Tls) -> None:
    async def scenario() -> None:
        credentials = client_side("thrift1", tls)
        async with listening(credentials, admits=lambda _host: False) as listener:
            with pytest.raises(OSError):
                await listener.call(client(authority))
            assert not listener.metrics.tls_failures

    run(scenario())


def test_many_clients_shake_hands_at_once(authority: Any, tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            context = client(authority)
            answers = await asyncio.gather(*(listener.call(context, b"%d" % i) for i in range(50)))
            assert answers == [b"%d" % i for i in range(50)]

    run(scenario())


def test_a_flood_of_failures_is_counted_but_not_logged_line_by_line(tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            for _ in range(60):
                with socket.create_connection(("127.0.0.1", listener.port)) as stranger:
                    stranger.sendall(b"\0")
                await asyncio.sleep(0)
            while listener.metrics.tls_failures.get(("thrift1", "plain"), 0) < 60:
                await asyncio.sleep(0.005)
            assert len(listener.log) == 20

    run(scenario())


def test_a_new_certificate_serves_new_connections_and_leaves_the_others(
    authority: Any, tmp_path: Path
) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"

    def install(days: int) -> None:
        for made, place in zip(
            authority.issue("observer", "IP:127.0.0.1", days=days), (certificate, key), strict=True
        ):
            made.rename(place)

    async def scenario() -> None:
        install(days=1)
        credentials = client_side("thrift1", Tls(str(certificate), str(key)))
        first = credentials.expiries["server"]
        async with listening(credentials) as listener:
            context = client(authority)
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=context)
            install(days=2)
            assert credentials.changed()
            credentials.reload()
            assert not credentials.changed()
            assert credentials.expiries["server"] > first + 80_000
            assert await listener.call(context) == b"hello"
            writer.write(b"still here")
            assert await reader.read(100) == b"still here"
            writer.close()

    run(scenario())


def test_a_broken_new_certificate_is_refused_and_the_old_one_goes_on(
    authority: Any, tmp_path: Path
) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    for made, place in zip(
        authority.issue("observer", "IP:127.0.0.1"), (certificate, key), strict=True
    ):
        made.rename(place)

    async def scenario() -> None:
        credentials = client_side("thrift1", Tls(str(certificate), str(key)))
        async with listening(credentials) as listener:
            certificate.write_bytes(authority.issue("observer", "IP:127.0.0.1")[0].read_bytes())
            os.utime(certificate, (1, 1))
            credentials.reload()
            (line,) = listener.log
            assert line["log_level"] == "error"
            assert f"{key} is not the key of the certificate in {certificate}" in line["reason"]
            assert not credentials.changed()
            assert await listener.call(client(authority)) == b"hello"

    run(scenario())


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        ("encrypted", "is encrypted with a pass phrase, which nobody could type at a restart"),
        ("other key", "is not the key of the certificate in"),
        ("missing", "cannot be read (No such file or directory)"),
        ("no certificate", "holds no certificate; name a PEM file"),
    ],
)
def test_files_that_cannot_be_used_are_named_with_the_cure(
    authority: Any, server_files: tuple[Path, Path], tmp_path: Path, spoil: str, expected: str
) -> None:
    certificate, key = server_files
    if spoil == "encrypted":
        key = tmp_path / "observer.key"
        key.write_text(ENCRYPTED)
    elif spoil == "other key":
        key = authority.issue("other")[1]
    elif spoil == "missing":
        key = Path("/nonexistent/observer.key")
    else:
        certificate = key
    with pytest.raises(CredentialsError) as caught:
        client_side("thrift1", Tls(str(certificate), str(key)))
    assert str(caught.value).startswith("thrift1.tls.")
    assert expected in str(caught.value)


# -- clients that hold a place


async def hold(port: int, count: int, sent: bytes) -> list[tuple[Any, Any]]:
    """Open connections that send this and then nothing."""
    found = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    for _, writer in found:
        writer.write(sent)
    await asyncio.sleep(0)
    return found


async def served(listener: Listener, authority: Any) -> bool:
    async with asyncio.timeout(8):
        return await listener.call(client(authority)) == b"hello"


def test_silent_connections_keep_no_client_waiting(
    authority: Any, tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_HANDSHAKES", 2)

    async def scenario() -> None:
        async with listening(client_side("thrift1", tls), seconds=1000.0) as listener:
            held = await hold(listener.port, 10, b"")
            assert await served(listener, authority)
            assert listener.metrics.tls_failures == {}
            for _, writer in held:
                writer.close()

    run(scenario())


def test_handshakes_that_stand_still_give_way(
    authority: Any, tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_HANDSHAKES", 2)
    monkeypatch.setattr(module, "_STALLED_SECONDS", 0.0)
    monkeypatch.setattr(module, "_TURN_SECONDS", 0.001)

    async def scenario() -> None:
        async with listening(client_side("thrift1", tls), seconds=1000.0) as listener:
            held = await hold(listener.port, 5, b"\x16\x03\x01")
            while sum(listener.metrics.tls_failures.values()) < 3:
                await asyncio.sleep(0.001)
            assert await served(listener, authority)
            for _, writer in held:
                writer.close()

    run(scenario())


def test_of_too_many_silent_connections_the_oldest_are_cut_off(
    tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_EARLY", 3)

    async def scenario() -> None:
        async with listening(client_side("thrift1", tls), seconds=1000.0) as listener:
            held = await hold(listener.port, 5, b"")
            for reader, _ in held[:2]:
                assert await reader.read() == b""
            assert listener.metrics.tls_failures == {("thrift1", "timeout"): 2}
            assert not any(reader.at_eof() for reader, _ in held[2:])
            for _, writer in held:
                writer.close()

    run(scenario())
