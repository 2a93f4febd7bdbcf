"""A section of the file is one value: what reads it, checks it, compares it and gives it on."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest
from msgspec.structs import replace

from headgate.engine import DataflowSpec
from headgate.flows.dataflow import GRAMMAR, SECTIONS, Dataflow
from headgate.flows.grammar.kinds import Key, Numbers, RecordOf, Single
from headgate.flows.grammar.matching import matched
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.tree import Mapping, Scalar, Tree, read_tree
from headgate.flows.sections.actions.agent_key import AgentKey
from headgate.flows.sections.actions.declared import AGENT_KEYS, DeclaredAction
from headgate.flows.sections.actions.grammar import ACTION, STEP_ONLY
from headgate.flows.sections.changes import Change, ChangeKind, Parts, Setting, Version, from_to
from headgate.flows.sections.section import Draft, Section

OF_THE_WHOLE = {"spec", "source", "file", "profile", "warnings"}
"""Fields of a dataflow that are no section's."""
ENGINE_ONLY = {"name", "feeders", "adjustment", "significance", "learned"}
"""Sections whose values are in the specification only."""


def read_number(written: Tree | None, draft: Draft) -> int:
    number = written.value if isinstance(written, Scalar) else None
    if number == 13:
        draft.findings.error(draft.tree.at, "`13` brings bad luck", "write 12")
    return number if isinstance(number, int) else 0


BUDGET = Section(
    "budget",
    Key(Single("a number of runs", numbers=Numbers(above=0, whole=True)), "runs a day"),
    read_number,
    give=lambda budget, spec: replace(spec, places=budget),
    difference=Setting(from_to(then=" runs")),
)


def draft_of(text: str) -> Draft:
    findings = Findings("flow.yaml")
    written = read_tree(text, findings)
    assert written is not None
    tree = matched(written, RecordOf("a file", {"budget": BUDGET.key}), findings)
    assert isinstance(tree, Mapping)
    return Draft(tree, written, None, findings)


def test_a_value_is_read_once_though_several_sections_ask_for_it() -> None:
    read: list[Draft] = []

    def counted(_: Tree | None, draft: Draft) -> str:
        read.append(draft)
        return "value"

    section = Section("budget", BUDGET.key, counted)
    draft = draft_of("budget: 5")

    assert (draft[section], draft[section], len(read)) == ("value", "value", 1)


def test_what_a_section_does_not_say_changes_nothing() -> None:
    section: Section[Any] = Section("budget", BUDGET.key)
    draft, spec = draft_of("budget: 5"), DataflowSpec("n", (), ())

    section.check(draft, spec)

    assert draft[section] is None
    assert section.specify(draft, spec) is spec
    assert section.give(None, spec) is spec
    assert draft.findings.problems == ()


def test_a_section_gives_its_value_to_the_engine() -> None:
    draft = draft_of("budget: 5")

    assert BUDGET.give(draft[BUDGET], DataflowSpec("n", (), ())).places == 5


def test_a_section_notes_what_is_wrong_with_its_value() -> None:
    draft = draft_of("budget: 13")

    assert draft[BUDGET] == 13
    assert [one.message for one in draft.findings.problems] == ["`13` brings bad luck"]


def test_names_of_parts_with_errors_are_known_as_written() -> None:
    text = "budget: {a: 1, b: 2}"
    draft = draft_of(text)

    assert draft.entries("budget") == {}
    assert set(draft.written("budget")) == {"a", "b"}


SPEC = DataflowSpec("n", (), ())


def test_equal_settings_are_no_change() -> None:
    difference = Setting(from_to())

    assert list(difference.changes("budget", Version(5, SPEC), Version(5, SPEC))) == []


def test_another_setting_is_one_change() -> None:
    difference = Setting(from_to(then=" runs"))

    [change] = difference.changes("budget", Version(5, SPEC), Version(6, SPEC))

    assert str(change) == "budget: changed, 5 → 6 runs"


def changed(name: str, before: int, after: int, _: DataflowSpec) -> list[Change]:
    return [] if before == after else [Change(ChangeKind.CHANGED, f"room `{name}`", "painted")]


def test_parts_are_added_changed_and_removed() -> None:
    difference = Parts("room", lambda name, _, new: f"{new[name]} m²", changed, "sold")
    old, new = Version({"a": 1, "b": 2, "c": 3}, SPEC), Version({"c": 3, "b": 4, "d": 5}, SPEC)

    assert list(map(str, difference.changes("rooms", old, new))) == [
        "room `b`: changed, painted",
        "room `d`: added, 5 m²",
        "room `a`: removed, sold",
    ]


# -- the lists --------------------------------------------------------------------------------


def test_every_key_of_the_grammar_is_a_section() -> None:
    assert tuple(GRAMMAR.keys) == tuple(section.name for section in SECTIONS)


def test_every_section_has_a_field_or_only_the_engine_needs_it() -> None:
    names = {section.name for section in SECTIONS}

    assert names - set(Dataflow.__struct_fields__) == ENGINE_ONLY
    assert set(Dataflow.__struct_fields__) - names == OF_THE_WHOLE


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_a_section_reads_what_its_field_holds(section: Section[Any]) -> None:
    read = inspect.signature(section.read, eval_str=True).return_annotation
    field = get_type_hints(Dataflow).get(section.name)

    assert field is None or read in (field, inspect.Signature.empty)


def test_every_key_that_the_agent_needs_is_a_field_of_an_action() -> None:
    assert {key.name for key in AGENT_KEYS} == set(DeclaredAction.__struct_fields__)


@pytest.mark.parametrize("key", AGENT_KEYS, ids=lambda key: key.name)
def test_every_key_that_the_agent_needs_is_in_the_grammar(key: AgentKey[Any]) -> None:
    assert ACTION.keys[key.name] is key.key


def test_keys_that_an_action_may_have_beside_input_are_few() -> None:
    beside = set(ACTION.keys) - set(STEP_ONLY)

    assert {"input", "description", "step", "stage", "command"} <= beside
    assert beside & {"when", "after", "reads", "depends", "launcher", "parameters"} == set()
