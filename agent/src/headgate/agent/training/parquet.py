"""Pairs as Parquet files, to be looked at elsewhere and to be taken in from elsewhere.

Arrow is loaded by the first that is written or read: it takes longer than most commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from headgate.agent.errors import AgentError
from headgate.agent.training.pairs import (
    FEATURE_SET,
    FEATURE_SETS,
    PairBasis,
    PairKey,
    WavePairs,
)
from headgate.learning import FEATURES, FEATURES_OF_BEFORE, LEVELS, ErrorMetric

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET: Final = "application/vnd.apache.parquet"
"""Media type of such files."""
_VERSION = b"headgate.features"
_KEYS = ("dataflow", "output", "container", "submitted", "wave")
_BASIS = ("set", "metric", "levels", "wave_time")
"""Columns that are null where nobody has noted what was measured by."""
_WAVES = 1000
"""Of which one row group is made."""


def _schema(features: Sequence[str] = FEATURES) -> pa.Schema:
    """Return the columns of files; in those of now pairs of fewer features have nulls."""
    import pyarrow as pa

    kinds = (pa.string(), pa.string(), pa.list_(pa.float64()), pa.float64())
    basis = zip(_BASIS, kinds, strict=True)
    fields = [*_schema_without_sets(features), *(pa.field(*one) for one in basis)]
    return pa.schema(fields, {_VERSION: FEATURE_SET.encode()})


def _schema_without_sets(features: Sequence[str] = FEATURES_OF_BEFORE) -> pa.Schema:
    """Return the columns of files from before pairs had sets."""
    import pyarrow as pa

    return pa.schema(
        [
            *((name, pa.string()) for name in _KEYS[:3]),
            *((name, pa.int64()) for name in (*_KEYS[3:], "pair_age")),
            ("error", pa.float64()),
            *((name, pa.float32()) for name in features),
        ]
    )


class UnusableParquet(AgentError):
    """A file holds no pairs of this program; the message says why and what to do."""


def write_pairs(file: BinaryIO, pairs: Iterable[WavePairs]) -> int:
    """Write a row for each pair, ordered as they come; return how many."""
    import pyarrow.parquet as pq

    count, schema = 0, _schema()
    with pq.ParquetWriter(file, schema) as writer:
        waiting: list[WavePairs] = []
        for one in pairs:
            waiting.append(one)
            count += len(one.errors)
            if len(waiting) == _WAVES:
                writer.write_table(_table(waiting, schema))
                waiting = []
        if waiting:
            writer.write_table(_table(waiting, schema))
    return count


def _table(pairs: list[WavePairs], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    lengths = [len(one.errors) for one in pairs]
    columns: list[pa.Array] = []
    for name in _KEYS:
        values = [getattr(one.key, name) for one in pairs]
        repeated = np.repeat(np.array(values, object), lengths)
        columns.append(pa.array(repeated.tolist(), schema.field(name).type))
    columns.append(pa.array(np.concatenate([np.arange(1, n + 1) for n in lengths])))
    columns.append(pa.array(np.concatenate([one.errors for one in pairs])))
    shown = np.full((sum(lengths), len(FEATURES)), np.nan, np.float32)
    for one, last in zip(pairs, np.cumsum(lengths).tolist(), strict=True):
        shown[last - len(one.errors) : last, : one.features.shape[1]] = one.features
    columns += [pa.array(column, from_pandas=True) for column in np.ascontiguousarray(shown.T)]
    bases = [one.basis for one in pairs]
    noted: list[list[Any]] = [
        [one.key.set or None for one in pairs],
        [None if each is None else each.metric.value for each in bases],
        [None if each is None else each.levels for each in bases],
        [None if each is None else each.time for each in bases],
    ]
    for name, values in zip(_BASIS, noted, strict=True):
        each = [value for value, n in zip(values, lengths, strict=True) for _ in range(n)]
        columns.append(pa.array(each, schema.field(name).type))
    return pa.Table.from_arrays(columns, schema=schema)


def read_pairs(file: BinaryIO, name: str, dataflow: str) -> Iterator[WavePairs]:
    """Yield the pairs of a file, for a dataflow.

    Args:
        file: the Parquet file.
        name: how messages call it.
        dataflow: whose pairs they become, whatever it was called where they were measured.

    Raises:
        UnusableParquet: it is no such file, or has other features.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:
        message = f"{name} is no Parquet file ({error}); give one that `--export` has written"
        raise UnusableParquet(message) from error
    version = (table.schema.metadata or {}).get(_VERSION, b"").decode(errors="backslashreplace")
    known = (_schema(), _schema(FEATURES_OF_BEFORE), _schema_without_sets())
    if version not in FEATURE_SETS or not any(table.schema.equals(each) for each in known):
        raise UnusableParquet(
            f"{name} has features {version!r} and columns "
            f"{', '.join(table.column_names[:8])}, ..., and this program computes {FEATURE_SET!r}; "
            "give a file that `--export` of this version has written"
        )
    if any(table.column(one).null_count for one in _schema_without_sets().names):
        raise _incomplete(name)
    yield from _waves(table, name, dataflow)


def _waves(table: pa.Table, name: str, dataflow: str) -> Iterator[WavePairs]:
    names = [column.to_pylist() for column in table.select(list(_KEYS)).columns]
    ages = table.column("pair_age").to_numpy()
    measured = table.column("error").to_numpy()
    features = [one for one in FEATURES if one in table.column_names]
    shown = np.stack([table.column(one).to_numpy() for one in features], axis=1)
    noted = [
        table.column(one).to_pylist() if one in table.column_names else [None] * len(table)
        for one in _BASIS
    ]
    keys = [
        PairKey(dataflow, output, container, submitted, wave, alike or "")
        for output, container, submitted, wave, alike in zip(*names[1:], noted[0], strict=True)
    ]
    for key, group in groupby(range(len(keys)), keys.__getitem__):
        places = list(group)
        if ages[places].tolist() != list(range(1, len(places) + 1)):
            raise UnusableParquet(
                f"{name}: ages of output {key.output}, wave {key.wave} are not 1 to "
                f"{len(places)} in their order; give a file that `--export` has written"
            )
        basis = _basis([column[places[0]] for column in noted[1:]], name, key)
        yield WavePairs(key, _shown(shown[places], name), measured[places], basis)


def _shown(values: npt.NDArray[np.floating[Any]], name: str) -> npt.NDArray[np.float32]:
    """Return the features of a wave's pairs, (a, k), without those that none of them has."""
    table = values.astype(np.float32)
    fewer = len(FEATURES_OF_BEFORE)
    if np.isnan(table[:, fewer:]).all():
        return table[:, :fewer]
    if np.isnan(table[:, fewer:]).any():
        raise _incomplete(name)
    return table


def _incomplete(name: str) -> UnusableParquet:
    message = f"{name} has rows without a value; give a file that `--export` has written"
    return UnusableParquet(message)


def _basis(noted: list[Any], name: str, key: PairKey) -> PairBasis | None:
    if any(value is None for value in noted):
        return None
    metric, levels, time = noted
    if metric not in set(ErrorMetric) or len(levels) != LEVELS or not np.isfinite(levels).all():
        raise UnusableParquet(
            f"{name}: metric {metric!r} or levels of output {key.output}, wave {key.wave} are "
            "none; give a file that `--export` has written"
        )
    return PairBasis(ErrorMetric(metric), tuple(levels), time)
