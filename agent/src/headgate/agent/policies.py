"""The kinds of trigger policies that an agent knows: one list, with all that each of them needs.

Another kind of trigger is a package of its own and an entry here, with its section of the dataflow
file. What it says for ``explain`` is its policy's report. Rooms below the agent, such as replays,
get what they need of the list as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from headgate.agent.advisers.metrics import MetricAdviser
from headgate.agent.configuration import AgentConfiguration
from headgate.agent.metrics import DataflowMetrics
from headgate.agent.ports import Adviser
from headgate.agent.supervision import Supervision
from headgate.agent.training.adviser import LearnedAdviser, Trains
from headgate.agent.training.knowledge import Knowledge
from headgate.engine import (
    BOUNDS,
    MAKERS,
    DataflowSpec,
    PolicyFactory,
    PolicyMaker,
    PolicyReport,
    with_triggers,
)
from headgate.learning import LEARNED, learned


class Advised(Struct, frozen=True):
    """A dataflow whose trigger policies ask, and what those who answer work with."""

    spec: DataflowSpec
    configuration: AgentConfiguration
    trainer: Trains
    knowledge: Knowledge
    computes: MetricAdviser
    """Users' metrics of the dataflow."""
    metrics: DataflowMetrics
    supervision: Supervision


class TriggerKind(Struct, frozen=True):
    """A kind of trigger."""

    kind: str
    make: PolicyMaker
    """Makes the policies of those actions of a dataflow that have such triggers."""
    section: str = ""
    """Section of the dataflow file that gives actions such triggers; empty where it has none."""
    adviser: Callable[[Advised], Adviser] | None = None
    """Makes who answers what such policies of a dataflow ask; None where they ask nothing."""
    measure: Callable[[DataflowMetrics, Iterable[PolicyReport]], None] | None = None
    """Sets gauges by what such policies of a dataflow report; None where there are no gauges."""


def _trains(advised: Advised) -> LearnedAdviser:
    return LearnedAdviser(
        advised.spec,
        advised.configuration.kafka,
        advised.trainer,
        advised.knowledge,
        advised.computes,
        advised.metrics,
        advised.supervision,
    )


TRIGGER_KINDS: Final = (
    TriggerKind("synchrony", MAKERS["synchrony"]),
    TriggerKind("runnable", MAKERS["runnable"]),
    TriggerKind(BOUNDS, MAKERS[BOUNDS], "bounds", lambda advised: advised.computes),
    TriggerKind("significance", MAKERS["significance"], "significance"),
    TriggerKind(LEARNED, learned, "learned", _trains, DataflowMetrics.show_models),
)

POLICIES: Final[PolicyFactory] = with_triggers({known.kind: known.make for known in TRIGGER_KINDS})
"""Makes the policies of any dataflow."""


def advisers_of(advised: Advised) -> dict[str, Adviser]:
    """Return who answers what the trigger policies of a dataflow ask, by their kind."""
    return {
        known.kind: known.adviser(advised) for known in TRIGGER_KINDS if known.adviser is not None
    }
