"""The proxy reads what may write as HBase does, or refuses it.

Of what it passes on, HBase's own processors execute nothing on a watched table that was not told
alike; what clients really send, and valid variations of it, is never refused.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from observer.requests_made import Made, Maker
from reading import HBase, Proxy, compare

from headgate.hbase import Dialect
from headgate.local import default_cache, find_java
from headgate.local.jars import JarStore, read_lock
from headgate.wire import MessageType, StructWriter, Transport, write_message

pytestmark = pytest.mark.stack

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("HBaseReading.java")
_TOGETHER = 5_000
"""Connections for which one Java program is started."""


@pytest.fixture(scope="module")
def hbase() -> HBase:
    program = str(find_java().program)
    modules = subprocess.run(
        [program, "--list-modules"], capture_output=True, text=True, check=True
    ).stdout
    if "jdk.compiler@" not in modules:
        pytest.skip(f"{program} is no JDK: it has no compiler (jdk.compiler) for a Java file")
    jars = JarStore(default_cache()).provide(
        read_lock(ROOT / "hbase-conf" / "hbase"), lambda _progress: None
    )
    return HBase([program, "-Xshare:auto", "-cp", ":".join(map(str, jars)), str(PROGRAM)])


def read_alike(hbase: HBase, folder: Path, seed: int, requests: int, *, rules: bool) -> None:
    maker, choose = Maker(seed), random.Random(seed)
    proxy = Proxy(folder, rules=rules)
    valid = made = 0
    while made < requests:
        cases = []
        for _ in range(_TOGETHER):
            one = maker.make()
            cuts = () if choose.random() < 0.7 else (choose.randrange(1, len(one.sent) + 1),)
            cases.append((one, proxy.take(one, cuts)))
            made += len(one.segments)
            valid += one.valid * len(one.segments)
            if made >= requests:
                break
        verdict = compare(cases, hbase.execute([(one, took.forwarded) for one, took in cases]))
        assert not verdict, f"{len(verdict)} differences, the first:\n" + "\n\n".join(verdict[:3])
    print(f"{made} requests, {valid} of the kind that is never refused")
    assert valid * 2 >= made


@pytest.mark.parametrize("rules", [False, True], ids=["plain", "rules"])
def test_what_hbase_executes_was_told_or_refused(hbase: HBase, tmp_path: Path, rules: bool) -> None:
    read_alike(hbase, tmp_path, 1, 10_000, rules=rules)


def call(name: str, number: int, body: bytes) -> bytes:
    """Return a request in the old form of the binary protocol, which begins with the name."""
    name_first = len(name).to_bytes(4) + name.encode()
    return name_first + bytes([MessageType.CALL]) + number.to_bytes(4) + body


def put(table: bytes, row: bytes, value: bytes) -> bytes:
    cell = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, value).end()
    row = StructWriter().binary(1, row).structs(2, [cell]).end()
    return StructWriter().binary(1, table).struct(2, row).end()


def test_what_lacks_a_field_hides_no_request(hbase: HBase, tmp_path: Path) -> None:
    # HBase answers with an error behind the TGet and takes the arguments' last byte for the first
    # of the next request. That then is one without a name, whose arguments begin with the number:
    # a string that ends within the put's value, where the hidden request stands.
    lacking = call("get", 1, StructWriter().binary(1, b"x").struct(2, b"\0").end())
    number, length = 0x0B006300, 0x000B0001
    begun = len(call("put", number, b"")) + 3
    hidden = write_message(Transport.BUFFERED, "put", MessageType.CALL, 2, put(b"t", b"r", b"v"))
    before = len(call("put", number, put(b"x", b"r", b""))) - len(b"\0\0\0")
    value = bytes(begun + length - before) + b"\0" + hidden
    hiding = call("put", number, put(b"x", b"r", value))
    made = Made(Dialect.THRIFT2, "old", framed=False, segments=[lacking, hiding], valid=False)
    (executed,) = hbase.execute([(made, made.sent)])
    assert [(each.method, each.arguments[:8]) for each in executed] == [
        ("put", StructWriter().binary(1, b"t").end()[:-1])
    ]
    assert Proxy(tmp_path, rules=True).take(made, ()).forwarded == b""


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("rules", [False, True], ids=["plain", "rules"])
def test_a_million_requests_are_read_alike(hbase: HBase, tmp_path: Path, rules: bool) -> None:
    read_alike(hbase, tmp_path, 2, 500_000, rules=rules)
