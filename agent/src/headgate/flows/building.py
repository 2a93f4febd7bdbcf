"""From a dataflow file to a dataflow, or to everything that is wrong with the file."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from headgate.engine import DataflowSpec
from headgate.flows.dataflow import GRAMMAR, SECTIONS, Dataflow
from headgate.flows.grammar.matching import matched
from headgate.flows.grammar.problems import NAME_RULE, DataflowErrors, Findings, Position
from headgate.flows.grammar.text import read_text
from headgate.flows.grammar.tree import MAX_CHARACTERS, Mapping, Tree, read_tree
from headgate.flows.grammar.values import NAME
from headgate.flows.sections.section import Draft


def load_dataflow(
    path: Path | str, profile: str | None = None, name: str | None = None
) -> Dataflow:
    """Return the dataflow in a YAML file, with the bounds of one of its profiles if one is named.

    ``name`` is that of the instance, where it is another than the file's.

    Raises:
        DataflowErrors: the file can't be read or used; every problem found is in it.
    """
    text = read_text(path, MAX_CHARACTERS)
    return parse_dataflow(text, str(path), profile, name)


def parse_dataflow(
    text: str, file: str, profile: str | None = None, name: str | None = None
) -> Dataflow:
    """Return the dataflow in a YAML text; ``file`` is its name in messages.

    ``name`` is that of the instance, where it is another than the file's: one description serves
    several users, each with bounds of their own.

    Raises:
        DataflowErrors: the text can't be used; every problem found is in it.
    """
    findings = Findings(file)
    tree = read_tree(text, findings)
    dataflow = None if tree is None else _built(tree, text, file, profile, findings)
    if name is not None and not re.fullmatch(NAME, name):
        findings.error(
            Position(1, 1),
            f"`{name}` can't name a dataflow",
            NAME_RULE,
        )
    if dataflow is None or findings.failed:
        raise DataflowErrors(findings.problems)
    spec = dataflow.spec if name is None else msgspec.structs.replace(dataflow.spec, name=name)
    return msgspec.structs.replace(dataflow, spec=spec, warnings=findings.problems)


def check_tree(tree: Tree, findings: Findings) -> None:
    """Note what is wrong with the tree of a dataflow file that is still to be written."""
    _built(tree, "", "", None, findings)


def _built(
    tree: Tree, text: str, file: str, profile: str | None, findings: Findings
) -> Dataflow | None:
    fitting = matched(tree, GRAMMAR, findings)
    if not isinstance(fitting, Mapping):
        return None
    draft = Draft(fitting, tree, profile, findings)
    spec = DataflowSpec("", (), ())
    for section in SECTIONS:
        spec = section.specify(draft, spec)
    for section in SECTIONS:
        if not findings.failed:
            section.check(draft, spec)
    for section in SECTIONS:
        spec = section.give(draft[section], spec)
    values = {one.name: draft[one] for one in SECTIONS if one.name in Dataflow.__struct_fields__}
    return Dataflow(spec=spec, source=text, file=file, profile=profile, **values)
