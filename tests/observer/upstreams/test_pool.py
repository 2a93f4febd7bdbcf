"""Choosing among upstreams, and what checks and connections make of them."""

import pytest

from headgate.observer.config import HealthChecks
from headgate.observer.upstreams.pool import (
    CheckFailure,
    Upstream,
    UpstreamPool,
    UpstreamView,
    merged,
)


class Client:
    """A connection to an upstream."""

    def __init__(self, since: float | None = None) -> None:
        self.since = since
        self.was_cut = False

    def waits_since(self) -> float | None:
        return self.since

    def cut(self) -> None:
        self.was_cut = True


@pytest.fixture
def pool() -> UpstreamPool:
    return pool_of("a:1", "b:1", "c:1")


def pool_of(*addresses: str) -> UpstreamPool:
    return UpstreamPool("thrift1", addresses, HealthChecks(rise=2, fall=3, hung_seconds=10.0))


def connect(pool: UpstreamPool, client: Client | None = None) -> Upstream:
    upstream = pool.choose()
    assert upstream is not None
    pool.opened(upstream, client or Client())
    return upstream


def named(pool: UpstreamPool, address: str) -> Upstream:
    return next(each for each in pool.members if each.address == address)


def test_equals_take_turns(pool: UpstreamPool) -> None:
    assert [connect(pool).address for _ in range(6)] == ["a:1", "b:1", "c:1"] * 2


def test_turns_are_taken_too_when_connections_end_at_once(pool: UpstreamPool) -> None:
    chosen = [pool.choose() for _ in range(4)]
    assert [each.address for each in chosen if each] == ["a:1", "b:1", "c:1", "a:1"]


def test_the_one_with_the_fewest_connections_is_chosen(pool: UpstreamPool) -> None:
    leaving = Client()
    connect(pool)
    second = connect(pool, leaving)
    connect(pool)
    connect(pool)
    pool.closed(second, leaving)
    assert connect(pool) is second


def test_a_connection_that_is_being_opened_counts(pool: UpstreamPool) -> None:
    named(pool, "a:1").opening = 1
    assert {connect(pool).address, connect(pool).address} == {"b:1", "c:1"}


def test_each_is_tried_once_for_one_client(pool: UpstreamPool) -> None:
    tried: list[Upstream] = []
    while (upstream := pool.choose(tried)) is not None:
        tried.append(upstream)
    assert [each.address for each in tried] == ["a:1", "b:1", "c:1"]


def test_one_that_refused_a_connection_is_avoided_at_once(pool: UpstreamPool) -> None:
    pool.refused(named(pool, "a:1"), "Connection refused")
    assert {connect(pool).address for _ in range(6)} == {"b:1", "c:1"}


def test_unhealthy_ones_are_the_last_resort(pool: UpstreamPool) -> None:
    for address in ("a:1", "c:1"):
        pool.refused(named(pool, address), "Connection refused")
    tried: list[Upstream] = []
    while (upstream := pool.choose(tried)) is not None:
        tried.append(upstream)
    assert [each.address for each in tried] == ["b:1", "a:1", "c:1"]


def test_of_the_unhealthy_the_one_on_its_way_back_is_tried_first(pool: UpstreamPool) -> None:
    for each in pool.members:
        pool.refused(each, "Connection refused")
    pool.passed(named(pool, "c:1"))
    assert connect(pool).address == "c:1"


def test_it_takes_several_failed_checks_in_a_row_to_fall(pool: UpstreamPool) -> None:
    upstream = named(pool, "a:1")
    for _ in range(5):
        pool.failed(upstream, CheckFailure.ANSWERED, "reset")
        pool.failed(upstream, CheckFailure.ANSWERED, "reset")
        pool.passed(upstream)
    assert not pool.reasons
    for _ in range(3):
        pool.failed(upstream, CheckFailure.ANSWERED, "reset")
    assert pool.reasons == ("thrift1: upstream a:1 is unhealthy: reset",)


def test_it_takes_several_passed_checks_in_a_row_to_rise(pool: UpstreamPool) -> None:
    upstream = named(pool, "a:1")
    pool.refused(upstream, "Connection refused")
    pool.passed(upstream)
    pool.failed(upstream, CheckFailure.ANSWERED, "reset")
    pool.passed(upstream)
    assert pool.reasons
    pool.passed(upstream)
    assert not pool.reasons


def silence(pool: UpstreamPool, upstream: Upstream, times: int = 3) -> None:
    for _ in range(times):
        pool.failed(upstream, CheckFailure.SILENT, "no answer")


def test_what_waits_too_long_at_a_hung_upstream_is_cut(pool: UpstreamPool) -> None:
    clients = [Client(since=100.0), Client(since=105.0), Client(since=None)]
    upstream = named(pool, "a:1")
    for client in clients:
        pool.opened(upstream, client)
    silence(pool, upstream)
    pool.cut_hung(110.5)
    assert [client.was_cut for client in clients] == [True, False, False]


@pytest.mark.parametrize("failure", ["few", "refused", "answered", "passed"])
def test_long_requests_at_an_upstream_that_does_not_hang_are_left_alone(
    pool: UpstreamPool, failure: str
) -> None:
    client = Client(since=0.0)
    upstream = named(pool, "a:1")
    pool.opened(upstream, client)
    silence(pool, upstream, 2)
    match failure:
        case "refused":
            pool.refused(upstream, "Connection refused")
        case "answered":
            pool.failed(upstream, CheckFailure.ANSWERED, "reset")
        case "passed":
            pool.passed(upstream)
            silence(pool, upstream, 2)
    pool.cut_hung(1000.0)
    assert not client.was_cut


def test_an_upstream_left_out_keeps_its_clients_and_gets_no_new_ones(pool: UpstreamPool) -> None:
    client = Client()
    upstream = connect(pool, client)
    pool.reconfigure(["b:1", "c:1", "d:1"])
    assert {connect(pool).address for _ in range(6)} == {"b:1", "c:1", "d:1"}
    assert pool.view()[0] == UpstreamView("a:1", "draining", 1, 0, "")
    pool.closed(upstream, client)
    assert [each.address for each in pool.members] == ["b:1", "c:1", "d:1"]


def test_an_upstream_left_out_that_has_no_clients_is_gone_at_once(pool: UpstreamPool) -> None:
    pool.reconfigure(["b:1"])
    assert [each.address for each in pool.members] == ["b:1"]


def test_an_upstream_that_drained_comes_back_with_its_clients(pool: UpstreamPool) -> None:
    connect(pool)
    pool.reconfigure(["b:1"])
    pool.reconfigure(["a:1", "b:1"])
    assert pool.view()[0] == UpstreamView("a:1", "healthy", 1, 0, "")


def test_a_draining_upstream_that_hangs_is_cut_too(pool: UpstreamPool) -> None:
    client = Client(since=0.0)
    upstream = connect(pool, client)
    pool.reconfigure(["b:1"])
    silence(pool, upstream)
    pool.cut_hung(100.0)
    assert client.was_cut
    assert pool.view()[0].health == "draining"


def test_new_checks_apply_from_a_reload_on(pool: UpstreamPool) -> None:
    pool.reconfigure(["a:1"], HealthChecks(fall=1))
    pool.failed(named(pool, "a:1"), CheckFailure.ANSWERED, "reset")
    assert pool.reasons


def test_an_upstream_that_breaks_requests_is_looked_at(pool: UpstreamPool) -> None:
    suspects: list[Upstream] = []
    pool.suspect = suspects.append
    upstream = connect(pool)
    pool.broken(upstream)
    assert suspects == [upstream]
    assert not pool.reasons


def test_an_upstream_that_broke_requests_is_avoided_until_a_check_has_passed(
    pool: UpstreamPool,
) -> None:
    upstream = connect(pool)
    pool.broken(upstream)
    assert {connect(pool).address for _ in range(6)} == {"b:1", "c:1"}
    pool.passed(upstream)
    assert connect(pool) is upstream


def test_the_views_of_several_workers_are_one() -> None:
    one = {"thrift1": (UpstreamView("a:1", "healthy", 2, 0, ""),)}
    two = {"thrift1": (UpstreamView("a:1", "unhealthy", 1, 4, "reset"),)}
    expected = {"thrift1": (UpstreamView("a:1", "unhealthy", 3, 4, "reset"),)}
    assert merged([one, two]) == merged([two, one]) == expected
