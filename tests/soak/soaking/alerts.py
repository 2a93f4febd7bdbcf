"""The alerts that the product ships, under a real Prometheus, and what may and must raise them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from headgate.local import Lifetime, start_process
from soaking.happenings import AGENTS, OBSERVERS, Happening, Kind

TAIL = 960.0
"""Seconds after a cause in which its alert may still stand: most look back over 15 minutes."""
SKIPPED = (
    "there is no program prometheus, so alerts were not looked at (Debian: package prometheus)"
)

_WAYS = (Kind.KILL, Kind.STOP, Kind.OUTAGE, Kind.STOP_WORKER)
_PARTS = (Kind.STOP_PART, Kind.KILL_PART)
EVERYWHERE = tuple(Kind)
CAUSES: dict[str, tuple[Kind, ...]] = {
    "HeadgateAgentDown": _WAYS,
    "HeadgateAgentDataflowFailed": (*_WAYS, *_PARTS),
    "HeadgateAgentRecordsSetAside": (Kind.TOMBSTONE,),
    "HeadgateAgentMessagesUndelivered": (Kind.HUGE_ROW,),
    "HeadgateObserverDown": _WAYS,
    "HeadgateObserverNotServing": (*_PARTS, *_WAYS, Kind.POISON),
    "HeadgateObserverControlTopicLost": _PARTS,
    "HeadgateObserverJournalFilling": (*_PARTS, Kind.POISON),
    "HeadgateObserverEventsLate": (*_PARTS, Kind.STOP, Kind.POISON),
    "HeadgateObserverDeliveryFailures": (*_PARTS, Kind.POISON),
    "HeadgateObserverWritesBlocked": (*_PARTS, Kind.POISON),
    "HeadgateObserverDecodeErrors": (Kind.HOSTILE,),
    "HeadgateObserverUncertainWrites": (*_PARTS, *_WAYS),
    "HeadgateObserverUpstreamSlow": (*_PARTS, Kind.STOP),
    "HeadgateObserverSlow": EVERYWHERE,  # two cores have all of this to do
    "HeadgateObserverRefusesConnections": (Kind.HOSTILE, *_PARTS),
    "HeadgateObserverUpstreamDown": _PARTS,
}
"""What may raise each alert; one that is not here may not be raised."""


@dataclass(frozen=True)
class Raised:
    """An alert that stood.

    Attributes:
        name: of the alert.
        instance: who it is about: an agent's or an observer's name.
        first: seconds since the writers began.
        last: likewise.
    """

    name: str
    instance: str
    first: float
    last: float


def without_cause(raised: Iterable[Raised], happened: Sequence[Happening]) -> list[Raised]:
    """Return the alerts that nothing explains which happened before them."""
    return [
        each
        for each in raised
        if not any(
            cause.kind in CAUSES.get(each.name, ())
            and cause.at <= each.first <= cause.at + cause.lasts + TAIL
            for cause in happened
        )
    ]


def without_alert(raised: Sequence[Raised], happened: Iterable[Happening]) -> list[Happening]:
    """Return what must have raised an alert and did not."""
    return [
        each
        for each in happened
        if (wanted := _wanted(each)) is not None
        and not any(
            alert.name == wanted
            and alert.last >= each.at
            and alert.first <= each.at + each.lasts + TAIL
            and (each.kind is not Kind.OUTAGE or alert.instance == each.target)
            for alert in raised
        )
    ]


def _wanted(each: Happening) -> str | None:
    match each.kind:
        case Kind.OUTAGE if each.target in AGENTS:
            return "HeadgateAgentDown"
        case Kind.OUTAGE if each.target in OBSERVERS:
            return "HeadgateObserverDown"
        case Kind.TOMBSTONE:
            return "HeadgateAgentRecordsSetAside"
        case _:
            return None


class Prometheus:
    """A Prometheus with the product's rules, beside a piece.

    Args:
        folder: for its data.
        rules: the folder of the rules.
        targets: host and port of each agent's and observer's metrics, by name.
        port: where it listens.
    """

    def __init__(self, folder: Path, rules: Path, targets: dict[str, str], port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"
        folder.mkdir(parents=True, exist_ok=True)
        configuration = folder / "prometheus.yml"
        configuration.write_text(_configuration(rules, targets))
        command = [
            "prometheus",
            f"--config.file={configuration}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        self._process = start_process(command, {}, folder / "prometheus.log", Lifetime.WITH_CALLER)

    @staticmethod
    def there() -> bool:
        """Return whether there is one."""
        return shutil.which("prometheus") is not None

    def raised(self, began: float, until: float, step: float = 5.0) -> list[Raised]:
        """Return the alerts that were firing between two moments, in Unix seconds.

        Raises:
            httpx.HTTPError: it does not answer.
        """
        answer = httpx.get(
            f"{self._address}/api/v1/query_range",
            params={
                "query": 'ALERTS{alertstate="firing"}',
                "start": began,
                "end": until,
                "step": max(step, (until - began) / 10_000),
            },
            timeout=60.0,
        )
        answer.raise_for_status()
        return [_raised(each, began) for each in answer.json()["data"]["result"]]

    def end(self) -> None:
        """End it."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20.0)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _raised(series: Any, began: float) -> Raised:
    labels, values = series["metric"], series["values"]
    name = labels.get("instance", "")
    return Raised(labels["alertname"], name, values[0][0] - began, values[-1][0] - began)


def _configuration(rules: Path, targets: dict[str, str]) -> str:
    jobs = {"headgate-agent": AGENTS, "headgate-observer": OBSERVERS}
    lines = [
        "global: {scrape_interval: 5s, evaluation_interval: 5s, scrape_timeout: 4s}",
        f"rule_files: ['{rules}/*.rules.yml']",
        "scrape_configs:",
    ]
    for job, names in jobs.items():
        lines += [f"  - job_name: {job}", "    static_configs:"]
        for name in names:
            lines.append(
                f"      - {{targets: ['{targets[name]}'], labels: {{instance: '{name}'}}}}"
            )
    return "\n".join(lines) + "\n"
