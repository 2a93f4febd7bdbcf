"""The real HBase, Thrift servers and Kafka that the stack tests run against.

One private instance serves the whole session: its data in a temporary folder, its ports free ones,
its jars from the user's cache. It ends with the session, after Ctrl-C too, and the kernel ends it
should pytest itself be killed.

For quick iteration keep an instance running and let ``HEADGATE_TEST_STACK`` name a JSON file of
its addresses; nothing is then started or stopped. What ``headgate local up --json`` prints will
do, and so will plain port numbers::

    headgate local up --instance tests --json > stack.json
    HEADGATE_TEST_STACK=stack.json pytest -m stack

Tests share the instance: they take unique table names from ``stack.table`` and leave what is not
theirs alone.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import happybase
import pytest

from headgate.local import Address, Addresses, Lifetime, LocalStack

_CALL_MILLISECONDS = 60_000


class RunningStack:
    """Addresses of a running stack, and tables in it."""

    def __init__(self, addresses: Addresses) -> None:
        self.thrift1 = addresses.thrift1
        self.thrift2 = addresses.thrift2
        self.kafka = addresses.kafka
        self.zookeeper = addresses.zookeeper

    def table(self, name_prefix: str, families: Sequence[str] = ("f",), versions: int = 3) -> str:
        """Create a table that no other test has and return its name."""
        name = f"{name_prefix}_{uuid.uuid4().hex[:12]}"
        connection = self.happybase()
        try:
            connection.create_table(
                name, {family: {"max_versions": versions} for family in families}
            )
        finally:
            connection.close()
        return name

    def happybase(self) -> happybase.Connection:
        """Return a new connection to Thrift1 itself, past any proxy."""
        host, port = self.thrift1
        return happybase.Connection(host, port, timeout=_CALL_MILLISECONDS)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    named = os.environ.get("HEADGATE_TEST_STACK")
    if named:
        yield RunningStack(_read_addresses(Path(named)))
        return
    private = LocalStack(tmp_path_factory.mktemp("stack"), "tests", lifetime=Lifetime.WITH_CALLER)
    try:
        yield RunningStack(private.up())
    finally:
        private.down()


def _read_addresses(path: Path) -> Addresses:
    written = json.loads(path.read_text())
    return Addresses(
        thrift1=_address(written["thrift1"]),
        thrift2=_address(written["thrift2"]),
        kafka=str(_address(written["kafka"])),
        zookeeper=_address(written["zookeeper"]),
    )


def _address(written: str | int) -> Address:
    host, _, port = str(written).rpartition(":")
    return Address(host or "127.0.0.1", int(port))
