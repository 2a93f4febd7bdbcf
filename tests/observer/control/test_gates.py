"""Which writes a closed gate holds, and when they go on, are refused or dropped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.events import Container, ContainerId, Gate, Item, Origin, UpdateKind
from headgate.hbase import Cells, Write
from headgate.observer.control.gates import WriteGates

COLUMN = Item("t", b"f", b"q", b"b", b"d")


def gate(until: float = 130.0, revision: int = 1, **changes) -> Gate:
    items = changes.pop("items", (COLUMN,))
    container = Container(ContainerId("c"), items)
    fields = {"dataflow": "flow", "action": "step", "bound": "kappa", **changes}
    return Gate(2, containers=(container,), until=until, revision=revision, **fields)


def put(row: bytes = b"c", column: bytes = b"f:q", table: str = "t") -> Write:
    cells = Cells.empty()
    cells.add(UpdateKind.PUT, row, column, -1, b"v")
    return Write("put", table, cells)


def own(dataflow: str = "flow") -> tuple[Origin, ...]:
    return (Origin(dataflow, "step", "run", 1),)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Session:
    """A session that holds one write, and what became of it."""

    def __init__(self, gates: WriteGates, write: Write) -> None:
        self.gates = gates
        self.write = write
        self.gone = False
        self.fate = ""

    def client_is_gone(self) -> bool:
        return self.gone

    def gate_in_the_way(self) -> Gate | None:
        return self.gates.in_the_way(self.write, ())

    def go_on(self) -> None:
        self.fate = "went on"

    def turn_away(self, reason: str) -> None:
        self.fate = reason

    def drop(self, reason: str) -> None:
        self.fate = f"dropped: {reason}"


class Stand:
    def __init__(self) -> None:
        self.clock = Clock()
        self.gates = WriteGates(hold_seconds=5.0, clock=self.clock)

    def say(self, message: Gate) -> None:
        self.gates.apply(message, message.until - self.clock.now)

    def holds(self, write: Write, origins: tuple[Origin, ...] = ()) -> bool:
        return self.gates.in_the_way(write, origins) is not None

    def held(self, write: Write | None = None) -> Session:
        session = Session(self.gates, write or put())
        found = session.gate_in_the_way()
        assert found is not None
        self.gates.hold(session, found)
        return session

    def after(self, seconds: float) -> None:
        self.clock.now += seconds
        self.gates.tend()


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_without_a_gate_no_write_is_looked_at(stand: Stand) -> None:
    assert not stand.gates.closed


@pytest.mark.parametrize(
    ("write", "held"),
    [
        (put(), True),
        (put(row=b"d"), False),
        (put(row=b"a"), False),
        (put(column=b"f:p"), False),
        (put(table="u"), False),
    ],
)
def test_a_gate_holds_what_touches_its_container(stand: Stand, write: Write, held: bool) -> None:
    stand.say(gate())
    assert stand.holds(write) is held


def test_a_gate_holds_what_touches_any_item_of_a_group(stand: Stand) -> None:
    stand.say(gate(items=(COLUMN, Item("u", b"g"))))
    assert stand.holds(put())
    assert stand.holds(put(table="u", column=b"g:x"))
    assert not stand.holds(put(table="u"))


def test_a_gate_holds_a_delete_of_the_whole_row(stand: Stand) -> None:
    stand.say(gate())
    cells = Cells.empty()
    cells.add(UpdateKind.DELETE_ROW, b"c", b"", -1, None)
    assert stand.holds(Write("deleteSingle", "t", cells))


def test_a_gate_holds_a_request_of_which_another_tables_part_matches(stand: Stand) -> None:
    stand.say(gate())
    several = Write("incrementRows", "u", Cells.empty(), others=(put(),))
    assert stand.holds(several)


def test_the_dataflows_own_runs_pass(stand: Stand) -> None:
    stand.say(gate())
    assert not stand.holds(put(), own())
    assert stand.holds(put(), own("other"))
    assert stand.holds(put(), own() + own("other"))


def test_a_gate_opens_when_it_is_released(stand: Stand) -> None:
    stand.say(gate())
    session = stand.held()
    stand.after(1)
    assert session.fate == ""
    stand.say(gate(revision=2, released=True))
    stand.gates.tend()
    assert session.fate == "went on"
    assert not stand.gates.closed


def test_a_gate_opens_when_its_lease_ends_without_renewal(stand: Stand) -> None:
    stand.say(gate(until=102.0))
    session = stand.held()
    stand.after(1.9)
    assert session.fate == ""
    stand.after(0.1)
    assert session.fate == "went on"
    assert not stand.gates.closed


def test_a_gate_stays_closed_while_its_lease_is_renewed(stand: Stand) -> None:
    stand.say(gate(until=102.0))
    stand.say(gate(until=104.0))
    session = stand.held()
    stand.after(3)
    assert session.fate == ""
    assert stand.gates.closings == 1


@pytest.mark.parametrize("until", [1e300, float("inf"), float("nan"), -1e300])
def test_a_lease_whose_end_no_calendar_has_is_a_gate_like_others(
    stand: Stand, until: float
) -> None:
    stand.say(gate(until))
    held = bool(stand.gates.closed)
    assert held is (until > 0)
    if held:
        session = stand.held()
        stand.after(5)
        assert "which no calendar has" in session.fate
    stand.say(gate(revision=2, released=True))
    assert not stand.gates.closed


def test_a_lease_lasts_as_long_as_is_left_whatever_the_hosts_clock_says(stand: Stand) -> None:
    for until in (0.0, 100.0, 1e9):
        stand.gates.apply(gate(until=until, revision=int(until)), 2.0)
        session = stand.held()
        stand.after(1.9)
        assert session.fate == ""
        stand.after(0.1)
        assert session.fate == "went on"


def test_a_lease_that_is_over_when_it_is_read_closes_nothing(stand: Stand) -> None:
    stand.say(gate(until=99.0))
    assert not stand.gates.closed


def test_a_write_that_is_held_too_long_is_refused_with_the_bound_and_the_time(
    stand: Stand,
) -> None:
    stand.say(gate())
    session = stand.held()
    stand.after(4.9)
    assert session.fate == ""
    stand.after(0.1)
    assert "bound kappa of flow/step" in session.fate
    assert "1970-01-01T00:02:10.000+00:00" in session.fate
    assert (stand.gates.refused, stand.gates.held) == (1, 0)
    assert stand.gates.held_seconds.total == pytest.approx(5.0)


def test_a_held_write_whose_client_is_gone_is_dropped_before_the_gate_lets_it_go_on(
    stand: Stand,
) -> None:
    stand.say(gate())
    session = stand.held()
    session.gone = True
    stand.say(gate(revision=2, released=True))
    stand.gates.tend()
    assert session.fate.startswith("dropped")
    assert stand.gates.dropped == 1


def test_a_write_that_a_second_gate_holds_waits_on_and_no_longer_in_all(stand: Stand) -> None:
    stand.say(gate())
    stand.say(gate(bound="other"))
    session = stand.held()
    stand.clock.now += 3
    stand.say(gate(revision=2, released=True))
    stand.after(0)
    assert session.fate == ""
    stand.after(2)
    assert "bound other of flow/step" in session.fate


def test_a_gate_whose_container_has_changed_lets_go_what_it_does_not_touch_any_more(
    stand: Stand,
) -> None:
    stand.say(gate())
    session = stand.held()
    stand.say(gate(revision=2, items=(Item("t", b"g"),)))
    stand.gates.tend()
    assert session.fate == "went on"


def test_an_older_message_closes_no_gate_that_a_newer_one_opened(stand: Stand) -> None:
    stand.say(gate(revision=3, released=True))
    stand.say(gate(revision=2, until=1000.0))
    assert not stand.gates.closed


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.booleans(), st.sampled_from([90.0, 110.0, 130.0])),
        min_size=1,
    )
)
def test_the_newest_revision_alone_says_whether_a_gate_is_closed(said) -> None:
    stand = Stand()
    for revision, released, until in said:
        stand.say(gate(until, revision, released=released))
    newest = max(revision for revision, _, _ in said)
    *_, (released, until) = [(r, u) for revision, r, u in said if revision == newest]
    assert bool(stand.gates.closed) == (not released and until > 100.0)


def test_gates_of_several_dataflows_are_told_apart(stand: Stand) -> None:
    stand.say(gate())
    stand.say(gate(dataflow="other"))
    stand.say(gate(revision=2, released=True))
    assert stand.gates.closed_gates == 1
    assert stand.holds(put(), own("flow"))
    assert not stand.holds(put(), own("other"))


def test_health_speaks_of_gates_that_hold_many_writes(stand: Stand) -> None:
    stand.say(gate())
    for _ in range(99):
        stand.held()
    before = stand.gates.reasons
    assert before == ()
    stand.held()
    assert stand.gates.reasons == ("gates hold 100 writes: bound kappa of flow/step",)
