"""What outputs reflect: the runs that were read, first to last, each of them once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.events import Cut
from headgate.temporal import Reflections, ReflectionTracker, Sources

DIAMOND = Sources(
    writers={"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")},
    feeders=dict.fromkeys("abcd", ()),
    circles={name: frozenset({name}) for name in "abcd"},
)


class Clock:
    """Runs of actions, with a time and a position that grow."""

    def __init__(self, tracker: ReflectionTracker) -> None:
        self.tracker = tracker
        self.now = 0
        self.begun: dict[str, int] = {}

    def launch(self, action: str, **read: tuple[str, ...]) -> None:
        self.now += 1
        self.begun[action] = self.now
        self.tracker.launched(action, read)

    def commit(self, action: str, run: str, *made: str) -> None:
        self.now += 1
        launched = self.begun.pop(action)
        cuts = Cut({"t": (launched,)}), Cut({"t": (self.now,)})
        self.tracker.committed(action, run, cuts, (float(launched), float(self.now)), made)

    def run(self, action: str, run: str, **read: tuple[str, ...]) -> None:
        self.launch(action, **read)
        self.commit(action, run)


def inputs(value: Reflections, run: str) -> dict[str, tuple[str, str]]:
    return {maker: (span.first, span.last) for maker, span in value.runs[run].inputs.items()}


def test_a_run_reflects_the_last_committed_runs_of_its_inputs() -> None:
    clock = Clock(ReflectionTracker(DIAMOND))
    for action, run in (("a", "a1"), ("b", "b1"), ("a", "a2"), ("c", "c1"), ("d", "d1")):
        clock.run(action, run)
    value = clock.tracker.value
    assert value.last == {"a": "a2", "b": "b1", "c": "c1", "d": "d1"}
    assert inputs(value, "d1") == {"b": ("b1", "b1"), "c": ("c1", "c1")}
    assert (inputs(value, "b1"), inputs(value, "c1")) == ({"a": ("a1", "a1")}, {"a": ("a2", "a2")})


def test_a_run_beside_which_its_input_ran_may_have_seen_either_state() -> None:
    clock = Clock(ReflectionTracker(DIAMOND))
    clock.launch("b")
    clock.run("a", "a1")
    clock.run("a", "a2")
    clock.commit("b", "b1")
    assert inputs(clock.tracker.value, "b1") == {"a": ("", "a2")}
    found = clock.tracker.value.runs["b1"]
    assert (found.launched, found.ended) == (Cut({"t": (1,)}), Cut({"t": (6,)}))


def test_of_a_run_that_was_given_up_nothing_is_reflected() -> None:
    clock = Clock(ReflectionTracker(DIAMOND))
    clock.launch("a")
    clock.tracker.given_up("a")
    assert clock.tracker.value == Reflections()


def test_what_no_output_reflects_any_more_is_forgotten() -> None:
    clock = Clock(ReflectionTracker(DIAMOND))
    for number in range(1, 4):
        clock.run("a", f"a{number}")
        clock.tracker.forget(())
        assert set(clock.tracker.value.runs) == {f"a{number}"}
    clock.run("b", "b1")
    clock.run("a", "a4")
    clock.tracker.forget(())
    assert set(clock.tracker.value.runs) == {"a3", "a4", "b1"}


def test_looks_for_what_to_forget_are_rare_and_keep_what_is_there_in_bounds() -> None:
    names = [f"n{number}" for number in range(50)]
    apart = Sources(dict.fromkeys(names, ()), dict.fromkeys(names, ()), {})
    clock, looked_at = Clock(ReflectionTracker(apart)), 0
    for number in range(2000):
        clock.run(names[number % len(names)], f"r{number}")
        if clock.tracker.is_crowded:
            looked_at += len(clock.tracker.value.runs)
            clock.tracker.forget(())
        assert len(clock.tracker.value.runs) <= 2 * len(names) + 11
    assert looked_at <= 2.5 * 2000, "each run is looked at twice, or so"


def test_actions_that_read_each_other_are_not_followed_for_ever() -> None:
    both = frozenset("ab")
    loop = Sources({"a": ("a", "b"), "b": ("a",)}, dict.fromkeys("ab", ()), {"a": both, "b": both})
    clock = Clock(ReflectionTracker(loop))
    for number in range(50):
        clock.run("a", f"a{number}")
        clock.run("b", f"b{number}")
        clock.tracker.forget(())
        assert len(clock.tracker.value.runs) <= 2
    assert inputs(clock.tracker.value, "a49") == {"a": ("a48", "a48"), "b": ("b48", "b48")}


FLOW = Sources(
    {"m": (), "r": ()}, {"m": (), "r": ("m",)}, {"m": frozenset("m"), "r": frozenset("r")}
)


def test_increments_that_were_read_say_which_run_of_their_maker_is_reflected() -> None:
    clock = Clock(ReflectionTracker(FLOW))
    for number in (1, 2):
        clock.launch("m")
        clock.commit("m", f"m{number}", f"i{number}")
    clock.run("r", "r1", m=("i1",))
    assert inputs(clock.tracker.value, "r1") == {"m": ("m1", "m1")}
    clock.tracker.forget(("i2",))
    clock.run("r", "r2")
    assert inputs(clock.tracker.value, "r2") == {"m": ("m1", "m1")}, "its state still has it"
    clock.run("r", "r3", m=("i2",))
    clock.tracker.forget(())
    assert inputs(clock.tracker.value, "r3") == {"m": ("m2", "m2")}
    assert clock.tracker.value.made == {}
    clock.tracker.launched("r", {}, anew=True)
    assert clock.tracker.value.launched == {"r": {}}


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Return launches and commits in an order in which they may happen."""
    under_way: set[str] = set()
    steps: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 40))):
        action = draw(st.sampled_from("abcd"))
        if action not in under_way:
            steps.append(("launch", action))
            under_way.add(action)
        else:
            steps.append((draw(st.sampled_from(("commit", "commit", "give up"))), action))
            under_way.remove(action)
    return steps


@given(lives())
def test_spans_are_those_of_a_history_that_keeps_everything(steps: list[tuple[str, str]]) -> None:
    clock = Clock(ReflectionTracker(DIAMOND))
    committed: dict[str, list[str]] = {name: [""] for name in "abcd"}
    begun: dict[str, dict[str, str]] = {}
    expected: dict[str, dict[str, tuple[str, str]]] = {}
    for number, (what, action) in enumerate(steps):
        if what == "launch":
            clock.launch(action)
            begun[action] = {maker: committed[maker][-1] for maker in DIAMOND.writers[action]}
        elif what == "give up":
            clock.tracker.given_up(action)
            del begun[action]
        else:
            run = f"{action}{number}"
            clock.commit(action, run)
            expected[run] = {
                maker: (first, committed[maker][-1]) for maker, first in begun.pop(action).items()
            }
            committed[action].append(run)
            clock.tracker.forget(())
        value = clock.tracker.value
        clock.tracker = ReflectionTracker(DIAMOND, value)
        assert clock.tracker.value == value
    assert value_of(clock) == {run: expected[run] for run in reachable(committed, begun, expected)}


def value_of(clock: Clock) -> dict[str, dict[str, tuple[str, str]]]:
    clock.tracker.forget(())
    return {run: inputs(clock.tracker.value, run) for run in clock.tracker.value.runs}


def reachable(
    committed: dict[str, list[str]],
    begun: dict[str, dict[str, str]],
    expected: dict[str, dict[str, tuple[str, str]]],
) -> set[str]:
    found: set[str] = set()

    def follow(run: str) -> None:
        if run and run not in found:
            found.add(run)
            for span in expected[run].values():
                for one in span:
                    follow(one)

    for runs in committed.values():
        follow(runs[-1])
    for firsts in begun.values():
        for run in firsts.values():
            follow(run)
    return found


def test_an_action_that_is_gone_is_not_reflected() -> None:
    clock = Clock(ReflectionTracker(DIAMOND))
    clock.run("a", "a1")
    clock.run("b", "b1")
    fewer = Sources({"a": ()}, {"a": ()}, {"a": frozenset("a")})
    tracker = ReflectionTracker(fewer, clock.tracker.value)
    tracker.forget(())
    assert tracker.value.last == {"a": "a1"}
    assert set(tracker.value.runs) == {"a1"}
