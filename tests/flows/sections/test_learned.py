"""The section ``learned``: steps that lead to bounded outputs get triggers that are learned."""

import pytest

from headgate.engine import Engine, Trigger, UserMetric, with_triggers
from headgate.flows import DataflowErrors, parse_dataflow
from headgate.learning import LEARNED, Learned, learned, user_metrics

CONTAINERS = "in: t f:q, mid: u f:q, out: v f:q, x: w f:q"


def parsed(
    section,
    *,
    second="",
    reads="mid",
    more="",
    containers=CONTAINERS,
):
    text = (
        f"name: n\ncontainers: {{{containers}}}\nactions:\n  feed: {{input: in}}\n"
        f"  first: {{step: 'm:f', reads: in, writes: mid}}\n"
        f"  second: {{step: 'm:f', reads: {reads}, writes: out{second}}}\n"
        "  aside: {step: 'm:f', reads: mid, writes: x}\n"
        f"learned: {{{section}}}\n{more}"
    )
    spec = parse_dataflow(text, "flow.yaml").spec
    return spec, {action.name: action for action in spec.actions}


def settings(outputs, **others):
    plain = {
        name: dict(zip(("bound", "metric", "confidence", "changes"), said, strict=True))
        for name, said in ((n, (*given, "cancel")[:4]) for n, given in outputs.items())
    }
    usual = {"audit": 0.05, "waves": 336, "horizon": 24, "impacts": {}}
    return {"outputs": plain, **usual, "refit": 336, "retrain": 0, **others}


def test_steps_that_lead_to_the_output_have_learned_triggers_and_others_none():
    spec, actions = parsed("outputs: {out: 5%}")
    expected = Trigger(LEARNED, settings({"out": (0.05, "relative", 0.95)}))
    assert actions["first"].trigger == actions["second"].trigger == expected
    assert actions["aside"].trigger is None
    engine = Engine(spec, policies=with_triggers({LEARNED: learned}))
    assert isinstance(engine.actions["second"].policy, Learned)


@pytest.mark.parametrize("key", ["refit", "retrain"])
def test_models_need_never_be_learned_anew(key):
    _, actions = parsed(f"outputs: {{out: 5%}}, {key}: never")
    assert actions["first"].trigger.settings[key] == 0
    for wrong in ("0", "-1", "2.5", "14 days", "often"):
        with pytest.raises(DataflowErrors, match=r"a number of waves from 1 to 100000, or `never`"):
            parsed(f"outputs: {{out: 5%}}, {key}: {wrong}")


def test_settings_are_taken():
    _, actions = parsed(
        "outputs: {out: {error: {rmse: 2.5}, confidence: 99%}, mid: {error: {relative: 10%}}}, "
        "audit: 2%, waves: 100, horizon: 12, refit: 50, retrain: 900"
    )
    expected = settings(
        {"out": (2.5, "rmse", 0.99), "mid": (0.1, "relative", 0.95)},
        audit=0.02, waves=100, horizon=12, refit=50, retrain=900,
    )  # fmt: skip
    assert actions["first"].trigger.settings == expected


def test_an_error_may_be_measured_by_a_metric_of_the_users_own():
    own = "{python: {class: 'metrics:Worst', limit: 2.5}}"
    spec, actions = parsed(f"outputs: {{out: {{error: {own}, confidence: 99%}}, mid: 5%}}")
    expected = settings(
        {"out": (2.5, {"entry": "metrics:Worst"}, 0.99), "mid": (0.05, "relative", 0.95)}
    )
    assert actions["first"].trigger.settings == expected
    assert user_metrics(spec) == (UserMetric("metrics:Worst"),)
    assert Engine(spec, policies=with_triggers({LEARNED: learned}))


def test_containers_above_an_output_may_have_impacts_of_the_users_own():
    spec, actions = parsed("outputs: {out: 5%}, impacts: {in: 'metrics:Moved', mid: 'm:C'}")
    expected = {"in": "metrics:Moved", "mid": "m:C"}
    assert actions["first"].trigger.settings["impacts"] == expected
    assert user_metrics(spec) == (UserMetric("metrics:Moved"), UserMetric("m:C"))


def test_errors_may_accumulate_and_pass_100_percent_then():
    _, actions = parsed("outputs: {out: {error: 150%, changes: accumulate}, mid: 5%}")
    expected = settings(
        {"out": (1.5, "relative", 0.95, "accumulate"), "mid": (0.05, "relative", 0.95)}
    )
    assert actions["first"].trigger.settings == expected


def test_the_dataflow_names_it_among_the_metrics_that_an_agent_has_to_run():
    text = (
        f"name: n\ncontainers: {{{CONTAINERS}}}\nactions:\n  feed: {{input: in}}\n"
        "  one: {step: 'm:f', reads: in, writes: out}\n"
        "  two: {step: 'm:f', when: {in: {value: {python: {class: 'm:Bound', limit: 1}}}}}\n"
        "learned: {outputs: {out: {error: {python: {class: 'm:Error', limit: 1}}}}}\n"
    )
    assert parse_dataflow(text, "flow.yaml").user_metrics == ("m:Bound", "m:Error")
    without = text[: text.index("learned")]
    assert parse_dataflow(without, "flow.yaml").user_metrics == ("m:Bound",)


@pytest.mark.parametrize(
    ("section", "message", "cure"),
    [
        ("outputs: {oud: 5%}", "there is no container `oud`", "did you mean `out`"),
        ("audit: 5%", "has no `outputs`", "outputs"),
        ("outputs: {}", "there is no container here", "errors by container"),
        ("outputs: {out: 0%}", "`0%`", "above zero"),
        ("outputs: {out: 5}", "`5`", "such as `5%`"),
        ("outputs: {out: {confidence: 99%}}", "has no `error`", "error"),
        ("outputs: {out: {error: {rmse: 2, relative: 5%}}}", "`relative`", ""),
        ("outputs: {out: {error: {rmse: -1}}}", "`-1`", "above zero"),
        ("outputs: {out: {error: {python: {class: 'm:C'}}}}", "has no `limit`", "limit"),
        ("outputs: {out: {error: {python: {limit: 2}}}}", "has no `class`", "class"),
        ("outputs: {out: {error: {python: {class: C, limit: 2}}}}", "`C`", "the class"),
        ("outputs: {out: {error: {python: {class: 'm:C', limit: 5%}}}}", "`5%`", "number"),
        ("outputs: {out: {error: {python: {class: 'm:C', limit: 0}}}}", "`0`", "above zero"),
        ("outputs: {out: {error: {python: 'm:C'}}}", "`m:C`", ""),
        ("outputs: {out: 5%}, impacts: {im: 'm:C'}", "there is no container `im`", "`in`"),
        ("outputs: {out: 5%}, impacts: {in: C}", "`C`", "the class"),
        ("outputs: {out: 5%}, impacts: {}", "there is no container here", "metrics by container"),
        ("outputs: {out: 5%}, impacts: {x: 'm:C'}", "no output is predicted from it", "`learned`"),
        ("outputs: {out: {error: 5%, changes: add}}", "`add`", "`accumulate`"),
        ("outputs: {out: {error: 150%, changes: cancel}}", "need never be made", "`learned`"),
        ("outputs: {in: 5%}", "no step writes `in`", "`writes`"),
        ("outputs: {out: 100%}", "need never be made", "`learned`"),
        ("outputs: {out: {error: 5%, confidence: 100%}}", "between 50 % and 100 %", "`learned`"),
        ("outputs: {out: {error: 5%, confidence: 40%}}", "between 50 % and 100 %", "`learned`"),
        ("outputs: {out: 5%}, audit: 100%", "share of the skips", "`learned`"),
        ("outputs: {out: 5%}, waves: 0", "`0`", "waves"),
        ("outputs: {out: 5%}, horizon: 1.5", "`1.5`", "waves"),
        ("outputs: {out: 5%}, waves: 50, retrain: 50", "give more waves than `waves`", "`learned`"),
    ],
)
def test_what_makes_no_sense_is_answered_with_its_cure(section, message, cure):
    with pytest.raises(DataflowErrors) as caught:
        parsed(section)
    problem = caught.value.problems[0]
    assert message in problem.message
    assert cure in problem.cure
    assert problem.line == 8


def test_an_output_of_opaque_values_is_refused():
    opaque = "in: t f:q, mid: u f:q, out: {table: v, column: 'f:q', codec: opaque}, x: w f:q"
    with pytest.raises(DataflowErrors, match="its values are opaque"):
        parsed("outputs: {out: 5%}", containers=opaque)


@pytest.mark.parametrize("own", ["when: {mid: {sequence: 7}}", "trigger: synchrony"])
def test_a_step_that_says_itself_when_it_runs_is_refused_at_its_place(own):
    with pytest.raises(DataflowErrors) as caught:
        parsed("outputs: {out: 5%}", second=f", {own}")
    (problem,) = caught.value.problems
    assert problem.message.startswith("`learned` decides when `second` runs")
    assert problem.line == 6


def test_beside_significance_it_is_refused():
    with pytest.raises(DataflowErrors, match="both decide when the same steps run"):
        parsed("outputs: {out: 5%}", more="significance: {output: out, change: 5%}\n")


@pytest.mark.parametrize(
    ("section", "needed"),
    [
        ("outputs: {out: 5%}, waves: 68, horizon: 6", 69),
        ("outputs: {out: {error: 5%, confidence: 99%}}", 349),
        ("outputs: {out: 5%}, waves: 80, horizon: 24", 96),
        ("outputs: {out: 5%}, waves: 69, horizon: 6", None),
        ("outputs: {out: {error: 5%, confidence: 99%}}, waves: 349", None),
    ],
)
def test_of_waves_that_can_give_no_model_a_warning_says_how_many_can(section, needed):
    text = (
        f"name: n\ncontainers: {{{CONTAINERS}}}\nactions:\n  feed: {{input: in}}\n"
        "  first: {step: 'm:f', reads: in, writes: out}\n"
        f"learned: {{{section}}}\n"
    )
    found = [w for w in parse_dataflow(text, "flow.yaml").warnings if "gives" in w.message]
    assert len(found) == (needed is not None)
    for warning in found:
        assert f"raise `waves` to {needed}" in str(warning)


def test_of_a_step_that_reads_its_own_output_a_warning_says_what_is_taken_for_granted():
    text = (
        f"name: n\ncontainers: {{{CONTAINERS}}}\nactions:\n  feed: {{input: in}}\n"
        "  only: {step: 'm:f', reads: [in, out], writes: out}\n"
        "learned: {outputs: {out: 5%}}\n"
    )
    found = parse_dataflow(text, "flow.yaml")
    (warning,) = [w for w in found.warnings if "take for granted" in w.message]
    assert warning.line == 5
    engine = Engine(found.spec, policies=with_triggers({LEARNED: learned}))
    assert set(engine.actions["only"].parts) == {"in"}


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("aside", "comes after 'aside' and reads nothing that it makes"),
        ("[first, aside]", "comes after 'aside' and reads nothing that it makes"),
        ("feed", "reads what 'first' makes and does not come after it"),
    ],
)
def test_a_step_follows_those_whose_output_it_reads_and_no_others(after, words):
    with pytest.raises(DataflowErrors) as caught:
        parsed("outputs: {out: 5%}", second=f", after: {after}")
    assert any(
        words in p.message and "leave `after` out" in p.message for p in caught.value.problems
    )
