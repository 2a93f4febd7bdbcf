"""A table in memory, behind the calls of a Thrift2 connection that steps make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from headgate.client import Region
from headgate.engine import Codec, CodecName, WatchedContainer
from headgate.events import Container, ContainerId, Item, KeyForm
from headgate.spark import StepRequest, Thrift2Address
from headgate.spark.containers import servers_of
from headgate.spark.run import Run
from headgate.testing import MemoryTables

Rows = dict[bytes, dict[bytes, bytes]]


class StoredTable(MemoryTables):
    """A table ``t`` of one region; a connection to it is the table itself."""

    def __init__(self, *families: str) -> None:
        super().__init__()
        self.create("t", families)
        self.ttls: dict[bytes, int] = {}
        """Seconds after which cells expire, by family."""

    def times_to_live(self, _table: str) -> dict[bytes, int]:
        return self.ttls

    def regions(self, _table: str) -> list[Region]:
        return [Region(b"", None, "h")]


def run_over(*items: Item, keys: KeyForm = KeyForm.TEXT, **request: Any) -> Run:
    """Return a run whose container ``c`` has these items, with opaque values."""
    watched = WatchedContainer(Container(ContainerId("c"), items), Codec(CodecName.OPAQUE))
    asked = StepRequest(
        "flow", "step", "r", 1, 1, "m:f", Thrift2Address("h", 1), "k",
        containers=(watched,), keys={"c": keys}, **request,
    )  # fmt: skip
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default))
    return Run(
        cast(Any, session), asked, servers_of(asked, cast(Any, None)), cancelled=lambda: False
    )
