"""Feedback follows what runs show, tightens by what audits find, and learns a change anew."""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.learning.feedback import (
    RELEARNING_WAVES,
    Change,
    Choice,
    Feedback,
    Label,
    Relearn,
)
from headgate.learning.predictor import FOLLOWED, Residuals, log_ratio

TRAINED = Residuals(upper=0.3, spread=0.5)
AUDIT = 0.05


def label(above: float) -> Label:
    """A label at the bound whose residual is so far above training's quantile."""
    return Label(-(TRAINED.upper + above), 1.0)


def stored(feedback: Feedback) -> Feedback:
    """Feedback as it comes back from where a step's state is kept."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(feedback), type=Feedback)


def ran(feedback: Feedback, *labels: Label, choice: Choice = Choice.RUN) -> Feedback:
    for each in labels:
        feedback, relearn = feedback.after_run(each, TRAINED, choice, AUDIT)
        assert relearn is None
    return feedback


@given(st.floats(-3, 3), st.floats(0, 1, exclude_max=True), st.floats(0, 1))
def test_a_would_be_skip_runs_where_its_draw_is_below_the_probability(
    score: float, draw: float, audit: float
) -> None:
    found = Feedback().choice(0.0, score, draw, audit)
    if score > 0.0:
        assert found is Choice.RUN
    else:
        assert found is (Choice.AUDIT if draw < audit else Choice.SKIP)


def test_what_is_not_predicted_runs() -> None:
    for score in (math.inf, math.nan):
        assert Feedback().choice(5.0, score, 0.0, 1.0) is Choice.RUN


def test_a_label_is_the_logarithm_of_measured_over_predicted() -> None:
    assert Label(-0.1, 1.2).residual() == pytest.approx(math.log(1.2) + 0.1)
    assert Label(-0.1, 1.2).residual() == pytest.approx(log_ratio(np.array([0.12]), 0.1)[0] + 0.1)
    assert [Label(0.0, ratio).violated for ratio in (0.0, 1.0, 1.001, math.nan)] == [
        *(False, False, True),
        True,
    ]


def test_the_shift_goes_to_where_a_tenth_of_the_labels_are_above_it() -> None:
    random = np.random.default_rng(4)
    feedback, shifts = Feedback(), []
    for at, above in enumerate(random.normal(0.5, 0.2, 4000).tolist()):
        feedback = msgspec.structs.replace(feedback, labels=())  # no change is looked for
        feedback, _ = feedback.after_run(label(above), TRAINED, Choice.RUN, AUDIT)
        if at >= 1000:
            shifts.append(feedback.shift)
    assert np.mean(shifts) == pytest.approx(0.5 + 1.2816 * 0.2, abs=0.08)
    assert FOLLOWED == 0.9


steps = st.lists(
    st.tuples(
        st.sampled_from([Choice.RUN, Choice.AUDIT, Choice.SKIP]),
        st.floats(-4.0, 4.0),
        st.floats(0.0, 30.0),
    ),
    max_size=60,
)


def walked(feedback: Feedback, walk: list[tuple[Choice, float, float]]) -> list[Feedback]:
    """Feedback after every wave; those of relearning are of one label each."""
    states = [feedback]
    for choice, score, ratio in walk:
        if feedback.synchronous:
            feedback = feedback.after_synchronous([Label(score, ratio)], TRAINED)
        elif choice is Choice.SKIP:
            feedback = feedback.after_skip(AUDIT)
        else:
            feedback, _ = feedback.after_run(Label(score, ratio), TRAINED, choice, AUDIT)
        states.append(feedback)
    return states


@settings(max_examples=200, deadline=None)
@given(steps)
def test_a_threshold_is_never_looser_than_the_calibrated_one(
    walk: list[tuple[Choice, float, float]],
) -> None:
    for state in walked(Feedback(), walk):
        assert state.threshold(0.7) <= 0.7
        assert 0.0 <= state.shift <= 3.0


@settings(max_examples=200, deadline=None)
@given(steps)
def test_what_audits_have_tightened_stays(walk: list[tuple[Choice, float, float]]) -> None:
    states = walked(Feedback(), walk)
    for before, after in pairwise(states):
        assert after.tightening >= before.tightening


def test_an_audit_tightens_by_a_violation_and_by_nothing_else() -> None:
    good = ran(Feedback(), Label(-1.0, 0.4), choice=Choice.AUDIT)
    bad = ran(Feedback(), Label(-1.0, 1.4), choice=Choice.AUDIT)
    decided = ran(Feedback(), Label(-1.0, 1.4))
    assert (good.tightening, decided.tightening) == (0.0, 0.0)
    assert bad.tightening == pytest.approx(0.25 * TRAINED.spread)
    assert bad.threshold(0.0) == pytest.approx(-bad.shift - bad.tightening)


UNPREDICTED = Label(math.inf, 9.0)


def test_runs_past_the_horizon_are_no_labels() -> None:
    unpredicted = ran(Feedback(), *[UNPREDICTED] * 20)
    assert (unpredicted.labels, unpredicted.shift) == ((), 0.0)


def test_a_day_of_waves_unlike_all_that_was_learned_from_is_a_change() -> None:
    feedback = ran(Feedback(), *[UNPREDICTED] * 23)
    again = ran(stored(feedback), label(-0.5), *[UNPREDICTED] * 23)
    found, relearn = stored(again).after_run(UNPREDICTED, TRAINED, Choice.RUN, AUDIT)
    assert relearn == Relearn(Change.UNLIKE)
    assert (found.synchronous, found.unlike) == (RELEARNING_WAVES, 0)


def test_two_bad_audits_of_six_are_a_change() -> None:
    bad, good = Label(-1.0, 1.1), Label(-1.0, 0.3)
    once = ran(Feedback(), bad, *[good] * 4, choice=Choice.AUDIT)
    found, relearn = once.after_run(bad, TRAINED, Choice.AUDIT, AUDIT)
    assert relearn == Relearn(Change.AUDITS, 48)
    assert (found.synchronous, found.changes) == (RELEARNING_WAVES, 1)
    ran(ran(once, good, choice=Choice.AUDIT), bad, choice=Choice.AUDIT)  # the first is the seventh


def test_a_jump_of_the_quantile_is_a_change() -> None:
    """Five of eight labels far above it; four are what one in two hundred such series has."""
    quiet = ran(Feedback(), *[label(-0.5)] * 8)
    four = ran(quiet, *[label(2.0)] * 4)
    found, relearn = four.after_run(label(2.0), TRAINED, Choice.RUN, AUDIT)
    assert relearn == Relearn(Change.QUANTILE)
    assert found.labels == ()


def test_errors_as_small_as_training_tells_them_are_never_above_what_was_predicted() -> None:
    """Where all but nothing changes, predictions are as low as they go and some residuals too."""
    low = Residuals(upper=-0.2, spread=0.05)
    small, smaller = Label(-0.3, math.exp(-0.2)), Label(-0.3, 0.01)
    assert small.above(low) == pytest.approx(0.3)
    assert smaller.above(low) == 0.0
    assert Label(0.2, 0.01).above(low) == pytest.approx(-0.25)
    feedback = Feedback()
    for _ in range(100):
        feedback, relearn = feedback.after_run(smaller, low, Choice.RUN, AUDIT)
        assert relearn is None
    assert (feedback.shift, feedback.changes) == (0.0, 0)
    learned = relearning()
    for _ in range(RELEARNING_WAVES):
        learned = learned.after_synchronous([smaller], low)
    assert learned.shift == 0.0


def test_fewer_than_eight_labels_show_no_change() -> None:
    few = ran(Feedback(), *[label(2.0)] * 7)
    assert few.after_run(label(2.0), TRAINED, Choice.RUN, AUDIT)[1] is not None


def relearning() -> Feedback:
    bad = Label(-1.0, 1.1)
    found, _ = ran(Feedback(), bad, choice=Choice.AUDIT).after_run(
        bad, TRAINED, Choice.AUDIT, AUDIT
    )
    return found


def test_a_change_is_learned_from_synchronous_waves_and_then_applies() -> None:
    feedback = relearning()
    tightened = feedback.tightening
    drawn = np.random.default_rng(5).normal(0.8, 0.1, (RELEARNING_WAVES, 6))
    for wave, residuals in enumerate(drawn):
        assert feedback.choice(9.0, -9.0, 0.9, AUDIT) is Choice.SYNCHRONOUS
        assert feedback.synchronous == RELEARNING_WAVES - wave
        feedback = feedback.after_synchronous([label(each) for each in residuals], TRAINED)
    assert feedback.shift == pytest.approx(np.quantile(drawn, 0.9), abs=0.01)
    assert feedback.tightening == tightened
    assert feedback.learned == ()
    assert feedback.choice(9.0, -9.0, 0.9, AUDIT) is Choice.SKIP
    with pytest.raises(ValueError, match="there is none"):
        feedback.after_synchronous([], TRAINED)


def test_after_a_change_it_is_more_careful_even_where_no_audit_found_anything() -> None:
    feedback = ran(Feedback(), *[label(-0.5)] * 8, *[label(2.0)] * 4)
    feedback, _ = feedback.after_run(label(2.0), TRAINED, Choice.RUN, AUDIT)
    for _ in range(RELEARNING_WAVES):
        feedback = feedback.after_synchronous([label(-0.5)], TRAINED)
    assert feedback.shift == 0.0
    assert feedback.tightening == pytest.approx(0.3 * TRAINED.spread)


def test_where_synchronous_waves_show_nothing_all_but_nothing_is_skipped() -> None:
    feedback = relearning()
    for _ in range(RELEARNING_WAVES):
        feedback = feedback.after_synchronous([Label(math.inf, 0.1)], TRAINED)
    assert feedback.shift == 3.0


def test_audits_are_counted_by_their_weights() -> None:
    feedback = ran(Feedback(), label(-0.5), label(-0.5)).after_skip(AUDIT).after_skip(AUDIT)
    feedback = ran(feedback, Label(-1.0, 2.0), choice=Choice.AUDIT)
    assert (feedback.rate.waves, feedback.rate.audits) == (5, 1)
    assert feedback.rate.rate == pytest.approx(1 / AUDIT / 5)


@settings(max_examples=100, deadline=None)
@given(steps, steps)
def test_a_restart_at_any_wave_changes_nothing(
    before: list[tuple[Choice, float, float]], after: list[tuple[Choice, float, float]]
) -> None:
    state = walked(Feedback(), before)[-1]
    assert stored(state) == state
    again = walked(stored(state), after)[-1]
    assert again == walked(state, after)[-1]
