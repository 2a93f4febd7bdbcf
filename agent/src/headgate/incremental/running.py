"""A run of a stage: increments in, an epoch, a manifest that the run's commit makes the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import uuid4

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import DataFrame

from headgate.engine import FilesSpec, OnChange, RunPurpose, TopicSpec
from headgate.incremental.changes import Answer, StageChange, changes_of, written_by
from headgate.incremental.containers import cursor_of, cut_of, renamed
from headgate.incremental.epochs.bucket import stored_schema
from headgate.incremental.epochs.cluster import frame_of, translate_by_spark
from headgate.incremental.epochs.driver import translate_in_driver
from headgate.incremental.epochs.epoch import finished
from headgate.incremental.epochs.maintenance import upkeep_due
from headgate.incremental.epochs.modes import Mode
from headgate.incremental.epochs.outcome import BucketOutcome, EpochOutcome
from headgate.incremental.flows import FlowReader, check_flows, frame_parts, rebuild_command
from headgate.incremental.maintaining import collect, maintain_stage, manifest_before
from headgate.incremental.published import publish
from headgate.incremental.sinks import FlowSink
from headgate.incremental.stages.carried import (
    FlowIncrement,
    TaskRows,
    given_to_tasks,
    of_container,
)
from headgate.incremental.stages.errors import StageError, TranslationFailed
from headgate.incremental.stages.specification import STATE, StageSpec
from headgate.incremental.state.batches import BatchFile
from headgate.incremental.state.buckets import even_buckets
from headgate.incremental.state.errors import ChangedStage, StateError
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.manifest import (
    BucketState,
    Manifest,
    Publication,
    Sending,
    WaitingUnits,
    WrittenBy,
    WrittenCells,
    read_manifest,
    write_manifest,
)
from headgate.incremental.state.names import Writer, folder
from headgate.incremental.state.rows import Match
from headgate.incremental.stored import stage_name
from headgate.incremental.topics.kafka import KafkaTopics, Topics
from headgate.incremental.topics.sending import TopicSink
from headgate.incremental.waiting import Waiting, still_waiting, waiting_after, waiting_rows
from headgate.incremental.written_cells import (
    CellAccount,
    account_anew,
    account_before,
    unknown_words,
)
from headgate.spark import KafkaAddress, Run, StageRequest, StageResult, UnwritableValue

MODE: Final = "mode"
"""The parameter that says how the stage comes by its state; ``direct`` where it is not given."""
_BITS: Final = 1
"""Of the first buckets: two, for the cores of a small machine; large ones are split."""
_COLLECTION: Final = 8
"""Epochs between two collections of garbage: each lists the stage's files."""


def run_stage(stage: StageSpec, run: Run) -> None:
    """Translate what has come for a stage, write its outputs, and name its state to the commit.

    Small increments are translated by the driver, others by a Spark job. Nothing of it counts
    unless the run is committed, and then all of it does: state, outputs and how far it has read.

    Args:
        stage: to run.
        run: the attempt.

    Raises:
        StageError: the action is no stage, or a flow is not what the stage has.
        ChangedStage: another version of the stage wrote the state.
        DamagedState: a file of the state, or of an increment, is not what it was.
        TranslationFailed: the translation raised.
        UnwrittenFile: a file could not be written.
    """
    request = run.stage
    if request is None:
        message = (
            f"stage `{stage.name}` is run as a step, which has no place for its state: write "
            f"`stage:` instead of `step:` in action `{run.action}`"
        )
        raise StageError(message)
    StageRun(stage, run, request, FileStore.at(request.location)).carry_out()


class StageRun:
    """One attempt of one epoch.

    Args:
        stage: that is run.
        run: the attempt.
        request: what the action says of its flows.
        store: where the stages of the dataflow keep their files.
        stores: returns what opens files at another location.
        topics: returns what reads and writes topics of a Kafka.
    """

    def __init__(
        self,
        stage: StageSpec,
        run: Run,
        request: StageRequest,
        store: FileStore,
        stores: Callable[[str], FileStore] = FileStore.at,
        topics: Callable[[KafkaAddress], Topics] = KafkaTopics,
    ) -> None:
        # Two actions may be of one stage, and their files be in one place.
        self._run = run
        self._request = request
        if stage.over_open is not None and any(map(self._is_open, stage.inputs)):
            stage = stage.over_open
        self._stage = replace(stage, name=stage_name(run.dataflow, run.action))
        self._store = store
        self._stores = stores
        self._topics = topics(run.kafka)
        self._mode = self._mode_of(run.parameters.get(MODE, Mode.DIRECT))
        self._writer = Writer(self._stage.name, run.id, run.attempt, uuid4().hex)
        self._flows = FlowReader(self._stage.name, run, request, store, self._topics)
        check_flows(self._stage, run, request)
        self._account = CellAccount(run, store, self._writer)
        self._sinks = tuple(
            FlowSink(self._writer, run.token, flow, spec, stores(spec.location))
            for flow, spec in request.sinks.items()
            if isinstance(spec, FilesSpec)
        )
        self._topic_sinks = tuple(
            TopicSink(
                self._stage.name,
                run.token,
                flow,
                spec,
                self._stage.emitted[flow],
                run.kafka.owner,
            )
            for flow, spec in request.sinks.items()
            if isinstance(spec, TopicSpec)
        )
        for sink in self._topic_sinks:
            sink.check_key()

    def carry_out(self) -> None:
        """See ``run_stage``."""
        if self._request.purpose.maintains:
            maintain_stage(self._run, wholly=self._request.purpose is RunPurpose.COMPACT)
        else:
            self._advance()

    def _advance(self) -> None:
        before = self._before()
        # What is there now, others who go on if this attempt is too late have not written.
        epoch_number = 1 if before is None else before.epoch + 1
        collected = epoch_number % _COLLECTION == 0
        there = self._store.names(folder(self._stage.name)) if collected else ()
        known = None if self._mode is Mode.LANDMARK else before
        for sink in self._sinks if known is None else ():
            sink.check_place()
        for topic in self._topic_sinks if known is None else ():
            topic.check_place(self._topics)
        increments = {name: self._increment(name, known) for name in self._stage.inputs}
        buckets = self._buckets() if known is None else known.buckets
        whole_flows = frozenset(flow for flow, each in increments.items() if each.whole)
        waited = still_waiting(before, whole_flows, self._request.increments)
        try:
            outcomes = self._translated(buckets, increments, waited)
        except Exception as error:
            # The same increments come again in the next attempt, and after a quarantine.
            error.add_note(self._increments_words(increments))
            raise
        left = self._mode.left_of(buckets)
        epoch = finished(self._stage, self._store, self._writer, left, outcomes)
        written = self._written(epoch, before)
        whole = known is None
        publications: dict[str, Publication] = {}
        for sink in self._sinks:
            publication = self._published(sink, epoch, whole=whole)
            if publication is not None:
                publications[sink.spec.location] = publication
        sendings = [
            sink.sending(self._store, self._refs(epoch, sink.flow), self._topics, whole=whole)
            for sink in self._topic_sinks
        ]
        sent = tuple(sending for sending in sendings if sending is not None)
        waiting = waiting_after(epoch, waited, self._request.increments, self._store, self._writer)
        if waiting:
            print(_waiting_words(waiting))
        manifest = self._manifest(epoch_number, epoch, publications, sent, waiting, written)
        name = self._writer.manifest_name()
        write_manifest(self._store, name, manifest)
        if before is not None and collected:
            needed = self._request.needed
            collect(self._store, self._writer, there, self._previous, needed)
            for sink in self._sinks:
                sink.collect()
        rows = {
            str(part): sum(ref.rows for ref in epoch.outputs[str(part)])
            for flow in self._request.outputs
            for part in frame_parts(epoch.outputs, flow)
        }
        due = self._mode is Mode.DIRECT and bool(upkeep_due(epoch.buckets))
        self._run.commit_as(StageResult(name, rows, due).encoded())
        self._run.when_committed(
            partial(publish, manifest, self._store, self._topics, self._stores)
        )

    def _mode_of(self, named: object) -> Mode:
        try:
            return Mode(str(named))
        except ValueError as error:
            message = (
                f"action `{self._run.action}` has `{MODE}: {named}`; modes are {', '.join(Mode)}"
            )
            raise StageError(message) from error

    # -- what was before ---------------------------------------------------------------------

    @property
    def _previous(self) -> str:
        """The name of the manifest that the last committed run has named; empty where none has."""
        return manifest_before(self._run)

    def _before(self) -> Manifest | None:
        """Return the state that the epoch begins with; None where it begins with nothing."""
        if not self._previous:
            return None
        if self._request.purpose is RunPurpose.REBUILD:
            # Not even read: that it cannot be read may be why it is made anew.
            given = [flow for flow, made in self._request.increments.items() if made]
            self._check_rebuild("somebody asked for it", given)
            return None
        manifest = read_manifest(self._store, self._previous)
        # Whoever committed it may have been gone before it could: then nobody else does it.
        publish(manifest, self._store, self._topics, self._stores)
        if (anew := self._flows.made_anew(manifest.cursors)) and self._is_whole():
            print(f"`{self._stage.name}` begins anew, as {_listed(anew)} came whole again")
            return None
        if anew:
            words = f"{_listed(anew)} came whole again, since what makes it was made anew"
            raise ChangedStage(self._cannot_be_rebuilt(words))
        changes = list(self._changes(manifest))
        if not changes:
            return manifest
        words = "; ".join(change.words for change in changes)
        match self._request.on_change:
            case OnChange.REBUILD:
                self._check_rebuild(words, self._request.increments)
                return None
            case OnChange.KEEP if all(change.answer is Answer.KEPT for change in changes):
                return manifest
        raise ChangedStage(self._refusal(words, changes))

    def _changes(self, manifest: Manifest) -> Iterator[StageChange]:
        yield from changes_of(
            self._stage,
            manifest,
            match=self._match,
            schemas=self._schemas(),
            now=self._written_by(),
            read_by_stages=frozenset(self._request.outputs),
        )
        read = {flow: at for flow, at in manifest.cursors.items() if flow in self._stage.inputs}
        if moved := self._flows.moved(read):
            yield StageChange(moved, Answer.REBUILT)
        named = {flow: at for flow, at in read.items() if self._is_container(flow)}
        for flow, at in named.items():
            if said := renamed(at, self._run.naming(flow)):
                yield StageChange(f"of `{flow}` {said}", Answer.REBUILT)

    def _is_container(self, flow: str) -> bool:
        request = self._request
        outside = flow in request.increments or flow in request.sources
        return flow in self._run.containers and not outside

    def _is_open(self, flow: str) -> bool:
        """Return whether a flow is a container with columns that it does not declare."""
        return self._is_container(flow) and self._run.naming(flow).is_open

    def _refusal(self, words: str, changes: Sequence[StageChange]) -> str:
        said, action = self._request.on_change, f"action `{self._run.action}`"
        ways = [f"have it made anew: `{rebuild_command(self._run, self._request)}`"]
        if not self._request.increments:
            ways.append(f"say `on_change: rebuild` in {action}, which holds for all changes")
        if said is not OnChange.KEEP and all(one.answer is Answer.KEPT for one in changes):
            ways.append(f"say `on_change: keep` in {action}, if the state is right as it is")
        kept = ", which cannot be kept" if said is OnChange.KEEP else ""
        return (
            f"the state of `{self._stage.name}` was written by another stage than that of now"
            f"{kept}: {words}. {_either(ways)}"
        )

    def _is_whole(self) -> bool:
        """Return whether all that is read of other stages is all that there is."""
        return all(self._flows.is_whole(flow) for flow in self._request.increments)

    def _check_rebuild(self, change: str, flows: Iterable[str]) -> None:
        """Raise where one of these flows, which other stages make, does not come whole."""
        if not all(map(self._flows.is_whole, flows)):
            raise ChangedStage(self._cannot_be_rebuilt(change))

    def _cannot_be_rebuilt(self, change: str) -> str:
        parts = [flow for flow in self._request.increments if not self._flows.is_whole(flow)]
        return (
            f"`{self._stage.name}` cannot be rebuilt by itself ({change}): what was read of "
            f"{_listed(parts)} is not kept. Have it rebuilt with the stages that make it: "
            f"`{rebuild_command(self._run, self._request)}`"
        )

    def _written_by(self) -> WrittenBy:
        return written_by(self._stage, self._run.code, self._request.containers, self._run.files)

    @property
    def _match(self) -> Match:
        return Match.GROUP if self._stage.state is None else self._stage.state.match

    def _schemas(self) -> dict[str, bytes]:
        schemas = dict(self._stage.emitted)
        # With landmarks there is none, so that what is written of it cannot be gone on from.
        if self._stage.state is not None and self._mode is not Mode.LANDMARK:
            schemas[STATE] = stored_schema(self._stage)
        return {flow: schema.serialize().to_pybytes() for flow, schema in schemas.items()}

    def _buckets(self) -> tuple[BucketState, ...]:
        return tuple(BucketState(bucket) for bucket in even_buckets(_BITS))

    # -- the epoch ---------------------------------------------------------------------------

    def _increment(self, flow: str, before: Manifest | None) -> FlowIncrement:
        cursor = None if before is None else before.cursors[flow]
        if flow in self._request.increments:
            return self._flows.increment(flow, self._stage.inputs[flow], cursor)
        if flow in self._request.sources:
            return self._flows.arrived(flow, cursor)
        if cursor is None:
            return of_container(self._run.increment(flow, whole=True))
        # What the state has read is what its own manifest says, which was committed with it.
        return of_container(self._run.increment(flow, since=cut_of(cursor)))

    def _translated(
        self,
        buckets: Sequence[BucketState],
        increments: Mapping[str, FlowIncrement],
        waited: Waiting,
    ) -> list[BucketOutcome]:
        stage = self._stage
        waiting = waiting_rows(self._store, stage.name, waited)
        whole = frozenset(flow for flow, each in increments.items() if each.whole)
        rows = {flow: each.rows for flow, each in increments.items()}
        tables = {flow: each for flow, each in rows.items() if isinstance(each, pa.Table)}
        small = sum(map(len, tables.values())) <= self._run.driver_rows
        if self._mode is Mode.DIRECT and len(tables) == len(rows) and small:
            return translate_in_driver(
                stage, self._store, self._writer, buckets, tables, whole, waiting
            )
        spark = self._run.spark
        carried: dict[str, TaskRows] = {
            flow: given_to_tasks(spark, each) if isinstance(each, pa.Table) else each
            for flow, each in rows.items()
        }
        return translate_by_spark(
            stage, self._store, self._writer, buckets, carried, whole, self._mode, waiting
        )

    def _increments_words(self, increments: Mapping[str, FlowIncrement]) -> str:
        """Return for people what was translated: by flow where it comes from, and how much."""
        words = []
        for flow, each in increments.items():
            said = "everything" if each.whole else "what has come"
            if names := self._request.increments.get(flow, ()):
                said = f"increments {', '.join(names)}"
            if isinstance(each.rows, pa.Table):
                said += f" ({len(each.rows)} rows)"
            words.append(f"`{flow}`: {said}")
        return f"increment of run {self._run.id}, stage `{self._stage.name}`: {'; '.join(words)}"

    def _published(self, sink: FlowSink, epoch: EpochOutcome, *, whole: bool) -> Publication | None:
        """Write what an epoch put out to files; return what is visible once it is committed."""
        refs = self._refs(epoch, sink.flow)
        files = (BatchFile(self._store, ref, self._stage.name) for ref in refs)
        batches = (batch for file in files for batch in file.batches())
        return sink.write(batches, self._stage.emitted[sink.flow], whole=whole)

    def _refs(self, epoch: EpochOutcome, flow: str) -> list[FileRef]:
        parts = frame_parts(epoch.outputs, flow)
        return [ref for part in parts for ref in epoch.outputs[str(part)]]

    def _output(self, epoch: EpochOutcome, flow: str) -> pa.Table | DataFrame:
        """Return what an epoch put out, by the driver where that is little."""
        schema = self._stage.emitted[flow]
        refs = self._refs(epoch, flow)
        if sum(ref.rows for ref in refs) > self._run.driver_rows:
            return frame_of(self._run.spark, self._store, self._stage.name, refs, schema)
        files = [BatchFile(self._store, ref, self._stage.name) for ref in refs]
        return pa.Table.from_batches([b for file in files for b in file.batches()], schema)

    def _written(self, epoch: EpochOutcome, before: Manifest | None) -> dict[str, WrittenCells]:
        """Write output flows to containers, and return the account of what was written to them.

        A stage that begins anew removes what it has written before and does not write any more.
        """
        accounts = {} if before is None else dict(before.written)
        for flow in self._stage.outputs:
            if flow in self._run.containers:
                try:
                    self._run.write(self._output(epoch, flow), flow)
                except UnwritableValue as error:
                    reason = f"output flow `{flow}`, which goes to the container: {error}"
                    raise TranslationFailed(self._stage.name, "", reason) from error
                files = (
                    BatchFile(self._store, ref, self._stage.name) for ref in self._refs(epoch, flow)
                )
                batches = (batch for file in files for batch in file.batches())
                known = account_before(flow, self._run.table_of(flow), before)
                accounts[flow] = self._account.noted(flow, batches, known)
        if before is not None or not self._previous:
            return accounts
        old, trouble = self._replaced()
        accounts = account_anew(accounts, old, is_known=not trouble)
        if old is not None:
            accounts = self._account.remove(old.written, accounts, self._request.others)
        for flow, cells in accounts.items():
            if cells.since:
                print(unknown_words(flow, cells.since) + trouble)
        return accounts

    def _replaced(self) -> tuple[Manifest | None, str]:
        """Return the state in whose place another is made, or why it cannot be read."""
        try:
            return read_manifest(self._store, self._previous), ""
        except StateError as error:
            return None, f" ({error})"

    def _manifest(
        self,
        number: int,
        epoch: EpochOutcome,
        publications: Mapping[str, Publication],
        sendings: tuple[Sending, ...],
        waiting: dict[str, tuple[WaitingUnits, ...]],
        written: dict[str, WrittenCells],
    ) -> Manifest:
        return Manifest(
            self._stage.name,
            self._stage.code,
            number,
            self._match,
            epoch.buckets,
            self._previous,
            self._schemas(),
            dict(epoch.outputs),
            {
                flow: self._flows.cursors.get(flow) or cursor_of(self._run, flow)
                for flow in self._stage.inputs
            },
            dict(publications),
            sendings,
            self._written_by(),
            waiting,
            written,
        )


def _waiting_words(waiting: Waiting) -> str:
    """Return for people how many units of all groups wait."""
    flows = (f"{sum(each.rows for each in units)} of `{flow}`" for flow, units in waiting.items())
    return f"units of all groups that wait, as there is no group yet: {', '.join(flows)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _either(ways: Sequence[str]) -> str:
    text = "; or ".join(ways)
    return f"{text[0].upper()}{text[1:]}"
