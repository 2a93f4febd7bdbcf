"""Bounds on the container of a pair, and what the engine measures of them."""

from headgate.engine import Bound, Metric, SequenceBound, SequenceUnit, ValueBound
from headgate.events import ContainerId

IN = ContainerId("in")


def updates(limit: float, *, distinct: bool = False) -> Bound:
    return Bound("k", IN, sequence=SequenceBound(limit, distinct=distinct))


def percent(limit: float, *, distinct: bool = False) -> Bound:
    return Bound("k", IN, sequence=SequenceBound(limit, SequenceUnit.PERCENT, distinct))


def value(metric: Metric, limit: float, constant: float | None = None) -> Bound:
    return Bound("k", IN, value=ValueBound(metric, limit, constant))


def measured(tester, action: str = "b") -> float | None:
    found = {a.action: a.result for a in tester.engine.explain(tester.now).actions}[action]
    while not hasattr(found, "vectors"):
        found = found.parts[0]
    return found.vectors[0].value


def settled(tester, rows, number: int = 10, amount: float = 10):
    """Write the first rows and let the step run on them, so that they are its x′."""
    tester.write("in", rows(number, amount))
    tester.request("b")
    tester.finish("b")
    return tester
