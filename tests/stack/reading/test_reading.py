"""The proxy reads what may write as HBase does, or refuses it.

Of what it passes on, HBase's own processors execute nothing on a watched table that was not told
alike; what clients really send, and valid variations of it, is never refused.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from reading import HBase, Proxy, compare
from requests_made import Maker

from headgate.local import default_cache, find_java
from headgate.local.jars import JarStore, read_lock

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


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("rules", [False, True], ids=["plain", "rules"])
def test_a_million_requests_are_read_alike(hbase: HBase, tmp_path: Path, rules: bool) -> None:
    read_alike(hbase, tmp_path, 2, 500_000, rules=rules)
