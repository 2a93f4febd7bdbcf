"""What the control topic says: watched tables, fences and barriers."""

from headgate.events import BarrierRequest, Fence, ObserverLease, Origin, Watch, WatchList
from headgate.observer.control.state import ControlState


def watching(dataflow: str, *watches: Watch) -> WatchList:
    return WatchList(1, dataflow, 1, watches)


def test_a_table_is_watched_while_any_dataflow_watches_it() -> None:
    control = ControlState()
    control.apply(watching("a", Watch("t"), Watch("u")), "o")
    control.apply(watching("b", Watch("t")), "o")
    control.apply(watching("a"), "o")
    assert control.is_watched("t")
    assert not control.is_watched("u")


def test_a_newer_list_replaces_the_dataflows_older_one() -> None:
    control = ControlState()
    control.apply(watching("a", Watch("t")), "o")
    control.apply(watching("a", Watch("u")), "o")
    assert control.watched == {"u": True}


def test_values_are_wanted_when_any_dataflow_wants_them() -> None:
    control = ControlState()
    control.apply(watching("a", Watch("t", values=False), Watch("u", values=False)), "o")
    control.apply(watching("b", Watch("t", values=True)), "o")
    assert control.wants_values("t")
    assert not control.wants_values("u")


def test_without_the_topic_every_table_is_watched_with_values() -> None:
    control = ControlState()
    control.lost()
    assert control.is_watched("anything")
    assert control.wants_values("anything")
    control.found()
    assert not control.is_watched("anything")


def test_a_run_below_the_fence_may_not_write() -> None:
    control = ControlState()
    control.apply(Fence(1, "flow", "step", 5), "o")
    assert control.fence_above(Origin("flow", "step", "r", 4)) == 5
    assert control.fence_above(Origin("flow", "step", "r", 5)) is None
    assert control.fence_above(Origin("flow", "other", "r", 1)) is None


def test_a_fence_never_goes_back() -> None:
    control = ControlState()
    control.apply(Fence(1, "flow", "step", 5), "o")
    control.apply(Fence(1, "flow", "step", 3), "o")
    assert control.fence_above(Origin("flow", "step", "r", 4)) == 5


def test_a_barrier_is_handed_back_to_be_answered() -> None:
    barrier = BarrierRequest(1, "b", ("t",), "agent")
    assert ControlState().apply(barrier, "o") is barrier


def test_leases_of_observers_ask_for_nothing() -> None:
    lease = ObserverLease(1, "o", 3, 10.0, {})
    assert ControlState().apply(lease, "o") is None


def test_an_older_list_than_the_known_one_changes_nothing() -> None:
    control = ControlState()
    control.apply(WatchList(1, "a", 2, (Watch("new"),)), "o")
    control.apply(WatchList(1, "a", 1, (Watch("old"),)), "o")
    assert control.watched == {"new": True}
    control.apply(WatchList(1, "a", 1, ()), "o")
    assert control.watched == {"new": True}


def test_an_older_list_after_the_end_of_the_watches_changes_nothing() -> None:
    control = ControlState()
    control.apply(WatchList(1, "a", 8, ()), "o")
    control.apply(WatchList(1, "a", 7, (Watch("t"),)), "o")
    assert control.watched == {}
    control.apply(WatchList(1, "a", 9, (Watch("u"),)), "o")
    assert control.watched == {"u": True}
