"""The JSON Schema that editors use and the parser accept the same files."""

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.flows import DataflowErrors, parse_dataflow, schema_text
from headgate.flows.dataflow import GRAMMAR
from headgate.flows.grammar.matching import matched
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.tree import read_tree

VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema_text()))

FULL = {
    "name": "air",
    "description": "all of it",
    "state": "hdfs://names/stages",
    "waves": "every 5 min",
    "python_path": ["src", "lib"],
    "spark": {"spark.sql.shuffle.partitions": 4, "spark.ui.enabled": False, "a": "b"},
    "oozie": {"workflow": "<workflow-app/>", "decisions": {"x": "all"}},
    "containers": {
        "readings": "detectors s:o3 s:pm25",
        "zones": {
            "table": "zones",
            "column": "c:concentration",
            "prefix": "z",
            "codec": "float64",
            "on_undecodable": "skip",
        },
        "rows": {"table": "ns:t", "family": "f", "rows": ["a", "b"], "count": "cells"},
        "both": {
            "group": ["t f:q", {"table": "u", "row": "r"}],
            "codec": "json $.a[0]",
            "on_undecodable": None,
        },
        "map": "maps m:colour",
        "chart": "charts c:level",
    },
    "actions": {
        "feed": {"input": ["readings", "rows"], "description": "from outside"},
        "zones": {
            "step": "air.steps:zones",
            "reads": "readings",
            "writes": ["zones", "both"],
            "when": {
                "readings": {"time": "1 h 30 min", "sequence": "20%", "value": "5%"},
                "rows": {
                    "time": [30, "PT5M"],
                    "sequence": {"limit": [10, 20], "count": "distinct"},
                    "value": {"relative": ["5%", "10%"]},
                },
                "k": {"container": "readings", "value": {"against": 100, "limit": "5%"}},
            },
            "combine": "readings or (rows and k)",
            "evaluate": ["write", "action-end", "every 30 s"],
            "own": True,
            "retries": {"attempts": 5, "backoff": ["1 s", "1 min"]},
            "timeout": "10 min",
            "parameters": {"reference": 60, "list": [1, None, {"x": True}]},
        },
        "last": {
            "step": "steps:last",
            "after": ["zones"],
            "when": {"zones": {"value": 2}, "both": {"value": {"absolute": [0.5, 1]}}},
            "combine": "at-least-one",
            "evaluate": "write",
            "retries": 3,
        },
        "map": {"step": "steps:map", "reads": "rows", "writes": "map"},
        "links": {"stage": "stages:links", "reads": "rows", "out": ["links", "pages"]},
        "loop": {
            "stage": "stages:loop",
            "in": {"a": "links.links", "b": "loop.b", "c": "links.pages"},
            "out": "b",
            "runnable": {"lag": {"b": 2}},
            "backlog": 5,
            "on_change": "rebuild",
        },
        "found": {
            "stage": "stages:found",
            "in": {"a": "links.links", "k": "links.pages"},
            "runnable": {"lookup": "k"},
        },
        "turns": {
            "stage": "stages:turns",
            "in": {"a": "links.links"},
            "runnable": {"prefer": {"a": 3}},
        },
        "own": {
            "stage": "stages:own",
            "in": {"a": "links.links"},
            "runnable": {"python": "stages:chosen"},
        },
        "chart": {"step": "steps:chart", "reads": "rows", "writes": "chart"},
    },
    "learned": {
        "outputs": {
            "map": {"error": {"rmse": 2}, "confidence": "99%", "changes": "accumulate"},
            "chart": {"error": {"python": {"class": "metrics:Worst", "limit": 2}}},
        },
        "impacts": {"rows": "metrics:Moved"},
        "audit": "5%",
        "waves": 100,
        "horizon": 12,
    },
    "profiles": {
        "cheap": {"zones": {"readings": {"sequence": "60%", "value": "none"}}},
        "exact": {"last": {"zones": {"time": 5, "value": {"changed": "1%"}}}},
    },
}

WORDS = st.sampled_from(
    [
        *("5%", "0%", "-5%", "%", "0.5 %", "150%", "5 s", "0 s", "PT5M", "PT", "P", "5 parsecs"),
        *("every 5 s", "every", "quiet 1 min", "mark", "write", "action-end", "none", "all"),
        *("any", "aligned", "links.links", "loop.b", "rebuild", "stages:loop"),
        *("steps:zones", "steps.py", "zones", "t f:q", "t f:", "t q", "n:t f:q", "f:q", "a b", ""),
        *(
            "json $.a",
            "json $['a b'][-1]",
            "int16",
            "phoenix-int32",
            "json",
            "float64",
            "number",
            "rows",
            "cells",
            "distinct",
            "updates",
            "é",
        ),
        *(0, 1, -1, 1.5, 0.0, 100, 101, True, False, None, 1e9),
    ]
)
NAMES = st.sampled_from(
    [
        *("name", "actions", "containers", "when", "step", "input", "table", "column", "family"),
        *("row", "prefix", "rows", "group", "codec", "count", "container", "time", "sequence"),
        *("value", "relative", "absolute", "changed", "against", "limit", "attempts", "backoff"),
        *("zones", "readings", "x y", "profiles", "spark", "waves", "after", "evaluate", "own"),
        *("stage", "in", "out", "runnable", "backlog", "lag", "prefer", "lookup", "python"),
        *("on_change", "state"),
        *("learned", "outputs", "error", "rmse", "confidence", "audit", "horizon", "map"),
    ]
)
VALUES = st.recursive(
    WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def paths(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*path, key))


PATHS = [path for path in paths(FULL) if path]
TYPED_PATHS = [path for path in PATHS if "parameters" not in path[:-1]]


@st.composite
def mutated_dataflows(draw):
    document = json.loads(json.dumps(FULL))
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)):
        place = document
        for key in path[:-1]:
            reachable = isinstance(place, dict) and key in place
            reachable |= isinstance(place, list) and isinstance(key, int) and key < len(place)
            if not reachable:
                break
            place = place[key]
        else:
            if isinstance(place, dict):
                key = draw(st.sampled_from([path[-1], draw(NAMES)]))
                if draw(st.booleans()):
                    place[key] = draw(VALUES)
                else:
                    place.pop(key, None)
    return document


def grammar_accepts(text):
    findings = Findings("flow.yaml")
    tree = read_tree(text, findings)
    assert not findings.problems
    assert tree is not None
    matched(tree, GRAMMAR, findings)
    return not findings.failed


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text()))


def test_both_accept_a_file_with_everything_in_it():
    text = json.dumps(FULL)

    assert parse_dataflow(text, "flow.yaml").name == "air"
    assert VALIDATOR.is_valid(FULL)


@pytest.mark.parametrize("path", TYPED_PATHS, ids=lambda path: "/".join(map(str, path)))
def test_both_refuse_a_wrong_type(path):
    document = json.loads(json.dumps(FULL))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = [[]]

    assert not VALIDATOR.is_valid(document)
    with pytest.raises(DataflowErrors):
        parse_dataflow(json.dumps(document), "flow.yaml")


@given(mutated_dataflows())
@settings(max_examples=3 * settings().max_examples)
def test_both_agree_on_every_change_of_it(document):
    assert grammar_accepts(json.dumps(document)) == VALIDATOR.is_valid(document)
