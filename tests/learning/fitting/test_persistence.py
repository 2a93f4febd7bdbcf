"""How long what was seen from nearer holds is learned from pairs that were not trained on."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.learning.fitting.persistence import persistence_of
from headgate.learning.pairs import Table

WAVES, HORIZON = 600, 10
NEARER = {"far": ("near",)}


def drawn(left: float, seed: int = 0) -> tuple[Table, Table, Table]:
    """Return measured errors, and what is predicted from afar and from nearer, by wave and age.

    What the prediction from afar is off by is left to that part a wave later, of one version;
    nearer it is known but for noise.
    """
    random = np.random.default_rng(seed)
    far = random.normal(size=(WAVES, HORIZON + 1))
    off = random.normal(size=far.shape)
    for wave in range(1, WAVES):
        off[wave, 1:] = left * off[wave - 1, :-1] + np.sqrt(1.0 - left**2) * off[wave, 1:]
    later = np.arange(HORIZON + 1) > np.arange(WAVES)[:, None]
    logs = np.where(later, np.nan, far + off)
    near = np.where(later, np.nan, far + off + 0.1 * random.normal(size=far.shape))
    far = np.where(later, np.nan, far)
    return logs, far, near


@pytest.mark.parametrize("left", [0.0, 0.4, 0.9])
def test_it_is_the_part_of_the_difference_that_a_wave_later_is_left(left: float) -> None:
    logs, far, near = drawn(left)
    found = persistence_of(logs, {"far": far, "near": near}, NEARER)
    assert found == {"far": {"near": pytest.approx(left, abs=0.05)}}


def test_it_is_never_more_than_all_nor_turned_round() -> None:
    logs, far, near = drawn(0.9)
    weak = {"far": far, "near": far + 0.2 * (near - far)}
    assert persistence_of(logs, weak, NEARER) == {"far": {"near": 1.0}}
    wrong = {"far": far, "near": far - (near - far)}
    assert persistence_of(logs, wrong, NEARER) == {"far": {"near": 0.0}}


@pytest.mark.parametrize("horizon", [1, 2, 8])
def test_whatever_the_horizon_is(horizon: int) -> None:
    logs, far, near = (table[:, : horizon + 1] for table in drawn(0.8))
    found = persistence_of(logs, {"far": far, "near": near}, NEARER)["far"]["near"]
    assert found == (0.0 if horizon == 1 else pytest.approx(0.8, abs=0.1))


def test_of_the_same_predictions_and_of_none_nothing_is_left() -> None:
    logs, far, _ = drawn(0.8)
    assert persistence_of(logs, {"far": far, "near": far}, NEARER) == {"far": {"near": 0.0}}
    unknown = np.full_like(far, np.nan)
    assert persistence_of(logs, {"far": far, "near": unknown}, NEARER) == {"far": {"near": 0.0}}
    assert persistence_of(logs, {"far": far}, {}) == {}
