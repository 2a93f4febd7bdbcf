"""What a dataflow gets of its agent: its own part of each thing that all share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from simulation import SEALS, MemoryRows

from headgate.agent import policies
from headgate.agent.configuration import AgentConfiguration, HBase, KafkaOptions, Workers
from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.errors import DamagedState
from headgate.agent.metrics import AgentMetrics
from headgate.agent.ownership import runtime_factory
from headgate.agent.ownership.runtime_factory import RuntimeFactory
from headgate.agent.state.sealed import Definition, Owner, RememberedRevisions
from headgate.agent.state.store import StateStore
from headgate.flows import parse_dataflow
from headgate.spark import RunKey, Thrift2Address

SOURCE = """
name: air
containers: {input: in c:v, output: out c:v}
actions:
  feed: {input: input}
  clean: {step: "steps:clean", after: feed, reads: input, writes: output}
"""


class Calls:
    """Notes what is called of it, with what."""

    def __init__(self, noted: list[Any], name: str) -> None:
        self._noted = noted
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return lambda *arguments, **_: self._noted.append((self._name, method, *arguments))


class Made:
    """A factory over an agent in memory, and the contexts of the runtimes that it made."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.noted: list[Any] = []
        self.contexts: list[RuntimeContext] = []
        self.error: Exception | None = None
        self.store = StateStore(MemoryRows(), SEALS, RememberedRevisions())
        self.store.define(Definition("air", SOURCE, "/flows", 0, 1.0))
        self.hosted = cast("Any", Calls(self.noted, "hosted"))

        def runtime(_: Any, __: Any, context: RuntimeContext) -> RuntimeContext:
            self.contexts.append(context)
            if self.error is not None:
                raise self.error
            return context

        patch.setattr(runtime_factory, "Runtime", runtime)
        launchers = ("WarmSession", "JobsLauncher", "FlowLaunchers")
        here = dict.fromkeys((*launchers, "MetricAdviser"), runtime_factory)
        for name, module in {**here, "LearnedAdviser": policies}.items():
            made = Calls(self.noted, name)
            patch.setattr(module, name, lambda *_, made=made: made)
        parts = ("broker", "admission", "scanner", "scans", "retention", "families", "observers")
        others = ("spares", "pools", "supervision", "trainer", "knowledge")
        shared: dict[str, Any] = {part: Calls(self.noted, part) for part in (*parts, *others)}
        connections = SimpleNamespace(call=lambda what: what(Calls(self.noted, "hbase")))
        self.factory = RuntimeFactory(
            configuration=AgentConfiguration(
                hbase=HBase("127.0.0.1:1"),
                kafka=KafkaOptions("k:1"),
                workers=Workers(directory=str(folder)),
            ),
            requester="agent/1",
            hbase=Thrift2Address("127.0.0.1", 1),
            connections=cast("Any", connections),
            seals=SEALS,
            store=self.store,
            metrics=AgentMetrics(),
            suspects={},
            **shared,
        )

    def runtime(self) -> RuntimeContext:
        ownership = self.store.acquire("air", Owner("one", "1", ""), 0.0, 10.0)
        dataflow = parse_dataflow(SOURCE, "air", None, "air")
        return cast("RuntimeContext", self.factory.runtime(self.hosted, ownership, dataflow))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Made:
    return Made(monkeypatch, tmp_path)


def test_what_all_share_is_asked_in_the_dataflows_name(made: Made) -> None:
    context = made.runtime()
    made.noted.clear()
    context.observation.want({})
    context.observation.unpublished("in", 5.0)
    context.observation.withdraw(["in"])
    context.retention.need({"topic": 3.0})
    context.retention.kept("topic")
    context.families.provide(["in"])
    context.families.drop(["in"])
    assert made.noted == [
        ("scans", "want", "air", {}),
        ("scans", "unpublished", "in", 5.0),
        ("scans", "withdraw", "air", ["in"]),
        ("retention", "need", "air", {"topic": 3.0}),
        ("retention", "kept", "topic"),
        ("families", "provide", "air", ["in"]),
        ("families", "drop", "air", ["in"]),
    ]


def test_what_is_saved_is_fenced_by_the_epoch_in_which_it_was_taken(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = made.runtime()
    saved: list[Any] = []
    monkeypatch.setattr(made.store, "save", lambda *asked: saved.append(asked))
    context.store.save(cast("Any", "state"), [], 9.0)
    assert saved == [("air", 1, "state", [], 9.0)]


def test_records_and_segments_are_those_of_the_dataflow(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = made.runtime()
    asked: list[Any] = []
    monkeypatch.setattr(made.store, "trim", lambda *arguments: asked.append(arguments))
    monkeypatch.setattr(made.store, "segments", lambda *arguments: asked.append(arguments))
    context.store.trim([3])
    context.store.segments([])
    assert asked[0] == ("air", [3])
    definition, epoch, kept = asked[1]
    assert (definition.name, epoch, kept) == ("air", 1, [])


def test_a_run_is_forgotten_as_the_agent_that_may(made: Made) -> None:
    context = made.runtime()
    made.noted.clear()
    key = RunKey("air", "clean", "r1")
    context.ledger.forget(key)
    assert made.noted == [("hbase", "delete", SEALS.table, (key.row, key.result_row))]


def test_what_a_dataflow_failed_on_is_remembered_when_it_begins_again(made: Made) -> None:
    first, second = made.runtime(), made.runtime()
    assert first.suspects is second.suspects
    assert made.factory.suspects == {"air": first.suspects}


def test_nothing_is_left_running_of_a_runtime_that_could_not_be_made(made: Made) -> None:
    made.error = DamagedState("air", "a segment is missing")
    with pytest.raises(DamagedState):
        made.runtime()
    closed = [(name, method) for name, method, *_ in made.noted if method == "close"]
    assert closed == [
        ("FlowLaunchers", "close"),
        ("MetricAdviser", "close"),
        ("LearnedAdviser", "close"),
    ]


def test_a_runtime_that_was_made_keeps_its_launchers(made: Made) -> None:
    made.runtime()
    assert not any(method == "close" for _, method, *_ in made.noted)
