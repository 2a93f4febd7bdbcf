"""What a dataflow is called: the sections ``name`` and ``description`` of a dataflow file."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from headgate.flows.grammar.kinds import Key
from headgate.flows.grammar.tree import text_of
from headgate.flows.grammar.values import name_value, text_value
from headgate.flows.sections.section import Section

NAME: Final = Section(
    "name",
    Key(name_value("the dataflow"), "the dataflow's name, unique in the cluster", required=True),
    lambda written, _: text_of(written),
    give=lambda name, spec: replace(spec, name=name),
)

DESCRIPTION: Final = Section(
    "description",
    Key(text_value("a text"), "for people"),
    lambda written, _: text_of(written),
)
