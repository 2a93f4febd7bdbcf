"""This machine's own samples, those of sensors and those of Spark's executors."""

from __future__ import annotations

import httpx
import pytest

from headgate.agent.resources.executors import SparkExecutors
from headgate.agent.resources.machines import MachineSampler
from headgate.agent.resources.sampling import resource_sample
from headgate.engine import Resource, ResourceSample
from headgate.events import VERSION, MachineLoad


def test_a_sample_of_this_machine_is_within_its_ranges() -> None:
    sampler = MachineSampler("here", 2.0)
    sum(range(10**6))
    found = sampler.sample()
    assert (found.machine, found.weight) == ("here", 2.0)
    for share in (found.cpu, found.memory, found.disk):
        assert share is None or 0 <= share <= 100
    assert found.memory
    assert found.network is None or found.network >= 0
    assert found.load is not None


def test_the_load_is_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.cpu_count", lambda: 8)
    monkeypatch.setattr("os.getloadavg", lambda: (12.0, 99.0, 99.0))
    assert MachineSampler("here").sample().load == 1.5


def test_what_a_sensor_cannot_measure_is_left_out_and_its_clock_does_not_count() -> None:
    load = MachineLoad(VERSION, "m", 5.0, cpu=50.0, weight=4.0)
    assert resource_sample(load, 99.0) == ResourceSample("m", 99.0, {Resource.CPU: 50.0}, 4.0)


def executor(host: str, active: int, cores: int = 4, used: int = 0) -> dict[str, object]:
    return {
        "hostPort": f"{host}:1234",
        "totalCores": cores,
        "activeTasks": active,
        "memoryUsed": used,
        "maxMemory": 1000,
    }


def driver(answers: dict[str, object]) -> SparkExecutors:
    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        return httpx.Response(200, json=answers[path]) if path in answers else httpx.Response(404)

    return SparkExecutors("http://driver:4040/", httpx.MockTransport(answer))


def test_executors_of_a_host_are_one_sample_weighted_by_their_slots() -> None:
    found = driver(
        {
            "/applications": [{"id": "app-1"}],
            "/applications/app-1/executors": [
                executor("one", 4, used=500),
                executor("one", 2, used=100),
                executor("two", 0),
                executor("driver", 0, cores=0),
            ],
        }
    ).samples(7.0)
    assert found == (
        ResourceSample("spark@one", 7.0, {Resource.CPU: 75.0, Resource.MEMORY: 30.0}, 8.0),
        ResourceSample("spark@two", 7.0, {Resource.CPU: 0.0, Resource.MEMORY: 0.0}, 4.0),
    )


def test_an_address_that_is_no_driver_is_told() -> None:
    with pytest.raises(httpx.HTTPError):
        driver({}).samples(7.0)
