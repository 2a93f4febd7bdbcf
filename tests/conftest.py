"""What holds for all tests."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code; pytest's own time limit
# ends what hangs.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")

# A shell starts what runs in the background with Ctrl-C ignored, and every child inherits that;
# tests that interrupt a command need it as a person at a terminal has it.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Authority:
    """Signs certificates. It uses the ``openssl`` command, which Python itself cannot replace."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._made = 0
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        folder.mkdir(parents=True)
        self._openssl(
            *("req", "-x509", "-days", "3", "-subj", f"/CN={name}", "-out", self.certificate),
            *self._new_key(self._key),
        )

    def issue(self, name: str, *names: str, days: int = 2) -> tuple[Path, Path]:
        """Return files of a certificate and its key; ``names`` as in ``IP:127.0.0.1``.

        With negative ``days`` it has expired.
        """
        self._made += 1
        stem = self._folder / f"{self._made}-{name}"
        certificate, key, request = (stem.with_suffix(f".{end}") for end in ("pem", "key", "csr"))
        alternative = ["-addext", f"subjectAltName={','.join(names)}"] if names else []
        self._openssl(
            *("req", "-subj", f"/CN={name}", "-out", request), *self._new_key(key), *alternative
        )
        self._openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key),
            *("-copy_extensions", "copy", "-days", days, "-out", certificate),
        )
        return certificate, key

    def encrypt(self, key: Path, pass_phrase: str) -> Path:
        """Return a file of the same key behind a pass phrase."""
        encrypted = key.with_suffix(".encrypted")
        self._openssl(
            *("pkey", "-in", key, "-aes256", "-passout", f"pass:{pass_phrase}", "-out", encrypted)
        )
        return encrypted

    @staticmethod
    def _new_key(file: Path) -> tuple[object, ...]:
        curve = "ec_paramgen_curve:prime256v1"
        return "-newkey", "ec", "-pkeyopt", curve, "-nodes", "-keyout", file

    @staticmethod
    def _openssl(*arguments: object) -> None:
        done = subprocess.run(
            ["openssl", *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that everybody trusts."""
    return Authority(tmp_path_factory.mktemp("authority") / "ca", "Trusted")


@pytest.fixture(scope="session")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that nobody trusts."""
    return Authority(tmp_path_factory.mktemp("authority") / "ca", "Stranger")
