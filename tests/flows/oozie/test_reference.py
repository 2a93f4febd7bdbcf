"""The reference of workflows with bounds says what the code does."""

import re
from pathlib import Path

from headgate.engine import Bound, write_condition
from headgate.flows import ImportChoices, import_workflow, parse_dataflow
from headgate.learning import OutputSettings, settings_of

REFERENCE = Path(__file__).parents[3] / "docs" / "oozie.md"
WORKFLOW, BOUNDED = re.findall(
    r"```xml\n(.*?)```", REFERENCE.read_text(encoding="utf-8"), re.DOTALL
)


def limits(bound: Bound) -> tuple[object, object, object]:
    assert bound.sequence is not None
    assert bound.value is not None
    return bound.time, bound.sequence.limit, bound.value.limit


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
    condition = actions["index"].condition
    assert condition is not None
    assert write_condition(condition) == "words or front and size"
    assert limits(actions["news"].bounds[0]) == (200, 100, 0.1)
    assert limits(actions["static"].bounds[0]) == (300, 500, 0.2)


def test_the_workflow_with_error_bounds_is_imported_as_it_is():
    imported = import_workflow(BOUNDED, REFERENCE.name, ImportChoices(inputs=("feed",)))
    dataflow = parse_dataflow(imported.text, "flow.yaml")

    assert imported.warnings == ()
    # Oozie's element has no place for it, and the default is too few for a confidence of 99 %.
    assert [problem.cure for problem in dataflow.warnings] == [
        "raise `waves` to 349, or lower the confidence"
    ]
    actions = {action.name: action for action in dataflow.spec.actions}
    assert actions["feed"].writes == ("detectors-s-density",)
    assert (actions["areas"].after, actions["index"].after) == (("feed",), ("areas",))
    decided = [action for action in actions.values() if action.trigger is not None]
    assert [action.name for action in decided] == ["areas", "index"]
    assert settings_of(decided).outputs == {
        "areas-a-mean": OutputSettings(0.1),
        "index-i-level": OutputSettings(0.05, confidence=0.99),
    }
