"""Changes of a stage since its state was written, and what can become of the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

import pyarrow as pa
from msgspec import Struct

from headgate.incremental.stages.shape import StageShape, shape_of
from headgate.incremental.stages.specification import STATE, StageSpec
from headgate.incremental.state.batches import only_adds
from headgate.incremental.state.manifest import Manifest, WrittenBy
from headgate.incremental.state.rows import Match, stored_as_state


class Answer(StrEnum):
    """Possible outcomes for a state after a change of its stage."""

    KEPT = "kept"
    """It may be right as it is: ``on_change: keep`` says that it is."""
    REBUILT = "rebuilt"
    """It can only be made anew."""


class StageChange(Struct, frozen=True):
    """One thing that has changed."""

    words: str
    answer: Answer


def changes_of(
    stage: StageSpec,
    manifest: Manifest,
    *,
    match: Match,
    schemas: Mapping[str, bytes],
    now: WrittenBy,
    read_by_stages: frozenset[str],
) -> Iterator[StageChange]:
    """Yield what has changed since a state was written.

    Args:
        stage: as it is now.
        manifest: of the state.
        match: how rows of the state are told apart now.
        schemas: columns by flow now, the state's too, serialised.
        now: what the stage is now besides.
        read_by_stages: its output flows that other stages read.
    """
    if manifest.match is not match:
        words = f"its state matched by {manifest.match}, and now by {match}"
        yield StageChange(words, Answer.REBUILT)
    yield from _columns(manifest, schemas, read_by_stages)
    for flow in stage.inputs:
        if flow not in manifest.cursors:
            yield StageChange(f"it did not read `{flow}`", Answer.REBUILT)
    for flow in manifest.cursors:
        if flow not in stage.inputs:
            yield StageChange(f"it read `{flow}` too", Answer.REBUILT)
    for flow, known in manifest.written_by.containers.items():
        if now.containers.get(flow, known) != known:
            words = f"container `{flow}` had other columns, rows, codec or keys"
            yield StageChange(words, Answer.REBUILT)
    yield from _of_code(stage, manifest, now)


def _of_code(stage: StageSpec, manifest: Manifest, now: WrittenBy) -> Iterator[StageChange]:
    before = manifest.written_by
    is_known = bool(before.keys or before.settings)
    for words in StageShape(before.keys).differing(StageShape(now.keys)) if is_known else ():
        yield StageChange(words, Answer.REBUILT)
    if manifest.code != stage.code:
        words = f"its version was {manifest.code!r} and is {stage.code!r}"
        yield StageChange(words, Answer.KEPT)
    settings = StageShape(settings=before.settings), StageShape(settings=now.settings)
    for words in settings[0].differing(settings[1]) if is_known else ():
        yield StageChange(words, Answer.KEPT)
    if stage.goes_by_code and before.modules and now.modules:
        both = {**before.modules, **now.modules}
        other = [name for name in both if before.modules.get(name) != now.modules.get(name)]
        if other:
            names = ", ".join(f"`{name}`" for name in sorted(other))
            words = f"its code has changed ({names}), and it gives no `version`"
            yield StageChange(words, Answer.KEPT)
    if stage.goes_by_code:
        for file in before.files.keys() & now.files.keys():
            if before.files[file] != now.files[file]:
                words = f"`{file}`, on which it depends, has changed, and it gives no `version`"
                yield StageChange(words, Answer.KEPT)


def _columns(
    manifest: Manifest, schemas: Mapping[str, bytes], read_by_stages: frozenset[str]
) -> Iterator[StageChange]:
    for flow in {**manifest.schemas, **schemas}:
        before, now = (_schema(flow, known) for known in (manifest.schemas, schemas))
        if before is not None and now is not None and before.equals(now, check_metadata=True):
            continue
        what = "its state" if flow == STATE else f"output flow `{flow}`"
        # Readers are given nulls of rows that were made before a column was there.
        adds = before is not None and now is not None and only_adds(before, now)
        kept = flow != STATE and (flow not in read_by_stages or adds)
        answer = Answer.KEPT if kept else Answer.REBUILT
        yield StageChange(f"{what}: {_differing(before, now)}", answer)


def _schema(flow: str, known: Mapping[str, bytes]) -> pa.Schema | None:
    if flow not in known:
        return None
    schema = pa.ipc.read_schema(pa.py_buffer(known[flow]))
    return stored_as_state(schema) if flow == STATE else schema


def _differing(before: pa.Schema | None, now: pa.Schema | None) -> str:
    if before is None or now is None:
        return "there was none" if before is None else "there is none any more"
    words = []
    for name in dict.fromkeys((*before.names, *now.names)):
        was, is_now = (
            [str(schema.field(at).type) for at in schema.get_all_field_indices(name)]
            for schema in (before, now)
        )
        if not was or not is_now:
            words.append(f"column `{name}` is {'new' if not was else 'gone'}")
        elif was != is_now:
            words.append(f"column `{name}` was {was[0]} and is {is_now[0]}")
    return ", ".join(words) or "columns come in another order, or may be null now, or not any more"


def written_by(
    stage: StageSpec,
    modules: Mapping[str, str],
    containers: Mapping[str, str],
    files: Mapping[str, str],
) -> WrittenBy:
    """Return what a stage is besides its version.

    Args:
        stage: that runs.
        modules: of its code, with their hashes.
        containers: hashes of what containers are, by name.
        files: that it depends on, with their hashes.
    """
    shape = shape_of(stage)
    read = {flow: containers[flow] for flow in stage.inputs if flow in containers}
    return WrittenBy(dict(shape.keys), dict(shape.settings), dict(modules), read, dict(files))
