"""Trainings on stored pairs: what is chosen, that models are the same, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from asked import HORIZON
from kept import measured
from lived import AllWaves, dataflow
from msgspec.structs import replace
from taught import GRAPH

from headgate.agent.training.pairs import PairKey, WavePairs, set_of, wave_pairs
from headgate.agent.training.program import Answer, Failed, answer_of
from headgate.agent.training.stored import (
    Demand,
    UnusablePairs,
    keys_of_models,
    output_pairs_of,
    rows_of,
    stretch_of,
)
from headgate.agent.training.task import StoredTask, pack_pairs, unpack
from headgate.agent.training.training import demands_of
from headgate.engine import UserMetric
from headgate.learning import (
    FEATURES_OF_BEFORE,
    Changes,
    ErrorMetric,
    LabelledRows,
    LearnedSettings,
    OutputPairs,
    OutputSettings,
    Target,
    decode_model,
    encode_forest,
    encode_model,
    levels_of,
    log_ratio,
    measured_pairs,
    output_pairs,
    refit,
)

RELATIVE = ErrorMetric.RELATIVE
DEMANDS = {"map": Demand(RELATIVE, ("sensors", "areas"))}
BOTH = {**DEMANDS, "level": Demand(RELATIVE, ("sensors", "areas", "peaks"))}


def keys(
    waves: Sequence[int],
    output: str = "map",
    submitted: int = 1,
    alike: str = "relative-1",
    containers: Sequence[str] = ("sensors", "areas"),
) -> list[PairKey]:
    return [PairKey("d", output, c, submitted, wave, alike) for c in containers for wave in waves]


def chosen(
    found: Sequence[PairKey], waves: int, demands: dict[str, Demand] = DEMANDS
) -> tuple[int, list[int], set[str]]:
    """Return the submission, the waves and the sets of what is trained on."""
    stretch = stretch_of(found, demands, waves)
    assert len(stretch) == len(set(stretch))
    assert set(stretch) <= set(found)
    of = {(key.output, key.container) for key in stretch}
    assert of == {(output, c) for output, demand in demands.items() for c in demand.above}
    [submitted] = {key.submitted for key in stretch}
    return submitted, sorted({key.wave for key in stretch}), {key.set for key in stretch}


def test_the_newest_waves_are_taken_where_there_are_enough() -> None:
    found = [*keys(range(2, 40)), *keys(range(60, 72)), *keys(range(2, 9), submitted=2)]
    assert chosen(found, 11) == (1, list(range(62, 72)), {"relative-1"})
    assert chosen(found, 7) == (2, list(range(3, 9)), {"relative-1"})
    assert chosen(found, 1000) == (1, list(range(2, 40)), {"relative-1"})


def test_waves_count_that_were_seen_from_every_container_and_measured_alike() -> None:
    found = [
        *keys(range(2, 30), containers=["sensors"]),
        *keys(range(2, 12), containers=["areas"]),
        *keys(range(12, 40), containers=["areas"], alike="relative-2"),
        *keys(range(2, 40), alike="rmse-1"),
        *keys(range(2, 40), alike=""),
    ]
    assert chosen(found, 100) == (1, list(range(2, 12)), {"relative-1"})


def test_outputs_are_trained_on_the_same_waves() -> None:
    level = keys(range(5, 30), "level", alike="relative-9", containers=BOTH["level"].above)
    found = [*keys(range(2, 20)), *level, *keys(range(2, 90), submitted=2)]
    assert chosen(found, 100, BOTH) == (1, list(range(5, 20)), {"relative-1", "relative-9"})
    apart = keys(range(2, 90), "level", 3, containers=BOTH["level"].above)
    with pytest.raises(UnusablePairs, match="`map` and `level` have no waves in common"):
        stretch_of([*keys(range(2, 20)), *apart], BOTH, 10)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "no pairs of `map` are kept; .* --import"),
        (keys(range(2, 9), "level"), "no pairs of `map` are kept"),
        (keys(range(2, 9), alike=""), "did not note their metric and levels"),
        (keys(range(2, 9), alike="rmse-1"), "of errors rmse, and the dataflow bounds relative"),
        (keys(range(2, 9), containers=["areas"]), "from all of .*; `sensors` is in none"),
    ],
)
def test_pairs_that_do_not_fit_are_refused_with_the_cure(found: list[PairKey], words: str) -> None:
    with pytest.raises(UnusablePairs, match=words):
        stretch_of(found, DEMANDS, 10)


WAVES = 40
MAP = Target("map", RELATIVE, 0.1)


def test_a_model_is_fitted_anew_to_the_ages_that_it_was_trained_on() -> None:
    truth = AllWaves(3, 12)
    histories = {c: truth.history(c) for c in truth.values}
    table = {c: measured_pairs(h, 6, levels_of(h.values)) for c, h in histories.items()}
    known = output_pairs(GRAPH, table, MAP)
    stored = wave_pairs("lived", 1.0, range(1, 13), GRAPH, [MAP], table)
    model = SimpleNamespace(output="map", bound=MAP.bound, containers=("sensors", "areas"))
    found = rows_of(stored, model)  # type: ignore[arg-type]
    there = [(wave, age) for wave in range(12) for age in (1, 2, 3, 4, 6) if age <= wave]
    for container, rows in found.items():
        expected = known.tables[container][tuple(np.transpose(there))]
        assert np.array_equal(rows.rows, expected)
        errors = known.errors[tuple(np.transpose(there))]
        assert np.array_equal(rows.logs, log_ratio(errors, MAP.bound))


@pytest.fixture(scope="module")
def pairs() -> list[WavePairs]:
    """Return pairs of the map with a horizon of 4."""
    table = measured(WAVES)
    made = wave_pairs("lived", 1.0, range(1, WAVES + 1), GRAPH, [MAP], table)
    return [one for one in made if one.key.output == "map"]


def same(found: OutputPairs, expected: OutputPairs) -> None:
    np.testing.assert_array_equal(found.errors, expected.errors)
    assert found.tables.keys() == expected.tables.keys()
    for container, table in expected.tables.items():
        assert found.tables[container].tobytes() == table.tobytes()
        np.testing.assert_array_equal(found.levels[container], expected.levels[container])


def test_stored_pairs_are_bit_for_bit_what_was_measured(pairs: list[WavePairs]) -> None:
    expected = output_pairs(GRAPH, measured(WAVES), MAP)
    found = output_pairs_of(pairs, 4)
    same(found, expected)
    assert found.last_time == expected.last_time


@pytest.mark.parametrize("horizon", [1, 3])
def test_a_shorter_horizon_looks_at_the_younger_pairs(pairs: list[WavePairs], horizon: int) -> None:
    expected = output_pairs(GRAPH, measured(WAVES), MAP)
    found = output_pairs_of(pairs, horizon)
    np.testing.assert_array_equal(found.errors, expected.errors[:, : horizon + 1])


def test_a_stretch_may_begin_in_the_middle(pairs: list[WavePairs]) -> None:
    late = [one for one in pairs if one.key.wave > 10]
    found = output_pairs_of(late, 4)
    whole = output_pairs_of(pairs, 4)
    assert len(found.errors) == WAVES - 9
    np.testing.assert_array_equal(found.errors[4:], whole.errors[13:])
    assert np.isnan(found.errors[1, 2:]).all()


def test_a_longer_horizon_is_refused(pairs: list[WavePairs]) -> None:
    with pytest.raises(
        UnusablePairs, match="look back on 4 waves, and the dataflow's horizon is 5"
    ):
        output_pairs_of(pairs, 5)


def unnoted(one: WavePairs) -> WavePairs:
    return replace(one, basis=None)


def of_another_metric(one: WavePairs) -> WavePairs:
    assert one.basis is not None
    return replace(one, basis=replace(one.basis, metric=ErrorMetric.RMSE))


def of_other_levels(one: WavePairs) -> WavePairs:
    assert one.basis is not None
    return replace(one, basis=replace(one.basis, levels=tuple(range(9))))


def infinite(one: WavePairs) -> WavePairs:
    return replace(one, features=np.full_like(one.features, np.inf))


def negative(one: WavePairs) -> WavePairs:
    return replace(one, errors=-np.ones_like(one.errors))


def other(one: WavePairs) -> WavePairs:
    return replace(one, errors=one.errors + 1.0)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (unnoted, "do not say by which levels"),
        (of_another_metric, "are not of the metric and the levels of their set"),
        (of_other_levels, "by which levels they were measured, or by several"),
        (infinite, "have features or errors that are none"),
        (negative, "have features or errors that are none"),
        (other, "have other errors from one container than from another"),
    ],
)
def test_pairs_that_say_what_they_are_not_are_refused(
    pairs: list[WavePairs], spoil: Callable[[WavePairs], WavePairs], words: str
) -> None:
    spoiled = [*pairs[:5], spoil(pairs[5]), *pairs[6:]]
    with pytest.raises(UnusablePairs, match=words) as caught:
        output_pairs_of(spoiled, 4)
    assert "headgate flow knowledge lived --trim 0" in str(caught.value)


def of_before(one: WavePairs) -> WavePairs:
    """Return pairs as the version kept them that knew no net crossings."""
    assert one.basis is not None
    levels = {
        container: known.deciles for container, known in measured(WAVES).items()
        if container in {"sensors", "areas"}
    }  # fmt: skip
    alike = set_of(one.basis.metric, levels, len(FEATURES_OF_BEFORE))
    features = one.features[:, : len(FEATURES_OF_BEFORE)]
    return replace(one, features=features, key=replace(one.key, set=alike))


def test_pairs_of_the_version_before_make_a_model_and_fit_it_anew(pairs: list[WavePairs]) -> None:
    """It predicts by the features that they have, whatever else a row of now says."""
    before = [of_before(one) for one in pairs]
    found = output_pairs_of(before, 4)
    k = len(FEATURES_OF_BEFORE)
    for container, table in output_pairs_of(pairs, 4).tables.items():
        assert found.tables[container].tobytes() == table[..., :k].tobytes()
    answer = answer_of(stored(before))
    assert isinstance(answer, Answer)
    data = answer.trained.models["map"]
    model = decode_model(data)
    for each in model.containers.values():
        assert each.forest.features == FEATURES_OF_BEFORE
    assert set(keys_of_models([one.key for one in [*pairs, *before]], {"map": data})) == {
        one.key for one in before
    }
    training = rows_of(before, model)
    tables = output_pairs_of(pairs, 4).tables
    rows = {c: known.shown(tables[c][20:40, 1]) for c, known in model.containers.items()}
    service = {c: LabelledRows(each, np.zeros(len(each))) for c, each in rows.items()}
    anew = refit(model, training, service)
    for container, known in anew.containers.items():
        assert known.forest.features == FEATURES_OF_BEFORE
        assert np.isfinite(known.score(tables[container][30, 1]))


def test_pairs_are_known_whatever_the_model_learned_of_a_user_s_metric(
    pairs: list[WavePairs],
) -> None:
    """Pairs are kept without what it says."""
    answer = answer_of(stored(pairs))
    assert isinstance(answer, Answer)
    model = decode_model(answer.trained.models["map"])
    containers = {
        name: replace(
            each,
            forest=replace(each.forest, features=(*each.forest.features, "metrics:Moved")),
            lowest=np.append(each.lowest, np.float32(0.0)),
            highest=np.append(each.highest, np.float32(1.0)),
        )
        for name, each in model.containers.items()
    }
    own = encode_model(replace(model, containers=containers))
    keys = [one.key for one in pairs]
    assert keys_of_models(keys, {"map": own}) == tuple(keys)


def test_pairs_with_features_that_nobody_knows_are_refused(pairs: list[WavePairs]) -> None:
    packed = pack_pairs(replace(pairs[0], features=pairs[0].features[:, :-1]))
    with pytest.raises(ValueError, match="wave 2 of output map has 41 features"):
        unpack(packed)


def test_pairs_of_two_versions_are_no_set(pairs: list[WavePairs]) -> None:
    mixed = [*pairs[:9], of_before(pairs[9]), *pairs[10:]]
    with pytest.raises(UnusablePairs, match="have not the features of the others"):
        output_pairs_of(mixed, 4)


def stored(pairs: list[WavePairs], horizon: int = 4) -> StoredTask:
    spec = dataflow(LearnedSettings({"map": OutputSettings(0.9, confidence=0.8)}, 0.0, 40, horizon))
    return StoredTask(spec, ("map",), WAVES, tuple(map(pack_pairs, pairs)))


def test_a_model_comes_of_stored_pairs_as_of_a_recording(pairs: list[WavePairs]) -> None:
    answer = answer_of(stored(pairs))
    assert isinstance(answer, Answer)
    trained = answer.trained
    assert (trained.waves, trained.last, trained.reasons, trained.pairs) == (WAVES, WAVES, {}, ())
    model = decode_model(trained.models["map"])
    assert (model.horizon, model.bound, set(model.containers)) == (4, 0.9, {"sensors", "areas"})
    again = decode_model(answer_of(stored(pairs)).trained.models["map"])  # type: ignore[union-attr]
    assert [encode_forest(each.forest) for each in again.containers.values()] == [
        encode_forest(each.forest) for each in model.containers.values()
    ]


def test_what_is_refused_is_the_reason_of_the_failure(pairs: list[WavePairs]) -> None:
    answer = answer_of(stored(pairs, HORIZON))
    assert isinstance(answer, Failed)
    assert f"horizon is {HORIZON}" in answer.reason
    few = answer_of(stored([one for one in pairs if one.key.wave < 8]))
    assert isinstance(few, Answer)
    assert "7 waves are too few" in few.trained.reasons["map"]


def test_errors_that_accumulate_are_kept_and_not_trained_on() -> None:
    table = measured(WAVES)
    accumulated = replace(MAP, changes=Changes.ACCUMULATE)
    made = wave_pairs("lived", 1.0, range(1, WAVES + 1), GRAPH, [accumulated], table)
    assert {(one.basis, one.key.set) for one in made} == {(None, "")}
    with pytest.raises(UnusablePairs, match="kept by a version that did not note"):
        stretch_of([one.key for one in made], DEMANDS, 10)


@pytest.mark.parametrize(
    "learned",
    [
        LearnedSettings({"map": OutputSettings(2.0, UserMetric("metrics:Worst"))}),
        LearnedSettings({"map": OutputSettings(0.1, changes=Changes.ACCUMULATE)}),
        LearnedSettings({"map": OutputSettings(0.1)}, impacts={"areas": "metrics:Moved"}),
    ],
)
def test_what_no_pair_says_is_not_asked_of_them(learned: LearnedSettings) -> None:
    with pytest.raises(UnusablePairs, match="`map` is learned from what users' metrics say"):
        demands_of(dataflow(learned), ["map"])
