"""What was learned of dataflows, in a table of its own: pairs of waves, and models.

Rows are written once. ``pairs/DATAFLOW/OUTPUT/CONTAINER/SUBMITTED/WAVE/SET`` holds what a wave
teaches, ``models/DATAFLOW/OUTPUT/VERSION`` a model, which is named after its bytes. Models decide
when steps run, and pairs which models there are: what no agent has signed is never used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from typing import Final
from urllib.parse import quote, unquote

import msgspec
import numpy as np
from msgspec import Struct

from headgate.agent.configuration import HBase
from headgate.agent.errors import AgentError
from headgate.agent.state.log_segments import CHUNK
from headgate.agent.state.rows import HBaseConnections, HBaseRows, Rows
from headgate.agent.state.sealed import Seals
from headgate.agent.training.pairs import (
    FEATURE_SET,
    FEATURE_SETS,
    PairBasis,
    PairKey,
    WavePairs,
    feature_set_of,
)
from headgate.events import printable_key
from headgate.learning import version_of_model
from headgate.replay import ModelKey, UnknownModel
from headgate.settings import KeyRing, knowledge_table, parse_address, shell_word

FAMILIES: Final = ("pairs", "models")
_FEATURES = b"pairs:features"
_ERRORS = b"pairs:errors"
_SET = b"pairs:set"
_BASIS = b"pairs:basis"
_PAIRS = b"pairs:"
_PAIRS_SEAL = b"pairs:seal"
_MODEL = b"models:"
_MODEL_SEAL = b"models:seal"
_NUMBER = b"models:number"
"""Counts the models of an output, so that the newest are known; models of before have none."""
_CONTAINER: Final = 4
"""Parts of a pair's row up to its container."""
_READ = 500
"""Waves read at once: a few kilobytes each."""
_PATIENCE: Final = 15.0
"""Seconds for an answer of HBase where somebody waits, and nothing else is kept up."""


class ModelMissing(AgentError):
    """A model is not there, or not whole; the message says what to do, and ``what`` only that."""

    def __init__(self, what: str, dataflow: str) -> None:
        super().__init__(
            f"{what}; train it again with `headgate flow train {shell_word(dataflow)}`"
        )
        self.what = what


class ModelUnsigned(ModelMissing):
    """No agent with this key has signed a model."""


class ForeignPairs(AgentError):
    """Pairs have other features than this program computes; the message says what to do."""


class Trimmed(Struct, frozen=True):
    """What was deleted."""

    pairs: int
    """Rows: one for each wave, output and container."""
    models: int


class Knowledge:
    """The table. Every call may raise ``Unreachable``.

    Args:
        rows: of the table.
        seals: of the table.
        waves: for how many waves pairs of a dataflow are kept.
        models: how many models of an output are kept.
        create: makes the table where it is missing; called at the first use.
        exists: whether the table is there; asked before anything is deleted.
    """

    def __init__(
        self,
        rows: Rows,
        seals: Seals,
        waves: int,
        models: int,
        create: Callable[[], None] = lambda: None,
        exists: Callable[[], bool] = lambda: True,
    ) -> None:
        self._made = rows
        self._create = create
        self._exists = exists
        self._there = False
        self._seals = seals
        self._waves = waves
        self._models = models

    @property
    def _rows(self) -> Rows:
        if not self._there:
            self._create()
            self._there = True
        return self._made

    # -- models

    def keep_model(self, dataflow: str, output: str, model: bytes) -> str:
        """Keep a model as an output's newest, and return what it is called; the oldest go."""
        version = version_of_model(model)
        row = _model_row(dataflow, output, version)
        prefix = _models_prefix(dataflow, output)
        numbers = self._numbers(prefix)
        for number, start in enumerate(range(0, len(model), CHUNK)):
            self._rows.put(row, {_MODEL + b"%05d" % number: model[start : start + CHUNK]})
        # The seal comes last: without it there is no model.
        seal = self._seals.seal(row, _MODEL, model)
        number = max(numbers.values(), default=0) + 1
        self._rows.put(row, {_MODEL_SEAL: seal, _NUMBER: b"%d" % number})
        numbers[row] = number
        self._drop(sorted(numbers, key=numbers.__getitem__)[: -self._models])
        return version

    def model(self, dataflow: str, output: str, version: str) -> bytes:
        """Return a model's bytes.

        Raises:
            ModelMissing: it is not there, or is not whole.
            ModelUnsigned: it was signed by nobody.
        """
        row = _model_row(dataflow, output, version)
        columns = self._rows.get(row, (b"models",))
        columns.pop(_NUMBER, None)
        what = f"model {version} of {output}"
        if not columns:
            raise ModelMissing(f"{what} is not in the knowledge table", dataflow)
        chunks = sorted(column for column in columns if column != _MODEL_SEAL)
        model = b"".join(columns[column] for column in chunks)
        if version_of_model(model) != version:
            raise ModelMissing(f"{what} is damaged in the knowledge table", dataflow)
        if not self._seals.holds(row, _MODEL, model, columns.get(_MODEL_SEAL, b"")):
            raise ModelUnsigned(f"{what} was signed by no agent with this agent's key", dataflow)
        return model

    def _numbers(self, prefix: bytes) -> dict[bytes, int]:
        """Return the models' rows behind a prefix, each with its number, 0 where it has none."""
        stop = _after(prefix)
        found = dict.fromkeys(self._rows.names(prefix, stop), 0)
        for row, columns in self._rows.scan(prefix, stop, (_NUMBER,)):
            if columns.get(_NUMBER, b"").isdigit():
                found[row] = int(columns[_NUMBER])
        return found

    # -- pairs

    def keep_pairs(self, pairs: Iterable[WavePairs]) -> int:
        """Keep pairs of which there are none yet; return how many waves were new.

        Those that are older than the table's retention go.
        """
        new = 0
        known: dict[bytes, set[bytes]] = {}
        for one in pairs:
            prefix = _container_prefix(one.key)
            row = prefix + _wave_end(one.key)
            if prefix not in known:
                known[prefix] = set(self._rows.names(prefix, _after(prefix)))
            if row in known[prefix]:
                continue
            new += 1
            columns = {
                _FEATURES: one.features.astype("<f4").tobytes(),
                _ERRORS: one.errors.astype("<f8").tobytes(),
                _SET: feature_set_of(one.features).encode(),
            }
            if one.basis is not None:
                columns[_BASIS] = msgspec.msgpack.encode(one.basis)
            seal = self._seals.seal(row, _PAIRS, _signed(columns))
            self._rows.put(row, {**columns, _PAIRS_SEAL: seal})
            known[prefix].add(row)
        for rows in known.values():
            self._drop(sorted(rows)[: -self._waves])
        return new

    def pairs(self, dataflow: str) -> Iterator[WavePairs]:
        """Yield all pairs of a dataflow, in the order of their keys.

        Raises:
            ForeignPairs: some have other features than this program computes, or no agent's
                signature.
        """
        prefix = _of_dataflow(b"pairs", dataflow)
        yield from self._read(self._rows.names(prefix, _after(prefix)))

    def pair_keys(self, dataflow: str) -> list[PairKey]:
        """Return what there are pairs of, without reading them."""
        prefix = _of_dataflow(b"pairs", dataflow)
        return [_key_of(row) for row in self._rows.names(prefix, _after(prefix))]

    def pairs_of(self, keys: Iterable[PairKey]) -> Iterator[WavePairs]:
        """Yield the pairs of some keys, in the order of their rows; see ``pairs``."""
        yield from self._read(sorted(_container_prefix(key) + _wave_end(key) for key in keys))

    def _read(self, names: list[bytes]) -> Iterator[WavePairs]:
        wanted = set(names)
        for first in range(0, len(names), _READ):
            some = names[first : first + _READ]
            for row, columns in self._rows.scan(some[0], some[-1] + b"\0", (b"pairs",)):
                if row not in wanted:
                    continue
                if not self._seals.holds(
                    row, _PAIRS, _signed(columns), columns.get(_PAIRS_SEAL, b"")
                ):
                    raise ForeignPairs(
                        f"row {printable_key(row)} of the knowledge table was signed by "
                        f"no agent with this agent's key, or is damaged; {_cure(row)}"
                    )
                yield _pairs_of(row, columns)

    # -- what goes

    def trim(self, dataflow: str, waves: int, used: Collection[str]) -> Trimmed:
        """Delete the older pairs and models of a dataflow.

        Args:
            dataflow: its name.
            waves: how many of the newest waves keep their pairs; none where 0.
            used: versions of models that decide; these and the newest of each output stay.
        """
        if not self._exists():
            return Trimmed(0, 0)
        by_container: dict[bytes, list[bytes]] = {}
        prefix = _of_dataflow(b"pairs", dataflow)
        for row in self._rows.names(prefix, _after(prefix)):
            by_container.setdefault(b"/".join(row.split(b"/")[:_CONTAINER]), []).append(row)
        pairs = [
            row
            for rows in by_container.values()
            for row in sorted(rows)[: max(0, len(rows) - waves)]
        ]
        numbers = self._numbers(_of_dataflow(b"models", dataflow))
        newest = {row.rpartition(b"/")[0]: row for row in sorted(numbers, key=numbers.__getitem__)}
        named = set(map(_quoted, used))
        models = [
            row
            for row in numbers
            if row not in newest.values() and row.rpartition(b"/")[2] not in named
        ]
        self._drop(pairs)
        self._drop(models)
        return Trimmed(len(pairs), len(models))

    def forget(self, dataflow: str) -> None:
        """Delete all pairs and models of a dataflow."""
        if self._exists():
            for family in (b"pairs", b"models"):
                prefix = _of_dataflow(family, dataflow)
                self._drop(self._rows.names(prefix, _after(prefix)))

    def _drop(self, rows: list[bytes]) -> None:
        if rows:
            self._rows.drop(rows)


def stored_models(
    hbase: HBase,
    keys: KeyRing,
    dataflow: str,
    wanted: Iterable[ModelKey],
    patience: float = _PATIENCE,
) -> dict[ModelKey, bytes]:
    """Return models from the knowledge table in HBase; nothing is written.

    Args:
        hbase: where the agents keep their state.
        keys: with which they sign.
        dataflow: its name.
        wanted: which.
        patience: seconds that HBase may take for each.

    Raises:
        UnknownModel: one is missing, damaged, or signed with another key.
        Unreachable: HBase does not answer.
    """
    table = knowledge_table(hbase.state_table)
    connections = HBaseConnections(*parse_address(hbase.thrift2), threading.Event(), patience)
    with closing(connections):
        if not connections.call(lambda connection: connection.table_exists(table)):
            raise UnknownModel(
                f"HBase at {hbase.thrift2} has no table {table}, in which agents keep the models "
                f"that decided on {dataflow!r}: name the HBase of its agents, and their "
                "hbase.state_table by --config with their TOML file where it is not the default"
            )
        seals = Seals(keys, table)
        rows = HBaseRows(connections, table, seals.proof, FAMILIES)
        return models_of(Knowledge(rows, seals, 1, 1), dataflow, wanted)


def models_of(
    knowledge: Knowledge, dataflow: str, wanted: Iterable[ModelKey]
) -> dict[ModelKey, bytes]:
    """Return models from a knowledge table.

    Raises:
        UnknownModel: one is missing, damaged, or signed with another key.
        Unreachable: HBase does not answer.
    """
    try:
        return {key: knowledge.model(dataflow, key.output, key.version) for key in wanted}
    except ModelUnsigned as error:
        raise UnknownModel(
            f"{error.what}, and it decided on {dataflow!r} while that was recorded; name the key "
            "that the agents share with --key-file"
        ) from error
    except ModelMissing as error:
        raise UnknownModel(
            f"{error.what}, and it decided on {dataflow!r} while that was recorded; to record "
            f"anew, remove and submit {dataflow}"
        ) from error


def _signed(columns: dict[bytes, bytes]) -> bytes:
    signed = [columns.get(column, b"") for column in (_FEATURES, _ERRORS, _SET)]
    # Pairs from before there was a basis are signed without it.
    return msgspec.msgpack.encode([*signed, columns[_BASIS]] if _BASIS in columns else signed)


def _key_of(row: bytes) -> PairKey:
    _, dataflow, output, container, submitted, wave, *rest = map(unquote, row.decode().split("/"))
    return PairKey(dataflow, output, container, int(submitted), int(wave), *rest)


def _cure(row: bytes) -> str:
    name = unquote(printable_key(row).split("/")[1])
    return (
        f"`headgate flow knowledge {shell_word(name)} --trim 0` deletes all pairs, and "
        f"`headgate flow train {shell_word(name)}` makes new ones"
    )


def _pairs_of(row: bytes, columns: dict[bytes, bytes]) -> WavePairs:
    key = _key_of(row)
    written = columns[_SET].decode()
    if written not in FEATURE_SETS:
        raise ForeignPairs(
            f"pairs of {key.dataflow}, output {key.output}, wave {key.wave} have the features "
            f"{written!r}, and this program computes {FEATURE_SET!r}; {_cure(row)}"
        )
    measured = np.frombuffer(columns[_ERRORS], "<f8")
    shown = columns[_FEATURES]
    table = np.frombuffer(shown, "<f4").reshape(len(measured), len(FEATURE_SETS[written]))
    basis = columns.get(_BASIS)
    return WavePairs(
        key,
        table.astype(np.float32),
        measured.astype(np.float64),
        None if basis is None else msgspec.msgpack.decode(basis, type=PairBasis),
    )


def _quoted(text: str) -> bytes:
    return quote(text, safe="").encode()


def _of_dataflow(family: bytes, dataflow: str) -> bytes:
    return b"/".join((family, _quoted(dataflow), b""))


def _models_prefix(dataflow: str, output: str) -> bytes:
    return _of_dataflow(b"models", dataflow) + _quoted(output) + b"/"


def _model_row(dataflow: str, output: str, version: str) -> bytes:
    return _models_prefix(dataflow, output) + _quoted(version)


def _container_prefix(key: PairKey) -> bytes:
    names = map(_quoted, (key.dataflow, key.output, key.container))
    return b"/".join((b"pairs", *names, b""))


def _wave_end(key: PairKey) -> bytes:
    end = b"%013d/%010d" % (key.submitted, key.wave)
    return end + b"/" + _quoted(key.set) if key.set else end


def _after(prefix: bytes) -> bytes:
    """Return the first row behind all that begin so; the prefix ends with a slash."""
    return prefix[:-1] + b"0"
