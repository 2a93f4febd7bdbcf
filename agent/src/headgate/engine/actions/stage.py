"""The flows of one stage: what waits for it, what it made, and what its runnable remembers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from headgate.engine.connectors.connector import Connector, FlowView, Take
from headgate.engine.protocol.increments import FlowTaken, Increment, Produced
from headgate.engine.spec.stages import RunnableSpec, StageSpec


class StageState(Struct, frozen=True):
    """What is saved of a stage; see ``Stage``."""

    connectors: dict[str, Connector]
    made: dict[str, int]
    remembered: dict[str, int]
    runnable: RunnableSpec
    held_since: float | None = None


class Stage:
    """The flows of an action."""

    __slots__ = ("connectors", "held_since", "made", "remembered", "spec")

    def __init__(self, spec: StageSpec) -> None:
        self.spec = spec
        self.connectors = {name: Connector(source) for name, source in spec.inputs.items()}
        """By input flow, what waits."""
        self.made = dict.fromkeys(spec.outputs, 0)
        """By output flow, how many increments were ever made: the index of the next."""
        self.remembered: Mapping[str, int] = {}
        """What its policy remembers from run to run."""
        self.held_since: float | None = None
        """When it was found to be due and held, in Unix seconds."""

    def views(self) -> dict[str, FlowView]:
        """Return what waits on each input flow."""
        return {name: connector.view() for name, connector in self.connectors.items()}

    def take(self, take: Take) -> dict[str, FlowTaken]:
        """Have a run take what its policy wants; return that by flow."""
        taken: dict[str, FlowTaken] = {}
        for name in dict.fromkeys((*take.reads, *take.removes)):
            self.connectors[name], taken[name] = self.connectors[name].take(
                read=name in take.reads, remove=name in take.removes
            )
        self.remembered = dict(take.state)
        return taken

    def restore(self, taken: Mapping[str, FlowTaken], remembered: Mapping[str, int]) -> None:
        """Put back what a run took that has come to nothing, and what was remembered before."""
        for name, part in taken.items():
            if name in self.connectors:
                self.connectors[name] = self.connectors[name].restore(part)
        self.remembered = remembered

    def number(self, produced: Iterable[Produced]) -> dict[str, list[Increment]]:
        """Return what a run has made, by output flow, numbered on from what was made before.

        What it has made for flows that it does not have any more is left out.
        """
        made: dict[str, list[Increment]] = {}
        for one in produced:
            index = self.made.get(one.flow)
            if index is not None:
                self.made[one.flow] = index + 1
                increment = Increment(one.name, index, one.rows, one.key)
                made.setdefault(one.flow, []).append(increment)
        return made

    def save(self) -> StageState:
        """Return what a stage needs to go on."""
        return StageState(
            dict(self.connectors),
            dict(self.made),
            dict(self.remembered),
            self.spec.runnable,
            self.held_since,
        )

    def load(self, saved: StageState) -> None:
        """Go on from what was saved, as far as flows and runnable are still the same."""
        for name, connector in saved.connectors.items():
            if name in self.connectors and self.connectors[name].source == connector.source:
                self.connectors[name] = connector
        self.made |= {name: made for name, made in saved.made.items() if name in self.made}
        if saved.runnable == self.spec.runnable:
            self.remembered = saved.remembered
        self.held_since = saved.held_since
