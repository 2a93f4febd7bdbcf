"""The demonstration of learned triggers: its dataflow file, what it expects, and its figures."""

import copy
from itertools import islice
from pathlib import Path

import pytest
import yaml
from linear_road.all_waves import all_waves
from linear_road.demo import LearnedTolls, bounded, expected_cells, time_of
from linear_road.savings import Savings, SeenWave
from linear_road.traffic import CYCLE, generate, stretch

from headgate.agent import TrainingReport
from headgate.cli import Explained, SettledWave, Stand, Times, Wave
from headgate.cli.demo.dataflows import Judged
from headgate.engine import ActionRole
from headgate.flows import parse_dataflow
from headgate.learning import LEARNED, graph_of, settings_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "linear_road"
TREE = yaml.safe_load((EXAMPLE / "learned.yaml").read_text())
BOUNDS = yaml.safe_load((EXAMPLE / "linear_road.yaml").read_text())
DECIDED = ["split", "positions", "speeds", "cars", "accidents", "congestion", "areas"]


def spec_of(tree):
    return parse_dataflow(yaml.safe_dump(tree, sort_keys=False), "learned.yaml").spec


def learned_actions(spec):
    return [a for a in spec.actions if a.trigger is not None and a.trigger.kind == LEARNED]


def test_the_file_has_the_same_steps_and_containers_as_that_with_bounds():
    assert TREE["containers"] == BOUNDS["containers"]
    steps = [{name: a.get("step") for name, a in t["actions"].items()} for t in (TREE, BOUNDS)]
    assert steps[0] == steps[1]
    for name, action in TREE["actions"].items():
        for key in ("reads", "writes"):
            named, before = (
                {one} if isinstance(one := tree.get(key, []), str) else set(one)
                for tree in (action, BOUNDS["actions"][name])
            )
            assert named >= before, f"{name} {key} what its step reads or writes"


def test_all_steps_that_lead_to_congestion_and_areas_are_learned():
    spec = spec_of(TREE)
    actions = learned_actions(spec)
    assert [action.name for action in actions] == DECIDED
    settings = settings_of(actions)
    assert {name: one.bound for name, one in settings.outputs.items()} == {
        "congestion": 0.1,
        "areas": 0.1,
    }
    graph = graph_of(spec, actions, tuple(settings.outputs))
    assert graph.sources == {"input"}, "nothing that a step writes counts as input"
    assert graph.ancestors["areas"] == tuple(DECIDED[:-1])


def test_own_outputs_are_warned_about_and_nothing_else():
    parsed = parse_dataflow((EXAMPLE / "learned.yaml").read_text(), "learned.yaml")
    assert len(parsed.warnings) == len(DECIDED)
    assert all("which it writes" in warning.message for warning in parsed.warnings)


def test_the_demonstration_bounds_both_outputs_by_what_was_asked_for():
    tree = bounded(copy.deepcopy(TREE), 25.0, 85.0)
    settings = settings_of(learned_actions(spec_of(tree)))
    found = {name: (one.bound, one.confidence) for name, one in settings.outputs.items()}
    assert found == {"congestion": (0.25, 0.85), "areas": (0.25, 0.85)}
    assert (settings.horizon, settings.audit) == (6, 0.1)


def test_what_is_expected_are_the_cells_of_the_formulas_by_row_and_column():
    minutes = list(stretch(generate(3, seed=1), 40, 60))
    waves = all_waves(minutes)
    cells = expected_cells(waves)
    assert [len(each) for each in cells["areas"]] == [4, 4, 4], "two directions of twenty miles"
    row = b"x00d1s045"
    value = float(cells["congestion"][2][row, b"l:congestion"])
    assert value == waves.congestion[2, 145]
    assert all(40 <= int(key[6:9]) < 60 for key, _ in cells["congestion"][2])


def test_each_cycle_is_the_morning_of_a_weekday_of_its_own():
    first, second = (next(islice(generate(CYCLE + 31, 1), at, None)) for at in (30, CYCLE + 30))
    assert [f"{time_of(m):%A %H:%M %Z}" for m in (first, second)] == [
        "Monday 06:30 UTC",
        "Tuesday 06:30 UTC",
    ]


class Standing:
    """An agent that explains steps that were left out."""

    def explained(self, name):
        words = {step: Explained("", Judged(f"{step} may rest")) for step in DECIDED}
        return {"feed": Explained("an input"), **words}


STAND = Stand(None, Standing(), print)  # type: ignore[arg-type]


def reported(ran, causes, learning):
    minutes = list(stretch(generate(1, seed=1), 40, 60))
    tolls = LearnedTolls(copy.deepcopy(TREE), minutes, [], 10.0, 95.0)
    tolls.learning = learning
    seen = SeenWave("now", frozenset(ran), {"areas": 0.1}, frozenset(), 1.0)
    return list(tolls.words(seen, causes, STAND))


def test_steps_that_were_asked_about_have_their_reasons_those_behind_them_none():
    reasons = {"areas": "no threshold keeps 90% yet"}
    ran = {
        "split": "a wave has ended",
        "positions": "0.9 of its bound",
        "speeds": "`areas` is made in every wave: no threshold keeps 90% yet",
    }
    said = reported(ran, ran, TrainingReport(("areas",), 4, reasons=reasons))
    assert said[0] == (
        "now: ran split, positions, speeds; left out cars, accidents, congestion, areas, rank, "
        "answer; off by: areas 10.0%; 1.0 s"
    )
    assert said[1:] == [
        "    positions: 0.9 of its bound",
        "    speeds: `areas` is made in every wave: it has no model",
        "    cars: cars may rest",
        "    accidents: accidents may rest",
    ]


def test_before_the_training_waves_have_no_reasons():
    every = dict.fromkeys([*DECIDED, "rank", "answer"], "a wave has ended")
    assert reported(every, every, None) == ["now: every step ran; 1.0 s"]


def seen(ran, congestion, made, seconds):
    return SeenWave("now", frozenset(ran), {"congestion": congestion}, frozenset(made), seconds)


def test_runs_skips_and_violations_are_counted_by_step_and_output():
    found = Savings(
        ("split", "congestion"),
        ("congestion",),
        0.2,
        [
            seen({"split", "congestion"}, 0.0, {"congestion"}, 4.0),
            seen({"split"}, 0.1, (), 1.0),
            seen({"split"}, 0.2, (), 1.0),
            seen({"split"}, 0.3, (), 2.0),
        ],
        {"congestion": {"audits": 2, "audited_rate": 0.5, "rate_from": 0.1, "rate_to": 0.9}},
        TrainingReport(("congestion",), 4, models={"congestion": "0123"}),
        (4.0, 5.0),
    )
    result = found.summary()
    assert (result["wave_seconds_synchronous"], result["wave_seconds"]) == (4.5, 2.0)
    assert {name: step["runs"] for name, step in result["steps"].items()} == {
        "split": 4,
        "congestion": 1,
    }
    output = result["outputs"]["congestion"]
    assert (output["skipped"], output["violations"]) == (3, 1)
    assert (output["mean_error"], output["max_error"]) == (pytest.approx(0.2), 0.3)
    assert (output["model"], output["audits"], output["rate_to"]) == ("0123", 2, 0.9)


def test_an_output_without_a_model_has_its_reason():
    reasons = {"congestion": "30 more waves are missing"}
    learning = TrainingReport(("congestion",), 4, reasons=reasons)
    output = Savings(("split",), ("congestion",), 0.2, [], {}, learning).summary()["outputs"]
    assert output["congestion"]["model"] is None
    assert output["congestion"]["reason"] == "30 more waves are missing"


def test_every_step_is_described():
    parsed = parse_dataflow((EXAMPLE / "learned.yaml").read_text(), "learned.yaml")
    steps = [a.name for a in parsed.spec.actions if a.role is not ActionRole.INPUT]
    assert set(steps) <= {name for name, one in parsed.actions.items() if one.description}


class Mornings:
    """Two mornings through a scripted agent whose training gives the models that are named."""

    def __init__(self, **models):
        self.said: list[str] = []
        self.trained: list[tuple[int, int]] = []
        self.models = models
        minutes = list(stretch(generate(8, seed=1), 40, 60))
        self.tolls = LearnedTolls(copy.deepcopy(TREE), minutes[:6], minutes[6:], 20.0, 90.0)
        self.stand = Stand(self, self, self.said.append)  # type: ignore[arg-type]
        self.sent: list[Wave] = []
        for number, wave in enumerate(self.tolls.feed(self.stand), 1):
            self.sent.append(wave)
            self.tolls.measure(
                SettledWave(number, wave.label, {self.tolls._spec.name: []}, number), self.stand
            )

    def table(self, _):
        return self

    def scan(self, columns):
        return []

    def train(self, name, waves):
        self.trained.append((len(self.sent), waves))
        return TrainingReport(tuple(self.models), waves, models=self.models)

    def explained(self, name):
        return {}


def test_the_first_morning_is_learned_from_without_its_first_minutes_and_then_the_second_is_sent():
    mornings = Mornings(areas="0123")
    assert mornings.trained == [(6, 1)]
    assert len(mornings.sent) == mornings.tolls.waves == 8
    report = mornings.tolls.report(Times(1.0, 2.0))
    assert (report.status, report.document["waves"]) == (0, 2)
    assert report.document["wave_seconds_synchronous"] == 6, "of the last minute of the first six"
    assert report.document["wave_seconds"] == 7.5


def test_where_nothing_was_learned_it_ends_and_the_exit_status_says_so():
    mornings = Mornings()
    assert len(mornings.sent) == 6
    assert mornings.said[-1].startswith("nothing was learned")
    report = mornings.tolls.report(Times(1.0, 2.0))
    assert (report.status, report.document["waves"]) == (3, 0)
