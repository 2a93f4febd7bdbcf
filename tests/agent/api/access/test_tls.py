"""The API over TLS, as it is really served: certificates of both sides, and their renewal."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from structlog.testing import capture_logs

from headgate.agent.api.access import Caller, CertificateGrant, OwnTokens, Peers, Role
from headgate.agent.configuration import (
    AgentConfiguration,
    ApiAccess,
    HBase,
    KafkaOptions,
)
from headgate.agent.errors import Unreachable
from headgate.agent.process import Guarding
from headgate.settings import ServerTls, UpstreamTls, upstream_side

GRANTS = (
    CertificateGrant("alice", Role.READ, common_name="alice"),
    CertificateGrant("agents", Role.DEFINE, dns="agents.example"),
)
CALLER = Caller("eve", Role.DEFINE)


class Served:
    """A served API, and how it is reached."""

    def __init__(self, guarding: Guarding, port: int) -> None:
        self.guarding = guarding
        self.url = f"https://127.0.0.1:{port}"
        self.port = port

    def get(self, context: ssl.SSLContext, token: str | None = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        with httpx.Client(trust_env=False, verify=context) as client:
            return client.get(f"{self.url}/v1/flows", headers=headers)

    def shown(self, context: ssl.SSLContext) -> bytes:
        """Return the certificate that the API shows to a new client."""
        with (
            socket.create_connection(("127.0.0.1", self.port)) as connection,
            context.wrap_socket(connection, server_hostname="127.0.0.1") as secured,
        ):
            found = secured.getpeercert(binary_form=True)
            assert found is not None
            return found


@pytest.fixture
def token_file(tmp_path: Path, own_token: str) -> str:
    path = tmp_path / "own-token"
    path.write_text(own_token)
    return str(path)


@pytest.fixture
def serve(idle_agent: Any, token_file: str) -> Iterator[Callable[..., Served]]:
    ending: list[Callable[[], None]] = []

    def start(tls: ServerTls, **access: Any) -> Served:
        configuration = AgentConfiguration(
            hbase=HBase("127.0.0.1:1"),
            kafka=KafkaOptions("k:1"),
            tls=tls,
            access=ApiAccess(token_file=token_file, **access),
        )
        listener = socket.create_server(("127.0.0.1", 0))
        guarding = Guarding(configuration)
        config = guarding.configure(idle_agent, "https://127.0.0.1:1")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()

        def end() -> None:
            server.should_exit = True
            thread.join()

        ending.append(end)
        return Served(guarding, listener.getsockname()[1])

    yield start
    for end in ending:
        end()


def client(authority: Any, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


@pytest.fixture
def files(authority: Any) -> tuple[str, str]:
    certificate, key = authority.issue("agent", "IP:127.0.0.1", "DNS:headgate-agent")
    return str(certificate), str(key)


def test_a_token_counts_over_tls_and_nothing_is_answered_without(
    serve: Any, authority: Any, files: tuple[str, str], own_token: str
) -> None:
    served = serve(ServerTls(*files))
    assert served.get(client(authority), own_token).status_code == 200
    assert served.get(client(authority)).status_code == 401
    with httpx.Client(trust_env=False) as plain, pytest.raises(httpx.HTTPError):
        plain.get(served.url.replace("https", "http") + "/healthz")


def test_a_certificate_stands_for_a_token_where_somebody_has_it(
    serve: Any, authority: Any, other_authority: Any, files: tuple[str, str]
) -> None:
    served = serve(ServerTls(*files, client_ca=str(authority.certificate)), certificates=GRANTS)
    assert served.get(client(authority, authority.issue("alice"))).status_code == 200
    nobody = served.get(client(authority, authority.issue("bob")))
    assert nobody.status_code == 401
    assert "[[access.certificates]]" in nobody.json()["error"]
    assert served.get(client(authority)).status_code == 401
    # One that another authority made for the same name does not get as far as that.
    with pytest.raises(httpx.HTTPError):
        served.get(client(authority, other_authority.issue("alice")))


def test_a_revoked_certificate_is_none(
    serve: Any, authority: Any, files: tuple[str, str], tmp_path: Path
) -> None:
    lost = authority.issue("alice")
    (tmp_path / "revoked.pem").write_text(authority.revoke(lost[0]))
    served = serve(
        ServerTls(
            *files, client_ca=str(authority.certificate), client_crl=str(tmp_path / "revoked.pem")
        ),
        certificates=GRANTS,
    )
    assert served.get(client(authority, authority.issue("alice"))).status_code == 200
    with pytest.raises(httpx.HTTPError):
        served.get(client(authority, lost))


def test_new_certificates_are_shown_without_a_restart(
    serve: Any, authority: Any, tmp_path: Path
) -> None:
    def put(*names: str) -> None:
        for made, place in zip(authority.issue(*names), places, strict=True):
            shutil.copy(made, place)

    places = certificate, key = (tmp_path / "tls.crt", tmp_path / "tls.key")
    put("agent", "IP:127.0.0.1")
    served = serve(ServerTls(str(certificate), str(key)))
    before = served.shown(client(authority))
    assert served.shown(client(authority)) == before

    put("agent", "IP:127.0.0.1")
    (credentials, _) = served.guarding.credentials
    assert credentials.changed()
    with capture_logs():
        credentials.reload()
    assert served.shown(client(authority)) != before

    renewed = served.shown(client(authority))
    places[1].write_text("spoiled")
    with capture_logs() as lines:
        credentials.reload()
    assert lines[0]["log_level"] == "error"
    assert served.shown(client(authority)) == renewed


@contextmanager
def peer(token_file: str, **tls: Any) -> Iterator[Callable[[str], httpx.Response]]:
    def ask(url: str) -> httpx.Response:
        async def once() -> httpx.Response:
            peers = Peers(
                "two",
                OwnTokens(Path(token_file)),
                upstream_side("agents", UpstreamTls(**tls), "peers"),
            )
            try:
                return await peers.ask(CALLER, url, "DELETE", "/v1/flows/air")
            finally:
                await peers.close()

        return asyncio.run(once())

    yield ask


def test_an_agent_knows_another_by_the_name_that_all_have(
    serve: Any, authority: Any, other_authority: Any, token_file: str
) -> None:
    """Pods are asked by addresses, for which nobody has certificates."""
    certificate, key = authority.issue("agent", "DNS:headgate-agent")
    served = serve(ServerTls(str(certificate), str(key)))
    ca = str(authority.certificate)
    with peer(token_file, ca=ca, server_name="headgate-agent") as ask, capture_logs() as lines:
        assert ask(served.url).status_code == 404
    assert [(line["who"], line["via"]) for line in lines] == [("'eve'", "'agent'")]
    for tls in (
        {"ca": ca},
        {"ca": ca, "server_name": "other"},
        {"ca": str(other_authority.certificate), "server_name": "headgate-agent"},
    ):
        with peer(token_file, **tls) as ask, pytest.raises(httpx.HTTPError):
            ask(served.url)


def test_an_agent_with_a_certificate_shows_no_token(
    serve: Any, authority: Any, files: tuple[str, str], tmp_path: Path
) -> None:
    other = tmp_path / "other-token"
    other.write_text("headgate_known-on-another-host-alone")
    served = serve(ServerTls(*files, client_ca=str(authority.certificate)), certificates=GRANTS)
    certificate, key = authority.issue("two", "DNS:agents.example")
    tls = {"ca": str(authority.certificate), "certificate": str(certificate), "key": str(key)}
    with peer(str(other), **tls) as ask, capture_logs() as lines:
        assert ask(served.url).status_code == 404
    assert [(line["who"], line["via"]) for line in lines] == [("'eve'", "'agents'")]


def test_agents_that_share_no_token_say_so(
    serve: Any, authority: Any, files: tuple[str, str], tmp_path: Path
) -> None:
    other = tmp_path / "other-token"
    other.write_text("headgate_known-on-another-host-alone")
    served = serve(ServerTls(*files))
    with (
        peer(str(other), ca=str(authority.certificate)) as ask,
        pytest.raises(Unreachable, match=r"access\.token_file") as raised,
    ):
        ask(served.url)
    assert "known-on-another" not in str(raised.value)
