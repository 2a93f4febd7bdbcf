"""What holds for all tests, and the certificates that some of them need."""

from __future__ import annotations

import gc
import os
import signal
from base64 import encodebytes
from collections.abc import Generator, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha1, sha256
from ipaddress import ip_address
from pathlib import Path
from secrets import randbelow
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from tests.class_archive import ARCHIVE, OPTIONS
from tests.file_order import Scheduling, in_order
from tests.resuming import add_option, committed
from tests.shared_spark import spark
from tests.shared_stack import SharedStack

if TYPE_CHECKING:
    from _typeshed import HasFileno

__all__ = ["spark"]

# How long an example takes says more about the machine than about the code; pytest's own time limit
# ends what hangs. Most of what an invariant is broken by shows in few examples; `make soak` has the
# many: who needs more or fewer than others says so as a share of its profile's.
settings.register_profile("headgate", deadline=None, max_examples=50)
settings.register_profile("soak", deadline=None, max_examples=1000)
settings.load_profile("headgate")

# A shell starts what runs in the background with Ctrl-C ignored, and every child inherits that;
# tests that interrupt a command need it as a person at a terminal has it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# JVMs live for minutes here: with the quick compiler alone their start takes half the processor
# time. Who names options of their own keeps them.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
if ARCHIVE.exists():
    os.environ.setdefault("SPARK_SUBMIT_OPTS", OPTIONS.format(ARCHIVE))


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Have the processes of a run share a stack, unless whoever runs the tests has one."""
    if config.getoption("resume"):
        config.pluginmanager.register(committed())
    starts_others = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if starts_others and "HEADGATE_TEST_STACK" not in os.environ:
        config.pluginmanager.register(SharedStack())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: what is collected stays, and is not looked at later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order files for the processes of a run; by itself a process has them as they come."""
    if hasattr(config, "workerinput"):
        names = {item: item.nodeid.partition("::")[0] for item in items}
        place = {name: number for number, name in enumerate(in_order(names.values()))}
        items.sort(key=lambda item: place[names[item]])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tokens and keys of the tests' agents apart from those of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        for variable in ("HEADGATE_TOKEN", "HEADGATE_TOKEN_FILE", "HEADGATE_AGENT"):
            patch.delenv(variable, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _disks() -> Iterator[None]:
    """Have nobody wait for a disk: no test cuts the power, and those of syncing count its calls."""

    def sync(file: int | HasFileno) -> None:
        os.fstat(file if isinstance(file, int) else file.fileno())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        patch.setattr(os, "fdatasync", sync)
        yield


@pytest.fixture(autouse=True)
def _variables() -> Iterator[None]:
    """A test that leaves a variable behind fails, and not one after it that meets the variable."""
    before = dict(os.environ)
    yield
    left = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
    left.discard("PYTEST_CURRENT_TEST")
    assert not left, f"left in the environment: {sorted(left)}"


# The curve P-256 (FIPS 186-5): its field, a point that generates the group, and the group's order.
_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

_Point = tuple[int, int]

# Object identifiers, in DER.
_EC_KEY = bytes.fromhex("06072a8648ce3d0201")
_P256 = bytes.fromhex("06082a8648ce3d030107")
_ECDSA_SHA256 = bytes.fromhex("06082a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("0603550403")
_OWN_KEY_ID = bytes.fromhex("0603551d0e")
_KEY_USAGE = bytes.fromhex("0603551d0f")
_OTHER_NAMES = bytes.fromhex("0603551d11")
_CONSTRAINTS = bytes.fromhex("0603551d13")
_ISSUERS_KEY_ID = bytes.fromhex("0603551d23")

_TRUE = bytes.fromhex("0101ff")
_SIGNS_CERTIFICATES = bytes.fromhex("03020106")


def _add(one: _Point | None, other: _Point | None) -> _Point | None:
    if one is None or other is None:
        return one or other
    if one[0] == other[0] and (one[1] + other[1]) % _P == 0:
        return None
    if one == other:
        slope = 3 * (one[0] * one[0] - 1) * pow(2 * one[1], -1, _P)
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, _P)
    x = (slope * slope - one[0] - other[0]) % _P
    return x, (slope * (one[0] - x) - one[1]) % _P


def _times(number: int) -> _Point:
    point: _Point | None = None
    power: _Point | None = _G
    while number:
        if number & 1:
            point = _add(point, power)
        power = _add(power, power)
        number >>= 1
    assert point is not None
    return point


def _der(kind: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    length = len(content)
    if length < 128:
        return bytes((kind, length)) + content
    width = (length.bit_length() + 7) // 8
    return bytes((kind, 0x80 + width)) + length.to_bytes(width, "big") + content


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, *parts)


def _integer(number: int) -> bytes:
    return _der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _der(0x03, b"\0", content)


def _bytes(content: bytes) -> bytes:
    return _der(0x04, content)


def _pem(kind: str, der: bytes) -> str:
    return f"-----BEGIN {kind}-----\n{encodebytes(der).decode()}-----END {kind}-----\n"


class Key:
    """A key for signatures by ECDSA."""

    def __init__(self) -> None:
        self._secret = randbelow(_N - 1) + 1
        x, y = _times(self._secret)
        self._point = b"\4" + x.to_bytes(32, "big") + y.to_bytes(32, "big")
        self.id = sha1(self._point).digest()

    def public(self) -> bytes:
        return _sequence(_sequence(_EC_KEY, _P256), _bits(self._point))

    def pem(self) -> str:
        """PKCS #8, which OpenSSL and Java read."""
        secret = _bytes(self._secret.to_bytes(32, "big"))
        own = _sequence(_integer(1), secret, _der(0xA1, _bits(self._point)))
        whole = _sequence(_integer(0), _sequence(_EC_KEY, _P256), _bytes(own))
        return _pem("PRIVATE KEY", whole)

    def sign(self, content: bytes) -> bytes:
        digest = int.from_bytes(sha256(content).digest(), "big")
        once = randbelow(_N - 1) + 1
        r = _times(once)[0] % _N
        return _sequence(
            _integer(r), _integer(pow(once, -1, _N) * (digest + r * self._secret) % _N)
        )


class Authority:
    """Signs certificates, so that tests need no command and no package for that."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._name = name
        self._made = 0
        self._serials: dict[Path, int] = {}
        self._key = Key()
        self.certificate = folder / "ca.pem"
        own = (
            _sequence(_CONSTRAINTS, _TRUE, _bytes(_sequence(_TRUE))),
            _sequence(_KEY_USAGE, _TRUE, _bytes(_SIGNS_CERTIFICATES)),
        )
        self.certificate.write_text(self._signed(name, self._key, 3, 1, *own))

    def issue(self, name: str, *names: str, days: int = 2) -> tuple[Path, Path]:
        """Return files of a certificate and its key; ``names`` as in ``IP:127.0.0.1``.

        With negative ``days`` it has expired.
        """
        self._made += 1
        stem = self._folder / f"{self._made}-{name}"
        certificate, key = stem.with_suffix(".pem"), stem.with_suffix(".key")
        extensions: tuple[bytes, ...] = ()
        if names:
            others = b"".join(_other_name(*each.split(":", 1)) for each in names)
            extensions = (_sequence(_OTHER_NAMES, _bytes(_sequence(others))),)
        own = Key()
        key.write_text(own.pem())
        serial = self._serials[certificate] = randbelow(1 << 64)
        certificate.write_text(self._signed(name, own, days, serial, *extensions))
        return certificate, key

    def revoke(self, *certificates: Path, days: int = 2) -> str:
        """Return a list of revoked certificates in PEM; with negative ``days`` it has expired."""
        now = datetime.now(UTC)
        begin = min(now, now + timedelta(days=days)) - timedelta(days=1)
        revoked = [_sequence(_integer(self._serials[each]), _time(begin)) for each in certificates]
        content = _sequence(
            _integer(1),
            _sequence(_ECDSA_SHA256),
            _common_name(self._name),
            _time(begin),
            _time(now + timedelta(days=days)),
            *([_sequence(*revoked)] if revoked else []),
        )
        signature = _bits(self._key.sign(content))
        return _pem("X509 CRL", _sequence(content, _sequence(_ECDSA_SHA256), signature))

    def _signed(self, name: str, key: Key, days: int, serial: int, *extensions: bytes) -> str:
        end = datetime.now(UTC) + timedelta(days=days)
        begin = min(end, datetime.now(UTC)) - timedelta(days=1)
        content = _sequence(
            _der(0xA0, _integer(2)),
            _integer(serial),
            _sequence(_ECDSA_SHA256),
            _common_name(self._name),
            _sequence(_time(begin), _time(end)),
            _common_name(name),
            key.public(),
            _der(
                0xA3,
                _sequence(
                    _sequence(_OWN_KEY_ID, _bytes(_bytes(key.id))),
                    _sequence(_ISSUERS_KEY_ID, _bytes(_sequence(_der(0x80, self._key.id)))),
                    *extensions,
                ),
            ),
        )
        signature = _bits(self._key.sign(content))
        return _pem("CERTIFICATE", _sequence(content, _sequence(_ECDSA_SHA256), signature))


def _time(moment: datetime) -> bytes:
    return _der(0x17, f"{moment:%y%m%d%H%M%SZ}".encode())


def _common_name(name: str) -> bytes:
    return _sequence(_der(0x31, _sequence(_COMMON_NAME, _der(0x0C, name.encode()))))


def _other_name(kind: str, name: str) -> bytes:
    if kind == "IP":
        return _der(0x87, ip_address(name).packed)
    return _der({"DNS": 0x82, "URI": 0x86}[kind], name.encode())


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that everybody trusts."""
    return Authority(tmp_path_factory.mktemp("authority") / "ca", "Trusted")


@pytest.fixture(scope="session")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that nobody trusts."""
    return Authority(tmp_path_factory.mktemp("authority") / "ca", "Stranger")
