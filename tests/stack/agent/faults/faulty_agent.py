"""``headgate`` with faults: a thread that is told to fails once, with an error nobody expects.

The folder in ``FAULTS`` tells: a file there, named after the kind of a thread, is taken away by the
first thread of that kind that meets it at work, which then raises ``TypeError``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from headgate.agent.advisers.metrics import MetricAdviser
from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.kafka import feeds, retention
from headgate.agent.kafka.broker import KafkaBroker
from headgate.agent.kafka.retention import RetentionKeeper
from headgate.agent.launchers.launcher import JobsLauncher
from headgate.agent.launchers.warm.sessions import WarmSession
from headgate.agent.resources.machines import MachineSampler
from headgate.agent.resources.sampling import Sampling
from headgate.agent.scans import reader as scans
from headgate.agent.scans.table_scan import TableScan
from headgate.agent.state.store import StateStore
from headgate.agent.supervision import ThreadKind
from headgate.cli import main

FAULTS = Path(os.environ["FAULTS"])


def meet(kind: ThreadKind) -> None:
    """Fail if the thread was told to."""
    try:
        (FAULTS / kind.value).unlink()
    except FileNotFoundError:
        return
    raise TypeError(f"injected into {kind.value}")


def faulty(kind: ThreadKind, owner: Any, name: str) -> None:
    """Have a function meet what its thread was told."""
    original = getattr(owner, name)

    def method(*arguments: Any, **named: Any) -> Any:
        meet(kind)
        return original(*arguments, **named)

    setattr(owner, name, method)


class FaultyConsumer:
    """A consumer whose calls meet what their thread was told."""

    def __init__(self, consumer: Any, kind: ThreadKind) -> None:
        self._consumer = consumer
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        if name in ("poll", "consume"):
            meet(self._kind)
        return getattr(self._consumer, name)


def faulty_consumer(kind: ThreadKind, name: str) -> None:
    """Have what the broker returns be a faulty consumer."""
    original: Callable[..., Any] = getattr(KafkaBroker, name)

    def make(*arguments: Any) -> FaultyConsumer:
        return FaultyConsumer(original(*arguments), kind)

    setattr(KafkaBroker, name, make)


faulty(ThreadKind.CONTROL, KafkaBroker, "_control_message")
faulty(ThreadKind.FEED, feeds._Reader, "_deliver")
faulty(ThreadKind.FLOW, Runtime, "tick")
faulty(ThreadKind.SCAN, TableScan, "tick")
faulty(ThreadKind.READ, scans, "read_chunk")
faulty_consumer(ThreadKind.GROUP, "group")
faulty(ThreadKind.ADOPT, StateStore, "listings")
faulty(ThreadKind.LEASES, StateStore, "beat")
faulty(ThreadKind.RESOURCES, MachineSampler, "sample")
faulty_consumer(ThreadKind.SENSORS, "bystander")
faulty(ThreadKind.EXECUTORS, Sampling, "_ask_driver")
faulty(ThreadKind.SESSION, WarmSession, "_keep_warm")
retention._LOOK = 0.5
faulty(ThreadKind.METRICS, MetricAdviser, "_answer")
faulty(ThreadKind.RETENTION, RetentionKeeper, "look")
faulty(ThreadKind.JOBS, JobsLauncher, "_look")
faulty(ThreadKind.API, uvicorn.Server, "on_tick")
main()
