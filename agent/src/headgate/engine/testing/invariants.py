"""What is always true of an engine. Every test of the room calls this at its end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headgate.engine.actions.action import Action
from headgate.engine.actions.runs import RunState
from headgate.engine.actions.stage import Stage
from headgate.engine.cells import sums
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import Detail
from headgate.engine.cells.elements import Key
from headgate.engine.cells.pending import Pending, Value, differs, distance, number
from headgate.engine.cells.sums import RunningSum
from headgate.engine.core.engine import Engine
from headgate.engine.protocol.purpose import RunPurpose
from headgate.engine.spec.dataflow import ActionRole


class BrokenInvariant(AssertionError):
    """The engine contradicts itself: a defect of the engine, never of its input."""


_ACTIVE = {RunState.LAUNCHED, RunState.RUNNING, RunState.BACKOFF}


def _require(*, holds: bool, words: str) -> None:
    if not holds:
        raise BrokenInvariant(words)


def check_invariants(engine: Engine) -> None:
    """Raise if the engine's state is inconsistent.

    Raises:
        BrokenInvariant: naming what contradicts what.
    """
    for action in engine.actions.values():
        place = f"action {action.name}"
        _require(
            holds=(action.run is not None) == (action.state in _ACTIVE),
            words=f"{place}: state {action.state} with run {action.run}",
        )
        if action.run is not None:
            run = action.run
            _require(
                holds=action.state is RunState.BACKOFF or run.retry_at is None,
                words=f"{place}: a retry is due while {action.state}",
            )
            _require(holds=run.cut.covers(run.since), words=f"{place}: the cut goes backwards")
            _require(holds=engine.cut.covers(run.cut), words=f"{place}: a cut of the future")
            standing = "" if action.last is None else action.last.result
            _require(
                holds=run.previous == standing,
                words=f"{place}: it goes on from {run.previous!r} while {standing!r} stands",
            )
        if action.spec.role is ActionRole.INPUT:
            _require(holds=action.number == 0, words=f"{place}: an input was launched")
        elif action.number:
            missing = [p for p in action.spec.after if not engine.actions[p].has_run]
            _require(holds=not missing, words=f"{place}: ran before {missing}")
        _require(
            holds=not action.requested or action.missed is not None,
            words=f"{place}: nobody remembers that a run was asked for",
        )
        _require(
            holds=action.ended <= set(action.spec.after),
            words=f"{place}: {action.ended} are not all predecessors",
        )
        if action.stage is not None:
            _check_stage(engine, action, action.stage, place)
    for cells in engine.cells.values():
        _check_cells(engine, cells)


def _check_stage(engine: Engine, action: Action, stage: Stage, place: str) -> None:
    taken = {} if action.run is None else action.run.taken
    _require(
        holds=not stage.awaited or stage.wanted is RunPurpose.REBUILD,
        words=f"{place}: {stage.awaited} are awaited, and nothing is made anew",
    )
    _require(
        holds=stage.asked is None or (action.run is None and action.missed is not None),
        words=f"{place}: its runnable is asked, and nobody waits for it",
    )
    for name in stage.awaited:
        maker = engine.actions[stage.connectors[name].source.action]
        anew = maker.run is not None and maker.run.purpose is RunPurpose.REBUILD
        _require(
            holds=anew or (maker.stage is not None and maker.stage.wanted is RunPurpose.REBUILD),
            words=f"{place}: `{maker.name}` is awaited, which is not made anew",
        )
        _require(
            holds=not stage.connectors[name].waiting,
            words=f"{place}: what waits on `{name}` is awaited anew",
        )
    for name, connector in stage.connectors.items():
        waits = f"{place}, flow {name}"
        indexes = [increment.index for increment in connector.waiting]
        if name in taken and taken[name].source == connector.source:
            indexes = [increment.index for increment in taken[name].removed] + indexes
        _require(holds=indexes == sorted(set(indexes)), words=f"{waits}: out of order, {indexes}")
        _require(
            holds=connector.read <= len(connector.waiting),
            words=f"{waits}: {connector.read} of {len(connector.waiting)} that wait were read",
        )
        source = engine.actions[connector.source.action].stage
        made = 0 if source is None else source.made[connector.source.flow]
        _require(
            holds=not indexes or indexes[-1] < made,
            words=f"{waits}: {indexes} wait, but {made} were made",
        )


def _check_cells(engine: Engine, cells: ContainerCells) -> None:
    place = f"container {cells.watched.id}, table {cells.table}"
    known = cells.columns.contents()
    _require(
        holds=cells.detail is not Detail.COUNTS or not known,
        words=f"{place}: cells are kept that no bound needs",
    )
    _require(
        holds=len(known) == cells.columns.size,
        words=f"{place}: there are not {cells.columns.size} cells",
    )
    if cells.columns.rows_apart:
        _require(
            holds=len({row for row, _ in known}) == cells.columns.rows,
            words=f"{place}: rows and cells disagree",
        )
    _require(
        holds=cells.reads.reading <= cells.reads.unsettled, words=f"{place}: settled cells are read"
    )
    for name in cells.watchers.consumed:
        _require(
            holds=engine.actions[name].run is not None,
            words=f"{place}: consumed by {name}, which has no run",
        )
    for pending in cells.watchers.pendings:
        _check_pending(cells, known, pending, f"{place}, action {pending.action}")


def _check_pending(
    cells: ContainerCells, known: Mapping[Key, Value], pending: Pending, place: str
) -> None:
    taken = cells.watchers.consumed.get(pending.action)
    counted = pending.updates + pending.committed + (taken.updates if taken is not None else 0)
    _require(
        holds=counted == pending.received,
        words=f"{place}: {pending.received} updates came, {counted} are accounted for",
    )
    if pending.keeps_distinct:
        _require(
            holds=len(pending.distinct) <= pending.updates,
            words=f"{place}: more distinct elements than updates",
        )
    previous = cells.columns.previous(pending.past)
    pairs = [(known.get(key), before) for key, before in previous.items()]
    changed = sum(differs(new, before) for new, before in pairs)
    differences = [distance(new, before) for new, before in pairs]
    difference, largest = sums.exact_total(np.array(differences)), max(differences, default=0.0)
    _require(
        holds=(changed, difference, largest) == pending.measured(),
        words=f"{place}: measured are {pending.measured()}, not {changed, difference, largest}",
    )
    _require(
        holds=changed == pending.changed,
        words=f"{place}: {pending.changed} changed cells were counted, there are {changed}",
    )
    _require(
        holds=_is_within(difference, pending.difference),
        words=f"{place}: Σ|x−x′| is {difference}, not {pending.difference.value}, give or take "
        f"{pending.difference.error}",
    )
    _require(
        holds=largest == pending.largest(),
        words=f"{place}: max |x−x′| is {largest}, not {pending.largest()}",
    )
    if pending.keeps_values:
        magnitude = sums.magnitude(np.array([number(v) for v in {**known, **previous}.values()]))
        _require(
            holds=_is_within(magnitude, pending.magnitude),
            words=f"{place}: Σ|x′| is {magnitude}, not {pending.magnitude.value}, give or take "
            f"{pending.magnitude.error}",
        )


def _is_within(exact: float, running: RunningSum) -> bool:
    return running.least <= exact <= running.most
