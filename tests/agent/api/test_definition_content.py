"""What a submit or an update makes of a definition, and whether that is another."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headgate.agent.api.definition_content import (
    DefinitionContent,
    content_of,
    listed_changes,
    submitted,
    updated,
)
from headgate.agent.api.messages import SubmitRequest, UpdateRequest
from headgate.agent.state.sealed import Definition
from headgate.flows import Change, ChangeKind

SAVED = Definition("air", "text", "/flows", 7, 5.0, "eager", shadow=False)
OLD = DefinitionContent("text", "/flows", "eager", shadow=False)
FOUND = (Change(ChangeKind.ADDED, "action `a`", "it counts from now"),)


def test_number_and_time_of_a_definition_make_no_difference() -> None:
    assert content_of(SAVED) == OLD
    assert content_of(replace(SAVED, revision=8, submitted=6.0)) == OLD


@pytest.mark.parametrize(
    "part",
    [{"source": "x"}, {"directory": "/x"}, {"profile": None}, {"shadow": True}],
    ids=lambda part: next(iter(part)),
)
def test_each_part_of_a_definition_makes_one(part: dict[str, Any]) -> None:
    assert content_of(replace(SAVED, **part)) == replace(OLD, **part) != OLD


def test_a_submit_says_everything_anew() -> None:
    body = SubmitRequest("text", "file", "/flows", "asked for", "air", shadow=True)
    assert submitted(body, "found") == DefinitionContent("text", "/flows", "found", shadow=True)
    assert submitted(SubmitRequest("text"), None) == DefinitionContent("text", ".", None, False)


@pytest.mark.parametrize(
    ("asked", "changed"),
    [
        ({}, {}),
        ({"reload": True, "file": "f", "allow_missing_tables": True}, {}),
        ({"source": "new"}, {"source": "new"}),
        ({"source": ""}, {"source": ""}),
        ({"directory": "/new"}, {"directory": "/new"}),
        ({"profile": "cheap"}, {"profile": "cheap"}),
        ({"profile": None}, {"profile": None}),
        ({"shadow": True}, {"shadow": True}),
        ({"shadow": False}, {}),
    ],
)
def test_an_update_changes_what_it_names(asked: dict[str, Any], changed: dict[str, Any]) -> None:
    assert updated(OLD, UpdateRequest(**asked)) == replace(OLD, **changed)


def test_an_update_ends_shadow_mode_only_where_it_says_so() -> None:
    shadowed = replace(OLD, shadow=True)
    assert updated(shadowed, UpdateRequest()).shadow
    assert not updated(shadowed, UpdateRequest(shadow=False)).shadow


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (False, True, "it decides and launches nothing"),
        (True, False, "it launches from now"),
    ],
)
def test_shadow_mode_is_listed_after_what_else_has_changed(
    before: bool, after: bool, words: str
) -> None:
    old, new = replace(OLD, shadow=before), replace(OLD, shadow=after)
    change = Change(ChangeKind.CHANGED, "shadow mode", words)
    assert listed_changes(old, new, FOUND) == (*FOUND, change)
    assert listed_changes(old, new, ()) == (change,)


@pytest.mark.parametrize("shadow", [False, True])
def test_a_shadow_mode_that_stays_is_not_listed(shadow: bool) -> None:
    same = replace(OLD, shadow=shadow)
    assert listed_changes(same, replace(same, source="new"), FOUND) == FOUND
