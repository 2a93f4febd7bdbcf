"""An update says what is another now, and what becomes of its state."""

import pytest

from headgate.flows import changes, parse_dataflow, rebuilds_between

BASE = """\
name: air
containers:
  readings: detectors s:o3
  zones: zones c:v
actions:
  feed: {input: readings}
  zones:
    step: steps:zones
    when: {readings: {time: 60 s, sequence: 20%, value: {relative: 5%}}}
    writes: zones
  last: {step: "steps:last", reads: zones, timeout: 5 s}
profiles:
  cheap: {zones: {readings: {sequence: "60%"}}}
"""

CHANGED = "bound `readings` of `zones`: changed, time 60 s, sequence 20%, value relative 5% → "


def told(old, new, profile=None):
    before = parse_dataflow(BASE, "flow.yaml")
    assert old in BASE
    after = parse_dataflow(BASE.replace(old, new), "flow.yaml", profile)
    return [str(change) for change in changes(before, after)]


def test_nothing_is_another():
    assert told("", "") == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "sequence: 20%",
            "sequence: [10, 30]",
            f"{CHANGED}time 60 s, sequence [10, 30], value relative 5%; it keeps what was counted",
        ),
        (
            "value: {relative: 5%}",
            "value: {against: 100, limit: 5%}",
            f"{CHANGED}time 60 s, sequence 20%, value against 5% of 100; it keeps what was counted",
        ),
        (
            "readings: detectors s:o3",
            'readings: {table: detectors, column: "s:o3", on_undecodable: fail}',
            (
                "container `readings`: changed, `on_undecodable`, from the next attempt of a step "
                "that reads it"
            ),
        ),
        (
            "readings: detectors s:o3",
            'readings: {table: detectors, column: "s:o3", keys: binary}',
            (
                "container `readings`: changed, `keys`, from the next attempt of a step that reads "
                "it; a stage that reads it is made anew by `headgate stage rebuild air STAGE "
                "--with-sources`"
            ),
        ),
        (
            "writes: zones",
            "writes: zones\n    combine: at-least-one\n    retries: 5",
            "action `zones`: changed, `combine`, `retries`; it keeps what was counted",
        ),
        (
            "steps:zones",
            "other:zones",
            "action `zones`: changed, its next attempt runs what is said now",
        ),
        (
            "timeout: 5 s",
            "timeout: 6 s",
            "action `last`: changed, `timeout`; it keeps what was counted",
        ),
        ("name: air", "name: air\nwaves: every 5 s", "waves: changed, from now"),
        ("name: air", "name: air\nconcurrency: 2", "concurrency: changed, 4 → 2"),
        ("name: air", "name: air\npriority: 3", "priority: changed, 0 → 3"),
        (
            "steps:zones",
            "steps:zones\n    launcher: connect",
            "action `zones`: changed, its next attempt runs what is said now",
        ),
        (
            "name: air",
            "name: air\nspark: {a: b}",
            "spark: changed, a new session before the next attempt",
        ),
        (
            "name: air",
            "name: air\nmode: observer",
            "mode: changed, normal → observer; what was counted is kept",
        ),
        (
            "name: air",
            "name: air\nadjustment: {steps: 5}",
            "adjustment: changed, limits stay where they are",
        ),
        (
            "name: air",
            "name: air\nspark_pool: city",
            "spark_pool: changed, none → city, before the next attempt",
        ),
        (
            "name: air",
            "name: air\nstate: hdfs://names/stages",
            (
                "state: changed, the agent's directory → hdfs://names/stages; stages find their "
                "files there if somebody moves them"
            ),
        ),
        (
            "  zones: zones c:v",
            "  zones: zones c:v\n  more: more",
            "container `more`: added, scanned first where a bound needs it",
        ),
        (
            "  last: {",
            "  more: {step: 'm:f', after: zones}\n  last: {",
            "action `more`: added, it counts from now",
        ),
    ],
)
def test_a_difference_is_told(old, new, words):
    assert told(old, new) == [words]


def test_all_that_is_another_of_a_container_is_told():
    words = told(
        "readings: detectors s:o3",
        'readings: {table: detectors, column: "s:o3", on_undecodable: skip, keys: binary}',
    )

    assert [one.partition(", ")[2].partition(",")[0] for one in words] == [
        "`on_undecodable`",
        "`keys`",
    ]


def test_what_is_gone_is_told():
    removed = '  last: {step: "steps:last", reads: zones, timeout: 5 s}\n'

    assert told(removed, "") == ["action `last`: removed, a run under way is given up"]


def test_bounds_that_come_go_or_watch_another_container_are_told():
    bounds = "{readings: {container: zones, time: 5}, more: {container: readings, value: 2}}"

    assert told("{readings: {time: 60 s, sequence: 20%, value: {relative: 5%}}}", bounds)[:2] == [
        "bound `readings` of `zones`: changed, it watches `zones` from now",
        "bound `more` of `zones`: added, value 2",
    ]


def test_another_profile_is_told_with_what_it_changes():
    profile, bound = sorted(told("", "", "cheap"), reverse=True)

    assert profile == "profile: changed, none → cheap"
    assert "sequence 20%, value relative 5% → time 60 s, sequence 60%" in bound


def test_parts_are_told_before_settings():
    words = told("name: air", "name: air\nwaves: every 5 s\nfiles: {in: /in}")

    assert words == [
        "files `in`: added, read, or written, from the next run of a stage",
        "waves: changed, from now",
    ]


MODES = """\
name: air
mode: ...
containers: {readings: detectors s:o3}
actions:
  feed: {input: readings}
  zones: {step: "steps:zones", reads: readings}
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("observer", "observer\nscans: {every: 1 s}", "scans: changed, from the next one"),
        (
            "isolation",
            "isolation\nfeeders: sensors",
            "mode: changed, isolation → isolation; what was counted is kept",
        ),
    ],
)
def test_a_difference_within_a_mode_is_told(old, new, words):
    before, after = (parse_dataflow(MODES.replace("...", mode), "f") for mode in (old, new))

    assert [str(one) for one in changes(before, after)] == [words]


SOUGHT = """\
name: air
containers: {readings: detectors s:o3, zones: zones c:v}
actions:
  feed: {input: readings}
  zones: {step: "steps:zones", reads: readings, writes: zones}
significance: {output: zones, change: 5%}
"""


def test_another_change_of_the_output_that_matters_is_told():
    before, after = (parse_dataflow(SOUGHT.replace("5%", one), "f") for one in ("5%", "8%"))

    assert [str(one) for one in changes(before, after)] == [
        "significance: changed, searches go on from where they are"
    ]


def test_searches_that_begin_or_end_are_told_with_the_bounds_that_they_move():
    without, sought = (
        parse_dataflow(SOUGHT.partition("significance")[0], "f"),
        parse_dataflow(SOUGHT, "f"),
    )

    begun, ended = (
        [str(one) for one in changes(*two)] for two in ((without, sought), (sought, without))
    )

    assert begun[0].startswith("bound `readings` of `zones`: added")
    assert begun[-1] == "significance: changed, searches for limits begin"
    assert ended[0].startswith("bound `readings` of `zones`: removed")
    assert ended[-1] == "significance: changed, limits that were found are given up"


STAGED = """\
name: air
containers: {readings: detectors s:o3, zones: zones c:v}
actions:
  first: {stage: "stages:first", reads: readings, out: made}
  second: {stage: "stages:second", in: {made: first.made}, writes: zones}
  step: {step: "steps:step", reads: readings}
"""


def told_of(old, new):
    assert old in STAGED
    before = parse_dataflow(STAGED, "flow.yaml")
    return [str(one) for one in changes(before, parse_dataflow(STAGED.replace(old, new), "f"))]


def test_a_container_that_is_another_is_shown_anew_to_the_step_that_reads_it():
    assert told("zones: zones c:v", "zones: zones c:w") == [
        "container `zones`: changed, its updates count on; its cells are read anew",
        (
            "action `last`: changed, what it reads of `zones` is another; its next run is shown "
            "everything there"
        ),
    ]


def test_an_edit_says_which_stages_are_rebuilt_and_what_a_step_is_shown():
    assert told_of("s:o3", "s:no") == [
        "container `readings`: changed, its updates count on; its cells are read anew",
        (
            "state of `first`: changed, rebuilt from all that its inputs hold, since container "
            "`readings` is another"
        ),
        (
            "state of `second`: changed, rebuilt from all that its inputs hold, since it is "
            "rebuilt with `first`"
        ),
        (
            "action `step`: changed, what it reads of `detectors` is another; its next run is "
            "shown everything there"
        ),
    ]


def test_a_step_that_becomes_a_stage_is_told_without_keys_that_nobody_wrote():
    found = told_of('{step: "steps:step", reads', '{stage: "steps:step", reads')

    assert any(one.startswith("action `step`: changed, `stage`") for one in found)
    assert not any("on_change" in one for one in found)


def test_an_action_with_another_name_is_told_to_begin_anew():
    found = told_of("  second:", "  other:")
    assert (
        "action `other`: added, it begins anew: what `second` knew, which runs the same, is not "
        "taken over"
    ) in found
    assert any(one.startswith("state of `first`: changed, rebuilt") for one in found)


def test_an_edit_after_which_stages_would_wait_for_each_other_is_refused():
    looped = STAGED.replace("reads: readings, out: made", "in: {back: second.more}, out: made")
    looped = looped.replace("writes: zones}", "out: more}")
    before = parse_dataflow(STAGED, "flow.yaml")
    refused = rebuilds_between(before, parse_dataflow(looped, "flow.yaml")).refused
    assert "remove the dataflow and submit it again" in refused
