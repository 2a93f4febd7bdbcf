"""Another specification from here on, and the topics that it reads."""

from __future__ import annotations

import math
from collections.abc import Iterable

from headgate.engine.actions.action import Action
from headgate.engine.actions.graph import CellsPlace, unchanged_cells
from headgate.engine.checkpoint.changelog import Changelog
from headgate.engine.checkpoint.snapshot import restore, state_of
from headgate.engine.core.core import Core
from headgate.engine.core.evaluation import Evaluator
from headgate.engine.core.outcomes import Outcomes
from headgate.engine.core.table_reads import TableReads
from headgate.engine.protocol.instructions import DecisionKind
from headgate.engine.protocol.stimuli import SpecificationChanged, TopicsOpened
from headgate.engine.spec.dataflow import DataflowSpec, FirstChanges, check_specification
from headgate.engine.spec.reading import Reading, edits_between, reading_of
from headgate.engine.stages.rebuilding import Unrebuildable
from headgate.engine.triggers.policy import Notice
from headgate.events import updates_topic

_CHANGED = "change of the dataflow"


class SpecificationChanges:
    """Has another specification hold, and other topics be read."""

    def __init__(
        self,
        core: Core,
        reads: TableReads,
        evaluator: Evaluator,
        outcomes: Outcomes,
        log: Changelog,
    ) -> None:
        self._state = core.state
        self._output = core.output
        self._clocks = core.clocks
        self._policies = core.policies
        self._reads = reads
        self._evaluator = evaluator
        self._log = log
        self._outcomes = outcomes

    def open_topics(self, stimulus: TopicsOpened) -> None:
        """Begin to read topics."""
        state = self._state
        state.deliveries.open(stimulus.positions)
        for action in state.actions.values():
            action.meet(state.cut, state.now)

    def change(self, stimulus: SpecificationChanged) -> None:
        """Go on with another specification; what is unchanged keeps its state."""
        state = self._state
        check_specification(stimulus.spec)
        policies = state.policies_of(stimulus.spec)
        kept = unchanged_cells(state.cells, stimulus.spec, policies)
        others = [cells for place, cells in state.cells.items() if place not in kept]
        before = state_of(state, others)
        specs = {action.name: action.spec for action in state.actions.values()}
        former, state.spec = state.spec, stimulus.spec
        state.build(policies, kept)
        restore(state, before)
        self._log.forget_cells(others)
        for cells in others:
            cells.close()
        self._read_other_topics(former)
        changed = [a for a in state.actions.values() if specs.get(a.name, a.spec) != a.spec]
        for action in changed:
            # Other bounds may have been reached by a time at which the former ones were looked at.
            action.looked_at = -math.inf
            action.wait_until = None
            action.shown = ""
            action.found = ()
        self._clocks.set_all()
        self._output.decide(DecisionKind.SPECIFICATION_CHANGED, "another specification holds")
        self._reads.scan_unknown()
        self._clocks.start_all()
        self._policies.all_hear(Notice.BEGUN)
        # Before anything is evaluated: a run that is launched now reads what the edit says.
        self.begin_anew(before.read)
        self._evaluator.ask_again()
        self._evaluator.take_up(state.actions.values())
        for action in state.actions.values():
            # With a definition code may have changed, too: a runnable may say something else now.
            if state.stages.forget_answer(action.name):
                self._evaluator.wake(action, _CHANGED)
        other = [a for a in state.actions.values() if any(p not in kept for p in _places(a))]
        for action in dict.fromkeys((*changed, *other)):
            if action.parts and action.moments.write:
                self._evaluator.consider(action, _CHANGED)

    def begin_anew(self, before: Reading) -> None:
        """Have stages rebuilt, and steps shown everything, that read something else since an edit.

        What was made before a stage read it is not kept for it, so its makers are rebuilt with it.
        A step with ``first_changes: none`` is not shown what stands: in tables that it has read
        already it goes on after its last run, in others it begins here.

        Args:
            before: what actions read before the edit, as far as that is known.
        """
        state = self._state
        edits = edits_between(before, reading_of(state.spec), state.begun)
        for name, tables in edits.shown_anew.items():
            action = state.actions[name]
            if action.spec.first_changes is FirstChanges.NONE:
                # Not shown what stands, it goes on in the tables that it has read: beginning at the
                # edit, it would miss what no run of it was shown.
                tables -= before.tables(name)
            action.forget(_topics(tables))
            action.meet(state.cut, state.now)
        together: dict[str, str] = {}
        for name, why in edits.contradicted.items():
            words = f"`{name}` was edited: {why}"
            try:
                for one in state.stages.rebuilt_together(name, with_sources=True):
                    together.setdefault(one, words)
            except Unrebuildable as error:
                # They wait for each other, instead of going on with a state that is wrong.
                for one in error.together:
                    state.stages.rebuild(one)
                words = f"{words}; it cannot be rebuilt: {error}"
                self._output.refuse(words, state.actions[name])
        for action in state.graph.in_order(together):
            self._outcomes.rebuild((action.name,), together[action.name])

    def _read_other_topics(self, former: DataflowSpec) -> None:
        """Begin anew with topics that nobody read meanwhile, and with those new to an action."""
        state = self._state
        gone = _topics(former.tables()) - _topics(state.spec.tables())
        state.deliveries.close(gone)
        for table in former.tables():
            if updates_topic(table) in gone:
                state.rivals.pop(table, None)
        before = {action.name: _topics(former.tables(action)) for action in former.actions}
        for action in state.actions.values():
            now = _topics(state.spec.tables(action.spec))
            action.forget(gone | now - before.get(action.name, now))
            action.meet(state.cut, state.now)


def _places(action: Action) -> list[CellsPlace]:
    """Return where the cells are that an action's policy watches."""
    return [(cells.watched.id, cells.table) for cells, _ in action.all_parts()]


def _topics(tables: Iterable[str]) -> set[str]:
    """Return the topics of tables."""
    return {updates_topic(table) for table in tables}
