"""How busy Spark's executors are, where no sensor runs: asked of the driver's monitoring API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx

from headgate.engine import Resource, ResourceSample

_PERCENT = 100.0
_ANSWER = 5.0
"""Seconds that a driver may take to answer."""


class SparkExecutors:
    """The executors of all applications behind one address of Spark's monitoring API.

    Args:
        address: the driver's user interface, such as ``http://driver:4040``.
        transport: how to reach it; for tests.
    """

    def __init__(self, address: str, transport: httpx.BaseTransport | None = None) -> None:
        self.address = address
        self._client = httpx.Client(
            base_url=f"{address.rstrip('/')}/api/v1", timeout=_ANSWER, transport=transport
        )

    def samples(self, now: float) -> tuple[ResourceSample, ...]:
        """Return one sample for each host: its busy task slots and the heap in use, in percent.

        Raises:
            httpx.HTTPError: nobody answers, or not Spark.
            ValueError: the answer is not what Spark's API gives.
        """
        found: dict[str, list[dict[str, Any]]] = {}
        for application in self._get("/applications"):
            for executor in self._get(f"/applications/{application['id']}/executors"):
                if executor.get("totalCores", 0) > 0:
                    host = str(executor["hostPort"]).rpartition(":")[0]
                    found.setdefault(host, []).append(executor)
        return tuple(_sample(host, executors, now) for host, executors in found.items())

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def _get(self, path: str) -> Any:
        answer = self._client.get(path)
        answer.raise_for_status()
        return answer.json()


def _sample(host: str, executors: Iterable[dict[str, Any]], now: float) -> ResourceSample:
    executors = tuple(executors)
    slots = sum(e["totalCores"] for e in executors)
    busy = sum(e["activeTasks"] for e in executors)
    used = {Resource.CPU: min(_PERCENT, _PERCENT * busy / slots)}
    storage = sum(e.get("maxMemory", 0) for e in executors)
    if storage:
        kept = sum(e.get("memoryUsed", 0) for e in executors)
        used[Resource.MEMORY] = min(_PERCENT, _PERCENT * kept / storage)
    return ResourceSample(f"spark@{host}", now, used, float(slots))
