"""Replays of dataflows whose steps have learned triggers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec
import pytest
from lived import READS, AllWaves, Lived, dataflow
from lived_models import BOUNDS, GRAPH, UNMOVED, WAVES, fitted, settings
from msgspec.structs import replace
from recorded_world import RecordedTester

from headgate.engine import (
    Bound,
    DataflowSpec,
    DecisionKind,
    Engine,
    Instruction,
    SequenceBound,
    SpecificationChanged,
    UserMetric,
)
from headgate.events import ContainerId
from headgate.learning import (
    LearnedSettings,
    Lost,
    Models,
    OutputSettings,
    Residuals,
    decode_model,
    encode_answer,
    encode_model,
    staged_loop,
    version_of_model,
)
from headgate.learning.envelope import seal, unseal
from headgate.learning.predictor import MODEL_VERSION
from headgate.replay import (
    ModelKey,
    NotRecorded,
    RecordedModels,
    Replayed,
    ReplayReport,
    UnknownModel,
    differences,
    recorded_models,
    untrained,
)

MOVED = Residuals(0.02, 0.3)
"""With these, what runs show moves the thresholds."""
ALWAYS = 1.0 - 1e-6
"""All skips but one in a million are audited, so that every output is known in each wave."""
SHORT = 30


class Record(RecordedTester):
    """An agent in memory: what is true of its waves and restarts is written down."""

    def wave(self, *actions: str, number: int = 0, time: float | None = None) -> list[Instruction]:
        self.note(DecisionKind.WAVE_ENDED, wave=number, wave_time=time, inputs=actions)
        return super().wave(*actions, number=number, time=time)

    def restart(self) -> list[Instruction]:
        self.note(DecisionKind.RESTARTED)
        return super().restart()


def unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


@cache
def models_of(seed: int, residuals: Residuals = UNMOVED) -> Mapping[str, bytes]:
    return fitted(AllWaves(seed, WAVES), 0.0, residuals)[1]


def keyed(models: Mapping[str, bytes]) -> dict[ModelKey, bytes]:
    return {ModelKey(name, version_of_model(data)): data for name, data in models.items()}


class Life:
    """A dataflow that was recorded, the steps that ran in each wave, and its models."""

    def __init__(self, seed: int, learned: LearnedSettings, residuals: Residuals = UNMOVED) -> None:
        self.models = models_of(seed, residuals)
        self.lived = Lived(AllWaves(seed, WAVES), learned, check=unchecked, world=Record)
        self.ran: list[set[str]] = []

    @property
    def record(self) -> Record:
        assert isinstance(self.lived.tester, Record)
        return self.lived.tester

    def pass_waves(
        self, count: int, *, early: bool = False, between: Callable[[], None] = lambda: None
    ) -> None:
        for _ in range(count):
            self.ran.append(self.lived.pass_wave(early=early, between=between))

    def restart(self) -> None:
        self.record.restart()
        self.lived.use(self.models)

    def replay(
        self, *specs: DataflowSpec, changes: Mapping[int, DataflowSpec] | None = None
    ) -> ReplayReport:
        return self.record.replay(*specs, models=keyed(self.models), changes=changes)


def served(seed: int, learned: LearnedSettings, residuals: Residuals = UNMOVED) -> Life:
    """Return a dataflow that models have decided on in all waves."""
    life = Life(seed, learned, residuals)
    life.lived.use(life.models)
    life.pass_waves(WAVES)
    return life


def ran(replayed: Replayed) -> list[set[str]]:
    """Return the steps that ran in each wave."""
    return [
        {s.action for s in replayed.steps if any(run.wave == wave for run in s.runs)}
        for wave in range(1, replayed.waves + 1)
    ]


def bounded(limit: float) -> DataflowSpec:
    """Return the dataflow with a bound on its sensors, and nothing learned."""
    spec = dataflow(settings())
    bound = Bound("k", ContainerId("sensors"), sequence=SequenceBound(limit))
    actions = tuple(
        msgspec.structs.replace(
            a, trigger=None, bounds=(bound,) if a.reads == (ContainerId("sensors"),) else ()
        )
        for a in spec.actions
    )
    return msgspec.structs.replace(spec, actions=actions)


# -- the recorded settings


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("audit", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["plain", "early", "restarts"])
def test_the_same_models_decide_again_as_they_did_wave_by_wave(
    seed: int, audit: float, kind: str
) -> None:
    waves = 50
    life = Life(seed, settings(audit), MOVED)
    life.pass_waves(3)
    life.lived.use(life.models)
    restart = life.restart if kind == "restarts" else lambda: None
    life.pass_waves(waves - 3, early=kind == "early", between=restart)
    report = life.replay(dataflow(settings(audit)))
    [same] = report.replays
    assert ran(same) == life.ran
    assert differences(same, life.record.recording()) == ()
    assert all(run.recorded for step in same.steps for run in step.runs)
    assert {error.epsilon for s in same.steps for o in s.outputs for error in o.errors} == {0.0}
    assert report.warnings == ()
    assert 0.1 < sum(len(READS) - len(steps) for steps in life.ran) / (waves * len(READS)) < 0.9


def test_a_wave_without_models_after_a_death_is_replayed_without_them() -> None:
    life = Life(0, settings())
    life.lived.use(life.models)
    for wave in range(40):
        if wave % 4 == 0:
            life.record.restart()
        life.pass_waves(1)
        life.lived.use(life.models)
    deaths = life.ran[::4]
    assert all(steps == set(READS) for steps in deaths)
    assert any(steps != set(READS) for steps in life.ran)
    [same] = life.replay(dataflow(settings())).replays
    assert ran(same) == life.ran


def test_another_model_decides_from_where_it_did() -> None:
    life = Life(0, settings())
    life.lived.use(life.models)
    life.pass_waves(SHORT)
    other = models_of(1)
    life.lived.use({"map": other["map"]})
    life.pass_waves(SHORT)
    [first, second] = (
        key for key in recorded_models(life.record.recording()) if key.output == "map"
    )
    assert first.version != second.version
    known = {**keyed(life.models), **keyed(other)}
    [same] = life.record.replay(dataflow(settings()), models=known).replays
    assert ran(same) == life.ran


@pytest.mark.parametrize("refitted", [True, False])
def test_a_refit_does_not_put_off_the_next_training_and_another_model_does(refitted: bool) -> None:
    """``retrain`` counts from the last training: from it on every step runs for a while."""
    learned = replace(settings(waves=12), retrain=25)
    life = Life(0, learned)
    life.pass_waves(2)
    life.lived.use(life.models)
    life.pass_waves(8)
    first = decode_model(life.models["map"])
    threshold = first.threshold if refitted else first.threshold - 0.01
    other = encode_model(replace(first, threshold=threshold, upper=first.upper / 2))
    instead = {"map": version_of_model(life.models["map"])} if refitted else {}
    life.lived.answer("map", encode_answer(Models({"map": other}, instead)))
    life.pass_waves(SHORT)
    known = {**keyed(life.models), **keyed({"map": other})}
    [same] = life.record.replay(dataflow(learned), models=known).replays
    assert ran(same) == life.ran
    made = ["draw" in steps for steps in life.ran]
    begun = min(wave for wave in range(10, 40) if all(made[wave : wave + 5]))
    assert (begun < 30) == refitted


def test_what_the_agent_could_not_be_given_no_replay_is_given() -> None:
    life = Life(0, settings(waves=10))
    life.pass_waves(12)
    life.lived.answer("level", encode_answer(Models({"level": Lost("5 waves are missing")})))
    life.lived.use({"map": life.models["map"]})
    life.pass_waves(SHORT)
    assert [key.output for key in recorded_models(life.record.recording())] == ["map"]
    [same] = life.replay(dataflow(settings(waves=10))).replays
    assert ran(same) == life.ran
    assert any("draw" not in steps for steps in life.ran)
    assert all("index" in steps for steps in life.ran)


def test_a_model_that_the_agent_could_not_read_is_not_asked_for() -> None:
    life = Life(0, settings())
    life.lived.use({"map": b"not a model"})
    life.pass_waves(5)
    [same] = life.record.replay(dataflow(settings())).replays
    assert ran(same) == life.ran == [set(READS)] * 5


@pytest.mark.parametrize("given", [True, False])
def test_settings_that_change_meanwhile_hold_from_there_on(*, given: bool) -> None:
    life = Life(0, settings())
    life.lived.use(life.models)
    life.pass_waves(20)
    more = dataflow(settings(0.4))
    life.record.handle(SpecificationChanged(life.record.now, more))
    if given:
        life.lived.use(life.models)
    life.pass_waves(20)
    place = next(
        i
        for i, decision in enumerate(life.record.recording().decisions)
        if decision.kind == DecisionKind.SPECIFICATION_CHANGED
    )
    [same] = life.replay(dataflow(settings()), changes={place: more}).replays
    assert ran(same) == life.ran
    assert (life.ran[20:] == [set(READS)] * 20) == (not given)


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.2])
def test_a_replay_of_synchronous_waves_decides_as_the_rules_say_for_each_error(
    epsilon: float,
) -> None:
    bounds = dict.fromkeys(BOUNDS, epsilon)
    truth = AllWaves(3, WAVES)
    tables, models = fitted(truth, 0.0, bounds=bounds)
    expected = staged_loop(GRAPH, tables, dict.fromkeys(bounds, 0.0), 0, WAVES)
    synchronous = settings(ALWAYS, bounds=bounds)
    world = Lived(truth, synchronous, check=unchecked, world=Record)
    world.use(models)
    assert [world.pass_wave() for _ in range(WAVES)] == [set(READS)] * WAVES
    assert isinstance(world.tester, Record)
    learned = dataflow(settings(bounds=bounds))
    [replayed] = world.tester.replay(learned, models=keyed(models)).replays
    rules = [{step for step in READS if expected.ran[step][wave]} for wave in range(WAVES)]
    assert ran(replayed) == rules
    assert replayed.saved == pytest.approx(expected.saved)
    assert 0.1 < replayed.saved < 0.95


@pytest.mark.parametrize(
    "measured", [{"metric": UserMetric("metrics:Worst")}, {"impacts": {"areas": "metrics:Worst"}}]
)
def test_what_a_user_s_metric_measures_is_not_replayed_and_says_so(
    measured: dict[str, Any],
) -> None:
    life = served(0, settings())
    with pytest.raises(NotRecorded, match=r"`learned` measures by 'metrics:Worst'"):
        life.replay(dataflow(settings(**measured)))


# -- other settings


@pytest.mark.parametrize("seed", range(2))
def test_another_share_of_audits_gives_the_runs_of_a_life_with_it(seed: int) -> None:
    life = served(seed, settings(ALWAYS), MOVED)
    assert life.ran[5:] == [set(READS)] * (WAVES - 5)
    shares = (0.0, 0.1, 0.4)
    report = life.replay(*(dataflow(settings(share)) for share in shares))
    for share, replayed in zip(shares, report.replays, strict=True):
        real = served(seed, settings(share), MOVED)
        assert ran(replayed) == real.ran
        assert not untrained(replayed, replayed)
        _assert_errors(replayed, life.lived.truth, real.ran)
    assert report.replays[0].runs < report.replays[1].runs < report.replays[2].runs
    assert report.warnings == ()


def _assert_errors(replayed: Replayed, truth: AllWaves, steps: list[set[str]]) -> None:
    """Assert that the errors of the map are those of what was shown against what was true."""
    [output] = replayed.step("draw").outputs
    shown = truth.values["map"][0]
    expected = []
    for wave, there in enumerate(truth.values["map"][: len(steps)]):
        shown = there if "draw" in steps[wave] else shown
        apart, whole = abs(there - shown).sum(), abs(there).clip(abs(shown)).sum()
        expected.append(apart / whole if whole else 0.0)
    assert max(expected) > 0.0
    assert [error.epsilon for error in output.errors] == pytest.approx(expected)


def test_a_shorter_horizon_makes_outputs_again_sooner() -> None:
    life = served(0, settings(ALWAYS))
    short = msgspec.structs.replace(settings(), horizon=2)
    [replayed] = life.replay(dataflow(short)).replays
    assert ran(replayed) == served(0, short).ran


def test_bounds_are_replayed_over_what_models_have_decided() -> None:
    life = served(0, settings(ALWAYS))
    report = life.replay(dataflow(settings(ALWAYS)), bounded(1.0), bounded(100.0))
    runs = [replayed.runs for replayed in report.replays]
    assert runs[0] == runs[1] > runs[2] > 0


def test_runs_that_are_not_recorded_are_counted_and_what_they_hide_is_said() -> None:
    life = served(0, settings())
    report = life.replay(dataflow(settings()), dataflow(settings(0.5)))
    assert report.replays[1].runs > report.replays[0].runs
    [warning] = report.warnings
    assert warning.startswith("1: runs are not recorded, ")
    assert "of `draw`" in warning
    assert "they show again what was recorded last" in warning


def test_models_that_would_have_been_trained_are_missed_and_that_is_said() -> None:
    life = Life(0, settings(waves=10**6))
    life.pass_waves(SHORT)
    report = life.replay(dataflow(settings(waves=10**6)), dataflow(settings(waves=10)))
    recorded, sooner = report.replays
    assert untrained(recorded, recorded) == ""
    assert untrained(sooner, recorded) == (
        "1: models would have been trained of `level` (first after wave 11, 1 in all), `map` "
        "(first after wave 11, 1 in all) that are not recorded; a replay trains none, and goes on "
        "with those that it has"
    )
    assert ran(sooner) == life.ran == [set(READS)] * SHORT


# -- models that are not at hand


@pytest.fixture(scope="module")
def recorded() -> Life:
    life = Life(0, settings())
    life.lived.use(life.models)
    life.pass_waves(10)
    return life


def refused(life: Life, models: Mapping[ModelKey, bytes]) -> str:
    with pytest.raises(UnknownModel) as refusal:
        life.record.replay(dataflow(settings()), models=models)
    return str(refusal.value)


def test_a_model_that_is_missing_is_named(recorded: Life) -> None:
    known = keyed(recorded.models)
    gone = next(key for key in known if key.output == "map")
    del known[gone]
    assert refused(recorded, known) == (
        f"model {gone.version}, which decided on `map` of 'lived', is not at hand; to record anew, "
        "remove and submit lived"
    )


def test_a_damaged_model_decides_nothing(recorded: Life) -> None:
    known = keyed(recorded.models)
    key = next(iter(known))
    for place in (0, len(known[key]) // 2, len(known[key]) - 1):
        damaged = bytearray(known[key])
        damaged[place] ^= 1
        words = refused(recorded, {**known, key: bytes(damaged)})
        assert f"model {key.version}, which decided on `{key.output}` of 'lived', is dam" in words
    assert "is damaged" in refused(recorded, {**known, key: b""})


def test_a_model_of_a_newer_version_says_what_to_upgrade(recorded: Life) -> None:
    """An agent of tomorrow has decided by it, and today's program replays."""
    newer = seal("output model", 99, unseal(recorded.models["map"], "output model", 99))
    version = version_of_model(newer)
    life = Life(0, settings())
    life.pass_waves(3)
    life.record.note(DecisionKind.ADOPTED, action="draw", versions={"map": version})
    words = refused(life, {ModelKey("map", version): newer})
    assert f"model {version}, which decided on `map` of 'lived', cannot be used here" in words
    assert f"is of version 99 and this program reads {MODEL_VERSION} at most; upgrade it" in words


def without(line: bytes, key: str) -> bytes:
    fields: dict[str, Any] = msgspec.json.decode(line)
    return msgspec.json.encode({name: value for name, value in fields.items() if name != key})


def old(lines: list[bytes]) -> list[bytes]:
    """Return lines as agents wrote them that did not write down which models decide."""
    kinds = ("adopted", "restarted")
    return [
        without(line, "versions")
        for line in lines
        if msgspec.json.decode(line)["kind"] not in kinds
    ]


def test_a_record_without_versions_is_read_and_what_it_lacks_is_said(recorded: Life) -> None:
    life = Life(0, settings())
    life.lived.use(life.models)
    life.pass_waves(10)
    life.record.lines[:] = old(life.record.lines)
    words = refused(life, keyed(life.models))
    assert words.startswith("models launched 'combine', ")
    assert "which and since when; to record anew, remove and submit lived" in words


def test_a_record_of_before_without_any_model_is_replayed() -> None:
    life = Life(0, settings())
    life.pass_waves(5)
    life.record.lines[:] = old(life.record.lines)
    [same] = life.record.replay(dataflow(settings())).replays
    assert ran(same) == life.ran == [set(READS)] * 5


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (OutputSettings(0.2), "of 0.2 in 0.95 of the waves"),
        (OutputSettings(BOUNDS["map"], confidence=0.99), "of 0.1 in 0.99 of the waves"),
    ],
)
def test_models_of_one_error_say_nothing_of_another(
    recorded: Life, other: OutputSettings, words: str
) -> None:
    known = RecordedModels(recorded.record.recording(), keyed(recorded.models))
    assert known.misfit(dataflow(settings(0.4))) == ""
    assert known.misfit(bounded(5.0)) == ""
    outputs = {**settings().outputs, "map": other}
    said = known.misfit(dataflow(LearnedSettings(outputs, 0.0, 336, 6)))
    assert words in said
    assert "was fitted to relative 0.1 in 0.95; a replay fits none" in said


def test_a_decision_says_by_which_models_it_was_made(recorded: Life) -> None:
    versions = {name: version_of_model(data) for name, data in recorded.models.items()}
    made: dict[str, set[str]] = {}
    for line in recorded.record.lines:
        decision = msgspec.json.decode(line)
        if decision["action"] in READS and decision["result"] is not None:
            made.setdefault(decision["action"], set()).add(
                msgspec.json.encode(decision["versions"]).decode()
            )
            assert decision["versions"].items() <= versions.items()
            assert decision["versions"]
    assert set(made) == set(READS)
    assert all(len(found) == 1 for found in made.values())
    assert set(msgspec.json.decode(next(iter(made["draw"])))) == {"map"}
    assert set(msgspec.json.decode(next(iter(made["combine"])))) == {"level", "map"}
