"""What machines use, and what they vote together for limits of intervals (section 4)."""

import msgspec
import pytest
from adjusted import BOUND, BUSY, QUIET, SPEC, explained, flow, limit, many, pass_minutes

from headgate.engine import Assessment, EngineTester, Reference, Resource, ResourceSample, Vote
from headgate.engine.tuning.resources import Machines


def test_the_weighted_majority_of_machines_decides():
    tester = EngineTester(flow(BOUND, adjustment=msgspec.structs.replace(SPEC, start=0.5)))
    for _ in range(30):
        tester.pass_time(10)
        tester.write("in", many(8))
        tester.sample("one", cpu=BUSY)
        tester.sample("two", cpu=QUIET)
    assert limit(tester) == 600
    for _ in range(30):
        tester.pass_time(10)
        tester.write("in", many(8))
        for machine in ("one", "two", "three", "four"):
            tester.sample(machine, cpu=QUIET if machine == "two" else BUSY)
    assert limit(tester) > 600


@pytest.mark.parametrize(
    ("busy", "quiet", "vote"),
    [
        (8, 2, Vote.RELAX),
        (0.08, 0.02, Vote.RELAX),
        (7, 3, Vote.NONE),
        (3, 7, Vote.NONE),
        (2, 8, Vote.RESTRICT),
    ],
)
def test_a_machine_counts_by_its_weight_among_all(busy, quiet, vote):
    machines = Machines()
    machines.take(
        (
            ResourceSample("one", 0.0, {Resource.CPU: BUSY}, busy),
            ResourceSample("two", 0.0, {Resource.CPU: QUIET}, quiet),
        )
    )
    assert machines.assess(0.0, SPEC).vote is vote


@pytest.mark.parametrize(
    ("resource", "idle", "overloaded"),
    [
        (Resource.CPU, 30, 85),
        (Resource.MEMORY, 70, 92),
        (Resource.DISK, 30, 85),
        (Resource.LOAD, 0.5, 1.5),
    ],
)
def test_each_resource_has_values_from_which_on_a_machine_is_not_idle_or_overloaded(
    resource, idle, overloaded
):
    for used, vote in (
        (idle - 0.01, Vote.RESTRICT),
        (idle, Vote.NONE),
        (overloaded - 0.01, Vote.NONE),
        (overloaded, Vote.RELAX),
    ):
        machines = Machines()
        machines.take([ResourceSample("one", 0.0, {resource: used})])
        assert machines.assess(0.0, SPEC).vote is vote


def test_where_samples_are_rarer_than_windows_the_last_one_alone_stands():
    machines, spec = Machines(), msgspec.structs.replace(SPEC, window=60.0, silence=100.0)
    machines.take(
        ResourceSample("one", time, {Resource.CPU: cpu})
        for time, cpu in ((0.0, BUSY), (90.0, QUIET))
    )
    assert machines.assess(160.0, spec).vote is Vote.RESTRICT


def test_one_resource_makes_a_machine_overloaded_and_all_make_it_idle():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 1.5, writes=8)
    tester.sample(cpu=5, memory=95)
    tester.pass_time(10)
    assert explained(tester).resources.vote is Vote.RELAX
    tester.pass_time(120)
    tester.sample(cpu=5, memory=80)
    tester.pass_time(10)
    assert explained(tester).resources.vote is Vote.NONE


def test_what_a_machine_has_used_is_said_with_its_unit():
    machines = Machines()
    used = dict.fromkeys(Resource, 60.0)
    machines.take([ResourceSample("one", 0.0, used)])
    looked_at = dict.fromkeys(Resource, Reference(50, 90))
    spec = msgspec.structs.replace(SPEC, resources=looked_at)
    assert machines.assess(0.0, spec).words == (
        "one: cpu 60 %, memory 60 %, disk 60 %, network 60 B/s, load 60 per core"
    )


def test_a_machine_of_which_nothing_is_looked_at_says_nothing():
    machines = Machines()
    machines.take([ResourceSample("one", 0.0, {Resource.MEMORY: 1.0})])
    spec = msgspec.structs.replace(SPEC, resources={Resource.CPU: Reference(50, 90)})
    assert machines.assess(0.0, spec) == Assessment(Vote.NONE, "no samples of resources")


def test_a_machine_that_falls_silent_says_nothing_any_more():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 1, writes=8, cpu=BUSY)
    assert explained(tester).resources.vote is Vote.RELAX
    tester.pass_time(40)
    assert explained(tester).resources == Assessment(Vote.NONE, "no samples of resources")


def test_a_late_sample_of_the_past_is_left_out():
    tester = EngineTester(flow(BOUND))
    tester.sample(cpu=QUIET)
    now, tester.now = tester.now, tester.now - 5
    tester.sample(cpu=BUSY)
    tester.now = now
    tester.pass_time(10)
    assert explained(tester).resources.vote is Vote.RESTRICT
