"""The reference of workflows with bounds says what the code does."""

import re
from pathlib import Path

from headgate.engine import write_condition
from headgate.flows import ImportChoices, import_workflow, parse_dataflow

REFERENCE = Path(__file__).parents[3] / "docs" / "oozie.md"
(WORKFLOW,) = re.findall(r"```xml\n(.*?)```", REFERENCE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_workflow_shown_is_imported_as_it_is():
    imported = import_workflow(WORKFLOW, REFERENCE.name, ImportChoices(inputs=("crawl",)))
    dataflow = parse_dataflow(imported.text, "flow.yaml")

    actions = {action.name: action for action in dataflow.spec.actions}
    assert (imported.warnings, dataflow.warnings) == ((), ())
    assert {name: action.after for name, action in actions.items()} == {
        "crawl": (),
        "news": ("crawl",),
        "static": ("crawl",),
        "index": ("news", "static"),
    }
    assert write_condition(actions["index"].condition) == "words or front and size"
    news, static = actions["news"].bounds[0], actions["static"].bounds[0]
    assert (news.time, news.sequence.limit, news.value.limit) == (200, 100, 0.1)
    assert (static.time, static.sequence.limit, static.value.limit) == (300, 500, 0.2)
