"""The program that computes users' metrics: ``python metric_program.py SECONDS ROOT...``.

It reads questions from its input and writes an answer to each to its output, both as frames of a
length and MessagePack. What metrics print goes to the log, its error output. It is run as a file,
so that it loads nothing of the agent.

A metric is a class with ``compute(total, m, n)``, m being the number of changed cells and n that of
all. The total comes of ``process_element(current, previous)`` for each changed cell and of
``aggregate(a, b)`` for any two of these results; or of ``process_batch(current, previous)``, which
takes two Arrow arrays and gives the total of a batch; ``aggregate`` is needed then, too, where a
container is in several tables. A missing value is 0, or None where values are opaque.
"""

from __future__ import annotations

import math
import struct
import traceback
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any

import msgspec

from headgate.agent.children.program import serve
from headgate.engine import ChangedValues, MetricAnswer, MetricQuestion

Load = Callable[[str], Any]
"""Returns the object that ``module:Class`` makes."""


class UnfitMetric(Exception):
    """The class is not there, or lacks a method."""


class LoadedMetrics:
    """The users' metrics of one process, each imported and made once."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __call__(self, entry: str) -> Any:
        """Return a metric.

        Raises:
            UnfitMetric: it is not there, or is no metric.
        """
        if entry not in self._made:
            self._made[entry] = _made(entry)
        return self._made[entry]


def _made(entry: str) -> Any:
    module, _, name = entry.partition(":")
    made = getattr(import_module(module), name, None)
    if made is None:
        raise UnfitMetric(f"module `{module}` has no class `{name}`")
    metric = made()
    if not hasattr(metric, "compute"):
        raise UnfitMetric(f"`{entry}` has no `compute(total, m, n)`")
    if not hasattr(metric, "process_batch"):
        for method in ("process_element(current, previous)", "aggregate(a, b)"):
            if not hasattr(metric, method.partition("(")[0]):
                raise UnfitMetric(f"`{entry}` has neither `{method}` nor `process_batch`")
    return metric


def answer_of(question: MetricQuestion, load: Load) -> MetricAnswer:
    """Return what a metric gives; whatever goes wrong is the answer's ``failure``."""
    try:
        amount = _amount(question, load(question.entry))
    except UnfitMetric as error:
        return _failure(question, str(error))
    except BaseException as error:  # noqa: BLE001 -- code of users may raise anything, exits too
        return _failure(question, f"`{question.entry}` raised {_described(error)}")
    return MetricAnswer(question.bound, question.version, amount)


def _amount(question: MetricQuestion, metric: Any) -> float:
    totals = [_total(part, metric) for part in question.parts if len(part)]
    total = reduce(metric.aggregate, totals) if len(totals) > 1 else totals[0]
    changed = sum(map(len, question.parts))
    amount = metric.compute(total, changed, question.elements)
    try:
        number = float(amount)
    except (TypeError, ValueError):
        raise UnfitMetric(f"`{question.entry}` gave {amount!r:.100}, which is no number") from None
    if math.isnan(number):
        raise UnfitMetric(f"`{question.entry}` gave NaN")
    return number


def _total(part: ChangedValues, metric: Any) -> Any:
    if hasattr(metric, "process_batch"):
        return metric.process_batch(_arrow(part.current), _arrow(part.previous))
    pairs = zip(_values(part.current), _values(part.previous), strict=True)
    return reduce(metric.aggregate, (metric.process_element(x, before) for x, before in pairs))


def _values(column: bytes | list[bytes | None]) -> Any:
    if isinstance(column, list):
        return column
    return struct.unpack(f"<{len(column) // 8}d", column)


def _arrow(column: bytes | list[bytes | None]) -> Any:
    import pyarrow as pa  # only metrics that want it need it

    if isinstance(column, list):
        return pa.array(column, pa.binary())
    return pa.Array.from_buffers(pa.float64(), len(column) // 8, [None, pa.py_buffer(column)])


def _failure(question: MetricQuestion, words: str) -> MetricAnswer:
    return MetricAnswer(question.bound, question.version, None, words)


def _described(error: BaseException) -> str:
    """Return an error with the place in the user's code from where it came."""
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
    return f"{words} ({own[-1].filename}, line {own[-1].lineno})" if own else words


def answering() -> Callable[[bytes], bytes]:
    """Return what answers questions by metrics that are each imported once."""
    metrics, decoder = LoadedMetrics(), msgspec.msgpack.Decoder(MetricQuestion)
    return lambda question: msgspec.msgpack.encode(answer_of(decoder.decode(question), metrics))


if __name__ == "__main__":
    serve(answering())
