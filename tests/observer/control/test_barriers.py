"""Barriers that are asked for before the observer has begun, and after."""

import pytest

from headgate.events import BarrierMark, BarrierRequest
from headgate.observer.control.barriers import BarrierResponder
from headgate.observer.monitoring.metrics import Metrics


class Recorder:
    """Calls at once what comes after all that was recorded."""

    def after(self, call) -> None:
        call()


@pytest.fixture
def barriers(bench) -> BarrierResponder:
    bench.publisher.prepare("t", values=True)
    bench.publisher.topic_ready("t", 1)
    return BarrierResponder(Recorder(), bench.publisher, Metrics(), list)  # type: ignore[arg-type]


def marks(bench) -> list[str]:
    bench.publisher.flush()
    bench.producer.deliver_all()
    return [mark.id for mark in bench.producer.log(0) if isinstance(mark, BarrierMark)]


def test_what_was_asked_for_early_is_answered_at_the_beginning(
    bench, barriers: BarrierResponder
) -> None:
    barriers.answer(BarrierRequest(1, "early", ("t",), "a"))
    assert marks(bench) == []
    barriers.begin()
    assert marks(bench) == ["early"]


def test_what_is_asked_for_later_is_answered_at_once(bench, barriers: BarrierResponder) -> None:
    barriers.begin()
    barriers.answer(BarrierRequest(1, "late", ("t",), "a"))
    assert marks(bench) == ["late"]
