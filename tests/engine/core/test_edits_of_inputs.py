"""After an edit no action goes on with a state that is of other inputs than its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from headgate.engine import (
    ActionFlows,
    ActionSpec,
    Bound,
    Codec,
    CodecName,
    DataflowSpec,
    DecisionKind,
    Engine,
    EngineTester,
    FirstChanges,
    FlowId,
    Launch,
    Metric,
    Produced,
    RunFailed,
    RunPurpose,
    SequenceBound,
    SpecificationChanged,
    Tick,
    ValueBound,
    WatchedContainer,
    check_invariants,
)
from headgate.events import GONE, Container, ContainerId, Item, updates_topic

IN = ContainerId("in")
SIDE = ContainerId("side")
ONE = Item("in", b"f", b"q")
TWO = Item("in", b"f", b"p")


def container(*items: Item, name: ContainerId = IN, codec: Codec | None = None) -> WatchedContainer:
    return WatchedContainer(Container(name, items), codec or Codec())


def source(name: str, outputs: tuple[str, ...] = ("u",)) -> ActionSpec:
    bound = Bound("k", IN, sequence=SequenceBound(1))
    return ActionSpec(name, reads=(IN,), bounds=(bound,), stage=ActionFlows(outputs=outputs))


def reader(name: str, **inputs: str) -> ActionSpec:
    flows = {flow: FlowId(*made.split(".")) for flow, made in inputs.items()}
    return ActionSpec(name, stage=ActionFlows(flows, ("u",)))


def step(limit: float = 1, *reads: ContainerId) -> ActionSpec:
    return ActionSpec("step", reads=reads or (IN,), bounds=(counted(limit),))


def counted(limit: float, name: ContainerId = IN) -> Bound:
    return Bound("k", name, sequence=SequenceBound(limit))


def dataflow(*actions: ActionSpec, containers: tuple[WatchedContainer, ...] = ()) -> DataflowSpec:
    return DataflowSpec("flow", containers or (container(ONE),), actions)


Edit = Callable[[EngineTester, DataflowSpec], None]


def edit_running(tester: EngineTester, spec: DataflowSpec) -> None:
    tester.handle(SpecificationChanged(tester.now, spec))


def edit_while_nobody_runs(tester: EngineTester, spec: DataflowSpec) -> None:
    tester.engine = Engine(spec, tester.engine.snapshot())
    tester.handle(Tick(tester.now))


@pytest.fixture(params=[edit_running, edit_while_nobody_runs])
def edit(request: pytest.FixtureRequest) -> Edit:
    return request.param


def write(tester: EngineTester, column: bytes = b"f:q") -> None:
    tester.write("in", {b"r": {column: b"1"}})


def finish(tester: EngineTester, name: str) -> None:
    run = tester.engine.actions[name].run
    assert run is not None
    flows = tester.engine.actions[name].spec.stage
    assert flows is not None
    made = [Produced(flow, f"{run.run}.{flow}", None, 1) for flow in flows.outputs]
    tester.finish(name, *made, result=f"state of {run.run}")


def settle(tester: EngineTester) -> None:
    while running := [name for name, one in tester.engine.actions.items() if one.run is not None]:
        finish(tester, running[0])
    check_invariants(tester.engine)


def purposes(tester: EngineTester) -> dict[str, RunPurpose]:
    return {launch.action: launch.work.purpose for launch in tester.launches()}


def settled(*actions: ActionSpec) -> EngineTester:
    tester = EngineTester(dataflow(*actions))
    for _ in range(2):
        write(tester)
        settle(tester)
    return tester


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([source("a")], [source("a"), reader("b", x="a.u")]),
        ([source("a"), reader("b", x="a.u")], [source("a"), reader("c", x="a.u")]),
        ([source("a", ())], [source("a"), reader("b", x="a.u")]),
    ],
    ids=["added", "renamed", "with a flow that is new, too"],
)
def test_a_stage_that_comes_later_has_its_maker_rebuilt_for_it(edit, before, after):
    tester = settled(*before)
    edit(tester, dataflow(*after))
    settle(tester)
    assert set(purposes(tester).values()) == {RunPurpose.REBUILD} or before[1:]
    last = after[-1].name
    assert purposes(tester)["a"] is RunPurpose.REBUILD
    assert tester.launches(last)[-1].work.purpose is RunPurpose.REBUILD
    assert len(tester.launches(last)) == 1


def test_a_stage_that_was_removed_and_comes_back_has_its_maker_rebuilt(edit):
    both = (source("a"), reader("b", x="a.u"))
    tester = settled(*both)
    edit(tester, dataflow(*both[:1]))
    write(tester)
    settle(tester)
    edit(tester, dataflow(*both))
    settle(tester)
    assert purposes(tester) == {"a": RunPurpose.REBUILD, "b": RunPurpose.REBUILD}


def test_a_stage_that_comes_before_its_maker_has_run_costs_nothing(edit):
    tester = EngineTester(dataflow(source("a")))
    edit(tester, dataflow(source("a"), reader("b", x="a.u")))
    write(tester)
    settle(tester)
    assert purposes(tester) == {"a": RunPurpose.ADVANCE, "b": RunPurpose.ADVANCE}


def test_a_run_of_the_maker_that_is_under_way_counts_as_made_before(edit):
    tester = EngineTester(dataflow(source("a", ())))
    write(tester)
    edit(tester, dataflow(source("a"), reader("b", x="a.u")))
    settle(tester)
    assert tester.launches("b")[-1].work.purpose is RunPurpose.REBUILD


def test_a_stage_that_reads_another_maker_begins_anew(edit):
    tester = settled(source("a"), source("b"), reader("c", x="a.u"), reader("d", x="c.u"))
    edit(
        tester,
        dataflow(source("a"), source("b"), reader("c", x="b.u"), reader("d", x="c.u")),
    )
    settle(tester)
    found = purposes(tester)
    assert (found["a"], found["b"], found["c"], found["d"]) == (
        RunPurpose.ADVANCE,
        RunPurpose.REBUILD,
        RunPurpose.REBUILD,
        RunPurpose.REBUILD,
    )


def test_a_stage_that_reads_less_begins_anew(edit):
    tester = settled(source("a"), source("b"), reader("c", x="a.u", y="b.u"))
    edit(tester, dataflow(source("a"), source("b"), reader("c", x="a.u")))
    settle(tester)
    assert purposes(tester)["c"] is RunPurpose.REBUILD


def test_stages_that_feed_each_other_wait_instead_of_being_wrong(edit):
    def looped(*inputs: str) -> ActionSpec:
        return replace(
            source("a"), stage=ActionFlows({i: FlowId("b", "u") for i in inputs}, ("u",))
        )

    tester = settled(looped(), reader("b", x="a.u"))
    edit(tester, dataflow(looped("back"), reader("b", x="a.u")))
    refused = [one for one in tester.decisions() if one.kind is DecisionKind.REFUSED]
    assert "remove the dataflow and submit it again" in refused[-1].words
    assert "made anew" in (tester.engine.obstacle("a") or "")


@pytest.mark.parametrize(
    "other",
    [
        container(ONE, TWO),
        container(TWO),
        container(replace(ONE, start=b"a", stop=b"b")),
        container(ONE, codec=Codec(CodecName.INT64)),
    ],
    ids=["a column more", "another column", "fewer rows", "another codec"],
)
def test_what_reads_a_container_that_is_another_begins_anew(edit, other):
    actions = (source("a"), reader("b", x="a.u"), step(1e9))
    tester = settled(*actions)
    topic = updates_topic("in")
    tester.request("step")
    tester.finish("step")
    assert tester.engine.actions["step"].seen.position(topic, 0) == 2
    edit(tester, dataflow(*actions, containers=(other,)))
    settle(tester)
    assert purposes(tester)["a"] is RunPurpose.REBUILD
    assert purposes(tester)["b"] is RunPurpose.REBUILD
    assert tester.engine.actions["step"].seen.position(topic, 0) == GONE


def test_of_another_container_of_a_table_that_is_read_already_everything_is_new(edit):
    beside = container(TWO, name=SIDE)
    containers = (container(ONE), beside)
    tester = EngineTester(dataflow(step(1e9), containers=containers))
    write(tester)
    tester.request("step")
    tester.finish("step")
    edit(tester, dataflow(step(1e9, IN, SIDE), containers=containers))
    assert tester.engine.actions["step"].seen.position(updates_topic("in"), 0) == GONE


def test_a_run_that_an_edit_launches_is_shown_everything_of_another_container():
    containers = (container(ONE), container(TWO, name=SIDE))
    tester = EngineTester(dataflow(step(1), containers=containers), answering=False)
    write(tester)
    tester.finish("step")
    by_value = Bound("k", IN, value=ValueBound(Metric.CHANGED, 0.01))
    edit_running(tester, dataflow(replace(step(), bounds=(by_value,)), containers=containers))
    write(tester)
    assert len(tester.launches("step")) == 1  # it waits for a scan of the container
    edit_running(tester, dataflow(step(1, IN, SIDE), containers=containers))
    assert tester.launches("step")[1].since.position(updates_topic("in"), 0) == GONE


def shown_from_the_submit(*reads: ContainerId) -> ActionSpec:
    return replace(step(1e9, *reads), first_changes=FirstChanges.NONE)


def launched_after(tester: EngineTester) -> Launch:
    tester.request("step")
    tester.finish("step")
    return tester.launches("step")[-1]


@pytest.mark.parametrize(
    "containers",
    [
        (container(ONE, TWO), container(TWO, name=SIDE)),
        (container(ONE), container(TWO, name=SIDE)),
    ],
    ids=["a column more", "a container more"],
)
def test_a_step_that_is_not_shown_what_stands_misses_no_update_by_an_edit(edit, containers):
    tester = EngineTester(
        dataflow(shown_from_the_submit(), containers=(container(ONE), *containers[1:]))
    )
    topic = updates_topic("in")
    write(tester)
    assert launched_after(tester).cut.position(topic, 0) == 1
    for _ in range(3):
        write(tester)  # of a column that it reads before the edit and after it
    edit(tester, dataflow(shown_from_the_submit(IN, SIDE), containers=containers))
    assert launched_after(tester).since.position(topic, 0) == 1
    assert tester.launches("step")[-1].cut.position(topic, 0) == 4


def test_an_edit_during_a_run_has_the_next_one_go_on_where_that_run_ends(edit):
    containers = (container(ONE), container(TWO, name=SIDE))
    tester = EngineTester(dataflow(shown_from_the_submit(), containers=containers))
    topic = updates_topic("in")
    write(tester)
    tester.request("step")
    write(tester)
    edit(tester, dataflow(shown_from_the_submit(IN, SIDE), containers=containers))
    tester.finish("step")
    assert launched_after(tester).since.position(topic, 0) == 1


def test_a_step_that_is_not_shown_what_stands_begins_at_the_edit_in_another_table(edit):
    beside = container(Item("beside", b"f", b"q"), name=SIDE)
    of_both = replace(step(1e9, SIDE), name="other")
    containers = (container(ONE), beside)
    tester = EngineTester(dataflow(shown_from_the_submit(), of_both, containers=containers))
    topics = updates_topic("in"), updates_topic("beside")
    for table in ("in", "beside"):
        tester.write(table, {b"r": {b"f:q": b"1"}})
    launched_after(tester)
    for table in ("in", "beside"):
        tester.write(table, {b"r": {b"f:q": b"2"}})
    edit(tester, dataflow(shown_from_the_submit(IN, SIDE), of_both, containers=containers))
    since = launched_after(tester).since
    assert [since.position(topic, 0) for topic in topics] == [1, 2]


def test_a_container_with_another_name_is_the_same_to_a_step(edit):
    tester = EngineTester(dataflow(step(1e9)))
    write(tester)
    tester.request("step")
    tester.finish("step")
    renamed = replace(step(1e9, SIDE), bounds=(counted(1e9, SIDE),))
    edit(tester, dataflow(renamed, containers=(container(ONE, name=SIDE),)))
    assert tester.engine.actions["step"].seen.position(updates_topic("in"), 0) == 1


@pytest.mark.parametrize("name", [IN, SIDE])
def test_a_limit_that_was_reached_stays_reached_when_its_container_is_another(edit, name):
    tester = EngineTester(dataflow(step(3)))
    tester.request("step")
    for _ in range(3):
        write(tester)  # while the first run is under way
    other = replace(step(3, name), bounds=(counted(3, name),))
    edit(tester, dataflow(other, containers=(container(ONE, TWO, name=name),)))
    tester.finish("step")
    assert len(tester.launches("step")) == 2


def test_what_a_failed_run_had_taken_of_a_container_still_counts_after_an_edit(edit):
    tester = EngineTester(dataflow(replace(step(3), retry=replace(step().retry, attempts=1))))
    for _ in range(3):
        write(tester)
    assert len(tester.launches("step")) == 1
    edit(tester, dataflow(tester.spec.actions[0], containers=(container(ONE, TWO),)))
    tester.fail("step")
    ((_, pending),) = tester.engine.actions["step"].all_parts()
    assert pending.updates == 3
    check_invariants(tester.engine)


def test_an_edit_of_limits_rebuilds_nothing(edit):
    actions = (source("a"), reader("b", x="a.u"))
    tester = settled(*actions)
    edit(tester, dataflow(replace(actions[0], bounds=(counted(5),)), actions[1]))
    assert set(purposes(tester).values()) == {RunPurpose.ADVANCE}


def test_a_failure_that_another_attempt_would_meet_too_ends_the_run_at_once():
    tester = EngineTester(dataflow(step(1)))
    write(tester)
    run = tester.engine.actions["step"].run
    assert run is not None
    tester.handle(RunFailed(tester.now, "step", run.run, 1, "the stage is another", final=True))
    assert tester.engine.actions["step"].run is None
    assert (
        tester.decisions()[-1].words == "given up after a failure, the last: the stage is another"
    )
