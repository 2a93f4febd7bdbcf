"""What a dataflow file means: from text to what the engine decides on."""

import pytest

from headgate.engine import (
    LAYOUTS,
    ActionRole,
    AllOf,
    AnyOf,
    AtLeast,
    Bound,
    BoundReached,
    Codec,
    CodecName,
    Count,
    Evaluation,
    Interval,
    Metric,
    OnUndecodable,
    RetryPolicy,
    SequenceBound,
    SequenceUnit,
    Trigger,
    UserMetric,
    ValueBound,
    check_specification,
)
from headgate.events import ContainerId, Item, KeyForm
from headgate.flows import DataflowErrors, SessionLauncher, WaveEnd, WaveSpec, parse_dataflow

TEN_LINES = """\
name: air
containers:
  readings: detectors s:o3
  zones: zones c:concentration
actions:
  feed: {input: readings}
  zones:
    step: steps:zones
    when: {readings: {sequence: 20%, value: 5%}}
    writes: zones
"""


def action_of(body, *, containers="  c: t f:q\n", before=""):
    text = f"name: n\ncontainers:\n{containers}actions:\n{before}  a:\n    step: m:f\n{body}"
    return parse_dataflow(text, "flow.yaml").spec.actions[-1]


def bound_of(limits):
    return action_of(f"    when: {{c: {{{limits}}}}}\n").bounds[0]


def items_of(container):
    text = f"name: n\ncontainers: {{c: {container}}}\nactions: {{a: {{step: 'm:f', reads: c}}}}"
    return parse_dataflow(text, "flow.yaml").spec.containers[0].container.items


def test_the_common_case_fits_on_ten_lines():
    dataflow = parse_dataflow(TEN_LINES, "air.yaml")
    feed, zones = dataflow.spec.actions

    assert len(TEN_LINES.splitlines()) == 10
    assert dataflow.warnings == ()
    assert (feed.role, feed.writes) == (ActionRole.INPUT, ("readings",))
    assert (zones.after, zones.reads, zones.writes) == (("feed",), ("readings",), ("zones",))
    assert zones.bounds == (
        Bound(
            "readings",
            ContainerId("readings"),
            None,
            SequenceBound(20, SequenceUnit.PERCENT),
            ValueBound(Metric.CHANGED, 0.05),
        ),
    )
    assert dataflow.launchers == {"zones": SessionLauncher("steps:zones")}
    assert dataflow.waves == WaveSpec(WaveEnd.MARK)


def test_what_is_read_passes_the_engines_own_check():
    check_specification(parse_dataflow(TEN_LINES, "air.yaml").spec)


def test_launcher_names_module_and_function():
    launcher = SessionLauncher("air.steps:zones")

    assert (launcher.module, launcher.function) == ("air.steps", "zones")


# --- containers


def test_a_container_is_a_table():
    assert items_of("t") == (Item("t"),)


def test_a_table_may_have_a_namespace():
    assert items_of("air:detectors s:o3") == (Item("air:detectors", b"s", b"o3"),)


def test_a_column_without_qualifier_is_the_whole_family():
    assert items_of("'t f:'") == (Item("t", b"f"),)


def test_several_columns_in_one_line_are_one_container():
    assert items_of("t f:a f:b") == (Item("t", b"f", b"a"), Item("t", b"f", b"b"))


def test_a_family_and_a_list_of_columns_can_be_keys():
    assert items_of("{table: t, family: f}") == (Item("t", b"f"),)
    assert items_of("{table: t, column: ['f:a', 'f:b']}") == items_of("t f:a f:b")


def test_a_row_a_prefix_and_a_range_limit_rows():
    assert items_of("{table: t, row: r}") == (Item("t", start=b"r", stop=b"r\0"),)
    assert items_of("{table: t, prefix: r}") == (Item("t", start=b"r", stop=b"s"),)
    assert items_of("{table: t, rows: [a, b]}") == (Item("t", start=b"a", stop=b"b"),)


def test_a_column_can_be_limited_to_rows():
    assert items_of("{table: t, column: 'f:q', prefix: r}") == (Item("t", b"f", b"q", b"r", b"s"),)


def test_row_keys_may_hold_any_bytes():
    assert items_of(r"{table: t, row: 'é\x00\xff\\'}")[0].start == b"\xc3\xa9\x00\xff\\"


def test_a_group_joins_parts_of_tables():
    assert items_of("{group: [t f:a, {table: u, row: r}]}") == (
        Item("t", b"f", b"a"),
        Item("u", start=b"r", stop=b"r\0"),
    )


@pytest.mark.parametrize(
    ("word", "policy"),
    [
        ("fail", OnUndecodable.FAIL),
        ("skip", OnUndecodable.SKIP),
        ("null", OnUndecodable.NULL),
        ('"null"', OnUndecodable.NULL),
        ("~", OnUndecodable.NULL),
    ],
)
def test_a_container_says_what_becomes_of_values_that_do_not_decode(word, policy):
    places = f"{{table: t, column: f:a, on_undecodable: {word}}}"
    text = f"""
name: d
containers: {{readings: {places}, other: t f:b}}
actions: {{feed: {{input: [readings, other]}}}}
"""
    assert parse_dataflow(text, "flow.yaml").on_undecodable == {"readings": policy}


@pytest.mark.parametrize("form", KeyForm)
def test_a_container_says_what_its_keys_are_for_a_step(form):
    text = f"""
name: d
containers: {{readings: {{table: t, column: f:a, keys: {form}}}, other: t f:b}}
actions: {{feed: {{input: [readings, other]}}}}
"""
    assert parse_dataflow(text, "flow.yaml").keys == {"readings": form}


def test_codec_and_count_belong_to_the_container():
    def codec(written):
        container = f"{{table: t, codec: {written}, count: cells}}"
        text = f"name: n\ncontainers: {{c: {container}}}\nactions: {{a: {{step: 'm:f', reads: c}}}}"
        watched = parse_dataflow(text, "flow.yaml").spec.containers[0]
        assert watched.count is Count.CELLS
        return watched.codec

    assert codec("number") == Codec(CodecName.UTF8)
    assert codec("float64") == Codec(CodecName.FLOAT64)
    assert codec("int64") == Codec(CodecName.INT64)
    assert codec("opaque") == Codec(CodecName.OPAQUE)
    assert codec("'json $.a.b[0]'") == Codec(CodecName.JSON, "a.b.0")
    assert codec("'json $.a[-1]'") == Codec(CodecName.JSON, "a.-1")
    assert codec("""'json $["pm2.5"].value'""") == Codec(CodecName.JSON, '["pm2.5"].value')
    assert codec("\"json $['temp (C)']\"") == Codec(CodecName.JSON, '["temp (C)"]')
    for name in LAYOUTS:
        assert codec(name.value) == Codec(name)


# --- bounds


def test_time_is_a_duration_or_seconds():
    assert bound_of("time: 90").time == 90
    assert bound_of("time: 1.5").time == 1.5
    assert bound_of("time: 30 s").time == 30
    assert bound_of("time: 500ms").time == 0.5
    assert bound_of("time: 1 h 30 min").time == 5400
    assert bound_of("time: 2 d").time == 172800
    assert bound_of("time: PT1H5M").time == 3900
    assert bound_of("time: P1DT1S").time == 86401


def test_sequence_is_a_number_or_a_percentage():
    assert bound_of("sequence: 100").sequence == SequenceBound(100)
    assert bound_of("sequence: 0.5 %").sequence == SequenceBound(0.5, SequenceUnit.PERCENT)


def test_sequence_can_count_each_element_once():
    assert bound_of("sequence: {limit: 20%, count: distinct}").sequence == SequenceBound(
        20, SequenceUnit.PERCENT, distinct=True
    )


def test_a_value_in_percent_means_changed_elements():
    assert bound_of("value: 5%").value == ValueBound(Metric.CHANGED, 0.05)


def test_a_value_without_percent_means_units():
    assert bound_of("value: 0.3").value == ValueBound(Metric.ABSOLUTE, 0.3)


def test_a_value_can_name_its_metric():
    assert bound_of("value: {relative: 150%}").value == ValueBound(Metric.RELATIVE, 1.5)
    assert bound_of("value: {absolute: 2}").value == ValueBound(Metric.ABSOLUTE, 2)
    assert bound_of("value: {changed: 10%}").value == ValueBound(Metric.CHANGED, 0.1)
    assert bound_of("value: {against: 100, limit: 5%}").value == ValueBound(
        Metric.AGAINST, 0.05, 100
    )


def test_a_value_can_have_a_metric_in_python():
    own = UserMetric("own.metrics:Spread")
    assert bound_of('value: {python: {class: "own.metrics:Spread", limit: 3}}').value == ValueBound(
        own, 3
    )
    assert bound_of(
        'value: {python: {class: "own.metrics:Spread", limit: [1, 2.5]}}'
    ).value == ValueBound(own, Interval(1, 2.5))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('{python: {class: "metrics.py", limit: 3}}', "`module:Class`"),
        ('{python: {class: "m:Spread"}}', "`limit`"),
        ('{python: {class: "m:Spread", limit: 5%}}', "a number above zero"),
        ('{python: {class: "m:Spread", limit: 0}}', "a number above zero"),
        ('{python: {class: "m:Spread", limit: 3}, absolute: 3}', "`absolute`"),
    ],
)
def test_a_metric_in_python_that_says_nothing_is_refused(written, message):
    with pytest.raises(DataflowErrors) as raised:
        bound_of(f"value: {written}")
    assert message in str(raised.value)


def test_every_limit_can_be_an_interval():
    bound = bound_of("time: [30 s, 5 min], sequence: [10%, 40%], value: {absolute: [1, 2]}")

    assert bound.time == Interval(30, 300)
    assert bound.sequence == SequenceBound(Interval(10, 40), SequenceUnit.PERCENT)
    assert bound.value == ValueBound(Metric.ABSOLUTE, Interval(1, 2))


def test_a_bound_can_have_a_name_of_its_own():
    action = action_of(
        "    when: {often: {container: c, time: 5}, rare: {container: c, time: 9}}\n"
    )

    assert [(bound.name, bound.container) for bound in action.bounds] == [
        ("often", "c"),
        ("rare", "c"),
    ]


# --- conditions


def condition_of(combine):
    bounds = "".join(f"{name}: {{container: c, time: 5}}, " for name in ("x", "y", "z"))
    return action_of(f"    when: {{{bounds}}}\n    combine: {combine}\n").effective_condition


def test_all_bounds_must_be_reached_by_default():
    x, y, z = (BoundReached(name) for name in "xyz")

    assert condition_of("all") == AllOf((x, y, z))
    assert action_of("    when: {c: {time: 5}}\n").effective_condition == AllOf(
        (BoundReached("c"),)
    )


def test_one_or_the_majority_may_be_enough():
    x, y, z = (BoundReached(name) for name in "xyz")

    assert condition_of("at-least-one") == AnyOf((x, y, z))
    assert condition_of("majority") == AtLeast(2, (x, y, z))


def test_and_binds_tighter_than_or():
    x, y, z = (BoundReached(name) for name in "xyz")

    assert condition_of("x or y and z") == AnyOf((x, AllOf((y, z))))
    assert condition_of("(x or y) and z") == AllOf((AnyOf((x, y)), z))


# --- actions


def test_an_action_comes_after_those_that_write_what_it_reads():
    action = action_of("    reads: c\n", before="  feed: {input: c}\n")

    assert action.after == ("feed",)


def test_after_replaces_the_implied_predecessors():
    before = "  feed: {input: c}\n  other: {step: 'm:f', after: feed}\n"

    assert action_of("    reads: c\n    after: other\n", before=before).after == ("other",)
    assert action_of("    when: {c: {time: 5}}\n    after: []\n", before=before).after == ()


def test_an_action_that_updates_its_own_input_does_not_precede_itself():
    assert action_of("    reads: c\n    writes: c\n", before="  feed: {input: c}\n").after == (
        "feed",
    )


def test_what_bounds_watch_is_read():
    containers = "  c: t f:q\n  d: u f:q\n"
    action = action_of("    reads: d\n    when: {c: {time: 5}}\n", containers=containers)

    assert action.reads == ("d", "c")


def test_evaluation_times_can_be_combined():
    before = "  feed: {input: c}\n"

    def evaluation(written):
        body = f"    when: {{c: {{time: 5}}}}\n    evaluate: {written}\n"
        return action_of(body, before=before).evaluation

    assert evaluation("write") == Evaluation(write=True)
    assert evaluation("every 5 min") == Evaluation(every=300)
    assert evaluation("[action-end, write, every 10 s]") == Evaluation(
        write=True, action_end=True, every=10
    )


def test_evaluation_is_left_to_the_engine_where_none_is_given():
    assert action_of("    when: {c: {time: 5}}\n").evaluation is None


def test_retries_own_timeout_and_parameters():
    action = action_of(
        "    when: {c: {time: 5}}\n"
        "    own: true\n"
        "    retries: {attempts: 5, backoff: [2 s, 1 min]}\n"
        "    timeout: 10 min\n"
    )

    assert action.own
    assert action.retry == RetryPolicy(5, 2, 60)
    assert action.timeout == 600
    assert action_of("    reads: c\n    after: []\n    retries: 1\n").retry == RetryPolicy(1)


def test_parameters_are_handed_on_as_they_are():
    text = (
        "name: n\npython_path: [src, lib]\nactions:\n  a:\n    step: m:f\n"
        "    parameters: {reference: 60, deep: {list: [1, two, null, true]}, on: 12:30}\n"
    )

    assert parse_dataflow(text, "flow.yaml").launchers["a"] == SessionLauncher(
        "m:f",
        ("src", "lib"),
        {"reference": 60, "deep": {"list": [1, "two", None, True]}, "on": "12:30"},
    )


# --- the dataflow


def test_waves_end_by_a_mark_a_period_or_quiet():
    def waves(written):
        text = f"name: n\nwaves: {written}\nactions: {{a: {{step: 'm:f'}}}}"
        return parse_dataflow(text, "flow.yaml").waves

    assert waves("mark") == WaveSpec(WaveEnd.MARK)
    assert waves("every 5 min") == WaveSpec(WaveEnd.EVERY, 300)
    assert waves("quiet 30 s") == WaveSpec(WaveEnd.QUIET, 30)


def test_spark_settings_are_text():
    text = "name: n\nspark: {a.b: 4, c: true, d: x}\nactions: {a: {step: 'm:f'}}"

    assert parse_dataflow(text, "flow.yaml").spark == {"a.b": "4", "c": "true", "d": "x"}


def test_descriptions_are_kept_for_people():
    text = "name: n\ndescription: all\nactions: {a: {step: 'm:f', description: one}}"

    dataflow = parse_dataflow(text, "flow.yaml")
    assert (dataflow.description, dataflow.actions["a"].description) == ("all", "one")


PROFILES = """\
profiles:
  cheap:
    zones: {readings: {sequence: 60%, value: none}}
  exact:
    zones: {readings: {sequence: 1}}
"""


def test_a_profile_replaces_limits_and_keeps_the_others():
    def bound(profile):
        dataflow = parse_dataflow(TEN_LINES + PROFILES, "air.yaml", profile)
        assert dataflow.profiles == ("cheap", "exact")
        assert dataflow.profile == profile
        return dataflow.spec.actions[1].bounds[0]

    percent = SequenceUnit.PERCENT
    assert bound(None).sequence == SequenceBound(20, percent)
    assert (bound("cheap").sequence, bound("cheap").value) == (SequenceBound(60, percent), None)
    assert (bound("exact").sequence, bound("exact").value) == (
        SequenceBound(1),
        ValueBound(Metric.CHANGED, 0.05),
    )


def test_an_anchor_can_be_used_again():
    action = action_of(
        "    when: {x: &limits {container: c, time: 5}, y: *limits}\n",
    )

    assert [(bound.name, bound.time) for bound in action.bounds] == [("x", 5), ("y", 5)]


TWO_USERS = TEN_LINES + "profiles: {cheap: {zones: {readings: {sequence: 60%}}}}\n"


def test_one_description_is_several_dataflows_each_with_bounds_of_its_own():
    own = parse_dataflow(TWO_USERS, "air.yaml")
    other = parse_dataflow(TWO_USERS, "air.yaml", "cheap", "air-of-bob")

    assert (own.name, other.name, other.profile) == ("air", "air-of-bob", "cheap")
    for parsed, limit in ((own, 20), (other, 60)):
        sequence = parsed.spec.actions[1].bounds[0].sequence
        assert sequence is not None
        assert sequence.limit == limit
    assert other.spec.containers == own.spec.containers


def test_an_instance_is_named_like_a_dataflow():
    with pytest.raises(DataflowErrors, match="`a b` can't name a dataflow"):
        parse_dataflow(TEN_LINES, "air.yaml", name="a b")


# --- triggers


def test_a_trigger_can_be_named_in_place_of_bounds():
    action = action_of("    trigger: synchrony\n")
    assert (action.trigger, action.bounds) == (Trigger("synchrony"), ())


def test_a_trigger_can_have_settings_which_its_policy_judges():
    with pytest.raises(DataflowErrors) as raised:
        action_of("    trigger: {synchrony: {patience: 3}}\n")
    (problem,) = (p for p in raised.value.problems if "settings" in p.message)
    assert "trigger 'synchrony' takes no settings, not 'patience'" in problem.message
    assert problem.line > 1


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("trigger: learnt", "`learnt` is not"),
        ("trigger: synchrony\n    when: {c: {time: 5}}", "`when` can't stand beside"),
        ("trigger: synchrony\n    combine: all", "`combine` can't stand beside"),
        ("trigger: {learnt: {}}", "learnt"),
    ],
)
def test_a_trigger_that_nobody_makes_or_that_stands_beside_bounds_is_refused(written, message):
    with pytest.raises(DataflowErrors) as raised:
        action_of(f"    {written}\n")
    assert message in str(raised.value)
