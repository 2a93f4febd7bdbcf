"""What the documentation shows of topics runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
from scripted_topics import Orders, values

from headgate.flows import parse_dataflow
from headgate.incremental import Stage

DOCS = Path(__file__).parents[3] / "docs"


def shown(file: str, language: str) -> str:
    """The one example in a language below the heading of topics."""
    text = (DOCS / file).read_text(encoding="utf-8")
    section = text.partition("## Topics\n")[2].partition("\n## ")[0]
    [example] = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return str(example)


def test_the_stage_of_the_documentation_adds_up(orders: Orders) -> None:
    dataflow = parse_dataflow(shown("dataflow-file.md", "yaml"), "shop.yaml")
    assert dataflow.warnings == ()
    names: dict[str, Any] = {"pa": pa}
    exec(shown("stages.md", "python"), names)
    orders.stage = names["totals"]
    assert isinstance(orders.stage, Stage)
    orders.spec = dataflow.topics["orders"]
    orders.sinks = {"totals": dataflow.topics["totals"]}
    orders.kafka.make("shop.totals")
    for amount in (1.5, 2):
        orders.kafka.put("shop.orders", 0, {"amount": amount}, b"ann")
        orders.run()
    sent = orders.kafka.sent_to["shop.totals"]
    assert values(sent) == [{"customer": "ann", "amount": 1.5}, {"customer": "ann", "amount": 3.5}]
    assert [one.key for one in sent] == [b"ann", b"ann"]
