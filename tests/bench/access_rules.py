"""What access rules cost a request: sessions with 20 of them against sessions with none.

Run: ``python tests/bench/access_rules.py``. Prints microseconds of CPU that a session takes for a
request and its reply, between transports in memory, and the ratio; medians of rounds in turns. The
table is not watched: what is recorded of a write is the same with rules and without.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from measuring.transports import EndlessTransport

from headgate.hbase import Dialect
from headgate.observer.config import AccessRule, AccessSettings, Allow, Listener
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.recording.recent_deletes import RecentDeletes
from headgate.observer.security.access import ListenerGuard
from headgate.observer.sessions.endpoint import (
    Endpoint,
    Enforcement,
    Monitoring,
    Recording,
    Upstreams,
)
from headgate.observer.sessions.session import Session
from headgate.wire import Limits, MessageType, StructWriter, Transport, write_message

ROUNDS = 9
TIMES = 5000
RULES = 20


def access() -> AccessSettings:
    """Return rules of which the last is the one for the table."""
    rules = [
        AccessRule(Allow.NOTHING, origin=f"team-{number}/*", tables=(f"team_{number}_*",))
        for number in range(RULES - 1)
    ]
    last = AccessRule(Allow.WRITE, tables=("t*",))
    return AccessSettings(Allow.NOTHING, rules=(*rules, last))


def session(rules: AccessSettings | None) -> Session:
    """Return a session between two such transports."""
    metrics = Metrics()
    control = ControlState()
    endpoint = Endpoint(
        loop=cast("Any", None),
        dialect=Dialect.THRIFT1,
        limits=Limits(),
        upstreams=Upstreams(cast("Any", None)),
        enforcement=Enforcement(
            control,
            cast("Any", SimpleNamespace(closed=False)),
            cast("Any", SimpleNamespace(asked=False)),
        ),
        recording=Recording(
            cast(
                "Any", SimpleNamespace(backlog_due=False, deletes=RecentDeletes(time.perf_counter))
            ),
            cast("Any", SimpleNamespace(syncs_each=False)),
        ),
        monitoring=Monitoring(metrics),
    )
    if rules is not None:
        listener = Listener("127.0.0.1:0", "127.0.0.1:1")
        endpoint.guard = ListenerGuard(
            "thrift1", listener, rules, metrics=metrics, clock=time.monotonic
        )
    found = Session(endpoint)
    found.connection_made(cast("Any", EndlessTransport()))
    found.upstream_made(cast("Any", EndlessTransport()))
    found.upstream_settled(cast("Any", EndlessTransport()))
    return found


def message(name: str, body: bytes, kind: MessageType) -> bytes:
    """Return a buffered message."""
    return write_message(Transport.BUFFERED, name, kind, 0, body)


def microseconds(call: Callable[[], None]) -> float:
    """Return the CPU time of one call: other work on the machine is not counted."""
    begin = time.process_time()
    for _ in range(TIMES):
        call()
    return (time.process_time() - begin) / TIMES * 1e6


def main() -> None:
    """Print the table."""
    import headgate.observer.sessions.session as measured

    compiled = "compiled" if not str(measured.__file__).endswith(".py") else "plain Python"
    print(f"sessions: {compiled}; Python {platform.python_version()}, {platform.machine()}")
    cell = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    head = StructWriter().binary(1, b"t").binary(2, b"row")
    requests = {
        "get": head.binary(3, b"f:q").end(),
        "mutateRow": StructWriter().binary(1, b"t").binary(2, b"row").structs(3, [cell]).end(),
    }
    print(f"{'request':12}{'no rules':>12}{f'{RULES} rules':>12}{'ratio':>8}")
    for name, body in requests.items():
        request = message(name, body, MessageType.CALL)
        reply = message(name, b"\0", MessageType.REPLY)

        def exchange(with_: Session) -> None:
            with_.data_received(request)  # noqa: B023 - called in this turn of the loop
            with_.reply_received(reply)  # noqa: B023

        sessions = [session(None), session(access())]
        rounds = [[microseconds(lambda s=s: exchange(s)) for s in sessions] for _ in range(ROUNDS)]  # type: ignore[misc]
        without, with_ = (statistics.median(each) for each in zip(*rounds, strict=True))
        ratio = statistics.median(ruled / free for free, ruled in rounds)
        print(f"{name:12}{without:10.2f}µs{with_:10.2f}µs{ratio:8.2f}")


if __name__ == "__main__":
    main()
