"""Learned triggers where runs outlast waves, against what the waves really hold."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from slow_runs import (
    SHAPES,
    SlowWorld,
    Truth,
    error_of,
    models_of,
    settings_for,
    specification,
)

from headgate.engine import Inputs, Wave
from headgate.learning import (
    AuditedRate,
    decode_model,
    features,
    measured_pairs,
)
from headgate.learning.features import Row
from headgate.learning.triggers.above import ContainersAbove

HORIZON, AUDIT = 24, 0.3
NEVER, ALWAYS = -10.0, 10.0
"""Thresholds at which nothing, or everything, is skipped."""
SMALL = 1e-9
"""A bound that any skip of a wave with a change passes."""


def lasting(random: np.random.Generator, steps: list[str]) -> Callable[[str], float]:
    """Return how long runs last: of most steps alike, from a tenth of a wave to five."""
    typical = {step: float(np.exp(random.uniform(np.log(0.1), np.log(5.0)))) for step in steps}
    return lambda step: min(5.0, typical[step] * random.uniform(0.8, 1.25))


def world(
    shape: str, seed: int, lasts: Callable[[str], float], bound: float = 0.1, waves: int = 120
) -> SlowWorld:
    truth = Truth(shape, seed, waves)
    settings = settings_for(dict.fromkeys(truth.outputs, bound), AUDIT, HORIZON)
    return SlowWorld(truth, specification(shape, settings, f"slow {shape} {seed}"), lasts)


def rates(lived: SlowWorld) -> dict[str, AuditedRate]:
    return {
        output: lived.policy(lived.maker(output)).state.outputs[output].decided.feedback.rate
        for output in lived.of_wave
    }


def stand_still(lived: SlowWorld) -> None:
    """Have no audit move a threshold, and no change be found."""
    for output in lived.of_wave:
        decided = lived.policy(lived.maker(output)).state.outputs[output].decided
        decided.feedback = msgspec.structs.replace(
            decided.feedback, audits=(), synchronous=0, tightening=0.0, shift=0.0, labels=()
        )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "slow",
    ["all", *(pytest.param(each, marks=pytest.mark.soak) for each in ("first", "last", "any"))],
)
def test_every_step_runs_in_training_and_makes_its_output_of_one_wave(
    shape: str, slow: str
) -> None:
    names = list(SHAPES[shape])
    lasts: Callable[[str], float] = {
        "all": lambda _: 1.5,
        "first": lambda step: 1.5 if step == names[0] else 0.1,
        "last": lambda step: 2.7 if step == names[-1] else 0.2,
        "any": lasting(np.random.default_rng(len(shape)), names),
    }[slow]
    lived = world(shape, 1, lasts)
    lived.live(100)
    lived.finish()
    longest = max(made.ended - made.begun for made in lived.runs)
    for step in names:
        runs = [made for made in lived.runs if made.step == step]
        # No step waits longer than for the others and for the end of a wave.
        assert len(runs) > 100 / (len(names) * (longest + 1.0)), step
        assert [made.wave for made in runs] == sorted({made.wave for made in runs})
    assert lived.mixed == []


def test_a_step_behind_a_slow_first_step_runs_as_often() -> None:
    lived = world("chain", 1, lambda step: 1.5 if step == "combine" else 0.2, waves=210)
    lived.live(200)
    counts = [sum(made.step == step for made in lived.runs) for step in ("combine", "top")]
    assert counts == [132, 132]


@pytest.mark.parametrize(
    ("shape", "last"),
    [
        ("chain", 2.6),
        ("join", 1.2),
        *(
            pytest.param(shape, last, marks=pytest.mark.soak)
            for shape in ("one", "chain", "join", "fork", "long chain", "short cut")
            for last in (0.3, 1.2, 2.6, 5.0)
        ),
    ],
)
def test_an_audit_counts_by_what_it_found_however_late_its_run_ends(
    shape: str, last: float
) -> None:
    """Every skip of a wave with a change violates: that is what is measured."""
    lived = world(shape, 4, lambda _: last, SMALL, waves=220)
    bounds = dict.fromkeys(lived.of_wave, SMALL)
    lived.live(15)
    lived.use(models_of(lived.truth, shape, bounds, HORIZON, 40, dict.fromkeys(bounds, ALWAYS)))
    for _ in range(200):
        lived.live(1)
        stand_still(lived)
    for output, rate in rates(lived).items():
        runs = [made.wave for made in lived.runs if made.step == lived.maker(output)]
        truth = lived.truth.values[output]
        harmless = sum(
            error_of(truth[now - 1], truth[then - 1]) <= SMALL for then, now in pairwise(runs)
        )
        assert rate.audits > 5
        assert rate.audits - harmless <= rate.violations <= rate.audits
        interval = rate.interval()
        assert interval.low <= 1.0 - harmless / len(runs) <= interval.high
    assert lived.mixed == []


@pytest.mark.parametrize(
    ("seeds", "waves"), [(1, 120), pytest.param(4, 240, marks=pytest.mark.soak)]
)
def test_an_output_that_is_looked_at_twice_is_weighted_by_both_looks(
    seeds: int, waves: int
) -> None:
    """Another output has the first step run in every wave, so that this one is seen from near."""
    measured = []
    for seed in range(seeds):
        lived = world("fork", seed, lambda _: 0.1, SMALL, waves=260)
        bounds = dict.fromkeys(lived.of_wave, SMALL)
        lived.live(2)
        thresholds = {"level": 1.0, "map": NEVER}
        near = {"areas": 0.7}
        lived.use(models_of(lived.truth, "fork", bounds, HORIZON, 40, thresholds, near))
        for _ in range(waves):
            lived.live(1)
            stand_still(lived)
        measured.append(rates(lived)["level"])
    rate = sum(r.weight for r in measured) / sum(r.waves for r in measured)
    assert 0.8 < rate < 1.2


@pytest.mark.parametrize(
    ("shape", "slow"),
    [
        ("chain", 1.5),
        ("long chain", 1.7),
        ("short cut", 1.3),
        *(
            pytest.param(shape, slow, marks=pytest.mark.soak)
            for shape in SHAPES
            for slow in (0.2, 0.6, 1.2, 2.6)
        ),
    ],
)
def test_features_of_slow_runs_are_bit_for_bit_those_of_the_waves_that_they_are_of(
    shape: str, slow: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever comes before a wave is decided on, and whatever runs are still under way."""
    waves = 90
    truth = Truth(shape, 5, waves + 20)
    bounds = dict.fromkeys(truth.outputs, 0.4)
    settings = settings_for(bounds, 0.1, HORIZON)
    random = np.random.default_rng(3)
    lived = SlowWorld(
        truth,
        specification(shape, settings, f"same {shape}"),
        lambda _: slow * random.uniform(0.7, 1.3),
        early=True,
    )
    seen: list[tuple[str, str, int, int, bytes]] = []
    row = ContainersAbove._row

    def noting(
        self: ContainersAbove,
        container: str,
        inputs: Inputs,
        wave: Wave,
        version: int,
        shown: float,
    ) -> Row | None:
        found = row(self, container, inputs, wave, version, shown)
        text = b"" if found is None else found.tobytes()
        seen.append((self._output, container, wave.number, version, text))
        return found

    monkeypatch.setattr(ContainersAbove, "_row", noting)
    lived.live(20)
    models = models_of(truth, shape, bounds, HORIZON, 40, dict.fromkeys(bounds, 0.0))
    lived.use(models)
    for _ in range(waves - 20):
        lived.live(1)
        stand_still(lived)
        if lived.wave % 9 == 0:
            lived.tester.restart()
            lived.use(models)
    tables = {
        (output, container): features(
            measured_pairs(truth.history(container, waves), HORIZON, known.levels),
            measured_pairs(truth.history(output, waves), HORIZON).means,
        )
        for output, model in models.items()
        for container, known in decode_model(model).containers.items()
    }
    known = 0
    for output, container, wave, version, text in seen:
        if wave > version > 0 and wave - version <= HORIZON and text:
            expected = tables[output, container][wave - 1, wave - version]
            assert text == expected.tobytes(), (output, container, wave, version)
            known += 1
    assert known > 20
    assert known > 0.9 * len([1 for *_, wave, version, _ in seen if version]), "most are known"


def test_a_state_from_before_is_read_and_what_it_does_not_know_is_not_guessed() -> None:
    lived = world("chain", 3, lambda step: 1.5 if step == "combine" else 0.2, waves=60)
    lived.live(21)
    for step in ("combine", "top"):
        policy = lived.policy(step)
        saved = msgspec.msgpack.decode(policy.save())
        assert saved.pop("bases") or step == "top", "a run outlasts a wave"
        for output in saved["outputs"].values():
            del output["unbased"]
        policy.load(msgspec.msgpack.encode(saved))
        assert policy.state.bases == {}
    unbased = []
    for _ in range(9):
        lived.live(1)
        unbased.append(set(lived.policy("top").state.outputs["level"].unbased))
    assert {"sensors"} in unbased
    assert unbased[-1] == set(), "of runs that began since it knows all again"
    assert lived.mixed == []
