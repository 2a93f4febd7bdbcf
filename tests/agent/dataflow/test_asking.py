"""What people are answered who ask for a run or for the end of a wave that can't come now."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from simulation import ScriptedAgent, World
from simulation.driving import ask, feed, started

from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.dataflow.views import RunAnswer, WaveStatus
from headgate.agent.errors import Refused
from headgate.flows import parse_dataflow


def run(agent: ScriptedAgent, action: str) -> RunAnswer:
    answer = ask(agent, lambda runtime, now: runtime.commands.run(action, now))
    assert isinstance(answer, RunAnswer)
    return answer


def wave(world: World, agent: ScriptedAgent) -> WaveStatus:
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    told: list[WaveStatus] = []
    ask(agent, lambda runtime, now: runtime.waves.when_settled(number, told.append))
    world.run(lambda: bool(told))
    return told[0]


def explained(agent: ScriptedAgent, action: str) -> str:
    def words(runtime: Runtime, now: float) -> str:
        explanation = runtime.reporting.explain(now)
        return next(a.words for a in explanation.actions if a.action == action)

    return str(ask(agent, words))


def test_a_run_that_is_launched_is_named(world: World) -> None:
    agent = started(world)
    feed(world)
    wave(world, agent)

    answer = run(agent, "first")

    assert agent.runtime is not None
    assert answer == RunAnswer("first", agent.runtime.history.records[0].run)


def test_an_action_has_one_key_for_its_name_wherever_it_is_told_of(world: World) -> None:
    agent = started(world)

    def told(runtime: Runtime, now: float) -> tuple[list[str], list[str]]:
        explanation, status = runtime.reporting.explain(now), runtime.reporting.status(now)
        return [a.action for a in explanation.actions], [a.action for a in status.actions]

    explained_actions, shown = ask(agent, told)
    assert explained_actions == shown == ["feed", "first", "second"]


def test_a_run_before_any_input_waits_and_says_for_what(world: World) -> None:
    agent = started(world)

    answer = run(agent, "first")

    assert answer == RunAnswer("first", None, "`feed` has not run yet")
    assert "was asked for and waits: `feed` has not run yet" in explained(agent, "first")
    feed(world)
    wave(world, agent)
    assert explained(agent, "first").count("asked for and waits") == 0


def test_a_run_of_a_paused_dataflow_waits_and_says_so(world: World) -> None:
    agent = started(world)
    feed(world)
    wave(world, agent)
    ask(agent, lambda runtime, now: runtime.commands.pause(now))

    assert run(agent, "first") == RunAnswer("first", None, "the dataflow is paused")
    assert "waits: the dataflow is paused" in explained(agent, "first")


def test_a_run_that_comes_after_one_under_way_needs_nothing_else(world: World) -> None:
    agent = started(world)
    feed(world)
    wave(world, agent)
    first = run(agent, "first")

    answer = run(agent, "first")

    assert answer == RunAnswer("first", None, f"run {first.run} is active", follows=True)


def test_a_run_in_quarantine_is_refused_with_the_reason_and_the_cure(world: World) -> None:
    world.failing["first"] = 2
    agent = started(world)
    feed(world)
    wave(world, agent)

    with pytest.raises(Refused, match=r"is in quarantine \(.*\); `headgate flow retry two-steps"):
        run(agent, "first")


def test_a_settled_wave_tells_which_steps_it_left_in_quarantine(world: World) -> None:
    world.failing["first"] = 2
    agent = started(world)
    feed(world)

    status = wave(world, agent)

    assert status.settled
    (trouble,) = status.troubles
    assert trouble.startswith("`first` is in quarantine (")
    assert "headgate flow retry two-steps first" in trouble


def test_a_wave_without_input_tells_that_nothing_was_started(world: World) -> None:
    status = wave(world, started(world))

    assert status.settled
    assert status.troubles == (
        "nothing has come from input `feed` yet, so nothing starts what comes after it",
    )


def test_a_wave_of_a_paused_dataflow_is_not_done(world: World) -> None:
    agent = started(world)
    feed(world)
    ask(agent, lambda runtime, now: runtime.commands.pause(now))

    assert wave(world, agent).troubles == (
        "two-steps is paused; `headgate flow resume two-steps` goes on",
    )


def test_a_wave_tells_which_step_nothing_starts(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps + '  lonely: {step: "steps:lonely"}\n', "test"))
    agent = started(world)
    feed(world)

    assert wave(world, agent).troubles == (
        "nothing starts `lonely`; `headgate flow run two-steps lonely` does",
    )
    run(agent, "lonely")
    assert wave(world, agent).troubles == ()


def test_a_wave_that_reaches_no_bound_is_done(world: World) -> None:
    agent = started(world)
    world.write("in", b"0", b"c:v", b"1")

    status = wave(world, agent)

    assert (status.settled, status.troubles) == (True, ())


def test_another_input_that_never_came_is_nothing_to_the_wave_of_one(two_steps: str) -> None:
    text = two_steps.replace("  first:\n", "  seldom: {input: output}\n  first:\n")
    world = World(parse_dataflow(text, "test"))
    agent = started(world)
    feed(world)

    number = ask(agent, lambda runtime, now: runtime.waves.mark(("feed",), now))
    world.run(lambda: agent.settled() >= number)

    assert ask(agent, lambda runtime, _: runtime.waves.status(number)).troubles == ()


def not_needed(agent: ScriptedAgent) -> dict[str, int]:
    status = ask(agent, lambda runtime, now: runtime.reporting.status(now))
    return {action.name: action.skipped for action in status.actions}


def test_runs_that_a_rest_before_them_saved_count_as_not_needed(world: World) -> None:
    agent = started(world)
    for _ in range(6):  # two updates a wave, against a bound of three: every other wave reaches it
        world.write("in", b"0", b"c:v", b"1")
        world.write("in", b"1", b"c:v", b"1")
        wave(world, agent)

    assert not_needed(agent) == {"feed": 0, "first": 3, "second": 3}
    agent.alive = False
    assert not_needed(started(world)) == {"feed": 0, "first": 3, "second": 3}


def test_an_action_after_two_others_saves_one_run_a_wave_at_most() -> None:
    """It is evaluated at the end of each of them; in most waves the second one has it run."""
    world = World(
        parse_dataflow(
            """\
name: two-before
containers: {in: "in c:v", left: "left c:v", right: "right c:v", output: "out c:v"}
actions:
  feed: {input: in}
  a: {step: "steps:a", reads: in, writes: left}
  b: {step: "steps:b", reads: in, writes: right}
  both: {step: "steps:both", reads: [left, right], writes: output}
""",
            "test",
        )
    )
    agent = started(world)
    for value in range(5):
        world.write("in", b"0", b"c:v", b"%d" % value)
        wave(world, agent)

    assert ask(agent, lambda r, now: r.reporting.status(now)).actions[3].runs == 5
    assert not_needed(agent)["both"] == 0


def random_graph(chance: random.Random) -> str:
    """Return a dataflow of steps that each read one to three of the containers before theirs."""
    count = chance.randint(2, 5)
    made = ["in"]
    steps = []
    for number in range(count):
        reads = chance.sample(made, min(len(made), chance.randint(1, 3)))
        bounds = ", ".join(f"{c}: {{sequence: {chance.randint(1, 3)}}}" for c in reads)
        steps.append(
            f'  s{number}: {{step: "steps:s", reads: [{", ".join(reads)}], '
            f"writes: c{number}, when: {{{bounds}}}}}"
        )
        made.append(f"c{number}")
    containers = ", ".join(f'{name}: "{name} c:v"' for name in made)
    lines = ["name: drawn", f"containers: {{{containers}}}", "actions:", "  feed: {input: in}"]
    return "\n".join([*lines, *steps])


@pytest.mark.parametrize("seed", range(20))
def test_a_wave_without_a_run_is_one_that_was_not_needed(seed: int) -> None:
    chance = random.Random(seed)
    world = World(parse_dataflow(random_graph(chance), "test"))
    agent = started(world)
    runs, rested = Counter[str](), Counter[str]()
    for _ in range(6):
        for row in range(chance.randint(1, 3)):
            world.write("in", b"%d" % row, b"c:v", b"%d" % chance.randrange(100))
        wave(world, agent)
        status = ask(agent, lambda runtime, now: runtime.reporting.status(now))
        now = {action.name: action.runs for action in status.actions if action.name != "feed"}
        rested.update(name for name in now if now[name] == runs[name])
        runs.update({name: now[name] - runs[name] for name in now})

    saved = not_needed(agent)
    assert {name: saved[name] for name in runs} == {name: rested[name] for name in runs}


def test_writes_after_which_nothing_had_to_run_count_as_not_needed(two_steps: str) -> None:
    at_writes = two_steps.replace("sequence: 3}", "sequence: 100}\n    evaluate: write")
    world = World(parse_dataflow(at_writes, "test"))
    agent = started(world)
    for value in range(40):
        world.write("in", b"0", b"c:v", b"%d" % value)
    world.run(lambda: True)

    assert not_needed(agent)["first"] == 40
