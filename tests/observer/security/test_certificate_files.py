"""The listener's own certificate: a new one is taken, and files that cannot be used are named."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tls_listener import client, listening, run

from headgate.observer.config import Tls
from headgate.settings import CredentialsError, client_side

ENCRYPTED = """-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgQIrHvj6iVeAICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEENQjG0oQktOuFa5rgrw1RE0EgZAc
lIoLhTsXqcKdrPUNEOIiOAVP4Nn3kzykB4JmEA09GiS7P6qHWwYnArD1yJyHO/0h
vYV9w7l2/bA/fbggNclKzCukiHurO/hBlSh32Qg5j0fboH44od6JH/8eBWthLXlz
OdyZHyayhl9htOLlbh+hXKVAF69fwPZugL36CMa/wgvj+H0hydQ9dCjvkTIoEyM=
-----END ENCRYPTED PRIVATE KEY-----
"""
"""A key behind a pass phrase: nothing but this test has ever used it."""


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
