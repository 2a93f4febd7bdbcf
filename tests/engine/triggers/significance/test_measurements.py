"""What can be told from several runs: how much they consume, and how their output follows."""

import pytest

from headgate.engine.triggers.significance.measurements import (
    Measurement,
    deviation,
    exponent,
    mean_run,
    spread,
)


def runs(*both: tuple[float, float]) -> list[Measurement]:
    """Runs that consumed and changed so much."""
    return [Measurement(amount, amount, change, 0.1) for amount, change in both]


@pytest.mark.parametrize(
    ("arrived", "limit", "amount"),
    [
        ([10.0], 1, 10),
        ([10.0], 10, 10),
        ([10.0], 11, 20),
        ([1.0, 3.0], 2, (4 + 3) / 2),
        ([1.0, 3.0], 4, 4),
        ([1.0, 3.0], 5, (5 + 7) / 2),
        ([0.0, 4.0], 1, 4),
    ],
)
def test_a_run_consumes_whole_waves(arrived, limit, amount):
    assert mean_run(arrived, limit) == amount


def test_very_long_runs_exceed_their_limit_as_much_as_long_ones_on_average():
    arrived = [1.0, 3.0, 0.0, 8.0]
    long = [mean_run(arrived, 1000 + step / 100) - (1000 + step / 100) for step in range(1200)]
    assert mean_run(arrived, 1_000_000) - 1_000_000 == pytest.approx(sum(long) / 1200, rel=0.01)


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0, 1.5, 2.0])
def test_how_steeply_an_output_follows_is_an_exponent(power):
    amounts = (1.0, 2.0, 3.0, 10.0)
    assert exponent(runs(*((a, 0.01 * a**power) for a in amounts))) == pytest.approx(power)
    assert spread(runs(*((a, 0.01 * a**power) for a in amounts))) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("both", "found"),
    [
        (((1.0, 1.0), (4.0, 16.0)), 1.0),  # any curve goes through two
        (((1.0, 1.0), (2.0, 4.0), (3.9, 15.2)), 1.0),  # too near each other
        (((1.0, 1.0), (2.0, 32.0), (4.0, 1024.0)), 2.0),
        (((1.0, 8.0), (2.0, 4.0), (4.0, 2.0)), 0.25),
        (((1.0, 0.0), (2.0, 0.0), (8.0, 0.0)), 0.25),
    ],
)
def test_an_exponent_is_within_what_can_be_believed(both, found):
    assert exponent(runs(*both)) == found


def test_the_spread_is_the_relative_deviation_at_one_amount():
    assert spread(runs((1.0, 1.0), (1.0, 3.0))) == pytest.approx(0.5)
    assert spread(runs((1.0, 1.0), (2.0, 6.0))) == pytest.approx(0.5)
    assert spread(runs((1.0, 0.0), (1.0, 0.0))) == 0


def test_the_deviation_is_told_by_how_changes_follow_each_other():
    assert deviation([1.0, 3.0, 1.0, 3.0]) == pytest.approx(2**0.5)
    assert deviation([1.0, 1.0, 1.0, 5.0, 5.0, 5.0]) == pytest.approx((16 / 10) ** 0.5)
