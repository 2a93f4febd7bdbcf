"""Certificates of a listener, and what its configuration says of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.observer.config import Tls

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)  # for ``tls_listener``


@pytest.fixture(scope="module")
def server_files(authority: Any) -> tuple[Path, Path]:
    return authority.issue("observer", "IP:127.0.0.1", "DNS:localhost")


@pytest.fixture
def tls(server_files: tuple[Path, Path]) -> Tls:
    certificate, key = server_files
    return Tls(str(certificate), str(key))


@pytest.fixture
def mutual(server_files: tuple[Path, Path], authority: Any) -> Tls:
    certificate, key = server_files
    return Tls(
        str(certificate),
        str(key),
        client_ca=str(authority.certificate),
        require_client_certificate=True,
    )
