"""Increments that other stages have made, as a stage reads them (BIPS, section 2.2).

An increment is files of its maker's epoch, which the maker's manifest names. All stages of a
dataflow keep their files in one place, so that its name alone says where it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from shlex import quote

import msgspec
import pyarrow as pa
from msgspec import Struct

from headgate.engine import FilesSpec, TopicSpec
from headgate.incremental.arrivals import Arrivals, files_cursor
from headgate.incremental.epochs.cluster import rows_of_files
from headgate.incremental.sources import read_files
from headgate.incremental.stages.carried import CarriedRows, FlowIncrement, union
from headgate.incremental.stages.errors import StageError
from headgate.incremental.stages.specification import InputFlow, OrderBy, RouteBy, StageSpec
from headgate.incremental.state.batches import BatchFile, only_adds, with_columns
from headgate.incremental.state.errors import ChangedStage
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.manifest import Manifest, read_manifest
from headgate.incremental.topics.cursors import check_gaps, topic_cursor, unread_of
from headgate.incremental.topics.kafka import TopicSource
from headgate.incremental.topics.reading import read_unread
from headgate.spark import (
    FramePart,
    Run,
    StageRequest,
    parse_frame_part,
    parse_increment_name,
)


class FlowCursor(Struct, frozen=True, tag="flow"):
    """How far a flow was read that another stage makes."""

    last: str
    """The name of the last increment that was read; empty where none was."""
    columns: bytes
    """Arrow's schema of the flow, serialised, for runs that read nothing of it; empty as ``last``.
    """
    whole: str = ""
    """The name of the last increment that was all there was; empty where none is known."""


class _Made(Struct, frozen=True, eq=False):
    """An increment, found by its name."""

    name: str
    stage: str
    whole: bool
    """Whether its maker began with nothing: it is all that there is of the flow."""
    refs: tuple[FileRef, ...]
    schema: pa.Schema


class FlowReader:
    """Reads what one attempt is to read of flows that other stages make.

    Args:
        stage: its name, for errors.
        run: the attempt.
        request: which increments it reads.
        store: where they are.
        topics: where topics are read.

    Attributes:
        cursors: how far the flows are read, of those that were asked for so far.
    """

    def __init__(
        self, stage: str, run: Run, request: StageRequest, store: FileStore, topics: TopicSource
    ) -> None:
        self._stage = stage
        self._run = run
        self._request = request
        self._store = store
        self._topics = topics
        self._found: dict[str, list[_Made]] = {}
        self.cursors: dict[str, bytes] = {}

    def is_whole(self, flow: str) -> bool:
        """Return whether what is read of a flow is all that there is of it.

        Raises:
            DamagedState: an increment is not there.
        """
        return any(made.whole for made in self._made(flow))

    def made_anew(self, cursors: Mapping[str, bytes]) -> list[str]:
        """Return the flows whose maker has begun with nothing since their cursors were written."""
        return [
            flow
            for flow in self._request.increments
            if flow in cursors
            and (cursor := _flow_cursor(cursors[flow])) is not None
            and self._whole(flow, cursor) != cursor.whole != ""
        ]

    def _whole(self, flow: str, before: FlowCursor | None) -> str:
        """Return the newest increment that is all there is, of those that are or were read."""
        known = "" if before is None else before.whole
        return next((made.name for made in self._made(flow) if made.whole), known)

    def moved(self, cursors: Mapping[str, bytes]) -> str:
        """Return in words which flows come from elsewhere than when their cursors were written."""
        found = []
        for flow, cursor in cursors.items():
            before, now = _place(cursor), self._place_now(flow)
            if before != now:
                found.append(f"`{flow}` was {before}, and is {now}")
        return "; ".join(found)

    def _place_now(self, flow: str) -> str:
        if flow in self._request.increments:
            return _MADE
        if flow in self._request.sources:
            spec = self._request.sources[flow]
            return _files(spec.location) if isinstance(spec, FilesSpec) else _topic(spec.topic)
        return _CONTAINER

    def arrived(self, flow: str, cursor: bytes | None) -> FlowIncrement:
        """Return the rows of files, or of a topic, that have come.

        Args:
            flow: that is in files or a topic.
            cursor: how far that was read before; None to read all of it.

        Raises:
            UnusableFile: a file is not what it should be, or not what it was, or came too late.
            UnusableMessage: a message is not what it should be.
            LostMessages: messages are gone that were not read.
            RecordsUnavailable: Kafka does not answer.
            StageError: a stage publishes there, or there is no such topic.
        """
        spec = self._request.sources[flow]
        if isinstance(spec, TopicSpec):
            return self._messages(flow, spec, cursor)
        return self._files(flow, spec, cursor)

    def _messages(self, flow: str, spec: TopicSpec, cursor: bytes | None) -> FlowIncrement:
        before = None if cursor is None else topic_cursor(cursor)
        unread = unread_of(before, self._topics.extent(spec.topic))
        if lost := check_gaps(flow, spec, unread.gaps, rebuild_command(self._run, self._request)):
            print(lost)
        self.cursors[flow] = msgspec.msgpack.encode(unread.after)
        rows = read_unread(self._run, self._topics, spec, unread)
        return FlowIncrement(rows, whole=before is None)

    def _files(self, flow: str, spec: FilesSpec, cursor: bytes | None) -> FlowIncrement:
        store = FileStore.at(spec.location)
        before = None if cursor is None else files_cursor(cursor)
        files, after = Arrivals(flow, spec, store).since(before, time.time_ns())
        self.cursors[flow] = msgspec.msgpack.encode(after)
        return FlowIncrement(read_files(self._run, store, spec, files), whole=before is None)

    def increment(self, flow: str, spec: InputFlow, cursor: bytes | None) -> FlowIncrement:
        """Return the rows of the increments that are read of a flow, as one.

        Args:
            flow: that another stage makes.
            spec: how it is routed, which says columns where nobody else does.
            cursor: how far it was read before.

        Raises:
            StageError: increments that are read together have different columns.
            DamagedState: an increment is not there, or not what it was.
        """
        made = self._made(flow)
        before = None if cursor is None else _flow_cursor(cursor)
        if not made:
            schema = _schema(before) or _routing_columns(spec)
            self.cursors[flow] = msgspec.msgpack.encode(before or FlowCursor("", b""))
            return FlowIncrement(schema.empty_table(), whole=False)
        schema = made[-1].schema
        for one in made:
            if not one.schema.equals(schema) and not only_adds(one.schema, schema):
                message = (
                    f"input flow `{flow}` of stage `{self._stage}`: increments {one.name} and "
                    f"{made[-1].name} have different columns and cannot be read as one"
                )
                raise StageError(message)
        columns = schema.serialize().to_pybytes()
        after = FlowCursor(made[-1].name, columns, self._whole(flow, before))
        self.cursors[flow] = msgspec.msgpack.encode(after)
        return FlowIncrement(self._rows(made, schema), whole=self.is_whole(flow))

    def _made(self, flow: str) -> list[_Made]:
        if flow not in self._found:
            names = self._request.increments[flow]
            made = [_found(self._store, name) for name in names]
            # What was made before a maker began anew does not count any more.
            start = max((at for at, one in enumerate(made) if one.whole), default=0)
            self._found[flow] = made[start:]
        return self._found[flow]

    def _rows(self, made: Iterable[_Made], schema: pa.Schema) -> pa.Table | CarriedRows:
        made = list(made)
        if sum(ref.rows for one in made for ref in one.refs) <= self._run.driver_rows:
            files = [BatchFile(self._store, ref, one.stage) for one in made for ref in one.refs]
            parts = (pa.Table.from_batches(list(file.batches()), file.schema) for file in files)
            # An earlier increment may lack a column that its maker has got since.
            rows = [with_columns(part, schema) for part in parts]
            return pa.concat_tables([schema.empty_table(), *rows])
        carried = [
            rows_of_files(self._run.spark, self._store, one.stage, one.refs, schema)
            for one in made
            if one.refs
        ]
        return union(carried)


def _found(store: FileStore, name: str) -> _Made:
    increment = parse_increment_name(name)
    manifest: Manifest = read_manifest(store, increment.manifest)
    if increment.part not in manifest.outputs:
        message = f"`{manifest.stage}` has made no increment of `{increment.flow}` as {name}"
        raise ChangedStage(message)
    schema = pa.ipc.read_schema(pa.py_buffer(manifest.schemas[increment.flow]))
    refs = manifest.outputs[increment.part]
    # Of several by framing key the first stands for the beginning: what comes next adds to it.
    first = str(next(iter(frame_parts(manifest.outputs, increment.flow))))
    whole = manifest.epoch == 1 and increment.part == first
    return _Made(name, manifest.stage, whole, refs, schema)


def frame_parts(outputs: Iterable[str], flow: str) -> list[FramePart]:
    """Return the increments of a flow among those of an epoch, by framing key where it has some."""
    parts = [part for part in map(parse_frame_part, outputs) if part.flow == flow]
    numbers = [part for part in parts if isinstance(part.key, int)]
    if numbers:
        return sorted(numbers, key=lambda part: part.key or 0)
    return sorted(parts, key=lambda part: str(part.key))


def _flow_cursor(cursor: bytes) -> FlowCursor | None:
    """Return how far a flow was read; None where the cursor is that of a container."""
    try:
        return msgspec.msgpack.decode(cursor, type=FlowCursor)
    except msgspec.ValidationError:
        return None


_MADE = "made by a stage"
_CONTAINER = "a container"


def _files(location: str) -> str:
    return f"the files in {location}"


def _topic(name: str) -> str:
    return f"the topic {name}"


def _place(cursor: bytes) -> str:
    """Return in words where a flow came from when its cursor was written."""
    if _flow_cursor(cursor) is not None:
        return _MADE
    if (topic := topic_cursor(cursor)) is not None:
        return _topic(topic.topic)
    files = files_cursor(cursor)
    return _CONTAINER if files is None else _files(files.location)


def _schema(cursor: FlowCursor | None) -> pa.Schema | None:
    if cursor is None or not cursor.columns:
        return None
    return pa.ipc.read_schema(pa.py_buffer(cursor.columns))


def _routing_columns(spec: InputFlow) -> pa.Schema:
    """Return columns without which nothing can be routed: of a flow of which nothing has come."""
    named: dict[str, None] = {}
    by: tuple[RouteBy | OrderBy, ...] = (spec.route_by, spec.order_by)
    for columns in by:
        if isinstance(columns, str):
            named[columns] = None
        elif isinstance(columns, tuple):
            named |= dict.fromkeys(columns)
    return pa.schema([(name, pa.string()) for name in named])


def rebuild_command(run: Run, request: StageRequest) -> str:
    """Return the command by which the stage of a run is rebuilt."""
    sources = " --with-sources" if request.increments else ""
    return f"headgate stage rebuild {quote(run.dataflow)} {quote(run.action)}{sources}"


def check_flows(stage: StageSpec, run: Run, request: StageRequest) -> None:
    """Raise unless the flows of an action are those of its stage.

    Raises:
        StageError: one of them is not.
    """
    for flow in stage.inputs:
        if not any(
            flow in known for known in (request.increments, request.sources, run.containers)
        ):
            known = ", ".join(sorted(run.containers)) or "none"
            message = (
                f"input flow `{flow}` of stage `{stage.name}` is neither in `in` of action "
                f"`{run.action}`, nor files or a topic that it reads, nor a container of its "
                f"dataflow, which are: {known}; say in `in` which stage makes it, or name it as "
                "the container"
            )
            raise StageError(message)
    for key, said, flows in (
        ("in", request.increments, stage.inputs),
        ("out", request.outputs, stage.outputs),
        ("reads", request.sources, stage.inputs),
        ("writes", request.sinks, stage.outputs),
    ):
        other = [flow for flow in said if flow not in flows]
        if other:
            message = (
                f"action `{run.action}` names `{other[0]}` in `{key}`, and stage `{stage.name}` "
                f"has no such flow, but {', '.join(flows) or 'none'}"
            )
            raise StageError(message)
