"""Labels that service gives for nothing, and models that are fitted anew to them."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from fitted_models import OUTPUT, SOURCE, drawn_rows, model
from hypothesis import given
from hypothesis import strategies as st

from headgate.learning import LabelledRows, encode_model, refit, service_pairs
from headgate.learning.features import HOUR, WEEKEND
from headgate.learning.forest import encode_forest

_OLD, _NEW = -0.2, 0.2


def labelled(log: float, seed: int = 0, count: int = 80, scale: float = 1.0) -> LabelledRows:
    return LabelledRows(drawn_rows(seed, count) * np.float32(scale), np.full(count, log))


def both(rows: LabelledRows) -> dict[str, LabelledRows]:
    return {SOURCE: rows, "areas": rows}


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 9), st.integers(1, 50))
def test_any_two_recent_waves_up_to_the_horizon_apart_are_a_label(
    made: list[bool], horizon: int, recent: int
) -> None:
    found = service_pairs(np.array(made, np.bool_), horizon, recent)
    expected = {
        (later, later - earlier)
        for later in range(len(made))
        for earlier in range(max(0, len(made) - recent), later)
        if made[later] and made[earlier] and later - earlier <= horizon
    }
    pairs = list(zip(found.waves.tolist(), found.ages.tolist(), strict=True))
    assert set(pairs) == expected
    assert len(pairs) == len(expected)


def test_a_label_of_service_counts_three_times_a_pair_of_training() -> None:
    """Both say something else of the same rows, so that every leaf is their weighted mean."""
    found = refit(model(), both(labelled(_OLD)), both(labelled(_NEW)))
    for each in found.containers.values():
        assert each.forest.predict(drawn_rows()) == pytest.approx((_OLD + 3.0 * _NEW) / 4.0)
    even = refit(model(), both(labelled(_OLD)), both(labelled(_NEW)), weight=1.0)
    assert even.containers[SOURCE].scores(drawn_rows()) == pytest.approx((_OLD + _NEW) / 2.0)


def test_a_model_follows_a_world_that_has_changed() -> None:
    """Errors fall with the first feature now, by which they had risen in training."""
    rows = drawn_rows(1, 400)
    turned = LabelledRows(rows, (0.5 - rows[:, 0]).astype(np.float64) / 2.0)
    old = model()
    found = refit(old, both(labelled(0.0, count=40)), both(turned))
    unseen = drawn_rows(2, 200)
    true = 0.5 - unseen[:, 0]
    assert np.corrcoef(old.containers[SOURCE].scores(unseen), true)[0, 1] < -0.5
    assert np.corrcoef(found.containers[SOURCE].scores(unseen), true)[0, 1] > 0.5


def test_each_container_learns_from_its_own_rows() -> None:
    service = {SOURCE: labelled(_NEW), "areas": labelled(_OLD)}
    found = refit(model(), both(labelled(0.0)), service)
    assert found.containers[SOURCE].scores(drawn_rows()).min() > 0.0
    assert found.containers["areas"].scores(drawn_rows()).max() < 0.0


@pytest.mark.parametrize("service", [_OLD - 1.0, _NEW + 1.0])
@pytest.mark.parametrize("threshold", [-0.3, 0.1, -9.0, 9.0])
def test_upstream_as_many_pairs_of_training_are_skipped_as_before(
    service: float, threshold: float
) -> None:
    """What service shows there has passed what lies between: it would always run, or never."""
    old = msgspec.structs.replace(model(), threshold=threshold)
    rows = drawn_rows(7, 60)
    taught = LabelledRows(rows, (rows[:, 0] - 0.5).astype(np.float64))
    known = both(labelled(service, seed=8, count=200))
    plain = refit(old, both(taught), known).containers
    found = refit(old, both(taught), known, upstream=["areas", "unheard-of"]).containers
    assert encode_forest(found["areas"].forest) == encode_forest(plain["areas"].forest)
    assert found[SOURCE].adjustment == plain[SOURCE].adjustment
    before, after = (
        np.count_nonzero(each["areas"].adjusted(rows) <= threshold)
        for each in (old.containers, found)
    )
    assert before == after
    assert (before == 0, before == len(rows)) == (threshold < -1.0, threshold > 1.0)
    if abs(threshold) < 1.0:
        assert np.count_nonzero(plain["areas"].adjusted(rows) <= threshold) != before


def test_ranges_widen_to_what_service_has_shown_and_never_narrow() -> None:
    old = model()
    wide = np.full((1, drawn_rows().shape[1]), 1.6, np.float32)
    wide[:, HOUR] = wide[:, WEEKEND] = 1.0
    assert old.score(SOURCE, wide[0]) == math.inf
    wider = refit(old, both(labelled(_OLD)), both(labelled(_NEW, seed=3, scale=2.0)))
    assert math.isfinite(wider.score(SOURCE, wide[0]))
    narrow = refit(old, both(labelled(_OLD)), both(labelled(_NEW, count=3)))
    rows = drawn_rows()
    assert np.isfinite(narrow.containers[SOURCE].scores(rows)).all()


def test_what_calibration_and_feedback_start_from_stays_that_of_training() -> None:
    old = model()
    found = refit(old, both(labelled(_OLD)), both(labelled(_NEW)))
    assert (found.threshold, found.upper, found.calibration) == (
        old.threshold,
        old.upper,
        old.calibration,
    )
    for name, each in found.containers.items():
        assert each.residuals == old.containers[name].residuals
        assert (each.levels == old.containers[name].levels).all()


def test_a_service_without_labels_leaves_the_model_as_it_is() -> None:
    nothing = LabelledRows(drawn_rows()[:0], np.zeros(0))
    for upstream in ((), ("areas",)):
        found = refit(model(), both(labelled(_OLD)), both(nothing), upstream=upstream)
        assert encode_model(found) == encode_model(model())


def test_the_same_rows_make_the_same_model() -> None:
    first, again = (
        refit(model(), both(labelled(_OLD, seed=4)), both(labelled(_NEW))) for _ in range(2)
    )
    assert encode_model(first) == encode_model(again)


@pytest.mark.parametrize("missing", ["training", "service"])
def test_rows_that_are_missing_are_an_error_that_names_the_container(missing: str) -> None:
    rows = {"training": both(labelled(_OLD)), "service": both(labelled(_NEW))}
    rows[missing] = {SOURCE: labelled(_OLD)}
    with pytest.raises(ValueError, match="no rows of areas"):
        refit(model(), rows["training"], rows["service"])


@pytest.mark.parametrize(
    "wrong",
    [
        LabelledRows(drawn_rows()[:, 1:], np.zeros(80)),
        LabelledRows(drawn_rows(), np.zeros(79)),
    ],
)
def test_rows_of_another_shape_are_an_error(wrong: LabelledRows) -> None:
    with pytest.raises(ValueError, match=f"rows of {SOURCE} have the shape"):
        refit(model(), both(labelled(_OLD)), {SOURCE: wrong, "areas": labelled(_NEW)})


def test_a_sample_keeps_rows_beside_their_labels_in_their_order() -> None:
    count = 200
    rows = drawn_rows(5, count)
    rows[:, 0] = np.arange(count)
    whole = LabelledRows(rows, np.arange(count, dtype=np.float64))
    drawn = whole.sample(30)
    assert len(drawn.logs) == len(set(drawn.logs)) == 30
    assert (drawn.rows[:, 0] == drawn.logs).all()
    assert (np.diff(drawn.logs) > 0).all()
    assert drawn.logs[-1] > count / 2
    assert whole.sample(count) is whole


def test_the_output_names_what_is_predicted() -> None:
    found = refit(model(), both(labelled(_OLD)), both(labelled(_NEW)))
    assert {each.forest.labels for each in found.containers.values()} == {(OUTPUT,)}
