"""What Prometheus scrapes, and that rules and dashboard ask only for what there is."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from headgate.observer import JournalSettings, KafkaSettings, Listener, ObserverConfig
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.service import Observer

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "observer.md").read_text()
OF_PROCESSES = re.compile(r"process_\w+|up")
BASE_UNITS = ("_seconds", "_bytes", "_total", "_info")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What an observer that was made, but has not begun, shows."""

    async def scrape() -> str:
        config = ObserverConfig(
            name="o",
            thrift1=Listener("127.0.0.1:0", "127.0.0.1:1"),
            kafka=KafkaSettings("127.0.0.1:1"),
            journal=JournalSettings(str(tmp_path_factory.mktemp("journal"))),
        )
        observer = Observer(config)
        metrics: Metrics = observer._metrics
        metrics.count_request("thrift1", "get", "answered")
        metrics.count_read("t")
        metrics.count_column_read("t", b"f:a")
        metrics.count_refusal("limit")
        metrics.count_tls_failure("thrift1", "expired")
        metrics.count_denied("thrift1", "flow/step")
        metrics.certificate_expiries = lambda: [(("thrift1", "server"), 1.0)]
        metrics.timings_of("thrift1").upstream.new.append(0.003)
        metrics.events["applied"] = 1
        observer._journal.close()
        return metrics.text().decode()

    return asyncio.run(scrape())


def samples(scraped: str) -> list[Sample]:
    return [s for family in text_string_to_metric_families(scraped) for s in family.samples]


def test_every_family_is_typed_documented_and_in_base_units(scraped: str) -> None:
    families = list(text_string_to_metric_families(scraped))
    assert len(families) > 25
    for family in families:
        assert family.type in ("counter", "gauge", "histogram"), family.name
        assert family.documentation, family.name
        assert not re.search(r"milli|micro|_ms\b|kib|mib", family.name), family.name
        if family.type == "counter":
            assert all(s.name.endswith("_total") for s in family.samples), family.name
        if family.type == "histogram":
            assert family.name.endswith(BASE_UNITS), family.name


def test_every_metric_is_described(scraped: str) -> None:
    section = REFERENCE.partition("## Metrics")[2]
    named = set(re.findall(r"`([a-z_]+)(?:\{[a-z,]+\})?`", section))
    for family in text_string_to_metric_families(scraped):
        if OF_PROCESSES.fullmatch(family.name) is None:
            name = family.name.removeprefix("headgate_observer_")
            assert {name, f"{name}_total"} & named, name


def test_no_other_metric_is_described(scraped: str) -> None:
    section = REFERENCE.partition("## Metrics")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {n for row in rows for n in re.findall(r"`([a-z_]+)(?:\{[a-z,]+\})?`", row)}
    there = {s.name.removeprefix("headgate_observer_") for s in samples(scraped)}
    assert {name for name in named if not {name, f"{name}_count"} & there} == set()


def test_latencies_are_told_by_listener_from_10_microseconds_to_10_seconds(scraped: str) -> None:
    found = {
        float(s.labels["le"]): s.value
        for s in samples(scraped)
        if s.name == "headgate_observer_upstream_seconds_bucket"
        and s.labels["listener"] == "thrift1"
    }
    assert (min(found), max(b for b in found if b != float("inf"))) == (1e-05, 10.0)
    assert (found[0.002], found[0.005]) == (0, 1)


def asked(expression: str) -> set[tuple[str, frozenset[str]]]:
    """Return the metrics in a PromQL expression, each with the labels that it is asked for by."""
    found = set()
    for name, labels in re.findall(r"\b((?:headgate|process)_\w+)(?:\{([^}]*)\})?", expression):
        used = frozenset(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels))
        found.add((name, used - {"instance", "job"}))
    return found


def expressions() -> list[str]:
    rules = yaml.safe_load((ROOT / "deploy/prometheus/observer.rules.yml").read_text())
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    dashboard = json.loads((ROOT / "deploy/grafana/observer.json").read_text())
    for panel in dashboard["panels"]:
        found += [target["expr"] for target in panel.get("targets", ())]
    return found


def test_rules_and_dashboard_ask_for_metrics_and_labels_that_there_are(scraped: str) -> None:
    there: dict[str, set[str]] = {}
    for sample in samples(scraped):
        there.setdefault(sample.name, set()).update(sample.labels)
    used = set().union(*(asked(expression) for expression in expressions()))
    assert len(used) > 20
    for name, labels in used:
        assert name in there, name
        assert labels <= there[name], name


def test_what_expressions_group_by_is_a_label_of_what_they_ask_for(scraped: str) -> None:
    there: dict[str, set[str]] = {}
    for sample in samples(scraped):
        there.setdefault(sample.name, set()).update(sample.labels)
    for expression in expressions():
        names = [name for name, _ in asked(expression)]
        for grouping in re.findall(r"by \(([^)]*)\)", expression):
            for label in {each.strip() for each in grouping.split(",")} - {"instance"}:
                assert all(label in there[name] for name in names), expression


def test_every_metric_is_on_the_dashboard(scraped: str) -> None:
    used = {name for expression in expressions() for name, _ in asked(expression)}
    ours = {s.name for s in samples(scraped) if s.name.startswith("headgate_")}
    ours = {name for name in ours if not name.endswith(("_sum", "_count", "_created"))}
    assert ours - used == set()


def test_each_alert_says_how_bad_it_is_and_what_to_do() -> None:
    rules = yaml.safe_load((ROOT / "deploy/prometheus/observer.rules.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("warning", "critical"), rule["alert"]
            assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]


def test_invented_methods_and_outcomes_do_not_grow_the_metrics_without_bound() -> None:
    metrics = Metrics()
    for number in range(5000):
        metrics.count_request("thrift1", f"m{number}", "answered")
    assert len(metrics.requests) <= 2001
    assert sum(metrics.requests.values()) == 5000
