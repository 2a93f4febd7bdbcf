"""Clients that must show a certificate, and lists of those that are revoked."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tls_listener import client, listening, run

from headgate.observer.config import Tls
from headgate.settings import CredentialsError, client_side


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
