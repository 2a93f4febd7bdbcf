"""What the doctor says of what it meets, and what to do."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.observer import JournalSettings, KafkaPlace, KafkaSettings, Listener, ObserverConfig
from headgate.observer.admin import AdminServer, ObserverHealth
from headgate.observer.doctor.diagnosis import Diagnosis, Question, TlsFiles
from headgate.observer.doctor.findings import Finding, FindingVerdict


def findings(question: Question) -> list[Finding]:
    return list(Diagnosis(question).findings())


def of_address(address: str, tls: TlsFiles | None = None) -> list[Finding]:
    question = Question(thrift=(address,), tls=tls or TlsFiles())
    return [each for each in findings(question) if each.step == f"thrift {address}"]


@contextlib.contextmanager
def served(context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve connections that are closed at once (after TLS' handshake, if there is a context)."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def treat(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                if context is not None:
                    with context.wrap_socket(connection, server_side=True) as wrapped:
                        wrapped.recv(100)
                else:
                    connection.recv(100)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=treat, args=server.accept()[:1], daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_an_address_that_is_none_is_a_problem() -> None:
    (found,) = of_address("no-port")
    assert "write it as host:port" in found.text


def test_a_name_without_an_address_is_a_problem() -> None:
    (found,) = of_address("nobody.invalid:9090")
    assert found.verdict is FindingVerdict.PROBLEM
    assert found.text.startswith("the name nobody.invalid has no address")


def test_a_port_where_nobody_listens_is_told_from_one_that_is_silent() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        (found,) = of_address(f"127.0.0.1:{unused.getsockname()[1]}")
    assert found.text == "nobody listens there (connection refused)"
    assert found.cure == "start the observer, or correct the port"


def test_a_port_that_closes_on_everything_is_a_problem() -> None:
    with served() as address:
        connected, found = of_address(address)
    assert connected.verdict is FindingVerdict.OK
    assert found.text == "closes the connection on everything that is said"


def test_tls_of_an_unknown_authority_is_a_problem_with_the_option_that_cures_it(
    authority: Any,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("observer", "IP:127.0.0.1"))
    with served(context) as address:
        *_, unknown = of_address(address)
        *_, known, after = of_address(address, TlsFiles(ca=str(authority.certificate)))
    assert "its certificate is not good: unable to get local issuer" in unknown.text
    assert "--ca" in unknown.cure
    assert known.text.startswith("speaks TLSv1")
    assert "after TLS' handshake" in after.text


def config(directory: Path, **changes) -> ObserverConfig:
    fields = {
        "name": "o1",
        "thrift1": Listener("127.0.0.1:0", "127.0.0.1:1"),
        "kafka": KafkaSettings("127.0.0.1:1"),
        "journal": JournalSettings(str(directory)),
    }
    return ObserverConfig(**{**fields, **changes})


def of_step(found: list[Finding], start: str) -> Finding:
    return next(each for each in found if each.step.startswith(start))


def test_an_upstream_that_does_not_run_is_named_as_hbase(tmp_path: Path) -> None:
    found = of_step(findings(Question(config(tmp_path))), "thrift1 upstream 127.0.0.1:1")
    assert (found.verdict, found.cure) == (
        FindingVerdict.PROBLEM,
        "start HBase's Thrift server, or correct the port",
    )


def test_an_upstream_with_tls_is_a_problem_where_the_observer_speaks_none(
    tmp_path: Path, authority: Any
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("upstream", "IP:127.0.0.1"))
    with served(context) as address:
        upstream = Listener("127.0.0.1:0", address)
        found = findings(Question(config(tmp_path, thrift1=upstream)))
    (problem,) = [each for each in found if "TLS" in each.text]
    assert problem.text == "speaks TLS, and the observer does not"
    assert problem.cure == "add [thrift1.upstream_tls] to the observer's file"


def test_a_journal_that_can_be_made_and_one_that_cannot(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    good = of_step(findings(Question(config(tmp_path / "new" / "journal"))), "journal")
    bad = of_step(findings(Question(config(tmp_path / "file" / "journal"))), "journal")
    assert good.verdict is FindingVerdict.OK
    assert good.text.startswith(f"can be made in {tmp_path}; ")
    assert bad.verdict is FindingVerdict.PROBLEM
    assert "cannot be written to by user" in bad.text


def test_a_disk_without_room_for_the_journal_is_a_problem(tmp_path: Path) -> None:
    journal = JournalSettings(str(tmp_path), limit_bytes=1 << 60)
    found = of_step(findings(Question(config(tmp_path, journal=journal))), "journal")
    assert "less than journal.limit_bytes" in found.text


@pytest.mark.parametrize(
    ("health", "verdict", "text"),
    [
        (
            ObserverHealth(serving=True, state="serving"),
            FindingVerdict.OK,
            "it serves and that nothing is wrong",
        ),
        (
            ObserverHealth(serving=True, state="serving", reasons=("the journal has no room",)),
            FindingVerdict.PROBLEM,
            "it is serving: the journal has no room",
        ),
        (ObserverHealth(serving=False, state="starting"), FindingVerdict.PROBLEM, "it is starting"),
    ],
)
def test_what_the_observer_says_of_itself_is_passed_on(
    tmp_path: Path, health: ObserverHealth, verdict: FindingVerdict, text: str
) -> None:
    async def run() -> Finding:
        server = AdminServer(lambda: b"", lambda: health, dict)
        host, port = await server.start("127.0.0.1", 0)
        diagnosis = Diagnosis(Question())
        found = await asyncio.to_thread(lambda: list(diagnosis._health("admin", f"{host}:{port}")))
        await server.close()
        return found[0]

    found = asyncio.run(run())
    assert found.verdict is verdict
    assert text in found.text


def test_an_observer_that_does_not_run_is_a_problem(tmp_path: Path) -> None:
    found = of_step(findings(Question(config(tmp_path, admin="127.0.0.1:1"))), "admin")
    assert "no answer from /healthz" in found.text


def test_kafka_that_does_not_run_is_a_problem_in_words() -> None:
    (found,) = findings(Question(kafka=KafkaPlace("127.0.0.1:1", {}, "headgate.control")))
    assert (found.step, found.verdict) == ("kafka 127.0.0.1:1", FindingVerdict.PROBLEM)
    assert "refused" in found.text
    assert "security.protocol" in found.cure
