"""What was seen from nearer holds in part, and no longer than the version it was seen of."""

from __future__ import annotations

import math

import msgspec
import pytest
from fitted_models import SOURCE, model
from hypothesis import given
from hypothesis import strategies as st

from headgate.learning import Choice, Decider, DeciderState
from headgate.learning.looks import Looks

KEPT = {"far": {"near": 0.5, "end": 0.8}, "near": {"end": 0.25}}
"""``near`` is made of ``far``, and ``end`` of both."""


def score(looks: Looks, container: str) -> float:
    return looks.looks[container].score


def test_what_looked_better_from_nearer_is_believed_the_less_the_longer_ago_it_was() -> None:
    first = Looks().looked(3, 4, {"far": 0.4}, KEPT).looked(3, 4, {"near": -0.2}, KEPT)
    assert (score(first, "far"), score(first, "near")) == (0.4, -0.2)
    for waves in (1, 2, 5):
        later = first.looked(3, 4 + waves, {"far": 0.5}, KEPT)
        assert score(later, "far") == pytest.approx(0.5 - 0.6 * 0.5**waves)
        assert later.looks["far"].predicted == 0.5
        assert later.looks["far"].carried == pytest.approx(-0.6 * 0.5**waves)


def test_what_looked_worse_from_nearer_is_believed_as_well() -> None:
    first = Looks().looked(3, 4, {"far": 0.1}, KEPT).looked(3, 4, {"near": 0.3}, KEPT)
    assert score(first.looked(3, 5, {"far": 0.0}, KEPT), "far") == pytest.approx(0.1)


def test_the_nearest_look_of_a_wave_counts_and_of_several_the_worst() -> None:
    looks = Looks()
    for seen in ({"far": 0.4}, {"near": 0.2}, {"end": -0.1}):
        looks = looks.looked(1, 2, seen, KEPT)
    later = looks.looked(1, 3, {"far": 0.4, "near": 0.2}, KEPT)
    assert score(later, "far") == pytest.approx(0.4 - 0.8 * 0.5)
    assert score(later, "near") == pytest.approx(0.2 - 0.25 * 0.3)
    beside = {"far": {"left": 0.5, "right": 1.0}}
    looks = Looks().looked(1, 2, {"far": 0.4}, beside)
    looks = looks.looked(1, 2, {"left": 0.1}, beside).looked(1, 2, {"right": -0.2}, beside)
    assert score(looks.looked(1, 3, {"far": 0.4}, beside), "far") == pytest.approx(0.4 - 0.5 * 0.3)


def test_what_was_carried_to_the_nearer_container_is_part_of_what_it_said() -> None:
    looks = Looks()
    for seen in ({"far": 0.4}, {"near": 0.4}, {"end": 0.0}):
        looks = looks.looked(1, 2, seen, KEPT)
    looks = looks.looked(1, 3, {"far": 0.8}, KEPT).looked(1, 3, {"near": 0.4}, KEPT)
    assert score(looks, "near") == pytest.approx(0.3)
    assert score(looks.looked(1, 4, {"far": 0.8}, KEPT), "far") == pytest.approx(0.8 - 0.5 * 0.5)


def test_a_look_from_afar_alone_keeps_what_was_seen_before() -> None:
    looks = Looks().looked(1, 2, {"far": 0.4}, KEPT).looked(1, 2, {"near": 0.0}, KEPT)
    for wave in (3, 4):
        looks = looks.looked(1, wave, {"far": 0.4}, KEPT)
    assert looks.differences["far"].wave == 2
    assert score(looks, "far") == pytest.approx(0.4 - 0.25 * 0.4)


def test_nothing_holds_of_another_version_or_of_what_is_not_known() -> None:
    looks = Looks().looked(1, 2, {"far": 0.4}, KEPT).looked(1, 2, {"near": -1.0}, KEPT)
    assert score(looks.looked(2, 3, {"far": 0.4}, KEPT), "far") == 0.4
    assert score(looks.looked(1, 3, {"far": 0.4}, {}), "far") == 0.4
    assert score(looks.looked(1, 3, {"far": 0.4}, {"far": {"other": 1.0}}), "far") == 0.4
    for unknown in (math.nan, math.inf):
        blind = Looks().looked(1, 2, {"far": 0.4}, KEPT).looked(1, 2, {"near": unknown}, KEPT)
        assert blind.differences == {}
        assert not score(looks.looked(1, 3, {"far": unknown}, KEPT), "far") <= 1e9
        again = looks.looked(1, 3, {"far": unknown}, KEPT).looked(1, 3, {"near": 0.0}, KEPT)
        assert again.differences == looks.differences


_SCORES = st.dictionaries(
    st.sampled_from(["far", "near", "end"]),
    st.floats(-1.0, 1.0) | st.sampled_from([math.nan, math.inf]),
    min_size=1,
)


@given(st.lists(st.tuples(st.integers(1, 3), _SCORES), max_size=12))
def test_a_second_look_in_a_wave_and_a_save_change_nothing(
    seen: list[tuple[int, dict[str, float]]],
) -> None:
    looks, wave, encode = Looks(), 1, msgspec.msgpack.encode
    for later, scores in seen:
        wave += later
        looks = looks.looked(1, wave, scores, KEPT)
        assert encode(looks.looked(1, wave, scores, KEPT)) == encode(looks)
        saved = encode(DeciderState(looks=looks))
        assert encode(msgspec.msgpack.decode(saved, type=DeciderState).looks) == encode(looks)


def test_a_decider_runs_by_what_is_left_of_a_look_from_nearer() -> None:
    """From afar the wave looks as bad as the one before, which was harmless as seen from nearer."""
    threshold = model().threshold
    decider = Decider("air", 0.0, model(), DeciderState())
    assert decider.judge(5, 4, {SOURCE: threshold + 0.1}).choice is Choice.RUN
    assert decider.judge(5, 4, {"areas": threshold - 0.3}).choice is Choice.SKIP
    decider.wave_over(5, 4)
    state = msgspec.msgpack.encode(decider.state)
    judged = decider.judge(6, 4, {SOURCE: threshold + 0.1})
    assert judged.choice is Choice.SKIP
    assert judged.carried == pytest.approx(-0.6 * 0.4)
    assert judged.score == pytest.approx(threshold + 0.1 - 0.24)
    restarted = Decider("air", 0.0, model(), msgspec.msgpack.decode(state, type=DeciderState))
    assert restarted.judge(6, 4, {SOURCE: threshold + 0.1}) == judged
    assert restarted.judge(7, 6, {SOURCE: threshold + 0.1}).choice is Choice.RUN


def test_a_wave_that_looked_worse_from_nearer_runs() -> None:
    threshold = model().threshold
    decider = Decider("air", 0.0, model(), DeciderState())
    decider.judge(5, 4, {SOURCE: threshold - 0.4})
    decider.judge(5, 4, {"areas": threshold - 0.1})
    assert decider.judge(6, 4, {SOURCE: threshold - 0.1}).choice is Choice.RUN
    assert decider.state.fitted_anew(model()).looks == Looks()
