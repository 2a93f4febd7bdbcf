"""The data cube (BIPS, Figure 5), run by Figure 6's scheduler with one stage at a time.

``split`` and ``preprocess`` have input without end. Costs are in any unit of time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headgate.engine.connectors.connector import Connector, Take
from headgate.engine.connectors.turns import Hold, OutputFlow, Reader, Turn, hold_of, next_in_turn
from headgate.engine.protocol.increments import Increment
from headgate.engine.spec.stages import FlowId, RunnableSpec, StageSpec
from headgate.engine.triggers.runnables.runnable import Waits
from headgate.engine.triggers.runnables.table import make_runnable

UPDATES, QUERIES = FlowId("update", "updates"), FlowId("preprocess", "queries")
PRIORITY = RunnableSpec("prefer", {"queries": 4, "updates": 1})
OUTPUTS = {"split": "tuples", "update": "updates", "preprocess": "queries", "cube": "answers"}


def stages(rule: RunnableSpec) -> dict[str, StageSpec]:
    return {
        "split": StageSpec({}, ("tuples",)),
        "update": StageSpec({"tuples": FlowId("split", "tuples")}, ("updates",)),
        "preprocess": StageSpec({}, ("queries",)),
        "cube": StageSpec({"updates": UPDATES, "queries": QUERIES}, ("answers",), rule),
        "result": StageSpec({"answers": FlowId("cube", "answers")}),
    }


class DataCube:
    """What ran how often until the time was over."""

    def __init__(
        self,
        rule: RunnableSpec,
        costs: Mapping[str, float],
        *,
        held: bool,
        until: float = 5_000.0,
    ) -> None:
        self._stages = stages(rule)
        self._runnables = {n: make_runnable(n, stage) for n, stage in self._stages.items()}
        self._connectors = {
            (name, flow): Connector(source)
            for name, stage in self._stages.items()
            for flow, source in stage.inputs.items()
        }
        self._states: dict[str, Mapping[str, int]] = {name: {} for name in self._stages}
        self._costs = costs
        self.runs: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        since: dict[str, int] = {}
        epoch, time = 0, 0.0
        while time < until:
            due = {name for name in self._stages if isinstance(self._judge(name), Take)}
            since = {name: since.get(name, epoch) for name in self._stages if name in due}
            turns = {name: Turn(self.runs[name], since[name]) for name in since}
            chosen = next_in_turn(turns, self._holds(due) if held else {})
            assert chosen is not None, "everybody waits for somebody"
            epoch += 1
            del since[chosen]
            time += self._run(chosen)

    @property
    def useless_updates(self) -> float:
        """The share of the runs of ``update`` of which nothing was read."""
        return 1 - self.read["updates"] / self.runs["update"]

    def _judge(self, name: str) -> Take | Waits:
        flows = {flow: self._connectors[name, flow].view() for flow in self._stages[name].inputs}
        return self._runnables[name].judge(flows, self._states[name])

    def _holds(self, due: set[str]) -> dict[str, Hold]:
        holds = {name: hold_of(self._outputs(name)) for name in due}
        return {name: hold for name, hold in holds.items() if hold is not None}

    def _outputs(self, name: str) -> list[OutputFlow]:
        return [
            OutputFlow(flow, tuple(self._readers(FlowId(name, flow))))
            for flow in self._stages[name].outputs
        ]

    def _readers(self, source: FlowId) -> list[Reader]:
        found = []
        for (name, flow), connector in self._connectors.items():
            if connector.source == source:
                answer = self._judge(name)
                needs = isinstance(answer, Waits) and flow in answer.flows
                found.append(Reader(name, connector.view(), 1_000_000, needs))
        return found

    def _run(self, name: str) -> float:
        take = self._judge(name)
        assert isinstance(take, Take)
        for flow in take.reads:
            place = name, flow
            self._connectors[place], taken = self._connectors[place].take(read=True, remove=True)
            self.read[flow] += len(taken.read)
        self._states[name] = take.state
        number = self.runs[name]
        self.runs[name] += 1
        output = OUTPUTS.get(name)
        if output is not None and (name != "cube" or "queries" in take.reads):
            made = Increment(f"{name}-{output}-{number}", number, 1)
            for place, connector in self._connectors.items():
                if connector.source == FlowId(name, output):
                    self._connectors[place] = connector.enqueue([made])
        return self._costs[name]
