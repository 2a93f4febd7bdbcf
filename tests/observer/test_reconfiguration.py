"""SIGHUP: what can change does, what cannot is refused by name, and what is broken is ignored."""

from __future__ import annotations

import msgspec
import pytest
from structlog.testing import capture_logs

from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    LimitSettings,
    Listener,
    ObserverConfig,
)
from headgate.observer.config import Acknowledge, WhenFull
from headgate.observer.reconfiguration import Apply, Reconfiguration
from headgate.settings import ConfigurationError

OLD = ObserverConfig(
    name="o1",
    thrift1=Listener("127.0.0.1:0", "a:1"),
    kafka=KafkaSettings("k:1", properties={"a.b": 1}),
    journal=JournalSettings("journal"),
)


def changed(**values: object) -> ObserverConfig:
    return msgspec.structs.replace(OLD, **values)


class Part:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.applied: list[ObserverConfig] = []
        self.error: ConfigurationError | None = None

    def prepare(self, _old: ObserverConfig, new: ObserverConfig) -> Apply:
        if self.error is not None:
            raise self.error
        return lambda: self.applied.append(new)


@pytest.fixture
def part() -> Part:
    return Part()


@pytest.fixture
def live(part: Part) -> Reconfiguration:
    found = Reconfiguration(OLD)
    found.at("limits", "thrift1.upstream", prepare=part.prepare)
    found.at("lease_seconds")
    return found


def test_a_live_key_changes(live: Reconfiguration, part: Part) -> None:
    wanted = changed(limits=LimitSettings(nesting=7), lease_seconds=3.0)
    assert live.take(wanted) == wanted
    assert part.applied == [wanted]
    assert live.config == wanted


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("name", {"name": "o2"}),
        ("journal.directory", {"journal": JournalSettings("elsewhere")}),
        ("thrift1.listen", {"thrift1": Listener("127.0.0.1:1", "a:1")}),
        ("thrift2", {"thrift2": Listener("127.0.0.1:2", "a:1")}),
        ("kafka.properties.a.b", {"kafka": KafkaSettings("k:1", properties={"a.b": 2})}),
        ("kafka.properties.a.b", {"kafka": KafkaSettings("k:1")}),
        ("kafka.properties.c", {"kafka": KafkaSettings("k:1", properties={"a.b": 1, "c": "d"})}),
    ],
)
def test_a_key_that_no_part_can_change_keeps_its_value_and_is_named(
    live: Reconfiguration, part: Part, key: str, values: dict[str, object]
) -> None:
    with capture_logs() as log:
        found = live.take(changed(**values, lease_seconds=3.0))
    assert found == changed(lease_seconds=3.0)
    assert [(line["key"], "restart" in line["event"]) for line in log if "key" in line] == [
        (key, True)
    ]


def test_what_one_part_cannot_use_changes_nothing(live: Reconfiguration, part: Part) -> None:
    broken = Part()
    broken.error = ConfigurationError("no such certificate")
    live.at("admin", prepare=broken.prepare)
    with capture_logs() as log:
        assert live.reload(lambda: changed(limits=LimitSettings(nesting=7))) is None
    assert live.config == OLD
    assert part.applied == []
    assert log[0]["reason"] == "no such certificate"


def test_a_file_that_cannot_be_read_changes_nothing(live: Reconfiguration, part: Part) -> None:
    def load() -> ObserverConfig:
        raise ConfigurationError("observer.toml:3: broken")

    with capture_logs() as log:
        assert live.reload(load) is None
    assert live.config == OLD
    assert "observer.toml:3: broken" in log[0]["reason"]


def test_parts_are_asked_even_if_nothing_has_changed(live: Reconfiguration, part: Part) -> None:
    live.take(OLD)
    assert part.applied == [OLD]


def test_what_a_start_would_refuse_is_not_reached_by_keeping_an_old_value() -> None:
    """Each of both files is right; the keys that stay and those that change are not, together."""
    kafka = KafkaSettings("k:1", properties={"a.b": 1}, acknowledge=Acknowledge.KAFKA)
    live = Reconfiguration(changed(kafka=kafka))
    live.at("journal.when_full")
    wanted = changed(journal=JournalSettings("journal", when_full=WhenFull.PASS))
    with capture_logs() as log:
        assert live.reload(lambda: wanted) is None
    assert live.config == changed(kafka=kafka)
    assert "new configuration with the old kafka.acknowledge" in log[0]["reason"]
    assert "no write can pass without events" in log[0]["reason"]
