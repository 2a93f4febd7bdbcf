"""A run of a stage that changes its files and not its state, and the removal of files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec.structs import replace

from headgate.incremental.epochs.maintenance import LARGEST, Maintained, maintain
from headgate.incremental.stages.errors import StageError
from headgate.incremental.state.compaction import TIERS, WHOLLY, Tiers
from headgate.incremental.state.errors import ChangedStage, StateError
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import read_manifest, unneeded
from headgate.incremental.state.names import Writer, is_manifest, upkeep_prefix
from headgate.spark import StageResult, decode_result, parse_increment_name

if TYPE_CHECKING:
    from headgate.spark import Run


def maintain_stage(
    run: Run, *, wholly: bool = False, largest: int = LARGEST, tiers: Tiers = TIERS
) -> Maintained | None:
    """Merge or split what one bucket of a stage's state needs most, as a run without increments.

    The stage's code is not needed. The run's commit decides it as it decides an epoch: attempts may
    be killed and repeated. An epoch may begin with the same state meanwhile, if at most one of both
    commits: neither removes what the other writes. What it replaces, and what attempts leave that
    are not committed, later epochs remove.

    Args:
        run: the attempt.
        wholly: whether all that can be done is, in this run, instead of what is needed most.
        largest: bytes of a bucket that is not split.
        tiers: how runs are merged, and so what is needed.

    Returns:
        What was done last; None where nothing is needed, and then the run names nothing, so that
        the state of before stands.

    Raises:
        StageError: the action is no stage.
        ChangedStage: the action was no stage when it last ran.
        DamagedState: a file of the state is not what it was.
        UnwrittenFile: a file could not be written.
    """
    if run.stage is None:
        message = f"action `{run.action}` is no stage: it has no state that could be maintained"
        raise StageError(message)
    previous = manifest_before(run)
    if not previous:
        return None
    stage = f"{run.dataflow}/{run.action}"
    writer = Writer.of_upkeep(stage, run.id, run.attempt, uuid4().hex, previous)
    store = FileStore.at(run.stage.location)
    tiers = WHOLLY if wholly else tiers
    done = step = maintain(store, writer, previous, largest=largest, tiers=tiers)
    while wholly and step is not None:
        step = maintain(store, writer, step.manifest, largest=largest, tiers=tiers)
        done = step or done
    if done is not None:
        run.commit_as(StageResult(done.manifest, upkeep=done.left > 0).encoded())
    return done


def manifest_before(run: Run) -> str:
    """Return the name of the manifest that the last committed run has named; empty where none has.

    Raises:
        ChangedStage: it named something else.
    """
    if not run.previous:
        return ""
    result = decode_result(run.previous)
    if result is None:
        message = (
            f"action `{run.action}` was no stage when it last ran: its commit named "
            f"{run.previous!r:.200}. Give the stage an action of another name"
        )
        raise ChangedStage(message)
    return result.manifest


def collect(
    store: FileStore,
    writer: Writer,
    there: Iterable[str],
    previous: str,
    needed: Iterable[str],
) -> None:
    """Remove files that neither the last two states, nor increments, nor living attempts need.

    Args:
        store: where they are.
        writer: the attempt. Another of its run may be writing, and may have committed already.
        there: names of files, listed before anything of this attempt was written.
        previous: the name of the manifest of the state that it began with.
        needed: names of increments that others may still read.

    Raises:
        DamagedState: a manifest is not there.
    """
    there = list(there)
    if any(_follows(store, name, previous) for name in there):
        return  # this attempt may be too late: what it takes for garbage may be the state
    before = read_manifest(store, previous)
    kept = {previous: before}
    if before.previous:
        kept[before.previous] = read_manifest(store, before.previous)
    for name, flows in _needed_outputs(needed).items():
        if name not in kept:
            manifest = read_manifest(store, name)
            # Of a state that nobody goes on with, only what others may still read.
            outputs = {flow: manifest.outputs.get(flow, ()) for flow in flows}
            kept[name] = replace(
                manifest, buckets=(), outputs=outputs, sendings=(), waiting={}, written={}
            )
    living = (writer.run_prefix, upkeep_prefix(writer.stage, previous))
    for name in unneeded(there, kept, living):
        store.remove(name)


def _follows(store: FileStore, name: str, previous: str) -> bool:
    """Return whether a file is the manifest of what may be the state after one."""
    if not is_manifest(name):
        return False
    try:
        return read_manifest(store, name).previous == previous
    except StateError:
        return False  # it is not whole, so that nobody has committed it


def _needed_outputs(names: Iterable[str]) -> dict[str, set[str]]:
    """Return, by manifest, which of its outputs increments with these names are."""
    found: dict[str, set[str]] = {}
    for name in names:
        increment = parse_increment_name(name)
        found.setdefault(increment.manifest, set()).add(increment.part)
    return found
