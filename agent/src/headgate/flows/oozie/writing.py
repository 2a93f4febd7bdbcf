"""Trees as YAML text that reads back as the same tree."""

from __future__ import annotations

import re
from typing import Any

import yaml

from headgate.flows.grammar.tree import Items, Mapping, Scalar, Tree, core_value

_WIDTH = 100  # columns
_BLOCK = re.compile(
    r"[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]+"
)
"""Pattern of texts that can stand in a literal block as they are."""


class _Dumper(yaml.SafeDumper):
    """Writes text in quotes where the core schema of YAML 1.2 would read something else."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if core_value(text) == text else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def written(tree: Mapping) -> str:
    """Return a tree as YAML, sections apart, the innermost collections in one line."""
    sections = (
        yaml.dump(
            {name: _value(entry.value)},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=_WIDTH,
            default_flow_style=False if isinstance(entry.value, Scalar) else None,
        )
        for name, entry in tree.entries.items()
    )
    return "".join(sections)


def literal(key: str, text: str, indent: int) -> str:
    """Return a key whose value is a long text, as a literal block where the text allows it."""
    margin = " " * indent
    if not _BLOCK.fullmatch(text) or text[0] in " \n\t" or text[-2:] == "\n\n":
        quoted = yaml.dump(text, Dumper=_Dumper, default_style='"', width=2**31)
        return f"{margin}{key}: {quoted}"
    chomping = "" if text.endswith("\n") else "-"
    lines = text.removesuffix("\n").split("\n")
    block = "\n".join(f"{margin}  {line}" if line else "" for line in lines)
    return f"{margin}{key}: |{chomping}\n{block}\n"


def _value(tree: Tree) -> Any:
    match tree:
        case Scalar(value=value):
            return value
        case Items(values=values):
            return [_value(value) for value in values]
        case _:
            return {name: _value(entry.value) for name, entry in tree.entries.items()}


def file_text(tree: Mapping) -> str:
    """Return the tree as a file, the workflow that it was made from last and in its own lines."""
    sections = dict(tree.entries)
    oozie = sections.pop("oozie").value
    assert isinstance(oozie, Mapping)  # noqa: S101 -- made so below
    kept = dict(oozie.entries)
    workflow = kept.pop("workflow").value
    assert isinstance(workflow, Scalar)  # noqa: S101 -- made so below
    decisions = written(Mapping(kept, tree.at))
    indented = "".join(f"  {line}\n" for line in decisions.splitlines())
    own = written(Mapping(sections, tree.at))
    return f"{own}oozie:\n{indented}{literal('workflow', workflow.text, 2)}"
