"""What is always true of an engine. Every test of the room calls this at its end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headgate.engine.actions.action import Action
from headgate.engine.actions.runs import RunState
from headgate.engine.cells import sums
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import Detail
from headgate.engine.cells.elements import Key
from headgate.engine.cells.pending import Pending
from headgate.engine.cells.sums import RunningSum, Value, differs, distance, number
from headgate.engine.core.engine import Engine
from headgate.engine.protocol.work import RunPurpose
from headgate.engine.spec.dataflow import ActionRole
from headgate.engine.stages.stage import Stage


class BrokenInvariant(AssertionError):
    """The engine contradicts itself: a defect of the engine, never of its input."""


_ACTIVE = {RunState.LAUNCHED, RunState.RUNNING, RunState.BACKOFF}


def check_invariants(engine: Engine) -> None:
    """Raise if the engine's state is inconsistent.

    Raises:
        BrokenInvariant: naming what contradicts what.
    """
    for action in engine.actions.values():
        place = f"action {action.name}"
        if (action.run is not None) != (action.state in _ACTIVE):
            raise BrokenInvariant(f"{place}: state {action.state} with run {action.run}")
        if action.run is not None:
            run = action.run
            if action.state is not RunState.BACKOFF and run.retry_at is not None:
                raise BrokenInvariant(f"{place}: a retry is due while {action.state}")
            if not run.cut.covers(run.since):
                raise BrokenInvariant(f"{place}: the cut goes backwards")
            if not engine.cut.covers(run.cut):
                raise BrokenInvariant(f"{place}: a cut of the future")
            standing = "" if action.last is None else action.last.result
            if run.previous != standing:
                raise BrokenInvariant(
                    f"{place}: it goes on from {run.previous!r} while {standing!r} stands"
                )
        if action.spec.role is ActionRole.INPUT:
            if action.number != 0:
                raise BrokenInvariant(f"{place}: an input was launched")
        elif action.number:
            missing = [p for p in action.spec.after if not engine.actions[p].has_run]
            if missing:
                raise BrokenInvariant(f"{place}: ran before {missing}")
        if action.requested and action.missed is None:
            raise BrokenInvariant(f"{place}: nobody remembers that a run was asked for")
        if not action.ended <= set(action.spec.after):
            raise BrokenInvariant(f"{place}: {action.ended} are not all predecessors")
        stage = engine.stages.get(action.name)
        if stage is not None:
            _check_stage(engine, action, stage, place)
    for cells in engine.cells.values():
        _check_cells(engine, cells)


def _check_stage(engine: Engine, action: Action, stage: Stage, place: str) -> None:
    # What a run has taken is not put back where all comes anew.
    run = None if stage.wanted is RunPurpose.REBUILD else action.run
    taken = {} if run is None else run.work.taken
    if stage.awaited and stage.wanted is not RunPurpose.REBUILD:
        raise BrokenInvariant(f"{place}: {stage.awaited} are awaited, and nothing is made anew")
    if stage.asked is not None and (action.run is not None or action.missed is None):
        raise BrokenInvariant(f"{place}: its runnable is asked, and nobody waits for it")
    for name in stage.awaited:
        maker = engine.actions[stage.connectors[name].source.action]
        anew = maker.run is not None and maker.run.work.purpose is RunPurpose.REBUILD
        making = engine.stages.get(maker.name)
        if not (anew or (making is not None and making.wanted is RunPurpose.REBUILD)):
            raise BrokenInvariant(f"{place}: `{maker.name}` is awaited, which is not made anew")
        if stage.connectors[name].waiting:
            raise BrokenInvariant(f"{place}: what waits on `{name}` is awaited anew")
    for name, connector in stage.connectors.items():
        waits = f"{place}, flow {name}"
        indexes = [increment.index for increment in connector.waiting]
        if name in taken and taken[name].source == connector.source:
            indexes = [increment.index for increment in taken[name].removed] + indexes
        if indexes != sorted(set(indexes)):
            raise BrokenInvariant(f"{waits}: out of order, {indexes}")
        if connector.read > len(connector.waiting):
            raise BrokenInvariant(
                f"{waits}: {connector.read} of {len(connector.waiting)} that wait were read"
            )
        source = engine.stages.get(connector.source.action)
        made = 0 if source is None else source.made[connector.source.flow]
        if indexes and indexes[-1] >= made:
            raise BrokenInvariant(f"{waits}: {indexes} wait, but {made} were made")


def _check_cells(engine: Engine, cells: ContainerCells) -> None:
    place = f"container {cells.watched.id}, table {cells.table}"
    known = cells.columns.contents()
    if cells.detail is Detail.COUNTS and known:
        raise BrokenInvariant(f"{place}: cells are kept that no bound needs")
    if len(known) != cells.columns.size:
        raise BrokenInvariant(f"{place}: there are not {cells.columns.size} cells")
    if cells.columns.rows_apart and len({row for row, _ in known}) != cells.columns.rows:
        raise BrokenInvariant(f"{place}: rows and cells disagree")
    if not cells.reads.reading <= cells.reads.unsettled:
        raise BrokenInvariant(f"{place}: settled cells are read")
    for name in cells.watchers.consumed:
        if engine.actions[name].run is None:
            raise BrokenInvariant(f"{place}: consumed by {name}, which has no run")
    for pending in cells.watchers.pendings:
        _check_pending(cells, known, pending, f"{place}, action {pending.action}")


def _check_pending(
    cells: ContainerCells, known: Mapping[Key, Value], pending: Pending, place: str
) -> None:
    taken = cells.watchers.consumed.get(pending.action)
    counted = pending.updates + pending.committed + (taken.updates if taken is not None else 0)
    if counted != pending.received:
        raise BrokenInvariant(
            f"{place}: {pending.received} updates came, {counted} are accounted for"
        )
    if pending.keeps_distinct and len(pending.distinct) > pending.updates:
        raise BrokenInvariant(f"{place}: more distinct elements than updates")
    previous = cells.columns.previous(pending.past)
    pairs = [(known.get(key), before) for key, before in previous.items()]
    changed = sum(differs(new, before) for new, before in pairs)
    differences = [distance(new, before) for new, before in pairs]
    difference, largest = sums.exact_total(np.array(differences)), max(differences, default=0.0)
    if (changed, difference, largest) != pending.measured():
        raise BrokenInvariant(
            f"{place}: measured are {pending.measured()}, not {changed, difference, largest}"
        )
    if changed != pending.changed:
        raise BrokenInvariant(
            f"{place}: {pending.changed} changed cells were counted, there are {changed}"
        )
    if not _is_within(difference, pending.difference):
        raise BrokenInvariant(
            f"{place}: Σ|x−x′| is {difference}, not {pending.difference.value}, give or take "
            f"{pending.difference.error}"
        )
    if largest != pending.largest():
        raise BrokenInvariant(f"{place}: max |x−x′| is {largest}, not {pending.largest()}")
    if pending.keeps_values:
        magnitude = sums.magnitude(np.array([number(v) for v in {**known, **previous}.values()]))
        if not _is_within(magnitude, pending.magnitude):
            raise BrokenInvariant(
                f"{place}: Σ|x′| is {magnitude}, not {pending.magnitude.value}, give or take "
                f"{pending.magnitude.error}"
            )


def _is_within(exact: float, running: RunningSum) -> bool:
    return running.least <= exact <= running.most
