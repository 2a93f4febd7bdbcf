"""A dataflow file with learned triggers on agents in memory: trained, served, and taken over."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from kept import knowledge
from served_agents import METRIC, OWN, SOURCE, AtOnce, Served

from headgate.agent.errors import Refused
from headgate.agent.training.adviser import TrainingReport
from headgate.agent.training.parquet import read_pairs, write_pairs
from headgate.agent.training.task import Source
from headgate.engine import (
    PolicyReport,
)
from headgate.events import DECISIONS_TOPIC, updates_topic
from headgate.learning import (
    Learned,
    decode_model,
    version_of_model,
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.computes.close()
    for adviser in made.advisers:
        adviser.close()


def test_it_is_trained_after_its_waves_skips_and_goes_on_with_the_same_model(
    served: Served,
) -> None:
    for number in range(1, 25):
        assert served.wave(number) == ["combine", "draw"]
    assert "combine" in served.wave(25), "the model may decide on the rest of it"
    [task] = served.trains.tasks
    assert (task.outputs, task.last, task.waves) == (("map",), 24, 24)
    served.until(lambda: bool(served.model()))
    report = served.advisers[-1].report
    assert report is not None
    assert (report.waves, report.last, report.reasons) == (24, 24, {})
    model = report.models["map"]
    assert served.model() == model

    ran = [served.wave(number) for number in range(26, 32)]
    assert ran.count([]) >= 3
    served.agent.ask(lambda runtime, now: runtime.save(now))
    served.begin()
    served.agent.alive = False
    served.world.run(lambda: True)
    served.until(lambda: len(served.world.agents) == 2 and "threshold" in served.decided())

    assert served.model() == model
    assert len(served.trains.tasks) == 1
    assert served.decided()["model_age"] == 6
    served.agent.ask(lambda runtime, now: runtime.reporting.measure(now))
    served.world.run(lambda: True)
    metrics = served.agent.metrics.text().decode()
    assert 'headgate_agent_model_age_waves{dataflow="air",output="map"} 6.0' in metrics


def test_by_a_metric_of_the_users_it_is_trained_skips_and_says_what_that_failed_on(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(METRIC)
    served = Served(tmp_path, OWN)
    try:
        for number in range(1, 25):
            assert served.measured_wave(number) == ["combine", "draw"]
        assert "combine" in served.measured_wave(25)
        served.until(lambda: bool(served.model()))
        assert served.decided()["metric"] == "own:Worst"
        ran = [served.measured_wave(number) for number in range(26, 36)]
        assert [] in ran
        assert served.decided()["metric_failure"] == ""

        (tmp_path / "own.py").write_text(METRIC.replace("return total", "return total / 0"))
        served.computes.use((str(tmp_path),), served.world.dataflow.spec)
        number = 36
        while "draw" not in served.measured_wave(number):
            number += 1
        assert "`own:Worst` raised ZeroDivisionError" in served.decided()["metric_failure"]
        assert served.measured_wave(number + 1) == ["combine", "draw"]
        assert served.agent.runtime is not None
        report = served.agent.runtime.state.engine.actions["draw"].policy.report()
        assert report is not None
        assert "its error by `own:Worst` is not known: `own:Worst` raised" in report.words
    finally:
        served.computes.close()
        served.advisers[-1].close()


def test_by_impacts_of_the_users_it_is_trained_and_skips(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(METRIC)
    impacts = "  impacts: {sensors: 'own:Worst', areas: 'own:Worst'}\n"
    served = Served(tmp_path, f"{SOURCE}{impacts}")
    served.compute_at_once()
    assert isinstance(served.computes, AtOnce)
    try:
        for number in range(1, 25):
            assert served.wave(number) == ["combine", "draw"]
        assert served.computes.asked == [], "nothing is predicted from them yet"
        assert "combine" in served.wave(25)
        served.until(lambda: "threshold" in served.decided())
        ran = [served.wave(number) for number in range(26, 32)]
        assert [] in ran
        assert {each.bound for each in served.computes.asked} == {
            "sensors since map",
            "areas since map",
        }
        assert served.decided()["metric_failure"] == ""
    finally:
        served.computes.close()
        served.advisers[-1].close()


def test_what_audits_found_is_measured_where_there_were_any(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.wave(1)
    found = {"model_age": 3, "audited_rate": 0.25, "rate_from": 0.1, "rate_to": 0.5}
    found["confidence"] = 0.75
    data = {"map": {"audits": 8, **found}, "other": {"audits": 0, **found}, "new": {"model": ""}}
    report, nothing = PolicyReport("", data), PolicyReport("", {})
    monkeypatch.setattr(Learned, "report", lambda policy: report if policy._writes else nothing)

    def shown(name: str) -> list[str]:
        served.agent.ask(lambda runtime, now: runtime.reporting.measure(now))
        served.world.run(lambda: True)
        lines = served.agent.metrics.text().decode().splitlines()
        return sorted(line for line in lines if line.startswith(f"headgate_agent_{name}{{"))

    head = 'headgate_agent_audited_violation_ratio{dataflow="air",output="map",value='
    assert shown("audited_violation_ratio") == [
        f'{head}"allowed"}} 0.25',
        f'{head}"lower"}} 0.1',
        f'{head}"measured"}} 0.25',
        f'{head}"upper"}} 0.5',
    ]
    assert [line[-3:] for line in shown("model_age_waves")] == ["3.0", "3.0"]
    data.clear()
    assert shown("audited_violation_ratio") + shown("model_age_waves") == []


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    for adviser in made.advisers:
        adviser.close()


def test_a_dataflow_with_a_short_recording_learns_from_pairs_of_another(
    served: Served, short: Served
) -> None:
    for number in range(1, 26):
        served.wave(number)
    served.until(lambda: bool(served.model()))
    file = io.BytesIO()
    write_pairs(file, knowledge(served.rows).pairs("air"))
    short.wave(1)
    knowledge(short.rows).keep_pairs(read_pairs(file, "a.parquet", "air"))
    runtime = short.agent.runtime
    assert runtime is not None
    assert not short.model()

    runtime.trainings.train((), None, 0, Source.KNOWLEDGE)
    short.until(lambda: bool(short.model()))

    report = runtime.trainings.training()
    assert (report.source, report.waves, report.last, report.reasons) == (
        Source.KNOWLEDGE,
        24,
        24,
        {},
    )
    ran = [short.wave(number) for number in range(2, 8)]
    assert [] in ran
    assert short.decided()["trained_on"] == 24
    assert short.trains.tasks == []


@pytest.fixture
def refitted(tmp_path: Path) -> Iterator[Served]:
    """Yield a world whose models are fitted anew after every 10 waves, and that audits often."""
    made = Served(tmp_path, SOURCE.replace("0.01%", "40%") + "  refit: 40\n")
    yield made
    for adviser in made.advisers:
        adviser.close()


def test_a_model_is_fitted_anew_to_what_service_has_shown_and_by_another_agent_too(
    refitted: Served,
) -> None:
    served = refitted
    for number in range(1, 26):
        served.wave(number)
    served.until(lambda: bool(served.model()))
    trained, served.offset = served.model(), 100.0
    for number in range(26, 36):
        assert served.trains.refits == []
        assert "combine" in served.wave(number), "it is unlike all that was learned from"
    served.until(lambda: served.decided()["refits"] == 1)

    first = served.model()
    [task] = served.trains.refits
    assert (task.last, set(task.models)) == (35, {"map"})
    assert version_of_model(task.models["map"]) == trained != first
    assert {each.key.wave for each in task.pairs} == set(range(2, 25))
    assert served.decided()["model_age"] == 0
    kept = knowledge(served.rows)
    old, new = (decode_model(kept.model("air", "map", each)) for each in (trained, first))
    assert (new.threshold, new.calibration, new.waves) == (old.threshold, old.calibration, 24)

    ran = [served.wave(number) for number in range(36, 40)]
    assert [] in ran, "it is like what service has shown"
    served.agent.ask(lambda runtime, now: runtime.save(now))
    served.begin()
    served.agent.alive = False
    served.world.run(lambda: True)
    served.until(lambda: len(served.world.agents) == 2 and "threshold" in served.decided())
    assert (served.model(), served.decided()["refits"]) == (first, 1)
    for number in range(40, 46):
        assert len(served.trains.refits) == 1
        served.wave(number)
    served.until(lambda: served.decided()["refits"] == 2)
    assert [task.last for task in served.trains.refits] == [35, 45]
    assert len(served.trains.tasks) == 1


def test_without_the_pairs_of_its_training_a_model_stays_and_it_is_said_why(
    refitted: Served,
) -> None:
    served = refitted
    for number in range(1, 26):
        served.wave(number)
    served.until(lambda: bool(served.model()))
    model = served.model()
    knowledge(served.rows).trim("air", 0, {model})
    for number in range(26, 36):
        served.wave(number)

    def words() -> str:
        assert served.agent.runtime is not None
        report = served.agent.runtime.state.engine.actions["draw"].policy.report()
        return "" if report is None else report.words

    served.until(lambda: "not fitted anew in wave 35: no pairs are stored of `map`" in words())
    assert "train it again" in words()
    assert (served.model(), served.decided()["refits"]) == (model, 0)


def test_people_have_it_trained_earlier_and_hear_what_is_missing(served: Served) -> None:
    for number in range(1, 13):
        served.wave(number)

    def train(outputs: tuple[str, ...], waves: int | None) -> TrainingReport:
        runtime = served.agent.runtime
        assert runtime is not None
        return runtime.trainings.train(outputs, waves, runtime.waves.settled)

    report = train((), 10)
    assert (report.outputs, report.asked, report.seconds) == (("map",), 10, None)
    with pytest.raises(Refused, match="a training of air is under way"):
        train((), 10)
    served.until(lambda: served.advisers[-1].report.seconds is not None)
    assert served.trains.tasks[-1].last == 12
    assert served.agent.runtime is not None
    report = served.agent.runtime.trainings.training()
    assert report.waves == 10
    assert "14 more are missing" in report.reasons["map"]
    assert served.wave(13) == ["combine", "draw"]
    with pytest.raises(Refused, match="air bounds no output 'areas'; its outputs are 'map'"):
        train(("areas",), None)


def taken_over(served: Served) -> None:
    """Have another agent go on, which knows nothing but the table."""
    before = len(served.world.agents)
    served.begin()
    served.agent.alive = False
    served.world.run(lambda: True)
    served.until(lambda: len(served.world.agents) > before and served.agent.runtime is not None)


def test_the_report_of_the_last_training_is_told_by_the_next_agent_too(served: Served) -> None:
    for number in range(1, 9):
        served.wave(number)
    runtime = served.agent.runtime
    assert runtime is not None
    runtime.trainings.train((), 8, 8)
    served.until(lambda: served.advisers[-1].report.seconds is not None)
    report = runtime.trainings.training()
    served.agent.ask(lambda runtime, now: runtime.save(now))
    served.world.run(lambda: True)
    taken_over(served)

    runtime = served.agent.runtime
    assert runtime is not None
    assert runtime.trainings.training() == report
    assert "are too few" in report.reasons["map"]


def test_what_cannot_be_trained_is_refused(served: Served) -> None:
    served.world.run(lambda: True)
    runtime = served.agent.runtime
    assert runtime is not None
    with pytest.raises(Refused, match="no wave of air has settled"):
        runtime.trainings.train((), None, 0)
    with pytest.raises(Refused, match="no training of air was asked for since"):
        runtime.trainings.training()


def test_kafka_keeps_all_since_the_submission(served: Served) -> None:
    world = served.world
    served.wave(1)
    begun = served.agent.runtime.state.definition.submitted
    world.now += 5000.0
    served.wave(2)
    world.run(lambda: True)
    topics = {DECISIONS_TOPIC, *map(updates_topic, ("in", "mid", "out"))}
    assert topics <= world.needs.keys()
    for topic in topics:
        assert world.needs[topic] == pytest.approx(world.now - begun, abs=120.0)
