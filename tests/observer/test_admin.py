"""The admin server's paths, and its metrics in Prometheus' format."""

import asyncio

import msgspec
import pytest

from headgate.observer.admin import AdminServer, ObserverHealth
from headgate.observer.monitoring.metrics import Histogram, Metrics
from headgate.observer.upstreams.pool import UpstreamView

VIEW = UpstreamView("a:1", "healthy", 2, 0, "")


def ask(health: ObserverHealth, request: bytes) -> bytes:
    async def exchange() -> bytes:
        server = AdminServer(
            lambda: b"some_total 1.0\n", lambda: health, lambda: {"thrift1": (VIEW,)}
        )
        host, port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await server.close()
        return answer

    return asyncio.run(exchange())


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/metrics", 200, b"some_total 1.0\n"),
        ("/metrics?x=y", 200, b"some_total 1.0\n"),
        ("/healthz", 200, b'{"serving":true,"state":"serving","reasons":[]}\n'),
        (
            "/upstreams",
            200,
            b'{"thrift1":[%s]}\n' % msgspec.json.encode(VIEW),
        ),
        ("/other", 404, b"there are /metrics, /healthz and /upstreams\n"),
    ],
)
def test_paths(path: str, status: int, body: bytes) -> None:
    answer = ask(
        ObserverHealth(serving=True, state="serving"), f"GET {path} HTTP/1.1\r\n\r\n".encode()
    )
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert rest == body


def test_what_does_not_serve_is_unhealthy_and_says_why() -> None:
    health = ObserverHealth(serving=False, state="starting", reasons=("waiting for Kafka",))
    answer = ask(health, b"GET /healthz HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"waiting for Kafka" in answer


def test_only_get_is_answered() -> None:
    answer = ask(ObserverHealth(serving=True, state="serving"), b"POST /metrics HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 405 ")


def test_metrics_are_named_and_typed_as_prometheus_wants() -> None:
    metrics = Metrics()
    metrics.count_request("thrift1", "get", "answered")
    metrics.count_request("thrift1", "get", "answered")
    metrics.count_read("t")
    metrics.gauge("journal_bytes", "Bytes.", lambda: 7)
    metrics.counter("messages", "Messages.", lambda: 3)
    lines = metrics.text().decode().splitlines()
    labels = 'listener="thrift1",method="get",outcome="answered"'
    for line in (
        "# TYPE headgate_observer_requests_total counter",
        f"headgate_observer_requests_total{{{labels}}} 2.0",
        'headgate_observer_reads_total{table="t"} 1.0',
        "# TYPE headgate_observer_journal_bytes gauge",
        "headgate_observer_journal_bytes 7.0",
        "headgate_observer_messages_total 3.0",
        "# TYPE headgate_observer_added_seconds histogram",
    ):
        assert line in lines


def test_invented_tables_do_not_grow_the_metrics_without_bound() -> None:
    metrics = Metrics()
    for number in range(5000):
        metrics.count_read(f"t{number}")
    assert len(metrics.reads) <= 1001
    assert sum(metrics.reads.values()) == 5000


def test_invented_columns_do_not_grow_the_metrics_without_bound() -> None:
    metrics = Metrics()
    for number in range(5000):
        metrics.count_read(f"t{number}")
        metrics.count_column_read(f"t{number}", b"f:%d" % number)
        metrics.count_column_read("t0", b"f:" + b"x" * number)
    assert len(metrics.column_reads) <= 3100
    assert sum(metrics.column_reads.values()) == 10_000
    assert max(len(column) for _, column in metrics.column_reads) <= 256
    assert ("t0", "(other)") in metrics.column_reads


def test_the_columns_that_are_read_most_are_told_of_the_tables_that_are_asked_for() -> None:
    metrics = Metrics()
    for table in ("t", "u", "v"):
        metrics.count_read(table)
    for column, count in ((b"f:a", 3), (b"", 9), (b"f:rare", 1), (b"\xff", 2)):
        metrics.count_column_read("t", column, count)
    metrics.count_column_read("u", b"f:a", 5)
    metrics.count_column_read("v", b"f:a", 100)
    assert metrics.reads_of({"t", "u", "w"}, 4) == {
        "t": {"": 9, "f:a": 3, "\\xFF": 2},
        "u": {"f:a": 5},
    }


def test_histogram_buckets_are_cumulated() -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        histogram.new.append(seconds)
    assert histogram.buckets() == [("0.1", 2), ("1.0", 3), ("+Inf", 4)]
    assert histogram.total == pytest.approx(7.65)


def test_a_thinned_value_counts_for_all_that_it_stands_for() -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.new.append(0.05)
    histogram.thinned += [0.5, 7.0]
    assert histogram.total == pytest.approx(0.05 + 8 * 7.5)
    assert histogram.buckets() == [("0.1", 1), ("1.0", 9), ("+Inf", 17)]
    assert histogram.total == pytest.approx(0.05 + 8 * 7.5)


@pytest.mark.parametrize("sent", [b"", b"GET /hea"])
def test_a_probe_is_answered_beside_any_number_of_lazy_connections(sent: bytes) -> None:
    async def script() -> None:
        health = ObserverHealth(serving=True, state="serving")
        server = AdminServer(lambda: b"", lambda: health, dict)
        address = await server.start("127.0.0.1", 0)
        lazy = []
        for _ in range(180):
            lazy.append(await asyncio.open_connection(*address))
            lazy[-1][1].write(sent)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(5):
            assert b"200 OK" in await reader.read()
        assert len(server._waiting) <= 50
        for _, each in [*lazy, (reader, writer)]:
            each.close()
        await server.close()

    asyncio.run(script())


def test_however_many_ask_in_a_second_metrics_are_made_ten_times() -> None:
    made = 0

    def make() -> bytes:
        nonlocal made
        made += 1
        return b"made_total %d\n" % made

    async def ask_often() -> list[bytes]:
        server = AdminServer(make, lambda: ObserverHealth(serving=True, state=""), dict)
        host, port = await server.start("127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        answers = []
        began = int(loop.time())
        for _ in range(30):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            answers.append(await reader.read())
            writer.close()
        seconds = int(loop.time()) - began + 1
        assert made <= 10 * seconds
        await server.close()
        return answers

    answers = asyncio.run(ask_often())
    assert all(b"made_total" in each for each in answers)
    assert len(set(answers)) == made
